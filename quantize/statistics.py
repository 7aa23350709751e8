"""What the vocoder's layers read in sentences of the tuning set: the largest magnitudes of every
channel, and the second moments that palettes are fitted to.

    read = read_activations(vocoder, clips, tops=("decode.0.conv1",), moments=("decode.0.conv1",))
    read["decode.0.conv1"].size()                       # [C], of every channel
    read["decode.0.conv1"].exceeded(1e-5, divisor)      # one number
    read["decode.0.conv1"].moments                      # [I taps, I taps]

One pass of the eager vocoder (vocoder/eager.py), by hooks, in fp32 and at exact length. Sentences
are dealt to two threads whatever the machine has, so that sums do not depend on it.
"""

import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import TypeVar

import torch
from torch import Tensor, nn

from kokoro_ane.quantize.palettes import Unfolded
from kokoro_ane.vocoder import (
    EagerVocoder,
    Place,
    Vocoder,
    VocoderInputs,
    find_places,
    render_reference,
)

STRIPS = 8
DEALS = 2  # threads; each has its own sums, which are added in order
# share of the columns that may exceed what a channel's size is taken to be
RARE = 1e-3
Job = TypeVar("Job")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Tops:
    """The largest magnitudes of every channel in one clip, [C, k] falling, of so many columns."""

    values: Tensor
    columns: int


