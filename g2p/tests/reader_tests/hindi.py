"""How Hindi is read beside espeak-ng, and numbers beside the words in which they are said.

    python -m reader_tests.hindi  # differences on stderr; the last line is one JSON object

The files of data/hindi were written by one who saw neither tables nor code. At first sight 96.28 %
of 1,101 words were espeak-ng's, and 48 of 50 lines with numbers right. Since then the files are
cases that must not get worse.
"""

import json
import sys
import unicodedata
from collections import Counter
from pathlib import Path

from kokoro_g2p import G2P
from kokoro_g2p.espeak import open_espeak
from kokoro_g2p.splitting import cut_placed_sentences

DATA = Path(__file__).parents[1] / "data" / "hindi"


def bare(words):
    """Words without marks at their ends (espeak-ng's `r.` has one), combining marks apart."""
    plain = (unicodedata.normalize("NFD", word).rstrip(".,?!") for word in words)
    return Counter(word for word in plain if word)


def compare_sentences(g2p):
    """Percent of words that are espeak-ng's."""
    ask = open_espeak("hi")
    equal = count = 0
    for text in (DATA / "sentences.txt").read_text(encoding="utf-8").splitlines():
        words = [word.phonemes for word in g2p.phonemize(text).words if word.source == "rule"]
        ours, theirs = bare(words), bare(ask(text).split())
        equal += (ours & theirs).total()
        count += theirs.total()
        if ours != theirs:
            print(text, *(theirs - ours), "ours:", *(ours - theirs), file=sys.stderr)
    return {"words": count, "equal": round(100 * equal / count, 2)}


def compare_numbers(g2p):
    """How many lines are said as the words beside them."""

    def said(text):
        return [
            token.text
            for offset, sentence, before, after in cut_placed_sentences(text)
            for token in g2p._prepare_sentence(
                offset, sentence, (), before, after
            ).normalized.tokens
        ]

    lines = (DATA / "numbers.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    wrong = [(text, said(text)) for text, words in rows if said(text) != said(words)]
    print(*wrong, sep="\n", file=sys.stderr)
    return {"lines": len(rows), "right": len(rows) - len(wrong)}


def main():
    """Print all figures."""
    g2p = G2P.load("hi")
    print(json.dumps({one.__name__: one(g2p) for one in (compare_sentences, compare_numbers)}))


if __name__ == "__main__":
    main()
