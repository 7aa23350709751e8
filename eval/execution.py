"""How clips are executed and measured: by which arithmetic, on which features, in how many
processes.

    # the whole chain of packages; without manifests: features in PyTorch fp32
    execution = Execution("declared", encoder_manifests)
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
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from kokoro_ane.core import FRAMES_PER_SECOND, InputError, Manifest, release_memory
from kokoro_ane.eval.comparisons import COMPARISONS, Comparison, Natural
from kokoro_ane.eval.natural import MEASURED
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    ClipReader,
    EncoderSubject,
    ProductSubject,
    Subject,
    VocoderSubject,
    speak_within,
)
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, VOCODER
from kokoro_ane.runtimes import (
    DEFAULT_RUNTIME,
    RUNTIMES,
    is_settled,
    module_of,
)
from kokoro_ane.speech import Clip, SpokenLine, Utterance, settle

DECLARED = "declared"
THREADS = "OMP_NUM_THREADS"
# A worker may die by chance, or for want of memory; a clip that kills every worker would end none.
MOST_LOSSES = 3
# workers with a reference in which nothing is open, and so many threads each
StartWorkers = Callable[[Reference, int], Executor]


@dataclass(frozen=True)
class Execution:
    """What is executed, and as what it is judged.

    precision: of the executed packages, or another runtime's name and version. encoder: the
    manifests of the encoder where one is executed (one, or the two of an iOS 17 build). stage: what
    is judged. level: of the file that PyTorch computes, where no package is executed.
    """

    precision: str
    encoder: tuple[Path, ...] = ()
    stage: str = VOCODER
    level: str = ""

    @cached_property
    def name(self) -> str:
        """The name that figures are stored under. Raises InputError for a manifest that cannot be
        read.
        """
        hashes = [Manifest.load(path).package_sha256[:16] for path in self.encoder]
        return "-".join([self.precision, *hashes, *([self.stage] if self.stage != VOCODER else [])])

    @property
    def features(self) -> str:
        """Who computes the features, in words."""
        return ", ".join(path.stem for path in self.encoder) or "PyTorch fp32"


def name_arithmetic(runtime: str, precision: str) -> str:
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


def open_executable(manifest: Path, precision: str) -> Any:
    """Open the vocoder that `manifest` describes, by that arithmetic."""
    runtime = precision.partition("-")[0]
    if runtime in RUNTIMES:
        return module_of(runtime).open_vocoder(manifest)
    return module_of(DEFAULT_RUNTIME).open_vocoder(manifest, precision)


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
) -> ClipResult:
    """Measure one clip. Broken output of the subject is a result; a broken reference is an
    InputError. `variation`: where the caller has it already.
    """
    rendition = subject.render(clip)
    defect = rendition.defect
    figures = dict[str, float]()
    if defect is None:
        figures = comparison.measure_rendition(clip, rendition)
        if not np.isfinite(list(figures.values())).all():
            defect = "holds NaN or infinity"
            figures = {}
    seconds = clip.frames / FRAMES_PER_SECOND
    natural = Natural(variation) if variation else comparison.get_natural(clip)
    return ClipResult(
        clip.id, clip.voice, seconds, clip.text, figures, natural[0], defect, natural[1]
    )


class ClipBench:
    """The fp32 reference and what is judged, open; measures one clip at a time."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self._open: dict[tuple[Path, Execution], tuple[Comparison, Subject]] = {}

    def open_subject(self, manifest: Path, execution: Execution) -> Subject:
        """The packages, open. `manifest`: the vocoder's, or the encoder's where it is judged, or a
        level's file.
        """
        # late: the executed package of a vocoder needs none of what is imported below
        reader = None
        if execution.level:
            from kokoro_ane.encoder import make_torch_backend
            from kokoro_ane.quantize import LevelFile

            checkpoint = self.reference.checkpoint
            stage = execution.stage
            level = LevelFile.open(execution.level, checkpoint, manifest.parent, stage)
            if stage == ENCODER:
                backend = make_torch_backend(level.network, checkpoint.config)
                return EncoderSubject(ClipReader(self.reference, backend))
            return VocoderSubject(self.reference, level.render)
        if execution.encoder:
            from kokoro_ane.encoder import EncoderPackage

            package = EncoderPackage(execution.encoder, execution.precision)
            reader = ClipReader(self.reference, package.backend)
            if execution.stage == ENCODER:
                return EncoderSubject(reader)
        vocoder = open_executable(manifest, execution.precision)
        if reader and execution.stage == PRODUCT:
            return ProductSubject(reader, vocoder.render, vocoder.predictor)
        return VocoderSubject(self.reference, vocoder.render, reader, vocoder.predictor)

    def measure_clip(
        self, clip: Clip, manifest: Path, execution: Execution, longest: int
    ) -> tuple[ClipResult, float]:
        """Measure one clip; the seconds that it took, without the opening of models. Packages stay
        open until others are judged. longest: frames that they take, for a line of a corpus.
        """
        # Packages of another level are closed first: fourteen open ones took 6 GB.
        key = manifest, execution
        if key not in self._open:
            comparison = COMPARISONS[execution.stage](self.reference)
            self._open = {}
            release_memory()
            self._open = {key: (comparison, self.open_subject(manifest, execution))}
        start = time.monotonic()
        if isinstance(clip, SpokenLine):
            # nothing of a line is kept: ten thousand would fill the memory
            utterance = speak_within(clip, execution.stage, longest, self.reference)
            result = replace(judge_clip(*self._open[key], utterance), id=clip.id)
            self.reference.forget(utterance)
        else:
            result = judge_clip(*self._open[key], clip)
        return result, time.monotonic() - start

    def settle(self, voices: Sequence[str]) -> None:
        """Measure what these voices add to predicted statistics, and keep it."""
        checkpoint = self.reference.checkpoint
        settle(checkpoint, {voice: checkpoint.library.blend(voice) for voice in voices})

    def measure_natural(self, task: tuple[str, Utterance], only: Sequence[str] = ()) -> Natural:
        """Measure the natural variation of a stage and a clip by every neighbour, which is written
        where the reference's variations say, or some metrics of it, which are not.
        """
        stage, clip = task
        natural = COMPARISONS[stage](self.reference, only, thorough=True).get_natural(clip)
        self.reference.forget(clip)
        return natural


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
        self._abandoned = False  # whether clips are in work whose results are not needed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._executor is None:
            return
        if kind is not None or self._abandoned:
            for process in multiprocessing.active_children():
                process.terminate()
        self._executor.shutdown(wait=True, cancel_futures=True)

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
        if self._start is None and 1 in (self.count, len(clips)):
            for clip in clips:
                yield clip, self._bench.measure_clip(clip, manifest, execution, longest)
        else:
            call = partial(
                ClipBench.measure_clip, manifest=manifest, execution=execution, longest=longest
            )
            yield from self._run_all(call, clips)

    def settle(self, clips: Sequence[Clip]) -> None:
        """Settle the voices that nobody has settled, each once, before clips ask for them."""
        if self._start:
            # each host of a cluster settles what its clips ask for: they share no cache
            return
        checkpoint = self._bench.reference.checkpoint
        voices = sorted({clip.voice for clip in clips})
        unsettled = [voice for voice in voices if not is_settled(checkpoint, voice)]
        shares = [unsettled[place :: self.count] for place in range(self.count)]
        if self.count == 1 or len(unsettled) < 2:
            self._bench.settle(unsettled)
        else:
            print(f"{len(unsettled)} voices are settled first", file=sys.stderr)
            for _ in self._run_all(ClipBench.settle, shares):
                pass

    def measure_natural(
        self, tasks: Sequence[tuple[str, Utterance]], only: Sequence[str] = ()
    ) -> Iterator[tuple[tuple[str, Utterance], Natural]]:
        """Measure the natural variation of these stages and clips; yield each with it."""
        if self._start is None and self.count == 1:
            yield from ((task, self._bench.measure_natural(task, only)) for task in tasks)
        else:
            yield from self._run_all(partial(ClipBench.measure_natural, only=only), tasks)

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
