"""The limits a level must keep to be released, each with its reason, and the verdict they give. Set before any result was seen.

    decision = decide(gates_for("w8"), results)
    decision.verdict, decision.broken

Change a limit only with a new reason, never because a level missed it. docs/metrics.md holds the same table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from eval.metrics.registry import HIGHER, METRICS, ZERO

SHIP, REJECT, UNDECIDED = "SHIP", "REJECT", "UNDECIDED"
MEAN, WORST = "mean", "worst"  # over clips
FEWEST_CLIPS = 12
Figures = Sequence[Mapping[str, float]]  # one mapping of metric to value per clip


@dataclass(frozen=True)
class Gate:
    """One limit on one statistic of one metric. `in_redraws`: the limit is a multiple of what another noise seed does to the fp32 model."""

    metric: str
    statistic: str
    limit: float
    reason: str
    in_redraws: bool = False

    @property
    def name(self) -> str:
        """For tables and JSON: "pesq mean"."""
        return f"{self.metric} {self.statistic}"

    def keeps(self, value: float, limit: float) -> bool:
        """Whether `value` is on the good side of `limit`."""
        best = METRICS[self.metric].best
        return value >= limit if best == HIGHER else (abs(value) if best == ZERO else value) <= limit

    def rule(self, limit: float) -> str:
        """The rule in words: ">= 4", "within 0.5"."""
        best = METRICS[self.metric].best
        return f"{'>=' if best == HIGHER else 'within' if best == ZERO else '<='} {limit:.4g}"


_BAND_REASON = "PESQ forgives a missing band (4.37 for a 4 kHz low-pass of one recording); a noise redraw moves a band by 0.3 dB"
COMMON = (
    Gate("pesq", MEAN, 4.0, "the user's guide asks for PESQ above 4.0"),
    Gate("pesq", WORST, 3.8, "one bad sentence is heard: 40 dB of speech-correlated noise scores 3.87 on this model"),
    Gate("mcd_increase_db", MEAN, 0.5, "the user's guide asks for an MCD increase below 0.5 dB"),
    Gate("mcd_db", MEAN, 1.0, "an error smaller than what another noise seed does is inside the model's own spread", in_redraws=True),
    Gate("lsd_db", MEAN, 1.0, "the same on a linear frequency axis, which does not forgive the high bands", in_redraws=True),
    Gate("level_db", WORST, 0.5, "PESQ and MCD are blind to gain; 1 dB between sentences is just noticeable, half is left to other stages"),
    *(Gate(f"band_{band}_khz_db", WORST, 1.0, _BAND_REASON) for band in ("0_2", "2_4", "4_8", "8_12")),
    Gate("jump_db", WORST, 10.0, "5 ms that lose or gain 10 dB are a dropout or click, which PESQ and MCD average away; a redraw has less"),
    Gate("clipping_percent", WORST, 0.01, "PESQ and MCD forgive flat tops; 14 samples of 6 s, over four times what a redraw changes"),
    Gate("lag_samples", WORST, 0.0, "durations and noise are injected: any delay is an error of the graph, whatever it sounds like"),
)
FP16_ONLY = (
    Gate("snr_db", MEAN, 45.0, "fp16 is the yardstick for all other levels; published fp16 builds of this vocoder reach 46 to 50 dB"),
    Gate("pesq", MEAN, 4.5, "a format change alone must be as near as another noise seed of a trained voice (4.4 to 4.6)"),
)
EXTRA = MappingProxyType({"fp16": FP16_ONLY})  # by method; all others have the common gates only


def gates_for(method: str) -> tuple[Gate, ...]:
    """The gates of a compression method: the common ones, tightened where EXTRA has the same metric and statistic."""
    extra = EXTRA.get(method, ())
    return tuple(gate for gate in COMMON if gate.name not in {e.name for e in extra}) + extra


@dataclass(frozen=True)
class Check:
    """A gate held against a figure. `value` is None when the metric was not measured: that is never a pass."""

    gate: Gate
    value: float | None
    limit: float

    @property
    def passed(self) -> bool:
        """False for a missing figure too."""
        return self.value is not None and self.gate.keeps(self.value, self.limit)

    def complaint(self) -> str:
        """What was missed, by how much, and why that matters."""
        return f"{self.gate.name} is {self.value:.4g}, limit {self.gate.rule(self.limit)}: {self.gate.reason}"


@dataclass(frozen=True)
class Decision:
    """SHIP, REJECT or UNDECIDED, with every check and the reasons in words."""

    verdict: str
    checks: tuple[Check, ...]
    reasons: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the gates that were measured and missed."""
        return tuple(check.gate.name for check in self.checks if check.value is not None and not check.passed)


def statistic(metric: str, kind: str, clips: Figures) -> float | None:
    """Mean or worst of a metric over the clips' figures; None when a clip lacks it or there is no clip."""
    values = [clip[metric] for clip in clips if metric in clip]
    if not values or len(values) != len(clips):
        return None
    return float(METRICS[metric].worst(values)) if kind == WORST else float(sum(values) / len(values))


def decide(gates: Sequence[Gate], clips: Figures, floor: Figures, defects: Sequence[str] = ()) -> Decision:
    """Hold the clips' figures against the gates. `floor`: the same figures for another noise seed; `defects`: clips that gave no audio.

    Too few clips or a figure that is missing gives UNDECIDED; a missed gate or a defect gives REJECT.
    """
    checks = tuple(_check(gate, clips, floor) for gate in gates)
    missed = tuple(check.complaint() for check in checks if check.value is not None and not check.passed)
    missing = tuple(f"{check.gate.name} was not measured" for check in checks if check.value is None)
    heard = len(clips) + len(defects)
    if heard < FEWEST_CLIPS:
        return Decision(UNDECIDED, checks, (f"clips judged: {heard}, needed: at least {FEWEST_CLIPS}", *defects, *missed))
    if defects or missed:
        return Decision(REJECT, checks, (*defects, *missed))
    return Decision(UNDECIDED, checks, missing) if missing else Decision(SHIP, checks, ("every gate holds",))


def _check(gate: Gate, clips: Figures, floor: Figures) -> Check:
    value, scale = statistic(gate.metric, gate.statistic, clips), 1.0
    if gate.in_redraws:
        scale = statistic(gate.metric, gate.statistic, floor)
    return Check(gate, None if scale is None else value, gate.limit * (scale or 0.0))
