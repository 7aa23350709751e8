"""Clips of a package measured by several processes at once: the same figures as by one, in less time.

    with Workers(truth, renders=folder, count=2) as workers:
        for clip, result in workers.measure(manifest_path, Execution.of("declared"), clips, {}): ...

Each process opens the checkpoint once and a package when its first clip comes. With one worker everything stays in this process.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch

from core.checkpoint import Checkpoint
from core.corpus import Utterance
from core.errors import InputError
from eval.corpus import Subject, Truth
from eval.execution import Execution, PackageFeatures
from eval.judge import ClipResult, judge_clip
from eval.subjects import opened

THREADS = "OMP_NUM_THREADS"
SeedFloors = Mapping[str, dict[str, float]]  # by clip id, those that are known


@dataclass(frozen=True)
class Plan:
    """What a process needs to know."""

    checkpoint: Checkpoint
    seed: int
    renders: Path
    threads: int


class Bench:
    """Responsibilities: 1. the fp32 truth, once; 2. the package in work; 3. one clip at a time."""

    def __init__(self, plan: Plan, truth: Truth | None = None) -> None:
        self.plan = plan
        self._truth = truth
        self._open: dict[tuple[Path, str], Subject] = {}
        self._features: dict[Execution, PackageFeatures] = {}

    @cached_property
    def truth(self) -> Truth:
        """The fp32 renders."""
        return self._truth or Truth(self.plan.checkpoint, self.plan.seed, self.plan.renders)

    def clip(self, manifest: Path, execution: Execution, clip: Utterance, seed_floor: dict[str, float] | None) -> ClipResult:
        """Figures of one clip."""
        wanted = manifest, execution.precision
        if wanted not in self._open:
            self._open = {wanted: opened(*wanted)}
        inputs = self.features(execution).of(clip) if execution.encoder else None
        return judge_clip(self.truth, self._open[wanted], clip, seed_floor, inputs=inputs)

    def features(self, execution: Execution) -> PackageFeatures:
        """By the encoder package, opened once."""
        if execution not in self._features:
            self._features = {execution: PackageFeatures(execution, self.truth)}
        return self._features[execution]


_BENCHES: list[Bench] = []  # of a worker process: one, made when it starts


def _start(plan: Plan) -> None:
    """A worker begins: Ctrl-C is for the parent, which ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(plan.threads)
    _BENCHES.append(Bench(plan))


def _end_with_parent() -> None:
    """A parent that was killed ends nobody: its workers would wait for clips for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _clip(manifest: Path, execution: Execution, clip: Utterance, seed_floor: dict[str, float] | None) -> ClipResult:
    return _BENCHES[0].clip(manifest, execution, clip, seed_floor)


@contextmanager
def shared_cores(processes: int) -> Iterator[None]:
    """Threads for this process and for those it starts, so that `processes` do not fight for cores (many times slower than one each).

    OMP_NUM_THREADS has the first word. The number of threads is part of the store's key: it changes a figure's last digits.
    """
    if THREADS in os.environ:
        yield
        return
    before, threads = torch.get_num_threads(), max(1, (os.cpu_count() or 1) // processes)
    os.environ[THREADS] = str(threads)  # BLAS and torch of the processes read it as they start
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        del os.environ[THREADS]
        torch.set_num_threads(before)


class Workers:
    """Responsibilities: 1. start processes when there is work for more than one; 2. hand out clips; 3. end them, whatever happens."""

    def __init__(self, truth: Truth, renders: Path, count: int) -> None:
        """`truth`: of this process, for one worker."""
        checkpoint = replace(truth.checkpoint)  # without the tensors that have been read
        self.count = count
        self._plan = Plan(checkpoint, truth.seed, renders, torch.get_num_threads())
        self._own = Bench(self._plan, truth)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _problem: BaseException | None, _trace: TracebackType | None) -> None:
        if self._pool is not None:
            if kind is not None:
                for process in multiprocessing.active_children():
                    process.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)

    def measure(
        self, manifest: Path, execution: Execution, clips: Sequence[Utterance], seed_floors: SeedFloors
    ) -> Iterator[tuple[Utterance, ClipResult]]:
        """Every clip with its figures, in the order in which they are done."""
        if self.count == 1 or len(clips) == 1:
            for clip in clips:
                yield clip, self._own.clip(manifest, execution, clip, seed_floors.get(clip.id))
            return
        longest_first = sorted(clips, key=lambda clip: -clip.frames)  # so that the last ones to end are short
        tasks: dict[Future[Any], Utterance] = {}
        for clip in longest_first:
            tasks[self._started().submit(_clip, manifest, execution, clip, seed_floors.get(clip.id))] = clip
        try:
            for done in as_completed(tasks):
                yield tasks[done], done.result()
        except BrokenProcessPool:
            raise InputError("a worker process was ended, perhaps for want of memory: --workers 1 needs half of it") from None

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.count, multiprocessing.get_context("spawn"), _start, (self._plan,))
        return self._pool
