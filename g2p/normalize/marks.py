"""Marks and signs: markup dropped and counted, punctuation into Kokoro's, quotes by their side,
dashes as pause, `to` or `minus`.

    symbol(Scan("5 + 3 = 8 — “yes”", "us"), 2)
    markup(Scan("**bold** <b>x</b> [link](https://a.com)", "us"), 0)
"""

import re

from kokoro_ane.g2p.normalize.characters import LATIN
from kokoro_ane.g2p.normalize.lines import BREAK
from kokoro_ane.g2p.normalize.state import (
    GREEK,
    MONTH_FORMS,
    MONTHS,
    NUMERIC,
    SYMBOL_NAMES,
    WEEKDAYS,
    Scan,
    alternation,
)
from kokoro_ane.g2p.result import PUNCTUATION
from kokoro_ane.g2p.word_lists import pairs

LINE_MARK = re.compile(
    r"(?:#{1,6}(?=\s)|[-*+•](?=\s)|>{1,3}(?=\s)|\[[xX ]?\](?=\s)|[-*_=]{3,200}(?=\s*(?:\n|$)))"
)
LINK = re.compile(r"!?\[(?=[^\[\]\n]{0,500}\]\([^()\s]{0,2000}(?:\s\"[^\"\n]{0,200}\")?\))")
LINK_END = re.compile(r"\]\(([^()\s]{0,2000})(?:\s\"[^\"\n]{0,200}\")?\)")
ADDRESS_LIKE = re.compile(r"[./#:]|^$")
TABLE_RULE = re.compile(r"\|(?: ?:?-{2,100}:? ?\|){1,40}")
EMPHASIS = re.compile(r"\*{1,3}|_{1,3}|~~|`{1,3}|\|")
BAR, TABLE_ROW = re.compile(r"\s\|\s"), re.compile(r"(?:^|[\n\x1e])\s*\|[^\n]*$")
PLURAL = re.compile(r"\((s|es)\)(?!\w)")
MENU_NEXT = re.compile(r">{1,2}\s*[A-ZÀ-Þ][\w'-]")
EMOTICON = re.compile(r"(?:\^[_.-]?\^|[:;]['-]?[()DPp|*]{1,3}|:-?/|<3)(?=\s|$|[.!?,])")


def line_start(scan: Scan, position: int) -> bool:
    """Whether only white space stands before on the line."""
    back = position - 1
    while back >= 0 and scan.text[back] in " \t" and position - back < 32:
        back -= 1
    return back < 0 or scan.text[back] in ("\n", BREAK)


def drop(scan: Scan, start: int, end: int) -> int:
    """text[start:end] is markup."""
    return scan.drop(start, end, "markup")


def is_emphasis(scan: Scan, start: int, end: int) -> bool:
    """Whether a run of marks is no operator: not with white space on both sides, and * not between
    two numbers.
    """
    text = scan.text
    before, after = text[start - 1 : start], text[end : end + 1]
    if text.startswith("**", start) and before.isalnum() and after.isdigit():
        return False
    if text[start] in "`|~" or end - start > 1:
        return True
    if before.isdigit() and after.isdigit():
        return False
    return not (before.isspace() and after.isspace())


def emoticon(scan: Scan, position: int) -> int:
    """:-), ;) and <3 behind white space are faces, as emoji are."""
    match = EMOTICON.match(scan.text, position)
    less = (
        match is not None
        and match[0][0] == "<"
        and (len(scan.previous_word()) < 2 or scan.previous_word() in NUMERIC)
    )
    if not match or less or not scan.space_before(position):
        return position
    return scan.drop(position, match.end(), "emoji")


