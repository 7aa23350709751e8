"""In which order clips are measured, what ends that early, and what a worker that dies costs."""

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest

from kokoro_ane.eval import workers as pool
from kokoro_ane.eval.clip_figures import measure_clips, order_clips
from kokoro_ane.eval.execution import Execution
from kokoro_ane.eval.gates import COMMON, ENCODER_GATES, PRODUCT_GATES, select_gates
from kokoro_ane.eval.judge import REJECT, SHIP, is_rejected, judge_results
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.workers import MOST_LOSSES, Workers
from kokoro_ane.speech.corpus import Utterance
from tests.commands import refused
from tests.eval.release_build import clips as figures

MANIFEST = SimpleNamespace(
    package_sha256="0" * 64, path=Path("x.json"), buckets=(1200,), layout="padded"
)


def clip(number):
    empty = np.zeros(0)
    durations = np.array([10 + 7 * number % 24], np.int32)
    return Utterance(f"judged-{number:02d}", "v", "", "", empty, durations, empty, empty)


CLIPS = tuple(clip(number) for number in range(24))


def test_two_of_middle_length_first_and_the_last_is_short():
    order = order_clips(CLIPS)
    frames = [each.frames for each in order]
    assert sorted(each.id for each in order) == [each.id for each in CLIPS]
    assert order == order_clips(CLIPS[::-1])
    assert frames[0] > frames[1] > min(frames)
    assert frames[2:] == sorted(frames[2:], reverse=True)
    assert order_clips(CLIPS[:1]) == [CLIPS[0]]


class Bench:
    """A context whose clips are done last one first. `results`: what is measured of each."""

    def __init__(self, results, all_clips=False):
        self.results = {result.id: result for result in results}
        self.cache = {}
        self.store = SimpleNamespace(find=self.cache.get, keep=self.keep)
        self.execution, self.clips = Execution("declared"), CLIPS
        self.options = SimpleNamespace(all_clips=all_clips)
        self.progress = SimpleNamespace(start_level=lambda *_: None, count_clip=lambda *_: None)
        self.workers, self.count = self, 2
        self.reference = None

    def keep(self, name, data):
        return self.cache.setdefault(name, data)

    def measure(self, _manifest, _execution, clips, _longest):
        for pair in zip(clips[1::2], clips[::2], strict=True):
            for each in pair:
                yield each, (self.results[each.id], 1.0)


def judged(bench, defects=()):
    return measure_clips("w8", MANIFEST, bench, COMMON, defects)  # type: ignore[arg-type]


BAD = 7  # the place in the order of a clip that breaks a gate


@pytest.fixture
def results():
    """Figures that ship but for one clip."""
    bad = order_clips(CLIPS)[BAD].id
    return [
        replace(each, figures=each.figures | {"level_db": -0.6}) if each.id == bad else each
        for each in figures(0.3)
    ]


def test_a_clip_that_breaks_a_gate_ends_it(results):
    """Of the clips up to it in the order, whoever was done first; with all clips the verdict is
    the same.
    """
    bench = Bench(results)
    some, stopped = judged(bench)
    assert {each.id for each in some} == {each.id for each in order_clips(CLIPS)[: BAD + 1]}
    assert stopped == "decided after 8 of 24 clips: --all-clips measures the others"
    assert len(bench.cache) < len(CLIPS)
    everything, nothing = judged(Bench(results, all_clips=True))
    assert [each.id for each in everything] == [each.id for each in CLIPS]
    assert nothing == ""
    few, whole = (judge_results(COMMON, part, stopped=stopped) for part in (some, everything))
    assert (few.verdict, whole.verdict) == (REJECT, REJECT)
    assert few.reasons[-1] == stopped
    assert set(few.broken) <= set(whole.broken)
    # what was measured beyond it is kept, and does not count
    assert judged(bench) == (some, stopped)


def test_a_level_that_ships_needs_every_clip():
    every, stopped = judged(Bench(figures(0.3)))
    assert (len(every), stopped) == (24, "")
    assert judge_results(COMMON, every).verdict == SHIP


def test_a_package_that_is_wrong_is_heard_once(results):
    some, stopped = judged(Bench(results), defects=["five channels have another scale"])
    assert [each.id for each in some] == [order_clips(CLIPS)[0].id]
    assert stopped.startswith("decided after 1 of 24 clips")


