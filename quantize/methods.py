"""The compression methods, each a frozen configuration in one registry. The name here is the name
on every command line, in every file and report.

    from kokoro_ane.quantize.methods import METHODS, find_method
    METHODS["w8a8"].activations.exponent
"""

import dataclasses
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from kokoro_ane.core import InputError

ROWS = 1  # output channels that share a table in recipes of `mixed18`
TABLE_SHARE = 0.025  # most bytes that tables may take, as a share of the indices'
GROUPS = 32  # input channels that share a scale
LEAST_BLOCK = 8  # input channels


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InputError(message)


@dataclass(frozen=True)
class IntegerWeights:
    """Weights as integers with zero point 0: w = scale * q with |q| <= 2^(bits - 1) - 1, one scale
    per output channel, or for each block of its input channels, which needs iOS 18.

    The block is the largest divisor of a layer's input channels up to `block`. A layer that has no
    divisor of 8 or more gets one scale per output channel. Example: with block=32, 512 input
    channels have 16 scales of 32, 90 channels have 3 of 30, and 22 channels have 1 of 22.

    gptq: the integers are fitted to what the layer reads in the tuning set's sentences.
    """

    bits: int = 8
    block: int = 0  # none
    gptq: bool = False

    def __post_init__(self) -> None:
        _require(self.bits in (4, 8), f"integer weights of {self.bits} bits: 4 or 8 is needed")
        message = f"block is {self.block}: 8 input channels or more are needed"
        _require(self.block == 0 or self.block >= LEAST_BLOCK, message)
        _require(
            not (self.gptq and self.block), "fitted integers have one scale per output channel"
        )

    def choose_block(self, channels: int) -> int:
        """The block of a layer with that many input channels, at most all of them."""
        # From the largest down: the first divisor is the largest.
        sizes = range(min(self.block, channels), LEAST_BLOCK - 1, -1)
        return next((size for size in sizes if channels % size == 0), channels)


@dataclass(frozen=True)
class PaletteWeights:
    """Weights as indices into tables of 2^bits fp16 values, which a k-means without random numbers
    chooses (quantize/palettes.py).

    gptq: the indices are fitted to what the layer reads in the tuning set's sentences.
    rows: output channels that share one table; 0 means the whole tensor, anything else needs
    iOS 18. More rows share one where tables would take over TABLE_SHARE of the indices' bytes.
    int8_entries: the tables hold integers of 8 bits and one scale each, which needs iOS 18.
    Example: `[512, 256, 1, 3]` with bits=6, rows=16 -> 32 tables of 64 values.
    """

    bits: int
    gptq: bool = False
    rows: int = 0
    int8_entries: bool = False

    def __post_init__(self) -> None:
        _require(self.bits in (3, 4, 6, 8), f"palette of {self.bits} bits: 3, 4, 6 or 8 is needed")

    def choose_rows(self, outputs: int, width: int, value_bytes: int = 2) -> int:
        """How many of `outputs` output channels, with `width` weights each, share a table."""
        # 8 bits a byte: of the table's 2^bits values, and of the indices of one row
        fewest = 8 * value_bytes * 2**self.bits / (self.bits * width * TABLE_SHARE)
        # Rows are shared evenly, so only divisors of the outputs count.
        sizes = range(self.rows or outputs, outputs)
        return next((size for size in sizes if outputs % size == 0 and size >= fewest), outputs)


@dataclass(frozen=True)
class OwnGrid:
    """The 8-bit grid that a weight stands on already. It is recovered from the weight's values, so
    nothing is lost. A weight without such a grid stays in float.
    """