def markup(scan: Scan, position: int) -> int:
    """Whatever of this file stands at `position`."""
    text, character = scan.text, scan.text[position]
    if character in "#-*+•>_=[" and line_start(scan, position):
        match = LINE_MARK.match(text, position)
        if match:
            return drop(scan, position, match.end())
    if character == "|" and line_start(scan, position):
        match = TABLE_RULE.match(text, position)
        if match:
            return drop(scan, position, match.end())
    if character in "![":
        match = LINK.match(text, position)
        return drop(scan, position, match.end()) if match else position
    if character == "]":
        match = LINK_END.match(text, position)
        return (
            drop(scan, position, match.end())
            if match and ADDRESS_LIKE.search(match[1])
            else position
        )
    if (
        character == "|"
        and BAR.match(text, max(position - 1, 0))
        and not TABLE_ROW.search(text, max(0, position - 200), position)
    ):
        return (
            scan.mark(",", position, position + 1)
            if scan.previous() not in PUNCTUATION
            else drop(scan, position, position + 1)
        )
    match = EMPHASIS.match(text, position)
    return (
        drop(scan, position, match.end())
        if match and is_emphasis(scan, position, match.end())
        else position
    )


def plural(scan: Scan, position: int) -> int:
    """item(s): the plural."""
    match = PLURAL.match(scan.text, position)
    if (
        not match
        or not scan.tokens
        or scan.tokens[-1][2] != position
        or scan.tokens[-1][3] != "word"
    ):
        return position
    text, start, _, kind, _ = scan.tokens.pop()
    scan.tokens.append((text + match[1], start, match.end(), kind, None))
    return match.end()


def line_break(scan: Scan, position: int) -> int:
    """A line break that is heard: a full stop, but behind the dot of an abbreviation that is one
    already.
    """
    if scan.tokens and (scan.tokens[-1][3] != "punctuation" or scan.tokens[-1][0] in ")”"):
        scan.tokens.append((".", position, position + 1, "punctuation", True))
    return position + 1


def menu(scan: Scan, position: int) -> int:
    """Settings > Privacy: a comma between the names of a way through menus."""
    if (
        len(scan.previous()) < 2
        or not scan.previous()[0].isupper()
        or not MENU_NEXT.match(scan.text, position)
    ):
        return position
    return scan.mark(",", position, position + 1)


OPERATORS = pairs(
    "&&:and ||:or **:to_the_power_of <=:less_than_or_equal_to >=:greater_than_or_equal_to"
    " !=:is_not_equal_to ==:equals +/-:plus_or_minus"
)
ARROW = re.compile(r"<?(?:-{1,3}|={1,2})>|<-{1,2}(?=\s)")
BRACKETS = pairs("[:( ]:) {:( }:)")
POWER = re.compile(r"\^\(?([-+−]?\w{1,4})\)?")
NUMBER_AFTER = re.compile(r"\s*[$£€¥+]?\.?\d")
# 10%–15%, 5km-10km
QUANTITY_BEFORE = re.compile(
    r"\d(?:%|¢|°[CF]?|[A-Za-zµ]{1,3}|\"|'|\s?(?:million|billion|trillion))$"
)
NOON_AFTER = re.compile(r"\s?(?:noon|midnight|[Pp]resent|now|today|close)\b")
MONEY_RANGE = re.compile(r"[$£€¥][\d.,]{1,14}\s?[A-Za-z]{0,8}$")
INNER_DOT = re.compile(r"\.(?=[a-z_]\w)")  # str.split
OPERAND_AFTER = re.compile(r"\s*[-$£€\w(√∛∜.]")
EQUALS_NEAR = re.compile(r"[^\n]{0,40}=")
APART = re.compile(r"\s/\s+[\w(\"]")
DATE_NEXT = re.compile(
    rf"\s?(?:\d{{1,2}}(?:st|nd|rd|th)?\s+)?(?:{alternation((*MONTH_FORMS, *WEEKDAYS))})\b"
)
DATE_BEFORE = re.compile(
    rf"(?:{alternation(tuple(MONTH_FORMS))})\.?,?\s(?:\d{{1,2}}(?:st|nd|rd|th)?,?\s)?"
    rf"(?:\d{{4}}|'\d\d)\s?$"
)
WEEKDAY_NEXT = re.compile(rf"(?:{alternation(tuple(WEEKDAYS))})(?!\w)(/)?")
NUMBER_THERE = re.compile(r"\s*(\d{1,15})")
RUN = re.compile(r"\.{2,}(?:\s?\.)*|-{2,}|([!?,;:.])\1*|…+|—+")
SMALL_NEXT = re.compile(r"\s+[a-z&@]")
PRIME = re.compile(r"(?:^|(?<![\w]))\W?[a-zA-Z]'(?=\()")
INFINITE = re.compile(r"-(?:inf(?:inity)?\b|∞)", re.IGNORECASE)
GRADE, GRADE_END = (
    re.compile(r"(?:^|[\s(\"“])[A-F]$"),
    re.compile(r"-(?:$|[.,;!?)\"”]|\s(?!(?:and|or|to)\s[\w-]{0,20}-))"),
)
AND_LETTER = re.compile(r"&([A-Z](?:'?s)?)(?![\w'.])")
ELISIONS = re.compile(
    r"'(?:tis|twas|twere|em|til|cause|bout|cuz|n'|round|neath|nuff|tude)(?![A-Za-z])", re.IGNORECASE
)
WORD = re.compile(rf"[{LATIN}]++")
HASH_IS = re.compile(r"\s#\s(?:is|was|for|changed|to|in|from|on|so|pls|please|and)\b")
# 8,214 / 10,000
PART, WHOLE = (
    re.compile(r"(?:\d,\d{3}|\d\.\d) ?$"),
    re.compile(r" ?\d{1,3}(?:,\d{3})+| ?\d+ ?[GMT]B\b"),
)


