"""The vocoder in the streaming layout as a Stage: one package of three functions (iOS 18), their
promises, checks and contract.

    lengths = Lengths.of(buckets)
    stage = StreamingStage(checkpoint, predictor_of(checkpoint), lengths, "fp16", speech)
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

from kokoro_ane.core.builder import Part
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import Check
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
    PackedLayout,
)
from kokoro_ane.core.export import Function, TensorType
from kokoro_ane.core.manifest import level_name
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import features_contract
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
from kokoro_ane.vocoder.streaming.streaming_model import Folding, SecondStage
from kokoro_ane.vocoder.streaming.streaming_package import HALO, SIZES, Lengths, StreamingChain
from kokoro_ane.vocoder.vocoder_stage import (
    LIMIT_PADDING_DB,
    LIMIT_SNR_DB,
    TAIL_MODULES,
    CheckedVocoder,
    VocoderFacts,
    check_buckets_of,
    fill_figures,
    snr_check,
)
from mlprogram import Program

# names of each function's inputs and outputs
SIGNATURES = MappingProxyType(
    {
        DECODER: ((FEATURES, STYLE), (ENTERING, AFFINE, STYLE_AFFINE)),
        UTTERANCE: ((FEATURES, STYLE_AFFINE), (WAVEFORM,)),
        WINDOW: ((FEATURES, AFFINE), (WAVEFORM,)),
    }
)
# frames, to 20.4 s: the decoder's widest axis has 20 (B + 1) columns, and most engines take 16,384
LONGEST_BUCKET = 818
BUCKETS = tuple(SIZES[-1] if bucket == 136 else bucket for bucket in DEFAULT_BUCKETS)
BUCKETS = (*(bucket for bucket in BUCKETS if bucket < LONGEST_BUCKET), LONGEST_BUCKET)
# of the speech: windows of several lengths; a second of it, measured
CHECK_FRAMES, SHORT_FRAMES = 180, 40
# of long utterances in another bucket: sums over more zeros round otherwise, and real Kokoro turns
# that into 90 dB
LIMIT_PREDICTED_DB = 70.0


@dataclass(frozen=True, eq=False)
class StreamingStage(CheckedVocoder):
    """A core.builder.PackageStage of three functions, which is checked with CHECK_FRAMES of
    `speech`. `layout` chooses the Snake's formula, and with `apart` the layers keep the vocoder's
    weights (streaming_model.Folding).
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
        folding = Folding.of(self.vocoder, self.predictor.centres, self.layout, self.apart)
        second = SecondStage(self.vocoder, folding)
        return {
            DECODER: DecoderFunction(self.vocoder, self.predictor, folding).eval(),
            UTTERANCE: UtteranceFunction(second).eval(),
            WINDOW: WindowFunction(second).eval(),
        }

    def rendered(self, programs: Mapping[str, Program]) -> np.ndarray:
        """The speech by a package's functions, in windows."""
        return StreamingChain(programs, self.lengths.in_windows()).render(self.speech)

    def in_torch(self, dtype: torch.dtype = torch.float32) -> StreamingChain:
        """The functions in PyTorch, in windows. The decoder computes in float32, the other two in
        `dtype`.
        """

        def call(name: str) -> Any:
            inputs, outputs = SIGNATURES[name]
            kind = torch.float32 if name == DECODER else dtype
            module = copy.deepcopy(self.modules[name]).to(kind)

            @torch.no_grad()
            def run(arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
                result = module(*(torch.as_tensor(arrays[key]).to(kind) for key in inputs))
                results = result if isinstance(result, tuple) else (result,)
                return dict(zip(outputs, results, strict=True))

            return run

        return StreamingChain({name: call(name) for name in SIGNATURES}, self.lengths.in_windows())

    def parts(self) -> tuple[Part, ...]:
        """One package of three functions."""
        level = level_name(self.precision, self.layout)
        return (self.part(VOCODER_NAME, level, {function: function for function in SIGNATURES}),)

    def buckets_of(self, name: str) -> tuple[int, ...]:
        """A function's lengths, in frames."""
        lengths: tuple[int, ...] = getattr(self.lengths, name)
        return lengths

    def channels_of(self, name: str) -> tuple[int, int]:
        """Channels of a function's two inputs: rows of its features, and of the one column."""
        config = self.checkpoint.config
        if name == DECODER:
            return PackedLayout(config.hidden_dim).channels, config.style_dim
        # an utterance has its mask as one more row
        return sum(window_rows(self.channels)) + (name == UTTERANCE), self.rows

    @property
    def channels(self) -> int:
        """Channels that the generator's second stage reads."""
        return self.vocoder.generator.ups[1].in_channels

    @property
    def rows(self) -> int:
        """Gains and shifts of the second stage's norms."""
        return len(self.predictor.bias)

    def function(self, name: str) -> Function:
        """The function of its features and one column, as SIGNATURES names them."""
        dtype, (inputs, outputs) = np.dtype(self.dtype).type, SIGNATURES[name]
        rows, column = self.channels_of(name)
        shapes = tuple((1, rows, 1, bucket + 1) for bucket in self.buckets_of(name))
        second = (1, column, 1, 1)
        return Function(
            self.modules[name],
            (torch.ones(shapes[0]), torch.zeros(second)),
            (TensorType(FEATURES, dtype, shapes), TensorType(inputs[1], dtype, (second,))),
            tuple(TensorType(out, np.float32 if out == WAVEFORM else dtype) for out in outputs),
            FP32_MODULES if name == DECODER else TAIL_MODULES,
        )

    def facts(self, name: str, program: Program) -> VocoderFacts:
        """The program's counts. Raises CheckFailed where it breaks a promise."""
        facts = VocoderFacts.read(program, name)
        facts.require(self.precision, len(self.buckets_of(name)), name)
        return facts

    def figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """A short utterance at several fills; a long one at two, and cut in two ways."""
        chain = StreamingChain(programs, self.lengths)
        exact_programs = {
            name: Program(program.path, function=name, precision="exact")
            for name, program in programs.items()
        }
        exact = StreamingChain(exact_programs, self.lengths)
        short = excerpt(self.speech, 0, SHORT_FRAMES)
        holding = tuple(b for b in self.lengths.utterance if b >= short.frames)
        figures = fill_figures(
            lambda bucket: chain.render(short, bucket),
            lambda bucket: exact.render(short, bucket),
            render_reference(self.vocoder, short),
            check_buckets_of(short.frames, holding),
            self.precision,
        )
        chain, exact = (replace(one, lengths=self.lengths.in_windows()) for one in (chain, exact))
        speech, title = self.speech, f"{self.speech.frames} frames in windows"
        bucket, *wider = [b for b in self.lengths.decoder if b >= speech.frames]
        reference, rendered = self.in_torch().render(speech, bucket), chain.render(speech, bucket)
        plain, early = exact.render(speech, bucket), exact.render(speech, bucket, early=True)
        limit_db, cuts = LIMIT_SNR_DB[self.precision], f"{title}, short ones first"
        figures += [
            snr_check(f"SNR against PyTorch, {title}", reference, rendered, limit_db),
            snr_check(f"cuts, exact arithmetic, {cuts}", plain, early, LIMIT_PADDING_DB),
        ]
        for wide in wider[:1]:
            name = f"padding, exact arithmetic, {title}, bucket {wide} against {bucket}"
            figures.append(snr_check(name, plain, exact.render(speech, wide), LIMIT_PREDICTED_DB))
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
            "shape": [1, self.channels_of(name)[0], 1, f"{_length(name)} + 1"],
            "frames": self.buckets_of(name),
            "dtype": self.dtype,
        }
        padded = features_contract(self.checkpoint.config.hidden_dim)
        if name == DECODER:
            packing = (
                "as the padded layout's, but each six columns of the spectrum stand as six rows:"
                " row 6 c + p of 20 (bucket + 1) columns holds column 6 t + p of channel c at t"
            )
            style = self.style_contract() | {
                "voices": self.checkpoint.voices and self.predictor.voices,
                "statistics_sha256": self.predictor.sha256,
            }
            return {
                FEATURES: features | {"rows": padded["rows"], "packing": packing},
                STYLE: style,
            }
        rows = dict(zip((ENTERING, "spectrum"), window_rows(self.channels), strict=True))
        rows |= {"mask": 1} if name == UTTERANCE else {}
        packing = padded["packing"].replace("bucket", "length")
        second = SIGNATURES[name][0][1]
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
        waveform = {
            "shape": [1, 1, 1, f"{FRAME_SAMPLES} * {_length(name)}"],
            "dtype": "float32",
            "rate_hz": SAMPLE_RATE_HZ,
            "valid": f"first {FRAME_SAMPLES} * frames samples; of a window those of its own frames",
        }
        return {WAVEFORM: waveform}

    def _column(self) -> dict[str, Any]:
        """Gains and shifts of the second stage's norms, in words."""
        return {"shape": [1, self.rows, 1, 1], "dtype": self.dtype}


def _length(name: str) -> str:
    """What a function's length is called in its contract."""
    return "window" if name == WINDOW else "bucket"
