"""The vocoder in the streaming layout as a Stage: one package of three functions (iOS 18), their
promises, checks and contract.

    stage = StreamingStage(checkpoint, predictor_of(checkpoint), Lengths.of(buckets), "fp16", speech)
    (manifest,) = build(stage, Path("build"))

Held against PyTorch: a short utterance against the vocoder itself, a long one against the same
windows with the same predicted statistics. How much the prediction costs is the judge's to say
(eval/), not a build's.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kokoro_ane.core.builder import Function, Part
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check, ProgramFacts, computing, require, snr_db
from kokoro_ane.core.contract import (
    AFFINE,
    DECODER,
    DEFAULT_BUCKETS,
    FEATURES,
    FRAME_SAMPLES,
    FRAMES,
    SAMPLE_RATE_HZ,
    STREAMING,
    STYLE,
    STYLE_AFFINE,
    UTTERANCE,
    VOCODER_NAME,
    WAVEFORM,
    WINDOW,
    PackedLayout,
)
from kokoro_ane.core.export import TensorType, flexible
from kokoro_ane.core.manifest import level_name, package_name
from kokoro_ane.vocoder.decoder import Vocoder
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
from kokoro_ane.vocoder.streaming.streaming_model import StreamingGenerator
from kokoro_ane.vocoder.streaming.streaming_package import Lengths, StreamingChain
from kokoro_ane.vocoder.streaming.windows import HALO, SIZES
from kokoro_ane.vocoder.vocoder_stage import (
    EQUAL_DB,
    FORBIDDEN,
    LIMIT_PADDING_DB,
    LIMIT_SNR_DB,
    TAIL_MODULES,
    VocoderFacts,
    check_buckets_of,
    fill_figures,
    source_contract,
)
from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct

FUNCTIONS = (DECODER, UTTERANCE, WINDOW)
BUCKETS = tuple(SIZES[-1] if bucket == 136 else bucket for bucket in DEFAULT_BUCKETS)  # frames
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
        over_time = sum(op.op_type in OVER_TIME for op in computing(program))
        facts = cls(**vars(VocoderFacts.of(program)), over_time=over_time)
        facts.require(precision, lengths)
        require(
            {f"{over_time} operations reduce over time": name != WINDOW or not over_time},
            f"function {name}",
        )
        return facts


@dataclass(frozen=True, eq=False)
class StreamingStage:
    """See core.builder.Stage. `speech`: CHECK_FRAMES of it; `layout`: by its Snake, see FORMS;
    `balanced`: as VocoderStage's; `apart`: layers keep the vocoder's weights.
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
    def vocoder(self) -> Vocoder:
        """In PyTorch."""
        return self.balanced or Vocoder.of(self.checkpoint)

    @cached_property
    def modules(self) -> dict[str, torch.nn.Module]:
        """What is traced, by function."""
        form = FORMS[self.layout]()
        generator = StreamingGenerator(
            self.vocoder, self.predictor.centres, form, self.apart
        ).eval()
        decoder = DecoderFunction(
            self.vocoder, self.predictor, self.checkpoint.config.hidden_dim, form
        ).eval()
        return {
            DECODER: decoder,
            UTTERANCE: UtteranceFunction(generator).eval(),
            WINDOW: WindowFunction(generator).eval(),
        }

    def rendered(self, programs: Mapping[str, Program]) -> np.ndarray:
        """The speech by a package's functions, in windows."""
        return StreamingChain(programs, self.lengths.in_windows()).render(self.speech)

    def enveloped(self, name: str) -> set[str]:
        """Layers that divide their input by an envelope."""
        inside = "" if name == DECODER else "generator."
        root = self.vocoder if name == DECODER else self.layers_of(name)
        paths = {
            path
            for path, module in root.named_modules()
            if getattr(module, "envelope", None) is not None
        }
        return {
            inside + path.removesuffix(".conv")
            for path in paths
            if inside or not path.startswith("generator.")
        }

    def layers_of(self, name: str) -> torch.nn.Module:
        """The module whose convolutions a function has."""
        return (
            self.modules[name] if name == DECODER else self.modules[name].get_submodule("generator")
        )

    def in_torch(self, dtype: torch.dtype = torch.float32) -> StreamingChain:
        """The same windows in PyTorch, of this type behind a float32 decoder."""

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
            return (FEATURES, STYLE), (FRAMES, AFFINE, STYLE_AFFINE)
        return (FEATURES, STYLE_AFFINE if name == UTTERANCE else AFFINE), (WAVEFORM,)

    def parts(self) -> tuple[Part, ...]:
        """See Stage."""
        level = level_name(self.precision, self.layout)
        name = package_name(VOCODER_NAME, self.checkpoint.name, self.checkpoint.releasable, level)
        return (Part(VOCODER_NAME, name, {function: function for function in FUNCTIONS}),)

    def buckets_of(self, name: str) -> tuple[int, ...]:
        """A function's lengths, in frames."""
        return {
            DECODER: self.lengths.decoder,
            UTTERANCE: self.lengths.utterance,
            WINDOW: self.lengths.windows,
        }[name]

    def shapes(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Of a function's features."""
        generator = self.vocoder.generator
        rows = sum(window_rows(generator.ups[0].in_channels)) + (name == UTTERANCE)
        if name == DECODER:
            rows = PackedLayout(self.checkpoint.config.hidden_dim).channels
        return tuple((1, rows, 1, bucket + 1) for bucket in self.buckets_of(name))

    def function(self, name: str) -> Function:
        """See Stage."""
        dtype, (inputs, outputs) = (
            np.float16 if self.precision == "fp16" else np.float32,
            self.signature(name),
        )
        shapes, rows = self.shapes(name), 2 * len(self.predictor.centres)
        second = (1, self.checkpoint.config.style_dim if name == DECODER else rows, 1, 1)
        types = flexible(FEATURES, dtype, shapes), TensorType(inputs[1], dtype, shape=second)
        example = torch.ones(shapes[0]), torch.zeros(second)
        made = tuple(
            TensorType(output, np.float32 if output == WAVEFORM else dtype) for output in outputs
        )
        return Function(
            self.modules[name],
            example,
            types,
            made,
            FP32_MODULES if name == DECODER else TAIL_MODULES,
        )

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """See Stage."""
        return model

    def facts(self, name: str, program: Program) -> ProgramFacts:
        """See Stage."""
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
        reference, plain = (
            self.in_torch().render(self.speech, bucket),
            exact.render(self.speech, bucket),
        )
        title, early = (
            f"{self.speech.frames} frames in windows",
            exact.render(self.speech, bucket, early=True),
        )
        value, cut = (
            snr_db(reference, chain.render(self.speech, bucket)),
            min(snr_db(plain, early), EQUAL_DB),
        )
        figures = [
            Check(
                f"SNR against PyTorch, {title}", value, LIMIT_SNR_DB[self.precision], at_least=True
            ),
            Check(
                f"cuts, exact arithmetic, {title}, short ones first",
                cut,
                LIMIT_PADDING_DB,
                at_least=True,
            ),
        ]
        for wide in wider[:1]:
            same = min(snr_db(plain, exact.render(self.speech, wide)), EQUAL_DB)
            name = f"padding, exact arithmetic, {title}, bucket {wide} against {bucket}"
            figures.append(Check(name, same, LIMIT_TOLD_DB, at_least=True))
        return figures

    def contract(self, part: Part) -> dict[str, Any]:
        """See Stage."""
        config = self.checkpoint.config
        return {
            "method": self.precision,
            "layout": self.layout,
            "checkpoint": self.checkpoint.as_source,
            "releasable": self.checkpoint.releasable and self.precision != "fp32",
            "buckets": self.lengths.decoder,
            "hidden_dim": config.hidden_dim,
            "inputs": {name: self._inputs(name) for name in part.functions},
            "outputs": {name: self._outputs(name) for name in part.functions},
            "source": source_contract(self.vocoder),
        }

    def _inputs(self, name: str) -> dict[str, Any]:
        config, channels, dtype = (
            self.checkpoint.config,
            self.vocoder.generator.ups[0].in_channels,
            "float16",
        )
        dtype = dtype if self.precision == "fp16" else "float32"
        columns = f"{'bucket' if name != WINDOW else 'window'} + 1"
        features = {
            "shape": [1, self.shapes(name)[0][1], 1, columns],
            "frames": self.buckets_of(name),
            "dtype": dtype,
        }
        if name == DECODER:
            rows = dict(
                zip(
                    ("asr", "f0_hz", "energy", "mask", "spectrum"),
                    PackedLayout(config.hidden_dim).sizes,
                    strict=True,
                )
            )
            packing = (
                "as the padded layout's, but the spectrum's row 120 c + p holds column 120 f + p of"
                " channel c at frame f"
            )
            style = {
                "shape": [1, config.style_dim, 1, 1],
                "dtype": dtype,
                "row": "voice pack [510, 1, 256], phoneme count - 1, columns 0:128",
            }
            style |= {
                "voices": self.checkpoint.voices and self.predictor.voices,
                "statistics_sha256": self.predictor.sha256,
            }
            return {FEATURES: features | {"rows": rows, "packing": packing}, STYLE: style}
        rows = dict(zip((FRAMES, "spectrum"), window_rows(channels), strict=True)) | (
            {"mask": 1} if name == UTTERANCE else {}
        )
        packing = (
            "each tensor padded with zeros to rows * (length + 1) values a channel group, row"
            " after row"
        )
        second = self.signature(name)[0][1]
        affine = {
            "shape": [1, 2 * len(self.predictor.centres), 1, 1],
            "dtype": dtype,
            "of": f"{DECODER}.{second}",
        }
        return {
            FEATURES: features | {"rows": rows, "packing": packing, "halo_frames": HALO},
            second: affine,
        }

    def _outputs(self, name: str) -> dict[str, Any]:
        dtype = "float16" if self.precision == "fp16" else "float32"
        if name != DECODER:
            length = "bucket" if name == UTTERANCE else "window"
            shape = {
                "shape": [1, 1, 1, f"{FRAME_SAMPLES} * {length}"],
                "dtype": "float32",
                "rate_hz": SAMPLE_RATE_HZ,
            }
            return {
                WAVEFORM: (
                    shape
                    | {
                        "valid": (
                            f"first {FRAME_SAMPLES} * frames samples; of a window those of its own"
                            " frames"
                        )
                    }
                )
            }
        column = {"shape": [1, 2 * len(self.predictor.centres), 1, 1], "dtype": dtype}
        frames = {
            "shape": [1, self.vocoder.generator.ups[0].in_channels, 1, "2 * bucket"],
            "dtype": dtype,
            "valid": "first 2 * frames columns",
        }
        return {
            FRAMES: frames,
            AFFINE: column | {"use": WINDOW},
            STYLE_AFFINE: column | {"use": UTTERANCE},
        }
