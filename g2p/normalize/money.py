"""Money: $5, £3.20, US$5, $3.5M, $2 billion, $5-10, 25¢, 50p, 100 USD, EUR 20.

scan = Scan("$3.50", "us")
amount(scan, 0)
"""

import re

from kokoro_ane.g2p.normalize.number_words import cardinal, decimal
from kokoro_ane.g2p.normalize.quantities import NUMBER, PER_NAMES, attributive, per_name
from kokoro_ane.g2p.normalize.state import MONEY, UNITS, Scan, alternation
from kokoro_ane.g2p.result import GB, Dialect

SIGNS, SCALES, CODES, NATIONS, PLURALS, OWN = (
    MONEY[key] for key in ("sign", "scale", "code", "nation", "plural", "own")
)
# over the end of a line too, where a B or M begins what is new
SCALE_WORDS = alternation(tuple(name for name in SCALES if len(name) > 3))
SCALE = (
    rf"(?:(?P<joint>\r\n|[\s-])(?P<scale_word>{SCALE_WORDS})\b|["
    rf" ]?(?P<scale>{alternation(SCALES)})(?!\w))"
)
PREFIXED = re.compile(
    rf"(?P<minus>[-−])?(?P<nation>{alternation(NATIONS)})?(?P<sign>[{''.join(SIGNS)}])\s?"
    rf"(?P<minus2>[-−])?(?P<number>{NUMBER})"
    rf"(?:[ ]?[-–]\s?(?P=sign)?(?P<upper>{NUMBER}))?{SCALE}?(?: (?P<own>CAD|AUD|NZD|USD)\b)?"
)
CODED = re.compile(rf"(?P<code>{alternation(CODES)})\s?(?P<number>{NUMBER}){SCALE}?(?!\w)")
AFTER = re.compile(
    rf"(?P<number>{NUMBER})(?:{SCALE})?\s?(?P<code>{alternation(CODES)}"
    rf"|[{''.join(SIGNS)}])(?![\w\d])"
)
CENTS = re.compile(rf"(?P<number>{NUMBER})\s?(?P<name>¢|p(?!\w))")
ADJECTIVE = re.compile(r"-(?=[A-Za-z])")
PER_UNIT = re.compile(rf"/({alternation((*PER_NAMES, *UNITS))})(?!\w)")
COMMA_AFTER = re.compile(
    r"(?P<whole>\d{1,3}(?:[. ]\d{3})++|\d{1,9})(?:,(?P<part>\d{2}))?\s?(?P<sign>€)(?!\w)"
)
COMMA_BEFORE = re.compile(
    r"(?P<sign>€)\s?(?P<whole>\d{1,3}(?:[. ]\d{3})++|\d{1,9}),(?P<part>\d{2})(?![\d,])"
)
DEAL = re.compile(
    r"\s(?:deal|contract|extension|budget|lawsuit|settlement|bonus|grant|project|fund"
    r"|loan|prize|jackpot|offer|bond)\b"
)
PER = re.compile(r"/(?=[a-z]{1,12}\b)")


def many(name: str) -> str:
    """A currency's plural: dollars, yen, pence."""
    return PLURALS.get(name) or f"{name}s"


def exact(text: str, names: tuple[str, str], dialect: Dialect) -> str:
    """1.01 dollars -> one dollar and one cent; other decimals as they are."""
    whole, _, part = text.replace(",", "").partition(".")
    if len(part) != 2 or len(whole) > 15:
        return f"{decimal(text, dialect)} {names[0] if text == '1' else many(names[0])}"
    units, hundredths = int(whole or 0), int(part)
    spoken = (
        [f"{cardinal(units, dialect)} {names[0] if units == 1 else many(names[0])}"]
        if units or not hundredths
        else []
    )
    if hundredths:
        spoken.append(
            f"{cardinal(hundredths, dialect)} {names[1] if hundredths == 1 else many(names[1])}"
        )
    return " and ".join(spoken)


