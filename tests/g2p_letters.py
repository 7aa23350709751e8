"""How French and Portuguese are read beside espeak-ng: words that no tree has seen, by the trees alone, and sentences, by everything.

python -m tests.g2p_letters fr [--seed 0]     # differences on stderr; the last line is one JSON object
"""

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.espeak import espeak_of
from kokoro_ane.g2p.languages.letter_reader import LETTER_LANGUAGES
from training.grow_trees import frequent_words, held_out

SENTENCES = Path(__file__).parent / "data" / "sentences"


def same(found: list[str], wanted: list[str]) -> float:
    """Percent of pairs that are equal."""
    return round(100 * sum(one == other for one, other in zip(found, wanted, strict=True)) / len(wanted), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=tuple(LETTER_LANGUAGES))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    language, g2p = LETTER_LANGUAGES[arguments.language], G2P.load(arguments.language)
    ask, unseen = espeak_of(language.espeak), held_out(frequent_words(arguments.language), arguments.seed)
    wanted = [ask(word).removeprefix("@") for word in unseen]
    found = [language.joined(language.ruled(word), "", "") for word in unseen]
    pairs = list(zip(unseen, found, wanted, strict=True))
    texts = (SENTENCES / f"{language.name}.txt").read_text(encoding="utf-8").splitlines()
    sides = [g2p.phonemize(text).phonemes for text in texts], [ask(text).replace("@", "") for text in texts]
    ours, theirs = ([re.sub("[^\\w ˈˌː\u0303]", "", text).split() for text in side] for side in sides)
    pairs += [(text, " ".join(one), " ".join(other)) for text, one, other in zip(texts, ours, theirs, strict=True)]
    print(*(f"{text}\n    {one}\n    {other}" for text, one, other in pairs if one != other), sep="\n", file=sys.stderr)
    right = sum((Counter(one) & Counter(other)).total() for one, other in zip(ours, theirs, strict=True))
    bare = ([re.sub("[ˈˌ]", "", word) for word in side] for side in (found, wanted))
    words, spoken = same(found, wanted), sum(map(len, theirs))
    figures = {"unseen": len(unseen), "equal": words, "without stress": same(*bare)}
    print(json.dumps(figures | {"sentences": len(texts), "words": spoken, "equal words": round(100 * right / spoken, 2)}))


if __name__ == "__main__":
    main()
