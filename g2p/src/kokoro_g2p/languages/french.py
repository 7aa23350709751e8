"""French: numbers, the grammar of the normalizer, and liaison.

french(1981)  # "mille neuf cent quatre-vingt-un"
joined("lˈe/leZ", "", "ɑ̃fˈɑ̃")  # "lez": the form inside a phrase, before a vowel
"""

import re
from collections.abc import Callable

from kokoro_g2p.alphabet import PRIMARY, SECONDARY
from kokoro_g2p.languages.forms import choose_form
from kokoro_g2p.languages.grammar import build_grammar, read_words
from kokoro_g2p.languages.language_normalizer import Normalizer
from kokoro_g2p.languages.scan import Scan
from kokoro_g2p.number_words import parse_roman
from kokoro_g2p.word_lists import parse_pairs, parse_set

FR = read_words("french")
SIZES = ((10**12, "billion"), (10**9, "milliard"), (10**6, "million"))
# Endings of feminine nouns, with which une agrees: question, liberté, journée.
FEMININE = re.compile(
    r"(?:tions?|tés?|ées?|ies?|ures?|ances?|ences?|ettes?|elles?|esses?|ises?|ites?|ques?"
    r"|euses?|trices?)$"
)
FEMININES = parse_set(FR["feminine"])
LATENT = parse_pairs("Z:z T:t N:n P:p R:ʁ")  # said before a vowel
SOUNDED = frozenset("aeiouyɑɔəɛøœɪɒʌɜɐʊAIQWY")
# Ten digits from 0 on, in pairs: 06 12 34 56 78
PHONE = re.compile(r"0\d(?:[ .]?\d\d){4}(?!\d)")
BLOCKED = "-"  # before a sound that takes no liaison


def french(number: int, one: str = "un") -> str:
    """A whole number from 0 to below 10^15. `one`: the form of a final one, un or une."""
    for size, name in SIZES:
        if number >= size:
            count, rest = divmod(number, size)
            # Million and the names above it are nouns with a plural: deux millions.
            return f"{french(count)} {name}{'s' * (count > 1)}" + (
                f" {french(rest, one)}" if rest else ""
            )
    if number >= 1000:
        count, rest = divmod(number, 1000)
        # Before mille neither cent nor vingt has its plural s: deux cent mille.
        head = (
            "mille"
            if count == 1
            else re.sub("(cent|vingt)s mille", r"\1 mille", f"{french(count)} mille")
        )
        return head + (f" {french(rest, one)}" if rest else "")
    if number >= 100:
        count, rest = divmod(number, 100)
        # Cent has its plural s only where nothing follows: deux cents, deux cent un.
        head = "cent" if count == 1 else f"{FR['ones'][count]} cent"
        return f"{head} {french(rest, one)}" if rest else head + "s" * (count > 1)
    if number < 20:
        return one if number == 1 else FR["ones"][number]
    tens, rest = divmod(number, 10)
    # 70 is sixty-ten and 90 four-twenty-ten, so that their ones run from 10 to 19
    rest += 10 * (tens in (7, 9))
    # Et joins un and onze up to 71 (vingt et un, soixante et onze); 81 and 91 have none.
    if rest in (1, 11) and tens < 8:
        return f"{FR['tens'][tens]} et {one if rest == 1 else FR['ones'][11]}"
    if rest:
        return f"{FR['tens'][tens]}-{one if rest == 1 else FR['ones'][rest]}"
    # Quatre-vingts has an s only where no ones follow.
    return FR["tens"][tens] + "s" * (tens == 8)


def french_ordinal(number: int, feminine: bool = False) -> str:
    """Any ordinal from 0 on."""
    if number == 1:
        return "première" if feminine else "premier"
    spoken = french(number)
    # A silent e and a plural s go before -ième: quatrième, quatre-vingtième.
    spoken = (
        spoken[:-1] if spoken.endswith(("e", "vingts", "cents", "llions", "lliards")) else spoken
    )
    # The last sound is written anew: cinquième, neuvième.
    return re.sub("cinq$", "cinqu", re.sub("neuf$", "neuv", spoken)) + "ième"


def _cardinal(number: int, following: str) -> str:
    following = following.lower()
    return french(number, "une" if following in FEMININES or FEMININE.search(following) else "un")


def _roman(value: int, before: str) -> str:
    # Of rulers only the first has an ordinal: François premier, Louis quatorze.
    return "premier" if value == 1 and before[:1].isupper() else french(value)


FRENCH = build_grammar(
    FR,
    cardinal=_cardinal,
    ordinal=french_ordinal,
    # Only the first day of a month is an ordinal: premier mai, deux mai.
    date=lambda day, month, year: (
        f"{'premier' if day == 1 else french(day)} {month}" + (f" {year}" if year else "")
    ),
    # Hours and minutes are feminine: vingt et une heures vingt et une.
    clock=lambda hour, minute: (
        f"{french(hour, 'une')} heure{'s' * (hour > 1)}"
        + (f" {french(minute, 'une')}" if minute else "")
    ),
    roman_ordinal=_roman,
)


