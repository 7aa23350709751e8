"""The encoder as a Stage: functions `duration` and `prosody`, what stays in fp32, the promises of its programs, its contract.

    manifests = build(EncoderStage(checkpoint, Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)), Path("build"))

iOS 18: one package with two functions. iOS 17: two packages, because functions came with iOS 18.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from core.checkpoint import Checkpoint
from core.contract import (
    DURATION,
    DURATIONS,
    ENCODER_NAME,
    ENERGY,
    F0_HZ,
    FRAMES,
    HIDDEN,
    INPUT_IDS,
    MAX_SPEED,
    MIN_SPEED,
    PADDING_ID,
    PROSODY,
    SPEED,
    STYLE,
    TEXT,
)
from core.export import TensorType, flexible
from core.facts import ProgramFacts, require
from core.figures import Figure
from core.manifest import package_name
from core.stage import MAIN, Function, Part
from encoder.alignment import AlignmentLimits
from encoder.check import check_figures, check_utterances
from encoder.functions import Buckets
from encoder.model import DurationFunction, Encoder, ProsodyFunction
from encoder.prefix_lstm import PrefixLSTM
from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct

KEEP_FP32 = {DURATION: ("duration_predictor",), PROSODY: ("f0_predictor",)}  # by measurement: docs/encoder.md
FORBIDDEN = ("random_normal", "random_uniform", "random_bernoulli", "random_categorical", "while_loop", "cond", "scatter", "scatter_nd",
             "scatter_along_axis", "gather_along_axis", "non_zero", "shape", "reverse", "reverse_sequence")  # fmt: skip
MAX_OPERATIONS = 1500  # a masked unrolled LSTM was 134,397 and compiled for ten minutes
COMPUTE_UNITS = {
    "default": "CPU_AND_GPU",
    "M5": "CPU_ONLY",
    "reason": "the LSTM aborts on the M5's GPU (FluidInference/FluidAudio issue 667) and runs on the CPU elsewhere",
}


@dataclass(frozen=True, eq=False)
class EncoderStage:
    """See core.stage.Stage."""

    checkpoint: Checkpoint
    buckets: Buckets
    precision: str = "fp16"
    target: str = "iOS18"

    @cached_property
    def encoder(self) -> Encoder:
        """The checkpoint's encoder in PyTorch."""
        return Encoder.of(self.checkpoint)

    @property
    def limits(self) -> AlignmentLimits:
        """Of the alignment between the two functions."""
        return AlignmentLimits.of(self.checkpoint.config, self.buckets.frames[-1])

    def parts(self) -> tuple[Part, ...]:
        """See Stage."""
        if self.target == "iOS17":
            return tuple(self._part(ENCODER_NAME + name.capitalize(), {name: MAIN}) for name in (DURATION, PROSODY))
        return (self._part(ENCODER_NAME, {DURATION: DURATION, PROSODY: PROSODY}),)

    def _part(self, stage: str, functions: dict[str, str]) -> Part:
        return Part(stage, package_name(stage, self.checkpoint.name, self.checkpoint.releasable, self.precision), functions)

    def function(self, name: str) -> Function:
        """See encoder_function."""
        return encoder_function(self.encoder, name, self.buckets)

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """See Stage."""
        return model

    def facts(self, name: str, program: Program) -> ProgramFacts:
        """One LSTM operation for each two-way LSTM of PyTorch, no operation that hangs on data."""
        facts = ProgramFacts.of(program, INPUT_IDS if name == DURATION else FRAMES, FORBIDDEN)
        lengths = len(self.buckets.tokens if name == DURATION else self.buckets.frames)
        wanted = sum(isinstance(module, PrefixLSTM) for module in self.function(name).module.modules())
        found = facts.operations.get("lstm", 0)
        own = {
            f"{facts.count} operations, limit {MAX_OPERATIONS}": facts.count < MAX_OPERATIONS,
            f"{found} LSTMs, expected {wanted}": found == wanted,
        }
        require(facts.promises(self.precision, lengths) | own, f"function {name}")
        return facts

    def figures(self, programs: Mapping[str, Program]) -> list[Figure]:
        """Every tensor that leaves the package, at several fills."""
        utterances = check_utterances(self.checkpoint, self.buckets)
        return check_figures(programs, self.encoder, utterances, self.buckets, self.limits, self.precision)

    def contract(self, part: Part) -> dict[str, Any]:
        """See Stage."""
        config, words = self.checkpoint.config, contract_words(self.checkpoint.config.hidden_dim, self.checkpoint.config.style_dim)
        return {
            "method": self.precision,
            "checkpoint": self.checkpoint.as_source,
            "releasable": self.checkpoint.releasable and self.precision != "fp32",
            "buckets": self.buckets.frames,
            "hidden_dim": config.hidden_dim,
            "inputs": {name: words[name]["inputs"] for name in part.functions},
            "outputs": {name: words[name]["outputs"] for name in part.functions},
            "source": {"kept_fp32": {name: list(KEEP_FP32[name]) for name in part.functions}} if self.precision == "fp16" else {},
            "token_buckets": self.buckets.tokens,
            "compute_units": COMPUTE_UNITS,
            "alignment": asdict(self.limits),
        }


