"""Every rule fires on a program built to break it and is silent on one built to keep it."""

import json
import re
from datetime import date
from importlib.resources import files

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from hypothesis import given, settings
from hypothesis import strategies as st

from built import (
    IOS17,
    IOS18,
    converted,
    fired,
    forecast_of,
    profile_at,
    profile_of,
    program_in_words,
    rows,
)
from mlprogram.errors import ProgramError
from mlprogram.examine.placement import cut_segments, forecast_placement
from mlprogram.examine.profile import OpProfile, Tensor
from mlprogram.examine.rule_checks import CHECKS, count_padded_bytes
from mlprogram.examine.rules import CONFIDENCES, EFFECTS, load_rules, parse_rules
from mlprogram.graph import Operation

RULES = load_rules()
X = {"x": (1, 4, 1, 32)}
RNG = np.random.default_rng(0)


def weight(*shape):
    return RNG.standard_normal(shape).astype(np.float16)


def conv(x, kernel=(1, 3), **attributes):
    return mb.conv(x=x, weight=weight(4, x.shape[1], *kernel), **attributes)


def conv_transpose(x, width, stride=2):
    return mb.conv_transpose(x=x, weight=weight(4, 4, 1, width), strides=[1, stride])


def linear(x):
    return mb.linear(x=x, weight=weight(3, x.shape[-1]))


def gather(x, i, axis):
    return mb.gather(x=x, indices=i, axis=axis)


def topk(x, **attributes):
    return mb.topk(x=x, **attributes)[0]


def reduce_argmin(x):
    return mb.cast(x=mb.reduce_argmin(x=x, axis=3, keep_dims=True), dtype="fp16")


CODES = np.ones((4, 4, 1, 3), np.int8)


def int8_conv(x):
    scale, zero = weight(4), np.int8(0)
    codes = mb.constexpr_affine_dequantize(
        quantized_data=CODES, zero_point=zero, scale=scale, axis=0
    )
    return mb.conv(x=x, weight=codes)


def palette_conv(x, stride):
    shape = np.array(CODES.shape, np.uint32)
    indices = np.zeros(24, np.uint8)
    codes = mb.constexpr_lut_to_dense(indices=indices, lut=weight(16), shape=shape)
    return mb.conv(x=x, weight=codes, strides=[1, stride])


def blockwise_conv(x, blocks):
    scale = weight(4, blocks, 1, 1)
    return mb.conv(x=x, weight=mb.constexpr_blockwise_shift_scale(data=CODES, scale=scale))


def relu(x, times=1):
    for _ in range(times):
        x = mb.relu(x=x)
    return x


OWN = (conv, conv_transpose, linear, topk, reduce_argmin, int8_conv, palette_conv, blockwise_conv)
BUILDERS = {build.__name__: build for build in (*OWN, gather, relu)}


def program(text):
    build, inputs = program_in_words(text, BUILDERS)
    return build, inputs | ({"i": (3,)} if text.startswith("gather") else {})


def table(text):
    """The columns of each line, which its first word names."""
    named = (row.split(maxsplit=1) for row in rows(text))
    return {name: [column.strip() for column in rest.split("|")] for name, rest in named}


