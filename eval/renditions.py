"""What is rendered of a clip, and how a rendition is compared with the fp32 model's. Vocoder,
encoder and product differ in these two and in their natural variation, and in nothing else.

    subject = VocoderSubject(reference, package)
    comparison = COMPARISONS[VOCODER](reference)
    comparison.measure_rendition(clip, subject.render(clip)), comparison.get_natural(clip).figures

A subject renders a clip. A comparison measures a rendition, and the natural variation: the same
figures of renditions by the fp32 model that are as right as the reference (other noise seeds,
neighbouring style rows).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import torch

from kokoro_ane.core import InputError, style_row
from kokoro_ane.encoder import Encoded, EncoderBackend, encode, round_durations
from kokoro_ane.eval.gates import PLACED, is_near_limit
from kokoro_ane.eval.metrics.catalog import DURATIONS, METRICS, measure, spread
from kokoro_ane.eval.metrics.framing import defect
from kokoro_ane.eval.metrics.prosody_metrics import ProsodyTrial
from kokoro_ane.eval.metrics.trial import Baseline, Retimed, Trial
from kokoro_ane.eval.natural import (
    HEARING,
    MEASURED,
    Item,
    compute_prosody_probe,
    decode_figures,
    encode_figures,
)
from kokoro_ane.eval.reference import OTHER_SEEDS, Reference, Render
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, VOCODER
from kokoro_ane.speech import SpokenLine, Utterance, cut_within, make_vocoder_inputs, say
from kokoro_ane.vocoder import VocoderInputs

# of the longest bucket: an encoder's level may say a clip in a few frames more
PRODUCT_SHARE = 0.95
ROW_STEPS = (1, -1)  # phonemes: the neighbouring style rows
# metrics of a product: against the fp32 vocoder on the product's features
VOCODER_ALONE = ("pesq",)
# against the fp32 chain, retimed to it, in units of the natural variation
SCALED = (
    "mcd_db",
    "lsd_db",
    "f0_rmse_cents",
    "voicing_error_percent",
    "words_changed",
    "speaker_distance",
)
# against the fp32 chain, retimed to it
HEARD = (*SCALED, "level_db", "word_errors_added", "dnsmos_loss", "distillmos_loss")


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


class Natural(NamedTuple):
    """The natural variation of a clip (eval/metrics/catalog.py, spread), and where it is from."""

    figures: dict[str, float]
    origin: str = MEASURED


class Comparison(ABC):
    """How renditions of one stage are compared with the fp32 model's, by every metric or by those
    of `only`. thorough: whether the natural variation is worth the time of every neighbour, as what
    the repository stores is.
    """

    stage: str
    scale: str  # what the natural variation is, in words
    shown: tuple[str, str]  # the two metrics that tell most

    def __init__(
        self, reference: Reference, only: Sequence[str] = (), thorough: bool = False
    ) -> None:
        self.reference, self.only, self.thorough = reference, only, thorough

    @abstractmethod
    def measure_rendition(self, clip: Utterance, rendition: Rendition) -> dict[str, float]:
        """Measure a rendition without defect."""

    @abstractmethod
    def measure_neighbours(self, clip: Utterance) -> Iterable[dict[str, float]]:
        """Yield the figures of the fp32 model's renditions that are as right as the reference."""

    def get_natural(self, clip: Utterance) -> Natural:
        """The natural variation, stored or measured."""
        variations = self.reference.variations
        probe = self.compute_probe(clip)
        if stored := self.find_variation(clip, probe):
            item, origin = stored
            figures = decode_figures(item)
            names = [name for name in figures if not self.only or name.split()[0] in self.only]
            return Natural({name: figures[name] for name in names}, origin)
        figures = spread(list(self.measure_neighbours(clip)))
        if self.stage == PRODUCT:
            # no worst clip of a product has a limit in variations
            figures = {name: value for name, value in figures.items() if name in METRICS}
        if not self.only:
            for kind, item in self.make_items(clip, encode_figures(figures)).items():
                variations.keep(kind, clip.id, {"probe": probe, **item})
        return Natural(figures)

    def find_variation(self, clip: Utterance, probe: np.ndarray) -> tuple[Item, str] | None:
        """The stored item of this stage, and from where."""
        return self.reference.variations.find(self.stage, clip.id, probe)

    def compute_probe(self, clip: Utterance) -> np.ndarray:
        """What tells whether a stored item is of the fp32 model's clip: samples of its sound."""
        return self.reference.get_renders(clip).probe

    def make_items(self, clip: Utterance, figures: Item) -> dict[str, Item]:
        """What is stored of a clip whose natural variation was measured, by kind: for sound with
        what is heard in the reference.
        """
        return {
            self.stage: figures,
            HEARING: self.reference.get_renders(clip).sentence.heard.plain(),
        }