def after_number(scan: Scan, position: int) -> bool:
    """Whether the last token is a number (or am, pm, an ordinal day) that touches or precedes this
    place on the line.
    """
    if not scan.tokens:
        return False
    before = scan.text[scan.tokens[-1][1] : scan.tokens[-1][2]]
    return bool(before) and (
        any(character.isdigit() for character in before) or scan.tokens[-1][0].lower() in NUMERIC
    )


def after_date(scan: Scan) -> bool:
    """Whether a month's name, with its day or its year or alone, was the last thing said."""
    last = scan.tokens[-1][2] if scan.tokens else 0
    if last and (last == scan.dated or DATE_BEFORE.search(scan.text, max(0, last - 24), last)):
        return True
    return scan.previous() in MONTHS or (
        scan.previous(2) in MONTHS and scan.previous().endswith(("st", "nd", "rd", "th"))
    )


def dash(scan: Scan, position: int) -> int:
    """A hyphen, en dash or minus sign: range, minus, or pause."""
    text, character = scan.text, scan.text[position]
    before, after = (
        text[position - 1 : position] if position else "",
        text[position + 1 : position + 2],
    )
    number = NUMBER_AFTER.match(text, position + 1)
    if character in "-–" and after_date(scan) and DATE_NEXT.match(text, position + 1):
        return scan.say("to", position, position + 1, True)
    if character in "-–" and after_number(scan, position) and NOON_AFTER.match(text, position + 1):
        return scan.say("to", position, position + 1, True)
    if (
        number
        and character in "-–"
        and MONEY_RANGE.search(text[max(0, position - 24) : position])
        and text[position + 1] in "$£€¥"
    ):
        return scan.say("to", position, position + 1, True)
    if number and QUANTITY_BEFORE.search(text[max(0, position - 8) : position]):
        return scan.say("to", position, position + 1, True)
    if after_number(scan, position) and number and (not before.isspace() or after.isspace()):
        spaced = before.isspace()
        return scan.say(
            "minus" if character == "−" or (spaced and is_difference(scan, position)) else "to",
            position,
            position + 1,
            True,
        )
    if (
        number
        and not after.isspace()
        and (not before or before.isspace() or before in '(“"[=×*/<>±')
    ):
        return scan.say("minus", position, position + 1, True)
    if (
        character == "−"
        or INFINITE.match(text, position)
        or (GRADE.search(text, max(0, position - 3), position) and GRADE_END.match(text, position))
    ):
        return scan.say("minus", position, position + 1, True)
    if (before.isspace() or not before) and (after.isspace() or not after) or character == "–":
        scan.mark("—", position, position + 1)
    else:
        scan.silent(position, position + 1)
    return position + 1


