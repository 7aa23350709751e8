"""Numbers as Spanish and Italian words.

    spanish(21, "un")        # "veintiún": uno, before a noun un, with a feminine noun una
    italian(28)              # "ventotto"
    spanish_ordinal(3, True) # "tercera";  italian_ordinal(23) "ventitreesimo"

Names of large numbers go by millions (un billón is 10^12, un miliardo 10^9). What is 10^15 or more is said digit by digit by the caller.
"""

LARGEST = 10**15


def words(text: str) -> tuple[str, ...]:
    """The words of a line."""
    return tuple(text.split())


ES_ONES = words(
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve "
    "veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
)
ES_TENS = words("_ _ _ treinta cuarenta cincuenta sesenta setenta ochenta noventa")
ES_HUNDREDS = words("_ ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos")
ES_ORDINALS = words(
    "_ primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo undécimo duodécimo decimotercero decimocuarto "
    "decimoquinto decimosexto decimoséptimo decimoctavo decimonoveno vigésimo"
)
IT_ONES = words(
    "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciassette diciotto "
    "diciannove"
)
IT_TENS = words("_ _ venti trenta quaranta cinquanta sessanta settanta ottanta novanta")
IT_ORDINALS = words("_ primo secondo terzo quarto quinto sesto settimo ottavo nono decimo")


def spanish(number: int, one: str = "uno") -> str:
    """A whole number from 0 to below LARGEST. `one`: the form of a final one: uno, un (before a masculine noun) or una."""
    if number < 1000:
        return _es_below_1000(number, one)
    for size, singular, plural in ((10**12, "un billón", "billones"), (10**6, "un millón", "millones"), (1000, "mil", "mil")):
        if number >= size:
            count, rest = divmod(number, size)
            counted = one if size == 1000 and one == "una" else "un"
            head = singular if count == 1 else f"{spanish(count, counted)} {plural}"
            return f"{head} {spanish(rest, one)}" if rest else head
    raise AssertionError("a number of 1000 or more is 1000 or more")


def _es_below_1000(number: int, one: str) -> str:
    if number == 100:
        return "cien"
    if number > 100:
        hundreds = ES_HUNDREDS[number // 100]
        hundreds = hundreds[:-2] + "as" if one == "una" and number >= 200 else hundreds
        return f"{hundreds} {_es_below_1000(number % 100, one)}" if number % 100 else hundreds
    if number >= 30:
        tens = ES_TENS[number // 10]
        return f"{tens} y {_es_below_1000(number % 10, one)}" if number % 10 else tens
    if number % 10 == 1 and number != 11:
        return {"uno": ES_ONES[number], "un": "un" if number == 1 else "veintiún", "una": "una" if number == 1 else "veintiuna"}[one]
    return ES_ONES[number]


def spanish_ordinal(number: int, feminine: bool) -> str:
    """First to twentieth; beyond that people say the cardinal."""
    if not 1 <= number < len(ES_ORDINALS):
        return spanish(number, "una" if feminine else "uno")
    return ES_ORDINALS[number][:-1] + ("a" if feminine else "o")


def italian(number: int, one: str = "uno") -> str:
    """A whole number from 0 to below LARGEST; a final tre of a longer word has its accent. `one`: the form of 1 itself: uno, un, una."""
    if number == 1:
        return one
    for size, singular, plural in IT_SIZES:
        if number >= size:
            count, rest = divmod(number, size)
            head = singular if count == 1 else f"{italian(count)}{'' if plural[:4] == 'mila' else ' '}{plural}"
            return f"{head} {italian(rest)}" if rest else head
    word = _it_below_million(number)
    return word[:-3] + "tré" if word.endswith("tre") and word != "tre" else word


def _it_below_million(number: int) -> str:
    if number >= 1000:
        count, rest = divmod(number, 1000)
        head = "mille" if count == 1 else _it_below_million(count) + "mila"
        return head + (_it_below_million(rest) if rest else "")
    if number >= 100:
        count, rest = divmod(number, 100)
        head = ("" if count == 1 else IT_ONES[count]) + ("cent" if rest == 8 or rest // 10 == 8 else "cento")
        return head + (_it_below_million(rest) if rest else "")
    if number >= 20:
        tens, ones = IT_TENS[number // 10], number % 10
        return (tens[:-1] if ones in (1, 8) else tens) + (IT_ONES[ones] if ones else "")
    return IT_ONES[number]


def italian_ordinal(number: int, feminine: bool = False) -> str:
    """Any ordinal from 1 on."""
    if number < len(IT_ORDINALS):
        said = IT_ORDINALS[number]
    else:
        word = _it_below_million(number) if number < 10**6 else italian(number).replace(" ", "")
        said = (word if word.endswith(("tre", "sei")) else word[:-1]) + ("lesimo" if word.endswith("mille") else "esimo")
    return said[:-1] + ("a" if feminine else "o")


IT_SIZES = ((10**12, "mille miliardi", "mila miliardi"), (10**9, "un miliardo", "miliardi"), (10**6, "un milione", "milioni"))
ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def roman(text: str) -> int | None:
    """The value of a well-formed Roman numeral below 4000, else None."""
    values = [ROMAN[letter] for letter in text]
    total = sum(-value if value < max(values[place:]) else value for place, value in enumerate(values))
    return total if 0 < total < 4000 and _roman_of(total) == text else None


SIZES = tuple(zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), words("M CM D CD C XC L XL X IX V IV I"), strict=True))


def _roman_of(number: int) -> str:
    written = ""
    for value, letters in SIZES:
        count, number = divmod(number, value)
        written += letters * count
    return written
