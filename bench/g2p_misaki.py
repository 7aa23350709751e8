"""Our phonemes beside misaki's own front end: sentences judged by hand, and running text, word by word.

    python -m bench.g2p_misaki                                # over the stand-in tokenizer, in this environment
    python -m bench.g2p_misaki --reference reference.jsonl    # misaki with spaCy, run apart by bench/misaki_spacy.py

Without spaCy misaki runs over bench/misaki_stand_in.py, where parts of speech are a list of function words. Without its fallback, unknown
words are a mark: with --reference they are counted apart. The last line of stdout is one JSON object.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import EXIT_GOOD, InputError, run_cli
from g2p.alphabet import without_stress

if TYPE_CHECKING:
    from bench.misaki_stand_in import Misaki
    from g2p import G2P

ROOT = Path(__file__).resolve().parents[1]
SENTENCES = ROOT / "tests" / "data" / "g2p" / "sentences.tsv"
TEXTS = ROOT / "core" / "data"


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


UNKNOWN = "❓"
MARKS = re.compile(r"[“”\"();:,.!?—…]")
WEAK_VOWELS = re.compile("(?<![ˈˌ])[ɪᵻəɛᵊ]")


_LETTER_NAMES = "A bi si di i ɛf ʤi Aʧ I ʤA kA ɛl ɛm ɛn O pi kju ɑɹ ɛs ti ju vi dʌbᵊlju ɛks wI zi"
SPELLED = re.compile(f"(?:{'|'.join(sorted(_LETTER_NAMES.split(), key=len, reverse=True))}){{2,}}[zs]?")


def kind_of(ours: str, others: str) -> str:
    """What a difference is about."""
    if (ours, others) == ("tʊ", "tə"):
        return "to before a, an"
    bare, other = without_stress(ours), without_stress(others)
    if bool(SPELLED.fullmatch(bare)) != bool(SPELLED.fullmatch(other)):
        return "capitals: a word or letters"
    if bare == other:
        word = bare.removesuffix("s")
        return word.replace("ðæt", "that").replace("ɪn", "in") + ", stress" if word in ("ðæt", "ɪn") else "stress alone"
    if WEAK_VOWELS.sub("ə", ours) == WEAK_VOWELS.sub("ə", others):
        return "weak vowels"
    return "several words for one" if " " in ours or " " in others or not ours or not others else "other sounds"


def with_spacy(path: Path) -> int:
    """Our words beside those of a reference file: alike, unknown to misaki, and what the others are about."""
    from g2p import G2P

    g2p, words, alike, unknown = G2P.load(), 0, 0, 0
    different: Counter[tuple[str, str]] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        ours, others = (MARKS.sub(" ", text).split() for text in (g2p.phonemize(row["text"]).phonemes, row["phonemes"]))
        words += len(others)
        for tag, a, b, c, d in SequenceMatcher(None, ours, others, autojunk=False).get_opcodes():
            if tag == "equal":
                alike += b - a
            elif any(UNKNOWN in word for word in others[c:d]):
                unknown += d - c
            elif b - a == d - c:
                different.update(zip(ours[a:b], others[c:d], strict=True))
            else:
                different[" ".join(ours[a:b]), " ".join(others[c:d])] += max(1, d - c)
    kinds = Counter[str]()
    for (one, other), count in different.items():
        kinds[kind_of(one, other)] += count
    known = words - unknown
    print(f"{alike} of {known} words that misaki knows are alike ({alike / known:.2%}); {unknown} more it does not know")
    print("differences: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    print("commonest (ours, misaki): " + ", ".join(f"{one} {other} {count}" for (one, other), count in different.most_common(25)))
    print(json.dumps({"words": words, "alike": alike, "unknown": unknown, "kinds": kinds}))
    return EXIT_GOOD


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.g2p_misaki", description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, help="what bench/misaki_spacy.py wrote")
    arguments = parser.parse_args(argv)
    if arguments.reference is not None:
        if not arguments.reference.is_file():
            raise InputError(f"{arguments.reference} does not exist: bench/misaki_spacy.py writes it, in an environment of its own")
        return with_spacy(arguments.reference)
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
