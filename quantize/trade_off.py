"""From what each layer loses at each level to a choice for every layer under a size: the trade-off
between distance and bytes.

    curve = compute_trade_off(list_options(layers, curvature, levels, weights))
    point = find_first_within(curve, most_bytes)
    recipe = make_recipe(point, checkpoint)

Squared distances of layers add up, because their errors are small and independent. Each step along
the curve is the cheapest one left, taken from each layer's lower convex hull. So a point is the
best choice for its size, but for the size of the last step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kokoro_ane.core import Checkpoint, InputError
from kokoro_ane.quantize.curvature import Curvature, can_take
from kokoro_ane.quantize.locator import HALF
from kokoro_ane.quantize.methods import SCHEMES, IntegerWeights, PaletteWeights
from kokoro_ane.quantize.plan import LayerSpec
from kokoro_ane.quantize.recipe import QuantizationRecipe

FP16_BYTES = 2


@dataclass(frozen=True)
class Option:
    """One level of one layer. `saved`: bytes against fp16, negative where its scales or tables cost
    more.
    """

    layer: str
    level: str
    distance: float
    saved: float


@dataclass(frozen=True)
class Point:
    """A choice for every layer, with its forecast distance and the bytes that it saves."""

    saved: float
    distance: float
    levels: Mapping[str, str]


def list_options(
    layers: Mapping[str, LayerSpec],
    curvature: Curvature,
    levels: Sequence[str],
    weights: Mapping[str, float],
) -> list[Option]:
    """Every level that a layer can take, with its distance: that of each kind times its weight."""
    choices = []
    for name, layer in layers.items():
        choices.append(Option(name, HALF, 0.0, 0.0))
        for level in levels:
            if can_take(layer, level):
                distance = curvature.distance({name: level}, weights)
                choices.append(Option(name, level, distance, count_saved_bytes(layer, level)))
    return choices


def compute_trade_off(options: Sequence[Option]) -> list[Point]:
    """The curve from fp16 in every layer to the most that the options save, the best steps
    first.
    """
    by_layer: dict[str, list[Option]] = {}
    for option in options:
        by_layer.setdefault(option.layer, []).append(option)
    # A layer's prices rise along its hull, so sorting keeps its steps in their order.
    steps = sorted(
        (step for layer in by_layer.values() for step in _find_hull(layer)),
        key=lambda step: step[0],
    )
    levels = dict.fromkeys(by_layer, HALF)
    points = [Point(0.0, 0.0, dict(levels))]
    for _, before, after in steps:
        levels[after.layer] = after.level
        saved = points[-1].saved + after.saved - before.saved
        distance = points[-1].distance + after.distance - before.distance
        # Each point has its own copy, because `levels` goes on changing.
        points.append(Point(saved, distance, dict(levels)))
    return points


def find_first_within(curve: Sequence[Point], whole_bytes: float, most_bytes: float) -> Point:
    """The first point of at most that size, of a package that has `whole_bytes` in fp16. Raises
    InputError with how far the curve goes.
    """
    # Sizes fall along the curve: the first that fits has the least distance.
    for point in curve:
        if whole_bytes - point.saved <= most_bytes:
            return point
    raise InputError(
        f"{most_bytes / 1e6:.1f} MB is out of reach: these levels go as far as"
        f" {(whole_bytes - curve[-1].saved) / 1e6:.1f} MB"
    )


def make_recipe(point: Point, checkpoint: Checkpoint, size_bytes: float) -> QuantizationRecipe:
    """The recipe that a point is; `size_bytes`: what the package is forecast to have."""
    return QuantizationRecipe(
        checkpoint.name,
        checkpoint.sha256,
        budget={"bytes": round(size_bytes)},
        forecast={"spectral_distance_db2": point.distance},
        levels=dict(sorted(point.levels.items())),
    )


def count_saved_bytes(layer: LayerSpec, level: str) -> float:
    """The bytes that a level saves on a layer's weights. Example: 4,096 weights at 2 bytes, 64
    output channels: w8 saves 4,096 - 128 bytes.
    """
    weights = SCHEMES[level].weights
    if isinstance(weights, IntegerWeights):
        beside = layer.outputs
    elif isinstance(weights, PaletteWeights):
        rows = weights.choose_rows(layer.outputs, layer.elements // layer.outputs)
        # the values of all tables
        beside = 2**weights.bits * (layer.outputs // rows)
    else:
        return 0.0
    # Every weight saves bits; every scale or table value costs two bytes.
    return layer.elements * (FP16_BYTES - weights.bits / 8) - FP16_BYTES * beside


def _find_hull(layer: Sequence[Option]) -> list[tuple[float, Option, Option]]:
    """The steps from fp16 along the lower convex hull, (price, from, to), with rising prices; a
    price is the distance for a saved byte.
    """
    steps: list[tuple[float, Option, Option]] = []
    here = next(option for option in layer if option.level == HALF)
    while ahead := [option for option in layer if option.saved > here.saved]:
        # The cheapest option ahead, however far: whatever lies between is above the hull.
        prices = [(o.distance - here.distance) / (o.saved - here.saved) for o in ahead]
        best = ahead[prices.index(min(prices))]
        steps.append((min(prices), here, best))
        here = best
    return steps
