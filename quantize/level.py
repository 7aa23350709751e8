"""A compression level of one checkpoint's vocoder or encoder: the integers of its layers and what
prepares the vocoder for int8 inputs. Every layout and runtime is made from the same level.

    level = make_level(checkpoint, METHODS["w8a8"])
    save_level(level, path, checkpoint)
    level = load_level(path, checkpoint, METHODS["w8a8"])
    vocoder = level.apply(Vocoder.from_checkpoint(checkpoint))

plan (quantize/plan.py) -> readings of tuning sentences (quantize/statistics.py) -> fits
(quantize/fits.py) -> modules (quantize/stored_forms.py).
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from kokoro_ane.core import (
    ENCODER_NAME,
    VOCODER_NAME,
    CheckFailed,
    Checkpoint,
    ConvTranspose,
    InputError,
    source_sha256,
    staged,
    with_zero_taps,
)
from kokoro_ane.encoder import Encoder
from kokoro_ane.quantize.balance import (
    balance_channels,
    compute_channel_divisors,
    scale_caps,
    with_time_varying_scales,
)
from kokoro_ane.quantize.distances import read_output_moments
from kokoro_ane.quantize.encoder_layers import collect_encoder_fits, plan_encoder, with_stored_lstms
from kokoro_ane.quantize.fits import make_form
from kokoro_ane.quantize.methods import Activations, Method, PaletteWeights
from kokoro_ane.quantize.palettes import Fit, Unfolded, compute_style_moments
from kokoro_ane.quantize.plan import (
    LayerPlan,
    int8_macs_share,
    is_fitted,
    list_vocoder_layers,
    plan_for,
)
from kokoro_ane.quantize.recipe import QuantizationRecipe
from kokoro_ane.quantize.statistics import (
    ActivationStatistics,
    read_activations,
    run_on_threads,
    use_one_thread_each,
)
from kokoro_ane.quantize.stored_forms import Integers, Palette, RoundedInput, StoredWeight, store
from kokoro_ane.speech import FIRST_SEED, make_calibration_inputs
from kokoro_ane.vocoder import PerColumnScaledConv, Vocoder

INT8_STEPS = 127
DIVISOR = "divisor"  # in a level's file
KINDS = {kind.__name__: kind for kind in (Integers, Palette)}
Network = TypeVar("Network", Vocoder, Encoder)
Pair = tuple[str, np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class CompressionLevel:
    """Responsibilities: 1. the stored forms by the layers; 2. a vocoder or encoder that computes
    with them; 3. what was done, in numbers.

    divisors: of the input channels of balanced convolutions, [C] float64 by path. caps: of those
    whose scale varies over time. ranges: of what each convolution with an int8 input reads.
    """

    method: Method
    forms: Mapping[str, StoredWeight]
    divisors: Mapping[str, Tensor]
    caps: Mapping[str, float]
    ranges: Mapping[str, float]
    int8_macs_share: float = 0.0
    recipe: QuantizationRecipe | None = None

    def prepare(self, network: Network) -> Network:
        """A copy whose weights stand as a package has them, in float: LSTMs in Core ML's order,
        taps of zero in the weights. The vocoder's has balanced channels and scales over time.
        """
        if isinstance(network, Encoder):
            return with_stored_lstms(network)
        prepared = with_time_varying_scales(balance_channels(network, self.divisors), self.caps)
        return with_zero_taps(prepared).eval()

    def apply(self, network: Network) -> Network:
        """A copy whose layers hold the level's integers and round what they read."""
        compressed = self.prepare(network)
        for path in sorted({*self.forms, *self.ranges}):
            self.attach(compressed.get_submodule(path), path)
        return compressed

    def list_pairs(self, vocoder: Vocoder) -> Iterator[Pair]:
        """Path and weights [O, I, ...] of every compressed layer, in float and as it is stored."""
        prepared = self.prepare(vocoder)
        for path, form in self.forms.items():
            layer = prepared.get_submodule(path)
            assert isinstance(layer.weight, Tensor)
            weights = layer.weight.detach().numpy(), form.to_array()
            before, after = (w.swapaxes(0, int(isinstance(layer, ConvTranspose))) for w in weights)
            yield path, before, after

    def attach(self, layer: nn.Module, path: str, factor: float = 1.0) -> None:
        """Give a layer the form and the rounding of the vocoder's layer at `path`. It may be a
        layer of another layout whose weights are the vocoder's times `factor`.
        """
        if path in self.forms:
            store(layer, self.forms[path].scale_by(factor))
        if path in self.ranges:
            layer.rounding = self._make_rounding(layer, path)

    def get_range(self, path: str) -> float:
        """The largest magnitude that a convolution reads in int8: what has been divided by its
        envelope reaches 1 by construction.
        """
        return 1.0 if path in self.caps else self.ranges[path]

    def _make_rounding(self, layer: nn.Module, path: str) -> RoundedInput:
        # A range whose step underflows fp16 gets a step of 1.
        scale = np.float16(self.get_range(path) / INT8_STEPS) or np.float16(1.0)
        step = np.array([scale], np.float16)
        reciprocal = getattr(layer, "reciprocal", None)
        if isinstance(reciprocal, Tensor) and path not in self.caps:
            # a factor of each channel moves into the steps: no multiplication is left of it
            factors = reciprocal.flatten().half().double().numpy()
            step = (np.float64(scale) / factors).astype(np.float16)
            layer.register_buffer("reciprocal", None)
        return RoundedInput(step, np.array([scale], np.float16))

    def as_dict(self) -> dict[str, Any]:
        """What was done to weights and inputs, for the manifest."""
        return asdict(self.method) | {
            "recipe": self.recipe.as_dict() if self.recipe else None,
            "compressed_ops": len(self.forms),
            "int8_inputs": len(self.ranges),
            "int8_macs_share": round(self.int8_macs_share, 5),
        }