# Layers whose inputs stay in float:
# - the decoder's first one, whose weights cannot hold pitch in hertz beside the text's channels;
# - the depthwise upsampler;
# - the first upsampler, 0.8 % of the arithmetic: with it in int8 one gate is undecided
#   (docs/quantization.md); and the second, because AdaIN's epsilon fixes the scale of its input;
# - all of the last stage: where a column is a fifth of a millisecond, rounding moves more bytes
#   than it saves and makes half of the level's error (docs/quantization.md);
# - the block of the first stage that makes most of the rest.
FLOAT_INPUTS = (
    "encode.conv1",
    "*.pool",
    "generator.ups.*",
    "generator.noise_convs.1",
    "generator.noise_res.1.*",
    "generator.resblocks.[345].*",
    "generator.resblocks.1.convs1.*",
)
Weights = IntegerWeights | PaletteWeights | OwnGrid


@dataclass(frozen=True)
class Activations:
    """Inputs of convolutions in int8, with one scale a tensor, zero point 0, and ranges measured on
    the tuning set's first `clips` sentences.

    exponent: how far channels are balanced before; 0 means not at all (quantize/balance.py).
    percentile: which percentile of a value's magnitudes in a sentence counts; the largest of all
    sentences is the range. 100 means the largest peak.
    time_varying_scale: convolutions of short reach read values divided by a smooth scale that
    varies over time.
    per_column_scale: the decoder's convolutions read values divided by a scale for every column.
    float_inputs: PyTorch paths, or patterns with *, of layers that keep a float input. AdaIN's
    affines, which run on one column, and the fp32 tail always do.
    """

    exponent: float = 0.7
    percentile: float = 99.999
    time_varying_scale: bool = True
    per_column_scale: bool = True
    float_inputs: tuple[str, ...] = FLOAT_INPUTS
    clips: int = 16

    def __post_init__(self) -> None:
        _require(
            0.0 <= self.exponent <= 1.0,
            f"exponent of the balance is {self.exponent}: 0 to 1 is needed",
        )
        _require(
            90.0 <= self.percentile <= 100.0,
            f"percentile is {self.percentile}: 90 to 100 is needed",
        )
        _require(
            self.clips >= 1, f"clips is {self.clips}: at least one calibration sentence is needed"
        )
        _require(
            self.exponent > 0 or not self.time_varying_scale,
            "time_varying_scale needs an exponent above 0: the package is converted anew for both",
        )

    def takes(self, layer: str) -> bool:
        """Whether no exception names a layer's input."""
        return not any(fnmatchcase(layer, pattern) for pattern in self.float_inputs)


@dataclass(frozen=True)
class Scheme:
    """What a recipe may do to one layer. `weights` None means fp16."""

    weights: Weights | None
    int8_input: bool = False


SCHEMES = MappingProxyType(
    {
        "fp16": Scheme(None),
        "w8": Scheme(IntegerWeights()),
        "w8_gptq": Scheme(IntegerWeights(gptq=True)),
        "p6": Scheme(PaletteWeights(6)),
        "p4": Scheme(PaletteWeights(4)),
        "p6_gptq": Scheme(PaletteWeights(6, gptq=True)),
        "p4_gptq": Scheme(PaletteWeights(4, gptq=True)),
        "p8": Scheme(PaletteWeights(8)),
        "p8g_gptq": Scheme(PaletteWeights(8, gptq=True, rows=ROWS)),
        "p6g_gptq": Scheme(PaletteWeights(6, gptq=True, rows=ROWS)),
        "p4g_gptq": Scheme(PaletteWeights(4, gptq=True, rows=ROWS)),
        "p3g_gptq": Scheme(PaletteWeights(3, gptq=True, rows=ROWS)),
        "w8a8": Scheme(IntegerWeights(), int8_input=True),
    }
)


