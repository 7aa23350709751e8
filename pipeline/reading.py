"""Where the text comes from: the command line, a file, standard input; as words, or as phonemes already.

text = read_text(None, Path("book.txt"), sys.stdin.buffer)
results = PhonemeReader().sentences("həlˈO wˈɜɹld.")
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from core.errors import InputError
from g2p.result import PUNCTUATION, US, Language, Result, Source, Word

if TYPE_CHECKING:
    from g2p import G2P
    from mlprogram import Program

STDIN = "-"
_SENTENCE = re.compile(r"\s*(\S.*?(?:[.!?…]+[\"”)]*(?=\s)|(?=\n)|$))", re.DOTALL)
_WORD = re.compile(rf"[{re.escape(PUNCTUATION)}]|[^\s{re.escape(PUNCTUATION)}]+")


def read_text(argument: str | None, file: Path | None, stdin: BinaryIO) -> str:
    """`argument`, or what is in `file`, or on `stdin` where either is "-". Raises InputError: none or two, unreadable, not UTF-8."""
    if (argument is None) == (file is None):
        raise InputError("give either a text, or --file FILE, or - for standard input" + (", not both" if file else ""))
    if argument is not None and argument != STDIN:
        return _characters(argument)
    if file is None or str(file) == STDIN:
        where, data = "standard input", stdin.read()
    elif file.is_file():
        where, data = str(file), _bytes_of(file)
    else:
        raise InputError(f"{file} is a folder, not a text file" if file.is_dir() else f"{file} does not exist")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(f"{where} is not UTF-8: byte {data[problem.start]:#04x} at {problem.start}; convert it to UTF-8") from None


def _characters(argument: str) -> str:
    """Python gives a byte that is not UTF-8 as half of a surrogate pair, which no file takes."""
    half = next((place for place, character in enumerate(argument) if "\ud800" <= character <= "\udfff"), None)
    if half is not None:
        raise InputError(f"the text is not UTF-8: {ascii(argument[half])} is no character, at {half}; convert it to UTF-8")
    return argument


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise InputError(f"cannot read {file}: {problem.strerror}") from None


class Phonemizer(Protocol):
    """Text to phonemes, sentence by sentence: the first stage of the conductor."""

    def sentences(self, text: str) -> Iterator[Result]:
        """Sentences in order; offsets of their words count characters of the whole `text`."""


class TextReader:
    """The g2p stage: lexicon, rules and neural model; what was left out is told for every sentence, also for one without words."""

    def __init__(self, g2p: "G2P") -> None:
        self._g2p = g2p

    @classmethod
    def load(cls, dialect: Language, lexicon: Path | None, program: "Program | None" = None) -> "TextReader":
        """With all of g2p's stages; `program`: the executed G2P package in the place of NumPy. Raises InputError for a bad lexicon."""
        from g2p import G2P

        if program is None or dialect != US:  # the package is the American network: British runs in NumPy, other languages by rule
            return cls(G2P.load(dialect, lexicon))
        from g2p.lexicon import Lexicon
        from g2p.lexicon_user import read_user_lexicon
        from g2p.neural import NeuralG2P
        from g2p.normalize import normalize
        from g2p.package import package_run
        from g2p.stages import LateHeteronyms

        lists = Lexicon.load(dialect, None if lexicon is None else read_user_lexicon(lexicon))
        return cls(G2P(normalize, lists, LateHeteronyms(), NeuralG2P(run=package_run(program))))

    def sentences(self, text: str) -> Iterator[Result]:
        """See Phonemizer."""
        return self._g2p.sentences(text, keep_empty=True)


class PhonemeReader:
    """Takes the text for phonemes: a stage in the place of g2p. A sentence ends at . ! ? … before white space, or with its line."""

    def sentences(self, text: str) -> Iterator[Result]:
        """See Phonemizer."""
        for found in _SENTENCE.finditer(text):
            words = tuple(_word(text, found.start(1) + match.start(), match[0]) for match in _WORD.finditer(found[1]))
            if words:
                joined = "".join(word.phonemes + (" " if word.space else "") for word in words)
                yield Result(found[1], joined.rstrip(), words)


def _word(text: str, start: int, symbols: str) -> Word:
    end = start + len(symbols)
    source: Source = "punctuation" if symbols in PUNCTUATION else "override"
    return Word(symbols, start, end, symbols, symbols, source, space=text[end : end + 1].isspace())
