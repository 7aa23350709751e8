"""Italian words to Kokoro's symbols: spelling by rule, and what the spelling does not say by a
learned table of contexts.

    sounds("zucchero")           # "ʣˈukːero"

Written Italian leaves open which syllable is stressed, whether a stressed e or o is open, s or z
voiced, i or u a glide. The table (g2p/data/italian.txt.gz) answers by the letters around, the
longest context it has first; it was learned from what espeak-ng says of many words, because the
Italian voices were trained on that (commit ec85133).
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from kokoro_ane.g2p.alphabet import PRIMARY, SECONDARY
from kokoro_ane.g2p.bundled import DATA, text
from kokoro_ane.g2p.word_lists import pairs

TABLE = DATA / "italian.txt.gz"
STRESS, EDGE = "'", "#"
VOWELS = "aeiouyàèéìòóù"
SAID = pairs("à:a è:ɛ é:e ì:i ò:ɔ ó:o ù:u")
# Letters to the sounds they may be, the first that fits; one choice is certain, of several the
# table chooses.
SPELLINGS: tuple[tuple[str, tuple[str, ...]], ...] = tuple(
    (pattern, tuple(forms.split(",")))
    for pattern, forms in pairs(
        "gli(?=[aeou]):ʎ,ɡli gl(?=i):ʎ,ɡl gn:ɲ sci(?=[aeou]):ʃ,ʃi sc(?=[eièé]):ʃ"
        " cci(?=[aeouò]):ʧː,ʧːi cc(?=[eièéì]):ʧː cch:kː cc|cq|ck|kk:kː ci(?=[aeouàòù]):ʧ,ʧi"
        " c(?=[eièéì]):ʧ ch|c|k:k ggi(?=[aeouò]):ʤː,ʤːi gg(?=[eièéì]):ʤː ggh?:ɡː"
        " gi(?=[aeouàòù]):ʤ,ʤi g(?=[eièéì]):ʤ gh|g:ɡ q:k zz:ʦː,ʣː z:ʦ,ʣ ss:S s:s,z rr:rɾ r:r,ɾ"
        " bb:bː dd:dː tt:tː pp:pː x:ks ç:s w:v,w j:j,ʤ,i h: ñ:ɲ a:a e:e,ɛ i:i,ɪ,j y:i,ɪ,j"
        " o:o,ɔ u:u,ʊ,w"
    ).items()
)
_LETTERS = re.compile("|".join(f"({pattern})" for pattern, _ in SPELLINGS))
# How many letters before and after are looked at, each window inside the one before it.
WINDOWS = ((5, 8), (4, 6), (3, 5), (2, 4), (1, 4), (1, 3), (1, 2), (1, 1), (0, 1), (0, 0))
ENDINGS = range(12, 0, -1)  # letters at the end that tell the stress


@dataclass(frozen=True)
class Unit:
    """Some letters of a word from `start`, and what they may be said as."""

    start: int
    letters: str
    choices: tuple[str, ...]

    @property
    def vowel(self) -> bool:
        """Whether the unit is a vowel letter."""
        return self.letters in VOWELS


def units(word: str) -> list[Unit]:
    """A word in lower case cut into units."""
    units, place = [], 0
    while place < len(word):
        match = _LETTERS.match(word, place)
        if match:
            units.append(Unit(place, match[0], SPELLINGS[(match.lastindex or 1) - 1][1]))
        else:
            units.append(Unit(place, word[place], (SAID.get(word[place], word[place]),)))
        place += len(units[-1].letters)
    return units


def endings(word: str) -> Iterator[str]:
    """Keys of the stress, the longest first: the end of the word."""
    edged = EDGE + word
    for size in (len(edged), *(size for size in ENDINGS if size < len(edged)), 0):
        yield STRESS + edged[len(edged) - size :]


def contexts(word: str, unit: Unit, where: str) -> Iterator[str]:
    """Keys of a choice, the fullest first. `where`: before (<), at (=) or after (>) the stress."""
    edged, start = EDGE + word + EDGE, unit.start + 1
    end = start + len(unit.letters)
    for before, after in WINDOWS:
        yield (
            f"{where}{edged[max(start - before, 0) : start]}[{unit.letters}]"
            f"{edged[end : end + after]}"
        )


def whole(word: str) -> str:
    """Key of a word that is kept whole."""
    return EDGE + word + EDGE


@cache
def table() -> Mapping[str, str]:
    """The bundled choices."""
    pairs = (line.partition("\t") for line in text(TABLE).split("\n") if line)
    return {key: choice for key, _, choice in pairs}


def sounds(word: str, learned: Mapping[str, str] | None = None) -> str:
    """Kokoro's symbols of one word in lower case, stress marked; a word without a vowel letter by
    the names of its letters.
    """
    stress_table = table() if learned is None else learned
    plain = folded(word)
    head, apostrophe, tail = plain.rpartition("'")
    if apostrophe and head:
        return elided(head, tail, stress_table)
    plain = plain.strip("'")
    if whole(plain) in stress_table:
        return stress_table[whole(plain)]
    if not any(letter in VOWELS for letter in plain):
        return spelled(plain)
    cut = units(plain)
    main = stressed(plain, cut, stress_table)
    spoken = [
        _said(plain, unit, "<" if place < main else "=" if place == main else ">", stress_table)
        for place, unit in enumerate(cut)
    ]
    return "".join(
        PRIMARY + sound if place == main else sound
        for place, sound in enumerate(assimilated(cut, spoken, main))
    )


def elided(head: str, tail: str, stress_table: Mapping[str, str]) -> str:
    """l'amico, dell'arte, c'è: one word; what stands before the apostrophe sounds as before the
    vowel behind it. po' keeps its stress.
    """
    if not tail:
        return sounds(head, stress_table)
    bare = folded(tail)
    full = sounds(
        head.replace("'", "") + (plain_vowel(bare[0]) if bare[0] in VOWELS + "h" else "o"),
        stress_table,
    )
    return weakened(re.sub("[aeiouɛɔɪʊ]ː?$", "", full), "") + sounds(tail, stress_table)


def plain_vowel(letter: str) -> str:
    """A vowel letter without its accent; what follows a silent h counts as a."""
    return "a" if letter == "h" else unicodedata.normalize("NFD", letter)[0]


def stressed(word: str, cut: Sequence[Unit], stress_table: Mapping[str, str]) -> int:
    """Place of the stressed unit: the accent's, else as the longest known ending says, counted in
    vowel letters from the end.
    """
    vowels = [place for place, unit in enumerate(cut) if unit.vowel]
    if not vowels:  # gli, ci: the i is in the unit
        return len(cut) - 1
    accented = [place for place in vowels if cut[place].letters in SAID]
    if accented:
        return accented[-1]
    number = int(next((stress_table[key] for key in endings(word) if key in stress_table), "2"))
    return vowels[max(len(vowels) - number, 0)]


def _said(word: str, unit: Unit, where: str, stress_table: Mapping[str, str]) -> str:
    if len(unit.choices) == 1:
        return unit.choices[0]
    return next(
        (stress_table[key] for key in contexts(word, unit, where) if key in stress_table),
        unit.choices[0],
    )


def assimilated(cut: Sequence[Unit], spoken: Sequence[str], main: int) -> list[str]:
    """n as what follows it, gn long behind the stress."""
    sounds_out = list(spoken)
    for place, unit in enumerate(cut):
        after = spoken[place + 1][:1] if place + 1 < len(spoken) else ""
        if unit.letters == "n" and after in ("ɡ", "ʣ"):
            sounds_out[place] = "ŋ"
        elif unit.letters == "gn" and place == main + 1:
            sounds_out[place] = "ɲɲ"
    return sounds_out


def folded(word: str) -> str:
    """Letters beyond Italian without their marks (façade, München)."""
    letters_kept = "".join(SAID) + "çñ"
    return "".join(c if c in letters_kept else unicodedata.normalize("NFD", c)[0] for c in word)


LETTER_NAMES = pairs(
    "b:bˈi c:ʧˈi d:dˈi f:ˈɛffe g:ʤˈi h:ˈakːa j:ilˈuŋɡa k:kˈapːa l:ˈɛlle m:ˈɛmme n:ˈɛnne"
    " p:pˈi q:kˈu r:ˈɛrɾe s:ˈɛSe t:tˈi v:vˈu w:dˈopːiavˌu x:ˈiks y:ˈipsilon z:ʣˈeta a:ˈa"
    " e:ˈe i:ˈi o:ˈɔ u:ˈu"
)


def spelled(letters: str) -> str:
    """Letter by letter, as one word: the last name bears the stress."""
    names = [LETTER_NAMES[letter] for letter in letters if letter in LETTER_NAMES]
    return (
        "".join(name.replace(PRIMARY, SECONDARY) for name in names[:-1]) + names[-1]
        if names
        else ""
    )


def joined(phonemes: str, before: str, after: str) -> str:
    """A word between its neighbours: Italian words stay as they are."""
    return phonemes


def weakened(phonemes: str, mark: str) -> str:
    """A small word that loses its stress (mark "") or keeps a secondary one: u is ʊ; without any, a
    last i is ɪ, ɛ and ɔ closed.
    """
    bare = phonemes.replace(PRIMARY, mark).replace("u", "ʊ")
    return (
        bare
        if mark
        else re.sub(
            "(?<=.)i$", "ɪ", bare.replace("ɛ", "e").replace("ɔ", "o").replace(SECONDARY, "")
        )
    )
