"""How far a judgement is: which level, how many of its clips, and how long it will still take.

    progress.start_level("w8a8", done=0, unmeasured=clips, workers=2)
    progress.count_clip(clip, seconds)

The time left is the time that the workers need for the clips in the queue, each of which costs what
a second of speech has cost so far; the opening of models, which happens once, is no clip's time.
"""

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from kokoro_ane.speech import Clip

LOG_EVERY_S = 15.0  # where stderr is no terminal
# What a clip costs whatever its length, in frames of speech: 40 are a second.
CLIP_FRAMES = 40


class Progress(Bar):
    """Clips of the level in work, on stderr: a bar with the time left, of which nothing remains
    when it ends; a line every 15 s where stderr is no terminal.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        super().__init__(
            TextColumn("measuring {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("clips{task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.logged = time.monotonic()

    def start_level(self, name: str, done: int, unmeasured: Sequence[Clip], workers: int) -> None:
        """Show a level instead of the last one, how many of its clips were measured before, and
        those that are now, in their order.
        """
        for level in self.task_ids:
            self.remove_task(level)
        # A clip's cost grows with its length, and a part of it does not depend on length.
        self.costs = {clip.id: clip.frames + CLIP_FRAMES for clip in unmeasured}
        self.seconds, self.cost, self.workers = 0.0, 0, workers
        self.add_task(name, completed=done, total=done + len(unmeasured), left="")

    def estimate_time_left(self, clip: Clip, seconds: float) -> float:
        """A clip is done after so many seconds; returns the seconds that are left."""
        self.seconds += seconds
        self.cost += self.costs.pop(clip.id)
        # The clips of the other workers are half done on average.
        costs = list(self.costs.values())
        cost = sum(costs) - sum(costs[: self.workers - 1]) / 2
        # Seconds by cost so far, spread over the workers that still have a clip.
        return self.seconds / self.cost * cost / max(1, min(self.workers, len(costs)))

    def count_clip(self, clip: Clip, seconds: float) -> None:
        """Count one clip, which took so long."""
        (level,) = self.tasks
        left_s = self.estimate_time_left(clip, seconds)
        # Steps of 5 s: a time that changes with every clip cannot be read.
        left = f"{max(5, 5 * round(left_s / 5))} s" if left_s < 90 else f"{round(left_s / 60)} min"
        self.update(level.id, advance=1, left=f", about {left} left")
        if self.disable and time.monotonic() - self.logged >= LOG_EVERY_S and not level.finished:
            self.logged = time.monotonic()
            count = f"{level.completed} of {level.total} clips"
            print(f"{level.description}: {count}{level.fields['left']}", file=sys.stderr)
