"""The forms of the vocoder: one network, two layouts of time. A form says what is traced, its lengths, how speech goes in and out.

    form = form_named("windowed", chips=("m3", "m4"))
    features = form.pack(inputs, bucket=362, half=True)
    samples = form.join(waveform, frames=300, bucket=362)          # [600F]

literal: time on one axis, padded to an enumerated length under a prefix mask. windowed: time folded into rows that overlap, so no axis
grows with the length (vocoder/windowed). Both give the same audio (docs/vocoder.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from core.config import KokoroConfig
from core.contract import (
    COLUMNS_PER_FRAME,
    DEFAULT_BUCKETS,
    FORMS,
    FRAME_SAMPLES,
    HOST,
    LITERAL,
    TRUNK,
    WAVEFORM,
    WHOLE_FORMS,
    WINDOWED,
    WINDOWED_POLYNOMIAL,
    PackedLayout,
    without_host_tail,
)
from core.errors import InputError
from mlprogram.errors import ProgramError
from mlprogram.examine.rules import Rules, load_rules
from vocoder.decoder import Vocoder
from vocoder.form import Form
from vocoder.host_form import HostTailForm
from vocoder.host_tail import HostTail
from vocoder.packing import PackedTrunk, PackedVocoder, VocoderInputs, pack
from vocoder.windowed import geometry
from vocoder.windowed.layers import PolynomialSnake, SineSnake, SnakeForm
from vocoder.windowed.model import WindowedTrunk, WindowedVocoder
from vocoder.windowed.packing import joined_columns, joined_rows, pack_rows

CHECK_FRAMES, CHECK_ROW_FRAMES = 40, 140  # a second, literal; three and a half, windowed


class WholeForm:
    """What the forms with the tail in the package share."""

    output = WAVEFORM

    def output_dtype(self, precision: str) -> str:
        """See Form."""
        return "float32"

    def bound(self, vocoder: Vocoder) -> Any:
        """See Form."""
        return self


@dataclass(frozen=True)
class LiteralForm(WholeForm):
    """Upstream's graph as it is, in (B, C, 1, S), under a prefix mask."""

    name = LITERAL
    tail_divisor = 1.0

    def trunk_module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """See Form."""
        return PackedTrunk(vocoder, PackedLayout(hidden_dim))

    def columns(self, trunk: Tensor, frames: int, bucket: int) -> Tensor:
        """trunk [1, C, 1, 120 bucket + 1] -> [C, 120F + 1]."""
        return trunk[0, :, 0, : COLUMNS_PER_FRAME * frames + 1]

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """A whole bucket where one is near, so that one render has no padding; long enough for every receptive field."""
        near = min(buckets, key=lambda bucket: abs(bucket - CHECK_FRAMES))
        return min(near if near <= CHECK_ROW_FRAMES else CHECK_FRAMES, buckets[-1])

    def lengths(self, config: KokoroConfig, buckets: tuple[int, ...] | None) -> tuple[int, ...]:
        """See Form."""
        return buckets or DEFAULT_BUCKETS

    def module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """See Form."""
        return PackedVocoder(vocoder, PackedLayout(hidden_dim))

    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """See Form."""
        return tuple((1, PackedLayout(hidden_dim).channels, 1, bucket + 1) for bucket in buckets)

    def holds(self, frames: int, bucket: int) -> bool:
        """See Form."""
        return frames <= bucket

    def pack(self, inputs: VocoderInputs, bucket: int, *, half: bool) -> Tensor:
        """See Form."""
        return pack(inputs, bucket)

    def join(self, waveform: Tensor, frames: int, bucket: int) -> Tensor:
        """waveform [1, 1, 1, 600 bucket] -> [600F]."""
        return waveform.flatten()[: FRAME_SAMPLES * frames]

    def features_contract(self, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
        """See Form."""
        layout = PackedLayout(hidden_dim)
        return {
            "shape": [1, layout.channels, 1, "bucket + 1"],
            "rows": dict(zip(("asr", "f0_hz", "energy", "mask", "spectrum"), layout.sizes, strict=True)),
            "packing": "each tensor padded with zeros to rows * (bucket + 1) values a channel group, row after row",
        }

    def waveform_contract(self) -> dict[str, Any]:
        """See Form."""
        return {"shape": [1, 1, 1, f"{FRAME_SAMPLES} * bucket"], "valid": f"first {FRAME_SAMPLES} * frames samples"}


@dataclass(frozen=True)
class WindowedForm(WholeForm):
    """Rows of overlapping windows, every column a real one; made for `chips`. `polynomial`: Snake without a sine."""

    chips: tuple[str, ...]
    polynomial: bool
    tail_divisor = float(len(geometry.KERNELS))  # the mean over parallel blocks is left a sum

    def trunk_module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """See Form."""
        return WindowedTrunk(vocoder, hidden_dim, self.snake(), int8_inputs)

    def columns(self, trunk: Tensor, frames: int, bucket: int) -> Tensor:
        """trunk [1, C, R, n] -> [C, 120F + 1]."""
        return joined_columns(trunk, geometry.Windows.of(frames, bucket))

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """Its shapes need whole windows, and this length fills four of the default ones."""
        return min(CHECK_ROW_FRAMES, buckets[-1])

    @classmethod
    def of(cls, chips: tuple[str, ...] | None = None) -> "WindowedForm":
        """For these chips, every chip of the rules file unless told otherwise. InputError lists the chips."""
        rules = load_rules()
        try:
            names = tuple(dict.fromkeys(chip.lower() for chip in chips or rules.chips if rules.chip(chip)))
        except ProgramError as problem:
            raise InputError(str(problem)) from None
        return cls(names, bool(chips_without_sine(rules) & set(names)))

    @property
    def name(self) -> str:
        """See Form."""
        return WINDOWED_POLYNOMIAL if self.polynomial else WINDOWED

    def snake(self) -> SnakeForm:
        """The Snake of these chips."""
        return PolynomialSnake() if self.polynomial else SineSnake()

    def lengths(self, config: KokoroConfig, buckets: tuple[int, ...] | None) -> tuple[int, ...]:
        """See Form."""
        geometry.require_architecture(config)
        return geometry.check_row_buckets(buckets) if buckets else geometry.default_row_buckets()

    def module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """See Form."""
        return WindowedVocoder(vocoder, hidden_dim, self.snake(), int8_inputs)

    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """See Form."""
        return tuple(geometry.features_shape(bucket, hidden_dim) for bucket in buckets)

    def holds(self, frames: int, bucket: int) -> bool:
        """Every row must be full of real frames."""
        return geometry.shortest(bucket) <= frames <= bucket

    def pack(self, inputs: VocoderInputs, bucket: int, *, half: bool) -> Tensor:
        """See Form."""
        return pack_rows(inputs, bucket, half)

    def join(self, waveform: Tensor, frames: int, bucket: int) -> Tensor:
        """waveform [1, 1, R, n] -> [600F]."""
        return joined_rows(waveform, geometry.Windows.of(frames, bucket))

    def features_contract(self, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
        """See Form."""
        names = ("asr", "f0_hz", "energy", "mask", "weight", "weight_20", "weight_120", "factors", "spectrum")
        sizes = geometry.row_sizes(hidden_dim)
        return {
            "shape": [1, sum(sizes), "rows", f"pitch + {geometry.MARGIN_WIDTH}"],
            "rows": dict(zip(names, sizes, strict=True)),
            "packing": "every row a window of the utterance, zeros beyond it; what runs faster than the frames has its phases as channels "
            "(vocoder/windowed/packing.py)",
            "shapes": {str(bucket): list(geometry.shape_of(bucket)) for bucket in buckets},
            "chips": list(self.chips),
            "windows": geometry.described(),
        }

    def waveform_contract(self) -> dict[str, Any]:
        """See Form."""
        wide = f"{FRAME_SAMPLES} * pitch + {FRAME_SAMPLES // geometry.LOW_RATE * 2 * geometry.HALO_LAST}"
        return {"shape": [1, 1, "rows", wide], "valid": "of every row the frames it owns, see features.windows"}


def chips_without_sine(rules: Rules) -> frozenset[str]:
    """Chips on which sin leaves the engine, or may, by the rules file."""
    named = [rule for rule in rules.rules if rule.kind == "op_types" and "sin" in rule.params["ops"]]
    return frozenset(chip for rule in named for chip in (*rule.chips, *rule.maybe_chips))


def form_named(name: str, chips: tuple[str, ...] | None = None) -> Form:
    """The form of that name; of the windowed ones for these chips, with cosines where all have a sine on the engine, else polynomials.

    Without chips the name decides: `windowed` for every chip that has a sine, `windowed-poly` for every chip. InputError: unknown, or
    chips given to the literal form.
    """
    if name not in FORMS:
        raise InputError(f"unknown form {name!r}; there are: {', '.join(FORMS)}")
    if name not in WHOLE_FORMS:
        return HostTailForm(form_named(without_host_tail(name), chips))
    if name == LITERAL:
        if chips is not None:
            raise InputError(f"--chips belongs to --form {WINDOWED}; the {LITERAL} form has no such choice")
        return LiteralForm()
    rules = load_rules()
    with_sine = tuple(chip for chip in rules.chips if chip not in chips_without_sine(rules))
    form = WindowedForm.of(chips or (with_sine if name == WINDOWED else None))
    return replace(form, polynomial=form.polynomial or name == WINDOWED_POLYNOMIAL)


def form_recorded(name: str, features: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> Form:
    """The form of a built package, from its manifest's name of it and description of `features` and of the outputs."""
    if name.endswith(HOST):
        inner = form_recorded(without_host_tail(name), features)
        return HostTailForm(inner, HostTail.recorded((outputs or {})[TRUNK]["tail"]))
    return form_named(name, None if name == LITERAL else tuple(features["chips"]))
