"""What each layer loses at each level, for all layers and levels by a few gradients: the curvature
of two distances between the compressed vocoder's speech and the vocoder's own.

    errors = weight_errors(checkpoint, vocoder, layers, levels, folder)
    curvature = Curvature.measure(vocoder, errors, excerpts, probes=16)
    curvature.distance("decode.0.conv1", "p4g_gptq")        # of each kind, alone
    curvature.together({"decode.0.conv1": "p4g_gptq", ...})  # a whole choice

A distance is the mean square of a vector e(w) that is zero at the vocoder's own weights, so for
small errors d of the weights it is |J d|^2, with J the Jacobian (Gauss and Newton's model). For a
random vector v of signs E[(v' J d)^2] = |J d|^2 (Hutchinson 1990), and v' J is one gradient. Each
gradient serves every layer and level by a dot product with the error of its weights, where one
render for each took half an hour of a core. quantize/distances.py has the kinds of e.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core import Checkpoint
from kokoro_ane.quantize.distances import KINDS, VECTORS, Excerpt, draw_slopes
from kokoro_ane.quantize.level import Calibration, CompressionLevel, load_level, save_level
from kokoro_ane.quantize.locator import HALF
from kokoro_ane.quantize.methods import SCHEMES, IntegerWeights, Method, PaletteWeights, is_strided
from kokoro_ane.quantize.plan import LayerSpec, can_be_fitted, can_save, is_fitted, plan_by_level
from kokoro_ane.quantize.recipe import QuantizationRecipe
from kokoro_ane.vocoder import Vocoder, make_reference_arguments


def can_take(layer: LayerSpec, level: str) -> bool:
    """Whether a layer can have a level, and the level does anything to it: strided layers have no
    palettes, and others no fitted integers, where palettes do better; layers that read one channel
    have nothing fitted, and small weights stay as they are.
    """
    weights = SCHEMES[level].weights
    if isinstance(weights, IntegerWeights) and weights.gptq and not is_strided(layer.name):
        return False
    # affines are fitted to a checkpoint's voices: with 3 bits they would fail voices added later
    if level == "p3g_gptq" and layer.is_style:
        return False
    if isinstance(weights, PaletteWeights) and is_strided(layer.name):
        return False
    if is_fitted(weights) and not can_be_fitted(layer):
        return False
    return weights is not None and can_save(layer)


def make_uniform_levels(
    checkpoint: Checkpoint,
    vocoder: Vocoder,
    method: Method,
    layers: Mapping[str, LayerSpec],
    levels: Sequence[str],
    folder: Path,
) -> dict[str, CompressionLevel]:
    """The stored forms of every layer at every level that it can take: by level. Each level is a
    file in `folder`, read where it is there: fitting them takes minutes.
    """
    plans = {
        name: {
            path: plan_by_level(layer, name)
            for path, layer in layers.items()
            if can_take(layer, name)
        }
        for name in levels
    }
    # what identifies each file
    recipes = {
        name: QuantizationRecipe(
            checkpoint.name,
            checkpoint.sha256,
            {},
            {},
            {path: name if path in plans[name] else "fp16" for path in layers},
        )
        for name in levels
    }
    calibration = None
    made = dict[str, CompressionLevel]()
    for name in levels:
        path = folder / f"{name}.safetensors"
        level = load_level(path, checkpoint, method, recipes[name]) if path.is_file() else None
        if level is None:
            # Read once for all levels, and only where a level's file is missing.
            if calibration is None:
                print("the tuning set is read for the levels' tables", file=sys.stderr)
                every = [entry for plan in plans.values() for entry in plan.values()]
                calibration = Calibration.from_checkpoint(checkpoint, vocoder, None, every)
            print(f"every layer at {name}", file=sys.stderr)
            level = calibration.make_level(method, plans[name])
            # Its recipe tells this level's file from another's.
            level = CompressionLevel(method, level.forms, {}, {}, {}, 0.0, recipes[name])
            save_level(level, path, checkpoint)
        made[name] = level
    return made


@dataclass(frozen=True, eq=False)
class Curvature:
    """Projections v' J d of the errors of layers at levels: [probes] by layer and level, for each
    kind of distance.
    """

    projections: Mapping[str, Mapping[tuple[str, str], np.ndarray]]

    @classmethod
    def measure(
        cls,
        vocoder: Vocoder,
        levels: Mapping[str, CompressionLevel],
        excerpts: Iterable[Excerpt],
        probes: int,
        seed: int,
    ) -> "Curvature":
        """Take `probes` gradients in each excerpt. The signs are drawn from `seed`."""
        # a copy whose weights stand as the stored forms have them
        model = next(iter(levels.values())).prepare(vocoder).requires_grad_(False)
        errors: dict[str, dict[str, Tensor]] = {}
        for name, level in levels.items():
            for path, form in level.forms.items():
                weight = _get_weight(model, path)
                # The error d is what a level stores less the weight, in the weight's shape.
                stored = torch.from_numpy(form.to_array().astype(np.float32)).view_as(weight)
                errors.setdefault(path, {})[name] = stored - weight
        weights = [_get_weight(model, path).requires_grad_() for path in errors]
        dots: dict[str, dict[tuple[str, str], list[float]]] = {kind: {} for kind in KINDS}
        draws = torch.Generator().manual_seed(seed)
        for one in excerpts:
            samples = model(*make_reference_arguments(one.inputs)).flatten()
            # Only its slope at the vocoder's own weights counts, so the reference is not
            # subtracted.
            vector = VECTORS[one.kind](samples, samples.detach())
            for turn in range(probes):
                product = draw_slopes(vector, draws)
                # The graph is let go with the last probe of an excerpt.
                gradients = torch.autograd.grad(product, weights, retain_graph=turn < probes - 1)
                for (path, of_layer), gradient in zip(errors.items(), gradients, strict=True):
                    for name, error in of_layer.items():
                        dot = float((gradient * error).sum())
                        dots[one.kind].setdefault((path, name), []).append(dot)
        return cls({kind: _make_arrays(by_key) for kind, by_key in dots.items()})

    def plain(self) -> dict[str, np.ndarray]:
        """The arrays for a file."""
        # A layer's path has dots and no slash, so a slash separates the parts of a key.
        return {
            "/".join((kind, *key)): array
            for kind, by_key in self.projections.items()
            for key, array in by_key.items()
        }

    @classmethod
    def read(cls, plain: Mapping[str, np.ndarray]) -> "Curvature":
        """Take the arrays from a file."""
        projections: dict[str, dict[tuple[str, str], np.ndarray]] = {kind: {} for kind in KINDS}
        for name, array in plain.items():
            kind, path, level = name.split("/")
            projections[kind][path, level] = array
        return cls(projections)

    def distance(self, levels: Mapping[str, str], weights: Mapping[str, float]) -> float:
        """The forecast distance of a choice of levels, the layers' errors together: the mean square
        of the sum of their projections, of each kind times its weight.
        """
        total = 0.0
        for kind, weight in weights.items():
            by_key = self.projections[kind]  # empty where no sentence has a pause
            parts = [by_key[key] for key in levels.items() if by_key and key[1] != HALF]
            if parts:
                total += weight * float(np.square(np.sum(parts, axis=0)).mean())
        return total


def _get_weight(model: Vocoder, path: str) -> Tensor:
    weight = model.get_submodule(path).weight
    assert isinstance(weight, Tensor)
    return weight


def _make_arrays(lists: Mapping[tuple[str, str], list[float]]) -> dict[tuple[str, str], np.ndarray]:
    return {key: np.array(values) for key, values in lists.items()}
