"""From measurements to a recipe under a budget: what each level of each layer gains in size or in int8 arithmetic.

found = find_recipe(trials, layers, entries, parent_bytes, "int8_macs", 0.9)
found.recipe.save(path)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.errors import InputError
from quantize.layers import Layer
from quantize.measure import Entry, LayerTrials, changes
from quantize.methods import SCHEMES, LinearWeights, PaletteWeights
from quantize.recipe import Recipe
from quantize.search import INT8_MACS, LEVELS_FOR, STARTS, Option, Point, first_within, trade_off

FP16_BYTES = 2


@dataclass(frozen=True)
class Found:
    """A recipe, the curve it lies on, the measurements behind it, its damage with all layers changed together, and a seed's."""

    recipe: Recipe
    curve: tuple[Point, ...]
    entries: tuple[Entry, ...]
    together_db2: float
    seed_db2: float  # of the vocoder unchanged, with other noise
    macs_share: Mapping[str, float]


def find_recipe(
    trials: LayerTrials, layers: tuple[Layer, ...], entries: Iterable[Entry], parent_bytes: int, kind: str, wanted: float
) -> Found:
    """The recipe of least forecast damage on the curve that keeps the budget. `kind`: int8_macs (at least) or size (at most)."""
    of_kind = tuple(entry for entry in entries if entry.level in LEVELS_FOR[kind])
    curve = trade_off(options(trials.layers, layers, of_kind, parent_bytes, kind), STARTS[kind])
    needed = wanted if kind == INT8_MACS else 1.0 - wanted
    try:
        point = first_within(curve, needed)
    except InputError:
        reach = curve[-1].gain if kind == INT8_MACS else 1.0 - curve[-1].gain
        raise InputError(f"budget {kind} {wanted:g} is out of reach: these levels go as far as {reach:.4f}") from None
    recipe = Recipe(
        checkpoint=trials.checkpoint.name,
        checkpoint_sha256=trials.checkpoint.sha256,
        budget={kind: wanted},
        forecast=forecast(point, trials.layers, layers, parent_bytes),
        levels=dict(sorted(point.levels.items())),
    )
    total = sum(layer.macs for layer in layers)
    shares = {x.name: x.macs / total for x in layers}
    return Found(recipe, tuple(curve), of_kind, trials.damage_db2(point.levels), trials.seed_damage_db2(), shares)


def options(chosen: tuple[Layer, ...], layers: tuple[Layer, ...], entries: tuple[Entry, ...], parent_bytes: int, kind: str) -> list[Option]:
    """Every level that a layer can take, with its damage and gain; levels that change nothing on a layer are left out but for the start."""
    damage = {(entry.layer, entry.level): max(entry.damage_db2, 0.0) for entry in entries}
    total = sum(layer.macs for layer in layers)
    found = []
    for layer in chosen:
        for level in LEVELS_FOR[kind]:
            if level == STARTS[kind] or changes(layer, level):
                gain = layer.macs / total * SCHEMES[level].int8_input if kind == INT8_MACS else saved_bytes(layer, level) / parent_bytes
                found.append(Option(layer.name, level, damage.get((layer.name, level), 0.0), gain))
    return found


def saved_bytes(layer: Layer, level: str) -> float:
    """Bytes that a level saves on a layer's weights; negative where scales or palette cost more."""
    weights = SCHEMES[level].weights if changes(layer, level) else None
    if isinstance(weights, LinearWeights):
        return layer.elements * (FP16_BYTES - weights.bits / 8) - FP16_BYTES * layer.outputs
    if isinstance(weights, PaletteWeights):
        return layer.elements * (FP16_BYTES - weights.bits / 8) - FP16_BYTES * 2**weights.bits
    return 0.0


def forecast(point: Point, chosen: tuple[Layer, ...], layers: tuple[Layer, ...], parent_bytes: int) -> dict[str, float]:
    """Damage, size as a share of the fp16 package, and share of MACs in int8 of a point."""
    saved = sum(saved_bytes(layer, point.levels[layer.name]) for layer in chosen)
    macs = sum(layer.macs for layer in chosen if SCHEMES[point.levels[layer.name]].int8_input)
    total = sum(layer.macs for layer in layers)
    return {"damage_db2": point.damage_db2, "size": 1.0 - saved / parent_bytes, "int8_macs": macs / total}
