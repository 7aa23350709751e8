"""What a text-to-speech chain is made of: three stages, each a small protocol, so that any runtime can stand in any place.

    Pipeline(g2p, encoder, vocoder)       # pipeline.conductor; runtimes by name: pipeline.runtime

A test gives a stage of its own; a conductor in another language ports these three calls and what stands between them (docs/conductor.md).
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from torch import Tensor

from encoder.functions import Encoded
from g2p.result import Result
from vocoder.packing import VocoderInputs
from vocoder.source import HarmonicSource


class Phonemizer(Protocol):
    """Text to phonemes, sentence by sentence."""

    def sentences(self, text: str) -> Iterator[Result]:
        """Sentences in order; offsets of their words count characters of the whole `text`."""


class EncoderStage(Protocol):
    """Phonemes to features."""

    def encode(self, ids: tuple[int, ...], style: Tensor, speed: float) -> Encoded:
        """ids with boundary tokens, style [1, 128]: the prosody half. Raises UtteranceTooLong where the text has to be split."""


class VocoderStage(Protocol):
    """Features to a waveform. `source` holds the voice's ten weights: the source runs on the host."""

    source: HarmonicSource

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600 F] float32."""
