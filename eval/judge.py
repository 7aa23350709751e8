"""Figures of clips compared with the gates: SHIP, REJECT, or UNDECIDED when the clips cannot tell.
Nothing is measured here.

    results = [judge_clip(comparison, subject, clip) for clip in clips]
    judge_results(select_gates("w8"), results).verdict

A mean is an estimate: its gate holds, or is broken, only when the whole 95 % bootstrap interval
over clips (seeded) lies on one side of the limit. A worst clip is a fact: it breaks its gate by
itself, however few clips there are.

A mean over all clips hides where a level errs. So means are also held to their limits over each
voice's clips, and a vocoder's over the clips that are longer than LONG_S, whose statistics the
default layout predicts. The few clips of a voice can reject a level, and never ship one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import t as student

from kokoro_ane.core import DEVICE, FRAMES_PER_SECOND, NUMERIC
from kokoro_ane.eval.execution import ClipResult
from kokoro_ane.eval.gates import FEWEST_CLIPS, FEWEST_VOICES, MEAN, WORST, Gate
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.vocoder import MEASURED
from kokoro_g2p import voice_language

SHIP, REJECT, UNDECIDED = ("SHIP", "REJECT", "UNDECIDED")
DEVICE_DOUBT = (
    "a device claim needs a run on that device: what was executed here is mlprogram's model of one"
)
HOLDS, BROKEN, STRADDLES, MISSING = "holds", "broken", "straddles", "missing"
RESAMPLES, CONFIDENCE, BOOTSTRAP_SEED = 2000, 0.95, 0
LONG_S = MEASURED / FRAMES_PER_SECOND
# ends of the groups that a corpus is told by
LENGTHS_S = (2.0, LONG_S, 8.0, 12.0, np.inf)
FEWEST_FOR_A_MEAN = 3  # clips from which a mean can be certainly too bad
# what a recognizer heard, which knows English: of other languages it hears as many other words with
# another noise seed
WORDS = ("words_changed", "word_errors_added")
ENGLISH = ("us", "gb")
Figures = Sequence[Mapping[str, float]]  # one mapping of metric to value per clip


def is_rejected(gates: Sequence[Gate], clip: ClipResult) -> bool:
    """Whether a clip alone leads to REJECT, whatever the other clips are: it gave no audio, or it
    breaks a gate on the worst clip whose limit does not depend on other clips.
    """
    if clip.defect is not None:
        return True
    # A mean waits for all clips, and so does a limit in natural variations.
    return any(
        gate.compute_margin(clip.figures[gate.metric], gate.limit) < 0
        for gate in gates
        if gate.statistic == WORST and gate.multiple is None and gate.metric in clip.figures
    )


@dataclass(frozen=True)
class GateResult:
    """A gate compared with a figure. `low`, `high`: the interval of a mean. `value` is None when
    the metric was not measured. `of`: the subset of the clips, "" for all.
    """

    gate: Gate
    value: float | None
    limit: float
    state: str
    low: float | None = None
    high: float | None = None
    of: str = ""

    def explain(self) -> str:
        """Return what was missed or is not certain, by how much, and why it matters."""
        if self.state == MISSING:
            return f"{self.gate.name} was not measured"
        span = near = ""
        if self.low is not None and self.low != self.high:
            span = f" ({self.low:.4g} to {self.high:.4g})"
        if self.state == STRADDLES:
            moves = ", with which the limit moves too" if self.gate.multiple is not None else ""
            near = f", too near to tell with these clips{moves}"
        of = f"{self.of}: " if self.of else ""
        return (
            f"{of}{self.gate.name} is {self.value:.4g}{span},"
            f" limit {self.gate.describe_rule(self.limit)}{near}: {self.gate.reason}"
        )


@dataclass(frozen=True)
class Subset:
    """Some of the clips, whose means are held to the limits by themselves. `figures`, `variation`:
    of its clips. confidence: of its intervals. ship: whether a mean that is too near its
    limit leaves the verdict open; else only a broken one counts.
    """

    name: str
    figures: "Figures"
    variation: "Figures"
    confidence: float
    ship: bool
    unheard: Sequence[str] = ()

    def check_means(self, gates: Sequence[Gate], state: str) -> "list[GateResult]":
        """The means that have this state."""
        found = (
            replace(check(gate, self.figures, self.variation, self.confidence), of=self.name)
            for gate in gates
            if gate.statistic == MEAN and len(self.figures) >= FEWEST_FOR_A_MEAN
            if gate.metric not in self.unheard
        )
        return [one for one in found if one.state == state]

    def compute_means(self, gates: Sequence[Gate]) -> dict[str, float | None]:
        """The means that have a limit, by metric."""
        metrics = [gate.metric for gate in gates if gate.statistic == MEAN]
        return {metric: compute_statistic(metric, MEAN, self.figures) for metric in metrics}


@dataclass(frozen=True)
class Judgement:
    """SHIP, REJECT or UNDECIDED, with every check, the reasons in words and every measured clip.
    subsets: the means of subsets of the clips, by the subset's name. by_limit: where
    nothing else is open, the means whose limit moves with the natural variation.
    """

    verdict: str
    checks: tuple[GateResult, ...]
    reasons: tuple[str, ...]
    clips: tuple[ClipResult, ...] = ()
    subsets: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    by_limit: tuple[GateResult, ...] = ()

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the gates that were measured and missed."""
        return tuple(check.gate.name for check in self.checks if check.state == BROKEN)

    def compute_summary(self) -> dict[str, dict[str, float | None]]:
        """Mean and worst of each metric that was measured or has a gate, for the subject and for
        the natural variation.
        """
        figures = [clip.figures for clip in self.clips if clip.defect is None]
        variation = [clip.variation for clip in self.clips]
        names = {check.gate.metric for check in self.checks}
        names |= set(figures[0]) if figures else set()
        return {
            name: {
                f"{prefix}{kind}": compute_statistic(name, kind, clips)
                for prefix, clips in (("", figures), ("variation_", variation))
                for kind in (MEAN, WORST)
            }
            for name in METRICS
            if name in names
        }

    def record(self) -> dict[str, Any]:
        """Return the judgement as plain data."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "broken": list(self.broken),
            "checks": [
                {
                    "gate": check.gate.name,
                    "value": check.value,
                    "low": check.low,
                    "high": check.high,
                    "rule": check.gate.describe_rule(check.limit),
                    "moves": check.gate.multiple is not None,
                    "state": check.state,
                    "reason": check.gate.reason,
                }
                for check in self.checks
            ],
            "summary": self.compute_summary(),
            "means_of": {name: dict(means) for name, means in self.subsets.items()},
            "clips": [asdict(clip) for clip in self.clips],
        }


def compute_statistic(metric: str, kind: str, clips: Figures) -> float | None:
    """Mean or worst of a metric over the clips' figures; None when a clip lacks it or there is no
    clip.

    In a natural variation the worst over clips is that of the worst neighbours ("NAME worst").
    """
    name = f"{metric} {WORST}"
    values = [
        clip[name] if kind == WORST and name in clip else clip[metric]
        for clip in clips
        if metric in clip
    ]
    if not values or len(values) != len(clips):
        return None
    return float(METRICS[metric].worst(values) if kind == WORST else sum(values) / len(values))


def estimate_interval(
    values: Sequence[float], confidence: float = CONFIDENCE, seed: int = BOOTSTRAP_SEED
) -> tuple[float, float]:
    """Interval of a mean: percentile bootstrap (Efron 1979), the same seed gives the same
    interval.

    Fewer than FEWEST_CLIPS values are hardly resampled: the interval is then at least Student's.
    """
    # Equal figures have no spread: resampling would only round them.
    sample = np.asarray(values, dtype=np.float64)
    if np.ptp(sample) == 0:
        return float(sample[0]), float(sample[0])
    # [2000, clips]: which clips each resample holds
    drawn = np.random.default_rng(seed).integers(0, len(sample), (RESAMPLES, len(sample)))
    # A two-sided interval: half of the doubt lies beyond each end.
    tails = (50 * (1 - confidence), 50 * (1 + confidence))  # percentiles
    low, high = np.percentile(sample[drawn].mean(axis=1), tails)
    if len(sample) < FEWEST_CLIPS:
        # Of few clips a bootstrap is too narrow: it only draws what was seen.
        half = float(
            student.ppf((1 + confidence) / 2, len(sample) - 1)
            * sample.std(ddof=1)
            / np.sqrt(len(sample))
        )
        low = min(low, sample.mean() - half)
        high = max(high, sample.mean() + half)
    return float(low), float(high)


def decide(
    gates: Sequence[Gate],
    clips: Figures,
    variation: Figures,
    defects: Sequence[str] = (),
    doubts: Sequence[str] = (),
    subsets: Sequence[Subset] = (),
) -> Judgement:
    """Compare the clips' figures with the gates.

    `variation`: the natural variation of the same clips. `defects`: clips that gave no audio.
    `doubts`: what else forbids a SHIP. `subsets`: of the clips, whose means count by themselves. A
    gate that is certainly broken or a defect gives REJECT, however few clips there are; a missing
    figure, a mean too near its limit, few clips or a doubt gives UNDECIDED.
    """
    checks = tuple(check(gate, clips, variation) for gate in gates)
    broken = [
        c.explain()
        for c in checks
        if c.state == BROKEN and (c.gate.statistic == WORST or len(clips) >= FEWEST_FOR_A_MEAN)
    ]
    broken += [c.explain() for subset in subsets for c in subset.check_means(gates, BROKEN)]
    # They are told beside every verdict, also where nothing is broken.
    means = {subset.name: subset.compute_means(gates) for subset in subsets}
    if defects or broken:
        return Judgement(REJECT, checks, (*defects, *broken), subsets=means)
    # BROKEN too: of very few clips a broken mean is no certain one.
    undecided = [c for c in checks if c.state in (MISSING, STRADDLES, BROKEN)]
    for subset in subsets:
        undecided += subset.check_means(gates, STRADDLES) if subset.ship else []
    reasons = (*(c.explain() for c in undecided), *doubts)
    if len(clips) < FEWEST_CLIPS:
        reasons = (f"clips judged: {len(clips)}, needed: at least {FEWEST_CLIPS}", *reasons)
    if reasons:
        moving = [c for c in undecided if c.state == STRADDLES and c.gate.multiple is not None]
        by_limit = tuple(moving) if len(moving) == len(reasons) else ()
        return Judgement(UNDECIDED, checks, reasons, subsets=means, by_limit=by_limit)
    return Judgement(SHIP, checks, ("every gate holds",), subsets=means)


def check(
    gate: Gate, clips: Figures, variation: Figures, confidence: float = CONFIDENCE
) -> GateResult:
    """Compare the figures with one gate. A limit in natural variations is resampled together with
    the variation of the same clips.
    """
    value = compute_statistic(gate.metric, gate.statistic, clips)
    natural = None
    if gate.multiple is not None:
        natural = compute_statistic(gate.metric, gate.statistic, variation)
    limit = gate.compute_limit(natural)
    # Without the variation of every clip a limit in multiples of it has no value.
    unscaled = gate.multiple is not None and (natural is None or len(variation) != len(clips))
    if value is None or unscaled:
        return GateResult(gate, None, limit, MISSING)
    if gate.statistic == WORST:
        return GateResult(
            gate, value, limit, HOLDS if gate.compute_margin(value, limit) >= 0 else BROKEN
        )
    # The smaller of two limits holds, so the smaller of two margins counts.
    values = [clip[gate.metric] for clip in clips]
    margins = [
        estimate_interval([gate.compute_margin(value, gate.limit) for value in values], confidence)
    ]
    if gate.multiple is not None:
        limits = [gate.multiple * clip[gate.metric] for clip in variation]
        pairs = zip(values, limits, strict=True)
        # Clip by clip: a clip and its own variation are resampled together.
        scaled = [gate.compute_margin(value, limit) for value, limit in pairs]
        margins.append(estimate_interval(scaled, confidence))
    state = STRADDLES
    if min(low for low, _ in margins) >= 0:
        state = HOLDS
    elif min(high for _, high in margins) < 0:
        state = BROKEN
    return GateResult(gate, value, limit, state, *estimate_interval(values, confidence))


def select_subsets(clips: Sequence[ClipResult], predicted: bool) -> list[Subset]:
    """The long clips, where their statistics may be predicted, and those of each voice. Of many
    voices one would miss a limit by chance: their intervals are as much wider as there are voices.
    """
    voices = sorted({clip.voice for clip in clips})

    def make_subset(
        name: str, chosen: Sequence[ClipResult], confidence: float, ship: bool
    ) -> Subset:
        figures = [clip.figures for clip in chosen]
        is_english = any(voice_language(clip.voice) in ENGLISH for clip in chosen)
        variation = [clip.variation for clip in chosen]
        return Subset(name, figures, variation, confidence, ship, () if is_english else WORDS)

    subsets = []
    if predicted:
        long = [clip for clip in clips if clip.seconds > LONG_S]
        subsets.append(make_subset(f"clips longer than {LONG_S:g} s", long, CONFIDENCE, True))
    # Bonferroni: over all voices together the doubt stays that of one interval.
    each = 1 - (1 - CONFIDENCE) / max(len(voices), 1)
    for voice in voices:
        own = [clip for clip in clips if clip.voice == voice]
        subsets.append(make_subset(f"voice {voice}", own, each, False))
    return subsets


def list_groups(gates: Sequence[Gate], clips: Sequence[ClipResult]) -> list[dict[str, Any]]:
    """The figures of a corpus by voice and by length: of each group its clips, how many of them
    break a gate by themselves, and of each metric with a gate the mean, the worst and the mean of
    the natural variation.
    """
    groups: dict[tuple[str, str], list[ClipResult]] = {}
    for clip in sorted(clips, key=lambda clip: clip.voice):
        groups.setdefault(("voice", clip.voice), []).append(clip)
    for least, most in pairwise((0.0, *LENGTHS_S)):
        name = f"{least:g} to {most:g} s" if most < np.inf else f"over {least:g} s"
        within = [clip for clip in clips if least < clip.seconds <= most]
        if within:
            groups["length", name] = within
    rows = []
    for (kind, name), members in groups.items():
        broken = sum(is_rejected(gates, clip) for clip in members)
        sound = [clip for clip in members if clip.defect is None]
        summary = Judgement("", (), (), tuple(sound)).compute_summary()
        row = {"by": kind, "name": name, "clips": len(members), "broken": broken}
        rows.append(row | {"summary": summary})
    return rows


def judge_results(
    gates: Sequence[Gate],
    results: Sequence[ClipResult],
    claim: str = NUMERIC,
    defects: Sequence[str] = (),
    stopped: str = "",
    predicted: bool = True,
) -> Judgement:
    """Compare measured clips with the gates. `defects`: what is wrong with the package, whatever
    its clips sound like. `stopped`: why there are not all clips, which the last reason says.
    `predicted`: whether it may predict the statistics of long clips, as a vocoder does.
    """
    # A clip without audio has no figures, and rejects by itself.
    sound = [clip for clip in results if clip.defect is None]
    silent = [f"{clip.id}: the package's output {clip.defect}" for clip in results if clip.defect]
    voices = len({clip.voice for clip in results})
    doubts = []
    if voices < FEWEST_VOICES:
        doubts.append(f"voices judged: {voices}, needed: at least {FEWEST_VOICES}")
    if claim == DEVICE:
        doubts.append(DEVICE_DOUBT)
    judgement = decide(
        gates,
        [clip.figures for clip in sound],
        [clip.variation for clip in sound],
        (*defects, *silent),
        doubts,
        select_subsets(sound, predicted),
    )
    reasons = (*judgement.reasons, *([stopped] if stopped else []))
    return replace(judgement, reasons=reasons, clips=tuple(results))
