"""coremltools' own tests judge the executor: a seeded sample of them here, all of them with `python -m bench.coremltools_suite`.

python -m pytest tests/test_mlprogram_suite.py -q
"""

from __future__ import annotations

import json

import pytest

from bench import coremltools_suite
from bench.coremltools_red import RULES, explanation
from bench.coremltools_suite import HALF, kind_of, main

GOOD = {"case": "f.py::T::t[precision='fp32']", "predictions": 1, "errors": [], "other_kind": False, "half": False}
GOOD |= {"operations": ["add"], "worst": 0.0, "outcome": "passed", "message": "", "where": ""}
MISSED = {"outcome": "failed", "message": "AssertionError: Not equal to tolerance rtol=1e-05"}


def test_a_sample_of_the_operations_agrees(capsys: pytest.CaptureFixture) -> None:
    """Two files of the suite, chosen by the seed, first cases of every function in them."""
    assert main(["--suite", "operations", "--files", "2", "--sample", "30", "--seed", "5"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["judged"] >= 10
    assert summary["unexplained"] == 0


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "agrees"),
        (MISSED, "disagrees"),
        (MISSED | {"half": True, "worst": HALF / 2}, "agrees to fp16"),
        (MISSED | {"half": True, "worst": HALF * 2}, "disagrees"),
        (MISSED | {"half": True, "worst": HALF / 2, "case": "f.py::T::t[precision='fp16']"}, "disagrees"),
        ({"outcome": "failed", "message": "RuntimeError", "errors": ["run: no"], "half": True}, "disagrees"),
        ({"outcome": "failed", "predictions": 0}, "does not convert here"),
        ({"predictions": 0}, "predicts nothing"),
        ({"other_kind": True, "outcome": "failed"}, "not an ML program"),
        ({"outcome": "expected to fail"}, "expected to fail"),
    ],
)
def test_kinds_of_cases(change: dict, kind: str) -> None:
    assert kind_of(GOOD | change) == kind


def test_only_written_rules_explain() -> None:
    assert explanation(GOOD | MISSED) == ("not explained", "unknown")
    assert {rule.who for rule in RULES} <= {"mlprogram", "coremltools", "both"}


@pytest.mark.parametrize(("red", "code"), [(0, 0), (1, 1)])
def test_an_unexplained_case_fails_the_run(red: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    cases = [{"collected": 9, "chosen": 3}, *[GOOD] * (3 - red), *[GOOD | MISSED] * red]
    monkeypatch.setattr(coremltools_suite, "run_pytest", lambda *_: cases)
    assert main(["--suite", "quantization"]) == code
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["unexplained"] == red


def test_a_case_that_takes_its_process_down_is_red_and_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.coremltools_suite import run_pytest, told

    head, first, fatal, last = {"collected": 3, "chosen": 3}, GOOD | {"case": "a"}, {"begun": "b"}, GOOD | {"case": "c"}
    assert told([head, {"begun": "a"}, first], 0) == [head, first]
    red = told([head, {"begun": "a"}, first, fatal], -11)[-1]
    assert red["case"] == "b" and red["message"] == "the process ended with -11" and kind_of(red) == "disagrees"
    answers = {0: told([head, first, fatal], -11), 2: [head, last]}
    monkeypatch.setattr(coremltools_suite, "run_process", lambda _, __, ___, skip: answers[skip])
    assert [case.get("case") for case in run_pytest([], None, None)] == [None, "a", "b", "c"]


def test_bad_input(capsys: pytest.CaptureFixture) -> None:
    assert main(["--sample", "-1"]) == 2
    assert "0 or more" in capsys.readouterr().err
