"""Spanish and Italian against espeak-ng, which the voices were trained on: words, and running text where a folder of it is given.

    python -m bench.g2p_languages [--languages es,it] [--table italian_held.txt.gz] [--prose es=FOLDER]

Words: of the 10,000 commonest (wordfreq) the half that nothing was chosen on (g2p/training/languages.py). Reference: espeak-ng through
misaki 0.9.4, in Kokoro's symbols. Percent of sounds (PER) and of words (WER) that differ. `--table`: Italian's table learned without that
half (python -m g2p.training.italian --held-out --out FILE); the bundled one has seen it. Prose: text files, sentences of letters and marks
alone and without apostrophes for accents, the half by hash that nothing was chosen on. Exit 1 when a PER is above --limit. The last
line is one JSON object.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    from g2p.rates import Rates

SENTENCE = re.compile(r"[A-Za-zÀ-ÖØ-öø-ÿ ,;:.!?¿¡']+")
MOST_SENTENCES = 2000


def sentences_of(folder: Path) -> Iterator[str]:
    """Sentences of 5 to 30 words without digits and signs, of every text file of a folder, in Unicode or Latin-1."""
    for path in sorted(file for file in folder.iterdir() if file.is_file() and not file.is_symlink() and file.suffix != ".dat"):
        content = path.read_bytes()
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        for piece in text.split("\n%\n"):
            for sentence in re.split(r"(?<=[.!?])\s+", " ".join(piece.split())):
                if SENTENCE.fullmatch(sentence) and 5 <= len(sentence.split()) <= 30 and not re.search("[A-Z]{2}|[aeiou]'", sentence):
                    yield sentence


def reader_of(language: str, table: Path | None) -> Callable[[str], str]:
    """One word to phonemes."""
    from g2p.languages import italian
    from g2p.languages.registry import LANGUAGES

    if table is None or language != "it":
        return LANGUAGES["it" if language == "it" else "es"].sounds
    known = italian.read_table(table)
    return lambda word: italian.sounds(word, known)


def judge_prose(language: str, folder: Path) -> tuple["Rates", int]:
    """Whole sentences, marks left out, as one string each: rates, and how many words."""
    from g2p import G2P
    from g2p.rates import error_rates
    from g2p.training.languages import espeak, judged

    texts = [sentence for sentence in sentences_of(folder) if judged(sentence)][:MOST_SENTENCES]
    if not texts:
        raise InputError(f"{folder} holds no sentence of letters and marks alone")
    g2p = G2P.load(language)
    said, wanted = ([_bare(text) for text in side] for side in ([g2p.phonemize(text).phonemes for text in texts], espeak(language, texts)))
    pairs = [(ours.split(), other.split()) for ours, other in zip(said, wanted, strict=True)]
    alike = [(ours, other) for ours, other in pairs if len(ours) == len(other)]
    rates = error_rates([word for ours, _ in alike for word in ours], [word for _, other in alike for word in other])
    return rates, sum(len(other) for _, other in pairs)


def _bare(phonemes: str) -> str:
    return re.sub(r"[^\w ˈˌː]", "", phonemes)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.g2p_languages", description=__doc__.splitlines()[0])
    parser.add_argument("--languages", type=lambda text: tuple(text.split(",")), default=("es", "it"), help="default: es,it")
    parser.add_argument("--table", type=Path, help="another table of Italian than the bundled one")
    parser.add_argument("--prose", action="append", default=[], metavar="LANGUAGE=FOLDER", help="also running text")
    parser.add_argument("--limit", type=float, default=5.0, help="PER in per cent that words may reach (default: %(default)s)")
    parser.add_argument("--examples", type=int, default=20, help="differing words shown (default: %(default)s)")
    arguments = parser.parse_args(argv)
    unknown = [language for language in arguments.languages if language not in ("es", "it")]
    if unknown:
        raise InputError(f"--languages {unknown[0]}: es or it")
    from rich.console import Console
    from rich.table import Table

    from g2p.rates import error_rates
    from g2p.training.languages import COMMONEST, espeak, frequent_words, judged

    table = Table("language", "words", "PER / WER", "with stress", title="against espeak-ng in Kokoro's symbols")
    figures: dict[str, Any] = {}
    for language in arguments.languages:
        words = [word for word in frequent_words(language, COMMONEST) if judged(word)]
        read = reader_of(language, arguments.table)
        found, wanted = [read(word) for word in words], espeak(language, words)
        figures[language] = _row(table, language, f"{len(words)} frequent", error_rates(found, wanted))
        wrong = [(word, one, other) for word, one, other in zip(words, found, wanted, strict=True) if one != other]
        print(language, *(f"{word}: {one} {other}" for word, one, other in wrong[: arguments.examples]), sep="\n    ")
    for given in arguments.prose:
        language, _, folder = given.partition("=")
        rates, count = judge_prose(language, Path(folder))
        figures[f"{language} prose"] = _row(table, language, f"{count} of prose", rates)
    Console().print(table)
    reached = all(figures[language]["per"] <= arguments.limit for language in arguments.languages)
    print(json.dumps({"reached": reached, **figures}))
    return EXIT_GOOD if reached else EXIT_REJECTED


def _row(table: Any, language: str, words: str, rates: "Rates") -> dict[str, float]:
    cells = f"{rates.per:.2f} / {rates.wer:.2f}", f"{rates.stressed_per:.2f} / {rates.stressed_wer:.2f}"
    table.add_row(language, words, *cells)
    return {name: round(getattr(rates, name), 2) for name in ("words", "per", "wer", "stressed_per", "stressed_wer")}


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
