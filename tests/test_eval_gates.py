"""The verdict: every gate can fail, missing figures never pass, few clips decide nothing; docs/metrics.md states these very limits."""

import re
from pathlib import Path

import pytest

from kokoro_ane.eval.gates import COMMON, EXTRA, FEWEST_CLIPS, FP16_ONLY, MEAN, WORST, Gate, gates_for
from kokoro_ane.eval.metrics.catalog import HIGHER, METRICS, ZERO
from kokoro_ane.eval.negative_controls import CONTROLS
from kokoro_ane.eval.verdict import REJECT, SHIP, STRADDLES, UNDECIDED, decide, interval, statistic
from kokoro_ane.quantize.methods import METHODS

PERFECT = {name: metric.perfect for name, metric in METRICS.items()}
FLOOR = {**PERFECT, "pesq": 4.4, "mcd_db": 0.6, "lsd_db": 1.3, "snr_db": 20.0, "words_changed": 1.0, "speaker_distance": 0.2}


def verdict(figures: list[dict[str, float]], method: str = "w8") -> str:
    """The verdict over these clips."""
    return decide(gates_for(method), figures, [FLOOR] * len(figures)).verdict


def missed_value(gate: Gate) -> float:
    """A figure just on the wrong side."""
    limit = gate.limit_for(FLOOR[gate.metric])
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


def test_few_clips_never_ship() -> None:
    assert verdict([PERFECT] * (FEWEST_CLIPS - 1)) == UNDECIDED
    assert verdict([]) == UNDECIDED


def test_a_gate_broken_for_certain_rejects_three_clips() -> None:
    assert verdict([PERFECT | {"pesq": 1.0 + 0.1 * i} for i in range(3)]) == REJECT  # the mean
    assert verdict([PERFECT, PERFECT, PERFECT | {"lag_samples": 1.0}]) == REJECT  # a fact
    assert verdict([PERFECT | {"level_db": -3.0}]) == REJECT
    assert verdict([PERFECT | {"mcd_db": 2.0}] * 2) == UNDECIDED  # two clips are no mean
    near = [PERFECT | {"mcd_increase_db": value} for value in (0.1, 0.5, 1.2)]  # mean 0.6, but Student's interval is wide
    assert verdict(near) == UNDECIDED


def test_a_noisier_voice_loosens_no_gate() -> None:
    """The smaller of cap and multiple holds: eight times the floor moves no limit above its cap, an eighth tightens it."""
    for gate in (gate for gate in COMMON if gate.tightened_by_seeds):
        assert gate.limit_for(8 * gate.limit) == gate.limit
        assert gate.limit_for(gate.limit / 8 / gate.seed_multiple) == pytest.approx(gate.limit / 8)
        bad = PERFECT | {gate.metric: 1.01 * gate.limit}
        noisy = [PERFECT | {gate.metric: 8 * gate.limit}] * FEWEST_CLIPS
        assert decide(gates_for("w8"), [bad] * FEWEST_CLIPS, noisy).verdict == REJECT


def test_the_worst_of_the_seeds_is_the_floor_of_a_worst_clip() -> None:
    floors = [{"local_level_db": 1.0, "local_level_db worst": 2.0 + i} for i in range(3)]
    assert statistic("local_level_db", MEAN, floors) == 1.0
    assert statistic("local_level_db", WORST, floors) == 4.0


def test_a_multiple_of_what_is_best_high_is_no_limit() -> None:
    with pytest.raises(ValueError, match="no limit"):
        Gate("pesq", MEAN, 4.0, "a multiple of a good score", seed_multiple=1.0)


def test_a_missing_figure_is_never_a_pass() -> None:
    clips = [PERFECT] * (FEWEST_CLIPS - 1) + [{k: v for k, v in PERFECT.items() if k != "level_db"}]
    decision = decide(gates_for("w8"), clips, [FLOOR] * FEWEST_CLIPS)
    assert decision.verdict == UNDECIDED
    assert decision.reasons == ("level_db worst was not measured",)


def test_gates_in_seed_floors_need_one() -> None:
    decision = decide(gates_for("w8"), [PERFECT] * FEWEST_CLIPS, [])
    assert decision.verdict == UNDECIDED
    assert {check.gate.name for check in decision.checks if not check.passed} == {gate.name for gate in COMMON if gate.tightened_by_seeds}


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
    spread = [0.1 + 0.05 * i for i in range(FEWEST_CLIPS)]
    multiple = next(gate.seed_multiple for gate in COMMON if gate.metric == "mcd_db")
    clips, seed_variation = ([PERFECT | {"mcd_db": factor * x} for x in spread] for factor in (0.99 * multiple, 1.0))
    checks = {c.gate.name: c for c in decide(gates_for("w8"), clips, seed_variation).checks}
    assert checks["mcd_db mean"].passed
    assert checks["mcd_db mean"].high > checks["mcd_db mean"].limit


def test_a_doubt_stops_a_ship_and_not_a_reject() -> None:
    seed_variation = [FLOOR] * FEWEST_CLIPS
    assert decide(gates_for("w8"), [PERFECT] * FEWEST_CLIPS, seed_variation, doubts=("no device",)).verdict == UNDECIDED
    assert decide(gates_for("w8"), [PERFECT | {"pesq": 1.0}] * FEWEST_CLIPS, seed_variation, doubts=("no device",)).verdict == REJECT


def test_interval_is_seeded_and_holds_the_mean() -> None:
    values = [1.0, 2.0, 4.0, 8.0] * 6
    assert interval(values) == interval(values) != interval(values, seed=1)
    low, high = interval(values)
    assert low < sum(values) / len(values) < high
    assert interval([3.0] * 5) == (3.0, 3.0)


def test_a_mean_of_errors_of_both_signs_is_no_gate() -> None:
    with pytest.raises(ValueError, match="cancel in a mean"):
        Gate("level_db", MEAN, 0.5, "half of them up and half of them down would pass")


TEXT = (Path(__file__).resolve().parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROWS = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in TEXT.splitlines() if line.startswith("| ")]


def limit_of(gate: Gate) -> str:
    return gate.rule(gate.limit) + (f", <= {gate.seed_multiple:g} seed variation" if gate.seed_multiple is not None else "")


def test_stated_limits_are_the_gates_of_the_code() -> None:
    code = {re.sub(r"band_.*_khz", "band_..._khz", gate.name): limit_of(gate) for gate in COMMON}
    code |= {f"{gate.name} (fp16)": limit_of(gate) for gate in FP16_ONLY}
    stated = {row[0].replace("`", "").split(",")[0]: row[1] for row in ROWS if re.match(r"(>=|<=|within) ", row[1])}
    assert len(stated) > 10
    assert stated.items() <= code.items()


def test_every_control_s_metric_is_named() -> None:
    section = TEXT.split("## Negative controls")[1]
    assert {control.metric for control in CONTROLS.values()} <= set(re.findall(r"`(\w+)`:", section))