@dataclass(frozen=True, eq=False)
class Calibration:
    """What levels of one vocoder rest on: what its layers read in tuning sentences. It serves any
    plan whose rounded inputs and fitted palettes are among those that it was made for.
    """

    checkpoint: Checkpoint
    vocoder: Vocoder
    settings: Activations | None
    read: Mapping[str, ActivationStatistics]
    outputs: Mapping[str, Tensor] = field(default_factory=dict)  # moments of slopes

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        vocoder: Vocoder,
        settings: Activations | None,
        plan: Iterable[LayerPlan],
    ) -> "Calibration":
        """Read the first sentences of the tuning set for ranges, all of them with two voices each
        for moments: the decoder has one column a frame, and with one voice its widest layers would
        read fewer than two columns an input.
        """
        plan = list(plan)
        rounded = {entry.layer.name for entry in plan if entry.int8_input}
        # An affine has one column a sentence, too few to tell which of its outputs resemble.
        fitted = [
            entry.layer for entry in plan if is_fitted(entry.weights) and not entry.layer.is_style
        ]
        moments = {layer.name for layer in fitted}
        if not rounded and not moments:
            return cls(checkpoint, vocoder, settings, {})
        first = settings.clips if settings and rounded else 0
        # on two threads the encoder's last bits are others, and a w8a8 has 0.04 % other integers
        with use_one_thread_each():
            clips = list(make_calibration_inputs(checkpoint, vocoder, None if moments else first))
            if moments:
                clips += make_calibration_inputs(checkpoint, vocoder, shift=1)
        percentile = settings.percentile if settings else 100.0
        read = read_activations(vocoder, clips, rounded, moments, first, percentile)
        # A transposed convolution's rows are its outputs at one step of the stride.
        paths = [layer.name for layer in fitted if not layer.transposed]
        outputs = read_output_moments(vocoder, clips, paths, FIRST_SEED) if paths else {}
        return cls(checkpoint, vocoder, settings, read, outputs)

    def make_level(self, method: Method, plan: Mapping[str, LayerPlan]) -> CompressionLevel:
        """The level of a plan. Raises CheckFailed where an input has no range."""
        rounded = [path for path, entry in plan.items() if entry.int8_input]
        divisors: dict[str, Tensor] = {}
        caps: dict[str, float] = {}
        ranges: dict[str, float] = {}
        if rounded:
            settings = self.settings or method.require_activations()
            divisors = compute_channel_divisors(self.vocoder, self.read, rounded, settings.exponent)
            if settings.time_varying_scale:
                every = scale_caps(self.vocoder, self.read, divisors, settings.per_column_scale)
                caps = {path: cap for path, cap in every.items() if path in rounded}
            beyond = 1 - settings.percentile / 100
            ranges = {p: self.read[p].exceeded(beyond, divisors.get(p)) for p in rounded}
            # a value that is always zero has no scale, and one that overflows has none either
            silent = [path for path, size in ranges.items() if not 0.0 < size < float("inf")]
            if silent:
                raise CheckFailed(
                    f"calibration: {silent[0]} has range {ranges[silent[0]]:g} ({len(silent)} in"
                    " all); none can be set"
                )
        level = CompressionLevel(method, {}, divisors, caps, ranges)
        # AdaIN's affines read styles alone: they are fitted to every row of the checkpoint's voices
        # and suit other voices less.
        fitted = any(is_fitted(entry.weights) for entry in plan.values())
        styles = compute_style_moments(self.checkpoint) if fitted else torch.zeros(0)

        def fit(path: str) -> Fit | None:
            """What a fitted palette needs; all moments at once would take gigabytes."""
            if not is_fitted(plan[path].weights):
                return None
            unfolded = Unfolded.from_layer(self.vocoder.get_submodule(path))
            moments = styles if plan[path].layer.is_style else self.read[path].moments
            if path in divisors:
                # of the balanced layer's inputs: what weights take, inputs lose
                inverse = (1 / divisors[path]).float().repeat_interleave(unfolded.taps)
                moments = moments * inverse[:, None] * inverse
            return Fit(unfolded, moments, self.outputs.get(path))

        return replace(level, forms=_make_forms(level.prepare(self.vocoder), plan, fit))


