"""From one-layer distances to a recipe: the trade-off between spectral distance and a budget, and
the first point that keeps the budget.

    curve = trade_off(options, start="w8")
    point = first_within(curve, 0.9)

Squared distances of layers add up, because the errors are small and independent. Each step along
the curve is the cheapest one left, taken from each layer's lower convex hull. So a point is the
best choice for its budget, but for the size of the last step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kokoro_ane.core.errors import InputError
from kokoro_ane.quantize.measure import Entry, LayerTrials, changes
from kokoro_ane.quantize.methods import (
    INT8_MACS,
    LEVELS_FOR,
    LIKE,
    SCHEMES,
    STARTS,
    LinearWeights,
    PaletteWeights,
)
from kokoro_ane.quantize.plan import Layer
from kokoro_ane.quantize.recipe import Recipe

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
    by_layer: dict[str, list[Option]] = {}
    for option in options:
        by_layer.setdefault(option.layer, []).append(option)
    steps = sorted(
        (step for layer in by_layer.values() for step in _hull(layer, start)),
        key=lambda step: step[0],
    )
    levels = dict.fromkeys(by_layer, start)
    distance = sum(_at(layer, start).distance_db2 for layer in by_layer.values())
    points, gain = [Point(0.0, distance, dict(levels))], 0.0
    for _, before, after in steps:
        levels[after.layer] = after.level
        gain, distance = (
            gain + after.gain - before.gain,
            distance + after.distance_db2 - before.distance_db2,
        )
        points.append(Point(gain, distance, dict(levels)))
    return points


def first_within(curve: list[Point], gain: float) -> Point:
    """The first point that gains enough. Raises InputError with how far the curve goes."""
    for point in curve:
        if point.gain >= gain - 1e-9:
            return point
    raise InputError(
        f"the budget asks for a gain of {gain:.4f}, the levels give at most {curve[-1].gain:.4f}"
    )


def _at(layer: list[Option], level: str) -> Option:
    return next(option for option in layer if option.level == level)


def _hull(layer: list[Option], start: str) -> list[tuple[float, Option, Option]]:
    """The steps from the start along the lower convex hull, (price, from, to), with rising prices;
    a price is the distance for a unit of gain.
    """
    steps: list[tuple[float, Option, Option]] = []
    here = _at(layer, start)
    while True:
        ahead = [option for option in layer if option.gain > here.gain]
        if not ahead:
            return steps
        price, best = min(
            (((o.distance_db2 - here.distance_db2) / (o.gain - here.gain), o) for o in ahead),
            key=lambda pair: pair[0],
        )
        steps.append((price, here, best))
        here = best


@dataclass(frozen=True)
class SearchResult:
    """A recipe, the curve that it lies on and the measurements behind it; the distance with all
    layers changed together, and the distance between two noise seeds.
    """

    recipe: Recipe
    curve: tuple[Point, ...]
    entries: tuple[Entry, ...]
    together_db2: float
    seed_db2: float  # of the vocoder unchanged, with other noise
    macs_share: Mapping[str, float]


def find_recipe(
    trials: LayerTrials,
    layers: tuple[Layer, ...],
    entries: Iterable[Entry],
    parent_bytes: int,
    kind: str,
    budget: float,
) -> SearchResult:
    """The recipe of least forecast distance on the curve that keeps the budget: at least that share
    of int8_macs, or at most that size.
    """
    of_kind = tuple(entry for entry in entries if entry.level in LEVELS_FOR[kind])
    curve = trade_off(options(trials.layers, layers, of_kind, parent_bytes, kind), STARTS[kind])
    needed = budget if kind == INT8_MACS else 1.0 - budget
    try:
        point = first_within(curve, needed)
    except InputError:
        reach = curve[-1].gain if kind == INT8_MACS else 1.0 - curve[-1].gain
        raise InputError(
            f"budget {kind} {budget:g} is out of reach: these levels go as far as {reach:.4f}"
        ) from None
    recipe = Recipe(
        checkpoint=trials.checkpoint.name,
        checkpoint_sha256=trials.checkpoint.sha256,
        budget={kind: budget},
        forecast=forecast(point, trials.layers, layers, parent_bytes),
        levels=dict(sorted(point.levels.items())),
    )
    total = sum(layer.macs for layer in layers)
    shares = {x.name: x.macs / total for x in layers}
    return SearchResult(
        recipe,
        tuple(curve),
        of_kind,
        trials.distance_db2(point.levels),
        trials.seed_distance_db2(),
        shares,
    )


def options(
    chosen: tuple[Layer, ...],
    layers: tuple[Layer, ...],
    entries: tuple[Entry, ...],
    parent_bytes: int,
    kind: str,
) -> list[Option]:
    """Every level that a layer can take, with its distance and gain. Of the levels that change
    nothing only the start is an option.
    """
    distance = {(entry.layer, entry.level): max(entry.distance_db2, 0.0) for entry in entries}
    total = sum(layer.macs for layer in layers)
    choices = []
    for layer in chosen:
        for level in LEVELS_FOR[kind]:
            if level == STARTS[kind] or changes(layer, level):
                gain = (
                    layer.macs / total * SCHEMES[level].int8_input
                    if kind == INT8_MACS
                    else saved_bytes(layer, level) / parent_bytes
                )
                like, ratio = LIKE.get(level, (level, 1.0))
                choices.append(
                    Option(layer.name, level, ratio * distance.get((layer.name, like), 0.0), gain)
                )
    return choices


def saved_bytes(layer: Layer, level: str) -> float:
    """The bytes that a level saves on a layer's weights; negative where its scales or tables cost
    more. Example: 4,096 weights at 2 bytes, 64 output channels: w8 saves 4,096 - 128 bytes.
    """
    weights = SCHEMES[level].weights if changes(layer, level) else None
    if isinstance(weights, LinearWeights):
        return layer.elements * (FP16_BYTES - weights.bits / 8) - FP16_BYTES * layer.outputs
    if isinstance(weights, PaletteWeights):
        tables = layer.outputs // weights.rows_of(layer.outputs, layer.elements // layer.outputs)
        return (
            layer.elements * (FP16_BYTES - weights.bits / 8) - FP16_BYTES * 2**weights.bits * tables
        )
    return 0.0


def forecast(
    point: Point, chosen: tuple[Layer, ...], layers: tuple[Layer, ...], parent_bytes: int
) -> dict[str, float]:
    """A point's distance, its size as a share of the fp16 package, and its share of
    multiply-accumulates in int8.
    """
    saved = sum(saved_bytes(layer, point.levels[layer.name]) for layer in chosen)
    macs = sum(layer.macs for layer in chosen if SCHEMES[point.levels[layer.name]].int8_input)
    total = sum(layer.macs for layer in layers)
    return {
        "spectral_distance_db2": point.distance_db2,
        "size": 1.0 - saved / parent_bytes,
        "int8_macs": macs / total,
    }
