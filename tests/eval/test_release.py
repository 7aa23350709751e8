"""The release decision: choice, resuming, exit codes; the page a person decides from, the player's
sounds, the blinded pack.
"""

import base64
import csv
import hashlib
import io
import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile
import torch
from markupsafe import escape

from kokoro_ane.eval import execution, progress
from kokoro_ane.eval.comparisons import Natural, VocoderComparison
from kokoro_ane.eval.decision import choose
from kokoro_ane.eval.execution import Execution
from kokoro_ane.eval.gates import PLACED
from kokoro_ane.eval.listening import (
    REFERENCE,
    Audition,
    build_player,
    choose_clips,
    draw_pairs,
    encode_sound,
)
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.report import main as report
from kokoro_ane.eval.report_figures import (
    compute_used_share,
    find_interval,
    format_figure,
    plot_search,
    plot_strip,
)
from kokoro_ane.eval.report_page import read_asset, render_page
from kokoro_ane.eval.terminal import print_release
from kokoro_ane.eval.workers import THREADS, Workers, split_cores
from kokoro_ane.speech.corpus import require_disjoint
from kokoro_ane.speech.speech import load_own_speech
from tests.builds import small_config
from tests.commands import parsed, printed, refused
from tests.demo_voice import heldout
from tests.eval.release_build import PERFECT, made_up, release
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


class TestChoice:
    def test_the_choice_its_costs_and_its_notes(self):
        choice = choose(LEVELS, None)
        assert (choice.level, choice.may_be_released) == ("w8", True)
        assert "4.00 MB, the next is fp16 with 7.00 MB" in choice.reason
        assert choice.notes == (
            "w4 keeps every gate but is not chosen: for the GPU",
            "p4 would be 2.00 MB: REJECT, pesq mean",
        )
        smaller = choose([*LEVELS, level("p6", 2.8, "SHIP")], None)
        assert smaller.costs == "60 % smaller than fp16, PESQ 0.35 lower"
        bests = [(best["by"], best["level"]) for best in smaller.bests]
        assert bests == [("size", "p6"), ("fidelity", "w8")]

    def test_nothing_ships(self):
        rejected = level("p4", 2.0, "REJECT")
        assert choose([rejected], None).verdict == "REJECT"
        assert choose([rejected, level("w8", 4.0, "UNDECIDED")], None).verdict == "UNDECIDED"

    def test_a_demo_voice_is_judged_and_never_released(self):
        choice = choose(LEVELS, "demo is not releasable")
        assert (choice.verdict, choice.level, choice.may_be_released) == ("SHIP", "w8", False)
        assert "not releasable" in choice.notes[1]


def decision_of(place):
    return parsed(place[1] / "release" / "decision.json")


def test_a_level_is_judged_once_and_the_same_each_time(placed, measured, capsys):
    """Exit 3: the voice is not releasable. The other levels are not built and say how they would
    be.
    """
    assert release(placed) == 3
    first = decision_of(placed)
    assert release(placed) == 3
    assert decision_of(placed) == first
    assert len(measured) == 48
    assert (first["verdict"], first["level"]) == ("SHIP", "padded-fp16")
    assert (first["releasable"], first["may_be_released"]) == (False, False)
    fp16 = next(level for level in first["levels"] if not level["failed"])
    assert first["chip"] in fp16["facts"]["forecast"]
    fields = "checkpoint_sha256 source_sha256 commit libraries seed seed_variation_seed bootstrap"
    assert set(fields.split()) <= set(first["provenance"])
    w8 = next(level for level in first["levels"] if level["method"] == "padded-w8")
    assert w8["failed"].endswith(" `kokoro-ane quantize --method w8 --layout padded` builds it")
    assert printed(capsys)["levels"]["padded-fp16"] == "SHIP"


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


