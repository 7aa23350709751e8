"""Figures of a run as it goes: time by stage, real-time factor, peak, seams; then a table and a JSON object.

    tally = Tally(clock); tally.add(speech); print_table(tally.report(), console)

Holds one chunk at a time: memory does not grow with the text.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from pipeline.conductor import STAGES, Speech
from pipeline.join import seam_db

if TYPE_CHECKING:
    from rich.console import Console


class Tally:
    """Responsibilities: 1. sum times and lengths; 2. measure each seam; 3. report."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock, self.started = clock, clock()
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.chunks = self.kept = self.turned_down = self.samples = self.spoken = self.phonemes = 0
        self.peak, self.lowest_gain, self.worst_seam_db = 0.0, 1.0, float("-inf")
        self.first_audio_s: float | None = None
        self._before: np.ndarray | None = None

    def add(self, speech: Speech) -> None:
        """The next chunk, after it was written."""
        if self.first_audio_s is None:
            self.first_audio_s = self.clock() - self.started
        for stage, spent in speech.seconds.items():
            self.seconds[stage] += spent
        if self._before is not None and len(speech.samples):  # the silence at the end has no seam
            self.worst_seam_db = max(self.worst_seam_db, seam_db(self._before, speech.samples, speech.pause))
        self._before = speech.samples
        self.chunks += 1
        self.kept += not speech.seconds
        self.turned_down += speech.gain < 1
        self.lowest_gain = min(self.lowest_gain, speech.gain)
        self.peak = max(self.peak, speech.peak)
        self.samples += speech.pause + len(speech.samples)
        self.spoken += len(speech.samples) if speech.seconds else 0
        self.phonemes += len(speech.chunk.phonemes)

    def report(self) -> dict[str, Any]:
        """JSON-ready. real_time_factor: seconds spent in all stages for each second of audio spoken in this run, below 1 = faster."""
        spoken_s, spent = self.spoken / SAMPLE_RATE_HZ, sum(self.seconds.values())
        seam = self.worst_seam_db if np.isfinite(self.worst_seam_db) else None
        return {
            "seconds_of_audio": round(self.samples / SAMPLE_RATE_HZ, 6),
            "chunks": self.chunks,
            "chunks_of_an_earlier_run": self.kept,
            "phonemes": self.phonemes,
            "seconds_by_stage": {stage: round(spent, 4) for stage, spent in self.seconds.items()},
            "real_time_factor": round(spent / spoken_s, 4) if spoken_s else None,
            "first_audio_s": round(self.first_audio_s, 4) if self.first_audio_s is not None else None,
            "peak_of_the_model": round(self.peak, 4),
            "chunks_turned_down": self.turned_down,
            "turned_down_db": round(20 * float(np.log10(self.lowest_gain)), 2),
            "worst_seam_db": None if seam is None else round(seam, 1),
        }


def print_table(report: dict[str, Any], title: str, console: "Console") -> None:
    """Stages with their share, then what is worth a line."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in ("stage", "seconds", "share", "times real time"):
        table.add_column(heading, justify="left" if heading == "stage" else "right")
    spent, factor = report["seconds_by_stage"], report["real_time_factor"]
    total = sum(spent.values())
    length = total / factor if factor else 0.0
    for stage, seconds in (*spent.items(), ("all", total)):
        share = f"{seconds / total:.0%}" if total else ""
        speed = f"{length / seconds:,.1f}" if seconds and length else ""
        table.add_row(stage, f"{seconds:.3f}", share, speed, end_section=stage == STAGES[-1])
    console.print(table)
    for line in lines(report):
        console.print(line, highlight=False)


def lines(report: dict[str, Any]) -> list[str]:
    """What the table does not hold, in words."""
    found = [f"{report['seconds_of_audio']:.2f} s of audio in {report['chunks']} chunk{'s' * (report['chunks'] != 1)}"]
    if report["chunks_of_an_earlier_run"]:
        found[0] += f", {report['chunks_of_an_earlier_run']} of them from an earlier run"
    if report["real_time_factor"] is not None:
        found.append(f"real-time factor {report['real_time_factor']:.3f}; first audio after {report['first_audio_s']:.2f} s")
    turned, down = report["chunks_turned_down"], report["turned_down_db"]
    clipping = f"{turned} chunks turned down, by {-down:.1f} dB at most" if turned else "nothing turned down"
    found.append(f"peak {report['peak_of_the_model']:.3f} of full scale: {clipping}; no sample clipped")
    if report["worst_seam_db"] is not None:
        found.append(f"loudest seam {report['worst_seam_db']:+.1f} dB against the voice's own frame-to-frame steps")
    if report.get("dropped"):
        found.append("left out: " + ", ".join(f"{count} {what}" for what, count in report["dropped"].items()))
    return found
