"""What eval.quality and eval.release share: their options, and everything that a level needs to be
judged.

    with session(options, checkpoint, cache, may_build=True) as context:
        judged_level(METHODS["w8"], "streaming", context)
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import (
    CommandOptions,
    build_option,
    checkpoint_option,
    layout_option,
    option,
    seed_argument,
)
from kokoro_ane.core.contract import BOTH, CLAIMS, JUDGED, NUMERIC, SECOND
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.process import scratch
from kokoro_ane.runtimes.registry import DEFAULT_RUNTIME, RUNTIMES

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.eval.execution import Execution, Workers
    from kokoro_ane.eval.progress import Progress
    from kokoro_ane.eval.reference import Reference
    from kokoro_ane.eval.store import Store
    from kokoro_ane.quantize.corpus import Utterance
    from kokoro_ane.quantize.locator import Request

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
    layout: str = layout_option()
    build: Path = build_option()
    clips: int | None = option("how many clips (default: all, 24 a set; a verdict needs 24)")
    set: str | None = option(
        f"texts and voices to judge on (default: {BOTH}, 24 sentences each)",
        choices=(JUDGED, SECOND, BOTH),
    )
    seed: int = option("of the noise; other seeds are seed + 1 and on", 0, type=seed_argument)
    precision: str = option("how packages are executed", "declared", choices=PRECISIONS)
    features: str = option("the level's features, by whom", PYTORCH, choices=FEATURES)
    claim: str = option("a device claim stays UNDECIDED here", NUMERIC, choices=CLAIMS)
    workers: int = option("processes that measure clips, to the same figures", DEFAULT_WORKERS)
    all_clips: bool = option("measure every clip, also where one has broken a gate", False)
    fresh: bool = option(
        "measure everything here, whatever is stored or was measured before", False
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
    clips: "tuple[Utterance, ...]"
    execution: "Execution"
    may_build: bool
    workers: "Workers"
    progress: "Progress"

    def request(self, method: str = "", layout: str = "", encoder: str = "") -> "Request":
        """Request packages of these levels, where this judgement looks for them."""
        from kokoro_ane.quantize.locator import Request

        build, source = self.options.build, self.options.checkpoint
        return Request(self.checkpoint, build, method, layout, source=source, encoder=encoder)


@contextmanager
def session(
    options: SessionOptions,
    checkpoint: "Checkpoint",
    cache: Path,
    may_build: bool,
) -> Iterator[JudgeContext]:
    """Clips, fp32 reference, what was measured before under `cache`, worker processes and a
    progress display, until the block ends.
    """
    from kokoro_ane.eval.execution import (
        Execution,
        Workers,
        arithmetic,
        shared_cores,
    )
    from kokoro_ane.eval.natural import Variations
    from kokoro_ane.eval.progress import Progress
    from kokoro_ane.eval.reference import Reference, judged_clips
    from kokoro_ane.eval.store import Store
    from kokoro_ane.pipeline.package_builds import build_package
    from kokoro_ane.quantize.locator import HALF, Request, built_encoder

    if not 1 <= options.workers <= MAX_WORKERS:
        raise InputError(f"--workers {options.workers}: give 1 to {MAX_WORKERS}")
    runtime = getattr(options, "runtime", DEFAULT_RUNTIME)
    if options.features == PACKAGE and not RUNTIMES[runtime].packages:
        raise InputError(
            f"--features {PACKAGE} is of the encoder package: {RUNTIMES[runtime].title} runs none"
        )
    precision = arithmetic(runtime, options.precision)
    package = (
        built_encoder(
            Request(checkpoint, options.build, HALF, source=options.checkpoint),
            build_package if may_build else None,
        )
        if options.features == PACKAGE
        else ()
    )
    with ExitStack() as stack:
        # the clips too: their features' last bits hang on the number of threads
        stack.enter_context(shared_cores(options.workers))
        # 24 sentences leave a mean of 0.185 dB between 0.167 and 0.205; 48 decide
        clips = tuple(judged_clips(checkpoint, options.set or BOTH, options.clips))
        # Nothing is read, and nothing is left behind: figures of this run alone.
        if options.fresh:
            cache, variations = stack.enter_context(scratch()), Variations()
        else:
            variations = Variations.of(checkpoint, options.seed)
        print(variations.line, file=sys.stderr)
        store = Store.open(cache, checkpoint, options.seed, variations.sha256)
        reference = Reference(checkpoint, options.seed, store.folder / "renders", variations)
        yield JudgeContext(
            options=options,
            checkpoint=checkpoint,
            reference=reference,
            store=store,
            clips=clips,
            execution=Execution(precision, package),
            may_build=may_build,
            workers=stack.enter_context(Workers(reference, options.workers)),
            progress=stack.enter_context(Progress()),
        )
