"""What is rendered of a clip: a vocoder's, an encoder's or a product's rendition of it.

    subject = VocoderSubject(reference, package)
    rendition = subject.render(clip)

A subject renders a clip on the reference's features or on those of a reader; eval/comparisons.py
compares the rendition with the fp32 model's.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch

from kokoro_ane.core import InputError, style_row
from kokoro_ane.encoder import Encoded, EncoderBackend, encode, round_durations
from kokoro_ane.eval.metrics.framing import defect
from kokoro_ane.eval.reference import Reference, Render
from kokoro_ane.eval.subjects import ENCODER, PRODUCT
from kokoro_ane.speech import SpokenLine, Utterance, cut_within, make_vocoder_inputs, say
from kokoro_ane.vocoder import VocoderInputs

# of the longest bucket: an encoder's level may say a clip in a few frames more
PRODUCT_SHARE = 0.95

NOTHING = np.zeros(0)


class Rendition(NamedTuple):
    """What a subject makes of one clip: sound, prosody or both.

    samples: [600 F'] float64; vowel: of a held vowel of the clip's voice, likewise; clock: the fp32
    vocoder's render of the subject's own features, where these are not the reference's; durations:
    [n] frames of each token; prosody: on the alignment of the clip's own durations; defect: why the
    rendition cannot be measured.
    """

    samples: np.ndarray = NOTHING
    vowel: np.ndarray = NOTHING
    clock: np.ndarray | None = None
    durations: np.ndarray = NOTHING
    prosody: Encoded | None = None
    defect: str | None = None


def find_defect(signal: np.ndarray, reference: np.ndarray) -> str | None:
    """What makes a signal no rendition of the reference, or None: a defect, another length."""
    if len(signal) != len(reference):
        return f"holds {len(signal)} samples, the reference {len(reference)}"
    return defect(signal)


class Subject(Protocol):
    """What is judged: executed packages, or a model with a known error."""

    def render(self, clip: Utterance) -> Rendition:
        """Return what the subject makes of the clip."""


@dataclass(frozen=True, eq=False)
class ClipReader:
    """An encoder that reads clips: by the style row of a text that is `step` phonemes longer, and
    `faster` than the clip asks. `backend`: None is the fp32 model.
    """

    reference: Reference
    backend: EncoderBackend | None = None
    step: int = 0
    faster: float = 1.0

    def select_style(self, clip: Utterance) -> torch.Tensor:
        """Return the style row [1, 256]: the decoder's half, then the prosody's."""
        pack = self.reference.checkpoint.blend(clip.voice)
        return style_row(pack, min(max(len(clip.phonemes) + self.step, 1), len(pack)))

    @torch.no_grad()
    def encode_prosody(self, clip: Utterance, durations: np.ndarray | None = None) -> Encoded:
        """The clip's prosody, on the alignment of `durations` [n] or of its own. Raises InputError
        for durations that are none.
        """
        half = self.reference.checkpoint.config.style_dim
        ids = tuple(int(i) for i in clip.input_ids)
        backend = self.backend or self.reference.encoder
        style = self.select_style(clip)[:, half:]
        return encode(backend, ids, style, clip.speed * self.faster, durations)

    @torch.no_grad()
    def compute_inputs(
        self, clip: Utterance, other_seed: int = 0
    ) -> tuple[np.ndarray, VocoderInputs]:
        """Durations [n] and the vocoder's inputs, with the noise of seed + `other_seed`."""
        reference = self.reference
        encoded = self.encode_prosody(clip)
        utterance = with_prosody(clip, encoded)
        inputs = make_vocoder_inputs(
            reference.checkpoint,
            reference.vocoder,
            encoded.asr,
            utterance,
            reference.seed + other_seed,
        )
        style = self.select_style(clip)[:, : reference.checkpoint.config.style_dim]
        return utterance.durations.astype(np.int64), replace(inputs, style=style)


def with_prosody(clip: Utterance, encoded: Encoded) -> Utterance:
    """The clip with the durations, F0 and energy that an encoder gave its text."""
    return replace(
        clip,
        durations=encoded.durations.numpy().astype(clip.durations.dtype),
        f0_hz=encoded.f0_hz[0].numpy(),
        energy=encoded.energy[0].numpy(),
    )


def speak_within(line: SpokenLine, stage: str, frames: int, reference: Reference) -> Utterance:
    """A line as the checkpoint speaks it, as packages of so many frames take it."""
    clip = say(reference.encoder, reference.checkpoint, line)
    return fit_clip(clip, stage, frames, reference)


def fit_clip(clip: Utterance, stage: str, frames: int, reference: Reference) -> Utterance:
    """The clip as packages of so many frames take it: what a package does not take, an app cuts,
    and of such a clip the first words are judged.
    """
    if stage == PRODUCT:
        return _cut_clip(clip, PRODUCT_SHARE * frames, ClipReader(reference))
    return clip if stage == ENCODER else cut_within(clip, frames)


def _cut_clip(clip: Utterance, frames: float, reader: ClipReader) -> Utterance:
    """The clip, or as many of its first words as the reader says in at most `frames`, as it says
    them: a word that a cut makes the last one is drawn out, by up to 14 % of all.
    """
    shorter = cut_within(clip, frames)
    while shorter is not clip:
        said = with_prosody(shorter, reader.encode_prosody(shorter))
        if said.frames <= frames:
            return said
        shorter = cut_within(clip, shorter.frames - 1)
    return clip


@dataclass(frozen=True, eq=False)
class VocoderSubject:
    """A vocoder that renders the reference's features, or those of a reader. predictor: the hash of
    what predicts its statistics, or "".
    """

    reference: Reference
    vocoder: Render
    reader: ClipReader | None = None
    predictor: str = ""

    def render(self, clip: Utterance) -> Rendition:
        """Render the sentence, and the held vowel."""
        inputs = (
            self.reader.compute_inputs(clip)[1]
            if self.reader
            else self.reference.compute_inputs(clip)
        )
        vowel_inputs = self.reference.compute_vowel_inputs(clip)[0]
        samples, vowel = (
            self.vocoder(self.reference.with_statistics(each, clip, self.predictor))
            for each in (inputs, vowel_inputs)
        )
        samples, vowel = samples.astype(np.float64), vowel.astype(np.float64)
        clock = self.reference.render_clock(inputs) if self.reader else None
        renders = self.reference.get_renders(clip)
        defect = find_defect(samples, renders.reference) or find_defect(vowel, renders.vowel)
        return Rendition(samples, vowel, clock, defect=defect)


@dataclass(frozen=True, eq=False)
class EncoderSubject:
    """A reader, compared on the alignment of the clip's own durations."""

    reader: ClipReader

    def render(self, clip: Utterance) -> Rendition:
        """Return prosody, and the durations that the reader would align by."""
        try:
            encoded = self.reader.encode_prosody(clip, clip.durations)
            limits = self.reader.reference.encoder.limits
            durations = round_durations(encoded.raw.numpy(), limits)
        except InputError as problem:
            return Rendition(defect=str(problem))
        return Rendition(durations=durations, prosody=encoded)


@dataclass(frozen=True, eq=False)
class ProductSubject:
    """A vocoder that speaks what a reader reads, in the time that the reader gives it. predictor:
    as VocoderSubject's.
    """

    reader: ClipReader
    vocoder: Render
    predictor: str = ""

    def render(self, clip: Utterance) -> Rendition:
        """Render sound in its own durations."""
        try:
            durations, inputs = self.reader.compute_inputs(clip)
            reference = self.reader.reference
            settled = reference.with_statistics(inputs, clip, self.predictor)
            samples = self.vocoder(settled).astype(np.float64)
            clock = reference.render_clock(inputs)
        except InputError as problem:
            return Rendition(defect=str(problem))
        defect = find_defect(samples, clock)
        return Rendition(samples, clock=clock, durations=durations, defect=defect)