@pytest.mark.parametrize("gates", [select_gates("fp16"), ENCODER_GATES, PRODUCT_GATES])
def test_only_what_no_other_clip_can_mend_ends_it(gates):
    """A mean may come back; a limit in variations moves with the other clips."""
    clip = figures(0.3)[0]
    for gate in gates:
        step = 1.01 if gate.best != "higher" else 0.99
        figure = gate.limit * step if gate.limit else 1.0
        worse = replace(clip, figures={gate.metric: figure})
        ends = gate.statistic == "worst" and gate.multiple is None
        assert is_rejected((gate,), worse) == ends, gate.name
    assert is_rejected(gates, replace(clip, figures={}, defect="is silent"))


def workers_that_die(checkpoint, monkeypatch, deaths):
    """Two workers; a clip of `deaths` ends its worker so many times."""

    def run_in_worker(_call, item):
        each = item[1] if isinstance(item, tuple) else item
        if deaths.get(each.id, 0):
            deaths[each.id] -= 1
            raise BrokenProcessPool

    monkeypatch.setattr(pool, "run_in_worker", run_in_worker)
    monkeypatch.setattr(pool, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(2))
    return Workers(Reference(checkpoint, 0), 2)


def test_a_worker_that_dies_costs_its_clip(tiny_checkpoint, monkeypatch, capsys):
    declared, deaths = Execution("declared"), {"judged-03": 1, "judged-09": 1}
    with workers_that_die(tiny_checkpoint, monkeypatch, deaths) as workers:
        done = [each.id for each, _ in workers.measure(Path("x.json"), declared, CLIPS)]
        deaths |= {"judged-05": 1}
        natural = list(workers.measure_natural([("vocoder", each) for each in CLIPS]))
    assert sorted(done) == [each.id for each in CLIPS]
    assert len(natural) == len(CLIPS)
    errors = capsys.readouterr().err.splitlines()
    assert errors == [f"a worker process ended: {count} clips are left" for count in (2, 1)]


def test_a_clip_that_ends_every_worker_ends_the_run_with_the_others_kept(
    tiny_checkpoint, monkeypatch
):
    done, deaths = [], {"judged-03": MOST_LOSSES}
    with (
        refused("worker processes were ended 3 times"),
        workers_that_die(tiny_checkpoint, monkeypatch, deaths) as workers,
    ):
        for each, _ in workers.measure(Path("x.json"), Execution("declared"), CLIPS):
            done.append(each.id)
    assert sorted(done) == [each.id for each in CLIPS if each.id != "judged-03"]


class TestSettling:
    """Voices are settled beside a conversion."""

    @pytest.fixture
    def workers(self, tiny_checkpoint, monkeypatch):
        """Two, of which each settles its share until it may end or is ended; and what tells."""
        told = SimpleNamespace(shares=[], pools=0, may_end=Event(), ended=Event())

        def run_in_worker(_call, voices):
            told.shares.append(voices)
            assert told.may_end.wait(60)
            if told.ended.is_set():
                raise BrokenProcessPool

        def start_pool(*_):
            told.pools += 1
            return ThreadPoolExecutor(2)

        def terminate():
            told.ended.set()
            told.may_end.set()

        monkeypatch.setattr(pool, "is_settled", lambda _, voice: voice == "known")
        monkeypatch.setattr(pool, "run_in_worker", run_in_worker)
        monkeypatch.setattr(pool, "ProcessPoolExecutor", start_pool)
        worker = SimpleNamespace(terminate=terminate)
        monkeypatch.setattr(pool.multiprocessing, "active_children", lambda: [worker])
        return Workers(Reference(tiny_checkpoint, 0), 2), told

    def test_the_conversion_does_not_wait_for_it(self, workers):
        clips = [replace(CLIPS[0], voice=voice) for voice in ("c", "a", "known", "b", "a")]
        settling, told = workers
        with settling.settling(clips):
            told.may_end.set()  # would never come if settling came first
        assert sorted(told.shares) == [["a", "c"], ["b"]]

    def test_a_conversion_that_is_interrupted_ends_it(self, workers):
        settling, told = workers
        clips = [replace(CLIPS[0], voice=voice) for voice in "ab"]
        with pytest.raises(KeyboardInterrupt), settling.settling(clips):
            while len(told.shares) < 2:
                sleep(0.01)
            raise KeyboardInterrupt
        assert told.pools == 1
