"""The release decision: choice, resuming, exit codes; the page a person decides from, the player's
sounds, the blinded pack.
"""

import base64
import contextlib
import csv
import hashlib
import io
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.request
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile
import torch
from markupsafe import escape

from kokoro_ane.eval import execution, progress
from kokoro_ane.eval.decision import choose
from kokoro_ane.eval.execution import THREADS, Execution, Workers, shared_cores
from kokoro_ane.eval.listening import REFERENCE, Audition, chosen_clips, pairs, player, sound_data
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.release import ReleaseOptions
from kokoro_ane.eval.report import main as report
from kokoro_ane.eval.report_figures import figure, interval_of, strip_plot, used
from kokoro_ane.eval.report_page import asset, page
from kokoro_ane.eval.terminal import print_release
from kokoro_ane.quantize.corpus import require_disjoint
from kokoro_ane.quantize.speech import own_speech
from mlprogram.examine.rules import load_rules
from tests.builds import small_config
from tests.commands import parsed, printed, refused
from tests.demo_voice import heldout
from tests.eval.release_build import made_up, release
from tests.random_checkpoint import write_checkpoint


def level(name, megabytes, verdict, unfit=None):
    """A judged level."""
    return {
        "method": name,
        "unfit_for_engine": unfit,
        "failed": None,
        "bytes": int(megabytes * 1e6),
        "verdict": verdict,
        "broken": ["pesq mean"] if verdict == "REJECT" else [],
        "reasons": ["too near to tell"],
        "summary": {"pesq": {"mean": 4.0 + megabytes / 12}, "mcd_db": {"mean": 1 / megabytes}},
    }


LEVELS = [
    level("fp16", 7.0, "SHIP"),
    level("w8", 4.0, "SHIP"),
    level("p4", 2.0, "REJECT"),
    level("w4", 2.5, "SHIP", "for the GPU"),
]


def chosen(levels, releasable=True):
    return choose(levels, None if releasable else "demo is not releasable")


class TestChoice:
    def test_the_choice_its_costs_and_its_notes(self):
        assert chosen(LEVELS).level == "w8"
        assert "4.00 MB, the next is fp16 with 7.00 MB" in chosen(LEVELS).reason
        choice = chosen([*LEVELS, level("p6", 2.8, "SHIP")])
        assert choice.costs == "60 % smaller than fp16, PESQ 0.35 lower"
        assert [(best["by"], best["level"]) for best in choice.bests] == [
            ("size", "p6"),
            ("fidelity", "w8"),
        ]
        assert chosen(LEVELS).notes == (
            "w4 keeps every gate but is not chosen: for the GPU",
            "p4 would be 2.00 MB: REJECT, pesq mean",
        )

    def test_nothing_ships(self):
        assert chosen([level("p4", 2.0, "REJECT")]).verdict == "REJECT"
        assert (
            chosen([level("p4", 2.0, "REJECT"), level("w8", 4.0, "UNDECIDED")]).verdict
            == "UNDECIDED"
        )

    def test_a_demo_voice_is_judged_and_never_released(self):
        choice = chosen(LEVELS, releasable=False)
        assert (choice.verdict, choice.level, choice.may_be_released) == ("SHIP", "w8", False)
        assert "not releasable" in choice.notes[1]
        assert chosen(LEVELS).may_be_released


def test_a_level_is_judged_once_and_the_same_each_time(placed, measured, capsys):
    """Exit 3: the voice is not releasable. The other levels are not built and say how they would
    be.
    """
    assert release(placed) == 3
    first = parsed(placed[1] / "release" / "decision.json")
    assert release(placed) == 3
    assert parsed(placed[1] / "release" / "decision.json") == first
    assert len(measured) == 48
    assert (first["verdict"], first["level"], first["releasable"], first["may_be_released"]) == (
        "SHIP",
        "padded-fp16",
        False,
        False,
    )
    known = {
        "checkpoint_sha256",
        "source_sha256",
        "commit",
        "libraries",
        "seed",
        "seed_variation_seed",
        "bootstrap",
    }
    assert known <= set(first["provenance"])
    w8 = next(level for level in first["levels"] if level["method"] == "padded-w8")
    assert w8["failed"].endswith(" `kokoro-ane quantize --method w8 --layout padded` builds it")
    last = printed(capsys)
    assert last["levels"]["padded-fp16"] == "SHIP"