@pytest.mark.parametrize(
    ("by_all", "asks", "verdict"),
    [(1.0, True, "SHIP"), (0.45, True, "REJECT"), (1.0, False, "UNDECIDED")],
)
def test_other_seeds_are_asked_where_one_leaves_a_verdict_open(
    by_all, asks, verdict, placed, measured, monkeypatch, capsys
):
    """One seed changes no word in half of the clips, so the limit is too wide to tell; asked once,
    and kept. A search of tuning sentences does not ask.
    """
    monkeypatch.setattr("kokoro_ane.eval.levels.TUNING", "tuning" if asks else None)
    honest = execution.judge_clip

    def by_one(comparison, subject, clip):
        result = honest(comparison, subject, clip)
        one = {name: value for name, value in result.variation.items() if name not in PLACED}
        one["words_changed"] = 1.2 * (len(measured) % 2)
        return replace(result, figures=result.figures | {"words_changed": 1.0}, variation=one)

    asked = []

    def by_every_seed(comparison, clip):
        assert comparison.thorough
        asked.append(clip.id)
        return Natural(PERFECT | {"words_changed": by_all})

    monkeypatch.setattr(execution, "judge_clip", by_one)
    monkeypatch.setattr(VocoderComparison, "get_natural", by_every_seed)
    for _ in range(2):
        release(placed, "--methods", "fp16")
        assert decision_of(placed)["levels"][0]["verdict"] == verdict
    assert (len(measured), len(asked)) == (48, 48 * asks)
    assert capsys.readouterr().err.count("48 clips ask all") == asks


def test_fresh_measures_again_and_leaves_nothing(placed, measured, capsys):
    cache = placed[1] / "release" / "cache"
    release(placed, "--methods", "fp16")
    cached_files = sorted(cache.rglob("*"))
    assert len(cached_files) > 24
    assert "the natural variation is measured: " in capsys.readouterr().err
    release(placed, "--methods", "fp16", "--fresh")
    assert len(measured) == 96
    assert sorted(cache.rglob("*")) == cached_files
    assert "the natural variation is measured\n" in capsys.readouterr().err


def test_a_device_claim_is_undecided(placed, measured):
    assert release(placed, "--claim", "device", "--methods", "fp16") == 3
    (level,) = decision_of(placed)["levels"]
    assert level["reasons"][0].startswith("a device claim needs a run on that device")


