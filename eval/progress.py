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
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.text import Text

from kokoro_ane.quantize.corpus import Utterance

LOG_EVERY_S = 15.0  # where stderr is no terminal
TOLD_FROM = 2  # clips, from which the time left is told
# What a clip costs whatever its length, in frames of speech: 40 are a second.
CLIP_FRAMES = 40


class TimeLeft:
    """Seconds until so many workers, who take the clips in turn, have measured the last one."""

    def __init__(self, clips: Sequence[Utterance], workers: int) -> None:
        self._cost = {clip.id: clip.frames + CLIP_FRAMES for clip in clips}
        self._workers, self._last_s = workers, 0.0
        self._rates: list[tuple[float, float]] = []  # seconds and cost of each clip that is done

    def measured(self, clip: Utterance, seconds: float, now_s: float) -> None:
        """A clip is done at `now_s`, after so many seconds."""
        self._rates.append((seconds, self._cost.pop(clip.id)))
        self._last_s = now_s

    def seconds(self, now_s: float) -> float | None:
        """From `now_s` on; None before two clips are done."""
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
        return max(0.0, rate * open_work / share - (now_s - self._last_s))


def in_words(seconds: float | None) -> str:
    """How long still, as one would say it."""
    if seconds is None:
        return ""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s left"
    return f"about {round(seconds / 60)} min left"


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(in_words(task.fields["left"].seconds(time.monotonic())))


class Progress(Bar):
    """Clips of the level in work, on stderr: a bar with the time left, of which nothing remains
    when it ends; a line every 15 s where stderr is no terminal.
    """

    def __init__(self) -> None:
        columns = TextColumn("measuring {task.description}"), BarColumn(), MofNCompleteColumn()
        console = Console(stderr=True)
        clips = TextColumn("clips")
        super().__init__(
            *(*columns, clips, _Left()),
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
        left = TimeLeft(unmeasured, workers)
        self.add_task(name, completed=done, total=done + len(unmeasured), left=left)

    def measured(self, clip: Utterance, seconds: float) -> None:
        """Count one clip, which took so long."""
        (level,) = self.tasks
        left, now_s = level.fields["left"], time.monotonic()
        left.measured(clip, seconds, now_s)
        self.advance(level.id)
        if self.disable and now_s - self.logged >= LOG_EVERY_S and not level.finished:
            self.logged = now_s
            line = f"{level.description}: {level.completed} of {level.total} clips"
            waiting = in_words(left.seconds(now_s))
            print(f"{line}, {waiting}" if waiting else line, file=sys.stderr)