def test_an_interrupted_level_goes_on_where_it_stopped(placed, measured, monkeypatch):
    honest = execution.judge_clip

    def interrupted(comparison, subject, clip):
        if len(measured) == 7:
            raise KeyboardInterrupt
        return honest(comparison, subject, clip)

    monkeypatch.setattr(execution, "judge_clip", interrupted)
    assert release(placed, "--methods", "fp16") == 2
    assert not (placed[1] / "release" / "decision.json").exists()
    monkeypatch.setattr(execution, "judge_clip", honest)
    release(placed, "--methods", "fp16")
    assert len(measured) == len(set(measured)) == 48


def test_fresh_measures_again_and_leaves_nothing(placed, measured, capsys):
    cache = placed[1] / "release" / "cache"
    release(placed, "--methods", "fp16")
    kept = sorted(cache.rglob("*"))
    assert len(kept) > 24
    assert "the natural variation is measured: " in capsys.readouterr().err
    release(placed, "--methods", "fp16", "--fresh")
    assert len(measured) == 96
    assert sorted(cache.rglob("*")) == kept
    assert "the natural variation is measured\n" in capsys.readouterr().err


def test_a_device_claim_is_undecided(placed, measured):
    assert release(placed, "--claim", "device", "--methods", "fp16") == 3
    record = parsed(placed[1] / "release" / "decision.json")
    assert record["levels"][0]["reasons"][0].startswith("a device claim needs a run on that device")


def test_processes_share_the_cores(monkeypatch):
    """Two processes of two threads on two cores fight; what the user set stays."""
    before = torch.get_num_threads()
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    with shared_cores(4):
        assert (torch.get_num_threads(), os.environ[THREADS]) == (2, "2")
    assert torch.get_num_threads() == before
    assert THREADS not in os.environ
    monkeypatch.setenv(THREADS, "3")
    with shared_cores(4):
        assert torch.get_num_threads() == before
        assert os.environ[THREADS] == "3"


def test_progress_is_of_the_level_in_work(monkeypatch, capsys):
    """Clips that were measured before are done already; without a terminal it is a line, which
    tells the time left from the second clip on.
    """
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.0)
    shown, clips = progress.Progress(), heldout()[:3]
    for name in ("w8", "p6"):
        shown.begin(name, 1, clips, 1)
        for clip in clips:
            shown.measured(clip, 20.0)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"w8: 2 of 4 clips, about \d+ s left", lines[0])
    assert re.fullmatch(r"w8: 3 of 4 clips, about \d+ s left", lines[1])
    assert len(lines) == 4


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_the_time_left_is_true_from_the_second_clip_on(workers, seed):
    """Clips cost by their length, give or take a quarter; workers spend 15 s on opening models
    before their first. Told is the truth within a factor of 1.5, or within half a clip at the end.
    """
    drawn = np.random.default_rng(seed)
    clips = sorted(heldout(), key=lambda clip: -clip.frames)
    seconds = [0.05 * clip.frames * drawn.uniform(0.75, 1.25) for clip in clips]
    free, ends = [15.0] * workers, []
    for place, cost in enumerate(seconds):
        worker = free.index(min(free))
        free[worker] += cost
        ends.append((free[worker], place))
    bar, whole = progress.Progress(), max(free)
    bar.begin("w8", 0, clips, workers)
    for done, (now_s, place) in enumerate(sorted(ends), start=1):
        told, truth = bar.time_left(clips[place], seconds[place]), whole - now_s
        if done > 1 and max(told, truth) > 1.5 * min(told, truth):
            assert abs(told - truth) < max(seconds) / 2
    assert told == 0.0