def test_processes_share_the_cores(monkeypatch):
    """Two processes of two threads on two cores fight; what the user set stays."""
    before = torch.get_num_threads()
    monkeypatch.delenv(THREADS, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    with split_cores(4):
        assert (torch.get_num_threads(), os.environ[THREADS]) == (2, "2")
    assert torch.get_num_threads() == before
    assert THREADS not in os.environ
    monkeypatch.setenv(THREADS, "3")
    with split_cores(4):
        assert torch.get_num_threads() == before
        assert os.environ[THREADS] == "3"


def test_progress_is_of_the_level_in_work(monkeypatch, capsys):
    """Clips that were measured before are done already; without a terminal it is a line, which
    tells the time left from the second clip on.
    """
    monkeypatch.setattr(progress, "LOG_EVERY_S", 0.0)
    shown, clips = progress.Progress(), heldout()[:3]
    for name in ("w8", "p6"):
        shown.start_level(name, 1, clips, 1)
        for clip in clips:
            shown.count_clip(clip, 20.0)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"w8: 2 of 4 clips, about \d+ s left", lines[0])
    assert re.fullmatch(r"w8: 3 of 4 clips, about \d+ s left", lines[1])
    assert len(lines) == 4


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_the_time_left_is_true_from_the_second_clip_on(workers, seed):
    """Clips cost by their length, give or take a quarter; workers spend 15 s on opening models
    before their first. The estimate is the truth within a factor of 1.5, or within half a clip at
    the end.
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
    bar.start_level("w8", 0, clips, workers)
    for done, (now_s, place) in enumerate(sorted(ends), start=1):
        estimate_s, truth_s = bar.estimate_time_left(clips[place], seconds[place]), whole - now_s
        if done > 1 and max(estimate_s, truth_s) > 1.5 * min(estimate_s, truth_s):
            assert abs(estimate_s - truth_s) < max(seconds) / 2
    assert estimate_s == 0.0


@pytest.mark.slow
def test_two_workers_measure_what_one_measures(placed, tmp_path):
    # the tiny package's longest input is 16 s
    short = sorted(load_own_speech(placed[0]), key=lambda clip: clip.frames)[:2]
    manifest, none = placed[1] / "KokoroVocoder-tiny-padded-fp16.json", placed[1] / "none.json"

    def figures_by(workers, file=manifest):
        done = workers.measure(file, Execution("declared"), short)
        return {clip.id: result for clip, (result, _) in done}

    with Workers(Reference(placed[0], 0), 1) as alone:
        one = figures_by(alone)
    processes = Workers(Reference(placed[0], 0, tmp_path), 2)
    with refused("none.json does not exist"), processes:
        assert figures_by(processes) == one
        assert len(one) == 2
        figures_by(processes, none)  # a worker's bad input ends all


def test_evaluation_text_is_not_calibration_text():
    require_disjoint(heldout()[:12], heldout()[12:])
    refused("tune on other text", require_disjoint, [heldout()[3]], heldout())


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
    heard, drawn = [], np.random.default_rng(0)
    for number, clip in enumerate(heldout()[:2]):
        tone = 0.3 * np.sin(np.arange(24_000) * (0.05 + 0.01 * number)).astype(np.float32)
        signals = {
            name: tone + 0.01 * damage * drawn.standard_normal(24_000).astype(np.float32)
            for name, damage in REPORT_LEVELS.items()
        }
        renamed = replace(clip, id=f"judged-{number:02d}")
        heard.append(Audition(renamed, {REFERENCE: tone} | signals))
    return heard


def words_of(record, heard, *more):
    """The visible words of the page, single spaces between them."""
    return " ".join(Page(render_page(record, heard, *more)).words.split())


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
        needed = "2026-11-22|commit 0123456789+|24 sentences|noise seed 0|iOS 17 the vocoder"
        needed += "|not fit int4 weights in blocks|PESQ, MOS-LQO|vocoder on disk, MB|MCD, dB"
        needed += "|Every gate holds for fp16, w8, p6."
        assert not [part for part in needed.split("|") if part not in words]

    def test_nothing_is_green_where_nothing_may_be_released(self, record, heard):
        assert '<main class="held">' in render_page(record, heard)
        assert "main.held { --good: var(--held);" in read_asset("report.css")
        free = render_page(made_up(REPORT_LEVELS, None), heard)
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

    def test_keys_are_the_players_after_a_click(self, record, heard, tmp_path, chromium):
        """In Chromium: keys play, stop and change sides after a click on a button, a level or a
        summary.
        """
        (tmp_path / "page.html").write_text(render_page(record, heard), encoding="utf-8")
        chromium.get((tmp_path / "page.html").as_uri())

        def after(key, clicked):
            chromium.find_element("css selector", clicked).click()
            chromium.switch_to.active_element.send_keys(key)
            pressed = chromium.find_elements("css selector", "[aria-pressed=true]")
            button = chromium.find_element("id", "play")
            return [button.text, *(one.get_attribute("data-side") for one in pressed)]

        assert after("b", "button[data-side=A]") == ["Play", "B"]
        assert after("a", "summary") == ["Play", "A"]
        assert after(" ", "button[data-side=B]") == ["Stop", "B"]
        assert after(" ", "summary") == ["Play", "B"]
        assert after("a", "#play") == ["Stop", "A"]
        assert after(" ", "button[data-side=A]") == ["Play", "A"]

    def test_what_a_search_tried_is_drawn(self, record, heard):
        trials = [
            {"bytes": 30_000_000, "share": 1.5},
            {"bytes": 40_000_000, "share": 0.5},
            {"bytes": 35_000_000, "share": 0.75},
        ]
        search = {"asked": 2, "room": 0.75, "trials": trials, "taken": trials[2]}
        plot = plot_search(search)
        assert [point["kind"] for point in plot["points"]] == ["reject", "ship", "ship"]
        assert [point["label"] for point in plot["points"]] == ["", "", "taken"]
        # what holds lies on the line or below, where heights grow downwards
        assert [point["y"] < plot["line"] for point in plot["points"]] == [True, False, False]
        assert plot["points"][0]["x"] < plot["points"][2]["x"] < plot["points"][1]["x"]
        words = words_of({**record, "search": search}, heard)
        assert "The judged sentences were asked 2 times." in words
        assert "What the search tried" not in words_of(record, heard)

    def test_a_limit_that_moves_is_said_where_it_explains_a_row(self, heard):
        doubtful = made_up({"fp16": 0.0, "w8": 0.98})
        w8 = doubtful["levels"][1]
        (check,) = (check for check in w8["checks"] if check["gate"] == "mcd_db mean")
        check["state"] = "straddles"
        w8["reasons"] = [
            "mcd_db mean is 1, too near to tell with these clips, with which the limit moves too"
        ]
        pattern = r"w8 [^;]*too near to tell, and the limit moves too"
        assert re.search(pattern, words_of(doubtful, heard))

    def test_the_file_stands_alone(self, record, heard):
        """Under 3 MB, nothing from outside, no markup from texts, headings that say what they
        head, each reason once.
        """
        text = render_page(record, heard)
        assert len(text) < 3_000_000
        assert not Page(text).addresses
        assert "Clip <" not in re.sub(r"<script type=.*</script>", "", text, flags=re.DOTALL)
        assert text.count("<table") == text.count("<caption>") == text.count("</caption>") > 5
        assert not re.search(r"<th(?! scope=)(?!ead)", text.split("<script")[0])
        assert "<small>palette, 6 bits</small>" in text
        checks = [check for level in record["levels"] for check in level["checks"]]
        reasons = {check["reason"] for check in checks if check["state"] != "holds"}
        assert reasons
        assert [text.count(f">{escape(reason)}<") for reason in reasons] == [1] * len(reasons)

    def test_words_that_should_be_one_of_a_few_are_escaped_all_the_same(self, heard):
        tag = '"><img onerror=x>'
        forged = made_up(REPORT_LEVELS)
        forged |= {"verdict": tag, "costs": tag, "reason": f"<!--<script>{tag}"}
        for level in forged["levels"]:
            facts = level["facts"] | {"minimum_ios": tag, "stored_bytes": {tag: 1}}
            level |= {"verdict": tag, "title": tag, "facts": facts}
            level["clips"][0]["variation"][tag] = level["clips"][0]["figures"][tag] = 1.0
        assert tag not in render_page(forged, heard)
        assert "<!--" not in render_page(forged, heard)

    def test_no_level_ships(self, heard):
        text = render_page(
            made_up({"fp16": 2.0, "w8": 2.5, "p6": 3.0, "p4": 3.0, "w4": 2.0}), heard
        )
        parts = "Release none", "No level ships; nearest is", "Demo is not releasable"
        assert in_order(Page(text).words, *parts)
        assert 'class="bests"' not in text


def test_gates_belong_to_their_level(record):
    rows = {row["name"]: row for row in plot_strip(record, "pesq")["rows"]}
    assert ">= 4.5" in rows["fp16"]["label"]
    assert ">= 4.5" not in rows["w8"]["label"]
    assert not rows["another seed"]["gates"]
    assert len(rows["w8"]["dots"]) == 24


def test_figures_have_their_digits_and_shares_of_a_limit():
    assert (format_figure(-0.001), format_figure(None), format_figure(4.6351)) == (
        "0.00",
        "–",
        "4.64",
    )
    for gate, rule, value, share in (
        ("mcd_db mean", "<= 1", 0.5, 0.5),
        ("level_db worst", "within 0.5", -1.0, 2.0),
        ("pesq mean", ">= 4", METRICS["pesq"].perfect, 0.0),
    ):
        assert compute_used_share({"gate": gate, "value": value, "rule": rule}) == share


def test_means_have_their_intervals_on_page_and_terminal(record, heard, capsys):
    (p6,) = (level for level in record["levels"] if level["method"] == "p6")
    low, high = find_interval(p6, "pesq")
    assert low < p6["summary"]["pesq"]["mean"] < high
    assert f"<small>{format_figure(low)}–{format_figure(high)}</small>" in render_page(
        record, heard
    )
    print_release(record)
    shown = capsys.readouterr().out
    for part in (f"{low:.2f}-{high:.2f}", " more", "palette, 6 bits"):
        assert part in shown


class TestSounds:
    def test_a_level_comes_back_to_the_last_bit(self, heard):
        reference, near = heard[0].signals[REFERENCE], heard[0].signals["w8"]
        alone, difference = encode_sound(near), encode_sound(near, reference)
        assert (alone["difference"], difference["difference"]) == (False, True)
        assert len(difference["flac"]) < len(alone["flac"])
        samples, base, rest = (
            soundfile.read(io.BytesIO(base64.b64decode(way["flac"])), dtype="int16")[0].astype(int)
            for way in (alone, encode_sound(reference), difference)
        )
        assert np.array_equal(samples, base + rest)

    def test_what_does_not_fit_is_left_out_last_wanted_first(self, record, heard, monkeypatch):
        text, left_out = build_player(record, heard)
        data = json.loads(text)
        levels, clips = data["levels"], data["clips"]
        assert not left_out
        assert levels[0] == "p6"
        assert set(levels) == set(clips[0]["figures"]) == set(REPORT_LEVELS)
        spent = sum(len(way["flac"]) for clip in clips for way in clip["sounds"].values())
        monkeypatch.setattr("kokoro_ane.eval.listening.BUDGET_BYTES", spent - 1)
        assert build_player(record, heard)[1] == levels[-1:]
        assert "Left out to keep the page small: " + levels[-1] in render_page(record, heard)

    def test_the_worst_clip_of_the_level_is_heard(self, record):
        clips = [replace(clip, id=f"judged-{number:02d}") for number, clip in enumerate(heldout())]
        chosen = choose_clips(record, clips)
        (p6,) = (level for level in record["levels"] if level["method"] == "p6")
        pesq = {clip["id"]: clip["figures"]["pesq"] for clip in p6["clips"]}
        fitting = [clip.id for clip in clips if 2 <= clip.frames / 40 <= 7]
        assert chosen[0].id == min(fitting, key=pesq.get)
        assert len({clip.voice for clip in chosen}) == 3


def test_the_command_writes_page_and_blind_pack(placed, measured, monkeypatch, tmp_path, capsys):
    release(placed, "--methods", "fp16")
    monkeypatch.undo()
    folder, pack = placed[1] / "release", placed[1] / "release" / "listening"

    def reported(checkpoint):
        return report(["--checkpoint", str(checkpoint), "--build", str(placed[1])])

    assert reported(placed[0].folder) == 0
    written = Page((folder / "report.html").read_text(encoding="utf-8"))
    words = " ".join(written.words.split())
    for part in ("iOS 17 the vocoder", "not in it: encoder", "Would release padded-fp16"):
        assert part in words
    data = json.loads(written.sounds)
    assert data["levels"] == ["padded-fp16"]
    assert len(data["clips"]) == 3
    key = base64.b64decode((pack / "key.sealed").read_bytes())
    assert hashlib.sha256(key).hexdigest() in (pack / "README.txt").read_text(encoding="utf-8")
    rows = list(csv.reader((pack / "sheet.csv").read_text(encoding="utf-8").splitlines()))
    wavs = list(pack.glob("*-A.wav"))
    assert len(rows) - 1 == len(json.loads(key)["pairs"]) == len(wavs) == 6

    (folder / "report.html").write_text("<p>years", encoding="utf-8")
    assert reported(placed[0].folder) == 2
    assert "report.html is not replaced" in capsys.readouterr().err
    assert (folder / "report.html").read_text(encoding="utf-8") == "<p>years"
    (folder / "report.html").unlink()
    assert reported(write_checkpoint(tmp_path / "other", small_config(), seed=1, encoder=True)) == 2
    assert "the decision is about checkpoint" in capsys.readouterr().err


def test_pairs_are_shuffled_by_the_seed_and_hold_catch_trials():
    heard = [Audition(clip, {REFERENCE: np.zeros(1), "w8": np.zeros(1)}) for clip in heldout()[:6]]
    listed = draw_pairs(heard, ["w8"], seed=3)
    assert listed == draw_pairs(heard, ["w8"], seed=3) != draw_pairs(heard, ["w8"], seed=4)
    assert sum(pair["A"] == pair["B"] == REFERENCE for pair in listed) == 6
    assert {pair["A"] for pair in listed if pair["A"] != pair["B"]} == {REFERENCE, "w8"}
