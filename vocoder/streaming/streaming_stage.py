"""The vocoder in the streaming layout as a Stage: one package of three functions (iOS 18), their
promises, checks and contract.

    lengths = Lengths.of(buckets)
    stage = StreamingStage(checkpoint, predictor_of(checkpoint), lengths, "fp16", speech)
    (manifest,) = build(stage, Path("build"))

A build compares with PyTorch: a short utterance with the vocoder itself, a long one with the same
windows and the same predicted statistics. What the prediction costs is the judge's to say (eval/),
not a build's.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kokoro_ane.core.builder import Part
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, ProgramFacts, computing, require, snr_db
from kokoro_ane.core.contract import (
    AFFINE,
    DECODER,
    DEFAULT_BUCKETS,
    ENTERING,
    FEATURES,
    FRAME_SAMPLES,
    SAMPLE_RATE_HZ,
    STEPS_PER_FRAME,
    STREAMING,
    STYLE,
    STYLE_AFFINE,
    UTTERANCE,
    VOCODER_NAME,
    WAVEFORM,
    WINDOW,
)
from kokoro_ane.core.export import Function, TensorType
from kokoro_ane.core.manifest import level_name
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.packing import VocoderInputs, excerpt
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor
from kokoro_ane.vocoder.streaming.streaming_functions import (
    FP32_MODULES,
    DecoderFunction,
    UtteranceFunction,
    WindowFunction,
    window_rows,
)
from kokoro_ane.vocoder.streaming.streaming_layers import FORMS
from kokoro_ane.vocoder.streaming.streaming_model import SecondStage
from kokoro_ane.vocoder.streaming.streaming_package import Lengths, StreamingChain
from kokoro_ane.vocoder.streaming.windows import HALO, SIZES
from kokoro_ane.vocoder.vocoder_stage import (
    EQUAL_DB,
    FORBIDDEN,
    LIMIT_PADDING_DB,
    LIMIT_SNR_DB,
    TAIL_MODULES,
    CheckedVocoder,
    VocoderFacts,
    check_buckets_of,
    fill_figures,
)
from mlprogram import Program
from mlprogram.graph import Operation

FUNCTIONS = (DECODER, UTTERANCE, WINDOW)
# frames, to 20.4 s: the decoder's widest axis has 20 (B + 1) columns, and most engines take 16,384
LONGEST_BUCKET = 818
BUCKETS = tuple(SIZES[-1] if bucket == 136 else bucket for bucket in DEFAULT_BUCKETS)
BUCKETS = (*(bucket for bucket in BUCKETS if bucket < LONGEST_BUCKET), LONGEST_BUCKET)
# of the speech: windows of several lengths; a second of it, measured
CHECK_FRAMES, SHORT_FRAMES = 180, 40
# of long utterances in another bucket: sums over more zeros round otherwise, and real Kokoro turns
# that into 90 dB
LIMIT_TOLD_DB = 70.0
OVER_TIME = (
    "reduce_mean",
    "reduce_sum",
    "reduce_sum_square",
    "reduce_l2_norm",
    "reduce_max",
    "cumsum",
    "instance_norm",
)


@dataclass(frozen=True)
class DecoderFacts(ProgramFacts):
    """Also fp32 values of more than one column: the frames are fp16's."""

    wide_fp32: tuple[str, ...]

    @classmethod
    def read(cls, program: Program, precision: str, lengths: int) -> "DecoderFacts":
        """Walk the program. Raises CheckFailed where it breaks a promise."""
        values = [
            (op, value)
            for op in computing(program)
            for value in op.outputs
            if value.dtype.name == "fp32"
        ]
        wide = tuple(op.name for op, value in values if value.shape[2:] != (1, 1))
        facts = cls(**vars(ProgramFacts.of(program, FEATURES, FORBIDDEN)), wide_fp32=wide)
        tail_promise = {f"fp32 beyond one column: {wide[:3]}": precision == "fp32" or not wide}
        require(facts.promises(precision, lengths) | tail_promise, f"function {DECODER}")
        return facts


@dataclass(frozen=True)
class GeneratorFacts(VocoderFacts):
    """Also how many operations reduce over time."""

    over_time: int

    @classmethod
    def read(cls, program: Program, name: str, precision: str, lengths: int) -> "GeneratorFacts":
        """Walk the program. Raises CheckFailed where it breaks a promise."""
        over_time = sum(_is_over_time(op, program) for op in computing(program))
        facts = cls(**vars(VocoderFacts.of(program)), over_time=over_time)
        facts.require(precision, lengths)
        require(
            {f"{over_time} operations reduce over time": name != WINDOW or not over_time},
            f"function {name}",
        )
        return facts