class VocoderComparison(Comparison):
    """Sound on equal features; the natural variation is that of other noise seeds."""

    stage = VOCODER
    scale = "fp32 with another noise seed"
    shown = ("pesq", "mcd_db")

    def measure_rendition(self, clip: Utterance, rendition: Rendition) -> dict[str, float]:
        """Measure sound. How far another seed goes at each place is asked of one, which allows less
        than all do, and of all where a place is near its limit.
        """
        renders = self.reference.get_renders(clip)

        def compare(names: Sequence[str], sentence: Baseline) -> dict[str, float]:
            trial = renders.make_trial(
                rendition.samples, rendition.vowel, rendition.clock, sentence
            )
            return measure(trial, names)

        figures = compare(self.only, renders.baseline)
        if is_near_limit(figures) and not renders.is_thorough:
            figures |= compare([name for name in PLACED if name in figures], renders.seeded)
        return figures

    def measure_neighbours(self, clip: Utterance) -> Iterable[dict[str, float]]:
        """Measure another seed as if it were judged; which one hangs on the clip. All three take
        three times as long, for means over 60 clips that are 1 % more certain (MCD and log-spectral
        distance; words: 8 %). Without the others its places are not measured.
        """
        renders = self.reference.get_renders(clip)
        places = range(OTHER_SEEDS) if self.thorough else [renders.place]
        for place in places:
            figures = measure(renders.make_seed_trial(place, self.thorough), self.only)
            left_out = () if renders.is_seeded else PLACED
            yield {name: value for name, value in figures.items() if name not in left_out}

    def find_variation(self, clip: Utterance, probe: np.ndarray) -> tuple[Item, str] | None:
        """As above, where it is of the same frames, and of all seeds where these were rendered."""
        renders = self.reference.get_renders(clip)
        return renders.find_variation(self.thorough or renders.is_seeded)

    def make_items(self, clip: Utterance, figures: Item) -> dict[str, Item]:
        """Add what other seeds allow at each place."""
        allowed = self.reference.get_renders(clip).baseline.allowance.plain()
        return super().make_items(clip, {**figures, **allowed})


class EncoderComparison(Comparison):
    """Prosody on equal alignment; the natural variation is that of the neighbouring style rows."""

    stage = ENCODER
    scale = "fp32 with a neighbouring style row"
    shown = ("f0_cents", "tokens_changed_percent")

    # the fp32 model's, of the clip that was compared last
    _prosody: tuple[Utterance, Encoded] | None = None

    def measure_rendition(self, clip: Utterance, rendition: Rendition) -> dict[str, float]:
        """Measure prosody."""
        assert rendition.prosody is not None
        if self._prosody is None or self._prosody[0] is not clip:
            self._prosody = clip, ClipReader(self.reference).encode_prosody(clip, clip.durations)
        curves = self._prosody[1], rendition.prosody
        return measure(ProsodyTrial(clip, rendition.durations, curves), self.only)

    def measure_neighbours(self, clip: Utterance) -> Iterable[dict[str, float]]:
        """Measure the style rows of one phoneme more and less."""
        for step in ROW_STEPS:
            rendition = EncoderSubject(ClipReader(self.reference, step=step)).render(clip)
            yield self.measure_rendition(clip, rendition)

    def compute_probe(self, clip: Utterance) -> np.ndarray:
        """Samples of the fp32 prosody."""
        return compute_prosody_probe(clip.durations, clip.f0_hz)

    def make_items(self, clip: Utterance, figures: Item) -> dict[str, Item]:
        """Prosody has no sound that listening models could hear."""
        return {ENCODER: figures}


class ProductComparison(Comparison):
    """Sound in its own time, brought to the reference's token by token (eval/metrics/trial.py,
    Retimed); the natural variation is that of the neighbouring style rows, each with another noise
    seed.
    """

    stage = PRODUCT
    scale = "fp32 with a neighbouring style row, another noise seed"
    shown = ("pesq", "mcd_db")

    def measure_rendition(self, clip: Utterance, rendition: Rendition) -> dict[str, float]:
        """How the vocoder rendered its features, how far the whole is from the fp32 chain, and the
        durations.
        """
        names = self.only or (*VOCODER_ALONE, *HEARD, *DURATIONS)
        durations = rendition.durations
        figures = measure(ProsodyTrial(clip, durations), names)
        # What the vocoder lost is measured on its own features: PESQ hears no other prosody there.
        if any(name in names for name in VOCODER_ALONE):
            assert rendition.clock is not None
            figures |= measure(Trial(rendition.clock, rendition.samples), VOCODER_ALONE)
        if heard := [name for name in names if name in HEARD]:
            renders = self.reference.get_renders(clip)
            retimed = Retimed(
                renders.reference,
                rendition.samples,
                text=clip.text,
                sentence=renders.sentence,
                durations=(clip.durations.astype(np.int64), durations),
            )
            figures |= measure(retimed, heard)
        return figures

    def measure_neighbours(self, clip: Utterance) -> Iterable[dict[str, float]]:
        """Measure the fp32 chain by the rows of one phoneme more and less."""
        scaled = ProductComparison(self.reference, self.only or (*SCALED, *DURATIONS))
        for number, step in enumerate(ROW_STEPS, 1):
            durations, inputs = ClipReader(self.reference, step=step).compute_inputs(
                clip, other_seed=number
            )
            rendition = Rendition(self.reference.render_clock(inputs), durations=durations)
            yield scaled.measure_rendition(clip, rendition)


COMPARISONS: Mapping[str, type[Comparison]] = MappingProxyType(
    {kind.stage: kind for kind in (VocoderComparison, EncoderComparison, ProductComparison)}
)
