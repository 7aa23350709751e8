"""Clips measured by the workers of a Dask cluster that is there already: `--scheduler ADDRESS` of
quality and release.

    with cluster("tcp://10.0.0.5:8786", store.key) as engine:
        with Workers(reference, engine) as workers: ...

A worker (`OMP_NUM_THREADS=1 dask worker ADDRESS --nthreads 1`) sees checkpoint and build folder
under the same paths. It makes the store's key anew from its own sources, libraries, checkpoint and
threads, and refuses a run with another. The clip of a worker that is lost is measured by another
one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval.execution import Engine, Execution, Plan, Timed, has_bench, measured_here
from kokoro_ane.eval.store import MEASURING, store_key
from kokoro_ane.quantize.sources import source_sha256

TIMEOUT_S = 10  # for the scheduler's first answer
# what it was asked for is not there
STRANGE = "a worker has no kokoro-ane, or another version of it"
# Dask hands it out three times more
LOST = (
    "four workers were lost with one clip (the scheduler's log says how), or the scheduler itself"
)


@contextmanager
def cluster(address: str, key: Mapping[str, Any]) -> Iterator[Engine]:
    """The workers that the scheduler has. InputError: none, no scheduler, no Dask."""
    try:
        from distributed import Client, KilledWorker
        from distributed.comm import CommClosedError
    except ImportError:
        raise InputError('--scheduler needs Dask: pip install "kokoro-ane[cluster]"') from None
    try:
        client = Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as problem:
        # TimeoutError and CommClosedError among them
        raise InputError(
            f"--scheduler {address}: no scheduler answers there ({type(problem).__name__})"
        ) from None
    with client:
        count = len(client.ncores())
        if not count:
            raise InputError(
                f"--scheduler {address} has no worker: `OMP_NUM_THREADS=1 dask worker {address}"
                " --nthreads 1` is one"
            )
        lost = {
            KilledWorker: LOST,
            CommClosedError: LOST,
            ImportError: STRANGE,
            AttributeError: STRANGE,
        }
        yield Engine(
            count,
            lambda _: client.get_executor(pure=False),
            partial(measured_there, dict(key)),
            lost,
        )


def measured_there(
    key: Mapping[str, Any],
    plan: Plan,
    package: str,
    manifest: Path,
    execution: Execution,
    *of_clip: Any,
) -> Timed:
    """Measure a clip on a worker, which has to be the same as the run's own process."""
    from distributed import get_worker

    worker = get_worker()
    if worker.state.nthreads != 1:
        raise InputError(
            f"worker {worker.address} measures {worker.state.nthreads} clips at once: start it with"
            " --nthreads 1"
        )
    require_same(key, plan, worker.address)
    name = Execution.of(execution.precision, execution.encoder, execution.stage).name
    if name != execution.name:
        raise InputError(
            f"worker {worker.address} finds another encoder under {execution.features}: {name},"
            f" not {execution.name}"
        )
    return measured_here(plan, package, manifest, execution, *of_clip)


def require_same(key: Mapping[str, Any], plan: Plan, address: str) -> None:
    """Raise InputError where this process would give other figures, or give them under another
    key.
    """
    worker_key = (
        {"source_sha256": source_sha256(*MEASURING)}
        if has_bench(plan)
        else store_key(
            Checkpoint.from_folder(plan.checkpoint.folder), plan.seed, plan.variations.sha256
        )
    )
    other = next((name for name, value in worker_key.items() if value != key.get(name)), None)
    if other is not None:
        difference = (
            "some differ"
            if isinstance(worker_key[other], dict)
            else f"{str(worker_key[other])[:12]} there, {str(key.get(other))[:12]} here"
        )
        same = "sources, libraries, checkpoint and OMP_NUM_THREADS must be the same"
        raise InputError(f"worker {address} has another {other} ({difference}): {same}")
