"""How far a long measurement is, and how long it will still take: a bar on a terminal, a line now and then in a log.

    with Progress(total=48) as progress:
        progress.step("w8")                  # one clip measured; found=True: it had been measured before

The time left counts only clips that are measured now, so a run that goes on after an interruption does not promise too much.
"""

import sys
import time
from contextlib import nullcontext
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

LOG_EVERY_S = 15.0


def in_words(seconds: float) -> str:
    """ "45 s", "3 min 20 s", "1 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class Progress:
    """Responsibilities: 1. count clips; 2. tell the time left. On stderr, and nothing is left of the bar when it ends."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.measured = total, 0, 0
        self.started = self.told = time.monotonic()
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
        self._bar = Bar(*columns, console=console, transient=True) if console.is_terminal else None
        self._task = self._bar.add_task("clips", total=total, left="") if self._bar else None

    def __enter__(self) -> Self:
        (self._bar or nullcontext()).__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        (self._bar or nullcontext()).__exit__(kind, problem, trace)

    @property
    def left(self) -> str:
        """The time left in words, from the clips that were measured in this run."""
        if not self.measured or self.done == self.total:
            return ""
        return f"{in_words((time.monotonic() - self.started) / self.measured * (self.total - self.done))} left"

    def step(self, name: str, clips: int = 1, found: bool = False) -> None:
        """So many clips of a level are done. `found`: they had been measured before."""
        self.done += clips
        self.measured += 0 if found else clips
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self.done, description=name, left=self.left)
        elif time.monotonic() - self.told >= LOG_EVERY_S and self.done < self.total:
            self.told = time.monotonic()
            print(f"{name}: {self.done} of {self.total} clips, {self.left}".rstrip(", "), file=sys.stderr)
