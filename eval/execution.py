"""How clips are executed: by which arithmetic, on whose features, in how many processes.

    # the whole chain of packages; without manifests: features in PyTorch fp32
    execution = Execution.of("declared", encoder_manifests)
    with Workers(reference, Engine.of_processes(2)) as workers:
        for clip, (result, seconds) in workers.measure(manifest_path, execution, clips): ...

The reference is always the fp32 chain. Noise is the same on both sides, durations must be. Each
process opens the checkpoint once and a package when its first clip comes; the figures are those of
one process.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.eval import ENCODER, PRODUCT, VOCODER
from kokoro_ane.eval.judge import ClipResult, judge_clip
from kokoro_ane.eval.natural import Variations
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    COMPARISONS,
    Comparison,
    EncoderSubject,
    ProductSubject,
    Reader,
    Subject,
    VocoderSubject,
)
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.runtimes.registry import DEFAULT_RUNTIME, RUNTIMES, module_of

DECLARED = "declared"
THREADS = "OMP_NUM_THREADS"
# A worker may die by chance, or for want of memory; a clip that kills every worker would end none.
MOST_LOSSES = 3


@dataclass(frozen=True)
class Execution:
    """What is executed, and as what it is judged: the precision, the manifests of the encoder where
    one is executed (one, or the two of an iOS 17 build), the stage. `name` is what figures are kept
    under.
    """

    precision: str
    encoder: tuple[Path, ...]
    name: str
    stage: str = VOCODER

    @classmethod
    def of(cls, precision: str, encoder: tuple[Path, ...] = (), stage: str = VOCODER) -> Self:
        """Raises InputError for a manifest that cannot be read."""
        hashes = [Manifest.load(path).package_sha256[:16] for path in encoder]
        name = "-".join([precision, *hashes, *([stage] if stage != VOCODER else [])])
        return cls(precision, tuple(path.absolute() for path in encoder), name, stage)

    @property
    def features(self) -> str:
        """Who computes the features, in words."""
        return ", ".join(path.stem for path in self.encoder) or "PyTorch fp32"


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
    """Open what `manifest` describes, as a Renderer of that arithmetic."""
    runtime = how.partition("-")[0]
    if runtime in RUNTIMES:
        return module_of(runtime).open_vocoder(manifest)
    return module_of(DEFAULT_RUNTIME).open_vocoder(manifest, how)


class Timed(NamedTuple):
    """Figures of a clip, and how long it took without the opening of models."""

    result: ClipResult
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a worker process needs before it can measure a clip."""

    checkpoint: Checkpoint
    seed: int
    renders: Path | None
    threads: int
    variations: Variations = field(default_factory=Variations)


class ClipBench:
    """Responsibilities: 1. the fp32 reference, once; 2. what is judged, open; 3. one clip at a
    time.
    """

    def __init__(self, plan: Plan, reference: Reference | None = None) -> None:
        self.plan = plan
        self._reference = reference
        self._open: dict[tuple[Path, Execution], tuple[Comparison, Subject]] = {}

    @cached_property
    def reference(self) -> Reference:
        """The fp32 model's renders, opened when the first clip needs them."""
        plan = self.plan
        return self._reference or Reference(
            plan.checkpoint, plan.seed, plan.renders, plan.variations
        )

    def subject(self, manifest: Path, execution: Execution) -> Subject:
        """The packages, open. `manifest`: the vocoder's, or the encoder's where it is judged."""
        reader = None
        if execution.encoder:
            package = EncoderPackage(execution.encoder, execution.precision)
            reader = Reader(self.reference, package.backend)
            if execution.stage == ENCODER:
                return EncoderSubject(reader)
        vocoder = opened(manifest, execution.precision)
        if reader and execution.stage == PRODUCT:
            return ProductSubject(reader, vocoder)
        return VocoderSubject(self.reference, vocoder, reader)

    def measured(self, manifest: Path, execution: Execution, clip: Utterance) -> Timed:
        """Measure one clip. Packages stay open until others are judged."""
        # Packages of another level are closed first: fourteen open ones took 6 GB.
        key = manifest, execution
        if key not in self._open:
            comparison = COMPARISONS[execution.stage](self.reference)
            self._open = {key: (comparison, self.subject(manifest, execution))}
        start = time.monotonic()
        result = judge_clip(*self._open[key], clip)
        return Timed(result, time.monotonic() - start)


_BENCHES: list[ClipBench] = []  # of a worker process: one, of the plan in work


def start_worker(threads: int) -> None:
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
    """Whether this process has measured for the plan before."""
    return any(bench.plan == plan for bench in _BENCHES)