def spoken(
    scan: Scan, match: re.Match[str], names: tuple[str, str], upper: str | None, single: bool
) -> str:
    """The amount of `match`; `single`: it qualifies a noun (a $20 bill)."""
    number, scale = match["number"], match["scale_word"] or match["scale"]
    low = decimal(number, scan.dialect)
    if upper:
        low = f"{low} to {decimal(upper, scan.dialect)}"
    if scale:
        return f"{low} {SCALES[scale]} {names[0] if single else many(names[0])}"
    if upper or (single and number.endswith(".00") or "." not in number and single):
        return f"{low.removesuffix(' point zero zero')} {names[0] if single else many(names[0])}"
    return exact(number, names, scan.dialect)


def amount(scan: Scan, position: int) -> int:
    """A currency sign or code before a number."""
    match = PREFIXED.match(scan.text, position)
    if (
        match
        and match["minus"]
        and position
        and (scan.text[position - 1].isalnum() or scan.text[position - 1] == ".")
    ):
        return position  # $1.2M-$1.5M: the dash says `to`
    if match:
        nation = NATIONS.get(match["nation"] or "", "")
        unit, part = OWN.get(match["nation"] or "") or SIGNS[match["sign"]]
        names = (CODES[match["own"]] if match["own"] else f"{nation} {unit}".strip(), part)
        single = (
            attributive(scan, match.end())
            or match["joint"] == "-"
            or ADJECTIVE.match(scan.text, match.end()) is not None
        )
        single = single or DEAL.match(scan.text, match.end()) is not None
        minus = "minus " if match["minus"] or match["minus2"] else ""
        scan.say(minus + spoken(scan, match, names, match["upper"], single), position, match.end())
        return per(scan, match.end())
    match = CODED.match(scan.text, position)
    if match:
        return scan.say(
            spoken(scan, match, (CODES[match["code"]], "cent"), None, False), position, match.end()
        )
    return position


def with_comma(scan: Scan, position: int) -> int:
    """1.234,56 € and €12,75: points or spaces group, the comma parts the cents."""
    match = COMMA_AFTER.match(scan.text, position) or COMMA_BEFORE.match(scan.text, position)
    if not match or (not match["part"] and match["whole"].isdecimal()):
        return position
    number = re.sub(r"\D", "", match["whole"]) + (f".{match['part']}" if match["part"] else "")
    scan.say(exact(number, tuple(SIGNS[match["sign"]]), scan.dialect), position, match.end())
    return per(scan, match.end())


def amount_after(scan: Scan, position: int) -> int:
    """A number before a currency's code, sign, or cents."""
    match = AFTER.match(scan.text, position)
    if match:
        code = match["code"]
        names = tuple(SIGNS[code]) if code in SIGNS else (CODES[code], "cent")
        scan.say(
            spoken(scan, match, names, None, attributive(scan, match.end())), position, match.end()
        )
        return per(scan, match.end())
    match = CENTS.match(scan.text, position)
    if match and (match["name"] == "¢" or scan.dialect == GB):
        name = "cent" if match["name"] == "¢" else "penny"
        name = name if match["number"] == "1" or attributive(scan, match.end()) else many(name)
        return scan.say(f"{decimal(match['number'], scan.dialect)} {name}", position, match.end())
    return position


def per(scan: Scan, position: int) -> int:
    """$5/month: the slash is `per`."""
    unit = PER_UNIT.match(scan.text, position)
    if unit:
        scan.say("per", position, position + 1, True)
        return scan.say(per_name(unit[1], scan.dialect), position + 1, unit.end())
    if scan.text.startswith(("/each", "/ea"), position):
        scan.silent(position, position + 1)
        return scan.say(
            "each", position + 1, position + (5 if scan.text.startswith("/each", position) else 3)
        )
    if PER.match(scan.text, position):
        return scan.say("per", position, position + 1, True)
    return position
