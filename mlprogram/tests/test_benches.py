"""The benches: the tables of coremltools' suite, and the executor beside PyTorch."""

import json

import pytest

from mlprogram_benches import coremltools_suite, executor
from mlprogram_benches.coremltools_suite import HALF, RULES, explanation, kind_of, main

GOOD = {
    "case": "f.py::T::t[precision='fp32']",
    "predictions": 1,
    "errors": [],
    "other_kind": False,
    "half": False,
}
GOOD |= {"operations": ["add"], "worst": 0.0, "outcome": "passed", "message": "", "where": ""}
MISSED = {"outcome": "failed", "message": "AssertionError: Not equal to tolerance rtol=1e-05"}


class TestSuite:
    @pytest.mark.slow
    def test_a_sample_of_the_operations_agrees(self, capsys):
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
            (
                MISSED | {"half": True, "worst": HALF / 2, "case": "f.py::T::t[precision='fp16']"},
                "disagrees",
            ),
            (
                {
                    "outcome": "failed",
                    "message": "RuntimeError",
                    "errors": ["run: no"],
                    "half": True,
                },
                "disagrees",
            ),
            ({"outcome": "failed", "predictions": 0}, "does not convert here"),
            ({"predictions": 0}, "predicts nothing"),
            ({"other_kind": True, "outcome": "failed"}, "not an ML program"),
            ({"outcome": "expected to fail"}, "expected to fail"),
        ],
    )
    def test_kinds_of_cases(self, change, kind):
        assert kind_of(GOOD | change) == kind

    def test_only_written_rules_explain(self):
        assert explanation(GOOD | MISSED) == ("not explained", "unknown")
        assert {rule.who for rule in RULES} <= {"mlprogram", "coremltools", "both"}

    @pytest.mark.parametrize(("red", "code"), [(0, 0), (1, 1)])
    def test_an_unexplained_case_fails_the_run(self, red, code, monkeypatch, capsys):
        cases = [{"collected": 9, "chosen": 3}, *[GOOD] * (3 - red), *[GOOD | MISSED] * red]
        monkeypatch.setattr(coremltools_suite, "run_pytest", lambda *_: cases)
        assert main(["--suite", "quantization"]) == code
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["unexplained"] == red

    def test_a_case_that_takes_its_process_down_is_red_and_the_others_still_run(self, monkeypatch):
        from mlprogram_benches.coremltools_suite import run_pytest, told

        head, first, fatal, last = (
            {"collected": 3, "chosen": 3},
            GOOD | {"case": "a"},
            {"begun": "b"},
            GOOD | {"case": "c"},
        )
        assert told([head, {"begun": "a"}, first], 0) == [head, first]
        red = told([head, {"begun": "a"}, first, fatal], -11)[-1]
        assert red["case"] == "b"
        assert red["message"] == "the process ended with -11"
        assert kind_of(red) == "disagrees"
        answers = {0: told([head, first, fatal], -11), 2: [head, last]}
        monkeypatch.setattr(
            coremltools_suite, "run_process", lambda _, __, ___, skip: answers[skip]
        )
        assert [case.get("case") for case in run_pytest([], None, None)] == [None, "a", "b", "c"]

    @pytest.mark.slow
    def test_full_size_generator(self, tmp_path):
        figures = executor.measure(rounds=1, folder=tmp_path)
        assert figures["snr_db_to_float64"]["fp32 declared"] >= executor.AGREEMENT_DB
        for name in ("fp32 declared", "fp16 declared"):
            assert figures["memory_ratio"][name] <= executor.MEMORY_LIMIT, figures["memory_ratio"]
        assert (
            figures["snr_db_to_float64"]["fp16 declared"]
            > figures["snr_db_to_float64"]["fp16 ane_numerics"]
            > 30
        )

    @pytest.mark.slow
    def test_a_gru_of_flexible_length_runs_as_one(self, tmp_path):
        rows = executor.measure_loops(1, tmp_path, targets=("iOS18",))
        assert len(rows) == 8
        for name, row in rows.items():
            least_db = executor.AGREEMENT_DB if "fp32" in name else 50
            assert row["snr_db_to_float64"] >= least_db
