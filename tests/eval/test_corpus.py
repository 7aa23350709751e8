"""A corpus of the user's own: what a file may hold, when its lines are spoken, how it is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.eval import execution
from kokoro_ane.eval.clip_figures import order_clips
from kokoro_ane.eval.execution import ClipBench, ClipResult, Execution
from kokoro_ane.eval.gates import COMMON
from kokoro_ane.eval.judge import list_groups
from kokoro_ane.eval.quality import QualityOptions, judge_level
from kokoro_ane.eval.reference import Reference
from kokoro_ane.speech import own_corpus
from kokoro_ane.speech.own_corpus import read_corpus
from kokoro_ane.speech.speech import list_spoken_lines
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE
from tests.eval.release_build import clips as figures

HEAD = "voice\tspeed\ttext\n"
FERRY = "The old ferry crosses the bay twice a day."


@pytest.fixture(scope="module")
def checkpoint():
    return open_checkpoint(str(DEMO_VOICE))


@pytest.fixture
def read(checkpoint, tmp_path):
    """The lines of a file that holds this text."""

    def read(text):
        file = tmp_path / "lines.tsv"
        file.write_bytes(text.encode())
        return read_corpus(file, checkpoint)

    return read


def test_a_line_is_a_voice_a_speed_and_a_text(read):
    ferry, rain = read(f"{HEAD}slt\t1\t{FERRY}\r\nrms,slt\t1.25\tRain came.\r\n")
    assert (ferry.voice, ferry.speed, ferry.text) == ("slt", 1, FERRY)
    assert (rain.voice, rain.speed, rain.text) == ("rms,slt", 1.25, "Rain came.")
    assert ferry.phonemes.startswith("ði ˈOld fˈɛɹi")
    assert ferry.frames > 2 * rain.frames > 0
    # the longer one first, of which a worker works for longer
    assert order_clips([rain, ferry, ferry])[0] is ferry


def test_figures_stay_a_line_s_own_when_lines_move(read):
    rows = [f"slt\t1\t{FERRY}", f"rms\t1\t{FERRY}", f"slt\t1.5\t{FERRY}"]
    lines = read(HEAD + "\n".join(rows))
    assert len({line.id for line in lines}) == 3
    # a line that stands there twice is measured once
    moved = read(HEAD + "\n".join([*rows[::-1], rows[0]]))
    assert {line.id: line for line in moved} == {line.id: line for line in lines}
    assert len(moved) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slt\t1\tA text without a head.\n", "does not begin with the columns voice, speed, text"),
        (HEAD, "holds 0 lines: give 1 to 10000"),
        (f"{HEAD}slt\t1\t{FERRY}\nslt\t1\n", "line 3: has 2 columns, not 3"),
        (f"{HEAD}slt\tfast\tGo.", "line 2: the speed 'fast' is no number"),
        (f"{HEAD}slt\t9\tGo.", "line 2: speed 9.0 is outside 0.25 to 4"),
        (f"{HEAD}slt\tnan\tGo.", "line 2: speed nan is outside"),
        (f"{HEAD}sly\t1\tGo.", "line 2: no voice 'sly'"),
        (f"{HEAD}slt\t1\t\nslt\t1\tGo.", "line 2: no phonemes"),
        (f"{HEAD}slt\t1\t{FERRY * 20}", "line 2: .* phonemes: at most 510"),
    ],
)
def test_what_no_corpus_may_hold(read, text, message):
    refused(message, read, text)


def test_ten_thousand_lines_and_no_more(read, monkeypatch):
    assert own_corpus.MOST_LINES == 10_000
    monkeypatch.setattr(own_corpus, "MOST_LINES", 2)
    rows = [f"slt\t1\tNumber {number}." for number in range(3)]
    assert len(read(HEAD + "\n".join(rows[:2]))) == 2
    refused("holds 3 lines: give 1 to 2", read, HEAD + "\n".join(rows))


def test_what_levels_are_tuned_on_judges_none(checkpoint, read):
    tuned = list_spoken_lines(checkpoint, "tuning")[0]
    refused("tuned on and is also judged", read, f"{HEAD}slt\t1\t{tuned.text}")


def test_a_corpus_and_a_set_exclude_each_other():
    options = QualityOptions(method="w8", corpus=Path("lines.tsv"), set="judged")
    refused("--set judged and --corpus exclude each other", judge_level, options)


def test_a_line_is_spoken_when_its_turn_comes_and_then_forgotten(checkpoint, read, monkeypatch):
    heard = []

    def judge(_comparison, _subject, clip):
        heard.append(bench.reference.get_renders(clip).clip)
        return ClipResult(clip.id, clip.voice, clip.frames / 40, clip.text, {}, {})

    monkeypatch.setattr(execution, "judge_clip", judge)
    monkeypatch.setattr(ClipBench, "open_subject", lambda *_: None)
    bench = ClipBench(Reference(checkpoint, 0))
    (line,) = read(f"{HEAD}slt\t2\tRain came in July.\n")
    for longest in (1200, 40):
        result, _ = bench.measure_clip(line, Path("x.json"), Execution("declared"), longest)
        assert result.id == line.id
        assert not bench.reference._renders
    whole, cut = heard
    assert whole.frames < 100
    assert whole.speed == 2
    # what a package does not take is judged by its first words
    assert cut.frames <= 40
    assert whole.phonemes.startswith(cut.phonemes)


def test_figures_by_voice_and_by_length():
    """Of each group the clips that break a gate by themselves are counted."""
    lengths = (1.0, 3.0, 5.0, 9.0, 13.0, 14.0)
    results = [
        replace(clip, voice="ab"[place % 2], seconds=seconds)
        for place, (clip, seconds) in enumerate(zip(figures(0.3), lengths, strict=False))
    ]
    bad = results[-1].figures | {"level_db": -0.6, "pesq": 2.0}
    rows = list_groups(COMMON, [*results[:-1], replace(results[-1], figures=bad)])
    assert [(row["by"], row["name"], row["clips"], row["broken"]) for row in rows] == [
        ("voice", "a", 3, 0),
        ("voice", "b", 3, 1),
        ("length", "0 to 2 s", 1, 0),
        ("length", "2 to 4.5 s", 1, 0),
        ("length", "4.5 to 8 s", 1, 0),
        ("length", "8 to 12 s", 1, 0),
        ("length", "over 12 s", 2, 1),
    ]
    assert rows[-1]["summary"]["pesq"]["worst"] == 2.0
    good = results[-2].figures["pesq"]
    assert rows[-1]["summary"]["pesq"]["mean"] == pytest.approx((2.0 + good) / 2)
    # a clip without sound is counted, and has no figures
    (silent, _) = list_groups(COMMON, [replace(results[0], figures={}, defect="is silent")])
    assert silent["broken"] == 1
    assert silent["summary"] == {}
