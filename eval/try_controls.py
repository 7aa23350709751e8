"""Put known-bad models before the gates, and harmless changes.

    ControlTrials(Truth(checkpoint, seed=0), clips).caught(CONTROLS["wrong voice"]).broken

A control is rejected when a gate is broken: a worst clip by a fact, a mean only if its whole bootstrap interval is on the wrong side. How
many clips there are is not asked, since more clips can only add broken gates of the first kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.corpus import Utterance
from eval.corpus import Truth
from eval.faults import Control, Faults, KnownBad
from eval.gates import MEAN, gates_for
from eval.harmless import Harmless
from eval.judge import ClipResult, judge_clip
from eval.verdict import BROKEN, check, statistic

JUDGED_AS = "w8"  # the common gates, without what fp16 is held to


@dataclass(frozen=True)
class Caught:
    """What became of one control."""

    name: str
    broken: tuple[str, ...]
    pesq: float
    mcd_db: float

    @property
    def rejected(self) -> bool:
        """At least one gate is broken."""
        return bool(self.broken)


class ControlTrials:
    """Responsibilities: 1. the fp32 renders' own spread, measured once; 2. each control against the gates. `only`: these metrics."""

    def __init__(self, truth: Truth, clips: Sequence[Utterance], only: Sequence[str] = ()) -> None:
        self._truth, self._clips, self._only = truth, clips, only
        self._faults = Faults(truth.checkpoint, truth.vocoder, truth.seed)
        self._spoken = {clip.id: truth.of(clip) for clip in clips}
        self._seed_floor = {clip.id: self._spoken[clip.id].seed_floor(only) for clip in clips}

    def caught(self, control: Control | Harmless) -> Caught:
        """Judge one control. Of a harmless change the gates that may name it do not count."""
        changed = KnownBad(self._faults, control)
        results = [self._result(changed, clip) for clip in self._clips]
        silent = tuple(f"{result.id} {result.defect}" for result in results if result.defect)
        sound = [result for result in results if not result.defect]
        figures, seed_floor = [result.figures for result in sound], [result.seed_floor for result in sound]
        held = [gate for gate in gates_for(JUDGED_AS) if gate.metric != getattr(control, "named_by", None)]
        broken = tuple(gate.name for gate in held if check(gate, figures, seed_floor).state == BROKEN)
        found = {name: statistic(name, MEAN, figures) for name in ("pesq", "mcd_db")}
        mean = {name: float("nan") if value is None else value for name, value in found.items()}
        return Caught(control.name, silent + broken, mean["pesq"], mean["mcd_db"])

    def _result(self, changed: KnownBad, clip: Utterance) -> ClipResult:
        return judge_clip(self._truth, changed, clip, self._seed_floor[clip.id], self._spoken[clip.id], self._only)
