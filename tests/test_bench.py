"""The benches' arithmetic on figures small enough to check by hand: duration ties and word error rates."""

import pytest
import torch

from bench.encoder_parity import acceptable, both_models, cases, encoded_by_upstream, raw_durations, rounding
from bench.random_checkpoint import tiny_config
from bench.recognizer import Count, by_voice, difference_interval, rate

EXACT = torch.tensor([2.4, 3.5 + 2e-5, 7.5 - 3e-5, 0.50001, 9.0], dtype=torch.float64)
THEIRS = EXACT + torch.tensor([1e-5, -4e-5, 0, -4e-5, 0], dtype=torch.float64)  # float32 is wrong by 4e-5; token 1 falls to 3


def test_undecided_tokens_are_those_nearer_to_a_half_than_float32_errs() -> None:
    counts = rounding(EXACT, THEIRS, EXACT)
    assert [row[0] for row in counts["open"]] == [1, 2]  # below 1 nothing turns
    assert counts["float32_error"] == pytest.approx(4e-5, rel=1e-6)
    assert (counts["upstream_changed"], counts["changed_decided"], counts["changed_undecided"]) == (1, 0, 0)


@pytest.mark.parametrize(("token", "shift", "decided", "undecided"), [(1, -3e-5, 0, 1), (2, 6e-5, 0, 1), (0, 0.2, 1, 0), (4, 0.6, 1, 0)])
def test_a_changed_duration_is_counted_where_it_belongs(token: int, shift: float, decided: int, undecided: int) -> None:
    ours = EXACT.clone()
    ours[token] += shift
    counts = rounding(EXACT, THEIRS, ours)
    assert (counts["changed_decided"], counts["changed_undecided"]) == (decided, undecided)
    assert acceptable(counts, tokens=5000) == (decided == 0)


def test_many_undecided_tokens_are_refused_and_raw_durations_are_upstreams() -> None:
    """A reference that errs by 0.2 frames would leave everything open."""
    coarse = rounding(EXACT, EXACT + 0.2, EXACT)
    assert not acceptable(coarse, tokens=len(EXACT)) and acceptable(rounding(EXACT, THEIRS, EXACT), tokens=2000)
    upstream, _ = both_models(tiny_config(), seed=0)
    for case in cases(4, seed=5):
        expected = encoded_by_upstream(upstream, case).raw
        torch.testing.assert_close(raw_durations(upstream, case.ids, case.style, case.speed), expected, rtol=0, atol=1e-5)


def counts(*errors: int) -> list[Count]:
    return [Count(("af_heart", "am_adam")[i % 2], "torch", wrong, 10, "") for i, wrong in enumerate(errors)]


def test_rates_and_pairs() -> None:
    found = counts(1, 0, 2, 0)
    assert rate(found) == 0.075 and by_voice(found) == {"af_heart": 0.15, "am_adam": 0.0}
    assert difference_interval(counts(1, 0, 2, 0), counts(1, 0, 2, 0)) == (0.0, 0.0)
    low, high = difference_interval(counts(*[0] * 40), counts(*[1] * 40))
    assert low == high == pytest.approx(0.1)
    low, high = difference_interval(counts(*[0, 1] * 20), counts(*[1, 0] * 20))
    assert low < 0 < high
