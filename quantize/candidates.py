"""What a search chooses among: for one checkpoint and method, every layer at every level, as stored
forms; what each loses; and the choice for a size.

    candidates = Candidates.measured(checkpoint, METHODS["mixed18"], parent, Path("build/search"))
    point, size_bytes = candidates.within(40e6, {"speech": 1.0, "pauses": 1.0})
    candidates.save(point, size_bytes, Path("build"))      # the recipe of packages there
"""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kokoro_ane.core import STREAMED, Checkpoint, Manifest, keep_npz, read_npz, source_sha256
from kokoro_ane.quantize.compress import level_path, stage_of
from kokoro_ane.quantize.curvature import KINDS, Curvature, excerpts_of, uniform_levels
from kokoro_ane.quantize.level import Level, save_level
from kokoro_ane.quantize.methods import CHOICES, Method
from kokoro_ane.quantize.plan import Layer, vocoder_layers
from kokoro_ane.quantize.recipe import kept_recipe
from kokoro_ane.quantize.streaming_level import ROWS_LEVEL, is_always_rows, products_saved
from kokoro_ane.quantize.trade_off import (
    Point,
    first_within,
    options,
    recipe_of,
    saved_bytes,
    trade_off,
)
from kokoro_ane.speech import FIRST_SEED
from kokoro_ane.vocoder import StreamingStage, Vocoder

# gradients of each excerpt, and excerpts of each kind: 64 gradients tell a layer's distance to a
# sixth
PROBES, EXCERPTS = 16, 4
# bytes by which a package is larger than its weights say: names, and how each one is stored
BESIDE = 150_000


@dataclass(frozen=True, eq=False)
class Candidates:
    """Responsibilities: 1. the forms and losses of every layer; 2. the choice for a size; 3. its
    recipe and level file.

    layers: those that have a choice. fixed: the levels of the others. whole_bytes: of the package
    with nothing of `layers` compressed.
    """

    checkpoint: Checkpoint
    method: Method
    layers: Mapping[str, Layer]
    fixed: Mapping[str, str]
    levels: Mapping[str, Level]
    curvature: Curvature
    whole_bytes: float
    folder: Path

    @classmethod
    def measured(
        cls, checkpoint: Checkpoint, method: Method, parent: Manifest, folder: Path
    ) -> "Candidates":
        """Make the forms and measure what they lose, or read both where `folder` has them."""
        vocoder = Vocoder.from_checkpoint(checkpoint)
        layers = {layer.name: layer for layer in vocoder_layers(vocoder) if not layer.is_tail}
        names = CHOICES[method.name]
        folder.mkdir(parents=True, exist_ok=True)
        levels = uniform_levels(checkpoint, vocoder, method, layers, names, folder)
        code = source_sha256("core", "encoder", "vocoder", "quantize", "speech")
        parts = (checkpoint.network_sha256, code, method.name, PROBES, EXCERPTS)
        path = folder / f"curvature-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.npz"
        if path.is_file():
            curvature = Curvature.read(read_npz(path, "; delete it and it is measured again"))
        else:
            print("what every layer loses at every level, by gradients", file=sys.stderr)
            excerpts = excerpts_of(checkpoint, vocoder, FIRST_SEED, EXCERPTS)
            curvature = Curvature.measured(vocoder, levels, excerpts, PROBES, FIRST_SEED)
            keep_npz(path, curvature.plain(), "losses are")
        whole_bytes = float(parent.package_bytes + BESIDE)
        fixed = dict[str, str]()
        if parent.layout in STREAMED:
            stage = stage_of(checkpoint, parent)
            assert isinstance(stage, StreamingStage)
            fixed = {name: ROWS_LEVEL for name, layer in layers.items() if is_always_rows(layer)}
            whole_bytes -= products_saved(stage)
            whole_bytes -= sum(saved_bytes(layers[name], level) for name, level in fixed.items())
        free = {name: layer for name, layer in layers.items() if name not in fixed}
        return cls(checkpoint, method, free, fixed, levels, curvature, whole_bytes, folder)

    @property
    def least_bytes(self) -> float:
        """The smallest package that the levels give."""
        return self.whole_bytes - self._curve(dict.fromkeys(KINDS, 1.0))[-1].saved

    def within(self, most_bytes: float, weights: Mapping[str, float]) -> tuple[Point, float]:
        """The choice of at most that size, and its size. Raises InputError as first_within does."""
        point = first_within(self._curve(weights), self.whole_bytes, most_bytes)
        whole = replace(point, levels={**point.levels, **self.fixed})
        return whole, self.whole_bytes - point.saved

    def save(self, point: Point, size_bytes: float, build: Path, with_level: bool = False) -> Path:
        """Write the recipe of a build folder; `with_level` its level's file too."""
        recipe = recipe_of(point, self.checkpoint, size_bytes)
        path = kept_recipe(self.checkpoint, self.method.name, build)
        recipe.save(path)
        if with_level:
            forms = {
                layer: self.levels[level].forms[layer]
                for layer, level in point.levels.items()
                if level in self.levels and layer in self.levels[level].forms
            }
            level = Level(self.method, forms, {}, {}, {}, 0.0, recipe)
            save_level(level, level_path(self.method, self.checkpoint, build), self.checkpoint)
        return path

    def _curve(self, weights: Mapping[str, float]) -> list[Point]:
        units = {kind: weight / self._coarsest[kind] for kind, weight in weights.items()}
        return trade_off(options(self.layers, self.curvature, tuple(self.levels), units))

    @cached_property
    def _coarsest(self) -> dict[str, float]:
        """What the coarsest levels lose together: the unit that the weight of each kind is in."""
        each = options(self.layers, self.curvature, tuple(self.levels), dict.fromkeys(KINDS, 1.0))
        levels = trade_off(each)[-1].levels
        return {kind: max(self.curvature.distance(levels, {kind: 1.0}), 1e-12) for kind in KINDS}
