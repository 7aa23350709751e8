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
render for each took half an hour of a core. The two kinds of e:

- `speech`: differences of 10 log10 power in the bins of frames within 40 dB of the loudest.
- `pauses`: samples of quiet frames over the level that they have, since nothing masks a sound
  there, and frames that one hears do not tell of it.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kokoro_ane.core import Checkpoint
from kokoro_ane.quantize.level import Calibration, CompressionLevel, load_level, save_level
from kokoro_ane.quantize.locator import HALF
from kokoro_ane.quantize.methods import SCHEMES, Method, PaletteWeights, is_strided
from kokoro_ane.quantize.plan import LayerSpec, can_be_fitted, can_save, is_fitted, plan_by_level
from kokoro_ane.quantize.recipe import QuantizationRecipe
from kokoro_ane.speech import make_calibration_inputs
from kokoro_ane.vocoder import (
    Vocoder,
    VocoderInputs,
    cut_excerpt,
    make_reference_arguments,
    render_reference,
)

N_FFT, HOP_SAMPLES = 1024, 256
# power floor below the mean of the active frames; active = this far below the loudest
FLOOR_DB, ACTIVE_DB = 50.0, 40.0
# a pause is where 30 ms are so far below the loudest; its level has a floor further down
PAUSE_DB, PAUSE_FLOOR_DB, PAUSE_SAMPLES = 30.0, 55.0, 720
EXCERPT_FRAMES = 80  # two seconds
SPEECH, PAUSES = KINDS = ("speech", "pauses")


@dataclass(frozen=True, eq=False)
class Excerpt:
    """A piece of a sentence, and of which kind its distance counts."""

    kind: str
    inputs: VocoderInputs


def can_take(layer: LayerSpec, level: str) -> bool:
    """Whether a layer can have a level, and the level does anything to it: strided layers have no
    palettes, layers that read one channel no fitted ones, and small weights stay as they are.
    """
    weights = SCHEMES[level].weights
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
            vector = _VECTORS[one.kind](samples, samples.detach())
            for turn in range(probes):
                # with random signs, products of different places cancel on average: what is left
                # of the squared projection is the squared distance
                signs = torch.randint(0, 2, vector.shape, generator=draws) * 2.0 - 1.0
                # By the root of the length, so that a squared projection is a mean over the vector.
                product = (vector * signs).sum() / vector.numel() ** 0.5
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


def compute_speech_vector(samples: Tensor, reference: Tensor) -> Tensor:
    """Samples [n] -> 10 log10 of the power of every bin of the reference's active frames."""
    power, own = spectral_power(samples), spectral_power(reference)  # [bins, frames]
    # silence between words would count like speech, and bins far below it like those one hears
    loudness = own.mean(dim=0)
    active = loudness > loudness.max() * 10 ** (-ACTIVE_DB / 10)
    floor = own[:, active].mean() * 10 ** (-FLOOR_DB / 10)
    return 10 * torch.log10(power[:, active] + floor)


def spectral_power(samples: Tensor) -> Tensor:
    """Samples [n] -> power [bins, frames]."""
    window = torch.hann_window(N_FFT, dtype=samples.dtype)
    return torch.stft(samples, N_FFT, HOP_SAMPLES, window=window, return_complex=True).abs() ** 2


def compute_pause_vector(samples: Tensor, reference: Tensor) -> Tensor:
    """Samples [n] -> those of the reference's pauses over its RMS of 30 ms around them,
    floored.
    """
    power = running_power(reference)
    loudest = power.max()
    quiet = power < loudest * 10 ** (-PAUSE_DB / 10)
    floor = loudest * 10 ** (-PAUSE_FLOOR_DB / 10)
    return samples[quiet] / torch.sqrt(power[quiet] + floor)


def running_power(samples: Tensor) -> Tensor:
    """Samples [n] -> the mean power of PAUSE_SAMPLES around each [n]."""
    squares = samples.square()[None, None]
    # The window is odd, so that the result has the samples' length.
    return F.avg_pool1d(squares, PAUSE_SAMPLES + 1, 1, PAUSE_SAMPLES // 2)[0, 0]


_VECTORS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {SPEECH: compute_speech_vector, PAUSES: compute_pause_vector}
)


def cut_excerpts(checkpoint: Checkpoint, vocoder: Vocoder, seed: int, count: int) -> list[Excerpt]:
    """Two seconds of each of the `count` longest sentences of the tuning set, for speech, and the
    two seconds that hold the most of a pause between words, of the `count` sentences that have
    most.
    """
    sentences = list(make_calibration_inputs(checkpoint, vocoder, first_seed=seed))
    longest = sorted(sentences, key=lambda one: -one.frames)[:count]
    speech = [
        Excerpt(SPEECH, cut_excerpt(one, 0, min(EXCERPT_FRAMES, one.frames))) for one in longest
    ]
    pauses = []
    for one in sentences:
        samples = torch.from_numpy(render_reference(vocoder, one))
        power = running_power(samples)
        heard = torch.nonzero(power > power.max() * 10 ** (-PAUSE_DB / 10)).flatten()
        # Silence before the first word and behind the last is no pause between words.
        inner = torch.zeros_like(power)
        inner[heard[0] : heard[-1]] = 1.0
        quiet = (power < power.max() * 10 ** (-PAUSE_DB / 10)) * inner
        # [F] how much of each frame is a pause, and of the excerpt that begins there
        by_frame = quiet.view(one.frames, -1).mean(dim=1)
        length = min(EXCERPT_FRAMES, one.frames)
        within = by_frame.unfold(0, length, 1).sum(dim=1)
        begin = int(within.argmax())
        pauses.append((float(within[begin]), cut_excerpt(one, begin, length)))
    pauses.sort(key=lambda pair: -pair[0])
    return speech + [Excerpt(PAUSES, inputs) for share, inputs in pauses[:count] if share > 0]
