"""How a rendition is compared with the fp32 model's. Vocoder, encoder and product differ in this,
in what is rendered (eval/renditions.py) and in their natural variation, and in nothing else.

    comparison = COMPARISONS[VOCODER](reference)
    comparison.measure_rendition(clip, subject.render(clip)), comparison.get_natural(clip).figures

A comparison measures a rendition, and the natural variation: the same figures of renditions by the
fp32 model that are as right as the reference (other noise seeds, neighbouring style rows).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kokoro_ane.encoder import Encoded
from kokoro_ane.eval.gates import PLACED, is_near_limit
from kokoro_ane.eval.metrics.catalog import DURATIONS, METRICS, measure, spread
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
from kokoro_ane.eval.reference import OTHER_SEEDS, Reference
from kokoro_ane.eval.renditions import ClipReader, EncoderSubject, Rendition
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, VOCODER
from kokoro_ane.speech import Utterance

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
