"""Clips measured in several processes, each of which opens the checkpoint once and a package when
its first clip comes; the figures are those of one process.

    with split_cores(2), Workers(reference, 2) as workers:
        for clip, (result, seconds) in workers.measure(manifest_path, execution, clips): ...
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import (
    CancelledError,
    Executor,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from kokoro_ane.core import InputError
from kokoro_ane.eval.comparisons import Natural
from kokoro_ane.eval.execution import ClipBench, ClipResult, Execution
from kokoro_ane.eval.reference import Reference
from kokoro_ane.runtimes import is_settled
from kokoro_ane.speech import Clip

THREADS = "OMP_NUM_THREADS"
# A worker may die by chance, or for want of memory; a clip that kills every worker would end none.
MOST_LOSSES = 3
# workers with a reference in which nothing is open, and so many threads each
StartWorkers = Callable[[Reference, int], Executor]

_BENCHES: list[ClipBench] = []  # of a worker process: one


def start_worker(reference: Reference, threads: int) -> None:
    """Prepare a worker process. It ignores Ctrl-C: the parent ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    open_bench(reference, threads)


def open_bench(reference: Reference, threads: int) -> None:
    """Let this process measure with a reference from now on."""
    torch.set_num_threads(threads)
    _BENCHES[:] = [ClipBench(reference)]


def _stop_with_parent() -> None:
    """End this worker with its parent: when that is killed, a worker would wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_in_worker(call: Callable[[ClipBench, Any], Any], item: Any) -> Any:
    """Return, in a worker process, what `call` returns for an item."""
    return call(_BENCHES[0], item)


@contextmanager
def split_cores(processes: int) -> Iterator[None]:
    """Threads for this process and for those it starts, so that `processes` do not fight for cores
    (many times slower than one each).

    Where OMP_NUM_THREADS is set, it decides. The number of threads is part of the store's key: it
    changes a figure's last digits.
    """
    if THREADS in os.environ:
        yield
        return
    # Set before any process starts, and taken back when all have ended.
    before = torch.get_num_threads()
    threads = max(1, (os.cpu_count() or 1) // processes)
    os.environ[THREADS] = str(threads)  # BLAS and torch of the processes read it as they start
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        del os.environ[THREADS]
        torch.set_num_threads(before)


class Workers:
    """Responsibilities: 1. start processes when there is work for more than one; 2. hand out clips;
    3. end them, whatever happens.
    """

    def __init__(
        self, reference: Reference, count: int, started: StartWorkers | None = None
    ) -> None:
        """`count`: how many clips are measured at once. `reference` is this process's, which
        measures itself where there is one worker. `started`: starts other workers than local
        processes (eval/cluster.py).
        """
        self.count, self._start = count, started
        self._bench = ClipBench(reference)
        self._executor: Executor | None = self._start_workers() if started else None
        if isinstance(number := getattr(self._executor, "count", None), int):
            self.count = number
        self._ended = False  # whether processes were ended on purpose
        self._abandoned = False  # whether clips are in work whose results are not needed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._executor is None:
            return
        if kind is not None or self._abandoned:
            self._end_processes()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _end_processes(self) -> None:
        """End them with whatever they do; no others are started for it."""
        self._ended = True
        for process in multiprocessing.active_children():
            process.terminate()

    def measure(
        self,
        manifest: Path,
        execution: Execution,
        clips: Sequence[Clip],
        longest: int = 0,
    ) -> Generator[tuple[Clip, tuple[ClipResult, float]], None, None]:
        """Start the clips in their order; yield each with its figures and seconds when it is done.
        A caller that closes the generator leaves the rest unmeasured.
        """
        call = partial(
            ClipBench.measure_clip, manifest=manifest, execution=execution, longest=longest
        )
        return self._run(call, clips)

    def settle(self, clips: Sequence[Clip]) -> None:
        """Settle the voices that nobody has settled, each once, before clips ask for them."""
        if self._start:
            # each host of a cluster settles what its clips ask for: they share no cache
            return
        checkpoint = self._bench.reference.checkpoint
        voices = sorted({clip.voice for clip in clips})
        unsettled = [voice for voice in voices if not is_settled(checkpoint, voice)]
        count = min(self.count, len(unsettled))
        if count > 1:
            print(f"{len(unsettled)} voices are settled first", file=sys.stderr)
        for _ in self._run(ClipBench.settle, [unsettled[place::count] for place in range(count)]):
            pass

    @contextmanager
    def settling(self, clips: Sequence[Clip]) -> Iterator[None]:
        """Settle the voices while a package is converted inside, which keeps one core busy."""
        if self.count == 1:
            yield
            return
        with ThreadPoolExecutor(1) as thread:
            settled = thread.submit(self.settle, clips)
            try:
                yield
            except BaseException:
                self._end_processes()  # or leaving would wait until all are settled
                raise
            settled.result()

    def measure_natural(
        self, tasks: Sequence[tuple[str, Clip]], only: Sequence[str] = ()
    ) -> Iterator[tuple[tuple[str, Clip], Natural]]:
        """Measure the natural variation of these stages and clips; yield each with it."""
        return self._run(partial(ClipBench.measure_natural, only=only), tasks)

    def _run(
        self, call: Callable[[ClipBench, Any], Any], items: Sequence[Any]
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each item and what `call` returns for it, here where there is work for one."""
        if self._start is None and 1 in (self.count, len(items)):
            yield from ((item, call(self._bench, item)) for item in items)
        else:
            yield from self._run_all(call, items)

    def _run_all(
        self, call: Callable[[ClipBench, Any], Any], items: Sequence[Any]
    ) -> Generator[tuple[Any, Any], None, None]:
        """Yield each item and what `call` returns for it in a worker process, as they end."""
        left = dict(enumerate(items))
        losses = 0
        while left:
            self._executor = self._executor or self._start_workers()
            tasks = {
                self._executor.submit(run_in_worker, call, item): place
                for place, item in left.items()
            }
            broken = False
            lost = (
                BrokenProcessPool,
                CancelledError,
                getattr(self._executor, "lost", BrokenProcessPool),
            )
            try:
                for done in as_completed(tasks):
                    try:
                        result = done.result()
                    except lost:
                        broken = True
                        continue
                    yield left.pop(tasks[done]), result
            finally:
                self._abandoned |= any(not task.cancel() and not task.done() for task in tasks)
            if not broken:
                continue
            if self._ended:
                return
            # A worker that dies costs its clip: new ones measure what is left.
            losses += 1
            if losses == MOST_LOSSES:
                raise InputError(
                    f"worker processes were ended {MOST_LOSSES} times, perhaps for want of memory:"
                    " --workers 1 needs half of it"
                )
            print(f"a worker process ended: {len(left)} clips are left", file=sys.stderr)
            self._executor.shutdown(wait=True)
            self._executor = None

    def _start_workers(self) -> Executor:
        """New worker processes, with copies of the reference in which no tensor is loaded yet."""
        reference = self._bench.reference
        fresh = replace(
            reference,
            checkpoint=replace(reference.checkpoint),
            variations=replace(reference.variations),
        )
        if self._start:
            return self._start(fresh, torch.get_num_threads())
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(
            self.count, context, start_worker, (fresh, torch.get_num_threads())
        )
