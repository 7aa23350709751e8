"""What is judged: the checkpoint's own speech, and the fp32 renders that every level is measured against.

    truth = Truth(checkpoint, seed=0, folder=None)
    spoken = truth.of(clip)  # reference, other seed, held vowel, and the seed floor

The features (text encoder, style row, F0, energy and durations) are the checkpoint's own and identical for all renders; only the
harmonic source's noise seed differs in the other seed. With a folder, renders are kept there: a further level costs only its own execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from core.checkpoint import Checkpoint
from core.contract import JUDGED, SECOND, TUNING
from core.corpus import Utterance, require_disjoint
from core.errors import InputError
from core.sealed import read_sealed_arrays, sealed_arrays
from core.staging import staged
from eval.metrics.registry import measure
from eval.metrics.trial import Known, Tone, Trial
from eval.probe import held_vowel
from quantize.features import text_encoder, vocoder_inputs
from quantize.speech import own_speech
from vocoder.decoder import Vocoder
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs

SIGNALS = ("reference", "other_seed", "vowel", "vowel_other_seed")


class Subject(Protocol):
    """Whatever renders: a package, or a model with a known error."""

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """[600 F] float32."""


@dataclass(frozen=True, eq=False)
class Spoken:
    """One sentence by the fp32 model, [600 F] float64: as it is and with other noise; a held vowel of its voice, the same two ways."""

    reference: np.ndarray
    other_seed: np.ndarray
    pitch_hz: float
    vowel: np.ndarray
    vowel_other_seed: np.ndarray

    def trial(self, test: np.ndarray, vowel: np.ndarray) -> Trial:
        """A subject's sentence and vowel against the fp32 model's."""
        return Trial(self.reference, test, self.other_seed, Tone(self.pitch_hz, self.vowel, vowel), self._known)

    @cached_property
    def _known(self) -> Known:
        return Trial(self.reference, self.other_seed).shared()

    def seed_floor(self) -> dict[str, float]:
        """Figures of the other noise seed: the model's own spread."""
        return measure(Trial(self.reference, self.other_seed, tone=Tone(self.pitch_hz, self.vowel, self.vowel_other_seed)))


class Truth:
    """Responsibilities: 1. inputs of a clip and of its voice's vowel; 2. their fp32 renders, once. It judges nothing."""

    def __init__(self, checkpoint: Checkpoint, seed: int, folder: Path | None = None) -> None:
        self.checkpoint, self.seed, self.folder = checkpoint, seed, folder
        self.vocoder, self._encoder = Vocoder.of(checkpoint), text_encoder(checkpoint)
        self._longest: dict[str, Utterance] = {}  # of each voice, in the judged set
        self._spoken: dict[str, Spoken] = {}  # by clip
        self._vowels: dict[tuple[str, bool], tuple[VocoderInputs, float]] = {}  # by voice and other seed

    def inputs(self, utterance: Utterance, other_seed: bool = False) -> VocoderInputs:
        """Features of a clip, with the noise of `seed` (other_seed: `seed + 1`)."""
        return vocoder_inputs(self.checkpoint, self.vocoder, self._encoder, utterance, self.seed + other_seed)

    def vowel_inputs(self, voice: str, other_seed: bool = False) -> tuple[VocoderInputs, float]:
        """Features of a voice's held vowel and its F0 in Hz."""
        key = (voice, other_seed)
        if key not in self._vowels:
            self._vowels[key] = held_vowel(self.checkpoint, self.vocoder, self._encoder, self._source(voice), self.seed + other_seed)
        return self._vowels[key]

    def _source(self, voice: str) -> Utterance:
        """The clip a voice's vowel is taken from: the longest of the set that has this voice."""
        for name in (JUDGED, SECOND, TUNING):
            if voice not in self._longest:
                spoken = sorted(own_speech(self.checkpoint, name), key=lambda utterance: utterance.frames)
                self._longest = {utterance.voice: utterance for utterance in spoken} | self._longest
        return self._longest[voice]

    def of(self, utterance: Utterance) -> Spoken:
        """The renders of one clip: kept in memory, and read from the folder when they are there."""
        if utterance.id not in self._spoken:
            self._spoken[utterance.id] = self._read_or_rendered(utterance)
        return self._spoken[utterance.id]

    def _read_or_rendered(self, utterance: Utterance) -> Spoken:
        path = self.folder / f"{utterance.id}.npz" if self.folder else None
        if path and path.is_file():
            kept = read_sealed_arrays(path, _about(path), "; delete it and it is rendered again")
            signals: dict[str, Any] = {name: kept[name] for name in SIGNALS} | {"pitch_hz": float(kept["pitch_hz"])}
        else:
            signals = self._rendered(utterance)
            if path:
                _keep(path, signals)
        return Spoken(**{name: value.astype(np.float64) if name in SIGNALS else value for name, value in signals.items()})

    def _rendered(self, utterance: Utterance) -> dict[str, np.ndarray | float]:
        sentence = [render_reference(self.vocoder, self.inputs(utterance, other_seed)) for other_seed in (False, True)]
        (held, pitch_hz), (other, _) = (self.vowel_inputs(utterance.voice, other_seed) for other_seed in (False, True))
        vowel = [render_reference(self.vocoder, inputs) for inputs in (held, other)]
        return dict(zip(SIGNALS, (*sentence, *vowel), strict=True)) | {"pitch_hz": pitch_hz}


def _keep(path: Path, signals: dict[str, np.ndarray | float]) -> None:
    """Write by rename: a file that is there is whole."""
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **sealed_arrays({name: np.asarray(value) for name, value in signals.items()}, _about(path)))


def _about(path: Path) -> dict[str, str]:
    """What a file of renders belongs to: its clip, and the store's key in the folder's name."""
    return {"clip": path.stem, "store": path.parent.parent.name}


def clips(utterances: Sequence[Utterance], count: int | None) -> list[Utterance]:
    """The first `count` utterances (all by default), voices taking turns as they do in the frozen set. InputError when there are fewer."""
    if count is None:
        return list(utterances)
    if not 1 <= count <= len(utterances):
        raise InputError(f"--clips {count}: there are {len(utterances)} clips, give 1 to {len(utterances)}")
    return list(utterances[:count])


def judged_clips(checkpoint: Checkpoint, name: str = JUDGED, count: int | None = None) -> list[Utterance]:
    """The set's first `count` clips. InputError when one of its texts is tuned on, or when there are fewer."""
    chosen = own_speech(checkpoint, name)
    require_disjoint(own_speech(checkpoint, TUNING), chosen)
    return clips(chosen, count)
