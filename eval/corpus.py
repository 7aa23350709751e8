"""What is judged: the frozen held-out sentences, rendered three ways with the same features.

    for clip in clips(heldout(), count=24): ...
    renders = Renderer(checkpoint, package, seed=0).render(clip)

The features (text encoder, style row, recorded F0, energy and durations) are the checkpoint's own and identical for all three; only the
harmonic source's noise seed differs in the redraw.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.checkpoint import Checkpoint
from pipeline.demo.data import Utterance
from pipeline.errors import InputError
from pipeline.features import text_encoder, vocoder_inputs
from vocoder.package import VocoderPackage, render_reference


@dataclass(frozen=True, eq=False)
class Renders:
    """One sentence three times, [600 F] float64: the fp32 model, the package with the same noise, the fp32 model with other noise."""

    reference: np.ndarray
    test: np.ndarray
    redraw: np.ndarray


class Renderer:
    """Responsibilities: 1. features once per clip and seed; 2. the three renders. It judges nothing."""

    def __init__(self, checkpoint: Checkpoint, package: VocoderPackage, seed: int) -> None:
        self._checkpoint, self._package, self._seed = checkpoint, package, seed
        self._vocoder, self._encoder = checkpoint.vocoder(), text_encoder(checkpoint)

    def render(self, utterance: Utterance) -> Renders:
        """Reference and test with noise from `seed`, redraw with noise from `seed + 1`."""
        seeds = (self._seed, self._seed + 1)
        inputs, other = (vocoder_inputs(self._checkpoint, self._vocoder, self._encoder, utterance, seed) for seed in seeds)
        rendered = (render_reference(self._vocoder, inputs), self._package.render(inputs), render_reference(self._vocoder, other))
        return Renders(*(samples.astype(np.float64) for samples in rendered))


def clips(utterances: Sequence[Utterance], count: int | None) -> list[Utterance]:
    """The first `count` utterances (all by default), voices taking turns as they do in the frozen set. InputError when there are fewer."""
    if count is None:
        return list(utterances)
    if not 1 <= count <= len(utterances):
        raise InputError(f"--clips {count}: there are {len(utterances)} held-out clips, give 1 to {len(utterances)}")
    return list(utterances[:count])
