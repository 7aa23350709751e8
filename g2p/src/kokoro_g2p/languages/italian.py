"""Italian: numbers, the grammar of the normalizer, and the forms of words beside one another.

italian(1981)  # "millenovecentottantuno"
joined("dˈella/dˌella", "", "kˈaza")  # "dˌella"
"""

from kokoro_g2p.languages.forms import choose_form
from kokoro_g2p.languages.grammar import build_grammar, read_words
from kokoro_g2p.word_lists import parse_pairs, parse_set

IT = read_words("italian")
# A Roman numeral behind these nouns is an ordinal: secolo XX is ventesimo.
ORDERED = parse_set("secolo secoli parte classe sezione atto scena") | parse_set(IT["roman_first"])
IT_FEMININE = parse_set(IT["feminine"])
# what stands before an apostrophe
ELIDED = parse_pairs(
    "l:l un:ʊn dell:dell all:all nell:nell sull:sʊll dall:dall quell:kwell quest:kwest c:ʧ d:d"
    " n:n s:s m:m t:t v:v anch:ank mezz:meʣː bell:bell sant:sant nient:njent tutt:tʊtː cos:kos"
    " com:kom dov:dov quand:kwand senz:senʦ qualcun:kwalkʊn nessun:neSʊn ciascun:ʧaskʊn"
    " alcun:alkʊn coll:koll buon:bʊon grand:ɡrand altr:altr neanch:neank"
)


def italian(number: int, one: str = "uno") -> str:
    """A whole number from 0 to below LARGEST; a final tre of a longer word has its accent. `one`:
    the form of 1 itself: uno, un, una.
    """
    if number == 1:
        return one
    for size, singular, plural in IT_SIZES:
        if number >= size:
            count, rest = divmod(number, size)
            # The count and mila are one word (tremila miliardi); milioni stands apart.
            head = (
                singular
                if count == 1
                else f"{italian(count)}{'' if plural[:4] == 'mila' else ' '}{plural}"
            )
            return f"{head} {italian(rest)}" if rest else head
    word = _it_below_million(number)
    return word[:-3] + "tré" if word.endswith("tre") and word != "tre" else word


def _it_below_million(number: int) -> str:
    if number >= 1000:
        count, rest = divmod(number, 1000)
        # Everything below a million is one word: millenovecentottantuno.
        head = "mille" if count == 1 else _it_below_million(count) + "mila"
        return head + (_it_below_million(rest) if rest else "")
    if number >= 100:
        count, rest = divmod(number, 100)
        # The o of cento goes before otto and ottanta: centotto, centottanta.
        head = ("" if count == 1 else IT["ones"][count]) + (
            "cent" if rest == 8 or rest // 10 == 8 else "cento"
        )
        return head + (_it_below_million(rest) if rest else "")
    if number >= 20:
        # the last vowel of the tens goes before uno and otto: ventuno
        tens, ones = IT["tens"][number // 10], number % 10
        return (tens[:-1] if ones in (1, 8) else tens) + (IT["ones"][ones] if ones else "")
    return IT["ones"][number]


def italian_ordinal(number: int, feminine: bool = False) -> str:
    """Any ordinal from 1 on."""
    if number < len(IT["ordinals"]):
        spoken = IT["ordinals"][number]
    else:
        # An ordinal is one word, even where the cardinal has spaces.
        word = _it_below_million(number) if number < 1_000_000 else italian(number).replace(" ", "")
        # The last vowel goes before -esimo (ventunesimo), but not that of tre and sei:
        # ventitreesimo.
        spoken = (word if word.endswith(("tre", "sei")) else word[:-1]) + (
            "lesimo" if word.endswith("mila") else "esimo"
        )
    return spoken[:-1] + ("a" if feminine else "o")


IT_SIZES = (
    # 10^12 has no common name of its own: it is a thousand milliards.
    (10**12, "mille miliardi", "mila miliardi"),
    (10**9, "un miliardo", "miliardi"),
    (10**6, "un milione", "milioni"),
)


def _it_cardinal(number: int, following: str) -> str:
    # Only 1 itself agrees with its noun, and a final a counts as feminine: una casa, un libro.
    return italian(number, "uno" if not following else "una" if following.endswith("a") else "un")


def _it_roman(value: int, before: str) -> str:
    return (
        # Rulers have ordinals: Enrico VIII is ottavo, Elisabetta II seconda.
        italian_ordinal(value, before.lower() in IT_FEMININE)
        if before[:1].isupper() or before in ORDERED
        else italian(value)
    )


ITALIAN = build_grammar(
    IT,
    cardinal=_it_cardinal,
    ordinal=italian_ordinal,
    # Only the first day of a month is an ordinal: primo maggio, due maggio.
    date=lambda day, month, year: (
        f"{'primo' if day == 1 else italian(day)} {month}" + (f" {year}" if year else "")
    ),
    clock=lambda hour, minute: italian(hour, "una") + (f" e {italian(minute)}" if minute else ""),
    roman_ordinal=_it_roman,
)


def joined(reading: str, before: str, after: str) -> str:
    """A word between its neighbours: its form there."""
    return choose_form(reading, after)
