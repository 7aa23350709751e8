"""The layouts of the vocoder: how an utterance of any length is laid into the package's fixed shapes, and its samples taken out again.

    layout = layout_named("tiled")                       # or "padded", "tiled-poly"; "host", "tiled-host": with the tail on the host
    features = layout.pack(inputs, bucket=182, half=True)
    samples = layout.join(program(...), inputs.frames, bucket=182)

padded: upstream's graph under a mask. tiled: rows of overlapping windows, every column a real one (vocoder/tiled/geometry.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import (
    COLUMNS_PER_FRAME,
    DEFAULT_BUCKETS,
    FRAME_SAMPLES,
    ONE_FUNCTION,
    PADDED,
    TILED,
    TILED_POLYNOMIAL,
    TRUNK,
    WAVEFORM,
    PackedLayout,
    with_host_tail,
    without_host_tail,
)
from kokoro_ane.core.errors import InputError
from kokoro_ane.vocoder.decoder import PackedTrunk, PackedVocoder, Vocoder
from kokoro_ane.vocoder.host_tail import HostTail
from kokoro_ane.vocoder.packing import VocoderInputs, pack
from kokoro_ane.vocoder.tiled import geometry
from kokoro_ane.vocoder.tiled.rows import joined_columns, joined_rows, pack_rows
from kokoro_ane.vocoder.tiled.tiled_layers import PolynomialSnake, SineSnake
from kokoro_ane.vocoder.tiled.tiled_model import TiledTrunk, TiledVocoder
from mlprogram.errors import ProgramError
from mlprogram.examine.rules import Rules, load_rules

CHECK_FRAMES, CHECK_ROW_FRAMES = 40, 140  # a second, padded; three and a half, tiled


@dataclass(frozen=True)
class Layout(ABC):
    """What the builder, the chain and compression ask of a layout.

    `host_tail`: the package ends before conv_post, and `tail`, once it is known, does the rest where the output is joined.
    """

    host_tail: bool = False
    tail: HostTail | None = None

    @property
    def name(self) -> str:
        """One of ONE_FUNCTION; part of the package's name unless padded."""
        return with_host_tail(self.base) if self.host_tail else self.base

    @property
    def output(self) -> str:
        """What the package gives: waveform or trunk."""
        return TRUNK if self.host_tail else WAVEFORM

    def output_dtype(self, precision: str) -> str:
        """The tail gives float32; a trunk comes as it is computed."""
        return "float16" if self.host_tail and precision == "fp16" else "float32"

    def with_tail_of(self, vocoder: Vocoder) -> "Layout":
        """Itself, with the weights of the vocoder that `join` needs."""
        return replace(self, tail=HostTail.of(vocoder, self.tail_divisor)) if self.host_tail else self

    def join(self, output: Tensor, frames: int, bucket: int) -> Tensor:
        """The package's output -> [600F]."""
        if not self.host_tail:
            return self.samples(output, frames, bucket)
        return torch.from_numpy(self._known_tail()(self.columns(output, frames, bucket).float().numpy()))

    def output_contract(self) -> dict[str, Any]:
        """The output in words, for the manifest; of a trunk also the weights of what comes behind it."""
        if not self.host_tail:
            return self.waveform_contract()
        tail = self._known_tail()
        return {
            "shape": [1, tail.weight.shape[1], self.rows, "columns"],
            "valid": f"{COLUMNS_PER_FRAME} * frames + 1 columns, those of a waveform's own frames",
            "tail": tail.described(),
        }

    def _known_tail(self) -> HostTail:
        assert self.tail is not None, "with_tail_of() or layout_recorded() first"
        return self.tail

    @property
    @abstractmethod
    def base(self) -> str:
        """The name with the tail in the package."""

    @property
    @abstractmethod
    def rows(self) -> str:
        """Rows of the output, for the manifest."""

    @property
    @abstractmethod
    def tail_divisor(self) -> float:
        """How many times too large a trunk is."""

    @abstractmethod
    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """Frames of the utterance that a build is checked with: about a second, as short as the layout's shapes allow."""

    @abstractmethod
    def lengths(self, config: KokoroConfig, buckets: tuple[int, ...] | None) -> tuple[int, ...]:
        """The lengths to build, in frames; None: the layout's default ones. InputError where it cannot have one, or not this checkpoint."""

    @abstractmethod
    def module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """What is traced: (features, style) -> output. `int8_inputs`: with every scale where quantize can reach it."""

    @abstractmethod
    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """Shape of `features` at every length."""

    @abstractmethod
    def holds(self, frames: int, bucket: int) -> bool:
        """Whether an utterance of so many frames goes into the bucket."""

    @abstractmethod
    def pack(self, inputs: VocoderInputs, bucket: int, *, half: bool) -> Tensor:
        """`features`, float32. `half`: the package takes fp16. InputError where the bucket does not hold the utterance."""

    @abstractmethod
    def samples(self, waveform: Tensor, frames: int, bucket: int) -> Tensor:
        """The waveform of a package -> [600F]."""

    @abstractmethod
    def columns(self, trunk: Tensor, frames: int, bucket: int) -> Tensor:
        """The trunk of a package -> [C, 120F + 1]."""

    @abstractmethod
    def features_contract(self, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
        """`features` in words, for the manifest."""

    @abstractmethod
    def waveform_contract(self) -> dict[str, Any]:
        """`waveform` in words, for the manifest."""


@dataclass(frozen=True)
class PaddedLayout(Layout):
    """Upstream's graph as it is, in (B, C, 1, S), under a prefix mask."""

    base, rows, tail_divisor = PADDED, "1", 1.0

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """A whole bucket where one is near, so that one render has no padding; long enough for every receptive field."""
        near = min(buckets, key=lambda bucket: abs(bucket - CHECK_FRAMES))
        return min(near if near <= CHECK_ROW_FRAMES else CHECK_FRAMES, buckets[-1])

    def lengths(self, config: KokoroConfig, buckets: tuple[int, ...] | None) -> tuple[int, ...]:
        """Any."""
        return buckets or DEFAULT_BUCKETS

    def module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """See Layout; every scale is in reach."""
        return (PackedTrunk if self.host_tail else PackedVocoder)(vocoder, PackedLayout(hidden_dim))

    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """[1, channels, 1, bucket + 1]."""
        return tuple((1, PackedLayout(hidden_dim).channels, 1, bucket + 1) for bucket in buckets)

    def holds(self, frames: int, bucket: int) -> bool:
        """The rest is padding."""
        return frames <= bucket

    def pack(self, inputs: VocoderInputs, bucket: int, *, half: bool) -> Tensor:
        """See vocoder.packing.pack."""
        return torch.from_numpy(pack(inputs, bucket))

    def samples(self, waveform: Tensor, frames: int, bucket: int) -> Tensor:
        """waveform [1, 1, 1, 600 bucket] -> [600F]."""
        return waveform.flatten()[: FRAME_SAMPLES * frames]

    def columns(self, trunk: Tensor, frames: int, bucket: int) -> Tensor:
        """trunk [1, C, 1, 120 bucket + 1] -> [C, 120F + 1]."""
        return trunk[0, :, 0, : COLUMNS_PER_FRAME * frames + 1]

    def features_contract(self, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
        """See Layout."""
        layout = PackedLayout(hidden_dim)
        return {
            "shape": [1, layout.channels, 1, "bucket + 1"],
            "rows": dict(zip(("asr", "f0_hz", "energy", "mask", "spectrum"), layout.sizes, strict=True)),
            "packing": "each tensor padded with zeros to rows * (bucket + 1) values a channel group, row after row",
        }

    def waveform_contract(self) -> dict[str, Any]:
        """See Layout."""
        return {"shape": [1, 1, 1, f"{FRAME_SAMPLES} * bucket"], "valid": f"first {FRAME_SAMPLES} * frames samples"}


@dataclass(frozen=True)
class TiledLayout(Layout):
    """Rows of overlapping windows, every column a real one; made for `chips`. `polynomial`: Snake without a sine."""

    chips: tuple[str, ...] = ()
    polynomial: bool = False

    rows, tail_divisor = "rows", float(len(geometry.KERNELS))  # the mean over parallel blocks is left a sum

    @classmethod
    def of(cls, chips: tuple[str, ...] | None = None) -> "TiledLayout":
        """For these chips, every chip of the rules file unless told otherwise. InputError lists the chips."""
        rules = load_rules()
        try:
            names = tuple(dict.fromkeys(chip.lower() for chip in chips or rules.chips if rules.chip(chip)))
        except ProgramError as problem:
            raise InputError(str(problem)) from None
        return cls(chips=names, polynomial=bool(chips_without_sine(rules) & set(names)))

    @property
    def base(self) -> str:
        """By its Snake."""
        return TILED_POLYNOMIAL if self.polynomial else TILED

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """Its shapes need whole windows, and this length fills four of the default ones."""
        return min(CHECK_ROW_FRAMES, buckets[-1])

    def lengths(self, config: KokoroConfig, buckets: tuple[int, ...] | None) -> tuple[int, ...]:
        """Whole rows, for the architecture that the halos were computed for."""
        geometry.require_architecture(config)
        return geometry.check_row_buckets(buckets) if buckets else geometry.default_row_buckets()

    def module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """See Layout; with the Snake of its chips."""
        snake = PolynomialSnake() if self.polynomial else SineSnake()
        return (TiledTrunk if self.host_tail else TiledVocoder)(vocoder, hidden_dim, snake, int8_inputs)

    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """[1, channels, rows, pitch + 36]."""
        return tuple(geometry.features_shape(bucket, hidden_dim) for bucket in buckets)

    def holds(self, frames: int, bucket: int) -> bool:
        """Every row must be full of real frames."""
        return geometry.shortest(bucket) <= frames <= bucket

    def pack(self, inputs: VocoderInputs, bucket: int, *, half: bool) -> Tensor:
        """See vocoder.tiled.rows.pack_rows."""
        return pack_rows(inputs, bucket, half)

    def samples(self, waveform: Tensor, frames: int, bucket: int) -> Tensor:
        """waveform [1, 1, R, n] -> [600F]."""
        return joined_rows(waveform, geometry.Windows.of(frames, bucket))

    def columns(self, trunk: Tensor, frames: int, bucket: int) -> Tensor:
        """trunk [1, C, R, n] -> [C, 120F + 1]."""
        return joined_columns(trunk, geometry.Windows.of(frames, bucket))

    def features_contract(self, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
        """See Layout."""
        names = ("asr", "f0_hz", "energy", "mask", "weight", "weight_20", "weight_120", "factors", "spectrum")
        sizes = geometry.row_sizes(hidden_dim)
        return {
            "shape": [1, sum(sizes), "rows", f"pitch + {geometry.MARGIN_WIDTH}"],
            "rows": dict(zip(names, sizes, strict=True)),
            "packing": "every row a window of the utterance, zeros beyond it; what runs faster than the frames has its phases as channels "
            "(vocoder/tiled/rows.py)",
            "shapes": {str(bucket): list(geometry.shape_of(bucket)) for bucket in buckets},
            "chips": list(self.chips),
            "windows": geometry.described(),
        }

    def waveform_contract(self) -> dict[str, Any]:
        """See Layout."""
        wide = f"{FRAME_SAMPLES} * pitch + {FRAME_SAMPLES // geometry.LOW_RATE * 2 * geometry.HALO_LAST}"
        return {"shape": [1, 1, "rows", wide], "valid": "of every row the frames it owns, see features.windows"}


def chips_without_sine(rules: Rules) -> frozenset[str]:
    """Chips on which sin leaves the engine, or may, by the rules file."""
    named = [rule for rule in rules.rules if rule.kind == "op_types" and "sin" in rule.params["ops"]]
    return frozenset(chip for rule in named for chip in (*rule.chips, *rule.maybe_chips))


def layout_named(name: str, chips: tuple[str, ...] | None = None) -> Layout:
    """The layout of that name; of the tiled ones for these chips, with cosines where all have a sine on the engine, else polynomials.

    Without chips the name decides: `tiled` for every chip that has a sine, `tiled-poly` for every chip. InputError: unknown, or
    chips given to the padded layout.
    """
    if name not in ONE_FUNCTION:
        raise InputError(f"unknown layout {name!r}; of one function there are: {', '.join(ONE_FUNCTION)}")
    base = without_host_tail(name)
    if base == PADDED:
        if chips is not None:
            raise InputError(f"--chips belongs to --layout {TILED}; the {PADDED} layout has no such choice")
        return PaddedLayout(host_tail=name != base)
    rules = load_rules()
    with_sine = tuple(chip for chip in rules.chips if chip not in chips_without_sine(rules))
    layout = TiledLayout.of(chips or (with_sine if base == TILED else None))
    return replace(layout, polynomial=layout.polynomial or base == TILED_POLYNOMIAL, host_tail=name != base)


def layout_recorded(name: str, features: Mapping[str, Any], outputs: Mapping[str, Any]) -> Layout:
    """The layout of a built package, from its manifest's name of it and description of `features` and of the outputs."""
    layout = layout_named(name, None if without_host_tail(name) == PADDED else tuple(features["chips"]))
    return replace(layout, tail=HostTail.recorded(outputs[TRUNK]["tail"])) if layout.host_tail else layout
