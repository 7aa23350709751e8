"""Phonemes of a text in Kokoro's vocabulary.

    kokoro-g2p "Hello, world." [--explain] [--dialect us|gb] [--lexicon my.tsv]
    # streamed, one line a sentence; without text and --file: stdin
    kokoro-g2p --file book.txt

Exit 0: something to say. Exit 2: bad input. A pipe's last line is one JSON object; `phonemes` there
is null beyond 100,000 symbols.
"""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.errors import InputError

if TYPE_CHECKING:
    from kokoro_g2p.phonemizer import G2P
    from kokoro_g2p.result import Result, Word

BLOCK_BYTES = 1 << 16
SHOWN_SYMBOLS = 100_000  # phonemes the last line repeats
COLUMNS = ("text", "spoken", "phonemes", "source", "confidence", "place")


@dataclass
class Summary:
    """Counts of what was spoken, for the last line."""

    sentences: int = 0
    words: int = 0
    symbols: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    phonemes: list[str] = field(default_factory=list)

    def add(self, result: "Result") -> None:
        """Count one sentence."""
        self.dropped.update(result.dropped)
        if not result.words:
            return
        self.sentences += 1
        self.words += len(result.words)
        self.symbols += len(result.phonemes)
        self.sources.update(word.source for word in result.words)
        if self.symbols <= SHOWN_SYMBOLS:
            self.phonemes.append(result.phonemes)

    def report(self, dialect: str) -> dict[str, Any]:
        """The JSON object of the last line."""
        shown = " ".join(self.phonemes) if self.symbols <= SHOWN_SYMBOLS else None
        return {
            "dialect": dialect,
            "sentences": self.sentences,
            "words": self.words,
            "symbols": self.symbols,
            "sources": self.sources,
            "dropped": self.dropped,
            "phonemes": shown,
        }


def build_parser() -> CommandParser:
    """Return the parser of the command's flags."""
    parser = CommandParser("kokoro-g2p", __doc__)
    parser.add_argument("text", nargs="?", help="what to say; `-` or nothing: read stdin")
    parser.add_argument("--file", type=Path, help="UTF-8 text of any size")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="a table of every word: spoken form, phonemes, source, confidence, place; the"
        " grammar's rows; what decided heteronyms",
    )
    parser.add_argument(
        "--dialect",
        default="us",
        help="us, gb, es, it, fr, pt, zh, hi, ja; also en-us ... (default: us)",
    )
    parser.add_argument(
        "--lexicon", type=Path, help="your own words: TSV (word, tab, phonemes) or JSON"
    )
    return parser


def decode_stream(stream: BinaryIO, name: str) -> Iterator[str]:
    """Pieces of a UTF-8 stream. Raises InputError on a wrong encoding or binary content, naming the
    byte.
    """
    import codecs

    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    place = 0
    while True:
        try:
            block = stream.read(BLOCK_BYTES)
        except OSError as problem:  # a disk that fails, a file of the system's: without its name
            raise InputError(f"cannot read {name}: {problem.strerror}") from None
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as problem:
            raise InputError(
                f"{name} is not UTF-8 text (near byte {place + problem.start}): convert it, for"
                " example with iconv"
            ) from None
        if "\0" in text:
            raise InputError(
                f"{name} is binary, not text: a zero byte stands near byte"
                f" {place + text.index(chr(0))}"
            )
        place += len(block)
        if text:
            yield text
        if not block:
            return


def read_pieces(options: Namespace, stack: ExitStack) -> Iterable[str]:
    """The text in pieces: of the argument, the file or stdin."""
    if options.text not in (None, "-"):
        return [options.text]
    if options.file is None:
        return decode_stream(sys.stdin.buffer, "stdin")
    if not options.file.is_file():
        raise InputError(f"{options.file} is no file: give a UTF-8 text")
    try:
        stream: BinaryIO = stack.enter_context(options.file.open("rb"))
    except OSError as problem:
        raise InputError(f"cannot read {options.file}: {problem.strerror}") from None
    return decode_stream(stream, str(options.file))


def print_words(result: "Result") -> None:
    """A table of one sentence; a terminal folds what is wider."""
    rows = [COLUMNS, *map(_describe_word, result.words)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _describe_word(word: "Word") -> tuple[str, ...]:
    is_itself = word.source in ("override", "punctuation") or word.spoken == word.text
    return (
        visible(word.text),
        "" if is_itself else visible(word.spoken),
        word.phonemes,
        word.source,
        f"{word.confidence:.2f}",
        f"{word.start}:{word.end}",
    )


def visible(text: str) -> str:
    """The text as any terminal can print it: lone surrogates escaped, line breaks as spaces."""
    return " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").split())


def explain_sentence(result: "Result", g2p: "G2P") -> Iterator[str]:
    """The grammar's rows that read a sentence, and those that matched less, none where a language
    has no such rows; then what spoke most for the sense of each heteronym.
    """
    from kokoro_g2p.overrides import extract

    grammar = g2p.grammar
    if grammar is not None:
        yield from grammar.explain(extract(result.text).text)
    words = [word.spoken for word in result.words]
    for place, word in enumerate(result.words):
        if word.source not in ("punctuation", "pause", "override"):
            reasons = g2p.reasons(words, place)
            if reasons:
                yield f"{word.text} {word.phonemes} by {', '.join(reasons[:4])}"


@command
def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = build_parser().parse_args(argv)
    if options.file and options.text is not None:
        raise InputError("give a text or --file, not both")
    from kokoro_g2p.phonemizer import G2P

    summary = Summary()
    with ExitStack() as stack:
        text = read_pieces(options, stack)
        g2p = G2P.load(options.dialect, options.lexicon)
        for result in g2p.sentences(text, keep_empty=True):
            summary.add(result)
            if result.words:
                print(result.phonemes)
                if options.explain:
                    print_words(result)
                    for line in explain_sentence(result, g2p):
                        print(line)
    if not summary.words:
        left = ", ".join(f"{count} {name}" for name, count in sorted(summary.dropped.items()))
        raise InputError(
            f"nothing to say: {'only ' + left if left else 'the text is empty'}; give words,"
            " numbers or abbreviations in English"
        )
    if summary.dropped:
        print(
            "dropped: "
            + ", ".join(f"{count} {name}" for name, count in sorted(summary.dropped.items())),
            file=sys.stderr,
        )
    meaning = f"{summary.symbols} phonemes; sentences: {summary.sentences}"
    return conclude(options, summary.report(options.dialect), EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
