"""Palettes, grids, damage and the search: figures small enough to check by hand."""

import itertools

import numpy as np
import pytest
import torch

from core.errors import InputError
from quantize.damage import damage_db2
from quantize.palette import palette
from quantize.search import Option, first_within, trade_off
from quantize.simulate import activation_grid, linear_grid, palette_grid


class TestPalette:
    @pytest.mark.parametrize("bits", [4, 6, 8])
    def test_error_falls_with_bits_and_beats_a_uniform_table(self, bits: int) -> None:
        weight = np.random.default_rng(0).standard_normal((64, 32, 1, 3)).astype(np.float16)
        table, index = palette(weight, bits)
        assert table.shape == (2**bits,)
        assert table.dtype == np.float16
        assert (np.diff(table.astype(np.float64)) >= 0).all()
        error = np.square(table[index].astype(np.float64) - weight.reshape(-1)).mean()
        step = float(np.ptp(weight)) / (2**bits - 1)
        assert error < 0.8 * step**2 / 12

    def test_every_weight_has_its_nearest_value(self) -> None:
        weight = np.random.default_rng(1).standard_normal(500).astype(np.float16)
        table, index = palette(weight, 4)
        distances = np.abs(weight.astype(np.float64)[:, None] - table.astype(np.float64))
        assert np.abs(distances[np.arange(500), index] - distances.min(axis=1)).max() < 1e-12

    def test_near_the_exact_optimum(self) -> None:
        """40 weights in 16 values: dynamic programming over all splits gives the least error there is."""
        weight = np.sort(np.random.default_rng(2).standard_normal(40)).astype(np.float16)
        table, index = palette(weight, 4)
        error = np.square(table[index].astype(np.float64) - weight).sum()
        assert error <= 1.3 * optimal_error(weight.astype(np.float64), 16) + 1e-6

    def test_few_distinct_values_are_kept(self) -> None:
        weight = np.tile(np.array([-1.0, 0.0, 0.5], np.float16), 100)
        table, index = palette(weight, 4)
        assert np.array_equal(table[index], weight)


def optimal_error(values: np.ndarray, count: int) -> float:
    """Least squared error of `values` (sorted) in `count` runs."""

    def cost(i: int, j: int) -> float:
        return float(np.square(values[i:j] - values[i:j].mean()).sum())

    best = [0.0] + [np.inf] * len(values)
    for _ in range(count):
        best = [0.0] + [min(best[i] + cost(i, j) for i in range(j)) for j in range(1, len(values) + 1)]
    return best[-1]


class TestGrids:
    def test_activations_have_255_steps_and_saturate(self) -> None:
        x = torch.linspace(-2.0, 2.0, 4001)
        rounded = activation_grid(x, peak=1.27)
        assert rounded.max() == pytest.approx(1.27, rel=1e-3)
        assert rounded.min() == pytest.approx(-1.28, rel=1e-3)
        assert (rounded - x).abs()[(x.abs() < 1.27)].max() <= 0.00501

    def test_linear_weights_have_one_scale_a_channel(self) -> None:
        weight = torch.randn(4, 3, 1, 5) * torch.tensor([0.01, 1.0, 10.0, 100.0]).view(-1, 1, 1, 1)
        error = (linear_grid(weight, 8, axis=0) - weight).abs().amax(dim=(1, 2, 3))
        assert (error <= weight.abs().amax(dim=(1, 2, 3)) / 127 * 0.56).all()

    def test_palette_grid_holds_few_values(self) -> None:
        assert len(palette_grid(torch.randn(64, 64, 1, 3), 4).unique()) <= 16


def test_damage_is_zero_for_equals_and_grows_with_noise() -> None:
    rng = np.random.default_rng(0)
    speech = rng.standard_normal(24_000)
    values = [damage_db2(speech, speech + level * rng.standard_normal(24_000)) for level in (0.0, 0.01, 0.1)]
    assert values[0] == 0.0
    assert 0 < values[1] < values[2] / 10


class TestTradeOff:
    OPTIONS = [
        Option(layer, level, damage, gain)
        for layer, choices in {
            "a": {"w8": (0.0, 0.0), "w8a8": (0.1, 0.5)},
            "b": {"w8": (0.0, 0.0), "w8a8": (0.9, 0.3)},
            "c": {"w8": (0.0, 0.0), "w8a8": (0.02, 0.2)},
        }.items()
        for level, (damage, gain) in choices.items()
    ]

    def test_cheapest_steps_come_first(self) -> None:
        curve = trade_off(self.OPTIONS, "w8")
        assert [point.gain for point in curve] == pytest.approx([0.0, 0.2, 0.7, 1.0])
        assert [point.damage_db2 for point in curve] == pytest.approx([0.0, 0.02, 0.12, 1.02])
        assert first_within(curve, 0.6).levels == {"a": "w8a8", "b": "w8", "c": "w8a8"}

    def test_every_point_is_the_best_of_its_gain(self) -> None:
        """Against every combination of levels."""
        by_layer = [[o for o in self.OPTIONS if o.layer == layer] for layer in "abc"]
        for point in trade_off(self.OPTIONS, "w8"):
            rivals = [c for c in itertools.product(*by_layer) if sum(o.gain for o in c) >= point.gain - 1e-9]
            assert point.damage_db2 <= min(sum(o.damage_db2 for o in c) for c in rivals) + 1e-9

    def test_a_level_above_the_hull_is_never_taken(self) -> None:
        options = [Option("a", "fp16", 0.0, 0.0), Option("a", "w8", 0.9, 0.5), Option("a", "p4", 1.0, 0.75)]
        assert [point.levels["a"] for point in trade_off(options, "fp16")] == ["fp16", "p4"]

    def test_a_budget_out_of_reach_says_how_far_it_goes(self) -> None:
        with pytest.raises(InputError, match=r"a gain of 1.1000, the levels give at most 1.0000"):
            first_within(trade_off(self.OPTIONS, "w8"), 1.1)
