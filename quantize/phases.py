"""How a reconstruction is run: steps, rates, excerpts. Light, so that a command's flags can be read before anything is imported.

LearningPlan(block_steps=60)
"""

from dataclasses import asdict, dataclass
from typing import Any

MOST_STEPS = 100_000
FEWEST_CLIPS = 2


@dataclass(frozen=True)
class LearningPlan:
    """How long and how fast. Rates are in steps of a grid and fall to nothing along a cosine.

    dropped: share of an input that is not rounded while blocks are learned. clips: how many of the tuning set's sentences, all where it is
    None. voices: how many each is learned in. held: one in so many, the last ones, which only decide. Excerpts: long ones for the decoder's
    blocks, which have one column a frame.
    """

    block_steps: int = 100
    whole_steps: int = 100
    block_rate: float = 5e-3
    whole_rate: float = 1e-3
    dropped: float = 0.5
    voices: int = 2
    held: int = 4
    decoder_frames: int = 400
    generator_frames: int = 60
    held_frames: int = 240
    clips: int | None = None
    seed: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)