@pytest.mark.slow
def test_two_workers_measure_what_one_measures(placed, tmp_path):
    # the tiny package's longest input is 16 s
    short = sorted(own_speech(placed[0]), key=lambda clip: clip.frames)[:2]
    manifest, reference = placed[1] / "KokoroVocoder-tiny-padded-fp16.json", Reference(placed[0], 0)
    with Workers(reference, 1) as alone:
        one = {
            clip.id: timed[0]
            for clip, timed in alone.measure(manifest, Execution("declared"), short)
        }
    with (
        refused("none.json does not exist"),
        Workers(Reference(placed[0], 0, tmp_path), 2) as processes,
    ):
        two = {
            clip.id: timed[0]
            for clip, timed in processes.measure(manifest, Execution("declared"), short)
        }
        assert one == two
        assert len(one) == 2
        # a worker's bad input ends all
        list(processes.measure(placed[1] / "none.json", Execution("declared"), short))


class TestBadInput:
    def test_evaluation_text_is_not_calibration_text(self):
        require_disjoint(heldout()[:12], heldout()[12:])
        with refused("tune on other text"):
            require_disjoint([heldout()[3]], heldout())


def test_the_default_is_a_chip_of_the_rules():
    assert ReleaseOptions().chip in load_rules().chips


REPORT_LEVELS = {"fp16": 0.01, "w8": 0.1, "p6": 0.3, "p4": 3.0, "w4": 2.0}


class Page(HTMLParser):
    """Collects what a page asks for, its visible words, and the JSON that it carries."""

    def __init__(self, text):
        super().__init__()
        self.addresses = []
        self.inside = []
        self.words = self.sounds = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.addresses += [
            value[:10] for name, value in attributes if name in ("src", "href") and value
        ]
        self.inside.append("json" if ("type", "application/json") in attributes else tag)

    def handle_endtag(self, tag):
        self.inside.pop() if self.inside else None

    def handle_data(self, data):
        if self.inside and self.inside[-1] == "json":
            self.sounds += data
        elif not self.inside or self.inside[-1] not in ("style", "script"):
            self.words += data + " "


@pytest.fixture(scope="module")
def record():
    return made_up(REPORT_LEVELS)


@pytest.fixture(scope="module")
def heard(record):
    """Two clips with the decision's ids: a tone, and for each level the tone with noise as strong
    as its damage.
    """
    found, drawn = [], np.random.default_rng(0)
    for number, clip in enumerate(heldout()[:2]):
        tone = 0.3 * np.sin(np.arange(24_000) * (0.05 + 0.01 * number)).astype(np.float32)
        signals = {
            name: tone + 0.01 * damage * drawn.standard_normal(24_000).astype(np.float32)
            for name, damage in REPORT_LEVELS.items()
        }
        renamed = type(clip)(**{**vars(clip), "id": f"judged-{number:02d}"})
        found.append(Audition(renamed, {REFERENCE: tone} | signals))
    return found