def _is_over_time(op: Operation, program: Program) -> bool:
    """Whether an operation reduces over columns; a scale's maximum over channels does not."""
    if op.op_type not in OVER_TIME or "axes" not in op.inputs:
        return op.op_type in OVER_TIME
    axes = np.ravel(np.asarray(program.constant(op.inputs["axes"][0])))
    return bool({3, -1} & set(axes.tolist()))


@dataclass(frozen=True, eq=False)
class StreamingStage(CheckedVocoder):
    """A core.builder.PackageStage of three functions. `speech` has CHECK_FRAMES; `layout` chooses
    the Snake (FORMS); with `apart` the layers keep the vocoder's weights.
    """

    checkpoint: Checkpoint
    predictor: StatisticsPredictor
    lengths: Lengths
    precision: str
    speech: VocoderInputs
    target: str = "iOS18"
    layout: str = STREAMING
    balanced: Vocoder | None = None
    apart: bool = False

    @cached_property
    def modules(self) -> dict[str, torch.nn.Module]:
        """What is traced, by function."""
        form = FORMS[self.layout]()
        second = SecondStage(self.vocoder, self.predictor.centres, form, self.apart)
        hidden_dim = self.checkpoint.config.hidden_dim
        decoder = DecoderFunction(self.vocoder, self.predictor, hidden_dim, form, self.apart)
        return {
            DECODER: decoder.eval(),
            UTTERANCE: UtteranceFunction(second).eval(),
            WINDOW: WindowFunction(second).eval(),
        }

    def rendered(self, programs: Mapping[str, Program]) -> np.ndarray:
        """The speech by a package's functions, in windows."""
        return StreamingChain(programs, self.lengths.in_windows()).render(self.speech)

    def in_torch(self, dtype: torch.dtype = torch.float32) -> StreamingChain:
        """The windows in PyTorch, of this type behind a float32 decoder."""

        def call(name: str) -> Any:
            (inputs, outputs), kind = (
                self.signature(name),
                torch.float32 if name == DECODER else dtype,
            )
            module = copy.deepcopy(self.modules[name]).to(kind)

            def run(arrays: Mapping[str, Any], hook: None = None) -> dict[str, torch.Tensor]:
                with torch.no_grad():
                    result = module(*(torch.as_tensor(arrays[key]).to(kind) for key in inputs))
                return dict(
                    zip(outputs, result if isinstance(result, tuple) else (result,), strict=True)
                )

            return run

        return StreamingChain({name: call(name) for name in FUNCTIONS}, self.lengths.in_windows())

    def signature(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of a function's inputs and outputs."""
        if name == DECODER:
            return (FEATURES, STYLE), (ENTERING, AFFINE, STYLE_AFFINE)
        return (FEATURES, STYLE_AFFINE if name == UTTERANCE else AFFINE), (WAVEFORM,)

    def parts(self) -> tuple[Part, ...]:
        """One package of three functions."""
        level = level_name(self.precision, self.layout)
        return (self.part(VOCODER_NAME, level, {function: function for function in FUNCTIONS}),)

    def buckets_of(self, name: str) -> tuple[int, ...]:
        """A function's lengths, in frames."""
        return {
            DECODER: self.lengths.decoder,
            UTTERANCE: self.lengths.utterance,
            WINDOW: self.lengths.windows,
        }[name]

    def shapes(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Shape of a function's features at every length."""
        buckets = self.buckets_of(name)
        if name == DECODER:
            return PaddedLayout().shapes(buckets, self.checkpoint.config.hidden_dim)
        # an utterance has its mask as one more row
        rows = sum(window_rows(self.channels)) + (name == UTTERANCE)
        return tuple((1, rows, 1, bucket + 1) for bucket in buckets)

    @property
    def channels(self) -> int:
        """How many the generator's second stage reads."""
        return self.vocoder.generator.ups[1].in_channels

    @property
    def rows(self) -> int:
        """Gains and shifts of the second stage's norms."""
        return len(self.predictor.bias)

    def function(self, name: str) -> Function:
        """Its features and one column to what `signature` says."""
        dtype, (inputs, outputs) = np.dtype(self.dtype).type, self.signature(name)
        shapes = self.shapes(name)
        second = (1, self.checkpoint.config.style_dim if name == DECODER else self.rows, 1, 1)
        return Function(
            self.modules[name],
            (torch.ones(shapes[0]), torch.zeros(second)),
            (TensorType(FEATURES, dtype, shapes), TensorType(inputs[1], dtype, (second,))),
            tuple(TensorType(out, np.float32 if out == WAVEFORM else dtype) for out in outputs),
            FP32_MODULES if name == DECODER else TAIL_MODULES,
        )

    def facts(self, name: str, program: Program) -> ProgramFacts:
        """The program's counts. Raises CheckFailed where it breaks a promise."""
        limits = self.precision, len(self.buckets_of(name))
        return (
            DecoderFacts.read(program, *limits)
            if name == DECODER
            else GeneratorFacts.read(program, name, *limits)
        )

    def figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """A short utterance at several fills, a long one at two and cut in two ways."""
        chain = StreamingChain(programs, self.lengths)
        exact = StreamingChain(
            {
                name: Program(p.path, function=p.function, precision="exact")
                for name, p in programs.items()
            },
            self.lengths,
        )
        short = excerpt(self.speech, 0, SHORT_FRAMES)
        buckets = check_buckets_of(
            short.frames, tuple(b for b in self.lengths.utterance if b >= short.frames)
        )
        figures = fill_figures(
            lambda bucket: chain.render(short, bucket),
            lambda bucket: exact.render(short, bucket),
            render_reference(self.vocoder, short), buckets, self.precision,
        )  # fmt: skip
        return figures + self._of_windows(
            *(replace(each, lengths=self.lengths.in_windows()) for each in (chain, exact))
        )

    def _of_windows(self, chain: StreamingChain, exact: StreamingChain) -> list[Check]:
        bucket, *wider = [b for b in self.lengths.decoder if b >= self.speech.frames]
        title = f"{self.speech.frames} frames in windows"
        plain = exact.render(self.speech, bucket)

        def equal(name: str, other: np.ndarray, limit: float) -> Check:
            value = min(snr_db(plain, other), EQUAL_DB)
            return Check(name, value, limit, at_least=True)

        reference = self.in_torch().render(self.speech, bucket)
        figures = [
            Check(
                f"SNR against PyTorch, {title}",
                snr_db(reference, chain.render(self.speech, bucket)),
                LIMIT_SNR_DB[self.precision],
                at_least=True,
            ),
            equal(
                f"cuts, exact arithmetic, {title}, short ones first",
                exact.render(self.speech, bucket, early=True),
                LIMIT_PADDING_DB,
            ),
        ]
        for wide in wider[:1]:
            name = f"padding, exact arithmetic, {title}, bucket {wide} against {bucket}"
            figures.append(equal(name, exact.render(self.speech, wide), LIMIT_TOLD_DB))
        return figures

    def contract(self, part: Part) -> dict[str, Any]:
        """The manifest's fields that only this stage knows."""
        return self.provenance() | {
            "layout": self.layout,
            "buckets": self.lengths.decoder,
            "inputs": {name: self._inputs(name) for name in part.functions},
            "outputs": {name: self._outputs(name) for name in part.functions},
        }

    def _inputs(self, name: str) -> dict[str, Any]:
        features = {
            "shape": [1, self.shapes(name)[0][1], 1, f"{self._length(name)} + 1"],
            "frames": self.buckets_of(name),
            "dtype": self.dtype,
        }
        padded = PaddedLayout().features_contract(self.checkpoint.config.hidden_dim)
        if name == DECODER:
            packing = (
                "as the padded layout's, but each six columns of the spectrum stand as six rows:"
                " row 6 c + p of 20 (bucket + 1) columns holds column 6 t + p of channel c at t"
            )
            style = self.style_contract() | {
                "voices": self.checkpoint.voices and self.predictor.voices,
                "statistics_sha256": self.predictor.sha256,
            }
            features |= {"rows": padded["rows"], "packing": packing}
            return {FEATURES: features, STYLE: style}
        rows = dict(zip((ENTERING, "spectrum"), window_rows(self.channels), strict=True))
        rows |= {"mask": 1} if name == UTTERANCE else {}
        packing = padded["packing"].replace("bucket", "length")
        second = self.signature(name)[0][1]
        return {
            FEATURES: features | {"rows": rows, "packing": packing, "halo_frames": HALO},
            second: self._column() | {"of": f"{DECODER}.{second}"},
        }

    def _outputs(self, name: str) -> dict[str, Any]:
        if name == DECODER:
            entering = {
                "shape": [1, self.channels, 1, f"{STEPS_PER_FRAME} * bucket"],
                "dtype": self.dtype,
                "valid": f"first {STEPS_PER_FRAME} * frames columns",
            }
            affine, style_affine = (self._column() | {"use": use} for use in (WINDOW, UTTERANCE))
            return {ENTERING: entering, AFFINE: affine, STYLE_AFFINE: style_affine}
        valid = f"first {FRAME_SAMPLES} * frames samples; of a window those of its own frames"
        waveform = {
            "shape": [1, 1, 1, f"{FRAME_SAMPLES} * {self._length(name)}"],
            "dtype": "float32",
            "rate_hz": SAMPLE_RATE_HZ,
            "valid": valid,
        }
        return {WAVEFORM: waveform}

    def _length(self, name: str) -> str:
        return "window" if name == WINDOW else "bucket"

    def _column(self) -> dict[str, Any]:
        """Gains and shifts of the second stage's norms."""
        return {"shape": [1, self.rows, 1, 1], "dtype": self.dtype}