def measured_here(plan: Plan, package: str, manifest: Path, *of_clip: Any) -> Timed:
    """In a worker process: `ClipBench.measured`. `package`: the hash of what `manifest` has to
    describe.
    """
    if not has_bench(plan):
        _BENCHES[:] = [ClipBench(plan)]
    if (sha256 := Manifest.load(manifest).package_sha256) != package:
        raise InputError(
            f"{manifest} describes package {sha256[:12]} here, {package[:12]} is judged: was it"
            " built again meanwhile?"
        )
    return _BENCHES[0].measured(manifest, *of_clip)


def natural_here(plan: Plan, stage: str, clip: Utterance) -> None:
    """In a worker process: measure the natural variation of a clip, and keep it where the plan
    says.
    """
    if not has_bench(plan):
        _BENCHES[:] = [ClipBench(plan)]
    COMPARISONS[stage](_BENCHES[0].reference).natural(clip)
    _BENCHES[0].reference.forget(clip)


@dataclass(frozen=True)
class Engine:
    """Who measures: so many processes, the executor that hands a plan's clips to them, what they
    run, and what its own errors mean. `remote`: even one clip is measured there, not in the run's
    own process.
    """

    count: int
    start: Callable[[Plan], Executor]
    measure: Callable[..., Timed]
    lost: Mapping[type[Exception], str]
    remote: bool = True

    @classmethod
    def of_processes(cls, count: int) -> Self:
        """Processes on this machine."""

        def start(plan: Plan) -> Executor:
            return ProcessPoolExecutor(
                count, multiprocessing.get_context("spawn"), start_worker, (plan.threads,)
            )

        message = (
            f"worker processes were ended {MOST_LOSSES} times, perhaps for want of memory:"
            " --workers 1 needs half of it"
        )
        return cls(count, start, measured_here, {BrokenProcessPool: message}, remote=False)


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
    # Set before any process starts, and taken back when all have ended.
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

    def __init__(self, reference: Reference, engine: Engine) -> None:
        """`reference` is this process's, which measures itself where there is one worker."""
        checkpoint, renders = reference.checkpoint, reference.folder
        # a copy, without tensors that have been read
        checkpoint = replace(
            checkpoint, folder=checkpoint.folder.absolute(), weights=checkpoint.weights.absolute()
        )
        self._plan = Plan(
            checkpoint,
            reference.seed,
            renders.absolute() if renders else None,
            torch.get_num_threads(),
            replace(reference.variations),
        )
        self._bench = ClipBench(self._plan, reference)
        self._engine = engine
        self._executor: Executor | None = None
        self._abandoned = False  # clips that nobody waits for are in work

    @property
    def count(self) -> int:
        """How many clips are measured at once."""
        return self._engine.count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _problem: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._executor is None:
            return
        if self._engine.remote:
            self._executor.shutdown(wait=kind is None)  # else clips in work are cancelled
            return
        if kind is not None or self._abandoned:
            for process in multiprocessing.active_children():
                process.terminate()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def measure(
        self, manifest: Path, execution: Execution, clips: Sequence[Utterance]
    ) -> Generator[tuple[Utterance, Timed], None, None]:
        """Begin the clips in their order; yield each with its figures when it is done. Whoever
        takes no more leaves the rest unmeasured.
        """
        if not self._engine.remote and 1 in (self._engine.count, len(clips)):
            for clip in clips:
                yield clip, self._bench.measured(manifest, execution, clip)
            return
        sha256 = Manifest.load(manifest).package_sha256
        measure = partial(self._engine.measure, self._plan, sha256, manifest.absolute(), execution)
        unmeasured, losses = {clip.id: clip for clip in clips}, 0
        while unmeasured:
            self._executor = self._executor or self._engine.start(self._plan)
            tasks = {self._executor.submit(measure, clip): clip for clip in unmeasured.values()}
            broken = None
            try:
                for done in as_completed(tasks):
                    if isinstance(done.exception(), BrokenProcessPool):
                        broken = done.exception()
                        continue
                    timed = done.result()
                    del unmeasured[tasks[done].id]
                    yield tasks[done], timed
            except tuple(self._engine.lost) as problem:
                raise InputError(self._meaning(problem)) from None
            finally:
                self._abandoned |= any(not task.cancel() and not task.done() for task in tasks)
            if broken is None:
                continue
            # A worker that dies costs its clip: new ones measure what is left.
            losses += 1
            if losses == MOST_LOSSES:
                raise InputError(self._meaning(broken))
            print(f"a worker process ended: {len(unmeasured)} clips are left", file=sys.stderr)
            self._executor.shutdown(wait=True)
            self._executor = None

    def _meaning(self, problem: BaseException) -> str:
        """What an error of the engine means."""
        lost = self._engine.lost.items()
        return next(words for kind, words in lost if isinstance(problem, kind))
