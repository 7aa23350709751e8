"""The encoder for runtimes that take any length: `duration` and `prosody` as a file each, in float32, at exact length.

manifests = build(PortableEncoderStage(checkpoint, core.onnx_file), Path("build"), kind_of(core.onnx_file))
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch

from core.checkpoint import Checkpoint
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
from core.facts import ProgramFacts, require
from core.figures import Figure
from core.manifest import package_name
from core.portable import PortableFormat, PortableFunction, PortableProgram
from core.portable_stage import PRECISION, baked, dynamic, level_of
from core.stage import MAIN, Part
from encoder.alignment import AlignmentLimits
from encoder.arrays import array_functions
from encoder.check import check_utterances, compared
from encoder.functions import Buckets, torch_functions
from encoder.model import DurationFunction, Encoder, ProsodyFunction
from encoder.stage import contract_words
from encoder.steps import EncoderBackend, encode

EXAMPLE_TOKENS, EXAMPLE_FRAMES = 20, 40
LENGTHS = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)  # only their last ones count: the longest utterance
UNBOUNDED = 1 << 40


@dataclass(frozen=True, eq=False)
class PortableEncoderStage:
    """See core.stage.Stage."""

    checkpoint: Checkpoint
    form: PortableFormat
    precision: str = PRECISION

    @property
    def target(self) -> str:
        """See Stage."""
        return self.form.TARGET

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
        name, releasable, level = self.checkpoint.name, self.checkpoint.releasable, level_of(self.form)
        stages = {function: ENCODER_NAME + function.capitalize() for function in (DURATION, PROSODY)}
        return tuple(Part(stage, package_name(stage, name, releasable, level), {function: MAIN}) for function, stage in stages.items())

    def function(self, name: str) -> PortableFunction:
        """What is exported."""
        style = torch.zeros(1, self.checkpoint.config.style_dim)
        if name == DURATION:
            example: tuple[torch.Tensor, ...] = (torch.ones(1, EXAMPLE_TOKENS, dtype=torch.int32), style, torch.ones(1))
            axes = dynamic((INPUT_IDS, 1, "tokens"), (DURATIONS, 1, "tokens"), (HIDDEN, 3, "tokens"), (TEXT, 3, "tokens"))
            module = baked(DurationFunction(self.encoder))
            return PortableFunction(module, example, (INPUT_IDS, STYLE, SPEED), (DURATIONS, HIDDEN, TEXT), axes)
        example = (torch.ones(1, self.checkpoint.config.hidden_dim + 1, 1, EXAMPLE_FRAMES), style)
        axes = dynamic((FRAMES, 3, "frames"), (F0_HZ, 1, "values"), (ENERGY, 1, "values"))
        return PortableFunction(baked(ProsodyFunction(self.encoder)), example, (FRAMES, STYLE), (F0_HZ, ENERGY), axes)

    def facts(self, name: str, program: PortableProgram) -> ProgramFacts:
        """See Stage."""
        facts = self.form.facts(program)
        require({"no operations": facts.count > 0}, f"function {name}")
        return facts

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
        return {
            "method": PRECISION,
            "checkpoint": self.checkpoint.as_source,
            "releasable": self.checkpoint.releasable,
            "buckets": (DEFAULT_BUCKETS[-1],),
            "hidden_dim": config.hidden_dim,
            "inputs": {name: words[name]["inputs"] for name in part.functions},
            "outputs": {name: words[name]["outputs"] for name in part.functions},
            "source": {},
            "token_buckets": (TOKEN_BUCKETS[-1],),
            "alignment": asdict(self.limits),
        }
