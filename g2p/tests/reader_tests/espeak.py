"""How the four languages are read beside espeak-ng: whole sentences, and words that the network has
not seen.

    python -m reader_tests.espeak fr  # differences on stderr; the last line is one JSON object

NAME_sealed.txt: by a writer who saw no code, measured before anything was mended on it.
"""

import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

from kokoro_g2p import G2P
from kokoro_g2p.espeak import open_espeak
from kokoro_g2p.languages.language import LANGUAGES
from kokoro_g2p.languages.reader import LanguageReader
from kokoro_g2p.reading import LateNeural
from kokoro_g2p.training.languages import draw_held_out, read_frequent_words

SENTENCES = Path(__file__).parents[1] / "data" / "sentences"


def compared(texts, readings, references):
    """Percent of words that are equal, with stress and without; texts that differ go to stderr."""
    sides = [
        [re.sub("[^\\w ˈˌː\u0303]", "", text).split() for text in side]
        for side in (readings, references)
    ]
    unlike = (
        f"{text}\n    {one}\n    {other}"
        for text, one, other in zip(texts, *sides, strict=True)
        if one != other
    )
    print(*unlike, sep="\n", file=sys.stderr)
    bare = [[[re.sub("[ˈˌ]", "", word) for word in words] for words in side] for side in sides]
    count = sum(map(len, sides[1]))
    same = [
        sum((Counter(one) & Counter(other)).total() for one, other in zip(*pair, strict=True))
        for pair in (sides, bare)
    ]
    return {
        "words": count,
        "equal": round(100 * same[0] / count, 2),
        "without stress": round(100 * same[1] / count, 2),
    }


def compare_sentences(code, ending):
    """Of each file of sentences whose name ends so."""
    language, g2p = LANGUAGES[code], G2P.load(code)
    files = {
        path.stem: path.read_text(encoding="utf-8").splitlines()
        for path in sorted(SENTENCES.glob(f"{language.name}*{ending}.txt"))
    }
    ask = open_espeak(language.espeak)
    return {
        file: compared(texts, [g2p.phonemize(text).phonemes for text in texts], [*map(ask, texts)])
        for file, texts in files.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", choices=tuple(LANGUAGES))
    code = parser.parse_args().language
    language, words = LANGUAGES[code], draw_held_out(read_frequent_words(code), seed=0)
    reader = LanguageReader(language, {}, LateNeural(code))
    reader.prepare(words)
    readings = [language.joined(reader.read_unlisted(word), "", "") for word in words]
    unseen = compared(words, readings, [*map(open_espeak(language.espeak), words)])
    print(json.dumps({"unseen": unseen} | compare_sentences(code, "")))


if __name__ == "__main__":
    main()
