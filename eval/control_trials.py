"""Controls: what must be rejected or must pass, judged as if it were a level.

trials = ControlTrials(Setting(reference, clips))
trials.outcome(control).right
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_ane.eval import VOCODER
from kokoro_ane.eval.execution import judge_clip
from kokoro_ane.eval.gates import FEWEST_CLIPS, gates_for
from kokoro_ane.eval.judge import SHIP, Judgement, decided
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import COMPARISONS, Subject
from kokoro_ane.quantize.corpus import Utterance

JUDGED_AS = "w8"  # the vocoder's common gates, without those that fp16 has beside them


@dataclass(frozen=True)
class Setting:
    """What controls are made from. `build`: the folder with the packages of a product."""

    reference: Reference
    clips: Sequence[Utterance]
    build: Path = Path("build")


@dataclass(frozen=True)
class Control:
    """A known error, which must be rejected, or a change that nobody hears, which must pass.

    `subject` makes what is judged; None where its packages are not built. `metric`: what is
    expected to catch the error; of a harmless change, the metric that may name it, where the graph
    is wrong. `why`: where the error was seen, or why the change does no harm.
    """

    name: str
    subject: Callable[[Setting], Subject | None]
    why: str
    metric: str = ""
    rejected: bool = True


@dataclass(frozen=True)
class Outcome:
    """How one control was judged."""

    control: Control
    judgement: Judgement

    @property
    def broken(self) -> tuple[str, ...]:
        """Clips without output, and gates that are broken."""
        silent = (f"{clip.id} {clip.defect}" for clip in self.judgement.clips if clip.defect)
        return (*silent, *self.judgement.decision.broken)

    @property
    def right(self) -> bool:
        """An error breaks a gate; what is harmless breaks none, and ships where there are clips
        enough for that.
        """
        if self.control.rejected or len(self.judgement.clips) < FEWEST_CLIPS:
            return bool(self.broken) == self.control.rejected
        return self.judgement.decision.verdict == SHIP

    def record(self) -> dict[str, Any]:
        """The outcome as plain data, with the figures that limits in variations are chosen by."""
        decision, summary = self.judgement.decision, self.judgement.summary()
        scaled = [check.gate.metric for check in decision.checks if check.gate.multiple is not None]
        return {
            "name": self.control.name,
            "right": self.right,
            "verdict": decision.verdict,
            "broken": list(self.broken),
            "figures": {name: summary[name] for name in scaled},
        }


class ControlTrials:
    """Responsibilities: 1. the natural variation of every clip, measured once; 2. each control
    against the gates of its stage. `only`: these metrics.
    """

    def __init__(self, setting: Setting, stage: str = VOCODER, only: Sequence[str] = ()) -> None:
        self._setting, self._stage, self._only = setting, stage, only
        self._comparison = COMPARISONS[stage](setting.reference)
        self._variations = {
            clip.id: self._comparison.natural(clip, only).figures for clip in setting.clips
        }

    def outcome(self, control: Control) -> Outcome | None:
        """Judge one control; None where its packages are not built. Of a harmless change the gates
        that may name it do not count.
        """
        subject = control.subject(self._setting)
        if subject is None:
            return None
        results = [
            judge_clip(self._comparison, subject, clip, self._variations[clip.id], self._only)
            for clip in self._setting.clips
        ]
        gates = gates_for(JUDGED_AS, stage=self._stage)
        if not control.rejected:
            gates = tuple(gate for gate in gates if gate.metric != control.metric)
        return Outcome(control, decided(control.name, results, gates=gates))
