"""How a level's clips are executed: by which arithmetic, on whose features, in how many processes.

    # the whole chain of packages; without manifests: features in PyTorch fp32
    execution = Execution.of("declared", encoder_manifests)
    with Workers(reference, renders=folder, count=2) as workers:
        for clip, result in workers.measure(manifest_path, execution, clips, {}): ...

The reference is always the fp32 chain. Noise is the same on both sides, durations must be. Each
process opens the checkpoint once and a package when its first clip comes; the figures are those of
one process.
"""

import multiprocessing
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.encoder.encoder_steps import EncoderBackend
from kokoro_ane.eval.judge import ClipResult, judge_clip
from kokoro_ane.eval.product_judge import chain, judge_product, spoken
from kokoro_ane.eval.reference import Reference, Subject
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.runtimes.registry import DEFAULT_RUNTIME, RUNTIMES, module_of
from kokoro_ane.vocoder.packing import VocoderInputs

DECLARED = "declared"
# what figures are held against: other noise; a product's, other style rows too
SEEDS, ROWS = "seed_variation", "row_variation"
THREADS, LOG_EVERY_S, FEWEST_TIMED = "OMP_NUM_THREADS", 15.0, 3
SeedVariations = Mapping[str, dict[str, float]]  # by clip id, those that are known
TimedResult = tuple[ClipResult, float | None]


@dataclass(frozen=True)
class Execution:
    """`name` is what figures are kept under: the precision, and the hash of the encoder package
    where one is executed.
    """

    precision: str
    encoder: tuple[Path, ...]
    name: str
    scale: str = SEEDS

    @classmethod
    def of(cls, precision: str, encoder: tuple[Path, ...] = (), scale: str = SEEDS) -> Self:
        """`encoder`: manifests (one, or the two of an iOS 17 build). `scale` ROWS: they are judged
        as a product (eval/product_judge.py). Raises InputError for one that cannot be read.
        """
        hashes, encoder = (
            [Manifest.load(path).package_sha256[:16] for path in encoder],
            tuple(path.absolute() for path in encoder),
        )
        return cls(
            precision,
            encoder,
            "-".join([precision, *hashes, *([scale] if scale != SEEDS else [])]),
            scale,
        )

    @property
    def features(self) -> str:
        """Who computes them, in words."""
        return ", ".join(path.stem for path in self.encoder) or "PyTorch fp32"


class PackageFeatures:
    """Responsibilities: 1. open the encoder package once; 2. the vocoder's inputs from it. It
    renders nothing.
    """

    def __init__(self, execution: Execution, reference: Reference) -> None:
        self._reference = reference
        self._package = EncoderPackage(execution.encoder, execution.precision)

    def of(self, clip: Utterance) -> VocoderInputs:
        """Text features, F0 and energy as the package gives them, with the durations it finds."""
        return spoken(self._reference, self.backend, clip)[1]

    @property
    def backend(self) -> EncoderBackend:
        """Who executes it."""
        return self._package.backend


def arithmetic(runtime: str, precision: str) -> str:
    """`precision` of the executed packages; of another runtime its name and its version.

    Raises InputError for a runtime that has no such precision.
    """
    if runtime == DEFAULT_RUNTIME:
        return precision
    if precision != DECLARED:
        raise InputError(
            f"--precision {precision} is of the executed packages: {RUNTIMES[runtime].title} has"
            " its own arithmetic"
        )
    needs = RUNTIMES[runtime].needs[-1]
    distribution = packages_distributions().get(needs, [needs])[0]  # apache-tvm holds tvm
    return f"{runtime}-{version(distribution)}"


def opened(manifest: Path, how: str) -> Any:
    """What renders `manifest` by that arithmetic: a Subject."""
    runtime = how.partition("-")[0]
    if runtime in RUNTIMES:
        return module_of(runtime).open_vocoder(manifest)
    return module_of(DEFAULT_RUNTIME).open_vocoder(manifest, how)


@dataclass(frozen=True)
class Plan:
    """What a process needs to know."""

    checkpoint: Checkpoint
    seed: int
    renders: Path
    threads: int


