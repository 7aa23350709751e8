"""Clips measured on a Dask cluster: a scheduler and two workers, started here as processes."""

import io
import os
import pickle
import subprocess
import sys
import tarfile
import time
from functools import partial

import pytest

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.data_files import read_json
from kokoro_ane.eval import cluster as cluster_module
from kokoro_ane.eval.cluster import Cluster, build_archive, list_versions, pack_call
from kokoro_ane.eval.execution import Execution
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.release import main as release
from kokoro_ane.eval.subjects import ENCODER
from kokoro_ane.eval.workers import Workers
from kokoro_ane.quantize import LevelFile
from kokoro_ane.speech.corpus import SpokenLine
from kokoro_ane.speech.speech import load_own_speech
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE
from tests.runtimes.test_portable import needs

needs_dask = needs("distributed")
LEVEL = "w8g"


def start(folder, *words):
    """A process of Dask, whose output is in a file."""
    with (folder / f"{len([*folder.iterdir()])}.log").open("w") as log:
        # its own folder is no place to import from
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", *words], cwd=folder, stdout=log, stderr=log, env=environment
        )


class Processes:
    """A scheduler and its workers."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "scheduler.json"
        self.all = [
            start(folder, "distributed.cli.dask_scheduler", "--port", "0", *self.plain),
        ]
        self.workers = [self.add() for _ in range(2)]
        self.address = self.wait_for([1, 1])

    @property
    def plain(self):
        return "--scheduler-file", str(self.file), "--no-dashboard"

    def add(self, threads=1):
        flags = "--nthreads", str(threads), "--no-nanny", "--local-directory", str(self.folder)
        worker = start(self.folder, "distributed.cli.dask_worker", *self.plain, *flags)
        self.all.append(worker)
        return worker

    def wait_for(self, threads):
        """The scheduler's address, when its workers are those with so many threads."""
        from distributed import Client

        until = time.monotonic() + 600  # of a busy machine
        with Client(scheduler_file=str(self.file), timeout=120, set_as_default=False) as client:
            while sorted(client.nthreads().values()) != threads:
                assert time.monotonic() < until, "the workers did not start"
                time.sleep(0.2)
            return client.scheduler.address

    def end(self):
        for process in self.all:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def checkpoint():
    return open_checkpoint(str(DEMO_VOICE))


@pytest.fixture(scope="module")
def level(checkpoint, tmp_path_factory):
    return LevelFile.open(LEVEL, checkpoint, tmp_path_factory.mktemp("build"), ENCODER)


@pytest.fixture(scope="module")
def clips(checkpoint):
    """Clips of a set, and lines that are spoken where they are measured."""
    tuning = sorted(load_own_speech(checkpoint, "tuning"), key=lambda clip: clip.frames)[:8]
    lines = [SpokenLine(f"corpus-{clip.id}", *line_of(clip)) for clip in tuning[:4]]
    return [*tuning, *lines]


def line_of(clip):
    return clip.voice, clip.text, clip.phonemes, clip.speed


def measured(workers, level, clips, done=lambda _: None):
    """What is measured of each clip, by its id."""
    execution, results = Execution("torch", (), ENCODER, LEVEL), {}
    for clip, (result, _) in workers.measure(level.manifest.path, execution, clips, 1200):
        results[clip.id] = result
        done(results)
    return results


@pytest.fixture(scope="module")
def expected(checkpoint, level, clips):
    """The figures of this process."""
    with Workers(Reference(checkpoint, 0), 1) as workers:
        return measured(workers, level, clips)


@pytest.fixture
def processes(tmp_path):
    started = Processes(tmp_path)
    yield started
    started.end()


def at(address, checkpoint):
    """Workers of a scheduler."""
    return Workers(Reference(checkpoint, 0), 1, partial(Cluster, address))


@needs_dask
@pytest.mark.slow
def test_a_cluster_s_figures_are_those_of_this_process(
    processes, checkpoint, level, clips, expected
):
    """To the last bit, though a worker has no file but what was sent; a worker that is killed costs
    its clips, which the other one measures.
    """
    address = processes.address
    with at(address, checkpoint) as workers:
        assert workers.count == 2
        assert measured(workers, level, clips) == expected
    sent = [path.name for path in processes.folder.rglob("*.safetensors")]
    assert sent.count(level.path.name) == 2

    def kill(results):
        if len(results) == 1:
            processes.workers[0].kill()

    with at(address, checkpoint) as workers:
        assert measured(workers, level, clips, kill) == expected
    assert processes.workers[0].wait() < 0


@needs_dask
@pytest.mark.slow
def test_a_release_by_a_scheduler_is_decided_as_by_local_workers(processes, built, tmp_path):
    flags = f"--checkpoint {built[0].folder} --build {built[1]} --no-build --layout padded"
    flags += " --methods w8 --set judged --clips 2 --all-clips"
    where = {"local": "--workers 1", "cluster": f"--scheduler {processes.address}"}
    for name, workers in where.items():
        assert release([*flags.split(), *workers.split(), "--out", str(tmp_path / name)]) == 3
    decisions = [read_json(tmp_path / name / "decision.json", "")["levels"][0] for name in where]
    local, cluster = ([clip["figures"] for clip in level["clips"]] for level in decisions)
    assert len(local) == 2
    assert cluster == local


@needs_dask
@pytest.mark.slow
def test_a_worker_that_is_unlike_is_refused_by_name(
    processes, checkpoint, level, clips, monkeypatch
):
    """With other sources, and with threads that would measure at once."""
    address, other = processes.address, r"worker tcp://\S+ has sources \w{12}, not \w{12}"
    with at(address, checkpoint) as workers:
        monkeypatch.setattr(cluster_module, "MEASURING", ("core",))
        list_versions.cache_clear()
        refused(other, measured, workers, level, clips)
    monkeypatch.undo()
    list_versions.cache_clear()
    for worker in processes.workers:
        worker.kill()
    processes.add(threads=3)
    processes.wait_for([3])
    with at(address, checkpoint) as workers:
        refused(r"worker tcp://\S+ has threads 3, not 1", measured, workers, level, clips)


@needs_dask
def test_where_no_scheduler_answers(checkpoint, monkeypatch):
    monkeypatch.setattr(cluster_module, "ANSWER_S", 0.2)
    where, reference = "tcp://127.0.0.1:9", Reference(checkpoint, 0)
    refused(f"--scheduler {where}: ", Cluster, where, reference, 1)
    refused("--scheduler nowhere: ", Cluster, "nowhere", reference, 1)


def test_what_a_call_names_by_a_path_is_sent(tmp_path):
    """A file in a folder goes with it."""
    voice = tmp_path / "folder" / "voices" / "a.npy"
    voice.parent.mkdir(parents=True)
    voice.write_bytes(b"voice")
    names = {"folder": tmp_path / "folder", "voice": voice, "nothing": tmp_path / "missing"}
    data, paths = pack_call(names)
    assert paths == {tmp_path / "folder", tmp_path / "missing"}
    with tarfile.open(fileobj=io.BytesIO(build_archive(paths))) as tar:
        tar.extractall(tmp_path / "worker", filter="data")
    reader = pickle.Unpickler(io.BytesIO(data))
    reader.persistent_load = lambda path: tmp_path / "worker" / path[1:]
    there = reader.load()
    assert there["voice"].read_bytes() == b"voice"
    assert there["voice"].is_relative_to(there["folder"])
    assert not there["nothing"].exists()
