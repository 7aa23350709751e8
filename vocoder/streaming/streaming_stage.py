"""The vocoder in the streaming layout as a Stage: one package of three functions (iOS 18), their
promises, checks and contract.

    lengths = Lengths.from_buckets(buckets)
    stage = StreamingStage(checkpoint, require_predictor(checkpoint), lengths, "fp16", speech)
    (manifest,) = build(stage, Path("build"))

A build compares with PyTorch: a short utterance with the vocoder itself, a long one with the same
windows and the same predicted statistics. The cost of the prediction is judged by eval/, not by a
build.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from kokoro_ane.core import (
    AFFINE,
    DECODER,
    DEFAULT_BUCKETS,
    ENTERING,
    FEATURES,
    FRAME_SAMPLES,
    LIMIT_SNR_DB,
    LONGEST_BUCKET,
    SAMPLE_RATE_HZ,
    STATISTICS,
    STEPS_PER_FRAME,
    STREAMING,
    STYLE,
    STYLE_AFFINE,
    UTTERANCE,
    VOCODER_NAME,
    WAVEFORM,
    WINDOW,
    Artifact,
    Check,
    Checkpoint,
    FunctionSpec,
    PackedLayout,
    TensorType,
    level_name,
)
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import describe_features
from kokoro_ane.vocoder.packing import VocoderInputs, cut_excerpt
from kokoro_ane.vocoder.render import render_exact
from kokoro_ane.vocoder.streaming.norm_statistics import StatisticsPredictor
from kokoro_ane.vocoder.streaming.streaming_functions import (
    FP32_MODULES,
    DecoderFunction,
    UtteranceFunction,
    WindowFunction,
    count_window_rows,
)
from kokoro_ane.vocoder.streaming.streaming_model import Folding, SecondStage
from kokoro_ane.vocoder.streaming.streaming_package import HALO, SIZES, Lengths, StreamingChain
from kokoro_ane.vocoder.vocoder_stage import (
    EXACT,
    LIMIT_PADDING_DB,
    TAIL_MODULES,
    CheckedVocoder,
    VocoderFacts,
    check_buckets_of,
    measure_fills,
    measure_snr,
)
from mlprogram import Program

# names of each function's inputs and outputs
SIGNATURES = MappingProxyType(
    {
        DECODER: ((FEATURES, STYLE, STATISTICS), (ENTERING, AFFINE, STYLE_AFFINE)),
        UTTERANCE: ((FEATURES, STYLE_AFFINE), (WAVEFORM,)),
        WINDOW: ((FEATURES, AFFINE), (WAVEFORM,)),
    }
)
BUCKETS = tuple(SIZES[-1] if bucket == 136 else bucket for bucket in DEFAULT_BUCKETS)
BUCKETS = (*(bucket for bucket in BUCKETS if bucket < LONGEST_BUCKET), LONGEST_BUCKET)
# of the speech: windows of several lengths; a second of it, measured
CHECK_FRAMES, SHORT_FRAMES = 180, 40
CUT_FRAMES = 100  # of it, cut in two ways: float64 takes its time


def make_streaming_modules(
    vocoder: Vocoder,
    predictor: StatisticsPredictor,
    layout: str = STREAMING,
    apart: bool = False,
    shift: np.ndarray | float = 0.0,
) -> dict[str, nn.Module]:
    """What is traced, by function; arguments as StreamingStage's."""
    folding = Folding.from_vocoder(vocoder, predictor.centres, layout, apart)
    second = SecondStage(vocoder, folding)
    return {
        DECODER: DecoderFunction(vocoder, predictor, folding, shift).eval(),
        UTTERANCE: UtteranceFunction(second).eval(),
        WINDOW: WindowFunction(second).eval(),
    }


