"""The verdict: every gate can fail, missing figures never pass, too few clips decide nothing."""

import pytest

from eval.gates import COMMON, EXTRA, FEWEST_CLIPS, MEAN, WORST, Gate, gates_for
from eval.metrics.registry import HIGHER, METRICS, ZERO
from eval.verdict import REJECT, SHIP, STRADDLES, UNDECIDED, decide, interval, statistic
from quantize.methods import METHODS

PERFECT = {name: metric.perfect for name, metric in METRICS.items()}
FLOOR = {**PERFECT, "pesq": 4.4, "mcd_db": 1.2, "lsd_db": 1.3, "snr_db": 20.0}


def verdict(figures: list[dict[str, float]], method: str = "w8") -> str:
    """The verdict over these clips."""
    return decide(gates_for(method), figures, [FLOOR] * len(figures)).verdict


def missed_value(gate: Gate) -> float:
    """A figure just on the wrong side."""
    limit = gate.limit * (FLOOR[gate.metric] if gate.in_seed_floors else 1.0)
    return limit - 0.01 if METRICS[gate.metric].best == HIGHER else limit + 0.01


@pytest.mark.parametrize("method", METHODS)
def test_perfect_clips_ship(method: str) -> None:
    assert verdict([PERFECT] * FEWEST_CLIPS, method) == SHIP


@pytest.mark.parametrize("gate", [*COMMON, *EXTRA["fp16"]], ids=lambda gate: gate.name)
def test_each_gate_rejects_alone(gate: Gate) -> None:
    method = "fp16" if gate in EXTRA["fp16"] else "w8"
    bad = PERFECT | {gate.metric: missed_value(gate)}
    clips = [bad] * FEWEST_CLIPS if gate.statistic == MEAN else [PERFECT] * (FEWEST_CLIPS - 1) + [bad]
    decision = decide(gates_for(method), clips, [FLOOR] * FEWEST_CLIPS)
    assert decision.verdict == REJECT
    assert gate.name in decision.broken
    assert any(gate.reason in reason for reason in decision.reasons)


@pytest.mark.parametrize("gate", [gate for gate in COMMON if METRICS[gate.metric].best == ZERO], ids=lambda gate: gate.name)
def test_two_sided_gates_reject_both_sides(gate: Gate) -> None:
    assert verdict([PERFECT | {gate.metric: -gate.limit - 0.01}] * FEWEST_CLIPS) == REJECT


def test_too_few_clips_decide_nothing() -> None:
    assert verdict([PERFECT] * (FEWEST_CLIPS - 1)) == UNDECIDED
    assert verdict([PERFECT | {"pesq": 1.0}] * 3) == UNDECIDED
    assert verdict([]) == UNDECIDED


def test_a_missing_figure_is_never_a_pass() -> None:
    clips = [PERFECT] * (FEWEST_CLIPS - 1) + [{k: v for k, v in PERFECT.items() if k != "level_db"}]
    decision = decide(gates_for("w8"), clips, [FLOOR] * FEWEST_CLIPS)
    assert decision.verdict == UNDECIDED
    assert decision.reasons == ("level_db worst was not measured",)


def test_gates_in_seed_floors_need_one() -> None:
    decision = decide(gates_for("w8"), [PERFECT] * FEWEST_CLIPS, [])
    assert decision.verdict == UNDECIDED
    assert {check.gate.name for check in decision.checks if not check.passed} == {"mcd_db mean", "lsd_db mean"}


def test_no_audio_is_a_rejection() -> None:
    decision = decide(
        gates_for("w8"),
        [PERFECT] * (FEWEST_CLIPS - 1),
        [FLOOR] * (FEWEST_CLIPS - 1),
        defects=("heldout-03: the package's output is silent",),
    )
    assert decision.verdict == REJECT
    assert decision.reasons[0].endswith("is silent")


def test_fp16_is_held_to_more() -> None:
    by_name = {gate.name: gate for gate in gates_for("fp16")}
    assert by_name["pesq mean"].limit == 4.5
    assert by_name["snr_db mean"].limit == 45.0
    assert len(by_name) == len(gates_for("fp16")) == len(COMMON) + 1


def test_every_gate_names_a_metric_a_statistic_and_a_reason() -> None:
    for gate in (*COMMON, *EXTRA["fp16"]):
        assert gate.metric in METRICS
        assert gate.statistic in (MEAN, WORST)
        assert len(gate.reason) > 30
    assert set(EXTRA) <= set(METHODS)


def test_statistics() -> None:
    clips = [{"pesq": 4.0, "level_db": -0.9}, {"pesq": 3.0, "level_db": 0.3}]
    assert statistic("pesq", MEAN, clips) == 3.5
    assert statistic("pesq", WORST, clips) == 3.0
    assert statistic("level_db", WORST, clips) == -0.9
    assert statistic("mcd_db", MEAN, clips) is None


def test_a_mean_too_near_its_limit_is_undecided() -> None:
    """Half the clips at 3.9 and half at 4.12: the mean is above 4, its interval is not."""
    clips = [PERFECT | {"pesq": 3.9 if i % 2 else 4.12} for i in range(FEWEST_CLIPS)]
    decision = decide(gates_for("w8"), clips, [FLOOR] * FEWEST_CLIPS)
    assert decision.verdict == UNDECIDED
    assert [check.gate.name for check in decision.checks if check.state == STRADDLES] == ["pesq mean"]
    assert "too near to tell" in decision.reasons[0]


def test_a_seed_floor_limit_is_resampled_with_its_clips() -> None:
    """Clip by clip just below the other seed: certain, though both means have wide intervals that overlap."""
    spread = [0.5 + 0.1 * i for i in range(FEWEST_CLIPS)]
    clips, seed_floor = ([PERFECT | {"mcd_db": factor * x} for x in spread] for factor in (0.99, 1.0))
    checks = {c.gate.name: c for c in decide(gates_for("w8"), clips, seed_floor).checks}
    assert checks["mcd_db mean"].passed
    assert checks["mcd_db mean"].high > checks["mcd_db mean"].limit


def test_a_doubt_stops_a_ship_and_not_a_reject() -> None:
    seed_floor = [FLOOR] * FEWEST_CLIPS
    assert decide(gates_for("w8"), [PERFECT] * FEWEST_CLIPS, seed_floor, doubts=("no device",)).verdict == UNDECIDED
    assert decide(gates_for("w8"), [PERFECT | {"pesq": 1.0}] * FEWEST_CLIPS, seed_floor, doubts=("no device",)).verdict == REJECT


def test_interval_is_seeded_and_holds_the_mean() -> None:
    values = [1.0, 2.0, 4.0, 8.0] * 6
    assert interval(values) == interval(values) != interval(values, seed=1)
    low, high = interval(values)
    assert low < sum(values) / len(values) < high
    assert interval([3.0] * 5) == (3.0, 3.0)


def test_a_mean_of_errors_of_both_signs_is_no_gate() -> None:
    with pytest.raises(ValueError, match="cancel in a mean"):
        Gate("level_db", MEAN, 0.5, "half of them up and half of them down would pass")
