"""From one-layer damages to a recipe: the trade-off curve between damage and a budget, and the first point on it that keeps the budget.

    curve = trade_off(options, resource="int8_macs")
    point = first_within(curve, 0.9)

Damages of layers add up (small independent errors); each step along the curve is the cheapest one left, so every point is the best of its
budget among the steps' order (greedy over each layer's lower convex hull: exact up to the last step).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import InputError

INT8_MACS, SIZE = "int8_macs", "size"
STARTS = {INT8_MACS: "w8", SIZE: "fp16"}  # the level every layer starts from
LEVELS_FOR = {INT8_MACS: ("w8", "w8a8"), SIZE: ("fp16", "w8", "p6", "p4", "p6_gptq", "p4_gptq")}


@dataclass(frozen=True)
class Option:
    """One level of one layer. `gain`: what it brings towards the budget, relative to the layer's start (share of MACs, or of bytes)."""

    layer: str
    level: str
    damage_db2: float
    gain: float


@dataclass(frozen=True)
class Point:
    """A choice for every layer, with its forecast damage and what it has gained."""

    gain: float
    damage_db2: float
    levels: Mapping[str, str]


def trade_off(options: list[Option], start: str) -> list[Point]:
    """The curve from `start` everywhere to the most that the options give, best steps first."""
    by_layer: dict[str, list[Option]] = {}
    for option in options:
        by_layer.setdefault(option.layer, []).append(option)
    steps = sorted((step for layer in by_layer.values() for step in _hull(layer, start)), key=lambda step: step[0])
    levels = dict.fromkeys(by_layer, start)
    damage = sum(_at(layer, start).damage_db2 for layer in by_layer.values())
    points, gain = [Point(0.0, damage, dict(levels))], 0.0
    for _, before, after in steps:
        levels[after.layer] = after.level
        gain, damage = gain + after.gain - before.gain, damage + after.damage_db2 - before.damage_db2
        points.append(Point(gain, damage, dict(levels)))
    return points


def first_within(curve: list[Point], gain: float) -> Point:
    """The first point that gains enough. InputError says how far the curve goes."""
    for point in curve:
        if point.gain >= gain - 1e-9:
            return point
    raise InputError(f"the budget asks for a gain of {gain:.4f}, the levels give at most {curve[-1].gain:.4f}")


def _at(layer: list[Option], level: str) -> Option:
    return next(option for option in layer if option.level == level)


def _hull(layer: list[Option], start: str) -> list[tuple[float, Option, Option]]:
    """Steps of rising price from the start along the lower convex hull: (price = damage per gain, from, to)."""
    steps: list[tuple[float, Option, Option]] = []
    here = _at(layer, start)
    while True:
        ahead = [option for option in layer if option.gain > here.gain]
        if not ahead:
            return steps
        price, best = min((((o.damage_db2 - here.damage_db2) / (o.gain - here.gain), o) for o in ahead), key=lambda pair: pair[0])
        steps.append((price, here, best))
        here = best
