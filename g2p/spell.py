"""Saying a string letter by letter, the last resort that is never wrong about which characters were there.

from g2p.spell import spell
spell("FBI", letters)      # "ˌɛfbˌiˈI": one word, the last letter carries the stress
"""

import unicodedata
from collections.abc import Mapping

from g2p.alphabet import PRIMARY, SECONDARY
from g2p.symbols import restress

GROUP = 8  # letters said in one breath; a longer string gets a space, and a stressed letter, every so often
DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def fold(text: str) -> str:
    """`text` without accents and ligatures, as far as Unicode decomposes it: `café` to `cafe`; letters such as ø and ß by table."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_PLAIN))
    return "".join(character for character in decomposed if not unicodedata.combining(character))


_PLAIN = str.maketrans(
    {"ø": "o", "Ø": "O", "ß": "ss", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ð": "th", "Ð": "Th", "þ": "th", "Þ": "Th",
     "đ": "d", "Đ": "D", "ł": "l", "Ł": "L", "ı": "i", "ħ": "h", "Ħ": "H", "ŋ": "ng", "Ŋ": "Ng", "’": "'", "‘": "'", "ʼ": "'"}
)  # fmt: skip


def spell(text: str, names: Mapping[str, str]) -> str:
    """Letter names joined as misaki joins them (G2P.get_NNP): secondary stress but on the last; "" when no character has a name.

    `names`: upper-case letter or digit to its phonemes. Characters without a name are skipped; the caller counts them.
    """
    known = [names[character] for character in fold(text).upper() if character in names]
    groups = [known[start : start + GROUP] for start in range(0, len(known), GROUP)]
    return " ".join(_joined(group) for group in groups)


def _joined(letters: list[str]) -> str:
    *before, last = ("".join(restress(name, 0) for name in letters)).rsplit(SECONDARY, 1)
    return PRIMARY.join([*before, last])
