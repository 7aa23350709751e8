"""The two functions of the encoder, whoever computes them: PyTorch, or the executed package. encoder/steps.py runs them.

functions = torch_functions(encoder)
functions = package_functions({DURATION: program, PROSODY: other})
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.contract import (
    DURATION,
    DURATIONS,
    ENERGY,
    F0_HZ,
    FRAMES,
    HIDDEN,
    INPUT_IDS,
    PROSODY,
    SPEED,
    STYLE,
    TEXT,
)
from core.errors import UtteranceTooLong

if TYPE_CHECKING:
    from torch import Tensor

    from encoder.model import Encoder

Executed = Callable[[Mapping[str, "Tensor"]], Mapping[str, "Tensor"]]  # a Program, or Core ML: named inputs to named outputs


@dataclass(frozen=True)
class Buckets:
    """Enumerated lengths: tokens (boundary included) and frames, rising."""

    tokens: tuple[int, ...]
    frames: tuple[int, ...]

    def for_tokens(self, count: int) -> int:
        """The smallest token bucket that holds `count`."""
        for bucket in self.tokens:
            if count <= bucket:
                return bucket
        raise UtteranceTooLong(f"{count - 2} phonemes: the package takes at most {self.tokens[-1] - 2}; split the text")


@dataclass(frozen=True)
class Functions:
    """`duration(ids [1, T], style [1, 128], speed [1])` -> durations, hidden, text; `prosody(frames, style)` -> F0, energy.

    Of tensors; of NumPy arrays where EncoderBackend.arrays says so.
    """

    duration: "Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]"
    prosody: "Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]"


def torch_functions(encoder: "Encoder") -> Functions:
    """The PyTorch twin."""
    from encoder.model import DurationFunction, ProsodyFunction

    return Functions(DurationFunction(encoder).eval(), ProsodyFunction(encoder).eval())


def package_functions(programs: Mapping[str, Executed]) -> Functions:
    """The executed package, or two: programs by function name."""

    def duration(ids: "Tensor", style: "Tensor", speed: "Tensor") -> "tuple[Tensor, Tensor, Tensor]":
        given = programs[DURATION]({INPUT_IDS: ids, STYLE: style, SPEED: speed})
        return given[DURATIONS], given[HIDDEN], given[TEXT]

    def prosody(frames: "Tensor", style: "Tensor") -> "tuple[Tensor, Tensor]":
        given = programs[PROSODY]({FRAMES: frames, STYLE: style})
        return given[F0_HZ], given[ENERGY]

    return Functions(duration, prosody)
