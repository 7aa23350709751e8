"""Spanish words to Kokoro's symbols by rule: letters, glides, stress, allophones, as the Spanish
voices heard them (Castilian).

    sounds("pingüino")           # "pˌiŋɡuˈino"

The voices were trained on espeak-ng's Spanish in misaki's symbols (A for ei, I for ai, W for au),
so its allophones are the aim: b, d, g are β, ð, ɣ between vowels, ɛ stands for a stressed e before
n and a consonant. Checked at commit ec85133.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kokoro_ane.g2p.alphabet import PRIMARY, SECONDARY
from kokoro_ane.g2p.word_lists import pairs


@dataclass(frozen=True)
class Sound:
    """One sound. `nucleus`: it makes a syllable; `letters`: what it was written as."""

    symbol: str
    nucleus: bool = False
    letters: str = ""


class Rules:
    """An ordered table of patterns and what they are said as; a letter that no pattern begins at
    stands for itself.
    """

    def __init__(self, table: Sequence[tuple[str, str]]) -> None:
        self._said = [spoken for _, spoken in table]
        self._pattern = re.compile("|".join(f"({pattern})" for pattern, _ in table))

    def __call__(self, word: str) -> list[tuple[str, str]]:
        """(sound, its letters) from left to right."""
        symbols, place = [], 0
        while place < len(word):
            match = self._pattern.match(word, place)
            if match is None or not match[0]:
                symbols.append((word[place], word[place]))
                place += 1
                continue
            spoken = self._said[(match.lastindex or 1) - 1]
            symbols += [(symbol, match[0]) for symbol in spoken]
            place = match.end()
        return symbols


def nuclei(sounds: Sequence[Sound]) -> list[int]:
    """Places of the syllables."""
    return [place for place, sound in enumerate(sounds) if sound.nucleus]


def with_stress(sounds: Sequence[Sound], marks: Mapping[int, str]) -> str:
    """The sounds in a row, a mark of stress before those in `marks`."""
    return "".join(marks.get(place, "") + sound.symbol for place, sound in enumerate(sounds))


PLAIN = pairs("á:a é:e í:i ó:o ú:u ü:u")
ACCENTS = "áéíóú"
VOWELS = "aeiouáéíóúü"
LETTERS = Rules(
    tuple(
        pairs(
            "qu(?=[eiéí]):k q:k gu(?=[eiéí]):ɡ cch:ʧ ch:ʧ ll(?=[aeiouáéíóúy]):ʎ ll:l rr:r sh:ʃ"
            " ph:f ck:k c(?=[eiéíy]):θ c:k g(?=[eiéíy]):x g:ɡ j:x zz:ʦ z:θ ñ:ɲ v:b"
            " (?<=m[eé])x(?=ic):x ^x:s x:ks ^ps:s ^gn:n tt:t ss:s ng$:ŋ y(?=[aeiouáéíóú]):ʝ y:i"
            " ç:s ^r:r (?<=[nls])r:r r:ɾ"
        ).items()
    )
)
GLIDES = {"i": "j", "u": "w"}
FALLING = pairs("ai:I au:W ei:A eu:eʊ oi:oɪ ou:ow")
SOFT = {"b": "β", "d": "ð", "ɡ": "ɣ"}
HARD_BEFORE = {"b": ("", *"bptkmn"), "d": ("", *"ptkmns"), "ɡ": ("", *"ptkmns")}
CLUSTERS = frozenset("pbtdkɡf")
LETTER_NAMES = pairs(
    "b:be c:ce d:de f:efe g:ge h:hache j:jota k:ka l:ele m:eme n:ene ñ:eñe p:pe q:cu"
    " r:erre s:ese t:te v:uve w:uve_doble x:equis y:ye z:zeta a:a e:e i:i o:o u:u"
)


def sounds(word: str) -> str:
    """Kokoro's symbols of one word in lower case, stress marked; a word without a vowel letter by
    the names of its letters.
    """
    if word.endswith("mente") and len(nuclei(syllables(word))) > 3:
        return sounds(word[: -len("mente")]) + "mˈente"  # the adjective keeps its stress
    if not re.search(f"[{VOWELS}y]", word):
        return spelled(word)
    glides = syllables(word)
    main = stressed(word, glides, nuclei(glides))
    sounds_of_word = allophones(parted(glides, main))
    places = nuclei(sounds_of_word)
    number = places.index(main) if main in places else 0
    marks = dict.fromkeys(map(places.__getitem__, secondary(number, len(places))), SECONDARY) | {
        main: PRIMARY
    }
    return with_stress(opened(sounds_of_word, places, number), marks)


def spelled(letters: str) -> str:
    """Letter by letter, as one word: the last name bears the stress."""
    names = [LETTER_NAMES[letter] for letter in letters if letter in LETTER_NAMES]
    if not names:
        return ""
    spoken = [re.sub(f"[{SECONDARY}]", "", sounds(name)) for name in names]
    softened = [
        SOFT.get(name[0], name[0]) + name[1:] if place else name
        for place, name in enumerate(spoken)
    ]
    last = re.sub("^ˈe(?=[fmnlrs]e$)", "ˈɛ", softened[-1])
    return "".join(softened[:-1]).replace(PRIMARY, SECONDARY) + last


def folded(word: str) -> str:
    """Letters beyond Spanish without their marks (são, café à la)."""
    letters_kept = "ñçü" + ACCENTS
    return "".join(c if c in letters_kept else unicodedata.normalize("NFD", c)[0] for c in word)


def syllables(word: str) -> list[Sound]:
    """Sounds with their nuclei: i and u beside another vowel are glides or the end of a diphthong,
    unless an accent parts them.
    """
    letters = LETTERS(folded(word))
    symbols: list[Sound] = []
    while letters:
        (symbol, text), rest = letters[0], letters[1:]
        after, beyond = (*(symbol for symbol, _ in rest[:2]), "", "")[:2]
        taken = 1
        if symbol not in VOWELS:
            # silent, but it parts the vowels of prohibir
            symbols += [Sound(symbol, letters=text)] if symbol != "h" else []
        elif symbol + after == "ui" and rest[0][1] == "y":
            symbols.append(Sound("uj", True, "uy"))
            taken = 2
        elif symbol in GLIDES and after and after in VOWELS:
            symbols.append(Sound(GLIDES[symbol], letters=text))
        elif symbol + after in FALLING and (not beyond or beyond not in VOWELS):
            symbols.append(Sound(FALLING[symbol + after], True, text + after))
            taken = 2
        else:
            symbols.append(Sound(PLAIN.get(symbol, symbol), True, symbol))
        letters = letters[taken:]
    return symbols


def stressed(word: str, sounds_in: Sequence[Sound], places: Sequence[int]) -> int:
    """Place of the stressed syllable: the accent's, else the last but one after a vowel, n or s,
    else the last.
    """
    accented = [place for place in places if sounds_in[place].letters[:1] in ACCENTS]
    if accented:
        return accented[0]
    return places[
        max(len(places) - (2 if re.search(f"(?:[{VOWELS}]|[^{VOWELS}]y)[nms]?$", word) else 1), 0)
    ]


def parted(sounds_in: Sequence[Sound], main: int) -> list[Sound]:
    """A glide behind rr, or behind a consonant with l or r, is a syllable of its own; the stress
    stays where it was.
    """
    spoken = list(sounds_in)
    for place in range(1, len(spoken) - 1):
        before = spoken[place - 1].symbol
        cluster = before == "r" or (
            before in "lɾ" and place > 1 and spoken[place - 2].symbol in CLUSTERS
        )
        if spoken[place].symbol in ("j", "w") and cluster:
            spoken[place] = Sound(
                "i" if spoken[place].symbol == "j" else "u", True, spoken[place].letters
            )
    return spoken


def secondary(main: int, count: int) -> list[int]:
    """Every other syllable from the first, two or more before the main stress; and the second
    behind it.
    """
    return list(range(0, main - 1, 2)) + ([main + 2] if main + 3 < count else [])


def allophones(sounds_in: Sequence[Sound]) -> list[Sound]:
    """b, d, g soft but at the beginning, behind a nasal and before some consonants; n as what
    follows it; p long before t.
    """
    spoken = []
    for place, sound in enumerate(sounds_in):
        symbol, before = sound.symbol, sounds_in[place - 1].symbol if place else ""
        after, beyond = (*(other.symbol for other in sounds_in[place + 1 : place + 3]), "", "")[:2]
        if symbol in SOFT:
            hard = not before or before in "mn" or after in HARD_BEFORE[symbol]
            symbol = symbol if hard else SOFT[symbol]
        elif symbol == "n" and (after == "b" or (after == "f" and beyond in ("l", "ɾ"))):
            symbol = "m"
        elif symbol == "n" and (after in ("ɡ", "x") or (after == "k" and not beyond)):
            symbol = "ŋ"
        elif symbol == "p" and after == "t":
            symbol = "pː"
        spoken.append(replace(sound, symbol=symbol))
    return spoken


def opened(sounds_in: Sequence[Sound], places: Sequence[int], number: int) -> list[Sound]:
    """A stressed e before n and a consonant is open, in the last two syllables."""
    place = places[number]
    after = [*(sound.symbol for sound in sounds_in[place + 1 : place + 3]), "", ""]
    closed = after[0] in ("n", "ŋ") and after[1] and after[1][0] not in "aeiouIAWjw"
    open_e = sounds_in[place].symbol == "e" and closed and number + 2 >= len(places)
    return [
        replace(sound, symbol="ɛ") if open_e and at == place else sound
        for at, sound in enumerate(sounds_in)
    ]


def joined(phonemes: str, before: str, after: str) -> str:
    """A word between its neighbours ("" at a pause): b, d, g soft but behind a nasal, n as the next
    sound, final d soft before a vowel.
    """
    first = len(phonemes) - len(phonemes.lstrip(PRIMARY + SECONDARY))
    if before and before[-1] not in "mnŋ" and phonemes[first : first + 1] in SOFT:
        phonemes = phonemes[:first] + SOFT[phonemes[first]] + phonemes[first + 1 :]
    following = after.lstrip(PRIMARY + SECONDARY)
    if phonemes.endswith("n") and following:
        if following[0] in "pb" or (following[0] == "f" and following[1:2] in ("l", "ɾ")):
            return phonemes[:-1] + "m"
        return phonemes[:-1] + ("ŋ" if following[0] == "ɡ" else "n")
    return (
        phonemes[:-1] + "ð"
        if phonemes.endswith("d") and following[:1] in set("aeiouɛAIWO")
        else phonemes
    )


def weakened(phonemes: str, mark: str) -> str:
    """A small word that loses its stress (mark "") or keeps a secondary one: its vowel is
    closed.
    """
    return phonemes.replace(PRIMARY, mark).replace("ɛ", "e")