# rule, chip, a program that breaks it there, one that keeps it
CASES = table("""
never-native           m5 | reduce_prod axes=[3]     | reduce_sum axes=[3]
sin-cos                m2 | sin                      | exp
third-generation-ops   m1 | reduce_argmin            | relu
texture-ops            m1 | topk k=2 axis=3          | relu
gather-m1              m1 | gather axis=3            | relu
resize-m1              m1 | upsample_nearest_neighbor scale_factor_height=1 scale_factor_width=2
                          | relu
cumsum                 m3 | cumsum axis=3            | relu
axis-16384             m1 | relu of 1,4,1,16385      | relu of 1,4,1,16384
axis-65536             m5 | relu of 1,4,1,65537      | relu of 1,4,1,65536
rank-4                 m3 | relu of 1,4,8            | relu
conv3d                 m3 | conv kernel=[1,1,3] of 1,4,1,1,8 | conv
kernel-13              m1 | conv kernel=[1,14]       | conv kernel=[1,13]
kernel-16              m3 | conv kernel=[33,1] of 1,4,40,40 | conv kernel=[32,16] of 1,4,40,40
kernel-transposed-13   m1 | conv_transpose width=14  | conv_transpose width=13
kernel-transposed-16   m4 | conv_transpose width=17  | conv_transpose width=16
stride-factors         m5 | conv_transpose width=6 stride=6 | conv_transpose width=4 stride=4
palette-stride         m5 | palette_conv stride=3    | palette_conv stride=2
dilation-factors       m5 | conv dilations=[1,5]     | conv dilations=[1,3]
dilated-taps           m5 | conv kernel=[1,11] dilations=[1,3] of 1,4,1,40 | conv kernel=[1,11]
dilated-width          m2 | conv dilations=[1,3] pad_type="same" of 1,4,1,16383
                          | conv of 1,4,1,16383
int-results            m4 | cast dtype="int32"       | cast dtype="int16"
int-index              m4 | gather axis=3            | relu
pad-reflect            m1 | pad pad=[0,0,1,1] mode="reflect" | pad pad=[0,0,1,1]
pad-channel            m5 | pad pad=[0,0,1,0,0,0,0,0] | pad pad=[0,0,0,0,1,0,0,2]
arg-2048               m5 | reduce_argmax axis=3 of 1,2048,1,2049
                          | reduce_argmax axis=1 of 1,2048,1,2049
linear-rank            m5 | linear of 1,1,4,1,8      | linear
slice-saturates        m2 | slice_by_index begin=[0,0,0,1] end=[1,4,1,8]
                          | slice_by_index begin=[0,1,0,0] end=[1,4,1,8]
last-axis-64           m5 | relu of 1,4,8,1          | relu
working-set            m1 | relu of 1,65,1,16384     | relu
weights-int8-fold      m1 | int8_conv                | conv
""")


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """One package with a branch for each case and side, its inputs and outputs named after them: a
    package costs 0.3 s. A function that returns the ids of the rules found on the operations that
    an output is computed from, its own naming apart.
    """
    inputs, branches = {}, {}
    for rule_id, (_, *sides) in CASES.items():
        for side, text in zip(("breaks", "keeps"), sides, strict=True):
            key = f"{rule_id}_{side}".replace("-", "_")
            build, shapes = program(text)
            names = {name: f"{name}_{key}" for name in shapes}
            inputs |= {names[name]: shape for name, shape in shapes.items()}
            branches[key] = build, names

    def build(**values):
        return {
            key: side(**{name: values[full] for name, full in names.items()})
            for key, (side, names) in branches.items()
        }

    profile = profile_of(inputs, build, tmp_path_factory.mktemp("rules"))

    def fires(rule_id, side):
        forecast = forecast_placement(profile, RULES, CASES[rule_id][0])
        made_by = {t.name: op for op in forecast.ops for t in op.profile.outputs}
        output = made_by[f"{rule_id}_{side}".replace("-", "_")]
        todo, ids = [t.name for t in output.profile.activations], set()
        while todo:
            if (op := made_by.get(todo.pop())) is not None:
                ids |= {f.rule.id for f in op.findings}
                todo += [t.name for t in op.profile.activations]
        return ids

    return fires


@pytest.mark.parametrize("rule_id", CASES)
def test_rule_fires_and_is_silent(rule_id, together):
    assert rule_id in together(rule_id, "breaks")
    assert rule_id not in together(rule_id, "keeps")


# chip, program, everything found in it alone; what passes 65,536 columns leaves an M5, and may take
# the graph with it
PROGRAMS = table("""
one-operation  m5 | relu                    | small-segment may_leave
many           m5 | relu times=30           |
fp32           m5 | relu                    | fp32 leaves
blocks         m2 | blockwise_conv blocks=2 | weights-block-fold note, small-segment may_leave
one-block      m2 | blockwise_conv blocks=1 | small-segment may_leave
columns        m5 | relu of 1,4,1,65536     | small-segment may_leave
one-more       m5 | relu of 1,4,1,65537     | axis-65536 leaves, graph-too-wide graph_may_fail
one-more-m4    m4 | relu of 1,4,1,65537     | axis-65536 may_leave, graph-too-wide graph_may_fail,
                                             small-segment may_leave
sin-a14        a14 | sin                    | sin-cos leaves
sin-a15        a15 | sin                    | sin-cos may_leave, small-segment may_leave
sin-a16        a16 | sin                    | small-segment may_leave
""")
FINDING = r"([\w-]+) (\w+)"


