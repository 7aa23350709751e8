"""The rebuilt graphs that are quick to convert: their forecasts hold what was published, and their sizes are the published ones."""

import json

import pytest

from bench.residency import cases, main


def test_published_placements_lie_within_the_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["lai-tail", "snake-sine", "snake-poly", "joint-small"]
    assert main([flag for name in names for flag in ("--only", name)]) == 0
    results = {r["case"]: r for r in json.loads(capsys.readouterr().out.strip().splitlines()[-1])["cases"]}
    assert list(results) == names and all(r["within"] for r in results.values())
    assert results["lai-tail"]["ops"] == results["lai-tail"]["published_ops"] == 13
    assert results["lai-tail"]["optimistic"] == results["lai-tail"]["pessimistic"] == 0
    assert results["snake-sine"]["rules"]["sin-cos"] == 1


def test_every_case_says_where_it_was_published_and_why_it_differs() -> None:
    assert all(case.source and case.difference and 0 <= case.published <= 1 for case in cases().values())


def test_an_unknown_case_lists_the_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nope"]) == 2
    assert "one of lai-vocoder, lai-noise" in capsys.readouterr().err
