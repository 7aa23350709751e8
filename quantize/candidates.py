"""What a search chooses among: for one checkpoint and method, every layer at every level, as stored
forms; what each loses; and the choice for a size.

    candidates = Candidates.measure(checkpoint, METHODS["mixed18"], parent, Path("build/search"))
    point, size_bytes = candidates.find_within(40e6, {"speech": 1.0, "pauses": 1.0})
    candidates.save(point, size_bytes, Path("build"))      # the recipe of packages there
"""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kokoro_ane.core import STREAMED, Checkpoint, Manifest, keep_npz, read_npz, source_sha256
from kokoro_ane.quantize.compress import locate_level, make_parent_stage
from kokoro_ane.quantize.curvature import Curvature, make_uniform_levels
from kokoro_ane.quantize.distances import KINDS, cut_excerpts
from kokoro_ane.quantize.level import CompressionLevel, save_level
from kokoro_ane.quantize.methods import CHOICES, Method
from kokoro_ane.quantize.plan import LayerSpec, list_vocoder_layers
from kokoro_ane.quantize.recipe import locate_kept_recipe
from kokoro_ane.quantize.streaming_level import (
    count_saved_by_products,
    find_affine_palette,
    is_in_product,
)
from kokoro_ane.quantize.trade_off import (
    Point,
    compute_trade_off,
    find_first_within,
    list_options,
    make_recipe,
)
from kokoro_ane.speech import FIRST_SEED
from kokoro_ane.vocoder import StreamingStage, Vocoder

# gradients of each excerpt, and excerpts of each kind: 64 gradients tell a layer's distance to a
# sixth
PROBES, EXCERPTS = 16, 4
# of the generator's affines, which are one product in the default layout
AFFINES_LEVEL = "p6g_gptq"
# of the first stage's source, which has int8 rows in the default layout: for the padded one
SOURCE_LEVEL = "w8_gptq"
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
    layers: Mapping[str, LayerSpec]
    fixed: Mapping[str, str]
    levels: Mapping[str, CompressionLevel]
    curvature: Curvature
    whole_bytes: float
    folder: Path

    @classmethod
    def measure(
        cls, checkpoint: Checkpoint, method: Method, parent: Manifest, folder: Path
    ) -> "Candidates":
        """Make the forms and measure what they lose, or read both where `folder` has them."""
        vocoder = Vocoder.from_checkpoint(checkpoint)
        layers = {layer.name: layer for layer in list_vocoder_layers(vocoder) if not layer.is_tail}
        names = CHOICES[method.name]
        folder.mkdir(parents=True, exist_ok=True)
        levels = make_uniform_levels(checkpoint, vocoder, method, layers, names, folder)
        code = source_sha256("core", "encoder", "vocoder", "quantize", "speech")
        # What the gradients hang on names their file, so that other code measures anew.
        parts = (checkpoint.network_sha256, code, method.name, PROBES, EXCERPTS)
        path = folder / f"curvature-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.npz"
        if path.is_file():
            curvature = Curvature.read(read_npz(path, "; delete it and it is measured again"))
        else:
            print("what every layer loses at every level, by gradients", file=sys.stderr)
            excerpts = cut_excerpts(checkpoint, vocoder, FIRST_SEED, EXCERPTS)
            curvature = Curvature.measure(vocoder, levels, excerpts, PROBES, FIRST_SEED)
            keep_npz(path, curvature.plain(), "losses are")
        whole_bytes = float(parent.package_bytes + BESIDE)
        fixed = dict[str, str]()
        if parent.layout in STREAMED:
            stage = make_parent_stage(checkpoint, parent)
            assert isinstance(stage, StreamingStage)
            fixed = {
                name: AFFINES_LEVEL if layer.is_style else SOURCE_LEVEL
                for name, layer in layers.items()
                if is_in_product(layer)
            }
            # What is the same in every choice is taken off before sizes are compared.
            whole_bytes -= count_saved_by_products(stage, find_affine_palette(fixed))
        free = {name: layer for name, layer in layers.items() if name not in fixed}
        return cls(checkpoint, method, free, fixed, levels, curvature, whole_bytes, folder)

    @property
    def least_bytes(self) -> float:
        """The smallest package that the levels give."""
        return self.whole_bytes - self._compute_curve(dict.fromkeys(KINDS, 1.0))[-1].saved

    def find_within(self, most_bytes: float, weights: Mapping[str, float]) -> tuple[Point, float]:
        """The choice of at most that size, and its size. Raises what find_first_within raises."""
        point = find_first_within(self._compute_curve(weights), self.whole_bytes, most_bytes)
        # A recipe names every layer, also those that have no choice.
        whole = replace(point, levels={**point.levels, **self.fixed})
        return whole, self.whole_bytes - point.saved

    def save(self, point: Point, size_bytes: float, build: Path, with_level: bool = False) -> Path:
        """Write the recipe of a build folder; `with_level` its level's file too."""
        recipe = make_recipe(point, self.checkpoint, size_bytes)
        path = locate_kept_recipe(self.checkpoint, self.method.name, build)
        recipe.save(path)
        if with_level:
            # Levels were made apart: the choice takes each layer's form from its own.
            forms = {
                layer: self.levels[level].forms[layer]
                for layer, level in point.levels.items()
                if level in self.levels and layer in self.levels[level].forms
            }
            level = CompressionLevel(self.method, forms, {}, {}, {}, 0.0, recipe)
            save_level(level, locate_level(self.method, self.checkpoint, build), self.checkpoint)
        return path

    def _compute_curve(self, weights: Mapping[str, float]) -> list[Point]:
        # Each kind in units of what it loses at worst, so that weights can be compared.
        units = {kind: weight / self._coarsest[kind] for kind, weight in weights.items()}
        return compute_trade_off(
            list_options(self.layers, self.curvature, tuple(self.levels), units)
        )

    @cached_property
    def _coarsest(self) -> dict[str, float]:
        """What the coarsest levels lose together: the unit that the weight of each kind is in."""
        each = list_options(
            self.layers, self.curvature, tuple(self.levels), dict.fromkeys(KINDS, 1.0)
        )
        levels = compute_trade_off(each)[-1].levels
        return {kind: max(self.curvature.distance(levels, {kind: 1.0}), 1e-12) for kind in KINDS}
