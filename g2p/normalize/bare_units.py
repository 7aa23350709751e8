"""Units and signs without a number beside them: km/h, per kg, 40° N, ≈3.

    scan = Scan("Speeds in km/h, price per kg.", "us")
    unit(scan, 10)

Each handler answers its own position where it does not apply.
"""

import re

from g2p.normalize.constructs import WAYS
from g2p.normalize.quantities import unit_name
from g2p.normalize.state import Scan
from g2p.normalize.tables import UNITS, alternation

RATES = tuple(name for name in UNITS if re.fullmatch(r"[A-Za-z]+/[a-z]+", name))
RATE = re.compile(rf"(?:{alternation(RATES)})(?![\w/^'])")
MEASURES = frozenset(("kg", "km", "cm", "mm", "mg", "mL", "ml", "kWh", "lb", "lbs", "oz"))
MEASURE = re.compile(rf"(?:{alternation(MEASURES)})(?![\w/^'])")
ONE_BEFORE = frozenset(("per", "each"))
MANY_BEFORE = frozenset(("in", "into"))
SIDE = re.compile(r"[NSEW](?![\w'])")
ANGLE_BEFORE = re.compile(r"(?:°|\d['\"′″])\s?$")


def unit(scan: Scan, position: int) -> int:
    """km/h, m/s; per kg, in mm."""
    if scan.text[position - 1 : position].isalnum():
        return position
    match, many = RATE.match(scan.text, position), True
    if not match:
        match = MEASURE.match(scan.text, position)
        many = scan.previous_word() in MANY_BEFORE
        if not match or not (many or scan.previous_word() in ONE_BEFORE):
            return position
    scan.say(unit_name(match[0], many, scan.dialect), position, match.end())
    return match.end()


def side(scan: Scan, position: int) -> int:
    """40° N: north."""
    match = SIDE.match(scan.text, position)
    if not match or not ANGLE_BEFORE.search(scan.text, max(0, position - 4), position):
        return position
    scan.say(WAYS[match[0]], position, match.end(), True)
    return match.end()


def about(scan: Scan, position: int) -> int:
    """≈3 with nothing on its left is no equation."""
    if scan.previous_word():
        return position
    scan.say("approximately", position, position + 1, True)
    return position + 1
