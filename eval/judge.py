"""Measure a package on held-out clips and hold the figures against the gates.

truth = Truth(checkpoint, seed=0)
decided("w8", [judge_clip(truth, package, clip) for clip in clips]).decision.verdict
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.contract import FRAMES_PER_SECOND
from core.corpus import Utterance
from eval.claims import DEVICE, DEVICE_DOUBT, NUMERIC
from eval.corpus import Spoken, Subject, Truth
from eval.gates import FEWEST_VOICES, MEAN, WORST, gates_for
from eval.metrics.framing import defect
from eval.metrics.registry import METRICS, measure
from eval.verdict import Check, Decision, Figures, decide, statistic
from vocoder.packing import VocoderInputs


@dataclass(frozen=True)
class ClipResult:
    """Figures of one clip: the package's, and those of the fp32 model under other seeds. `defect` when the package gave no audio."""

    id: str
    voice: str
    seconds: float
    text: str
    figures: dict[str, float]
    seed_floor: dict[str, float]
    defect: str | None = None


@dataclass(frozen=True)
class Judgement:
    """All clips and the decision."""

    method: str
    clips: tuple[ClipResult, ...]
    decision: Decision

    @property
    def figures(self) -> Figures:
        """Figures of the clips that gave audio."""
        return [clip.figures for clip in self.clips if clip.defect is None]

    @property
    def seed_floor(self) -> Figures:
        """The seed floor of every clip."""
        return [clip.seed_floor for clip in self.clips]

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Mean and worst of each metric, for the package and for the other seeds."""
        test, other_seed = self.figures, self.seed_floor
        columns = {"mean": (MEAN, test), "worst": (WORST, test)}
        columns |= {"seed_floor_mean": (MEAN, other_seed), "seed_floor_worst": (WORST, other_seed)}
        return {name: {column: statistic(name, *source) for column, source in columns.items()} for name in METRICS}


def decided(method: str, results: Sequence[ClipResult], claim: str = NUMERIC) -> Judgement:
    """The decision over measured clips."""
    sound = [clip for clip in results if clip.defect is None]
    defects = [f"{clip.id}: the package's output {clip.defect}" for clip in results if clip.defect]
    voices = len({clip.voice for clip in results})
    doubts = [f"voices judged: {voices}, needed: at least {FEWEST_VOICES}"] if voices < FEWEST_VOICES else []
    doubts += [DEVICE_DOUBT] if claim == DEVICE else []
    figures, seed_floor = [clip.figures for clip in sound], [clip.seed_floor for clip in sound]
    return Judgement(method, tuple(results), decide(gates_for(method), figures, seed_floor, defects, doubts))


def judge_clip(
    truth: Truth,
    subject: Subject,
    utterance: Utterance,
    seed_floor: dict[str, float] | None = None,
    spoken: Spoken | None = None,
    only: Sequence[str] = (),
    inputs: VocoderInputs | None = None,
) -> ClipResult:
    """Measure one clip. Broken output of the package is a result; a broken reference is an InputError.

    `seed_floor` and `spoken`: the seed floor and the fp32 renders, where the caller has them already. `only`: these metrics, not all.
    `inputs`: the features that the package is given, if not the reference's own.
    """
    spoken = spoken or truth.of(utterance)
    test = subject.render(inputs or truth.inputs(utterance)).astype(np.float64)
    vowel = subject.render(truth.vowel_inputs(utterance)[0]).astype(np.float64)
    wrong = _unlike(test, spoken.reference) or _unlike(vowel, spoken.vowel)
    clock = truth.clock(inputs) if inputs and not wrong else None
    figures = {} if wrong else measure(spoken.trial(test, vowel, clock), only)
    seconds = utterance.frames / FRAMES_PER_SECOND
    return ClipResult(utterance.id, utterance.voice, seconds, utterance.text, figures, seed_floor or spoken.seed_floor(only), wrong)


def _unlike(signal: np.ndarray, reference: np.ndarray) -> str | None:
    """What makes a package's output no rendition of the reference, or None: a defect, another length."""
    if len(signal) != len(reference):
        return f"holds {len(signal)} samples, the reference {len(reference)}"
    return defect(signal)


def check_record(check: Check) -> dict[str, Any]:
    """A check as plain data."""
    gate = check.gate
    kept = {"gate": gate.name, "value": check.value, "low": check.low, "high": check.high, "rule": gate.rule(check.limit)}
    return kept | {"state": check.state, "passed": check.passed, "reason": gate.reason}
