"""Clips on a Dask cluster of two processes on the loopback address: the same figures, one worker
killed, strangers refused.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.eval import cluster as module
from kokoro_ane.eval.cluster import cluster, require_same
from kokoro_ane.eval.execution import Engine, Execution, Plan, Workers
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.store import store_key
from kokoro_ane.quantize.speech import own_speech

pytest.importorskip(
    "distributed", reason='THE CLUSTER IS NOT TESTED: pip install "kokoro-ane[cluster]"'
)

Start = Callable[..., subprocess.Popen]
HOST = ("--host", "127.0.0.1", "--no-dashboard")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[str, Start]]:
    """The address of a scheduler, and what starts a worker of it."""
    file, running = tmp_path / "scheduler.json", []

    def start(*command: str, threads: int = 1) -> subprocess.Popen:
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        with (tmp_path / "log").open("ab") as log:
            words = [sys.executable, "-m", "dask", *command, *HOST]
            running.append(
                subprocess.Popen(words, env=environment, stdout=log, stderr=log, cwd="/")
            )
        return running[-1]

    start("scheduler", "--port", "0", "--scheduler-file", str(file))
    for _ in range(1200):  # two minutes
        if file.is_file() and file.stat().st_size > 0:
            break
        time.sleep(0.1)
    address = json.loads(file.read_text(encoding="utf-8"))["address"]
    yield (
        address,
        lambda *flags, threads=1: start(
            "worker", address, "--no-nanny", "--nthreads", "1", *flags, threads=threads
        ),
    )
    for process in running:
        process.kill()
        process.wait()


@contextmanager
def workers_of(
    placed: tuple[Checkpoint, Path], address: str, folder: Path, count: int
) -> Iterator[Workers]:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=120)
    with (
        cluster(address, store_key(placed[0], 0)) as engine,
        Workers(Reference(placed[0], 0, folder), engine) as workers,
    ):
        yield workers


@pytest.mark.slow
def test_a_lost_worker_costs_its_clip_only(
    placed: tuple[Checkpoint, Path], started: tuple[str, Start], tmp_path: Path
) -> None:
    """Killed while it measures: every clip is found, and to the last digit as this process finds
    it.
    """
    address, start = started
    short = sorted(own_speech(placed[0]), key=lambda clip: clip.frames)[:4]
    manifest, execution = placed[1] / "KokoroVocoder-tiny-fp16.json", Execution.of("declared")
    with Workers(Reference(placed[0], 0), Engine.of_processes(1)) as alone:
        expected = {
            clip.id: timed.result for clip, timed in alone.measure(manifest, execution, short)
        }
    lost, _ = start(), start()
    with workers_of(placed, address, tmp_path / "two", 2) as workers:
        results = {}
        for clip, (result, _) in workers.measure(manifest, execution, short):
            results[clip.id] = result
            lost.kill()
    assert results == expected
    assert len(results) == 4


def test_strange_workers_are_refused(
    placed: tuple[Checkpoint, Path], started: tuple[str, Start], tmp_path: Path
) -> None:
    """In one line, before anything is measured: by the worker itself, since others may join
    later.
    """
    address, start = started
    clip, execution = (
        min(own_speech(placed[0]), key=lambda clip: clip.frames),
        Execution.of("declared"),
    )

    def refused(message: str) -> None:
        with (
            pytest.raises(InputError, match=message) as problem,
            workers_of(placed, address, tmp_path / "renders", 1) as workers,
        ):
            list(workers.measure(placed[1] / "KokoroVocoder-tiny-fp16.json", execution, [clip]))
        assert "\n" not in str(problem.value)

    strange = start(threads=2)
    refused(r"^worker tcp://\S+ has another threads \(2 there, 1 here\): .*OMP_NUM_THREADS")
    strange.kill()
    strange.wait()
    start("--nthreads", "2")
    refused("measures 2 clips at once: start it with --nthreads 1")


@pytest.mark.parametrize("other", ["source_sha256", "libraries", "checkpoint_sha256"])
def test_every_part_of_the_key_has_to_agree(placed: tuple[Checkpoint, Path], other: str) -> None:
    key, plan = store_key(placed[0], 0), Plan(placed[0], 0, placed[1], 1)
    require_same(key, plan, "here")
    with pytest.raises(InputError, match=f"^worker here has another {other} "):
        require_same(
            key | {other: {"torch": "1"} if other == "libraries" else "0" * 64}, plan, "here"
        )


def test_no_scheduler_and_no_worker(
    placed: tuple[Checkpoint, Path],
    started: tuple[str, Start],
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 1)
    given = (
        f"--method fp16 --checkpoint {placed[0].folder} --build {placed[1]} --clips 1 --scheduler"
    ).split()
    for address, message in (
        ("tcp://127.0.0.1:9", "no scheduler answers"),
        ("nonsense:", "no scheduler"),
        (started[0], "has no worker"),
    ):
        assert quality([*given, address]) == 2
        assert message in (said := capsys.readouterr().err.strip().splitlines())[-1]
        assert said[-1].startswith("error: --scheduler")
