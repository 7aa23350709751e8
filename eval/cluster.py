"""Clips measured by the workers of a Dask scheduler, through the interface of local processes
(concurrent.futures): eval/workers.py hands out the same calls to both.

    cluster = Cluster("tcp://10.0.0.5:8786", reference, threads=1)
    cluster.submit(run_in_worker, call, item).result()

The checkpoint and the packages of a level go to each worker once, and a call's paths lead there.
What a worker runs is compared with what runs here before it measures: other versions give other
figures. When a worker ends, Dask measures its clips on another one.
"""

import io
import pickle
import tarfile
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from kokoro_ane.core import (
    PACKAGE_TOOLS,
    InputError,
    Manifest,
    cache_root,
    source_sha256,
    tool_versions,
)
from kokoro_ane.eval.natural import LISTENERS, VARIATION
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.store import MEASURING
from kokoro_ane.eval.workers import open_bench

ANSWER_S = 10  # within which a scheduler has to answer


@cache
def list_versions() -> dict[str, str]:
    """What figures depend on beside checkpoint and packages: sources and libraries, by name."""
    libraries = tool_versions((*PACKAGE_TOOLS, *LISTENERS))
    return {"sources": source_sha256(*MEASURING)[:12], **libraries}


class Cluster(Executor):
    """Responsibilities: 1. send what a call needs; 2. hand out calls."""

    def __init__(self, scheduler: str, reference: Reference, threads: int) -> None:
        """`reference`: without open models; `threads`: of PyTorch in each worker.

        Raises InputError: no scheduler there, no workers, one that lacks a library.
        """
        from distributed import Client, KilledWorker

        try:
            self._client = Client(scheduler, timeout=ANSWER_S, set_as_default=False)
            # One answer from each worker; a worker without a library fails here already.
            self.count = len(self._client.run(list_versions))
        except (OSError, ValueError, ImportError) as problem:
            raise InputError(f"--scheduler {scheduler}: {problem}") from None
        if not self.count:
            raise InputError(f"--scheduler {scheduler} has no workers: `dask worker` starts one")
        self.lost = KilledWorker  # of a clip that ended several workers
        # pure=False: the same call twice is two tasks, not one whose result is shared.
        self._executor = self._client.get_executor(pure=False)
        self._sent: dict[frozenset[Path], Any] = {}
        # Renders are not sent. Workers keep the natural variation in the caches of their users.
        folder = reference.variations.folder
        variations = replace(reference.variations, folder=None)
        sent = replace(reference, folder=None, variations=variations)
        self._bench = self._client.id, sent, threads, folder.name if folder else ""

    def submit(self, call: Callable[..., Any], /, *inputs: Any, **options: Any) -> "Future[Any]":
        """As Executor's. What the inputs name by a path is sent along."""
        task, paths = pack_call((*self._bench, partial(call, *inputs, **options)))
        # Clips of a level share their packages, so an archive is built once a level.
        if paths not in self._sent:
            # what was sent before leaves the workers' memory with its last call
            self._sent = {paths: self._client.scatter(build_archive(paths), broadcast=True)}
        sent = self._sent[paths]
        future: Future[Any] = self._executor.submit(run_call, task, list_versions(), sent.key, sent)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the connection; the workers stay. Calls that have not ended are cancelled."""
        self._executor.shutdown(wait=False)
        self._client.close()


def pack_call(value: Any) -> tuple[bytes, frozenset[Path]]:
    """A value as a worker reads it, and the folders and files that its paths lie in."""
    stream = io.BytesIO()
    paths = set[Path]()

    def place(value: Any) -> str | None:
        if isinstance(value, Path):
            paths.add(value.absolute())
            return str(value.absolute())
        return None

    packer = pickle.Pickler(stream)
    packer.persistent_id = place  # type: ignore[method-assign]
    packer.dump(value)
    # A path inside a folder that goes along needs no entry of its own.
    whole = frozenset(path for path in paths if not paths.intersection(path.parents))
    return stream.getvalue(), whole


def build_archive(paths: frozenset[Path]) -> bytes:
    """The folders and files of these that are there, manifests with their packages."""
    stream = io.BytesIO()
    # links of the hub's cache become files
    with tarfile.open(fileobj=stream, mode="w", dereference=True) as tar:
        for path in sorted(filter(Path.exists, paths)):
            tar.add(path)
            if path.suffix == ".json":
                tar.add(Manifest.load(path).package_path)
    return stream.getvalue()


def run_call(task: bytes, wanted: dict[str, str], name: str, data: bytes) -> Any:
    """Do a call in a worker, whose bench stays open for the next one. `data`: an archive, which is
    unpacked once in a folder of that name. Raises InputError where `wanted` are other versions, or
    the worker has several threads.
    """
    from distributed import get_worker

    worker: Any = get_worker()
    # Several threads of a worker would share one bench, which measures a clip at a time.
    theirs = list_versions() | {"threads": str(worker.state.nthreads)}
    if unlike := (wanted | {"threads": "1"}).items() - theirs.items():
        # The first difference by name, so that every worker reports the same one.
        part, ours = min(unlike)
        raise InputError(f"worker {worker.address} has {part} {theirs[part]}, not {ours}")
    folder = Path(worker.local_directory, name)
    if not folder.is_dir():
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tar.extractall(folder, filter="data")
    reader = pickle.Unpickler(io.BytesIO(task))
    # An absolute path begins with a slash, which would lead out of the folder.
    reader.persistent_load = lambda path: folder / path[1:]  # type: ignore[method-assign]
    client, reference, threads, kept, call = reader.load()
    # Models stay open from call to call until another client measures.
    if getattr(worker, "measures_for", None) != client:
        cached = cache_root() / VARIATION / kept if kept else None
        variations = replace(reference.variations, folder=cached)
        open_bench(replace(reference, variations=variations), threads)
        worker.measures_for = client
    return call()
