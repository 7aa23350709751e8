"""How far a judgement is, said while one waits: which level, how many of its clips, how long still.

    progress.begin("w8a8", done=0, unmeasured=clips, workers=2)
    progress.measured(clip, seconds)

The time left is the time that the workers need for the clips in the queue, each of which costs what
a second of speech has cost so far; opening models, which happens once, is no clip's time.
"""

import heapq
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
    """Seconds until a queue is empty that so many workers take in turn."""

    def __init__(self, frames: Sequence[int], workers: int) -> None:
        """`frames`: the length of each clip, in the order in which they are begun."""
        self._cost = [count + CLIP_FRAMES for count in frames]
        self._workers = max(1, workers)
        self._queue = list(range(len(frames)))
        # When each clip in work was begun; of the first ones nobody knows before one is done.
        self._begun: dict[int, float | None] = {}
        self._rates: list[tuple[float, float]] = []  # seconds and cost of each clip that is done
        for _ in range(min(self._workers, len(frames))):
            self._begun[self._queue.pop(0)] = None

    def measured(self, place: int, seconds: float, now_s: float) -> None:
        """Clip number `place` is done at `now_s`, after so many seconds."""
        self._rates.append((seconds, self._cost[place]))
        for other, begun in self._begun.items():
            # The workers began together, so those that are not done began with this one.
            self._begun[other] = now_s - seconds if begun is None else begun
        self._begun.pop(place, None)
        if self._queue:
            self._begun[self._queue.pop(0)] = now_s

    def seconds(self, now_s: float) -> float | None:
        """From `now_s` on; None before two clips are done."""
        if len(self._rates) < TOLD_FROM:
            return None
        # A worker's first clip opens what only measuring needs: it counts until others can.
        later = self._rates[self._workers :]
        rates = later if len(later) >= TOLD_FROM else self._rates
        rate = sum(seconds for seconds, _ in rates) / sum(cost for _, cost in rates)
        free = [
            max(0.0, rate * self._cost[place] - (now_s - (begun or now_s)))
            for place, begun in self._begun.items()
        ]
        # The next clip goes to whoever is free first.
        heapq.heapify(free)
        for place in self._queue:
            heapq.heapreplace(free, free[0] + rate * self._cost[place])
        return max(free, default=0.0)


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
        left = TimeLeft([clip.frames for clip in unmeasured], workers)
        places = {clip.id: place for place, clip in enumerate(unmeasured)}
        total = done + len(unmeasured)
        self.add_task(name, completed=done, total=total, left=left, places=places)

    def measured(self, clip: Utterance, seconds: float) -> None:
        """Count one clip, which took so long."""
        (level,) = self.tasks
        left, now_s = level.fields["left"], time.monotonic()
        left.measured(level.fields["places"][clip.id], seconds, now_s)
        self.advance(level.id)
        if self.disable and now_s - self.logged >= LOG_EVERY_S and not level.finished:
            self.logged = now_s
            line = f"{level.description}: {level.completed} of {level.total} clips"
            waiting = in_words(left.seconds(now_s))
            print(f"{line}, {waiting}" if waiting else line, file=sys.stderr)
