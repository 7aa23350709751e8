"""A product under one budget: which of the encoder's parts become smaller, and what the vocoder
gets.

python -m pytest tests/eval/test_product_search.py -q
"""

from types import SimpleNamespace

import pytest

from kokoro_ane.eval import product_search, search
from kokoro_ane.eval.product_search import EncoderSearch, build_searched
from kokoro_ane.quantize.methods import CHOICES, METHODS
from tests.commands import refused

FINE, MIDDLE, COARSE = CHOICES["searched"]
SIZES = {"albert": 1.5, "lstm": 1.0, "text": 1.0, "tiny": 0.01}
SAVED = {FINE: 1.0, MIDDLE: 2.0, COARSE: 3.0}
# of the limit of durations and of the text's, by part and level
SHARES = {
    ("albert", MIDDLE): (0.5, 0.0),
    ("albert", COARSE): (1.7, 0.0),
    ("lstm", MIDDLE): (0.3, 0.0),
    ("lstm", COARSE): (0.6, 0.0),
    ("text", MIDDLE): (0.0, 0.9),
    ("tiny", MIDDLE): (0.0, 0.0),
}


class Parts:
    """Stands for EncoderCandidates: three parts, and one that is worth nothing."""

    parts = tuple(SIZES)

    def __init__(self):
        self.saved = {}

    def choose_all(self, level):
        return dict.fromkeys(self.parts, level)

    def count_saved(self, choice):
        return sum(SIZES[part] * SAVED[level] for part, level in choice.items())

    def save(self, choice, build):
        build.mkdir(parents=True)
        self.saved[build] = choice


@pytest.fixture
def searching(monkeypatch, tmp_path):
    """A search whose parts use SHARES of two limits; together `more` times what squares say."""

    def make(base=0.1, more=1.0):
        candidates = Parts()

        def judged(_, __, context):
            choice = candidates.saved[context.options.build]
            parts = [SHARES.get(one, (0.0, 0.0)) for one in choice.items()]
            together = [sum(share[gate] ** 2 for share in parts) ** 0.5 for gate in (0, 1)]
            whole = len([one for one in choice.values() if one != FINE]) > 1
            return {
                gate: base + share * (more if whole else 1) for gate, share in enumerate(together)
            }

        monkeypatch.setattr(search, "judge_file", judged)
        monkeypatch.setattr(product_search, "compute_shares", dict)
        monkeypatch.setattr(product_search, "take_far_ends", dict)
        monkeypatch.setattr(search, "replace", lambda one, **fields: SimpleNamespace(**fields))
        context = SimpleNamespace(options=SimpleNamespace(build=tmp_path), checkpoint=None)
        return EncoderSearch(context, candidates)

    return make


def test_the_choice_that_saves_most_is_taken_where_it_holds(searching):
    search = searching()
    # the two alone use 0.6 and 0.4, the coarser one would use 0.7 beside 0.6
    assert search.find_smallest() == {"albert": MIDDLE, "lstm": MIDDLE, "text": FINE, "tiny": FINE}
    measured = [trial["levels"] for trial in search.trials]
    # nothing coarser than what is too coarse, and nothing of a part that saves nothing
    assert {**search.candidates.choose_all(FINE), "text": COARSE} not in measured
    assert all(levels["tiny"] == FINE for levels in measured)
    assert not any(search.context.options.build.glob("search/*"))


def test_where_the_whole_uses_more_the_parts_are_added_up(searching):
    search = searching(more=1.4)
    found = search.find_smallest()
    assert found == {"albert": FINE, "lstm": COARSE, "text": FINE, "tiny": FINE}
    assert search.trials[-1]["share"] <= product_search.ROOM < search.trials[-2]["share"]


def test_a_mean_counts_with_the_far_end_of_its_interval():
    checks = [{"value": 1.0, "low": 0.5, "high": 2.0}, {"value": 3.0, "low": None, "high": None}]
    far = product_search.take_far_ends({"checks": checks, "verdict": "SHIP"})
    assert [check["value"] for check in far["checks"]] == [2.0, 3.0]
    assert far["verdict"] == "SHIP"


def test_where_nothing_holds_no_encoder_is_built(searching, monkeypatch):
    search = searching(base=0.8)
    assert search.find_smallest() is None
    monkeypatch.setattr(EncoderSearch, "start", lambda _: search)
    record = {}
    assert not build_searched(search.context, record)
    assert record["encoder_search"]["taken"] is None


BYTES = {"searched": 22_000_000, "mixed": 24_000_000, "w8g": 30_000_000}


@pytest.fixture
def verdicts(monkeypatch):
    """The verdict of each encoder; products are told by the arguments of what judges them."""
    of = dict.fromkeys(BYTES, "SHIP")
    monkeypatch.setattr(
        product_search, "judge_encoder_alone", lambda name, _: {"verdict": of[name]}
    )
    monkeypatch.setattr(product_search, "measure_encoder", lambda name, _: BYTES[name])
    monkeypatch.setattr(product_search, "judge_product", lambda *product: product)
    monkeypatch.setattr(product_search, "build_searched", lambda *_: of["searched"] != "none")
    return of


def test_a_product_has_one_budget(verdicts, monkeypatch):
    """The smallest encoder that ships is taken, and the vocoder gets what it leaves."""
    verdicts["mixed"] = "REJECT"
    asked = []
    parts = {"text": 4_000_000, "encoder": 30_000_000, "voice": 500_000}
    monkeypatch.setattr(product_search, "count_parts_beside", lambda *_: parts)

    def found(method, layout, context, most_mb, record):
        asked.append((method, layout, most_mb))
        return {"method": "mixed18", "verdict": "SHIP"}

    monkeypatch.setattr(product_search, "search_level", found)
    level = (METHODS["mixed18"], "streaming")
    product = product_search.search_product(["w8g", "mixed"], level, None, 70.0, {})
    assert asked == [(*level, pytest.approx(35.5))]
    assert product == ("mixed18", "w8g", None, "SHIP", "SHIP")
    product_search.search_product(["w8g"], level, None, None, {})
    assert asked[1] == (*level, None)
    refused(
        "no encoder of mixed ships", product_search.search_product, ["mixed"], level, None, None, {}
    )


def test_it_is_said_why_the_vocoder_does_not_ship(verdicts, monkeypatch, capsys):
    level = {"method": "mixed18", "verdict": "REJECT", "reasons": ["a pause", "a click"]}
    monkeypatch.setattr(product_search, "search_level", lambda *_: level)
    vocoder = (METHODS["mixed18"], "streaming")
    product_search.search_product(list(verdicts), vocoder, None, None, {})
    assert "mixed18: a pause; a click" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "taken"), [("SHIP", "searched"), ("UNDECIDED", "mixed"), ("none", "mixed")]
)
def test_the_encoder_that_is_found_is_one_of_them(verdict, taken, verdicts, monkeypatch):
    verdicts["searched"] = verdict
    level = {"method": "mixed18", "verdict": "SHIP"}
    monkeypatch.setattr(product_search, "search_level", lambda *_: level)
    vocoder = (METHODS["mixed18"], "streaming")
    product = product_search.search_product(list(BYTES), vocoder, None, None, {})
    assert product[1] == taken
