"""A search for a level: where it goes, what it mends, when it ends, and that its recipe is taken.

python -m pytest tests/eval/test_search.py -q
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kokoro_ane.core.errors import InputError
from kokoro_ane.eval import search
from kokoro_ane.eval.judge import LONG_S
from kokoro_ane.eval.release import main as release
from kokoro_ane.eval.search import LONG, ROOM, Search, compute_shares
from kokoro_ane.quantize.methods import METHODS
from kokoro_ane.quantize.trade_off import Point
from tests.commands import refused


def level_with(mcd_increase_db, pause_db, long_db=0.0, words_state="holds"):
    """A judged level's record, as far as a search reads it."""

    def check(gate, value, rule, state="holds"):
        return {"gate": gate, "value": value, "rule": rule, "state": state}

    return {
        "checks": [
            check("mcd_increase_db mean", mcd_increase_db, "<= 0.2"),
            check("pause_peak_db worst", pause_db, "<= 6"),
            check("snr_db mean", None, ">= 45"),
            # a recognizer's words flip at any change
            check("words_changed mean", 1.9, "<= 2"),
            check("word_errors_added mean", 1.2, "<= 1", words_state),
            # two steps of pitch, as other seeds have
            check("local_pitch_cents worst", 105.2, "<= 130"),
        ],
        "means_of": {LONG: {"mcd_increase_db": long_db}},
        "summary": {"mcd_db": {"mean": 0.3}},
    }


class Choices:
    """Stands for Candidates: any size from 20 to 110 MB; the level of a size is told by it."""

    least_bytes, whole_bytes = 20e6, 110e6

    def __init__(self, folder):
        self.folder, self.saved = folder, []

    def find_within(self, most_bytes, weights):
        return Point(self.whole_bytes - most_bytes, 0.0, {"a": "w8"}), most_bytes

    def save(self, point, size_bytes, build, with_level=False):
        self.saved.append(size_bytes)
        build.mkdir()
        return build


@pytest.fixture
def searching(monkeypatch, tmp_path):
    """A search whose clips are as bad as `worse(size in MB, weights)` says: values of the gates."""

    def make(worse, taken=None):
        choices = Choices(tmp_path)
        options = SimpleNamespace(build=Path("build"))
        monkeypatch.setattr(search, "replace", lambda one, **fields: SimpleNamespace(**fields))
        context = SimpleNamespace(options=options)
        made = Search(context, METHODS["mixed18"], "streaming", choices, taken or {})

        def judged(*_):
            weights = made.weights_now
            return level_with(*worse(choices.saved[-1] / 1e6, weights))

        within = choices.find_within

        def noted(most_bytes, weights):
            made.weights_now = dict(weights)
            return within(most_bytes, weights)

        choices.find_within = noted
        monkeypatch.setattr(search, "judge_file", judged)
        return made

    return make


def test_the_smallest_is_found_by_halving(searching):
    made = searching(lambda size, _: (0.15 if size >= 33 else 0.3, 1.0))
    best = made.find_smallest()
    assert 33 <= best.size_bytes / 1e6 < 36
    assert best.holds
    assert max(trial.size_bytes for trial in made.trials if not trial.holds) < 33e6


def test_what_is_nearest_to_its_limit_is_mended(searching):
    """The gate of pauses breaks until the distance in pauses counts four times as much."""
    made = searching(lambda size, weights: (0.05, 9.0 if weights["pauses"] < 4 else 3.0))
    best = made.find_within(30e6)
    assert best.weights == {"speech": 1.0, "pauses": 4.0}
    assert [trial.gate for trial in made.trials] == ["pause_peak_db worst", "pause_peak_db worst"]
    assert [trial.holds for trial in made.trials] == [False, True]


def test_what_mending_cannot_mend_is_named(searching):
    made = searching(lambda size, _: (0.3, 1.0))
    best = made.find_within(30e6)
    assert not best.holds
    assert len(made.trials) == search.MENDED
    refused("no choice of these levels holds: .* 150% of mcd_increase_db mean", made.find_smallest)


def test_a_package_above_its_forecast_is_built_smaller(searching, monkeypatch):
    """What stands beside the weights takes 0.4 MB more than was forecast."""
    made = searching(lambda *_: (0.1, 1.0))
    saved = made.candidates.saved
    package = SimpleNamespace(
        load_verified=lambda: SimpleNamespace(package_bytes=saved[-1] + 0.4e6)
    )
    made.context.make_request = lambda *_: package
    made.context.options = SimpleNamespace(checkpoint=None, build=made.candidates.folder / "new")
    monkeypatch.setattr(search, "build_package", lambda _: made.context.options.build.rmdir())
    assert made.build(made.find_within(30e6), 30e6).size_bytes == pytest.approx(29.6e6)


def test_what_the_layout_takes_is_added_to_means(searching):
    assert searching(lambda *_: (0.14, 1.0)).find_within(30e6).holds
    taken = {"mcd_increase_db mean": 0.3}
    assert not searching(lambda *_: (0.14, 1.0), taken).find_within(30e6).holds


def test_long_clips_have_a_share_of_their_own():
    shares = compute_shares(level_with(0.1, 3.0, long_db=0.18))
    assert shares["mcd_increase_db mean"] == pytest.approx(0.5)
    assert shares["pause_peak_db worst"] == pytest.approx(0.5)
    assert shares[f"mcd_increase_db mean, {LONG}"] == pytest.approx(0.9)
    assert len(shares) == 3
    assert (
        compute_shares(level_with(0.1, 3.0, words_state="broken"))["word_errors_added mean"] == 1.2
    )
    assert f"{LONG_S:g}" in LONG
    assert ROOM < 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--at-most 0", "--at-most 0: give a size in MB"),
        ("--at-most nan", "--at-most nan: give a size in MB"),
        ("--smallest --product --encoders w9", "unknown method 'w9'"),
        ("--smallest --no-build", "a search builds levels of the vocoder"),
        ("--smallest --methods w8", "--methods w8: a recipe is searched for mixed or mixed18"),
    ],
)
def test_bad_input_is_one_line(flags, message, built, capsys):
    folders = ["--checkpoint", str(built[0].folder), "--build", str(built[1])]
    assert release([*flags.split(), *folders]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert message in line


def test_two_kinds_of_search_exclude_each_other(capsys):
    with pytest.raises(SystemExit, match="2"):
        release(["--smallest", "--at-most", "40"])
    assert "--at-most: not allowed with argument --smallest" in capsys.readouterr().err


def test_a_size_out_of_reach_is_named(searching, monkeypatch):
    made = searching(lambda *_: (0.1, 1.0))

    def refuse(*_):
        raise InputError("9.0 MB is out of reach: these levels go as far as 20.0 MB")

    made.candidates.find_within = refuse
    refused("out of reach", made.find_within, 9e6)