def is_difference(scan: Scan, position: int) -> bool:
    """5 - 3: the second is smaller, or an equals sign is near."""
    first = re.search(r"(\d{1,15})\D{0,2}$", scan.text[max(0, position - 20) : position])
    second = NUMBER_THERE.match(scan.text, position + 1)
    smaller = first is not None and second is not None and int(second[1]) < int(first[1])
    return smaller or EQUALS_NEAR.match(scan.text, position) is not None


def double_quote(scan: Scan, position: int) -> int:
    """A straight double quotation mark opens after white space or an opening mark, else it
    closes.
    """
    before, after = scan.text[position - 1 : position], scan.text[position + 1 : position + 2]
    opens = (
        (not before or before.isspace() or before in "(—“-[")
        and bool(after)
        and not after.isspace()
    )
    scan.double_open = opens
    return scan.mark("“" if opens else "”", position, position + 1)


POSSESSIVE = re.compile(rf"'[sS](?![{LATIN}])")


def possessive(scan: Scan, position: int) -> int:
    """The 's of what is no plain word: Python 3.11's, 50%'s, C++'s."""
    match = POSSESSIVE.match(scan.text, position)
    is_behind = scan.tokens and scan.tokens[-1][2] == position and scan.tokens[-1][3] != "override"
    if not match or not is_behind or not scan.previous_word():
        return position
    return scan.owns(position, match.end())


def single_quote(scan: Scan, position: int) -> int:
    """An apostrophe outside a word: quotation mark, elision ('tis), or dropped."""
    text = scan.text
    before, after = text[position - 1 : position], text[position + 1 : position + 2]
    if not before.isalnum() and ELISIONS.match(text, position):
        match = ELISIONS.match(text, position)
        assert match
        return scan.word(match[0], position, match.end())
    if (not before or not before.isalnum()) and after.isalnum() and before != "'":
        scan.quote_open = True
        scan.mark("“", position, position + 1)
    elif scan.quote_open and before and not before.isspace():
        scan.quote_open = False
        scan.mark("”", position, position + 1)
    else:
        scan.drop(position, position + 1, "symbol")
    return position + 1


def slash(scan: Scan, position: int) -> int:
    """Between words `slash`, between number and number `slash`, before a unit of time `per`
    (money.py), else dropped.
    """
    text = scan.text
    numbers = after_number(scan, position) and NUMBER_AFTER.match(text, position + 1)
    if numbers and text[position - 1] == " " and EQUALS_NEAR.match(text, position):
        return scan.say("divided by", position, position + 1, True)
    if APART.match(text, max(position - 1, 0)) and scan.tokens and not numbers:
        return scan.mark(",", position, position + 1)
    if PART.search(text, max(0, position - 8), position) and WHOLE.match(text, position + 1):
        return scan.say("of", position, position + 1, True)
    day = WEEKDAY_NEXT.match(text, position + 1) if scan.previous() in WEEKDAYS else None
    if day:  # Mon/Wed/Fri
        return (
            scan.mark(",", position, position + 1)
            if day[1]
            else scan.say("and", position, position + 1, True)
        )
    inside = (
        position and text[position - 1].isalnum() and text[position + 1 : position + 2].isalnum()
    )
    spaced = re.match(r"/\s*\w", text[position : position + 4]) and scan.tokens
    if inside or spaced:
        scan.say("slash", position, position + 1, True)
    else:
        scan.drop(position, position + 1, "symbol")
    return position + 1


def power(scan: Scan, position: int) -> int:
    """x^2: squared; word^1 is a footnote's mark and dropped."""
    match = POWER.match(scan.text, position)
    if not match:
        return position
    base = re.search(rf"[{LATIN}]*$", scan.text[max(0, position - 8) : position])
    if base and len(base[0]) > 2 and match[1].isdigit():
        return scan.drop(position, match.end(), "footnote mark")
    name = {"2": "squared", "3": "cubed"}.get(match[1])
    if not name:
        return scan.say("to the power of", position, position + 1, True)
    if scan.tokens:
        scan.space_last()
    return scan.say(name, position, match.end())


