"""Telephone numbers, digit by digit with a pause between the groups: (555) 123-4567, +44 20 7946 0958, 1-800-555-0199.

scan = Scan("Call 555-0123", "us")
phone(scan, 5)
"""

import re

from g2p.normalize.number_words import ONES, digits
from g2p.normalize.state import Scan
from g2p.result import GB

END = r"(?![\w]|[-.]\d)"
FORMS = (
    re.compile(rf"\+(?=(?:[ ().-]{{0,2}}\d){{7}})\d{{1,3}}(?:[ .-]?\(\d{{1,4}}\))?(?:[ .-]\d{{1,6}}){{1,6}}{END}"),  # +44 20 7946 0958
    re.compile(rf"\+\d{{8,15}}{END}"),
    re.compile(rf"(?:1[ .-])?\(\d{{3}}\) ?\d{{3}}[ .-]\d{{4}}{END}"),  # (555) 123-4567
    re.compile(rf"(?:1[ .-])?\d{{3}}([.-])\d{{3}}\1\d{{4}}{END}"),  # 555-123-4567, 1-800-555-0199
    re.compile(rf"\d{{3}}-\d{{4}}{END}"),  # 555-0123
    re.compile(rf"\(?0\d{{2,4}}\)? \d{{3,4}}(?: \d{{3,4}}|\d{{2,3}})?{END}"),  # 020 7946 0958, 07700 900123
    re.compile(rf"\d{{5}}-\d{{4}}{END}"),  # 02139-4307, a ZIP code
)
HUNDREDS = re.compile(r"(0?)([1-9])00")
THREE_WAY = re.compile(r"\d{1,6}(?:-\d{1,6}){2,8}(?![\w-])")  # 123-45-6789, an ISBN


VANITY = re.compile(r"1-8(?:00|33|44|55|66|77|88)-(?=[A-Z]{2,12}\b)")  # 1-800-FLOWERS


def hundreds(group: str, zero: str) -> str:
    """800 -> eight hundred, 0800 -> oh eight hundred; other groups digit by digit."""
    match = HUNDREDS.fullmatch(group)
    return f"{zero if match[1] else ''} {ONES[int(match[2])]} hundred" if match else digits(group, zero)


def grouped(scan: Scan, start: int, end: int) -> int:
    """Say text[start:end]: each run of digits, a comma between them."""
    zero = "oh" if scan.dialect == GB else "zero"
    groups = re.findall(r"\d+", scan.text[start:end])
    spoken = [hundreds(group, zero) if index + 2 < len(groups) else digits(group, zero) for index, group in enumerate(groups)]
    scan.say(("plus " if scan.text[start] == "+" else "") + " , ".join(spoken), start, end)
    return end


def phone(scan: Scan, position: int) -> int:
    """A telephone number or another number in three groups at `position`."""
    for form in FORMS:
        match = form.match(scan.text, position)
        if match:
            return grouped(scan, position, match.end())
    vanity = VANITY.match(scan.text, position)
    if vanity:
        scan.say(f"one , {hundreds(vanity[0][2:5], 'zero')} ,", position, vanity.end())
        return vanity.end()
    match = THREE_WAY.match(scan.text, position)
    return grouped(scan, position, match.end()) if match else position