@dataclass(frozen=True)
class Method:
    """A level of the whole package."""

    name: str
    title: str  # in plain words, for tables
    # the method whose package this one is made from; None: the converter makes it
    parent: str | None = "fp16"
    # what is done to every layer, unless a recipe says it layer by layer
    weights: Weights | None = None
    activations: Activations | None = None
    by_recipe: bool = False
    # a newer deployment target than the parent's
    target: str | None = None
    # why the level is not meant for the Neural Engine
    unfit_for_engine: str | None = None
    # of one clip against the parent; below this the package is broken, not merely coarse
    check_snr_db: float = 15.0
    # the first pattern that a layer's name fits, else `weights`
    parts: tuple[tuple[str, Weights], ...] = ()

    @property
    def lossless(self) -> bool:
        """Whether every weight keeps its exact value."""
        return isinstance(self.weights, OwnGrid)

    def find_weights(self, name: str) -> Weights | None:
        """The scheme of the layer of that name."""
        return next(
            (weights for pattern, weights in self.parts if fnmatchcase(name, pattern)), self.weights
        )

    @property
    def balances(self) -> bool:
        """Whether channels are balanced before anything is quantized."""
        return self.activations is not None and self.activations.exponent > 0

    def require_activations(self) -> Activations:
        """How inputs become int8. Raises InputError for a method that keeps them in float."""
        if self.activations is None:
            raise InputError(f"method {self.name!r} has no activations to set")
        return self.activations


_BLOCKS = (
    "int4 weights in blocks are unpacked on the GPU; the Neural Engine's compiler is reported to"
    " give wrong sums for block scales"
)
# Layers that move by more than two columns at a time. "With palettized kernels, stride support is
# very limited: use up to 2" (Apple, coreai-models, neural_engine_rules.md, 2026), so they have
# integers instead.
STRIDED = ("generator.ups.*", "generator.noise_convs.0")
_STRIDED = tuple((pattern, IntegerWeights()) for pattern in STRIDED)
_ALL = (
    Method("fp16", "16-bit floats", parent=None),
    Method("w8", "8-bit weights", weights=IntegerWeights()),
    Method("p8", "palette, 8 bits", weights=PaletteWeights(8), parts=_STRIDED),
    Method("p6", "palette, 6 bits", weights=PaletteWeights(6), parts=_STRIDED),
    Method("p4", "palette, 4 bits", weights=PaletteWeights(4), check_snr_db=0.0),
    Method(
        "w4",
        "4-bit weights in blocks",
        weights=IntegerWeights(4, GROUPS),
        target="iOS18",
        unfit_for_engine=_BLOCKS,
        check_snr_db=0.0,
    ),
    Method(
        "w8a8",
        "8-bit weights and activations",
        weights=IntegerWeights(),
        activations=Activations(),
        # real Kokoro has 7.8 dB, which is coarse: that is for the judge to reject
        check_snr_db=5.0,
    ),
    # The tables' entries are integers, so that an engine can multiply integers: apple/coremltools
    # issue 2410 calls that very likely the best from A17 Pro and M4 on.
    Method(
        "p6a8",
        "palettes of int8, 6 bits, and 8-bit activations",
        weights=PaletteWeights(6, gptq=True, rows=16, int8_entries=True),
        parts=_STRIDED,
        activations=Activations(),
        target="iOS18",
        check_snr_db=5.0,
    ),
    Method(
        "p4a8",
        "palettes of int8, 4 bits, and 8-bit activations",
        weights=PaletteWeights(4, gptq=True, rows=ROWS, int8_entries=True),
        parts=_STRIDED,
        activations=Activations(),
        target="iOS18",
        check_snr_db=0.0,
    ),
    Method(
        "mixed",
        "each layer as the recipe says",
        activations=Activations(),
        by_recipe=True,
    ),
    Method(
        "mixed18",
        "the same for iOS 18, tables for groups of rows",
        by_recipe=True,
        target="iOS18",
    ),
)
METHODS = MappingProxyType({method.name: method for method in _ALL})