def run(scan: Scan, position: int) -> int:
    """Marks of one kind in a row are one mark."""
    match = RUN.match(scan.text, position)
    if not match:
        return position
    text, before = match[0], scan.previous()
    small = (
        text == "."
        and before.isalpha()
        and before[1:].islower()
        and len(before) > 1
        and SMALL_NEXT.match(scan.text, match.end())
    )
    alone = len(scan.tokens) < 2 or scan.tokens[-1][1] != scan.tokens[-2][1]
    if small and scan.known and scan.tokens[-1][2] == position and len(before) > 2:
        # hrs. and gd., and what nobody knows
        written = scan.text[scan.tokens[-1][1] : position].lower()
        if (alone and written not in (before.lower(), "")) or scan.unlisted(before):
            return drop(scan, position, match.end())
    mark = "…" if text[:2] == ".." or text[0] == "…" else "—" if text[0] in "-—" else text[0]
    return scan.mark(mark, position, match.end())


def symbol(scan: Scan, position: int) -> int:
    """Anything that is neither letter nor digit. Always moves on."""
    character = scan.text[position]
    arrow = ARROW.match(scan.text, position)
    if arrow and scan.tokens:
        letter_before(scan)
        return scan.say("from" if arrow[0][-1] == "-" else "to", position, arrow.end(), True)
    if scan.text.startswith("!=", position):
        return named(scan, position, character)
    if (
        character == "."
        and INNER_DOT.match(scan.text, position)
        and scan.text[position - 1 : position].isalnum()
        and scan.tokens
    ):
        scan.space_last()
        return scan.say("dot", position, position + 1, True)
    end = run(scan, position)
    if end > position:
        return end
    if character in "-–−":
        return dash(scan, position)
    if character == "'" and PRIME.match(scan.text, max(position - 2, 0)) and scan.tokens:
        return scan.say("prime", position, position + 1, True)
    if character in "\"'":
        return double_quote(scan, position) if character == '"' else single_quote(scan, position)
    if character in BRACKETS or character in PUNCTUATION:
        return scan.mark(BRACKETS.get(character, character), position, position + 1)
    if "\ue000" <= character <= "\uf8ff":
        scan.tokens.append((character, position, position + 1, "override", None))
        return position + 1
    if character == "^":
        end = power(scan, position)
        if end > position:
            return end
    return named(scan, position, character)


def letter_before(scan: Scan) -> bool:
    """Whether an a stood before a sign: no article, but a letter from now on."""
    is_article = scan.previous() in ("a", "A") and scan.tokens[-1][3] == "word"
    if is_article:
        scan.tokens[-1] = ("A", *scan.tokens[-1][1:3], "letters", True)
    return is_article


def named(scan: Scan, position: int, character: str) -> int:
    """Signs with a name; what has none is dropped."""
    text = scan.text
    for sign, name in OPERATORS.items():
        if text.startswith(sign, position):
            return scan.say(name, position, position + len(sign), True)
    letter = AND_LETTER.match(text, position)
    if letter and scan.tokens:
        scan.space_last()
        scan.say("and", position, position + 1, True)
        return scan.letters(letter[1], position + 1, letter.end())
    if character == "/":
        return slash(scan, position)
    if character == "#" and HASH_IS.match(text, max(0, position - 1)):  # his # is 555-0133
        return scan.say("number", position, position + 1, True)
    if character == "$" and not (
        scan.space_before(position) and text[position + 1 : position + 2].isspace()
    ):
        scan.drop(position, position + 1, "symbol")
    elif character in GREEK:
        scan.say(GREEK[character], position, position + 1)
    elif (
        character in "=+<>≤≥≠≈^÷×→←"
        and OPERAND_AFTER.match(text, position + 1)
        and letter_before(scan)
    ):
        return named(scan, position, character)
    elif character in SYMBOL_NAMES and (
        character not in "<>*+=~#^→↑↓▲▼"
        or OPERAND_AFTER.match(text, position + 1)
        or (character == "+" and scan.tokens)
    ):
        if scan.tokens and scan.tokens[-1][2] == position:
            scan.space_last()
        scan.say(
            SYMBOL_NAMES[character],
            position,
            position + 1,
            True if OPERAND_AFTER.match(text, position + 1) else None,
        )
    else:
        scan.drop(position, position + 1, "symbol")
    return position + 1
