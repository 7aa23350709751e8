"""What eval.quality and eval.release share: their flags, and everything that a level needs to be judged.

with session(arguments, checkpoint, levels=8) as context:
    judged_level(METHODS["w8"], "literal", context)
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument, form_argument, seed_argument
from core.contract import BOTH, JUDGED, SECOND
from core.errors import InputError
from eval.claims import CLAIMS, NUMERIC
from pipeline.runtimes import DEFAULT_RUNTIME, RUNTIMES

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from eval.context import JudgeContext

FEATURES = (PYTORCH, PACKAGE) = ("torch", "package")  # who computes what a level is given: PyTorch in fp32; the encoder package
PRECISIONS = ("declared", "ane_numerics")  # of mlprogram: Core ML's storage types; a model of the Neural Engine's arithmetic
MAX_WORKERS = 64


def session_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    checkpoint_argument(parser)
    form_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--clips", type=int, help="how many clips (default: all, 24 a set; a verdict needs 24)")
    parser.add_argument("--set", choices=(JUDGED, SECOND, BOTH), default=JUDGED, help="texts and voices to judge on (default: %(default)s)")
    parser.add_argument("--seed", type=seed_argument, default=0, help="of the noise; the seed floor takes seed + 1 (default: %(default)s)")
    parser.add_argument("--precision", choices=PRECISIONS, default="declared", help="how packages are executed (default: %(default)s)")
    parser.add_argument("--features", choices=FEATURES, default=PYTORCH, help="the level's features, by whom (default: %(default)s)")
    parser.add_argument("--claim", choices=CLAIMS, default=NUMERIC, help="a device claim stays UNDECIDED here (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes that measure clips, to the same figures (default: %(default)s)")


@contextmanager
def session(arguments: argparse.Namespace, checkpoint: "Checkpoint", levels: int, cache: Path, may_build: bool) -> "Iterator[JudgeContext]":
    """Clips, fp32 truth, what was measured before under `cache`, worker processes and a progress display, until the block ends."""
    from eval.context import JudgeContext
    from eval.corpus import Truth, judged_clips
    from eval.execution import Execution
    from eval.packages import built_encoder
    from eval.progress import Progress
    from eval.store import Store
    from eval.subjects import arithmetic
    from eval.workers import Workers, shared_cores

    if not 1 <= arguments.workers <= MAX_WORKERS:
        raise InputError(f"--workers {arguments.workers}: give 1 to {MAX_WORKERS}")
    runtime = getattr(arguments, "runtime", DEFAULT_RUNTIME)
    if arguments.features == PACKAGE and not RUNTIMES[runtime].packages:
        raise InputError(f"--features {PACKAGE} is of the encoder package: {RUNTIMES[runtime].title} runs none")
    precision = arithmetic(runtime, arguments.precision)
    package = built_encoder(checkpoint, arguments.checkpoint, arguments.build, may_build) if arguments.features == PACKAGE else ()
    with shared_cores(arguments.workers):  # the clips too: their features' last bits hang on the number of threads
        chosen = judged_clips(checkpoint, arguments.set, arguments.clips)
        store = Store.open(cache, checkpoint, arguments.seed)
        truth = Truth(checkpoint, arguments.seed, store.renders)
        with Workers(truth, store.renders, arguments.workers) as workers, Progress(levels * len(chosen)) as progress:
            yield JudgeContext(
                checkpoint=checkpoint,
                source=arguments.checkpoint,
                build=arguments.build,
                truth=truth,
                store=store,
                texts=arguments.set,
                clips=tuple(chosen),
                execution=Execution.of(precision, package),
                claim=arguments.claim,
                may_build=may_build,
                workers=workers,
                progress=progress,
            )