# Methods of the encoder, which runs on CPU and GPU: weights only, in any grouping.
_GROUPED = Method(
    "w8g",
    "8-bit weights, a scale for 32",
    weights=IntegerWeights(8, GROUPS),
    target="iOS18",
)
_BROKEN_DB = 5.0  # random symbols against the parent's: p6 of real Kokoro has 15, noise 0
_SIXTEEN = PaletteWeights(6, rows=16)  # a narrow network has one table a tensor, as p6
_TABLES = Method(
    "p6g",
    "palettes, 6 bits, a table for 16 rows",
    weights=_SIXTEEN,
    target="iOS18",
    check_snr_db=_BROKEN_DB,
)
# ALBERT moves durations most and the text encoder the text's features, so both get 8 bits: on
# weights off their grid (shaken seed 1) 6 bits change the features by 0.79 %, limit 0.7. Energy
# gets 4. F0 and the LSTM that energy shares with it get 6: with 4 voicing flips there more often
# than is allowed (docs/models.md).
_EIGHT, _SIX, _FOUR = (PaletteWeights(bits, gptq=True, rows=16) for bits in (8, 6, 4))
_PARTS = (("bert*", _EIGHT), ("text_encoder*", _EIGHT), ("predictor.N*", _FOUR))
_MIXED = dataclasses.replace(
    _TABLES,
    name="mixed",
    title="fitted palettes of 8, 6 and 4 bits, by part",
    weights=_SIX,
    parts=_PARTS,
)
_SEARCHED = dataclasses.replace(
    _TABLES, name="searched", title="each part as a search found", weights=None, by_recipe=True
)
_EXACT = Method(
    "lossless",
    "8 bits, the checkpoint's own grid",
    weights=OwnGrid(),
    check_snr_db=100.0,
)
_FEW = tuple(
    dataclasses.replace(METHODS[name], check_snr_db=_BROKEN_DB, parts=())
    for name in ("fp16", "w8", "p8", "p6")
)
STAGE_METHODS = MappingProxyType(
    {
        "vocoder": METHODS,
        "encoder": MappingProxyType(
            {
                method.name: method
                for method in (*_FEW, _GROUPED, _TABLES, _MIXED, _SEARCHED, _EXACT)
            }
        ),
    }
)


def is_strided(layer: str) -> bool:
    """Whether a layer's weights may be no palette, see STRIDED."""
    return any(fnmatchcase(layer, pattern) for pattern in STRIDED)


CONVERTED = ("fp16", "fp32")  # made by the converter; every other level is made from fp16
LEVELS = (*CONVERTED, *(name for name in METHODS if name not in CONVERTED))


def find_method(name: str, stage: str = "vocoder") -> Method:
    """The method of that name. Raises InputError with a list for an unknown one."""
    methods = STAGE_METHODS[stage]
    if name not in methods:
        raise InputError(f"unknown method {name!r}; there are: {', '.join(methods)}")
    return methods[name]


def with_settings(method: Method, settings: list[str]) -> Method:
    """The method with other settings for its activations, by KEY=VALUE pairs. Raises InputError for
    an unknown key and for a value of another kind.
    """
    if not settings:
        return method
    activations = method.require_activations()
    changes = dict(_parse_setting(setting) for setting in settings)
    return dataclasses.replace(method, activations=dataclasses.replace(activations, **changes))


def _parse_setting(setting: str) -> tuple[str, Any]:
    key, separator, text = setting.partition("=")
    defaults = dataclasses.asdict(Activations())
    _require(
        bool(separator) and key in defaults,
        f"--set {setting}: give KEY=VALUE with a key of {', '.join(sorted(defaults))}",
    )
    kind = type(defaults[key])
    if kind is tuple:
        # A tuple is written with commas, and nothing stands for an empty one.
        return key, tuple(filter(None, text.split(",")))
    try:
        # ValueError where a truth is neither 0 nor 1
        return key, bool(("0", "1").index(text)) if kind is bool else kind(text)
    except ValueError:
        raise InputError(f"--set {setting}: {text!r} is not a number") from None


# What a search chooses from, by the method that follows its recipe: for every layer of the vocoder
# beside fp16, for every part of the encoder, finest first.
CHOICES = MappingProxyType(
    {
        "mixed": ("w8", "w8_gptq", "p6", "p4", "p6_gptq", "p4_gptq"),
        "mixed18": ("w8", "w8_gptq", "p8", "p6g_gptq", "p4g_gptq", "p3g_gptq"),
        "searched": ("p8g_gptq", "p6g_gptq", "p4g_gptq"),
    }
)