def encoder_function(encoder: Encoder, name: str, buckets: Buckets, keep_fp32: tuple[str, ...] | None = None) -> Function:
    """What is traced: inputs and outputs are float32 and int32 in every precision. `keep_fp32`: other blocks than KEEP_FP32's."""
    style_dim, hidden = encoder.predictor.F0[0].norm1.fc.in_channels, encoder.bert_encoder.out_features
    style = TensorType(STYLE, np.float32, shape=(1, style_dim))
    kept = KEEP_FP32[name] if keep_fp32 is None else keep_fp32
    if name == DURATION:
        ids = torch.zeros(1, buckets.tokens[0], dtype=torch.int32)
        ids[:, -1] = PADDING_ID
        inputs = (
            flexible(INPUT_IDS, np.int32, tuple((1, tokens) for tokens in buckets.tokens)),
            style,
            TensorType(SPEED, np.float32, shape=(1,)),
        )
        example: tuple[torch.Tensor, ...] = (ids, torch.zeros(1, style_dim), torch.ones(1))
        return Function(DurationFunction(encoder), example, inputs, _float_outputs(DURATIONS, HIDDEN, TEXT), kept)
    shapes = tuple((1, hidden + 1, 1, frames) for frames in buckets.frames)
    example = (torch.ones(shapes[0]), torch.zeros(1, style_dim))
    return Function(ProsodyFunction(encoder), example, (flexible(FRAMES, np.float32, shapes), style), _float_outputs(F0_HZ, ENERGY), kept)


def _float_outputs(*names: str) -> tuple[TensorType, ...]:
    return tuple(TensorType(name, np.float32) for name in names)


def contract_words(hidden: int, style_dim: int) -> dict[str, dict[str, Any]]:
    """Inputs and outputs of both functions, for the manifest."""
    style = {"shape": [1, style_dim], "dtype": "float32", "row": "voice pack [510, 1, 256], phoneme count - 1, columns 128:256"}
    column = {"shape": [1, hidden, 1, "tokens"], "dtype": "float32"}
    rate = {"shape": [1, "2 * bucket"], "dtype": "float32", "rate_hz": 80, "valid": "first 2 * frames values"}
    ids = {"shape": [1, "tokens"], "dtype": "int32", "padding": PADDING_ID, "boundary": "0 before and after the symbols"}
    return {
        DURATION: {
            "inputs": {INPUT_IDS: ids, STYLE: style, SPEED: {"shape": [1], "dtype": "float32", "range": [MIN_SPEED, MAX_SPEED]}},
            "outputs": {
                DURATIONS: {"shape": [1, "tokens"], "dtype": "float32", "unit": "frames", "rounding": "half to even, at least 1"},
                HIDDEN: column | {"use": "repeat each column for its token's frames, then `frames` of prosody"},
                TEXT: column | {"use": "repeat each column for its token's frames, then asr of the vocoder"},
            },
        },
        PROSODY: {
            "inputs": {
                FRAMES: {"shape": [1, hidden + 1, 1, "bucket"], "dtype": "float32", "rows": {"hidden": hidden, "mask": 1}, "padding": 0},
                STYLE: style,
            },
            "outputs": {F0_HZ: rate | {"unit": "Hz"}, ENERGY: rate},
        },
    }