class FrenchNormalizer(Normalizer):
    """Spanish's and Italian's, with words of several parts, 14h30, 2e, XXe and telephone numbers in
    pairs.
    """

    # Hyphens join the parts of one word: dix-huit, grand-mère.
    word = Normalizer.word.replace("'", "['-]")
    clock = r"\b(?:[01]?\d|2[0-4])(?: ?h ?|:)[0-5]\d(?::[0-5]\d)?(?!\d|[,.]\d)"
    # Endings behind a figure: 1er, 1re, 2nde, 3e, 3ème
    nth = r"|(?:ers?|[eè]?res?|nde?s?|i?[eè]?mes?|es?)\b"
    # Centuries and rulers with an ending: XXe, Ier. Le and Ce are words.
    century = r"\b(?:I(?:er|re|ère)|(?![LC]e\b)[IVXLC]+(?:[eè]me|e))\b"

    def _read_phone(self, scan: Scan, place: int) -> int:
        phone = PHONE.match(scan.text, place)
        if phone is None or scan.text[place - 1 : place].isalnum() and place:
            return place
        digits = re.sub(r"\D", "", phone[0])
        pairs = (digits[at : at + 2] for at in range(0, len(digits), 2))
        # The zero of a pair is said before its other digit: 06 is zéro six.
        spoken = (
            f"{self.grammar.digits[0]} " * (pair[0] == "0") + french(int(pair)) for pair in pairs
        )
        return scan.say(" , ".join(spoken), place, phone.end())

    def _handle_ordinal(self, scan: Scan, match: "re.Match[str]") -> None:
        marked = match[0].removeprefix(match["nth"])
        # Of the endings only re and ère are feminine: 1re is première, 1er premier.
        scan.say(
            french_ordinal(
                int(match["nth"]), "r" in marked and "e" in marked and "er" not in marked
            ),
            *match.span(),
        )

    def _handle_century(self, scan: Scan, match: "re.Match[str]") -> None:
        value = parse_roman(match[0].rstrip("erèm"))
        if value is None:
            # Letters that form no Roman numeral are a word after all.
            self._handle_word(scan, match)
        else:
            scan.say(french_ordinal(value, match[0].endswith("re")), *match.span())


def joined(reading: str, before: str, after: str) -> str:
    """The form of a reading, END/INSIDE or one for both, between its neighbours ("" at a pause)."""
    said = choose_form(reading, after)
    following = after.lstrip(PRIMARY + SECONDARY)
    # Sounds of the whole next word, without a latent consonant at its end.
    bare = following.partition("/")[0].rstrip("".join(LATENT))
    if said.endswith("nˈœf") and bare in ("ɑ̃", "œʁ"):  # neuf ans, neuf heures
        return said[:-1] + "v"
    # Liaison: a latent consonant is said before a vowel or a glide (les enfants has lez). Before an
    # h aspiré stands BLOCKED, so that les héros has none.
    if said[-1:] in LATENT and not (said == "sˈɑ̃T" and following.startswith("œ̃")):  # cent un
        first = following[:1]
        said = said[:-1] + (LATENT[said[-1]] if first in SOUNDED | {"w", "j"} else "")
    return said.rstrip("".join(LATENT)).removeprefix(BLOCKED)


def probed(word: str, ask: Callable[[str], str], common: bool) -> str:
    """A word's reading from espeak-ng's answers (`ask`) for it alone and between others, with its
    form in a phrase for common words.
    """
    end = ask(word).removeprefix("@")
    # The word stands before a vowel here and before a consonant below.
    before = ask(f"maman {word} ananas").split(" ")[1:-1]
    inside = ask(f"maman {word} maman").split(" ")[1:-1] if common else [end]
    # Where espeak-ng joins or parts the words, none can be taken for this one.
    if len(before) != 1 or len(inside) != 1:
        return end
    vowel, plain = before[0].replace("@", ""), inside[0].replace("@", "")
    # A sound that only a following vowel brings out is latent.
    latent = next((mark for mark, sound in LATENT.items() if vowel == plain + sound), "")
    opens = end.lstrip(PRIMARY + SECONDARY)[:1] in SOUNDED | {"w", "j"}
    # Mes keeps its z silent before an h aspiré only.
    first = BLOCKED if opens and not ask(f"mes {word}").startswith("mez ") else ""
    return first + end + latent if plain == end else f"{first}{end}/{first}{plain}{latent}"


# Consonants before an apostrophe: c'est, j'ai, qu'il.
ELIDED = parse_pairs("c:s d:d j:ʒ l:l m:m n:n s:s t:t qu:k")
