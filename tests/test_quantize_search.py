"""Grids, spectral distance, the search and its log: figures small enough to check by hand."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.errors import InputError
from kokoro_ane.quantize.measure import read_log, spectral_distance_db2
from kokoro_ane.quantize.search import Option, first_within, trade_off
from kokoro_ane.quantize.simulate import activation_grid, linear_grid, palette_grid


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


def test_distance_is_zero_for_equals_and_grows_with_noise() -> None:
    rng = np.random.default_rng(0)
    speech = rng.standard_normal(24_000)
    values = [spectral_distance_db2(speech, speech + level * rng.standard_normal(24_000)) for level in (0.0, 0.01, 0.1)]
    assert values[0] == 0.0
    assert 0 < values[1] < values[2] / 10


class TestTradeOff:
    OPTIONS = [
        Option(layer, level, distance, gain)
        for layer, choices in {
            "a": {"w8": (0.0, 0.0), "w8a8": (0.1, 0.5)},
            "b": {"w8": (0.0, 0.0), "w8a8": (0.9, 0.3)},
            "c": {"w8": (0.0, 0.0), "w8a8": (0.02, 0.2)},
        }.items()
        for level, (distance, gain) in choices.items()
    ]

    def test_cheapest_steps_come_first(self) -> None:
        curve = trade_off(self.OPTIONS, "w8")
        assert [point.gain for point in curve] == pytest.approx([0.0, 0.2, 0.7, 1.0])
        assert [point.distance_db2 for point in curve] == pytest.approx([0.0, 0.02, 0.12, 1.02])
        assert first_within(curve, 0.6).levels == {"a": "w8a8", "b": "w8", "c": "w8a8"}

    def test_every_point_is_the_best_of_its_gain(self) -> None:
        """Against every combination of levels."""
        by_layer = [[o for o in self.OPTIONS if o.layer == layer] for layer in "abc"]
        for point in trade_off(self.OPTIONS, "w8"):
            rivals = [c for c in itertools.product(*by_layer) if sum(o.gain for o in c) >= point.gain - 1e-9]
            assert point.distance_db2 <= min(sum(o.distance_db2 for o in c) for c in rivals) + 1e-9

    def test_a_level_above_the_hull_is_never_taken(self) -> None:
        options = [Option("a", "fp16", 0.0, 0.0), Option("a", "w8", 0.9, 0.5), Option("a", "p4", 1.0, 0.75)]
        assert [point.levels["a"] for point in trade_off(options, "fp16")] == ["fp16", "p4"]

    def test_a_budget_out_of_reach_says_how_far_it_goes(self) -> None:
        with pytest.raises(InputError, match=r"a gain of 1.1000, the levels give at most 1.0000"):
            first_within(trade_off(self.OPTIONS, "w8"), 1.1)


class TestLog:
    HEADER = {"format": 1, "checkpoint_sha256": "00ff"}

    def write(self, folder: Path, text: str) -> Path:
        (folder / "log.jsonl").write_text(text, encoding="utf-8")
        return folder / "log.jsonl"

    def test_a_line_cut_off_is_dropped(self, tmp_path: Path) -> None:
        whole = '{"format": 1, "checkpoint_sha256": "00ff"}\n{"layer": "a", "level": "w8", "distance_db2": 0.5}\n'
        log = self.write(tmp_path, whole + '{"layer": "b", "le')
        assert [entry.layer for entry in read_log(log, self.HEADER)] == ["a"]
        assert log.read_text(encoding="utf-8").endswith("0.5}\n")

    @pytest.mark.parametrize(
        ("text", "message"),
        [('{"format": 1, "checkpoint_sha256": "other"}\n', "of another checkpoint or with other settings"), ("nonsense\n", "is not JSON")],
    )
    def test_what_does_not_belong_is_refused(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            read_log(self.write(tmp_path, text), self.HEADER)
