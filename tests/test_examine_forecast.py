"""Segments, crossings, shares and latency bands on graphs small enough to count by hand."""

import math
from pathlib import Path

import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb
from hypothesis import given, settings
from hypothesis import strategies as st

from mlprogram.examine.forecast import forecast_residency
from mlprogram.examine.latency import latency_bands
from mlprogram.examine.profile import Profile
from mlprogram.examine.rules import load_rules
from mlprogram.examine.segments import cut_segments
from tests.examine_build import forecast_of, profile_of

RULES = load_rules()
X = {"x": (1, 4, 1, 8)}
TENSOR = 64  # bytes


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """relu -> two branches, exp and sin, each followed by a relu -> add."""

    def build(x):
        a = mb.relu(x=x)
        return mb.add(x=mb.relu(x=mb.exp(x=a)), y=mb.relu(x=mb.sin(x=a)))

    return profile_of(X, build, tmp_path_factory.mktemp("branches"))


def indices(profile: Profile, op_type: str) -> frozenset[int]:
    """Where the operations of a type stand."""
    return frozenset(i for i, op in enumerate(profile.ops) if op.op_type == op_type)


def test_everything_on_the_engine_is_one_segment(branches: Profile) -> None:
    cut = cut_segments(branches, frozenset())
    assert (cut.engine_segments, cut.crossings, cut.crossing_bytes) == (1, 2, 2 * TENSOR)  # the input and the output


def test_one_branch_off_makes_two_segments(branches: Profile) -> None:
    cut = cut_segments(branches, indices(branches, "sin"))
    assert cut.engine_segments == 2 and len(cut.segments) == 3
    assert cut.crossings == 4  # input, relu to sin, sin to relu, output
    assert [len(s.ops) for s in cut.segments] == [3, 1, 2]


def test_two_parallel_operations_off_share_a_segment(branches: Profile) -> None:
    cut = cut_segments(branches, indices(branches, "sin") | indices(branches, "exp"))
    assert cut.engine_segments == 2 and len(cut.segments) == 3
    assert cut.crossings == 5  # input, relu to both (one tensor), both back, output


def test_nothing_on_the_engine_crosses_nothing(branches: Profile) -> None:
    cut = cut_segments(branches, frozenset(range(len(branches.ops))))
    assert (cut.engine_segments, cut.crossings) == (0, 0)


@settings(max_examples=40, deadline=None)
@given(off=st.sets(st.integers(0, 5)))
def test_segments_cover_every_operation_once_and_run_in_order(branches: Profile, off: set[int]) -> None:
    cut = cut_segments(branches, frozenset(off))
    assert sorted(i for s in cut.segments for i in s.ops) == list(range(len(branches.ops)))
    position = {i: k for k, s in enumerate(cut.segments) for i in s.ops}
    made_by = {t.name: i for i, op in enumerate(branches.ops) for t in op.outputs}
    for i, op in enumerate(branches.ops):
        assert all(position[made_by[t.name]] <= position[i] for t in op.activations if t.name in made_by)
        assert cut.segments[position[i]].on_engine == (i not in off)


def big(x):
    """A convolution with 10 MB of weights: never a small segment."""
    return mb.conv(x=x, weight=np.ones((1024, x.shape[1], 1, 5), np.float16), pad_type="same")


def test_shares_are_of_what_they_say(tmp_path: Path) -> None:
    forecast = forecast_of("m1", {"x": (1, 1024, 1, 64)}, lambda x: mb.sin(x=big(x)), tmp_path)
    conv, sin = forecast.profile.ops
    assert forecast.optimistic.share("ops") == forecast.pessimistic.share("ops") == 0.5
    assert forecast.optimistic.share("macs") == 1.0
    assert forecast.optimistic.share("bytes") == pytest.approx(conv.bytes_moved / (conv.bytes_moved + sin.bytes_moved))
    assert forecast.cpu_fallback is None


def test_low_band_is_the_roofline_by_hand(tmp_path: Path) -> None:
    profile = profile_of({"x": (1, 1024, 1, 64)}, big, tmp_path)
    chip, bands = RULES.chips["m4"], latency_bands(forecast_residency(profile, RULES, "m4"), RULES.chips["m4"])
    flops, moved = 2 * 1024 * 1024 * 5 * 64, 2 * (1024 * 64 + 1024 * 64 + 1024 * 1024 * 5)
    arithmetic, memory = 1e3 * flops / (chip.fp16_tflops[1] * 1e12), 1e3 * moved / (chip.bandwidth_gb_s[1] * 1e9)
    crossing = 1e3 * 2 * (1024 * 64 + 1024 * 64) / (chip.bandwidth_gb_s[1] * 1e9)
    assert bands.optimistic.low_ms == pytest.approx(max(arithmetic, memory) + chip.segment_ms[0] + crossing)
    assert bands.optimistic.parts["engine arithmetic"][0] == pytest.approx(arithmetic)


@pytest.mark.parametrize("chip", list(RULES.chips))
def test_bands_are_ordered_on_every_chip(branches: Profile, chip: str) -> None:
    bands = latency_bands(forecast_residency(branches, RULES, chip), RULES.chips[chip])
    assert 0 < bands.optimistic.low_ms <= bands.optimistic.high_ms < math.inf
    assert 0 < bands.pessimistic.low_ms <= bands.pessimistic.high_ms < math.inf


def test_fused_neighbours_move_less(tmp_path: Path) -> None:
    def chain(x):
        for _ in range(4):
            x = mb.relu(x=x)
        return x

    profile = profile_of({"x": (1, 1024, 1, 16384)}, chain, tmp_path)  # 32 MiB a tensor: fits no chip but in part
    bands = latency_bands(forecast_residency(profile, RULES, "m1"), RULES.chips["m1"])
    moved_gb = bands.optimistic.parts["engine memory"][0] / 1e3 * RULES.chips["m1"].bandwidth_gb_s[1]
    assert moved_gb * 1e9 == pytest.approx(2 * 1024 * 16384 * 2)  # the first read and the last write only