def make_torch_chain(
    modules: Mapping[str, nn.Module], lengths: Lengths, dtype: torch.dtype = torch.float32
) -> StreamingChain:
    """An utterance through copies of the modules, which compute in `dtype`."""

    def call(name: str) -> Any:
        inputs, outputs = SIGNATURES[name]
        # A copy, because `to` would change the caller's module.
        module = copy.deepcopy(modules[name]).to(dtype)

        @torch.no_grad()
        def run(arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
            result = module(*(torch.as_tensor(arrays[key]).to(dtype) for key in inputs))
            results = result if isinstance(result, tuple) else (result,)
            return dict(zip(outputs, results, strict=True))

        return run

    rows = modules[DECODER].get_buffer("told.usual").shape[1]
    return StreamingChain({name: call(name) for name in SIGNATURES}, lengths, rows)


@dataclass(frozen=True, eq=False)
class StreamingStage(CheckedVocoder):
    """A core.builder.PackageStage of three functions, which is checked with CHECK_FRAMES of
    `speech`. `layout` chooses the Snake's formula, and with `apart` the layers keep the vocoder's
    weights (streaming_model.Folding). shift [2R]: what a level's rounding adds to the predicted
    statistics.
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
    shift: np.ndarray | float = 0.0

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """What is traced, by function."""
        return make_streaming_modules(
            self.vocoder, self.predictor, self.layout, self.apart, self.shift
        )

    def render_speech(self, programs: Mapping[str, Program]) -> np.ndarray:
        """The speech by a package's functions, in windows."""
        return self.chain(programs, self.lengths.in_windows()).render(self.speech)

    def chain(self, programs: Mapping[str, Any], lengths: Lengths) -> StreamingChain:
        """An utterance through functions, whoever computes them."""
        return StreamingChain(programs, lengths, self.rows)

    def make_torch_chain(self, dtype: torch.dtype = torch.float32) -> StreamingChain:
        """The functions in PyTorch, in windows, which compute in `dtype`."""
        return make_torch_chain(self.modules, self.lengths.in_windows(), dtype)

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """One package of three functions."""
        level = level_name(self.precision, self.layout)
        return (
            self.make_artifact(
                VOCODER_NAME, level, {function: function for function in SIGNATURES}
            ),
        )

    def list_buckets(self, name: str) -> tuple[int, ...]:
        """A function's lengths, in frames."""
        lengths: tuple[int, ...] = getattr(self.lengths, name)
        return lengths

    def count_channels(self, name: str) -> tuple[int, ...]:
        """Channels of a function's inputs: rows of its features, and of the columns behind them."""
        config = self.checkpoint.config
        if name == DECODER:
            return PackedLayout(config.hidden_dim).channels, config.style_dim, self.rows
        # an utterance has its mask as one more row
        return sum(count_window_rows(self.channels)) + (name == UTTERANCE), self.rows

    @property
    def channels(self) -> int:
        """Channels that the generator's second stage reads."""
        return self.vocoder.generator.ups[1].in_channels

    @property
    def rows(self) -> int:
        """Gains and shifts of the second stage's norms."""
        return len(self.predictor.bias)

    def make_function(self, name: str) -> FunctionSpec:
        """The function of its features and of columns, as SIGNATURES names them."""
        dtype = np.dtype(self.dtype).type
        inputs, outputs = SIGNATURES[name]
        rows, *columns = self.count_channels(name)
        # One column more than frames holds the spectrum's last column.
        shapes = tuple((1, rows, 1, bucket + 1) for bucket in self.list_buckets(name))
        types = [TensorType(FEATURES, dtype, shapes)]
        types += [
            TensorType(column, dtype, ((1, size, 1, 1),))
            for column, size in zip(inputs[1:], columns, strict=True)
        ]
        return FunctionSpec(
            self.modules[name],
            (torch.ones(shapes[0]), *(torch.zeros(1, size, 1, 1) for size in columns)),
            tuple(types),
            tuple(TensorType(out, np.float32 if out == WAVEFORM else dtype) for out in outputs),
            FP32_MODULES if name == DECODER else TAIL_MODULES,
        )

    def check_program(self, name: str, program: Program) -> VocoderFacts:
        """The program's counts. Raises CheckFailed where it breaks a promise."""
        facts = VocoderFacts.read(program, name)
        facts.require(self.precision, len(self.list_buckets(name)), name)
        return facts

    def measure_figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """A short utterance at several fills; a long one at two, and cut in two ways."""
        chain = self.chain(programs, self.lengths)
        # The same functions in float64, whose rounding hides nothing.
        exact_programs = {
            name: Program(program.path, function=name, precision=EXACT)
            for name, program in programs.items()
        }
        exact = self.chain(exact_programs, self.lengths)
        short = cut_excerpt(self.speech, 0, SHORT_FRAMES)
        holding = tuple(b for b in self.lengths.utterance if b >= short.frames)
        figures = measure_fills(
            lambda bucket: chain.render(short, bucket),
            lambda bucket: exact.render(short, bucket),
            render_exact(self.vocoder, short),
            check_buckets_of(short.frames, holding),
            self.precision,
        )
        # From here on windows are checked, also where the utterance is short.
        chain, exact = (replace(one, lengths=self.lengths.in_windows()) for one in (chain, exact))
        reference = self.make_torch_chain(torch.float64).render(self.speech)
        rendered = chain.render(self.speech)
        name = f"SNR against PyTorch, {self.speech.frames} frames in windows"
        figures.append(measure_snr(name, reference, rendered, LIMIT_SNR_DB[self.precision]))
        speech = cut_excerpt(self.speech, 0, min(CUT_FRAMES, self.speech.frames))
        title = f"exact arithmetic, {speech.frames} frames in windows"
        bucket, *wider = [b for b in self.lengths.decoder if b >= speech.frames]
        plain = exact.render(speech, bucket)
        early = exact.render(speech, bucket, early=True)
        name = f"cuts, {title}, short ones first"
        figures.append(measure_snr(name, plain, early, LIMIT_PADDING_DB))
        for wide in wider[:1]:
            name = f"padding, {title}, bucket {wide} against {bucket}"
            figures.append(measure_snr(name, plain, exact.render(speech, wide), LIMIT_PADDING_DB))
        return figures

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """The manifest's fields that only this stage knows."""
        return self.describe_provenance() | {
            "layout": self.layout,
            "buckets": self.lengths.decoder,
            "inputs": {name: self._describe_inputs(name) for name in artifact.functions},
            "outputs": {name: self._describe_outputs(name) for name in artifact.functions},
        }

    def _describe_inputs(self, name: str) -> dict[str, Any]:
        features = {
            "shape": [1, self.count_channels(name)[0], 1, f"{_name_length(name)} + 1"],
            "frames": self.list_buckets(name),
            "dtype": self.dtype,
        }
        padded = describe_features(self.checkpoint.config.hidden_dim)
        if name == DECODER:
            packing = (
                "as the padded layout's, but each six columns of the spectrum stand as six rows:"
                " row 6 c + p of 20 (bucket + 1) columns holds column 6 t + p of channel c at t"
            )
            statistics = self._describe_column() | {
                "of": "the voice: voices/NAME.statistics of a bundle; means, then log variances",
                "predictor_sha256": self.predictor.sha256,
            }
            return {
                FEATURES: features | {"rows": padded["rows"], "packing": packing},
                STYLE: self.describe_style(),
                STATISTICS: statistics,
            }
        rows = dict(zip((ENTERING, "spectrum"), count_window_rows(self.channels), strict=True))
        rows |= {"mask": 1} if name == UTTERANCE else {}
        packing = padded["packing"].replace("bucket", "length")
        second = SIGNATURES[name][0][1]
        return {
            FEATURES: features | {"rows": rows, "packing": packing, "halo_frames": HALO},
            second: self._describe_column() | {"of": f"{DECODER}.{second}"},
        }

    def _describe_outputs(self, name: str) -> dict[str, Any]:
        if name == DECODER:
            entering = {
                "shape": [1, self.channels, 1, f"{STEPS_PER_FRAME} * bucket"],
                "dtype": self.dtype,
                "valid": f"first {STEPS_PER_FRAME} * frames columns",
            }
            affine, style_affine = (
                self._describe_column() | {"use": use} for use in (WINDOW, UTTERANCE)
            )
            return {ENTERING: entering, AFFINE: affine, STYLE_AFFINE: style_affine}
        waveform = {
            "shape": [1, 1, 1, f"{FRAME_SAMPLES} * {_name_length(name)}"],
            "dtype": "float32",
            "rate_hz": SAMPLE_RATE_HZ,
            "valid": f"first {FRAME_SAMPLES} * frames samples; of a window those of its own frames",
        }
        return {WAVEFORM: waveform}

    def _describe_column(self) -> dict[str, Any]:
        """Gains and shifts of the second stage's norms, in words."""
        return {"shape": [1, self.rows, 1, 1], "dtype": self.dtype}


def _name_length(name: str) -> str:
    """What a function's length is called in its contract."""
    return "window" if name == WINDOW else "bucket"
