"""Every rule fires on a program built to break it and is silent on one built to keep it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from importlib.resources import files
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from hypothesis import given, settings
from hypothesis import strategies as st

from built import IOS17, IOS18, converted, fired, forecast_of, op, profile_at, profile_of
from mlprogram.errors import ProgramError
from mlprogram.examine.placement import cut_segments, forecast_placement
from mlprogram.examine.profile import OpProfile, Tensor
from mlprogram.examine.rule_checks import CHECKS, padded_bytes
from mlprogram.examine.rules import CONFIDENCES, EFFECTS, load_rules, parse_rules
from mlprogram.graph import Operation

RULES = load_rules()
X = {"x": (1, 4, 1, 8)}
rng = np.random.default_rng(0)


def weight(*shape):
    return rng.standard_normal(shape).astype(np.float16)


def relu(x, **_):
    return mb.relu(x=x)


def conv(*kernel, **attributes):
    shape = kernel or (1, 3)
    return lambda x: mb.conv(x=x, weight=weight(4, x.shape[1], *shape), **attributes)


def transposed(width, stride=2):
    strides = [1, stride]
    return lambda x: mb.conv_transpose(x=x, weight=weight(4, 4, 1, width), strides=strides)


def stored(kind, strides=1, **arguments):
    """A convolution whose weight [4, 4, 1, 3] a constexpr makes."""
    return lambda x: mb.conv(
        x=x, weight=getattr(mb, f"constexpr_{kind}")(**arguments), strides=[1, strides]
    )


def many(x):
    for _ in range(30):
        x = mb.relu(x=x)
    return x


@dataclass(frozen=True)
class Case:
    """A builder that breaks the rule on the chip, one that keeps it, and their inputs."""

    chip: str
    breaks: Callable[..., Any] = relu
    keeps: Callable[..., Any] = relu
    inputs: dict[str, tuple[int, ...]] = field(default_factory=lambda: X)
    kept_inputs: dict[str, tuple[int, ...]] | None = None
    dtype: type = types.fp16
    target: ct.target = IOS17


def wide(limit, over=0):
    return {"x": (1, 4, 1, limit + over)}


ONES = np.ones((4, 4, 1, 3), np.int8)
PALETTE = {"indices": np.zeros(24, np.uint8), "lut": weight(16)}
PALETTE["shape"] = np.array(ONES.shape, np.uint32)
AFFINE = {"quantized_data": ONES, "zero_point": np.int8(0), "scale": weight(4), "axis": 0}
GATHER = X | {"i": (3,)}
# names of rules that are about a whole graph, or of another type or target
ALONE = ("graph-too-wide", "small-segment", "fp32", "weights-block-fold")
CASES = {
    "never-native": Case("m5", op("reduce_prod", axes=[3]), op("reduce_sum", axes=[3])),
    "sin-cos": Case("m2", op("sin"), op("exp")),
    "third-generation-ops": Case(
        "m1", lambda x: mb.cast(x=mb.reduce_argmin(x=x, axis=3, keep_dims=True), dtype="fp16")
    ),
    "texture-ops": Case("m1", lambda x: mb.topk(x=x, k=2, axis=3)[0]),
    "gather-m1": Case("m1", op("gather", axis=3), inputs=GATHER),
    "resize-m1": Case(
        "m1", op("upsample_nearest_neighbor", scale_factor_height=1, scale_factor_width=2)
    ),
    "cumsum": Case("m3", op("cumsum", axis=3)),
    "axis-16384": Case("m1", inputs=wide(16384, 1), kept_inputs=wide(16384)),
    "axis-65536": Case("m5", inputs=wide(65536, 1), kept_inputs=wide(65536)),
    "rank-4": Case("m3", inputs={"x": (1, 4, 8)}, kept_inputs=X),
    "conv3d": Case("m3", conv(1, 1, 3), conv(), {"x": (1, 4, 1, 1, 8)}, X),
    "kernel-13": Case("m1", conv(1, 14), conv(1, 13), wide(40)),
    "kernel-16": Case("m3", conv(33, 1), conv(32, 16), {"x": (1, 4, 40, 40)}),
    "kernel-transposed-13": Case("m1", transposed(14), transposed(13)),
    "kernel-transposed-16": Case("m4", transposed(17), transposed(16)),
    "stride-factors": Case("m5", transposed(6, 6), transposed(4, 4)),
    "palette-stride": Case(
        "m5", stored("lut_to_dense", 3, **PALETTE), stored("lut_to_dense", 2, **PALETTE)
    ),
    "dilation-factors": Case("m5", conv(dilations=[1, 5]), conv(dilations=[1, 3]), wide(40)),
    "dilated-taps": Case("m5", conv(1, 11, dilations=[1, 3]), conv(1, 11), wide(40)),
    "dilated-width": Case(
        "m2",
        conv(dilations=[1, 3], pad_type="same"),
        conv(pad_type="same"),
        wide(16384, -1),
    ),
    "graph-too-wide": Case("m5", inputs=wide(65536, 1), kept_inputs=wide(65536)),
    "fp32": Case("m5", dtype=types.fp32),
    "int-results": Case("m4", op("cast", dtype="int32"), op("cast", dtype="int16")),
    "int-index": Case("m4", op("gather", axis=3), inputs=GATHER),
    "pad-reflect": Case(
        "m1", op("pad", pad=[0, 0, 1, 1], mode="reflect"), op("pad", pad=[0, 0, 1, 1])
    ),
    "pad-channel": Case(
        "m5", op("pad", pad=[0, 0, 1, 0, 0, 0, 0, 0]), op("pad", pad=[0, 0, 0, 0, 1, 0, 0, 2])
    ),
    "arg-2048": Case(
        "m5", op("reduce_argmax", axis=3), op("reduce_argmax", axis=1), {"x": (1, 2048, 1, 2049)}
    ),
    "linear-rank": Case(
        "m5",
        op("linear", weight=weight(3, 8)),
        op("linear", weight=weight(3, 8)),
        {"x": (1, 1, 4, 1, 8)},
        X,
    ),
    "slice-saturates": Case(
        "m2",
        op("slice_by_index", begin=[0, 0, 0, 1], end=[1, 4, 1, 8]),
        op("slice_by_index", begin=[0, 1, 0, 0], end=[1, 4, 1, 8]),
    ),
    "small-segment": Case("m5", relu, many),
    "last-axis-64": Case("m5", inputs={"x": (1, 4, 8, 1)}, kept_inputs=wide(32)),
    "working-set": Case("m1", inputs={"x": (1, 65, 1, 16384)}, kept_inputs=X),
    "weights-int8-fold": Case("m1", stored("affine_dequantize", **AFFINE), conv()),
    "weights-block-fold": Case(
        "m2",
        stored("blockwise_shift_scale", data=ONES, scale=weight(4, 2, 1, 1)),
        stored("blockwise_shift_scale", data=ONES, scale=weight(4, 1, 1, 1)),
        target=IOS18,
    ),
}
# flexible inputs, states, what coremltools does not write: below
ELSEWHERE = "ranged-input enumerated-inputs enumerated-batch pow-of-two state rank-5".split()


def test_every_rule_has_a_case():
    assert {*CASES, *ELSEWHERE} == {rule.id for rule in RULES.rules}


Fires = Callable[[str, str], set[str]]


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """One package with a branch for each case and side, its inputs and outputs named after them: a
    package costs 0.3 s. The ids of the rules found on the operations that an output is computed
    from, its own naming apart.
    """
    inputs, branches = {}, {}
    for number, (rule_id, case) in enumerate((r, c) for r, c in CASES.items() if r not in ALONE):
        for side, shapes in (("breaks", case.inputs), ("keeps", case.kept_inputs or case.inputs)):
            names = {key: f"{key}_{number}_{side}" for key in shapes}
            inputs |= {names[key]: shape for key, shape in shapes.items()}
            branches[f"{rule_id}_{side}".replace("-", "_")] = getattr(case, side), names

    def build(**values):
        return {
            name: side(**{key: values[full] for key, full in names.items()})
            for name, (side, names) in branches.items()
        }

    profile = profile_of(inputs, build, tmp_path_factory.mktemp("rules"))

    def fires(rule_id, side):
        forecast = forecast_placement(profile, RULES, CASES[rule_id].chip)
        made_by = {t.name: op for op in forecast.ops for t in op.profile.outputs}
        output = made_by[f"{rule_id}_{side}".replace("-", "_")]
        todo, ids = [t.name for t in output.profile.activations], set()
        while todo:
            if (op := made_by.get(todo.pop())) is not None:
                ids |= {f.rule.id for f in op.findings}
                todo += [t.name for t in op.profile.activations]
        return ids

    return fires


@pytest.mark.parametrize("rule_id", [r for r in CASES if r not in ALONE])
def test_rule_fires_and_is_silent(rule_id, together):
    assert rule_id in together(rule_id, "breaks")
    assert rule_id not in together(rule_id, "keeps")


@pytest.mark.parametrize("rule_id", ALONE)
def test_rule_alone_fires_and_is_silent(rule_id, tmp_path):
    case = CASES[rule_id]
    sides = (
        (case.breaks, case.inputs, case.dtype),
        (case.keeps, case.kept_inputs or case.inputs, types.fp16),
    )
    broken, keeping = (
        fired(forecast_of(case.chip, inputs, side, tmp_path, dtype=dtype, target=case.target))
        for side, inputs, dtype in sides
    )
    assert rule_id in broken
    assert rule_id not in keeping


@pytest.mark.parametrize(("chip", "effect"), [("m5", "leaves"), ("m4", "may_leave")])
def test_what_passes_65536_columns_leaves_an_m5_and_may_take_the_graph_with_it(
    chip, effect, tmp_path
):
    forecast = forecast_of(chip, wide(65536, 1), relu, tmp_path)
    assert fired(forecast)["axis-65536"] == effect
    assert [f.rule.id for f in forecast.graph_findings] == ["graph-too-wide"]
    assert forecast.lowest_share("ops") == 0


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8))
def test_rank_limit_is_exact(shape):
    message = CHECKS["rank_limit"](record("relu", tuple(shape)), {"max": 5})
    assert (message is not None) == (len(shape) > 5)


@given(st.integers(1, 20000), st.integers(1, 70000), st.integers(1, 20000), st.integers(2, 5))
def test_axis_limit_is_exact_on_any_rank(width, channels, height, rank):
    shape = {
        2: (1, width),
        3: (1, channels, width),
        4: (1, channels, height, width),
        5: (1, channels, height, 2, width),
    }[rank]
    over = width > 16384 or (rank > 2 and channels > 65536) or (rank > 3 and height > 16384)
    assert (
        CHECKS["axis_limit"](record("relu", shape), {"spatial": 16384, "channel": 65536})
        is not None
    ) == over


@given(st.integers(1, 300), st.sampled_from([8, 16, 32]), st.sampled_from([16, 64]))
def test_padding_of_the_last_axis(width, bits, step):
    tensor = Tensor("x", (1, 3, 5, width), {8: "int8", 16: "fp16", 32: "fp32"}[bits], bits)
    row = width * bits // 8
    assert padded_bytes(tensor, step) == 15 * (row + -row % step)


# an operation that reads and writes one fp16 tensor, without a package
def record(op_type, shape):
    op = Operation("y", op_type, {"x": ("x",)}, (), (), "main", 0, {})
    return OpProfile(
        op,
        (Tensor("x", shape, "fp16", 16),),
        (),
        (Tensor("y", shape, "fp16", 16),),
        {},
        {"x": shape},
        1,
        0,
        0,
    )


# coremltools 9.1 writes no such pow any more, so the check is asked alone
@pytest.mark.parametrize(
    ("op_type", "attributes", "breaks"),
    [
        ("pow", {"x": 2.0}, True),
        ("pow", {"x": 3.0}, False),
        ("pow", {"y": 2.0}, False),
        ("mul", {"x": 2.0}, False),
    ],
)
def test_a_base_of_two(op_type, attributes, breaks):
    (rule,) = (rule for rule in RULES.rules if rule.id == "pow-of-two")
    op = replace(record(op_type, (1, 4)), attributes=attributes)
    assert bool(CHECKS[rule.kind](op, rule.params)) is breaks


LISTED, BATCHES = (
    ct.EnumeratedShapes([(1, 4, 1, 8), shape]) for shape in ((1, 4, 1, 9), (2, 4, 1, 8))
)


class Sum(torch.nn.Module):
    def forward(self, *xs):
        return torch.relu(sum(xs) * 2)


@pytest.mark.parametrize(
    ("shapes", "rule_ids"),
    [
        ([LISTED], set()),
        ([LISTED, LISTED], {"enumerated-inputs"}),
        ([(1, 4, 1, ct.RangeDim(4, 9, 8))], {"ranged-input"}),
        ([BATCHES], {"enumerated-batch"}),
    ],
)
def test_flexible_inputs(shapes, rule_ids, tmp_path):
    inputs = [ct.TensorType(f"x{i}", shape=s, dtype=np.float16) for i, s in enumerate(shapes)]
    examples = [torch.zeros(1, 4, 1, 8) for _ in shapes]
    path = converted(Sum(), examples, tmp_path / "f.mlpackage", inputs, target=IOS18)
    forecast = forecast_placement(profile_at(path), RULES, "m4")
    assert {f.rule.id for f in forecast.graph_findings} == rule_ids
    assert (forecast.cpu_fallback is not None) == bool(rule_ids)
    assert forecast.lowest_share("ops") == (0 if rule_ids else forecast.pessimistic.share("ops"))


def test_a_state_may_leave(tmp_path):
    inputs = {"x": (4,), "s": mb.state_tensor_placeholder((4,), types.fp16)}

    def build(x, s):
        return mb.add(x=x, y=mb.read_state(input=s))

    forecast = forecast_of("m4", inputs, build, tmp_path, target=IOS18)
    assert fired(forecast)["state"] == "may_leave"


def test_a_leave_holds_in_both_readings_and_a_maybe_is_milder(tmp_path):
    forecast = forecast_of("m2", X, lambda x: mb.relu(x=mb.sin(x=mb.relu(x=x))), tmp_path)
    assert [op.optimistic_on for op in forecast.ops] == [True, False, True]
    # single operations: small segments
    assert [op.verdict for op in forecast.ops] == ["may leave", "leaves", "may leave"]
    assert forecast.optimistic.share("ops") == pytest.approx(2 / 3)
    assert forecast.pessimistic.share("ops") == 0


@pytest.mark.parametrize(
    ("chip", "effect"), [("a14", "leaves"), ("a15", "may_leave"), ("a16", None)]
)
def test_an_effect_hangs_on_the_chip(chip, effect, tmp_path):
    assert fired(forecast_of(chip, X, op("sin"), tmp_path)).get("sin-cos") == effect


TENSOR = 64  # bytes


@pytest.fixture(scope="module")
# relu -> two branches, exp and sin, each followed by a relu -> add
def branches(tmp_path_factory):

    def build(x):
        a = mb.relu(x=x)
        return mb.add(x=mb.relu(x=mb.exp(x=a)), y=mb.relu(x=mb.sin(x=a)))

    return profile_of(X, build, tmp_path_factory.mktemp("branches"))


@pytest.mark.parametrize(
    ("off", "engine_segments", "crossings", "sizes"),
    [
        ((), 1, 2, [6]),  # the input and the output
        (("sin",), 2, 4, [3, 1, 2]),  # input, relu to sin, sin to relu, output
        # the parallel ones share a segment: input, relu to both (one tensor), both back, output
        (("sin", "exp"), 2, 5, None),
        (("relu", "sin", "exp", "add"), 0, 0, None),
    ],
)
def test_segments(
    off,
    engine_segments,
    crossings,
    sizes,
    branches,
):
    cut = cut_segments(
        branches, frozenset(i for i, op in enumerate(branches.ops) if op.op_type in off)
    )
    assert (cut.engine_segments, cut.crossings) == (
        engine_segments,
        crossings,
    )
    assert cut.crossing_bytes == crossings * TENSOR
    assert sizes is None or [len(s.ops) for s in cut.segments] == sizes


@settings(max_examples=40, deadline=None)
@given(off=st.sets(st.integers(0, 5)))
def test_segments_cover_every_operation_once_and_run_in_order(branches, off):
    cut = cut_segments(branches, frozenset(off))
    assert sorted(i for s in cut.segments for i in s.ops) == list(range(len(branches.ops)))
    position = {i: k for k, s in enumerate(cut.segments) for i in s.ops}
    made_by = {t.name: i for i, made in enumerate(branches.ops) for t in made.outputs}
    for i, made in enumerate(branches.ops):
        assert all(
            position[made_by[t.name]] <= position[i] for t in made.activations if t.name in made_by
        )
        assert cut.segments[position[i]].on_engine == (i not in off)


def big(x):  # A convolution with 10 MB of weights: never a small segment
    return mb.conv(x=x, weight=np.ones((1024, x.shape[1], 1, 5), np.float16), pad_type="same")


def test_shares_are_of_what_they_say(tmp_path):
    forecast = forecast_of("m1", {"x": (1, 1024, 1, 64)}, lambda x: mb.sin(x=big(x)), tmp_path)
    conv, sin = forecast.profile.ops
    assert forecast.optimistic.share("ops") == forecast.pessimistic.share("ops") == 0.5
    assert forecast.optimistic.share("macs") == 1.0
    assert forecast.optimistic.share("bytes") == pytest.approx(
        conv.bytes_moved / (conv.bytes_moved + sin.bytes_moved)
    )
    assert forecast.cpu_fallback is None


def test_the_data_file_is_complete():
    used = {s for entry in (*RULES.rules, *RULES.chips.values()) for s in entry.sources}
    assert used == set(RULES.sources)
    for entry in (*RULES.rules, *RULES.chips.values()):
        assert entry.sources
        assert entry.confidence in CONFIDENCES
    for source in RULES.sources.values():
        assert date.fromisoformat(source.date).year >= 2026
    assert {rule.effect for rule in RULES.rules} == set(EFFECTS)
    assert set(RULES.chips) == {"m1", "m2", "m3", "m4", "m5", "a14", "a15", "a16", "a17", "a18"}


# place in the data file, what stands there (None: nothing)
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("rules 0 sources", None, "'sources' is missing"),
        ("rules 0 sources", [], "at least one source"),
        ("sources fluidaudio date", None, "'date' is missing"),
        ("rules 0 sources", ["hearsay"], "source 'hearsay' is unknown"),
        ("rules 0 confidence", "sure", "one of high, medium, low"),
        ("rules 0 color", "red", "unknown key 'color'"),
        ("rules 0 chips", ["m1", "m99"], "chip 'm99' is unknown"),
        ("rules 0 kind", "taste", "kind 'taste' is unknown"),
        ("rules 0 effect", "explodes", "effect 'explodes' is unknown"),
        ("rules 0 params limit", 3, "unknown key 'limit'"),
        ("rules 0 id", RULES.rules[1].id, "stands there twice"),
        ("chips m1 on_chip_mib", -5, "a positive number"),
        ("chips m1 confidence", None, "'confidence' is missing"),
        ("extra", 1, "unknown key 'extra'"),
    ],
)
def test_damaged_data_is_refused(place, value, message):
    text = (files("mlprogram") / "data" / "ane_rules.json").read_text(encoding="utf-8")
    part = damaged = json.loads(text)
    *path, last = place.split()
    for key in path:
        part = part[int(key) if key.isdecimal() else key]
    part[last] = value
    if value is None:
        del part[last]
    pytest.raises(ProgramError, parse_rules, damaged, "rules.json").match(message)


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "rules.json").write_text("{", encoding="utf-8")
    pytest.raises(ProgramError, load_rules, tmp_path / "rules.json").match("not JSON")
    pytest.raises(ProgramError, load_rules, tmp_path / "none.json").match("no such file")
