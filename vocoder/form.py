"""What the builder, the chain and compression ask of a form of the vocoder. The forms are in vocoder/forms.py.

form: Form = form_named("windowed")
"""

from typing import Any, Protocol

from torch import Tensor, nn

from core.config import KokoroConfig
from vocoder.decoder import Vocoder
from vocoder.inputs import VocoderInputs


class Form(Protocol):
    """What the builder, the chain and compression ask of a form."""

    @property
    def name(self) -> str:
        """One of FORMS; part of the package's name unless literal."""

    def check_frames(self, buckets: tuple[int, ...]) -> int:
        """Frames of the utterance that a build is checked with: about a second, as short as the form's shapes allow."""

    def lengths(self, config: KokoroConfig, buckets: tuple[int, ...] | None) -> tuple[int, ...]:
        """The lengths to build, in frames; None: the form's default ones. InputError where it cannot have one, or not this checkpoint."""

    def module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """What is traced: (features, style) -> waveform. `int8_inputs`: with every scale where quantize can reach it."""

    def shapes(self, buckets: tuple[int, ...], hidden_dim: int) -> tuple[tuple[int, ...], ...]:
        """Shape of `features` at every length."""

    def holds(self, frames: int, bucket: int) -> bool:
        """Whether an utterance of so many frames goes into the bucket."""

    def pack(self, inputs: VocoderInputs, bucket: int, *, half: bool) -> Tensor:
        """`features`, float32. `half`: the package takes fp16. InputError where the bucket does not hold the utterance."""

    def join(self, waveform: Tensor, frames: int, bucket: int) -> Tensor:
        """The package's output -> [600F]."""

    def columns(self, trunk: Tensor, frames: int, bucket: int) -> Tensor:
        """The output of `trunk_module` -> [C, 120F + 1]."""

    def bound(self, vocoder: Vocoder) -> "Form":
        """Itself, with whatever of the vocoder's weights `join` needs."""

    def trunk_module(self, vocoder: Vocoder, hidden_dim: int, *, int8_inputs: bool = False) -> nn.Module:
        """`module` without the tail."""

    @property
    def output(self) -> str:
        """What the package gives: waveform or trunk."""

    def output_dtype(self, precision: str) -> str:
        """float32, or float16."""

    @property
    def tail_divisor(self) -> float:
        """How many times too large the output of `trunk_module` is."""

    def features_contract(self, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
        """`features` in words, for the manifest."""

    def waveform_contract(self) -> dict[str, Any]:
        """`waveform` in words, for the manifest."""