def make_level(
    checkpoint: Checkpoint,
    method: Method,
    recipe: QuantizationRecipe | None = None,
    stage: str = VOCODER_NAME,
) -> CompressionLevel:
    """Compress the checkpoint's vocoder or encoder. Raises InputError for a recipe that does not
    fit, and CheckFailed where an input has no range or no weight is compressed.
    """
    if recipe is not None:
        recipe.require_fits(checkpoint)
    if stage == ENCODER_NAME:
        level = _make_encoder_level(checkpoint, method, recipe)
    else:
        level = _make_vocoder_level(checkpoint, method, recipe)
    if not level.forms:
        raise CheckFailed(f"{method.name} compresses no weight; the package was not kept")
    return level


def _make_vocoder_level(
    checkpoint: Checkpoint, method: Method, recipe: QuantizationRecipe | None
) -> CompressionLevel:
    vocoder = Vocoder.from_checkpoint(checkpoint)
    layers = list_vocoder_layers(vocoder)
    plan = plan_for(method, layers, recipe.levels if recipe else None)
    calibration = Calibration.from_checkpoint(
        checkpoint, vocoder, method.activations, plan.values()
    )
    level = calibration.make_level(method, plan)
    return replace(level, int8_macs_share=int8_macs_share(plan, layers), recipe=recipe)


def _make_encoder_level(
    checkpoint: Checkpoint, method: Method, recipe: QuantizationRecipe | None
) -> CompressionLevel:
    encoder = with_stored_lstms(Encoder.from_checkpoint(checkpoint))
    plan = plan_encoder(method, encoder, recipe.levels if recipe else None)
    forms = _make_forms(encoder, plan, collect_encoder_fits(checkpoint, encoder, plan).get)
    return CompressionLevel(method, forms, {}, {}, {}, recipe=recipe)


def _make_forms(
    prepared: Network, plan: Mapping[str, LayerPlan], fit: Callable[[str], Fit | None]
) -> dict[str, StoredWeight]:
    """The stored forms of all planned layers, made on two threads; none of a weight that stands on
    no grid where its own is looked for.
    """
    stage = type(prepared).__name__.lower()

    def make(path: str) -> StoredWeight | None:
        entry = plan[path]
        layer = prepared.get_submodule(path)
        how = entry.weights
        weight = layer.weight
        assert isinstance(weight, Tensor)
        assert how is not None
        label = f"{stage}_{path.replace('.', '_')}_weight"
        weight = weight.detach().half() if entry.layer.half else weight.detach()
        # how many taps of a kernel stand as outputs of their own
        whole = layer.taps if isinstance(layer, PerColumnScaledConv) else None
        taps = 1 if whole is None else whole.weight.shape[1]
        if taps > 1 and isinstance(how, PaletteWeights):
            # taps that are outputs [O taps, I, 1, 1] stand in their kernel [O, I, 1, taps]: a fit
            # carries the error of one tap to the next
            weight = weight.view(-1, taps, *weight.shape[1:3]).permute(0, 2, 3, 1)
        array = weight.contiguous().numpy()
        axis = int(entry.layer.transposed)
        form = make_form(array, how, fit(path), axis, label)
        if taps > 1 and isinstance(form, Palette):
            # [O, I, 1, taps] back to [O taps, I, 1, 1]
            index = form.index.permute(0, 3, 1, 2).reshape(-1, *form.index.shape[1:3], 1)
            form = form.with_index(index, axis=0)
        return form

    chosen = [path for path, entry in plan.items() if entry.weights is not None]
    forms = zip(chosen, run_on_threads(make, chosen), strict=True)
    return {path: form for path, form in forms if form is not None}


