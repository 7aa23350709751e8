"""Words that no list has, before and after the network: two known words in one, names read by their
origin, the stress of an accent.

    split_halves("voicenote", known)         # ("voice", "note"): the network reads voi-cenote
    read_by_origin("Xiaoping")               # "ʃWpˈɪŋ": pinyin says how it is said
    with_accent("Almodóvar", "ˌɑlmOdOvˈɑɹ")  # "ɑlmOdˈOvɑɹ"

Fitted on words that CMUdict has and the other lists lack, where `split_halves` is right 78 times in
100 and the network 74; tables are g2p/data/origins.json.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kokoro_g2p.alphabet import PRIMARY, SECONDARY, VOWELS, restress
from kokoro_g2p.bundled import read_json
from kokoro_g2p.word_lists import parse_pairs, parse_set

TABLES = read_json("origins.json")
SHORT = parse_set(TABLES["short_parts"])  # words of three letters that people build others with
ENDINGS = parse_set(TABLES["endings"])  # of names and derived words: no second half
PREFIXES = parse_set(TABLES["prefixes"])  # leave the stress to what follows
SILENT_E = re.compile(r"(?:[aeiouy][^aeiouy]|[^aeiouyl]|u)e$")
CAMEL = re.compile(r"([A-Z][a-z]{2,})([A-Z][a-z]{2,})")
PLURAL = re.compile("[^s]s$")  # name|spaces, not names|paces
LEAST = 4  # letters of a half that is not among SHORT
Known = Callable[[str], bool]


def split_halves(word: str, is_listed: Known) -> tuple[str, str] | None:
    """Two words that `word` is written from, or None. `known`: whether edited lists have a word in
    small letters.
    """
    camel = CAMEL.fullmatch(word)
    if camel:
        return camel[1], camel[2]
    plain = word.lower()
    if not plain.isascii() or not plain.isalpha():
        return None
    matches = [
        (plain[:cut], plain[cut:])
        for cut in range(3, len(plain) - 2)
        if plain[cut - 1] != plain[cut]
    ]
    matches = [
        pair for pair in matches if _can_join(*pair, word == plain) and all(map(is_listed, pair))
    ]
    return max(
        matches,
        # The pair with the longer short half wins; a plural in front counts against one.
        key=lambda pair: min(map(len, pair)) - 2 * bool(PLURAL.search(pair[0])),
        default=None,
    )


def _can_join(first: str, second: str, small: bool) -> bool:
    """Halves of three letters only in a word without a capital, or behind a silent e: surnames are
    full of them by chance.
    """
    short = min(len(first), len(second)) < LEAST
    allowed = small or (len(first) >= LEAST and SILENT_E.search(first))
    return (
        second not in ENDINGS
        and all(len(half) >= LEAST or half in SHORT for half in (first, second))
        and bool(not short or allowed)
    )


def join_halves(first: str, second: str, head: str) -> str:
    """Phonemes of a word of two halves: the first bears the stress, but a prefix (over, anti)
    leaves it to the second.
    """
    if head.lower() in PREFIXES:
        return restress(first, -1) + restress(second, 2)
    return restress(first, 2) + second.replace(PRIMARY, SECONDARY)


PINYIN, JAPANESE = TABLES["pinyin"], TABLES["japanese"]
_SYLLABLE = "|".join(
    f"(?:{initials})(?:{finals})(?![aeiou])" for initials, finals in PINYIN["syllables"].items()
)
CHINESE = re.compile(rf"(?:{_SYLLABLE}){{1,3}}")
MARKED = re.compile(PINYIN["marked"])  # letters that no other name in Latin script has there
SYLLABLE = re.compile(
    "({})({})".format(
        *("|".join(sorted(PINYIN[name], key=len, reverse=True)) for name in ("initials", "finals"))
    )
)
MORA = re.compile(
    r"((?:[kgnhbpmr]y|sh|ch|ts|[kgsztdnhbpmyrwjf])?)(ou|oo|uu|ei|[aiueo])|(n)(?![aiueoy])"
    r"|([kstp])(?=\4)"
)


def read_by_origin(word: str) -> str | None:
    """American phonemes of a name that is pinyin with zh, x or q, or Japanese by one of its usual
    elements; None for others.
    """
    plain = word.lower()
    chinese = MARKED.search(plain) and CHINESE.fullmatch(plain)
    return _read_chinese(plain) if chinese else _read_japanese(plain)


def _read_chinese(word: str) -> str:
    """Pinyin as English says it; the last syllable bears the stress."""
    morae = []
    for match in SYLLABLE.finditer(word):
        initial = PINYIN["initials"][match[1]]
        final = PINYIN["finals"][match[2]]
        # ʃ and the affricates swallow a j behind them: xiao has no glide.
        morae.append(
            initial + (final[1:] if final[0] == "j" and initial and initial[-1] in "ʃj" else final)
        )
    return "".join(morae[:-1]) + restress(morae[-1], 2)


def _read_japanese(word: str) -> str | None:
    """Mora by mora, the last but one stressed."""
    morae = list(MORA.finditer(word))
    vowels = [place for place, mora in enumerate(morae) if mora[2]]
    ends = any(
        word.endswith(element) and word != element for element in JAPANESE["elements"].split()
    )
    # Every letter must belong to a mora, or the word is not Japanese.
    if not ends or "".join(mora[0] for mora in morae) != word or len(vowels) < 3:
        return None
    main = len(vowels) - 2
    spoken = ""
    for mora in morae:
        consonant, vowel = mora[1] or mora[3] or "", mora[2] or ""
        sound = JAPANESE["consonants"].get(consonant) or "".join(
            JAPANESE["consonants"].get(letter, letter) for letter in consonant
        )
        # Which of the vowels this is, -1 for a bare consonant
        number = vowels.index(morae.index(mora)) if vowel else -1
        loud = (
            PRIMARY
            if number == main
            else (
                SECONDARY
                if vowel and main > 0 and number in (0, main - 2) and main - number > 1
                else ""
            )
        )
        # An unstressed a is a schwa but at the beginning, and a final e is said.
        weak = vowel == "a" and not loud and number > 0
        last = vowel == "e" and mora is morae[-1]
        spoken += (
            sound + loud + ("ə" if weak else "A" if last else JAPANESE["vowels"].get(vowel, ""))
        )
    return spoken


@dataclass(frozen=True)
class ReadingPlan:
    """How a word is read by parts: what must be read first, and how the answers are put
    together.
    """

    parts: tuple[str, ...]
    said: Callable[[Sequence[str]], str]
    confidence: float


def plan(word: str, is_listed: Known, dialectal: Callable[[str], str]) -> ReadingPlan | None:
    """How to read a word that no list has without asking the network for all of it; None: ask the
    network.

    `dialectal` makes a dialect's phonemes of American ones.
    """
    pair = split_halves(word, is_listed)
    origin = read_by_origin(word)
    ending = name_ending(word)
    if pair:
        return ReadingPlan(pair, lambda spoken: join_halves(spoken[0], spoken[1], pair[0]), 0.78)
    if origin:
        return ReadingPlan((), lambda spoken: dialectal(origin), 0.5)
    if ending:
        head = word[: -len(ending)]
        sound = dialectal(NAME_ENDINGS[ending])
        return ReadingPlan((head,), lambda spoken: _with_name_ending(head, spoken[0], sound), 0.5)
    return None


NAME_ENDINGS: dict[str, str] = TABLES["endings_of_names"]


def name_ending(word: str) -> str:
    """The ending of a family of names (-opoulos) or of medicines (-umab) that `word` has, or
    nothing.
    """
    fits = (
        end
        for end, sound in NAME_ENDINGS.items()
        if len(word) >= len(end) + (LEAST if sound[0] == "<" else 2)
    )
    return next((end for end in fits if word.lower().endswith(end)), "")


def _with_name_ending(letters: str, head: str, ending: str) -> str:
    """The head's sounds with those of the ending; `<` puts the stress on the head's last vowel,
    which then has its full sound.
    """
    places = _find_vowels(head)
    if ending[0] == "<" and places:
        last = next((letter for letter in reversed(letters.lower()) if letter in FULL), "")
        return _move_stress(head, len(places) - 1, FULL.get(last, "")) + ending[1:]
    return (restress(head, -1) if PRIMARY in ending else head) + ending.lstrip("<")


FULL = parse_pairs("a:æ e:ɛ i:ɪ o:ɑ u:ʌ y:ɪ")  # vowels that were weak
ACUTE = re.compile("[áéíóú]")
ACCENTED = parse_pairs("á:ɑ é:A í:ɪ ó:ɔ ú:ʊ")  # the same under an accent
VOWEL_LETTERS = re.compile("[aeiouyáéíóúàèìòùâêîôûäëïöüãõ]+")


def _find_vowels(phonemes: str) -> list[int]:
    return [place for place, sound in enumerate(phonemes) if sound in VOWELS]


def _move_stress(phonemes: str, number: int, full: str = "") -> str:
    """`phonemes` with the primary stress on that vowel, which is `full` where it was weak; the old
    one becomes secondary or goes.
    """
    plain = phonemes.replace(SECONDARY, "")
    first = plain.find(PRIMARY)
    place = _find_vowels(plain)[number]
    weak = plain[place] in "əᵻᵊ" and full
    spoken = plain[:place] + PRIMARY + (full if weak else plain[place]) + plain[place + 1 :]
    if first < 0 or first == place - 1:
        return phonemes if not weak else spoken.replace(PRIMARY + PRIMARY, PRIMARY)
    # the new mark has moved what stands behind it by one
    old = first if first < place else first + 1
    between = sum(sound in VOWELS for sound in plain[first:place])
    return spoken[:old] + (SECONDARY if between > 1 else "") + spoken[old + 1 :]


def with_accent(word: str, phonemes: str) -> str:
    """`phonemes` stressed where `word` has its only acute accent (Almodóvar, Mbappé); unchanged
    where letters and vowels do not match.
    """
    # Konaté: no silent e
    phonemes += "A" if word.endswith("é") and phonemes[-1:] not in VOWELS else ""
    groups = VOWEL_LETTERS.findall(word.lower())
    places = _find_vowels(phonemes)
    marked = [number for number, group in enumerate(groups) if ACUTE.search(group)]
    fits = len(marked) == 1 and len(groups) == len(places)
    return (
        _move_stress(phonemes, marked[0], ACCENTED[ACUTE.findall(word.lower())[0]])
        if fits
        else phonemes
    )
