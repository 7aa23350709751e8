"""Our phonemes beside misaki's own front end: sentences judged by hand, and running text, word by word.

    python -m bench.g2p_misaki

misaki runs over the stand-in tokenizer of bench/misaki_stand_in.py (its spaCy model is in no registry), so parts of speech are a list of
function words there; without its fallback, unknown words are a mark. The last line of stdout is one JSON object.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import EXIT_GOOD, run_cli

if TYPE_CHECKING:
    from bench.misaki_stand_in import Misaki
    from g2p import G2P

ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ROOT / "tests" / "data" / "g2p" / "sentences.tsv"
TEXTS = ROOT / "pipeline" / "demo" / "data"


def theirs(misaki: "Misaki", text: str) -> str:
    """misaki's phonemes of one sentence."""
    return misaki._g2p(text)[0].strip()


def same_words(ours: Sequence[str], others: Sequence[str]) -> int:
    """How many words stand in both, in order."""
    return sum(block.size for block in SequenceMatcher(None, ours, others, autojunk=False).get_matching_blocks())


def by_hand(misaki: "Misaki") -> tuple[int, int]:
    """Sentences judged by hand: how many, and how many misaki says alike; the others are printed."""
    rows = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    alike = 0
    for text, wanted in rows:
        found = theirs(misaki, text)
        alike += found == wanted
        if found != wanted:
            print(f"{text}\n    wanted {wanted}\n    misaki {found}")
    return len(rows), alike


def running(g2p: "G2P", misaki: "Misaki") -> tuple[int, int, Counter[tuple[str, str]]]:
    """Words of the demo's texts, words said alike, and the commonest differences."""
    words = alike = 0
    different: Counter[tuple[str, str]] = Counter()
    for path in sorted(TEXTS.glob("*.txt")):
        for result in g2p.sentences(path.read_text(encoding="utf-8")):
            ours, others = result.phonemes.split(" "), theirs(misaki, result.text).split(" ")
            words, alike = words + len(ours), alike + same_words(ours, others)
            if len(ours) == len(others):
                different.update((one, other) for one, other in zip(ours, others, strict=True) if one != other)
    return words, alike, different


def run(argv: list[str] | None) -> int:
    """The command itself."""
    argparse.ArgumentParser(prog="bench.g2p_misaki", description=__doc__.splitlines()[0]).parse_args(argv)
    from bench.misaki_stand_in import Misaki
    from g2p import G2P

    misaki = Misaki(british=False)
    sentences, sentences_alike = by_hand(misaki)
    words, alike, different = running(G2P.load(), misaki)
    print(f"{sentences_alike} of {sentences} sentences judged by hand are alike")
    print(f"{alike} of {words} words of running text are alike ({alike / words:.2%})")
    print(
        "commonest differences (ours, misaki): " + ", ".join(f"{one} {other} {count}" for (one, other), count in different.most_common(25))
    )
    print(json.dumps({"sentences": sentences, "sentences_alike": sentences_alike, "words": words, "words_alike": alike}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
