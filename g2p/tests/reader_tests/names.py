"""Words that lists lack, with every pronunciation that counts as right, and how a listener sorts
pronunciations.

The words are g2p/tests/data/{names,frequent_later,british_words,british_later}.tsv.
Forgiven is what no listener calls a mistake: secondary stress, the flap, a weak vowel's colour (ə ɪ
ᵻ ᵊ), ɑ for ɔ, vowels that merge before ɹ. Primary stress counts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "data"
PRIMARY, VOWELS, WEAK = "ˈ", "AIOQWYaeiouæɐɑɒɔəɛɜɪʊʌᵊᵻ", "ᵻᵊʌɐ"
SAME = {"ˌ": "", "T": "t", " ": "", "ː": "", "ɔɹ": "oɹ", "ɔ": "ɑ", "ɜ": "ə", "tʃ": "ʧ", "dʒ": "ʤ"}
BEFORE_R = {"əɹ": "ɚ", "ɛɹ": "Eɹ", "æɹ": "Eɹ", "Aɹ": "Eɹ", "oɹ": "Oɹ", "ɪɹ": "iɹ", "ʊɹ": "uɹ"}
Accepted = Mapping[str, Sequence[str]]


def heard(phonemes, weak_i):
    """`phonemes` as a listener sorts them; `weak_i`: what an unstressed ɪ counts as, ə or i."""
    for old, new in SAME.items():
        phonemes = phonemes.replace(old, new)
    symbols, stressed = [], False
    for symbol in phonemes:
        if not stressed:
            symbol = "ə" if symbol in WEAK else weak_i if symbol == "ɪ" else symbol
        stressed = symbol == PRIMARY or (stressed and symbol not in VOWELS)
        symbols.append(symbol)
    text = "".join(symbols).replace("ɹɹ", "ɹ")
    for old, new in BEFORE_R.items():
        text = text.replace(old, new)
    return text


def alike(one, other):
    """Whether a listener would take both for the same word."""
    return any(heard(one, weak_i) == heard(other, weak_i) for weak_i in "əi")


def rows(name):
    """Columns of each line of one file that is no comment."""
    lines = (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def read_words(name):
    """List name -> word -> accepted pronunciations, of one file. In names.tsv the first column
    names the list.
    """
    lists = {}
    for *head, word, accepted in rows(name):
        lists.setdefault(head[0] if name == "names" else name, {})[word] = accepted.split()
    return lists


def wrong(read, accepted):
    """Words said otherwise than every accepted pronunciation, with what was said."""
    readings = {word: read(word) for word in accepted}
    return {
        word: readings[word]
        for word, forms in accepted.items()
        if not any(alike(readings[word], form) for form in forms)
    }