# -- the file --------------------------------------------------------------------------------------


def save_level(level: CompressionLevel, path: Path, checkpoint: Checkpoint) -> None:
    """Write one safetensors file, aside and renamed."""
    from safetensors.numpy import save

    tensors = {f"{name}.{DIVISOR}": value.numpy() for name, value in level.divisors.items()}
    # A tensor is named by its layer's path and the part of the form.
    for name, form in level.forms.items():
        tensors |= {f"{name}.{part}": tensor.numpy() for part, tensor in form.named_buffers()}
    words = {
        "plan": {name: form.settings for name, form in level.forms.items()},
        "caps": dict(level.caps),
        "ranges": dict(level.ranges),
        "int8_macs_share": level.int8_macs_share,
        "made": describe_origin(checkpoint, level.method, level.recipe),
        # of the tensors alone: the metadata that holds it cannot be part of it
        "sha256": hashlib.sha256(save(tensors)).hexdigest(),
    }
    with staged(path) as aside:
        aside.write_bytes(save(tensors, metadata={"level": json.dumps(words, sort_keys=True)}))


def describe_origin(
    checkpoint: Checkpoint, method: Method, recipe: QuantizationRecipe | None
) -> dict[str, Any]:
    """What a level depends on: the same makes the same integers."""
    settings = json.dumps([asdict(method), recipe.as_dict() if recipe else None], sort_keys=True)
    return {
        "checkpoint": checkpoint.network_sha256,
        "method": method.name,
        "settings": hashlib.sha256(settings.encode()).hexdigest(),
        "code": source_sha256("core", "encoder", "vocoder", "quantize"),
    }


def load_level(
    path: Path, checkpoint: Checkpoint, method: Method, recipe: QuantizationRecipe | None = None
) -> CompressionLevel | None:
    """Read a level's file; None for one that other code made. Raises InputError for one that is cut
    or altered, or of another checkpoint, method or recipe.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.numpy import save

    again = f"run `kokoro-ane quantize --method {method.name}` again"
    try:
        with safe_open(path, framework="numpy") as file:
            words = json.loads((file.metadata() or {})["level"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        made = words["made"]
        sha256 = words["sha256"]
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as problem:
        raise InputError(f"{path} is no level's file ({problem}): {again}") from None
    if hashlib.sha256(save(tensors)).hexdigest() != sha256:
        raise InputError(f"{path} was altered: {again}")
    expected = describe_origin(checkpoint, method, recipe)
    differing = [key for key, value in expected.items() if made.get(key) != value]
    # Where the code alone differs the level can be made again, which is no error.
    if differing == ["code"]:
        return None
    if differing:
        raise InputError(f"{path} was made from another {differing[0]}: {again}")
    arrays: dict[str, dict[str, Any]] = {}
    for name, array in tensors.items():
        layer, _, part = name.rpartition(".")
        arrays.setdefault(layer, {})[part] = array
    # What is popped here is no array of a form, whose constructor takes all the others.
    divisors = {
        layer: torch.from_numpy(parts.pop(DIVISOR))
        for layer, parts in arrays.items()
        if DIVISOR in parts
    }
    forms = {
        layer: KINDS[settings.pop("kind")](**arrays[layer], **settings)
        for layer, settings in words["plan"].items()
    }
    caps, ranges, share = (words[name] for name in ("caps", "ranges", "int8_macs_share"))
    return CompressionLevel(method, forms, divisors, caps, ranges, share, recipe)
