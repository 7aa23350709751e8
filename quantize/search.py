"""From one-layer distances to a recipe: the trade-off between spectral distance and a budget, and
the first point that keeps the budget.

    curve = trade_off(options, start="w8")
    point = first_within(curve, INT8_MACS, 0.9)

Squared distances of layers add up, because the errors are small and independent. Each step along
the curve is the cheapest one left, taken from each layer's lower convex hull. So a point is the
best choice for its budget, but for the size of the last step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kokoro_ane.core import InputError
from kokoro_ane.quantize.measure import Entry, changes
from kokoro_ane.quantize.methods import (
    INT8_MACS,
    LEVELS_FOR,
    LIKE,
    SCHEMES,
    SIZE,
    STARTS,
    IntegerWeights,
    PaletteWeights,
)
from kokoro_ane.quantize.plan import Layer

FP16_BYTES = 2


@dataclass(frozen=True)
class Option:
    """One level of one layer. `gain` is what it brings towards the budget against the layer's
    start, as a share of the multiply-accumulates or of the bytes.
    """

    layer: str
    level: str
    distance_db2: float
    gain: float


@dataclass(frozen=True)
class Point:
    """A choice for every layer, with its forecast distance and its gain."""

    gain: float
    distance_db2: float
    levels: Mapping[str, str]


def trade_off(options: list[Option], start: str) -> list[Point]:
    """The curve from `start` on every layer to the most that the options give, the best steps
    first.
    """
    by_layer: dict[str, dict[str, Option]] = {}
    for option in options:
        by_layer.setdefault(option.layer, {})[option.level] = option
    steps = sorted(
        (step for layer in by_layer.values() for step in _hull(layer, start)),
        key=lambda step: step[0],
    )
    levels = dict.fromkeys(by_layer, start)
    distance = sum(layer[start].distance_db2 for layer in by_layer.values())
    points, gain = [Point(0.0, distance, dict(levels))], 0.0
    for _, before, after in steps:
        levels[after.layer] = after.level
        gain += after.gain - before.gain
        distance += after.distance_db2 - before.distance_db2
        points.append(Point(gain, distance, dict(levels)))
    return points


def first_within(curve: list[Point], kind: str, budget: float) -> Point:
    """The first point that keeps the budget: at least that share of int8_macs, or at most that
    size. Raises InputError with how far the curve goes.
    """
    reach = curve[-1].gain
    needed = budget if kind == INT8_MACS else 1.0 - budget
    for point in curve:
        if point.gain >= needed - 1e-9:
            return point
    raise InputError(
        f"budget {kind} {budget:g} is out of reach: these levels go as far as"
        f" {reach if kind == INT8_MACS else 1.0 - reach:.4f}"
    )


def _hull(layer: Mapping[str, Option], start: str) -> list[tuple[float, Option, Option]]:
    """The steps from the start along the lower convex hull, (price, from, to), with rising prices;
    a price is the distance for a unit of gain.
    """
    steps: list[tuple[float, Option, Option]] = []
    here = layer[start]
    while ahead := [option for option in layer.values() if option.gain > here.gain]:
        prices = [(o.distance_db2 - here.distance_db2) / (o.gain - here.gain) for o in ahead]
        best = ahead[prices.index(min(prices))]
        steps.append((min(prices), here, best))
        here = best
    return steps


def options(
    layers: Mapping[str, Layer], entries: Iterable[Entry], kind: str, whole: float
) -> list[Option]:
    """Every level that a layer can take, with its distance and its share of the `whole`, of what is
    budgeted. Of the levels that change nothing only the start is an option.
    """
    distance = {(entry.layer, entry.level): max(entry.distance_db2, 0.0) for entry in entries}
    choices = []
    for name, layer in layers.items():
        for level in LEVELS_FOR[kind]:
            if level == STARTS[kind] or changes(layer, level):
                like, ratio = LIKE.get(level, (level, 1.0))
                forecast_db2 = ratio * distance.get((name, like), 0.0)
                choices.append(Option(name, level, forecast_db2, gain(layer, level, kind) / whole))
    return choices


def gain(layer: Layer, level: str, kind: str) -> float:
    """What a level brings on one layer: multiply-accumulates in int8, or bytes that it saves."""
    if kind == INT8_MACS:
        return layer.macs * SCHEMES[level].int8_input
    return saved_bytes(layer, level)


def saved_bytes(layer: Layer, level: str) -> float:
    """The bytes that a level saves on a layer's weights; negative where its scales or tables cost
    more. Example: 4,096 weights at 2 bytes, 64 output channels: w8 saves 4,096 - 128 bytes.
    """
    weights = SCHEMES[level].weights if changes(layer, level) else None
    if isinstance(weights, IntegerWeights):
        beside = layer.outputs
    elif isinstance(weights, PaletteWeights):
        rows = weights.rows_of(layer.outputs, layer.elements // layer.outputs)
        beside = 2**weights.bits * (layer.outputs // rows)
    else:
        return 0.0
    return layer.elements * (FP16_BYTES - weights.bits / 8) - FP16_BYTES * beside


def forecast(
    point: Point, layers: Mapping[str, Layer], wholes: Mapping[str, float]
) -> dict[str, float]:
    """A point's distance, its size as a share of the fp16 package, and its share of
    multiply-accumulates in int8. wholes: of what each kind of budget is a share.
    """
    gains = {
        kind: sum(gain(layer, point.levels[name], kind) for name, layer in layers.items()) / whole
        for kind, whole in wholes.items()
    }
    return {
        "spectral_distance_db2": point.distance_db2,
        "size": 1.0 - gains[SIZE],
        "int8_macs": gains[INT8_MACS],
    }