@contextlib.contextmanager
def browser(folder):
    """Headless Chromium behind its driver: call(command, what) of the WebDriver protocol."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = [f"http://127.0.0.1:{port}/session"]

    def call(command, given):
        request = urllib.request.Request(
            "/".join([*base, *filter(None, [command])]), json.dumps(given).encode()
        )
        return json.load(urllib.request.urlopen(request, timeout=60))["value"]

    driver = subprocess.Popen(
        ["chromedriver", f"--port={port}"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    try:
        assert any("started successfully" in line for line in driver.stdout or ())
        options = {"args": ["--headless=new", "--no-sandbox", f"--user-data-dir={folder}/profile"]}
        base.append(
            call("", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})[
                "sessionId"
            ]
        )
        yield call
        urllib.request.urlopen(urllib.request.Request("/".join(base), method="DELETE"), timeout=60)
    finally:
        driver.kill()
        driver.wait()


def words_of(record, heard, *more):
    """The visible words of the page, single spaces between them."""
    return " ".join(Page(page(record, heard, *more)).words.split())


def in_order(words, *parts):
    places = [words.index(part) for part in parts]
    return places == sorted(places)


class TestPage:
    def test_it_says_what_to_release_and_what_that_costs(self, record, heard):
        words = words_of(record, heard)
        assert in_order(
            words,
            "Would release p6",
            "SHIP, not releasable",
            "Demo is not releasable",
            "p6 (palette, 6 bits): 62 % smaller than fp16",
            "Best for size",
            "Best for fidelity",
        )
        needed = "2026-11-22|commit 0123456789+|24 sentences|noise seed 0|iOS 17"
        needed += "|not fit int4 weights in blocks"
        assert not [part for part in needed.split("|") if part not in words]

    def test_nothing_is_green_where_nothing_may_be_released(self, record, heard):
        assert '<main class="held">' in page(record, heard)
        assert "main.held { --good: var(--held);" in asset("report.css")
        free = page(made_up(REPORT_LEVELS, None), heard)
        assert "<main>" in free
        assert "not releasable" not in Page(free).words
        assert "Release p6" in Page(free).words

    def test_the_product_and_the_newer_of_two_systems(self, record, heard):
        product = {
            "bytes": {"encoder": 94_100_000, "one voice": 522_240},
            "lacking": ["tagger"],
            "encoder_ios": "iOS18",
        }
        words = words_of(record, heard, product)
        # 41.2 MB of p6
        for part in ("135.8", "iOS 18 the encoder", "not built, so not in it: tagger"):
            assert part in words

    def test_tables_and_plots_say_what_their_columns_and_axes_are(self, record, heard):
        text = page(record, heard)
        assert text.count("<table") == text.count("<caption>") == text.count("</caption>") > 5
        assert "<th>" not in text
        assert not re.search(r"<th(?! scope=)(?!ead)", text.split("<script")[0])
        assert "PESQ, MOS-LQO" in text
        assert "vocoder on disk, MB" in text
        assert "MCD, dB" in text

    @pytest.mark.skipif(
        shutil.which("chromedriver") is None,
        reason="no headless Chromium (Debian: chromium-driver)",
    )
    def test_keys_are_the_players_after_a_click(self, record, heard, tmp_path):
        """In Chromium: keys play, stop and change sides after a click on a button, a level or a
        summary.
        """
        (tmp_path / "page.html").write_text(page(record, heard), encoding="utf-8")
        with browser(tmp_path) as call:
            call("url", {"url": (tmp_path / "page.html").as_uri()})

            def after(key, clicked):
                target = call("element", {"using": "css selector", "value": clicked})
                call(f"element/{next(iter(target.values()))}/click", {})
                strokes = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
                call("actions", {"actions": [{"type": "key", "id": "keys", "actions": strokes}]})
                pressed = (
                    "return [...document.querySelectorAll('[aria-pressed=true]')].map((one) =>"
                    " one.id || one.dataset.side)"
                )
                return call("execute/sync", {"script": pressed, "args": []})

            assert after("b", "button[data-side=A]") == ["B"]
            assert after("a", "summary") == ["A"]
            assert after(" ", "button[data-side=B]") == ["play", "B"]
            assert after(" ", "summary") == ["B"]
            assert after("a", "#play") == ["play", "A"]
            assert after(" ", "button[data-side=A]") == ["A"]

    def test_a_limit_that_moves_is_said_where_it_explains_a_row(self, heard):
        doubtful = made_up({"fp16": 0.0, "w8": 0.98})
        next(check for check in doubtful["levels"][1]["checks"] if check["gate"] == "mcd_db mean")[
            "state"
        ] = "straddles"
        doubtful["levels"][1]["reasons"] = [
            "mcd_db mean is 1, too near to tell with these clips, with which the limit moves too"
        ]
        pattern = r"w8 [^;]*too near to tell, and the limit moves too"
        assert re.search(pattern, words_of(doubtful, heard))

    def test_nothing_from_outside_under_3_mb_no_markup_from_texts(self, record, heard):
        text = page(record, heard)
        assert len(text) < 3_000_000
        assert "Clip <" not in re.sub(r"<script type=.*</script>", "", text, flags=re.DOTALL)
        assert not set(Page(text).addresses)

    def test_words_that_should_be_one_of_a_few_are_escaped_all_the_same(self, heard):
        tag = '"><img onerror=x>'
        forged = made_up(REPORT_LEVELS) | {
            "verdict": tag,
            "costs": tag,
            "reason": f"<!--<script>{tag}",
        }
        for level in forged["levels"]:
            level |= {
                "verdict": tag,
                "title": tag,
                "facts": level["facts"] | {"minimum_ios": tag, "stored_bytes": {tag: 1}},
            }
            level["clips"][0]["variation"][tag] = level["clips"][0]["figures"][tag] = 1.0
        assert tag not in page(forged, heard)
        assert "<!--" not in page(forged, heard)

    def test_each_reason_stands_once(self, record, heard):
        words = page(record, heard)
        said = {
            check["reason"]
            for level in record["levels"]
            for check in level["checks"]
            if check["state"] != "holds"
        }
        assert said
        assert [words.count(f">{escape(reason)}<") for reason in said] == [1] * len(said)
        assert "Every gate holds for fp16, w8, p6." in words

    def test_no_level_ships(self, heard):
        text = page(made_up({"fp16": 2.0, "w8": 2.5, "p6": 3.0, "p4": 3.0, "w4": 2.0}), heard)
        parts = "Release none", "No level ships; nearest is", "Demo is not releasable"
        assert in_order(Page(text).words, *parts)
        assert 'class="bests"' not in text


class TestPlots:
    def test_gates_belong_to_their_level(self, record):
        plot = strip_plot(record, "pesq")
        assert plot is not None
        rows = {row["name"]: row for row in plot["rows"]}
        assert ">= 4.5" in rows["fp16"]["label"]
        assert ">= 4.5" not in rows["w8"]["label"]
        assert not rows["another seed"]["gates"]
        assert len(rows["w8"]["dots"]) == 24


class TestWords:
    def test_levels_have_plain_names(self, record, heard):
        assert "<small>palette, 6 bits</small>" in page(record, heard)

    def test_figures_have_their_digits(self):
        assert (figure(-0.001), figure(None), figure(4.6351)) == ("0.00", "–", "4.64")

    def test_how_much_of_a_limit_is_used(self):
        assert used({"gate": "mcd_db mean", "value": 0.5, "rule": "<= 1"}) == 0.5
        assert used({"gate": "level_db worst", "value": -1.0, "rule": "within 0.5"}) == 2.0
        assert used({"gate": "pesq mean", "value": METRICS["pesq"].perfect, "rule": ">= 4"}) == 0.0


def test_means_have_their_intervals_on_page_and_terminal(record, heard, capsys):
    (p6,) = (level for level in record["levels"] if level["method"] == "p6")
    low, high = interval_of(p6, "pesq") or (0.0, 0.0)
    assert low < p6["summary"]["pesq"]["mean"] < high
    assert f"<small>{figure(low)}–{figure(high)}</small>" in page(record, heard)
    print_release(record)
    said = capsys.readouterr().out
    assert f"{low:.2f}-{high:.2f}" in said
    assert " more" in said
    assert "palette, 6 bits" in said


class TestSounds:
    def test_a_level_comes_back_to_the_last_bit(self, heard):
        reference, near = heard[0].signals[REFERENCE], heard[0].signals["w8"]
        alone, difference = sound_data(near), sound_data(near, reference)
        assert not alone["difference"]
        assert difference["difference"]
        assert len(difference["flac"]) < len(alone["flac"])
        own, base, rest = (
            soundfile.read(io.BytesIO(base64.b64decode(way["flac"])), dtype="int16")[0].astype(int)
            for way in (alone, sound_data(reference), difference)
        )
        assert np.array_equal(own, base + rest)

    def test_what_does_not_fit_is_left_out_last_wanted_first(self, record, heard, monkeypatch):
        text, left_out = player(record, heard)
        data = json.loads(text)
        levels, clips = data["levels"], data["clips"]
        assert not left_out
        assert levels[0] == "p6"
        assert set(levels) == set(REPORT_LEVELS)
        assert set(clips[0]["figures"]) == set(REPORT_LEVELS)
        spent = sum(len(way["flac"]) for clip in clips for way in clip["sounds"].values())
        monkeypatch.setattr("kokoro_ane.eval.listening.BUDGET_BYTES", spent - 1)
        assert player(record, heard)[1] == levels[-1:]
        assert "Left out to keep the page small: " + levels[-1] in page(record, heard)

    def test_the_worst_clip_of_the_level_is_heard(self, record):
        clips = [
            type(clip)(**{**vars(clip), "id": f"judged-{number:02d}"})
            for number, clip in enumerate(heldout())
        ]
        chosen = chosen_clips(record, clips)
        judged = next(level for level in record["levels"] if level["method"] == record["level"])
        fitting = {clip.id for clip in clips if 2 <= clip.frames / 40 <= 7}
        worst = min(
            (clip for clip in judged["clips"] if clip["id"] in fitting),
            key=lambda clip: clip["figures"]["pesq"],
        )
        assert chosen[0].id == worst["id"]
        assert len({clip.voice for clip in chosen}) == 3


def test_the_command_writes_page_and_blind_pack(placed, measured, monkeypatch, tmp_path, capsys):
    release(placed, "--methods", "fp16")
    monkeypatch.undo()
    build = ["--build", str(placed[1])]
    assert report(["--checkpoint", str(placed[0].folder), *build]) == 0
    folder = placed[1] / "release"
    found = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert "iOS 17 the vocoder" in re.sub(r"\s+", " ", found.words)
    assert "not built, so not in it: encoder" in found.words
    data = json.loads(found.sounds)
    assert data["levels"] == ["padded-fp16"]
    assert len(data["clips"]) == 3
    assert "Would release padded-fp16" in found.words
    key = base64.b64decode((folder / "listening" / "key.sealed").read_bytes())
    assert hashlib.sha256(key).hexdigest() in (folder / "listening" / "README.txt").read_text(
        encoding="utf-8"
    )
    with (folder / "listening" / "sheet.csv").open(encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert (
        len(rows) - 1
        == len(json.loads(key)["pairs"])
        == len(list((folder / "listening").glob("*-A.wav")))
        == 6
    )

    (folder / "report.html").write_text("<p>years", encoding="utf-8")
    assert report(["--checkpoint", str(placed[0].folder), *build]) == 2
    assert "report.html is not replaced" in capsys.readouterr().err
    assert (folder / "report.html").read_text(encoding="utf-8") == "<p>years"
    (folder / "report.html").unlink()
    other = write_checkpoint(tmp_path / "other", small_config(), seed=1, encoder=True)
    assert report(["--checkpoint", str(other), *build]) == 2
    assert "the decision is about checkpoint" in capsys.readouterr().err


def test_pairs_are_shuffled_by_the_seed_and_hold_catch_trials():
    heard = [Audition(clip, {REFERENCE: np.zeros(1), "w8": np.zeros(1)}) for clip in heldout()[:6]]
    found = pairs(heard, ["w8"], seed=3)
    assert found == pairs(heard, ["w8"], seed=3) != pairs(heard, ["w8"], seed=4)
    assert sum(pair["A"] == pair["B"] == REFERENCE for pair in found) == 6
    assert {pair["A"] for pair in found if pair["A"] != pair["B"]} == {REFERENCE, "w8"}