class ClipBench:
    """Responsibilities: 1. the fp32 reference, once; 2. the package in work; 3. one clip at a
    time.
    """

    def __init__(self, plan: Plan, reference: Reference | None = None) -> None:
        self.plan = plan
        self._reference = reference
        self._open: dict[tuple[Path, str], Subject] = {}
        self._features: dict[Execution, PackageFeatures] = {}

    @cached_property
    def reference(self) -> Reference:
        """The fp32 renders."""
        return self._reference or Reference(self.plan.checkpoint, self.plan.seed, self.plan.renders)

    def clip(
        self,
        manifest: Path,
        execution: Execution,
        clip: Utterance,
        seed_variation: dict[str, float] | None,
    ) -> ClipResult:
        """Figures of one clip."""
        wanted = manifest, execution.precision
        if wanted not in self._open:
            self._open = {wanted: opened(*wanted)}
        if execution.scale == ROWS:
            make = chain(self.reference, self.features(execution).backend, self._open[wanted])
            return judge_product(self.reference, make, clip, seed_variation)
        inputs = self.features(execution).of(clip) if execution.encoder else None
        return judge_clip(self.reference, self._open[wanted], clip, seed_variation, inputs=inputs)

    def timed(self, manifest: Path, execution: Execution, *of_clip: Any) -> TimedResult:
        """`clip`, and the seconds that it took; None for the first of a package, which is opened
        then, as is whatever measures.
        """
        warm, start = (manifest, execution.precision) in self._open, time.monotonic()
        return self.clip(manifest, execution, *of_clip), time.monotonic() - start if warm else None

    def features(self, execution: Execution) -> PackageFeatures:
        """By the encoder package, opened once."""
        if execution not in self._features:
            self._features = {execution: PackageFeatures(execution, self.reference)}
        return self._features[execution]


_BENCHES: list[ClipBench] = []  # of a worker process: one, of the plan in work


def _start(threads: int) -> None:
    """A worker begins: Ctrl-C is for the parent, which ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)


def _end_with_parent() -> None:
    """A parent that was killed ends nobody: its workers would wait for clips for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def has_bench(plan: Plan) -> bool:
    """Whether this process has measured for it before."""
    return any(bench.plan == plan for bench in _BENCHES)


def measured_here(plan: Plan, package: str, manifest: Path, *asked: Any) -> TimedResult:
    """In a worker process: `ClipBench.timed`. `package`: the hash of what `manifest` has to
    describe.
    """
    if not has_bench(plan):
        _BENCHES[:] = [ClipBench(plan)]
    if (found := Manifest.load(manifest).package_sha256) != package:
        raise InputError(
            f"{manifest} describes package {found[:12]} here, {package[:12]} is judged: was it"
            " built again meanwhile?"
        )
    return _BENCHES[0].timed(manifest, *asked)


@dataclass(frozen=True)
class Engine:
    """Who measures: so many processes, the executor that hands a plan's clips to them, what they
    run, and what its own errors mean.
    """

    count: int
    start: Callable[[Plan], Executor]
    measure: Callable[..., TimedResult]
    lost: Mapping[type[Exception], str]

    @classmethod
    def of_processes(cls, count: int) -> Self:
        """On this machine."""

        def start(plan: Plan) -> Executor:
            return ProcessPoolExecutor(
                count, multiprocessing.get_context("spawn"), _start, (plan.threads,)
            )

        told = (
            "a worker process was ended, perhaps for want of memory: --workers 1 needs half of it"
        )
        return cls(count, start, measured_here, {BrokenProcessPool: told})


