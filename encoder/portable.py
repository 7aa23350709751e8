"""The encoder for runtimes that take any length: `duration` and `prosody` as a file each, in float32, at exact length.

manifests = build(PortableEncoderStage(checkpoint, ONNX), Path("build"), ONNX.kind)
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from core.contract import (
    DEFAULT_BUCKETS,
    DURATION,
    DURATIONS,
    ENCODER_NAME,
    ENERGY,
    F0_HZ,
    FRAMES,
    HIDDEN,
    INPUT_IDS,
    PROSODY,
    SPEED,
    STYLE,
    TEXT,
    TOKEN_BUCKETS,
)
from core.figures import Figure
from core.portable import PRECISION, PortableFunction, PortableProgram
from core.portable_stage import PortableStage, baked, dynamic
from core.stage import MAIN, Part
from encoder.albert import Layer
from encoder.alignment import AlignmentLimits
from encoder.arrays import array_functions
from encoder.check import check_utterances, compared
from encoder.functions import Buckets, torch_functions
from encoder.model import DurationFunction, Encoder, ProsodyFunction
from encoder.scan_lstm import without_lstm
from encoder.stage import contract_words
from encoder.steps import EncoderBackend, encode

EXAMPLE_TOKENS, EXAMPLE_FRAMES = 20, 40
LENGTHS = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)  # only their last ones count: the longest utterance
UNBOUNDED = 1 << 40
GELU_SLOPE, GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


class WrittenOut(Layer):
    """ALBERT's layer with its GELU written out: ExecuTorch hands `gelu` to XNNPACK and drops approximate="tanh" (35 dB)."""

    def forward(self, x: Tensor, excluded: Tensor) -> Tensor:
        """As Layer."""
        x = self.attention(x, excluded)
        wide = self.ffn(x)
        curve = 0.5 * wide * (1 + torch.tanh(GELU_SLOPE * (wide + GELU_CUBE * wide * wide * wide)))
        result: Tensor = self.full_layer_layer_norm(self.ffn_output(curve) + x)
        return result


def plain(function: nn.Module) -> nn.Module:
    """A copy in operations that keep their meaning in ExecuTorch: LSTMs as loops, GELU written out."""
    copied = without_lstm(function)
    for module in copied.modules():
        if type(module) is Layer:
            module.__class__ = WrittenOut
    return copied


@dataclass(frozen=True, eq=False)
class PortableEncoderStage(PortableStage):
    """See core.stage.Stage."""

    @cached_property
    def encoder(self) -> Encoder:
        """In PyTorch."""
        return Encoder.of(self.checkpoint)

    @property
    def limits(self) -> AlignmentLimits:
        """Of the alignment between the two functions."""
        return AlignmentLimits.of(self.checkpoint.config, DEFAULT_BUCKETS[-1])

    def parts(self) -> tuple[Part, ...]:
        """See Stage."""
        stages = {function: ENCODER_NAME + function.capitalize() for function in (DURATION, PROSODY)}
        return tuple(Part(stage, self.file_of(stage), {function: MAIN}) for function, stage in stages.items())

    def function(self, name: str) -> PortableFunction:
        """What is exported."""
        style = torch.zeros(1, self.checkpoint.config.style_dim)
        if name == DURATION:
            example: tuple[torch.Tensor, ...] = (torch.ones(1, EXAMPLE_TOKENS, dtype=torch.int32), style, torch.ones(1))
            axes = dynamic((INPUT_IDS, 1, "tokens"), (DURATIONS, 1, "tokens"), (HIDDEN, 3, "tokens"), (TEXT, 3, "tokens"))
            inputs, outputs, longest = (INPUT_IDS, STYLE, SPEED), (DURATIONS, HIDDEN, TEXT), {"tokens": TOKEN_BUCKETS[-1]}
            return PortableFunction(self.module(DurationFunction(self.encoder)), example, inputs, outputs, axes, longest)
        example = (torch.ones(1, self.checkpoint.config.hidden_dim + 1, 1, EXAMPLE_FRAMES), style)
        axes, longest = dynamic((FRAMES, 3, "frames"), (F0_HZ, 1, "values"), (ENERGY, 1, "values")), {"frames": DEFAULT_BUCKETS[-1]}
        return PortableFunction(self.module(ProsodyFunction(self.encoder)), example, (FRAMES, STYLE), (F0_HZ, ENERGY), axes, longest)

    def module(self, function: nn.Module) -> nn.Module:
        """As this kind of file takes it."""
        if self.files.operators:
            from encoder.operator_lstm import with_operators

            return baked(with_operators(function))
        return baked(plain(function) if self.files.plain else function)

    def figures(self, programs: Mapping[str, PortableProgram]) -> list[Figure]:
        """Every tensor that leaves the two functions against PyTorch, from the shortest utterance to the longest."""
        unbounded, longest = replace(self.limits, total_frames=UNBOUNDED), DEFAULT_BUCKETS[-1]
        twin = EncoderBackend(torch_functions(self.encoder), unbounded, None, longest)
        ours = EncoderBackend(array_functions(programs), unbounded, None, longest, arrays=True)
        pairs = []
        for said in check_utterances(self.checkpoint, LENGTHS):
            given = (said.ids, said.style, said.speed)
            pairs.append((encode(twin, *given), encode(ours, *given)))
        return compared(pairs, PRECISION)

    def contract(self, part: Part) -> dict[str, Any]:
        """See Stage."""
        config = self.checkpoint.config
        words = contract_words(config.hidden_dim, config.style_dim)
        return self.contract_head() | {
            "inputs": {name: words[name]["inputs"] for name in part.functions},
            "outputs": {name: words[name]["outputs"] for name in part.functions},
            "source": {},
            "token_buckets": (TOKEN_BUCKETS[-1],),
            "alignment": asdict(self.limits),
        }
