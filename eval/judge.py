"""Measure a package on held-out clips and hold the figures against the gates.

reference = Reference(checkpoint, seed=0)
decided("w8", [judge_clip(reference, package, clip) for clip in clips]).decision.verdict
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_ane.core.contract import DEVICE, FRAMES_PER_SECOND, NUMERIC, PADDED
from kokoro_ane.eval.gates import FEWEST_VOICES, MEAN, WORST, Gate, gates_for
from kokoro_ane.eval.metrics.catalog import METRICS, measure
from kokoro_ane.eval.metrics.framing import defect
from kokoro_ane.eval.reference import Reference, ReferenceRenders, Subject
from kokoro_ane.eval.verdict import DEVICE_DOUBT, Check, Decision, Figures, decide, statistic
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.vocoder.packing import VocoderInputs

Gates = Sequence[Gate]


@dataclass(frozen=True)
class ClipResult:
    """Figures of one clip: the package's, and what the fp32 model itself varies by, under other
    seeds or, where the encoder is judged, by the neighbouring style rows. `defect` when the package
    gave no audio, or no prosody.
    """

    id: str
    voice: str
    seconds: float
    text: str
    figures: dict[str, float]
    seed_variation: dict[str, float]
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
    def seed_variation(self) -> Figures:
        """The seed variation of every clip."""
        return [clip.seed_variation for clip in self.clips]

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Mean and worst of each metric, for the package and for the variation: all of the sound's
        where one of them has a gate.
        """
        test, other_seed = self.figures, self.seed_variation
        heard = (
            tuple(METRICS)
            if any(check.gate.metric in METRICS for check in self.decision.checks)
            else ()
        )
        columns = {"mean": (MEAN, test), "worst": (WORST, test)}
        columns |= {
            "seed_variation_mean": (MEAN, other_seed),
            "seed_variation_worst": (WORST, other_seed),
        }
        names = [*heard, *(name for name in (test[0] if test else {}) if name not in METRICS)]
        return {
            name: {column: statistic(name, *source) for column, source in columns.items()}
            for name in names
        }


def decided(
    method: str,
    results: Sequence[ClipResult],
    claim: str = NUMERIC,
    layout: str = PADDED,
    defects: Sequence[str] = (),
    gates: Gates = (),
) -> Judgement:
    """The decision over measured clips. `defects`: what is wrong with the package, whatever its
    clips sound like. `gates`: no level's.
    """
    sound = [clip for clip in results if clip.defect is None]
    silent = [f"{clip.id}: the package's output {clip.defect}" for clip in results if clip.defect]
    voices = len({clip.voice for clip in results})
    doubts = (
        [f"voices judged: {voices}, needed: at least {FEWEST_VOICES}"]
        if voices < FEWEST_VOICES
        else []
    )
    doubts += [DEVICE_DOUBT] if claim == DEVICE else []
    figures, seed_variation = (
        [clip.figures for clip in sound],
        [clip.seed_variation for clip in sound],
    )
    broken = (*defects, *silent)
    return Judgement(
        method,
        tuple(results),
        decide(gates or gates_for(method, layout), figures, seed_variation, broken, doubts),
    )


def judge_clip(
    reference: Reference,
    subject: Subject,
    utterance: Utterance,
    seed_variation: dict[str, float] | None = None,
    renders: ReferenceRenders | None = None,
    only: Sequence[str] = (),
    inputs: VocoderInputs | None = None,
) -> ClipResult:
    """Measure one clip. Broken output of the package is a result; a broken reference is an
    InputError.

    `seed_variation` and `renders`: those of the fp32 model, where the caller has them already.
    `only`: these metrics, not all. `inputs`: the features that the package is given, if not the
    reference's own.
    """
    renders = renders or reference.of(utterance)
    test = subject.render(inputs or reference.inputs(utterance)).astype(np.float64)
    vowel = subject.render(reference.vowel_inputs(utterance)[0]).astype(np.float64)
    wrong = unlike(test, renders.reference) or unlike(vowel, renders.vowel)
    clock = reference.clock(inputs) if inputs and not wrong else None
    figures = {} if wrong else measure(renders.trial(test, vowel, clock), only)
    seconds = utterance.frames / FRAMES_PER_SECOND
    return ClipResult(
        utterance.id,
        utterance.voice,
        seconds,
        utterance.text,
        figures,
        seed_variation or renders.seed_variation(only),
        wrong,
    )


def unlike(signal: np.ndarray, reference: np.ndarray) -> str | None:
    """What makes a package's output no rendition of the reference, or None: a defect, another
    length.
    """
    if len(signal) != len(reference):
        return f"holds {len(signal)} samples, the reference {len(reference)}"
    return defect(signal)


def plain_decision(decision: Decision) -> dict[str, Any]:
    """A decision as plain data."""
    checks = [check_record(check) for check in decision.checks]
    return {
        "verdict": decision.verdict,
        "reasons": list(decision.reasons),
        "broken": list(decision.broken),
        "checks": checks,
    }


def check_record(check: Check) -> dict[str, Any]:
    """A check as plain data."""
    gate = check.gate
    kept = {
        "gate": gate.name,
        "value": check.value,
        "low": check.low,
        "high": check.high,
        "rule": gate.rule(check.limit),
    }
    return kept | {"state": check.state, "passed": check.passed, "reason": gate.reason}