@contextmanager
def shared_cores(processes: int) -> Iterator[None]:
    """Threads for this process and for those it starts, so that `processes` do not fight for cores
    (many times slower than one each).

    OMP_NUM_THREADS has the first word. The number of threads is part of the store's key: it changes
    a figure's last digits.
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
    """Responsibilities: 1. start processes when there is work for more than one; 2. hand out clips;
    3. end them, whatever happens.
    """

    def __init__(
        self, reference: Reference, renders: Path, count: int, engine: Engine | None = None
    ) -> None:
        """`reference`: of this process, for one worker. `engine`: other machines' workers."""
        known = reference.checkpoint
        # without tensors that have been read
        checkpoint = replace(
            known, folder=known.folder.absolute(), weights=known.weights.absolute()
        )
        self.count, self._remote = count, engine is not None
        self._plan = Plan(checkpoint, reference.seed, renders.absolute(), torch.get_num_threads())
        self._own = ClipBench(self._plan, reference)
        self._engine = engine or Engine.of_processes(count)
        self._executor: Executor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _problem: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if isinstance(self._executor, ProcessPoolExecutor):
            if kind is not None:
                for process in multiprocessing.active_children():
                    process.terminate()
            self._executor.shutdown(wait=True, cancel_futures=True)
        elif self._executor is not None:
            self._executor.shutdown(wait=kind is None)  # else clips in work are cancelled

    def measure(
        self,
        manifest: Path,
        execution: Execution,
        clips: Sequence[Utterance],
        seed_variations: SeedVariations,
    ) -> Iterator[tuple[Utterance, ClipResult, float | None]]:
        """Every clip with its figures and `ClipBench.timed`'s seconds, in the order in which they
        are done.
        """
        if not clips:
            return
        if not self._remote and (self.count == 1 or len(clips) == 1):
            for clip in clips:
                yield (
                    clip,
                    *self._own.timed(manifest, execution, clip, seed_variations.get(clip.id)),
                )
            return
        self._executor = self._executor or self._engine.start(self._plan)
        # so that the last ones to end are short
        longest_first = sorted(clips, key=lambda clip: -clip.frames)
        sha256 = Manifest.load(manifest).package_sha256
        measure = partial(self._engine.measure, self._plan, sha256, manifest.absolute(), execution)
        tasks = {
            self._executor.submit(measure, clip, seed_variations.get(clip.id)): clip
            for clip in longest_first
        }
        try:
            for done in as_completed(tasks):
                yield tasks[done], *done.result()
        except tuple(self._engine.lost) as problem:
            told = next(
                told for kind, told in self._engine.lost.items() if isinstance(problem, kind)
            )
            raise InputError(told) from None


def in_words(seconds: float) -> str:
    """ "45 s", "3 min 20 s", "1 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s"
        if whole < 3600
        else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


class Progress:
    """Responsibilities: 1. count clips; 2. tell the time left. On stderr, and nothing is left of
    the bar when it ends.
    """

    def __init__(self, total: int) -> None:
        self.total, self.done, self.workers = total, 0, 1
        self.told = time.monotonic()
        self.open: dict[str, int] = {}  # clips of the level in work, each with its frames
        self.rates: list[float] = []  # seconds of one worker for a frame of that level
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = Bar(*columns, console=console, transient=True) if console.is_terminal else None
        self._task = self._bar.add_task("clips", total=total, left="") if self._bar else None

    def __enter__(self) -> Self:
        (self._bar or nullcontext()).__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        (self._bar or nullcontext()).__exit__(kind, problem, trace)

    @property
    def left_s(self) -> float | None:
        """Seconds left of the level in work, None before FEWEST_TIMED of its clips. Of other levels
        nothing is known.
        """
        if len(self.rates) < FEWEST_TIMED:
            return None
        return (
            statistics.median(self.rates)
            * sum(self.open.values())
            / max(1, min(self.workers, len(self.open)))
        )

    def begin(self, name: str, found: int, clips: Sequence[Utterance], workers: int) -> None:
        """A level: clips that were measured before, and those that will be now."""
        self.open, self.rates, self.workers = {clip.id: clip.frames for clip in clips}, [], workers
        self.step(name, found)

    def measured(self, name: str, clip: Utterance, seconds: float | None) -> None:
        """A clip of it is done, in so many seconds of its worker; see ClipBench.timed."""
        frames = self.open.pop(clip.id)
        self.rates += [seconds / frames] if seconds is not None else []
        self.step(name)

    def step(self, name: str, clips: int = 1) -> None:
        """So many clips of a level are done, or will not be."""
        self.done += clips
        left = (
            "" if self.left_s is None or not self.open else f"{name}: {in_words(self.left_s)} left"
        )
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self.done, description=name, left=left)
        elif time.monotonic() - self.told >= LOG_EVERY_S and self.done < self.total:
            self.told = time.monotonic()
            print(
                f"{name}: {self.done} of {self.total} clips{f'; {left}' if left else ''}",
                file=sys.stderr,
            )
