"""How clips are executed and measured: by which arithmetic, on whose features, in how many
processes.

    # the whole chain of packages; without manifests: features in PyTorch fp32
    execution = Execution.of("declared", encoder_manifests)
    with Workers(reference, 2) as workers:
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
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import FRAMES_PER_SECOND
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.eval import ENCODER, PRODUCT, VOCODER
from kokoro_ane.eval.natural import MEASURED, Variations
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    COMPARISONS,
    Comparison,
    EncoderSubject,
    Natural,
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
    under. `level`: that of the file that PyTorch computes, where no package is executed.
    """

    precision: str
    encoder: tuple[Path, ...]
    name: str
    stage: str = VOCODER
    level: str = ""

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


@dataclass(frozen=True)
class ClipResult:
    """Figures of one clip: the subject's, and the natural variation of the fp32 model. `defect`:
    why the subject gave no audio, or no prosody. `origin`: where the variation is from
    (eval/natural.py).
    """

    id: str
    voice: str
    seconds: float
    text: str
    figures: dict[str, float]
    variation: dict[str, float]
    defect: str | None = None
    origin: str = MEASURED


def judge_clip(
    comparison: Comparison,
    subject: Subject,
    clip: Utterance,
    variation: dict[str, float] | None = None,
    only: Sequence[str] = (),
) -> ClipResult:
    """Measure one clip. Broken output of the subject is a result; a broken reference is an
    InputError. `variation`: where the caller has it already. `only`: these metrics, not all.
    """
    rendition = subject.render(clip)
    defect, figures = comparison.defect(clip, rendition), dict[str, float]()
    if defect is None:
        figures = comparison.figures(clip, rendition, only)
        if not np.isfinite(list(figures.values())).all():
            defect, figures = "holds NaN or infinity", {}
    seconds = clip.frames / FRAMES_PER_SECOND
    natural = Natural(variation) if variation else comparison.natural(clip, only)
    return ClipResult(
        clip.id,
        clip.voice,
        seconds,
        clip.text,
        figures,
        natural.figures,
        defect,
        natural.origin,
    )


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
        """The packages, open. `manifest`: the vocoder's, or the encoder's where it is judged, or a
        level's file.
        """
        # late: the executed package of a vocoder needs none of what is imported below
        reader = None
        if execution.level:
            from kokoro_ane.encoder.functions import torch_backend
            from kokoro_ane.quantize.compress import LevelFile

            checkpoint, stage = self.plan.checkpoint, execution.stage
            level = LevelFile.of(execution.level, checkpoint, manifest.parent, stage)
            if stage == ENCODER:
                backend = torch_backend(level.network, checkpoint.config)
                return EncoderSubject(Reader(self.reference, backend))
            return VocoderSubject(self.reference, level)
        if execution.encoder:
            from kokoro_ane.encoder.encoder_stage import EncoderPackage

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


def bench_of(plan: Plan) -> ClipBench:
    """This worker process's bench of the plan; that of another plan is closed."""
    if not any(bench.plan == plan for bench in _BENCHES):
        _BENCHES[:] = [ClipBench(plan)]
    return _BENCHES[0]


def measured_here(plan: Plan, package: str, manifest: Path, *of_clip: Any) -> Timed:
    """In a worker process: `ClipBench.measured`. `package`: the hash of what `manifest` has to
    describe; "" for a level's file, which says itself what it is of.
    """
    if package and (sha256 := Manifest.load(manifest).package_sha256) != package:
        raise InputError(
            f"{manifest} describes package {sha256[:12]} here, {package[:12]} is judged: was it"
            " built again meanwhile?"
        )
    return bench_of(plan).measured(manifest, *of_clip)


def natural_here(plan: Plan, task: tuple[str, Utterance]) -> None:
    """In a worker process: measure the natural variation of a stage and a clip, and keep it where
    the plan says.
    """
    (stage, clip), reference = task, bench_of(plan).reference
    COMPARISONS[stage](reference).natural(clip)
    reference.forget(clip)


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

    def __init__(self, reference: Reference, count: int) -> None:
        """`count`: how many clips are measured at once. `reference` is this process's, which
        measures itself where there is one worker.
        """
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
        self.count = count
        self._executor: Executor | None = None
        self._abandoned = False  # clips that nobody waits for are in work

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
        if 1 in (self.count, len(clips)):
            for clip in clips:
                yield clip, self._bench.measured(manifest, execution, clip)
            return
        sha256 = "" if execution.level else Manifest.load(manifest).package_sha256
        measured = partial(measured_here, self._plan, sha256, manifest.absolute(), execution)
        yield from self._handed_out(measured, clips)

    def natural(self, tasks: Sequence[tuple[str, Utterance]]) -> Iterator[None]:
        """Measure the natural variation of these stages and clips; answer for each when it is kept
        where the reference's variations say.
        """
        for _ in self._handed_out(partial(natural_here, self._plan), tasks):
            yield

    def _handed_out(
        self, call: Callable[[Any], Any], items: Sequence[Any]
    ) -> Generator[tuple[Any, Any], None, None]:
        """Each item and what `call` answers in a worker process, in the order in which they end."""
        left, losses = dict(enumerate(items)), 0
        while left:
            self._executor = self._executor or self._started()
            tasks = {self._executor.submit(call, item): place for place, item in left.items()}
            broken = False
            try:
                for done in as_completed(tasks):
                    if isinstance(done.exception(), BrokenProcessPool):
                        broken = True
                        continue
                    result = done.result()
                    yield left.pop(tasks[done]), result
            finally:
                self._abandoned |= any(not task.cancel() and not task.done() for task in tasks)
            if not broken:
                continue
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

    def _started(self) -> Executor:
        """New worker processes."""
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.count, context, start_worker, (self._plan.threads,))
