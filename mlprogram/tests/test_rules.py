"""Every rule fires on a program built to break it and is silent on one built to keep it."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from hypothesis import given, settings
from hypothesis import strategies as st

from built import converted, fired, forecast_of, profile_of, save
from mlprogram.errors import ProgramError
from mlprogram.examine.placement import Forecast, cut_segments, forecast_placement
from mlprogram.examine.profile import OpProfile, Profile, Tensor, open_program, profile_program
from mlprogram.examine.rule_checks import CHECKS, padded_bytes
from mlprogram.examine.rules import CONFIDENCES, EFFECTS, load_rules, parse_rules
from mlprogram.graph import Operation

RULES = load_rules()
X = {"x": (1, 4, 1, 8)}
rng = np.random.default_rng(0)


def weight(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float16)


def conv(x: Any, kernel: tuple[int, ...] = (1, 3), **attributes: Any) -> Any:
    return mb.conv(x=x, weight=weight(4, x.shape[1], *kernel), **attributes)


def transposed(x: Any, width: int, stride: int = 2) -> Any:
    return mb.conv_transpose(x=x, weight=weight(x.shape[1], 4, 1, width), strides=[1, stride])


def int8_weight(per_block: bool) -> Any:
    """A convolution weight [4, 4, 1, 3] in int8 with one scale for each output channel, or for each
    block of inputs too.
    """
    scale = weight(4, 2 if per_block else 1, 1, 1)
    return mb.constexpr_blockwise_shift_scale(data=np.ones((4, 4, 1, 3), np.int8), scale=scale)


def affine_weight() -> Any:
    return mb.constexpr_affine_dequantize(
        quantized_data=np.ones((4, 4, 1, 3), np.int8),
        zero_point=np.int8(0),
        scale=weight(4),
        axis=0,
    )


def palette_weight() -> Any:
    return mb.constexpr_lut_to_dense(
        indices=np.zeros(24, np.uint8), lut=weight(16), shape=np.array([4, 4, 1, 3], np.uint32)
    )


def many(x: Any) -> Any:
    for _ in range(30):
        x = mb.relu(x=x)
    return x


@dataclass(frozen=True)
class Case:
    """A builder that breaks the rule on the chip, one that keeps it, and their inputs."""

    chip: str
    breaks: Callable[..., Any]
    keeps: Callable[..., Any]
    inputs: dict[str, tuple[int, ...]]
    kept_inputs: dict[str, tuple[int, ...]] | None = None
    dtype: type = types.fp16
    target: ct.target = ct.target.iOS17


def wide(limit: int, over: int) -> dict[str, tuple[int, ...]]:
    return {"x": (1, 4, 1, limit + over)}


def relu(x: Any) -> Any:
    return mb.relu(x=x)


GATHER = {"x": (1, 4, 1, 8), "i": (3,)}
CASES: dict[str, Case] = {
    "never-native": Case(
        "m5", lambda x: mb.reduce_prod(x=x, axes=[3]), lambda x: mb.reduce_sum(x=x, axes=[3]), X
    ),
    "sin-cos": Case("m2", lambda x: mb.sin(x=x), lambda x: mb.exp(x=x), X),
    "third-generation-ops": Case(
        "m1",
        lambda x: mb.cast(x=mb.reduce_argmin(x=x, axis=3, keep_dims=True), dtype="fp16"),
        relu,
        X,
    ),
    "texture-ops": Case("m1", lambda x: mb.topk(x=x, k=2, axis=3)[0], relu, X),
    "gather-m1": Case(
        "m1", lambda x, i: mb.gather(x=x, indices=i, axis=3), lambda x, i: mb.relu(x=x), GATHER
    ),
    "resize-m1": Case(
        "m1",
        lambda x: mb.upsample_nearest_neighbor(x=x, scale_factor_height=1, scale_factor_width=2),
        relu,
        X,
    ),
    "cumsum": Case("m3", lambda x: mb.cumsum(x=x, axis=3), relu, X),
    "axis-16384": Case("m1", relu, relu, wide(16384, 1), wide(16384, 0)),
    "axis-65536": Case("m5", relu, relu, wide(65536, 1), wide(65536, 0)),
    "rank-4": Case("m3", relu, relu, {"x": (1, 4, 8)}, X),
    "conv3d": Case("m3", lambda x: conv(x, (1, 1, 3)), conv, {"x": (1, 4, 1, 1, 8)}, X),
    "kernel-13": Case(
        "m1", lambda x: conv(x, (1, 14)), lambda x: conv(x, (1, 13)), {"x": (1, 4, 1, 40)}
    ),
    "kernel-16": Case(
        "m3", lambda x: conv(x, (33, 1)), lambda x: conv(x, (32, 16)), {"x": (1, 4, 40, 40)}
    ),
    "kernel-transposed-13": Case("m1", lambda x: transposed(x, 14), lambda x: transposed(x, 13), X),
    "kernel-transposed-16": Case("m4", lambda x: transposed(x, 17), lambda x: transposed(x, 16), X),
    "stride-factors": Case("m5", lambda x: transposed(x, 6, 6), lambda x: transposed(x, 4, 4), X),
    "palette-stride": Case(
        "m5",
        lambda x: mb.conv(x=x, weight=palette_weight(), strides=[1, 3]),
        lambda x: mb.conv(x=x, weight=palette_weight(), strides=[1, 2]),
        X,
    ),
    "dilation-factors": Case(
        "m5",
        lambda x: conv(x, dilations=[1, 5]),
        lambda x: conv(x, dilations=[1, 3]),
        {"x": (1, 4, 1, 40)},
    ),
    "dilated-taps": Case(
        "m5",
        lambda x: conv(x, (1, 11), dilations=[1, 3]),
        lambda x: conv(x, (1, 11)),
        {"x": (1, 4, 1, 40)},
    ),
    "dilated-width": Case(
        "m2",
        lambda x: conv(x, dilations=[1, 3], pad_type="same"),
        lambda x: conv(x, pad_type="same"),
        wide(16384, -1),
    ),
    "graph-too-wide": Case("m5", relu, relu, wide(65536, 1), wide(65536, 0)),
    "fp32": Case("m5", relu, relu, X, dtype=types.fp32),
    "int-results": Case(
        "m4", lambda x: mb.cast(x=x, dtype="int32"), lambda x: mb.cast(x=x, dtype="int16"), X
    ),
    "int-index": Case(
        "m4", lambda x, i: mb.gather(x=x, indices=i, axis=3), lambda x, i: mb.relu(x=x), GATHER
    ),
    "pad-reflect": Case(
        "m1",
        lambda x: mb.pad(x=x, pad=[0, 0, 1, 1], mode="reflect"),
        lambda x: mb.pad(x=x, pad=[0, 0, 1, 1]),
        X,
    ),
    "pad-channel": Case(
        "m5",
        lambda x: mb.pad(x=x, pad=[0, 0, 1, 0, 0, 0, 0, 0]),
        lambda x: mb.pad(x=x, pad=[0, 0, 0, 0, 1, 0, 0, 2]),
        X,
    ),
    "arg-2048": Case(
        "m5",
        lambda x: mb.reduce_argmax(x=x, axis=3),
        lambda x: mb.reduce_argmax(x=x, axis=1),
        {"x": (1, 2048, 1, 2049)},
    ),
    "linear-rank": Case(
        "m5",
        lambda x: mb.linear(x=x, weight=weight(3, 8)),
        lambda x: mb.linear(x=x, weight=weight(3, 8)),
        {"x": (1, 1, 4, 1, 8)},
        X,
    ),
    "slice-saturates": Case(
        "m2",
        lambda x: mb.slice_by_index(x=x, begin=[0, 0, 0, 1], end=[1, 4, 1, 8]),
        lambda x: mb.slice_by_index(x=x, begin=[0, 1, 0, 0], end=[1, 4, 1, 8]),
        X,
    ),
    "small-segment": Case("m5", relu, many, X),
    "last-axis-64": Case("m5", relu, relu, {"x": (1, 4, 8, 1)}, {"x": (1, 4, 1, 32)}),
    "working-set": Case("m1", relu, relu, {"x": (1, 65, 1, 16384)}, {"x": (1, 4, 1, 8)}),
    "weights-int8-fold": Case("m1", lambda x: mb.conv(x=x, weight=affine_weight()), conv, X),
    "weights-block-fold": Case(
        "m2",
        lambda x: mb.conv(x=x, weight=int8_weight(True)),
        lambda x: mb.conv(x=x, weight=int8_weight(False)),
        X,
        target=ct.target.iOS18,
    ),
}
# about a whole graph, or of another type or target
ALONE = {"graph-too-wide", "small-segment", "fp32", "weights-block-fold"}
# flexible inputs, states, what coremltools does not write: below
ELSEWHERE = {
    "ranged-input",
    "enumerated-inputs",
    "enumerated-batch",
    "pow-of-two",
    "state",
    "rank-5",
}


def test_every_rule_has_a_case() -> None:
    assert {*CASES, *ELSEWHERE} == {rule.id for rule in RULES.rules}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """One package with a branch for each case and side, its inputs and outputs named after them: a
    package costs 0.3 s.
    """
    inputs, branches = {}, []
    for number, (rule_id, case) in enumerate((r, c) for r, c in CASES.items() if r not in ALONE):
        for side, shapes in (("breaks", case.inputs), ("keeps", case.kept_inputs or case.inputs)):
            names = {key: f"{key}_{number}_{side}" for key in shapes}
            inputs |= {names[key]: shape for key, shape in shapes.items()}
            branches.append((f"{rule_id}_{side}".replace("-", "_"), getattr(case, side), names))

    def build(**values: Any) -> list[Any]:
        results = [
            (name, side(**{key: values[full] for key, full in names.items()}))
            for name, side, names in branches
        ]
        return [mb.identity(x=r, name=n) for n, r in results]

    return profile_of(inputs, build, tmp_path_factory.mktemp("rules"))


def rules_behind(forecast: Forecast, output: str) -> set[str]:
    """Ids of the rules found on the operations that an output is computed from, its own naming
    apart.
    """
    made_by = {t.name: op for op in forecast.ops for t in op.profile.outputs}
    todo, ids = [t.name for t in made_by[output].profile.activations], set()
    while todo:
        op = made_by.get(todo.pop())
        if op is not None:
            ids |= {f.rule.id for f in op.findings}
            todo += [t.name for t in op.profile.activations]
    return ids


@pytest.mark.parametrize("rule_id", [r for r in CASES if r not in ALONE])
def test_rule_fires_and_is_silent(rule_id: str, together: Profile) -> None:
    forecast, name = (
        forecast_placement(together, RULES, CASES[rule_id].chip),
        rule_id.replace("-", "_"),
    )
    assert rule_id in rules_behind(forecast, f"{name}_breaks")
    assert rule_id not in rules_behind(forecast, f"{name}_keeps")


@pytest.mark.parametrize("rule_id", sorted(ALONE))
def test_rule_alone_fires_and_is_silent(rule_id: str, tmp_path: Path) -> None:
    case = CASES[rule_id]
    broken = forecast_of(
        case.chip, case.inputs, case.breaks, tmp_path, dtype=case.dtype, target=case.target
    )
    keeping = forecast_of(
        case.chip, case.kept_inputs or case.inputs, case.keeps, tmp_path, target=case.target
    )
    assert rule_id in fired(broken), fired(broken)
    assert rule_id not in fired(keeping), fired(keeping)


@pytest.mark.parametrize(("chip", "effect"), [("m5", "leaves"), ("m4", "may_leave")])
def test_what_passes_65536_columns_leaves_an_m5_and_may_take_the_graph_with_it(
    chip: str, effect: str, tmp_path: Path
) -> None:
    forecast = forecast_of(chip, wide(65536, 1), relu, tmp_path)
    assert fired(forecast)["axis-65536"] == effect
    assert [f.rule.id for f in forecast.graph_findings] == ["graph-too-wide"]
    assert forecast.lowest_share("ops") == 0


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8))
def test_rank_limit_is_exact(shape: list[int]) -> None:
    message = CHECKS["rank_limit"](record("relu", tuple(shape)), {"max": 5})
    assert (message is not None) == (len(shape) > 5)


@given(st.integers(1, 20000), st.integers(1, 70000), st.integers(1, 20000), st.integers(2, 5))
def test_axis_limit_is_exact_on_any_rank(width: int, channels: int, height: int, rank: int) -> None:
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
def test_padding_of_the_last_axis(width: int, bits: int, step: int) -> None:
    tensor = Tensor("x", (1, 3, 5, width), {8: "int8", 16: "fp16", 32: "fp32"}[bits], bits)
    row = width * bits // 8
    assert padded_bytes(tensor, step) == 15 * (row + -row % step)


# an operation that reads and writes one fp16 tensor, without a package
def record(op_type: str, shape: tuple[int, ...]) -> OpProfile:
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
def test_a_base_of_two(op_type: str, attributes: dict[str, float], breaks: bool) -> None:
    (rule,) = (rule for rule in RULES.rules if rule.id == "pow-of-two")
    op = replace(record(op_type, (1, 4)), attributes=attributes)
    assert bool(CHECKS[rule.kind](op, rule.params)) is breaks


@pytest.mark.parametrize(
    ("shapes", "rule_id"),
    [
        ([ct.EnumeratedShapes([(1, 4, 1, 8), (1, 4, 1, 9)])], None),
        (
            [
                ct.EnumeratedShapes([(1, 4, 1, 8), (1, 4, 1, 9)]),
                ct.EnumeratedShapes([(1, 4, 1, 8), (1, 4, 1, 9)]),
            ],
            "enumerated-inputs",
        ),
        ([(1, 4, 1, ct.RangeDim(4, 9, 8))], "ranged-input"),
        ([ct.EnumeratedShapes([(1, 4, 1, 8), (2, 4, 1, 8)])], "enumerated-batch"),
    ],
)
def test_flexible_inputs(shapes: list[Any], rule_id: str | None, tmp_path: Path) -> None:
    forecast = flexible_forecast(shapes, tmp_path)
    assert {f.rule.id for f in forecast.graph_findings} == ({rule_id} if rule_id else set())
    assert (forecast.cpu_fallback is not None) == bool(rule_id)
    assert forecast.lowest_share("ops") == (0 if rule_id else forecast.pessimistic.share("ops"))


# A traced sum of inputs with these flexible shapes on an M4
def flexible_forecast(shapes: list[Any], folder: Path) -> Forecast:

    class Sum(torch.nn.Module):
        def forward(self, *xs: torch.Tensor) -> torch.Tensor:
            return torch.relu(sum(xs) * 2)

    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [
        ct.TensorType(n, shape=s, dtype=np.float16) for n, s in zip(names, shapes, strict=True)
    ]
    examples = [torch.zeros(1, 4, 1, 8) for _ in shapes]
    path = converted(
        Sum(),
        examples,
        folder / "flexible.mlpackage",
        inputs,
        minimum_deployment_target=ct.target.iOS18,
    )
    program = open_program(path)
    return forecast_placement(profile_program(program, program.shapes({})), RULES, "m4")


def test_states_leave_a_rule_holds_in_both_readings_and_a_maybe_is_milder(tmp_path: Path) -> None:
    with Function(
        {"x": mb.placeholder((4,), types.fp16), "s": mb.state_tensor_placeholder((4,), types.fp16)},
        opset_version=ct.target.iOS18,
    ) as function:
        function.set_outputs(
            [mb.add(x=function.inputs["x"], y=mb.read_state(input=function.inputs["s"]))]
        )
    program = open_program(save(function, tmp_path / "state.mlpackage", ct.target.iOS18))
    assert (
        fired(forecast_placement(profile_program(program, program.shapes({})), RULES, "m4"))[
            "state"
        ]
        == "may_leave"
    )
    forecast = forecast_of("m2", X, lambda x: mb.relu(x=mb.sin(x=mb.relu(x=x))), tmp_path)
    assert [op.optimistic_on for op in forecast.ops] == [True, False, True]
    # single operations: small segments
    assert [op.verdict for op in forecast.ops] == ["may leave", "leaves", "may leave"]
    assert forecast.optimistic.share("ops") == pytest.approx(2 / 3)
    assert forecast.pessimistic.share("ops") == 0
    certain, perhaps, free = (
        forecast_of(chip, X, lambda x: mb.sin(x=x), tmp_path) for chip in ("a14", "a15", "a16")
    )
    assert fired(certain)["sin-cos"] == "leaves"
    assert fired(perhaps)["sin-cos"] == "may_leave"
    assert "sin-cos" not in fired(free)


TENSOR = 64  # bytes


@pytest.fixture(scope="module")
# relu -> two branches, exp and sin, each followed by a relu -> add
def branches(tmp_path_factory: pytest.TempPathFactory) -> Profile:

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
    off: tuple[str, ...],
    engine_segments: int,
    crossings: int,
    sizes: list[int] | None,
    branches: Profile,
) -> None:
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
def test_segments_cover_every_operation_once_and_run_in_order(
    branches: Profile, off: set[int]
) -> None:
    cut = cut_segments(branches, frozenset(off))
    assert sorted(i for s in cut.segments for i in s.ops) == list(range(len(branches.ops)))
    position = {i: k for k, s in enumerate(cut.segments) for i in s.ops}
    made_by = {t.name: i for i, op in enumerate(branches.ops) for t in op.outputs}
    for i, op in enumerate(branches.ops):
        assert all(
            position[made_by[t.name]] <= position[i] for t in op.activations if t.name in made_by
        )
        assert cut.segments[position[i]].on_engine == (i not in off)


def big(x):  # A convolution with 10 MB of weights: never a small segment
    return mb.conv(x=x, weight=np.ones((1024, x.shape[1], 1, 5), np.float16), pad_type="same")


def test_shares_are_of_what_they_say(tmp_path: Path) -> None:
    forecast = forecast_of("m1", {"x": (1, 1024, 1, 64)}, lambda x: mb.sin(x=big(x)), tmp_path)
    conv, sin = forecast.profile.ops
    assert forecast.optimistic.share("ops") == forecast.pessimistic.share("ops") == 0.5
    assert forecast.optimistic.share("macs") == 1.0
    assert forecast.optimistic.share("bytes") == pytest.approx(
        conv.bytes_moved / (conv.bytes_moved + sin.bytes_moved)
    )
    assert forecast.cpu_fallback is None


def content() -> dict[str, Any]:
    place = files("mlprogram") / "data" / "ane_rules.json"
    return json.loads(place.read_text(encoding="utf-8"))


def test_the_data_file_is_complete() -> None:
    used = {s for entry in (*RULES.rules, *RULES.chips.values()) for s in entry.sources}
    assert used == set(RULES.sources)
    for entry in (*RULES.rules, *RULES.chips.values()):
        assert entry.sources
        assert entry.confidence in CONFIDENCES
    for source in RULES.sources.values():
        assert date.fromisoformat(source.date).year >= 2026
    assert {rule.effect for rule in RULES.rules} == set(EFFECTS)
    assert set(RULES.chips) == {"m1", "m2", "m3", "m4", "m5", "a14", "a15", "a16", "a17", "a18"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["rules"][0].pop("sources"), "'sources' is missing"),
        (lambda c: c["rules"][0].update(sources=[]), "at least one source"),
        (lambda c: c["sources"]["fluidaudio"].pop("date"), "'date' is missing"),
        (lambda c: c["rules"][0].update(sources=["hearsay"]), "source 'hearsay' is unknown"),
        (lambda c: c["rules"][0].update(confidence="sure"), "one of high, medium, low"),
        (lambda c: c["rules"][0].update(color="red"), "unknown key 'color'"),
        (lambda c: c["rules"][0].update(chips=["m1", "m99"]), "chip 'm99' is unknown"),
        (lambda c: c["rules"][0].update(kind="taste"), "kind 'taste' is unknown"),
        (lambda c: c["rules"][0].update(effect="explodes"), "effect 'explodes' is unknown"),
        (lambda c: c["rules"][0]["params"].update(limit=3), "unknown key 'limit'"),
        (lambda c: c["rules"].append(copy.deepcopy(c["rules"][0])), "stands there twice"),
        (lambda c: c["chips"]["m1"].update(on_chip_mib=-5), "a positive number"),
        (lambda c: c["chips"]["m1"].pop("confidence"), "'confidence' is missing"),
        (lambda c: c.update(extra=1), "unknown key 'extra'"),
    ],
)
def test_damaged_data_is_refused(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    damaged = content()
    change(damaged)
    pytest.raises(ProgramError, parse_rules, damaged, "rules.json").match(message)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text("{", encoding="utf-8")
    pytest.raises(ProgramError, load_rules, tmp_path / "rules.json").match("not JSON")
    pytest.raises(ProgramError, load_rules, tmp_path / "none.json").match("no such file")
