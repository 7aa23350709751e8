"""What eval.quality and eval.release share: their options, and everything that a level needs to be
judged.

    with open_session(options, checkpoint, cache, may_build=True) as context:
        judge_method(METHODS["w8"], "streaming", context)
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core import (
    BOTH,
    CLAIMS,
    JUDGED,
    NUMERIC,
    SECOND,
    THIRD,
    VOICES,
    CommandOptions,
    InputError,
    build_option,
    checkpoint_option,
    layout_option,
    option,
    require_installed,
    scratch,
    seed_argument,
)
from kokoro_ane.runtimes import DEFAULT_RUNTIME, RUNTIMES

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint
    from kokoro_ane.eval.execution import Execution
    from kokoro_ane.eval.progress import Progress
    from kokoro_ane.eval.reference import Reference
    from kokoro_ane.eval.store import Store
    from kokoro_ane.eval.workers import Workers
    from kokoro_ane.quantize import PackageRequest
    from kokoro_ane.speech import Clip

# who computes what a level is given: PyTorch in fp32; the encoder package
FEATURES = (PYTORCH, PACKAGE) = ("torch", "package")
# of mlprogram: Core ML's storage types; a model of the Neural Engine's arithmetic
PRECISIONS = ("declared", "ane_numerics")
MAX_WORKERS = 64
DEFAULT_WORKERS = min(2, os.cpu_count() or 1)


@dataclass(frozen=True, kw_only=True)
class SessionOptions(CommandOptions):
    """How levels are judged; the options that quality and release share."""

    checkpoint: str | None = checkpoint_option()
    layout: str = layout_option(rare=True)
    build: Path = build_option()
    clips: int | None = option("how many clips (default: all; a verdict needs 24)")
    set: str | None = option(
        f"{JUDGED}, {SECOND}, {VOICES}, {THIRD}, or {BOTH}: the first three (default)",
        choices=(JUDGED, SECOND, VOICES, THIRD, BOTH),
        metavar="TEXTS",
    )
    seed: int = option(
        "of the noise; other seeds are seed + 1 and on", 0, type=seed_argument, rare=True
    )
    precision: str = option("how packages are executed", "declared", choices=PRECISIONS, rare=True)
    features: str = option("the level's features, by whom", PYTORCH, choices=FEATURES, rare=True)
    claim: str = option("a device claim stays UNDECIDED here", NUMERIC, choices=CLAIMS, rare=True)
    workers: int = option(
        "processes that measure clips, to the same figures", DEFAULT_WORKERS, rare=True
    )
    scheduler: str = option(
        "of a Dask cluster, whose workers measure clips in their place",
        "",
        rare=True,
        metavar="tcp://HOST:PORT",
    )
    all_clips: bool = option(
        "measure every clip, also where one has broken a gate", False, rare=True
    )
    fresh: bool = option(
        "measure everything here, whatever is stored or was measured before", False, rare=True
    )


@dataclass(frozen=True)
class JudgeContext:
    """Everything that a level needs to be judged: packages, fp32 reference, clips, what was
    measured before.
    """

    options: SessionOptions
    checkpoint: "Checkpoint"
    reference: "Reference"
    store: "Store"
    clips: "tuple[Clip, ...]"
    execution: "Execution"
    may_build: bool
    workers: "Workers"
    progress: "Progress"

    def make_request(
        self, method: str = "", layout: str = "", encoder: str = ""
    ) -> "PackageRequest":
        """Request packages of these levels, where this judgement looks for them."""
        from kokoro_ane.quantize import PackageRequest

        build = self.options.build
        source = self.options.checkpoint
        return PackageRequest(
            self.checkpoint, build, method, layout, source=source, encoder=encoder
        )


def report_missing_voices(checkpoint: "Checkpoint", chosen: str) -> None:
    """Say on stderr how many lines are not judged since the checkpoint lacks their voices."""
    from kokoro_ane.speech import list_spoken_lines, read_speech_lines

    # Only the set of voices has speakers that a checkpoint may lack.
    for name in (VOICES,) if chosen == BOTH else (chosen,):
        every = read_speech_lines(name)
        left_out = len(every) - len(list_spoken_lines(checkpoint, name))
        if left_out:
            print(
                f"{left_out} of {len(every)} lines of the set {name!r} are not judged:"
                f" {checkpoint.name} lacks their voices",
                file=sys.stderr,
            )


def get_corpus(options: SessionOptions) -> Path | None:
    """The user's own corpus, where that is judged; only quality has one."""
    corpus: Path | None = getattr(options, "corpus", None)
    return corpus