@dataclass(eq=False)
class ActivationStatistics:
    """What one layer read. `tops` has an entry for each clip in order."""

    tops: dict[int, Tops] = field(default_factory=dict)
    sums: Tensor | None = None  # of the moments over `count` columns, upper half alone
    count: int = 0

    def size(self) -> Tensor:
        """The magnitude of every channel that the share RARE of its columns exceeds, [C], averaged
        over the clips. The largest magnitude would be set by single columns of single sentences:
        on real Kokoro it balances worse.
        """
        # A thousandth of the columns exceeds the value of this rank; a short clip has its largest.
        ranks = [max(1, int(RARE * top.columns)) - 1 for top in self.tops.values()]
        sizes = zip(self.tops.values(), ranks, strict=True)
        return torch.stack([top.values[:, rank] for top, rank in sizes]).mean(dim=0)

    def exceeded(self, beyond: float, divisor: Tensor | None = None) -> float:
        """The magnitude that the share `beyond` of all values exceeds in a clip, of all clips the
        largest. The channels are divided by `divisor` [C] first.
        """
        largest = 0.0
        for top in self.tops.values():
            values = top.values if divisor is None else top.values / divisor.float()[:, None]
            # The share is one of all values, in whatever channels they lie.
            rank = max(1, round(beyond * len(values) * top.columns))
            largest = max(largest, float(values.flatten().topk(rank).values[-1]))
        return largest

    def add_columns(self, columns: Tensor) -> None:
        """Add x x^T of `columns` [n, size] to the upper half of the sums, in strips: the lower half
        would take two fifths more time.
        """
        size = columns.shape[1]
        if self.sums is None:
            self.sums = torch.zeros(size, size)
        edges = [size * strip // STRIPS for strip in range(STRIPS + 1)]
        for begin, end in itertools.pairwise(edges):
            self.sums[begin:end, begin:].addmm_(columns[:, begin:end].T, columns[:, begin:])
        self.count += len(columns)

    @property
    def moments(self) -> Tensor:
        """The mean of x x^T, [size, size], over the columns."""
        assert self.sums is not None
        upper = self.sums / self.count
        # The lower half was never summed: it mirrors the upper one.
        return upper.triu() + upper.triu(1).T

    def add(self, other: "ActivationStatistics") -> None:
        """Take what another thread read."""
        self.tops |= other.tops
        if other.sums is not None:
            self.sums = other.sums if self.sums is None else self.sums.add_(other.sums)
        # Sums are large, so the other's are let go at once.
        other.sums = None
        self.count += other.count


@torch.no_grad()
def read_activations(
    vocoder: Vocoder,
    clips: Sequence[VocoderInputs],
    tops: Collection[str],
    moments: Collection[str] = (),
    first: int | None = None,
    percentile: float = 99.999,
) -> Mapping[str, ActivationStatistics]:
    """What the named convolutions read, by their paths in the vocoder: the largest magnitudes in
    the `first` clips of those in `tops`, and the second moments over all clips of those in
    `moments`. `percentile` is the lowest that `exceeded` is asked for.
    """
    named = {*tops, *moments}

    def read(share: Iterator[tuple[int, VocoderInputs]]) -> dict[str, ActivationStatistics]:
        # A copy for each thread, because a hook is told the layer and not the thread.
        eager = EagerVocoder(vocoder)
        sums = dict[str, ActivationStatistics]()
        clip = 0

        def record_inputs(place: Place, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            reading = sums.setdefault(place.path, ActivationStatistics())
            # The eager copy may read alpha times what the vocoder's convolution reads.
            x = inputs[0] if place.alpha is None else inputs[0] / place.alpha.view(1, -1, 1, 1)
            if place.path in tops and (first is None or clip < first):
                reading.tops[clip] = find_tops(x, 1 - percentile / 100)
            if place.path in moments:
                reading.add_columns(
                    Unfolded.from_layer(vocoder.get_submodule(place.path)).gather_inputs(x)
                )

        for name, place in find_places(eager).items():
            if place.path in named:
                hook = partial(record_inputs, place)
                eager.get_submodule(name).register_forward_pre_hook(hook)
        for number, inputs in share:
            clip = number  # which the hooks read
            render_reference(eager, inputs)
        return sums

    # In the order of the threads, because a sum of floats depends on its order.
    joined, *others = read_shares(read, clips, "tuning sentences")
    for other in others:
        for path, reading in other.items():
            joined.setdefault(path, ActivationStatistics()).add(reading)
    for reading in joined.values():
        reading.tops = dict(sorted(reading.tops.items()))
    return joined


def read_shares(
    read: Callable[[Iterator[tuple[int, Job]]], Made], jobs: Sequence[Job], title: str
) -> list[Made]:
    """What `read` makes of each thread's share of the jobs, which come with their numbers; in the
    order of the threads, with a progress bar. Jobs are dealt by number, so that a thread has the
    same ones on every machine. Interrupted, a thread ends its job and begins no other.
    """
    from rich.console import Console
    from rich.progress import Progress

    ended = Event()

    def deal(thread: int) -> Iterator[tuple[int, Job]]:
        for number in range(thread, len(jobs), DEALS):
            if ended.is_set():
                return
            yield number, jobs[number]
            shown.advance(task)

    with Progress(console=Console(file=sys.stderr), transient=True) as shown:
        task = shown.add_task(title, total=len(jobs))
        try:
            return run_on_threads(lambda thread: read(deal(thread)), range(DEALS))
        finally:
            ended.set()


def run_on_threads(work: Callable[[Job], Made], jobs: Iterable[Job]) -> list[Made]:
    """What `work` makes of each job, in their order, by DEALS threads."""
    pool = ThreadPoolExecutor(DEALS)
    try:
        with use_one_thread_each():
            return list(pool.map(work, jobs))
    finally:
        # `with` would wait for the jobs in work, minutes, before an interrupted command may end
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def use_one_thread_each() -> Iterator[None]:
    """PyTorch's own threads would change the last bits of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find_tops(x: Tensor, beyond: float) -> Tops:
    """The magnitudes of x [1, C, 1, S] that `size` and `exceeded` can ask for."""
    columns = x[0, :, 0].abs()  # [C, S]
    channels, length = columns.shape
    # all that exceed a share of the whole may lie in one channel
    count = max(1, int(RARE * length), round(beyond * channels * length))
    return Tops(columns.contiguous().topk(min(count, length), dim=1).values, length)
