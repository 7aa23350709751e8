"""How far a judgement is, said while one waits: which level, how many of its clips, how long still.

    progress.begin("w8a8", done=0, unmeasured=clips, workers=2)
    progress.measured(clip, seconds)

The time left is the time that the workers need for the clips in the queue, each of which costs what
a second of speech has cost so far; opening models, which happens once, is no clip's time.
"""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from kokoro_ane.quantize.corpus import Utterance

LOG_EVERY_S = 15.0  # where stderr is no terminal
TOLD_FROM = 2  # clips, from which the time left is told
# What a clip costs whatever its length, in frames of speech: 40 are a second.
CLIP_FRAMES = 40


class TimeLeft:
    """Seconds until so many workers, who take the clips in turn, have measured the last one."""

    def __init__(self, clips: Sequence[Utterance], workers: int) -> None:
        self._cost = {clip.id: clip.frames + CLIP_FRAMES for clip in clips}
        self._workers = workers
        self._rates: list[tuple[float, float]] = []  # seconds and cost of each clip that is done

    def measured(self, clip: Utterance, seconds: float) -> float | None:
        """A clip is done, after so many seconds; returns the seconds that are left, None before two
        clips are done.
        """
        self._rates.append((seconds, self._cost.pop(clip.id)))
        if len(self._rates) < TOLD_FROM:
            return None
        # A worker's first clip opens what only measuring needs: it counts until others can.
        later = self._rates[self._workers :]
        rates = later if len(later) >= TOLD_FROM else self._rates
        rate = sum(seconds for seconds, _ in rates) / sum(cost for _, cost in rates)
        # The clip that was done last has just been followed by another; those of the other workers
        # are half done on average.
        costs = list(self._cost.values())
        open_work = sum(costs) - sum(costs[: self._workers - 1]) / 2
        share = max(1, min(self._workers, len(costs)))
        return rate * open_work / share


def in_words(seconds: float | None) -> str:
    """How long still, as one would say it."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f", about {max(5, 5 * round(seconds / 5))} s left"
    return f", about {round(seconds / 60)} min left"


class Progress(Bar):
    """Clips of the level in work, on stderr: a bar with the time left, of which nothing remains
    when it ends; a line every 15 s where stderr is no terminal.
    """

    def __init__(self) -> None:
        columns = TextColumn("measuring {task.description}"), BarColumn(), MofNCompleteColumn()
        waiting, console = TextColumn("clips{task.fields[left]}"), Console(stderr=True)
        super().__init__(
            *(*columns, waiting),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.logged = time.monotonic()

    def begin(self, name: str, done: int, unmeasured: Sequence[Utterance], workers: int) -> None:
        """Show a level instead of the last one, how many of its clips were measured before, and
        those that are now, in their order.
        """
        for level in self.task_ids:
            self.remove_task(level)
        self.time_left = TimeLeft(unmeasured, workers)
        self.add_task(name, completed=done, total=done + len(unmeasured), left="")

    def measured(self, clip: Utterance, seconds: float) -> None:
        """Count one clip, which took so long."""
        (level,) = self.tasks
        self.update(level.id, advance=1, left=in_words(self.time_left.measured(clip, seconds)))
        if self.disable and time.monotonic() - self.logged >= LOG_EVERY_S and not level.finished:
            self.logged = time.monotonic()
            left = level.fields["left"]
            line = f"{level.description}: {level.completed} of {level.total} clips{left}"
            print(line, file=sys.stderr)