def load_session_clips(options: SessionOptions, checkpoint: "Checkpoint") -> "tuple[Clip, ...]":
    """The clips of the sets with their features, or the lines of a corpus, which are spoken when
    their turn comes.
    """
    from kokoro_ane.eval.reference import list_judged_clips, take_clips
    from kokoro_ane.speech import read_corpus

    if corpus := get_corpus(options):
        return tuple(take_clips(read_corpus(corpus, checkpoint), options.clips))
    # 24 sentences leave a mean of 0.185 dB between 0.167 and 0.205; 48 decide
    clips = tuple(list_judged_clips(checkpoint, options.set or BOTH, options.clips))
    report_missing_voices(checkpoint, options.set or BOTH)
    return clips


@contextmanager
def open_session(
    options: SessionOptions,
    checkpoint: "Checkpoint",
    cache: Path,
    may_build: bool,
) -> Iterator[JudgeContext]:
    """Clips, fp32 reference, what was measured before under `cache`, worker processes and a
    progress display, until the block ends.
    """
    from kokoro_ane.eval.cluster import Cluster
    from kokoro_ane.eval.execution import Execution, name_arithmetic
    from kokoro_ane.eval.natural import Variations
    from kokoro_ane.eval.progress import Progress
    from kokoro_ane.eval.reference import Reference
    from kokoro_ane.eval.store import Store
    from kokoro_ane.eval.workers import Workers, split_cores
    from kokoro_ane.pipeline import build_package
    from kokoro_ane.quantize import HALF, PackageRequest, ensure_encoder

    if not 1 <= options.workers <= MAX_WORKERS:
        raise InputError(f"--workers {options.workers}: give 1 to {MAX_WORKERS}")
    runtime = getattr(options, "runtime", DEFAULT_RUNTIME)
    if options.features == PACKAGE and not RUNTIMES[runtime].is_for_packages:
        raise InputError(
            f"--features {PACKAGE} is of the encoder package: {RUNTIMES[runtime].title} runs none"
        )
    if options.scheduler:
        require_installed("--scheduler", "cluster")
    precision = name_arithmetic(runtime, options.precision)
    # The encoder package is made before the workers start, which all read it.
    package = (
        ensure_encoder(
            PackageRequest(checkpoint, options.build, HALF, source=options.checkpoint),
            build_package if may_build else None,
        )
        if options.features == PACKAGE
        else ()
    )
    with ExitStack() as stack:
        # the clips too: their features' last bits hang on the number of threads
        processes = (os.cpu_count() or 1) if options.scheduler else options.workers
        stack.enter_context(split_cores(processes))
        clips = load_session_clips(options, checkpoint)
        # Nothing is read, and nothing is left behind: figures of this run alone.
        if options.fresh:
            cache = stack.enter_context(scratch())
            variations = Variations()
        else:
            variations = Variations.for_checkpoint(checkpoint, options.seed)
        print(variations.line, file=sys.stderr)
        store = Store.open(cache, checkpoint, options.seed, variations.sha256)
        # ten thousand renders would fill the disk
        renders = None if get_corpus(options) else store.folder / "renders"
        reference = Reference(checkpoint, options.seed, renders, variations)
        # Without a scheduler, Workers starts processes of this machine.
        started = partial(Cluster, options.scheduler) if options.scheduler else None
        yield JudgeContext(
            options=options,
            checkpoint=checkpoint,
            reference=reference,
            store=store,
            clips=clips,
            execution=Execution(precision, package),
            may_build=may_build,
            workers=stack.enter_context(Workers(reference, options.workers, started)),
            progress=stack.enter_context(Progress()),
        )