@pytest.mark.parametrize("name", PROGRAMS)
def test_findings_of_a_whole_program(name, tmp_path):
    chip, text, findings = PROGRAMS[name]
    build, inputs = program(text)
    dtype = types.fp32 if name == "fp32" else types.fp16
    target = IOS18 if "blockwise" in text else IOS17
    forecast = forecast_of(chip, inputs, build, tmp_path, dtype=dtype, target=target)
    assert fired(forecast) == dict(re.findall(FINDING, findings))
    assert "graph-too-wide" not in findings or forecast.lowest_share("ops") == 0


def test_a_state_may_leave(tmp_path):
    inputs = {"x": (4,), "s": mb.state_tensor_placeholder((4,), types.fp16)}

    def build(x, s):
        return mb.add(x=x, y=mb.read_state(input=s))

    forecast = forecast_of("m4", inputs, build, tmp_path, target=IOS18)
    assert fired(forecast)["state"] == "may_leave"


# rule, operation with the value of an attribute, shape, whether it breaks: on either side of a
# limit, or what coremltools 9.1 writes no more; each check by itself
ALONE = """
rank-5      relu   1,1,1,1,1,1          True
rank-5      relu   1,1,1,1,1            False
axis-16384  relu   1,16385              True
axis-16384  relu   20000,16384          False
axis-16384  relu   1,65537,8            True
axis-16384  relu   1,65536,16384        False
axis-16384  relu   1,4,16385,8          True
axis-16384  relu   1,4,16385,2,8        True
axis-16384  relu   1,65536,16384,2,16384 False
pow-of-two  pow:x=2  1,4                True
pow-of-two  pow:x=3  1,4                False
pow-of-two  pow:y=2  1,4                False
pow-of-two  mul:x=2  1,4                False
"""


@pytest.mark.parametrize("line", ALONE.strip().splitlines())
def test_a_check_by_itself(line):
    rule_id, operation, sizes, breaks = line.split()
    (rule,) = (rule for rule in RULES.rules if rule.id == rule_id)
    op_type, _, attribute = operation.partition(":")
    attributes = {attribute[0]: float(attribute[2:])} if attribute else {}
    shape = tuple(map(int, sizes.split(",")))
    # reads and writes one tensor, without a package
    op = Operation("y", op_type, {"x": ("x",)}, (), (), "main", 0, {})
    x, y = (Tensor(name, shape, "fp16", 16) for name in "xy")
    profile = OpProfile(op, (x,), (), (y,), attributes, {"x": shape}, 1, 0, 0)
    assert str(CHECKS[rule.kind](profile, rule.params) is not None) == breaks


def test_every_rule_has_a_case():
    tested = {"ranged-input", "enumerated-inputs", "enumerated-batch", "state"}
    tested |= {*CASES, *ALONE.split()[::4]}
    tested |= {rule for *_, text in PROGRAMS.values() for rule, _ in re.findall(FINDING, text)}
    assert tested == {rule.id for rule in RULES.rules}


@given(st.integers(1, 300), st.sampled_from([8, 16, 32]), st.sampled_from([16, 64]))
def test_padding_of_the_last_axis(width, bits, step):
    tensor = Tensor("x", (1, 3, 5, width), {8: "int8", 16: "fp16", 32: "fp32"}[bits], bits)
    row = width * bits // 8
    assert count_padded_bytes(tensor, step) == 15 * (row + -row % step)


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
    path = converted(Sum(), tmp_path, *inputs, target=IOS18)
    forecast = forecast_placement(profile_at(path), RULES, "m4")
    assert {f.rule.id for f in forecast.graph_findings} == rule_ids
    assert (forecast.cpu_fallback is not None) == bool(rule_ids)
    assert forecast.lowest_share("ops") == (0 if rule_ids else forecast.pessimistic.share("ops"))


def test_a_leave_holds_in_both_readings_and_a_maybe_is_milder(tmp_path):
    forecast = forecast_of("m2", X, lambda x: mb.relu(x=mb.sin(x=mb.relu(x=x))), tmp_path)
    assert [op.optimistic_on for op in forecast.ops] == [True, False, True]
    # single operations: small segments
    assert [op.verdict for op in forecast.ops] == ["may leave", "leaves", "may leave"]
    assert forecast.optimistic.share("ops") == pytest.approx(2 / 3)
    assert forecast.pessimistic.share("ops") == 0


TENSOR = 256  # bytes


@pytest.fixture(scope="module")
def branches(tmp_path_factory):
    """relu -> two branches, exp and sin, each followed by a relu -> add."""

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


def big(x):
    """A convolution with 10 MB of weights: never a small segment."""
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
