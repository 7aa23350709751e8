"""Measure a package on held-out clips and hold the figures against the gates.

    judgement = judge(Renderer(checkpoint, package, seed=0), clips, "w8")
    judgement.decision.verdict
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eval.corpus import Renderer, Renders
from eval.gates import MEAN, WORST, Check, Decision, Figures, decide, gates_for, statistic
from eval.metrics.registry import METRICS, measure
from eval.metrics.trial import Trial, defect
from pipeline.contract import FRAMES_PER_SECOND
from pipeline.demo.data import Utterance


@dataclass(frozen=True)
class ClipResult:
    """Figures of one clip: the package's, and those of the fp32 model under another seed. `defect` when the package gave no audio."""

    id: str
    voice: str
    seconds: float
    text: str
    figures: dict[str, float]
    floor: dict[str, float]
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
    def floor(self) -> Figures:
        """The redraw's figures of every clip."""
        return [clip.floor for clip in self.clips]

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Mean and worst of each metric, for the package and for the redraw."""
        test, redraw = self.figures, self.floor
        columns = {"mean": (MEAN, test), "worst": (WORST, test), "redraw_mean": (MEAN, redraw), "redraw_worst": (WORST, redraw)}
        return {name: {column: statistic(name, *source) for column, source in columns.items()} for name in METRICS}


def judge(renderer: Renderer, utterances: Iterable[Utterance], method: str) -> Judgement:
    """Render, measure, decide."""
    results = tuple(judge_clip(utterance, renderer.render(utterance)) for utterance in utterances)
    return decided(method, results)


def decided(method: str, results: Sequence[ClipResult]) -> Judgement:
    """The decision over measured clips."""
    figures = [clip.figures for clip in results if clip.defect is None]
    defects = [f"{clip.id}: the package's output {clip.defect}" for clip in results if clip.defect]
    return Judgement(method, tuple(results), decide(gates_for(method), figures, [clip.floor for clip in results], defects))


def judge_clip(utterance: Utterance, renders: Renders) -> ClipResult:
    """Measure one clip. Broken output of the package is a result; a broken reference is an InputError."""
    floor = measure(Trial(renders.reference, renders.redraw))
    wrong = defect(renders.test)
    figures = {} if wrong else measure(Trial(renders.reference, renders.test, renders.redraw))
    return ClipResult(utterance.id, utterance.voice, utterance.frames / FRAMES_PER_SECOND, utterance.text, figures, floor, wrong)


def check_record(check: Check) -> dict[str, Any]:
    """A check as plain data."""
    gate = check.gate
    return {"gate": gate.name, "value": check.value, "rule": gate.rule(check.limit), "passed": check.passed, "reason": gate.reason}
