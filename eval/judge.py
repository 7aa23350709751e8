"""Measure what a subject renders of held-out clips, and compare the figures with the gates.

comparison = COMPARISONS[VOCODER](reference)
results = [judge_clip(comparison, VocoderSubject(reference, package), clip) for clip in clips]
decided("w8", results).decision.verdict
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from kokoro_ane.core.contract import DEVICE, FRAMES_PER_SECOND, NUMERIC
from kokoro_ane.eval.gates import FEWEST_VOICES, MEAN, WORST, Gate, gates_for
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.natural import MEASURED
from kokoro_ane.eval.renditions import Comparison, Natural, Subject
from kokoro_ane.eval.verdict import DEVICE_DOUBT, Check, Decision, Figures, decide, statistic
from kokoro_ane.quantize.corpus import Utterance


@dataclass(frozen=True)
class ClipResult:
    """Figures of one clip: the subject's, and the natural variation of the fp32 model. `defect`:
    why the subject gave no audio, or no prosody. `origin`: where the variation is from
    (eval/natural.py).
    """

    id: str
    voice: str
    seconds: float
    text: str
    figures: dict[str, float]
    variation: dict[str, float]
    defect: str | None = None
    origin: str = MEASURED


@dataclass(frozen=True)
class Judgement:
    """Every measured clip, and the decision over them."""

    method: str
    clips: tuple[ClipResult, ...]
    decision: Decision

    @property
    def figures(self) -> Figures:
        """The figures of the clips without defect."""
        return [clip.figures for clip in self.clips if clip.defect is None]

    @property
    def variation(self) -> Figures:
        """The natural variation of every clip."""
        return [clip.variation for clip in self.clips]

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Mean and worst of each metric that was measured or has a gate, for the subject and for
        the natural variation.
        """
        columns = {
            "mean": (MEAN, self.figures),
            "worst": (WORST, self.figures),
            "variation_mean": (MEAN, self.variation),
            "variation_worst": (WORST, self.variation),
        }
        names = {check.gate.metric for check in self.decision.checks}
        names |= set(self.figures[0]) if self.figures else set()
        return {
            name: {column: statistic(name, *source) for column, source in columns.items()}
            for name in METRICS
            if name in names
        }

    def record(self) -> dict[str, Any]:
        """Return the judgement as plain data."""
        return {
            "verdict": self.decision.verdict,
            "reasons": list(self.decision.reasons),
            "broken": list(self.decision.broken),
            "checks": [check_record(check) for check in self.decision.checks],
            "summary": self.summary(),
            "clips": [asdict(clip) for clip in self.clips],
        }


def judge_clip(
    comparison: Comparison,
    subject: Subject,
    clip: Utterance,
    variation: dict[str, float] | None = None,
    only: Sequence[str] = (),
) -> ClipResult:
    """Measure one clip. Broken output of the subject is a result; a broken reference is an
    InputError. `variation`: where the caller has it already. `only`: these metrics, not all.
    """
    rendition = subject.render(clip)
    defect, figures = comparison.defect(clip, rendition), dict[str, float]()
    if defect is None:
        figures = comparison.figures(clip, rendition, only)
        if not np.isfinite(list(figures.values())).all():
            defect, figures = "holds NaN or infinity", {}
    seconds = clip.frames / FRAMES_PER_SECOND
    natural = Natural(variation) if variation else comparison.natural(clip, only)
    return ClipResult(
        clip.id,
        clip.voice,
        seconds,
        clip.text,
        figures,
        natural.figures,
        defect,
        natural.origin,
    )


def decided(
    method: str,
    results: Sequence[ClipResult],
    claim: str = NUMERIC,
    defects: Sequence[str] = (),
    gates: Sequence[Gate] = (),
    stopped: str = "",
) -> Judgement:
    """The decision over measured clips. `defects`: what is wrong with the package, whatever its
    clips sound like. `gates`: where they are not those of a padded vocoder of that level.
    `stopped`: why there are not all clips, which the last reason says.
    """
    sound = [clip for clip in results if clip.defect is None]
    silent = [f"{clip.id}: the package's output {clip.defect}" for clip in results if clip.defect]
    voices, doubts = len({clip.voice for clip in results}), []
    if voices < FEWEST_VOICES:
        doubts.append(f"voices judged: {voices}, needed: at least {FEWEST_VOICES}")
    if claim == DEVICE:
        doubts.append(DEVICE_DOUBT)
    decision = decide(
        gates or gates_for(method),
        [clip.figures for clip in sound],
        [clip.variation for clip in sound],
        (*defects, *silent),
        doubts,
    )
    if stopped:
        decision = replace(decision, reasons=(*decision.reasons, stopped))
    return Judgement(method, tuple(results), decision)


def breaks(gates: Sequence[Gate], clip: ClipResult) -> bool:
    """Whether a clip alone makes every decision that it is part of a REJECT: it gave no audio, or
    breaks a gate on the worst clip whose limit no other clip moves.
    """
    if clip.defect is not None:
        return True
    return any(
        gate.margin(clip.figures[gate.metric], gate.limit) < 0
        for gate in gates
        if gate.statistic == WORST and gate.multiple is None and gate.metric in clip.figures
    )


def check_record(check: Check) -> dict[str, Any]:
    """Return a check as plain data."""
    return {
        "gate": check.gate.name,
        "value": check.value,
        "low": check.low,
        "high": check.high,
        "rule": check.gate.rule(check.limit),
        "state": check.state,
        "passed": check.passed,
        "reason": check.gate.reason,
    }
