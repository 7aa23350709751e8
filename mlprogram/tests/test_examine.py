"""The commands: tables, JSON, files, exit codes, one clear line a mistake; arithmetic, bytes and
memory against closed forms.
"""

import json
import subprocess
import sys
from functools import partial
from importlib.resources import files
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock, call

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from built import converted, package_of, profile_of, program_in_words, rows
from mlprogram.__main__ import main
from mlprogram.errors import ProgramError
from mlprogram.examine import ane, device, parse_shape
from mlprogram.examine.describe import make_marks
from mlprogram.examine.device import NOT_MEASURED, CoreML, load_core_ml, measure
from mlprogram.examine.pitfalls import find_pitfalls
from mlprogram.examine.profile import count_flops, count_macs, open_program
from mlprogram.examine.rules import COMMAND

ROOT = Path(__file__).resolve().parents[2]


class Net(torch.nn.Module):
    """A convolution and a sine."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 8, (1, 3))

    def forward(self, x):
        return torch.sin(self.conv(x))


@pytest.fixture(scope="module")
# with two enumerated widths
def package(tmp_path_factory):
    shapes = ct.EnumeratedShapes([(1, 4, 1, 16), (1, 4, 1, 32)])
    x, y = ct.TensorType("x", shapes, dtype=np.float16), ct.TensorType("y", dtype=np.float16)
    return converted(Net(), tmp_path_factory.mktemp("package"), x, outputs=[y])


Capture = pytest.CaptureFixture


def ran(line, capsys, code=0):
    """What a command prints, and the JSON in its last line."""
    assert main(line.split()) == code
    out = capsys.readouterr().out
    return out, json.loads(out.strip().splitlines()[-1])


def test_describe_labels_its_figures(package, capsys):
    out, described = ran(f"describe {package} --shape x=1,4,1,32 --top 1 --by macs", capsys)
    assert "live peak" in out
    assert described["totals"]["macs"] == 8 * 30 * 4 * 3
    assert described["op_counts"] == {"conv": 1, "sin": 1}
    assert described["weight_bytes"] == {"fp16": 8 * 4 * 3 * 2 + 8 * 2}
    assert [op["op_type"] for op in described["top"]] == ["conv"]
    assert described["outputs"][0]["shape"] == [1, 8, 1, 30]


@pytest.fixture(scope="module")
# of two functions: one that an M3 takes, and one whose width takes the whole graph off its engine
def branches(tmp_path_factory):
    folder, described = tmp_path_factory.mktemp("branches"), ct.utils.MultiFunctionDescriptor()
    for name, width in (("decoder", 32), ("window", 16385)):
        x = ct.TensorType("x", (1, 4, 1, width), dtype=np.float16)
        path = converted(Net(), folder / name, x, target=ct.target.iOS18)
        described.add_function(str(path), src_function_name="main", target_function_name=name)
    described.default_function_name = "decoder"
    ct.utils.save_multifunction(described, str(folder / "both.mlpackage"))
    return folder / "both.mlpackage"


def test_ane_looks_at_every_function(branches, tmp_path, capsys):
    content = json.loads((files("mlprogram") / "data" / "ane_rules.json").read_text("utf-8"))
    content["rules"] = [rule for rule in content["rules"] if rule["id"] != "small-segment"]
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(content), encoding="utf-8")
    command = f"ane {branches} --rules {rules} --at-least 100 --chip"
    out, report = ran(f"{command} m3", capsys, 1)
    assert [f["function"] for f in report["forecasts"]] == ["decoder", "window"]
    assert [f["cpu_fallback"] is None for f in report["forecasts"]] == [True, False]
    assert "graph-too-wide" in " ".join(out.split())
    # Alone, the function that an M3 takes passes; so do both on a chip without that limit.
    ran(f"{command} m3 --function decoder", capsys)
    ran(f"{command} m5", capsys)


def test_ane_labels_its_figures(package, capsys):
    out, report = ran(f"ane {package} --chip m1 --chip M3 --per-op", capsys)
    assert report["label"] == "forecast, not a measurement"
    rows = [(f["chip"], f["inputs"]["x"][3]) for f in report["forecasts"]]
    assert rows == [("m1", 16), ("m3", 16), ("m1", 32), ("m3", 32)]
    shares = [f["optimistic"]["share"]["ops"] for f in report["forecasts"]]
    assert shares == [0.5, 1, 0.5, 1]
    assert {f["device"] for f in report["forecasts"]} == {NOT_MEASURED}
    assert "not measured (needs a Mac)" in out
    titles = [
        line for line in out.splitlines() if "share on the engine" in line or "rules behind" in line
    ]
    assert titles
    assert all("forecast" in line for line in titles)
    words = " ".join(out.split())
    assert "sin-cos (leaves): sin" in words
    # two shapes with the same shares have one row
    assert "main, x 1x4x1x16 to 1x4x1x32" in words


@pytest.mark.parametrize(("least", "code"), [(50, 1), (0, 0)])
# a small segment: it may leave
def test_a_share_on_the_engine_is_a_gate(least, code, package, capsys):
    ran(f"ane {package} --chip m5 --at-least {least}", capsys, code)


def two_to_the(x):
    return mb.pow(x=np.float32(2), y=x)


def atan2(x):
    return mb.atan(x=mb.real_div(x=x, y=mb.exp(x=x)))


def triu(x):
    return mb.sub(x=x, y=mb.band_part(x=x, lower=-1, upper=0))


def masked(x, value, dtype):
    """A softmax in this type of x where it is positive, and of the value elsewhere."""
    filled = mb.select(cond=mb.greater(x=x, y=0.0), a=x, b=value)
    return mb.softmax(x=mb.cast(x=filled, dtype=dtype))


def attention(x, mask):
    mask = mb.greater(x=x, y=0.0) if mask else mb.mul(x=x, y=-1e4)
    return mb.scaled_dot_product_attention(query=x, key=x, value=x, attn_mask=mask)


def division(x, kind):
    return mb.floor_div(x=mb.cast(x=mb.cast(x=x, dtype=kind), dtype="fp32"), y=2.0)


def divided(x, kind):
    """An integer quotient, or another one, that becomes a float."""
    whole = mb.cast(x=x, dtype=kind)
    return mb.cast(x=mb.floor_div(x=whole, y=whole), dtype="fp16")


def twice(x):
    return mb.sub(x=x, y=x)


BUILDERS = {
    f.__name__: f for f in (two_to_the, atan2, triu, masked, attention, division, divided, twice)
}
# a program and the warning of it, if any
TRAPS = """
inverse epsilon=0.0001 of 3,3     | 1 / x with an epsilon
inverse epsilon=0.0 of 3,3        |
two_to_the of 3,3                 | Core ML squares y
pow y=2.0 of 3,3                  |
atan2 of 3,3                      | atan2 as it is converted
atan of 3,3                       |
triu of 3,3                       | triu or tril as it is converted
band_part lower=-1 upper=0 of 3,3 |
add y=-Infinity of 3,3            | a constant of -inf
add y=-40000.0 of 3,3             |
masked value=-1e9 dtype="fp16" of 3,3 | a mask beyond fp16
masked value=-1e5 dtype="fp16" of 3,3 | a mask beyond fp16
masked value=-1e4 dtype="fp16" of 3,3 |
masked value=-1e9 dtype="fp32" of 3,3 |
attention mask=true of 1,3,3      | attention under a mask of bool
attention mask=false of 1,3,3     |
mod y=2.0 of 3,3                  | mod: Core ML truncates
floor_div y=2.0 of 3,3            |
avg_pool kernel_sizes=[2] strides=[3] pad_type="valid" ceil_mode=true of 1,1,7 | by the whole kernel
avg_pool kernel_sizes=[2] strides=[3] pad_type="valid" ceil_mode=true of 1,1,8 |
avg_pool kernel_sizes=[2] strides=[3] pad_type="valid" ceil_mode=true
    exclude_padding_from_average=true of 1,1,7 |
slice_by_index begin=[0,-1] end=[3,0] of 3,3 | a slice of nothing
slice_by_index begin=[0,2] end=[3,3] of 3,3 |
division kind="int32" of 3,3      | an integer division
division kind="fp16" of 3,3       |
divided kind="int32" of 3,3       | an integer division
divided kind="fp32" of 3,3        |
twice of 3,3                      | x % 1
band_part lower=0 upper=0 of 3,3  | diagonal
"""


@pytest.mark.parametrize("row", rows(TRAPS))
def test_pitfalls_are_warned_of(row, tmp_path):
    text, warning = (column.strip() for column in row.split("|"))
    if ct.__version__ != "9.0" and "squares" in warning:
        warning = ""  # 9.1 writes exp(y ln 2)
    build, inputs = program_in_words(text, BUILDERS)
    profile = profile_of(inputs, build, tmp_path, dtype=types.fp32, target=ct.target.iOS18)
    assert [warning in pitfall for pitfall in find_pitfalls(profile)] == [True] * bool(warning)


def test_files(package, tmp_path, capsys):
    report, plot = tmp_path / "report.json", tmp_path / "segments.png"
    ran(f"ane {package} --chip m2 --json {report} --plot {plot}", capsys)
    ops = json.loads(report.read_text(encoding="utf-8"))["forecasts"][0]["ops"]
    assert {f["rule"] for f in ops[1]["findings"]} >= {"sin-cos"}
    assert ops[1]["findings"][0]["sources"]
    assert plot.read_bytes()[:4] == b"\x89PNG"
    assert plot.stat().st_size > 5000


MISTAKES = {
    "ane {package} --chip m9": "chip 'm9' is not in data/ane_rules.json; it has m1, m2, m3, m4,",
    "ane {folder}": "not an .mlpackage",
    "describe {folder}/none.mlpackage": "nothing there",
    "describe {package} --shape x=1,4,1,17": "allowed: one of [1, 4, 1, 16], [1, 4, 1, 32]",
    "describe {package} --shape z=1,4": "unknown input 'z'; the program takes x",
    "describe {package} --function half": "no function 'half'; this program has main",
    "ane {branches} --shape x=1,4,1,16": "name it by --function: decoder, window",
    "ane {package} --rules {folder}/rules.json": "there is no such file",
    "ane {package} --chip m1 --plot {folder}/x.gif": "must end in one of .png, .svg, .pdf",
    "ane {package} --chip m1 --json {folder}/no/x.json": "cannot write",
    "rules --check {folder}/none.md": "there is no such file",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_mistakes_are_one_line_and_exit_2(line, package, branches, tmp_path, capsys):
    folder = tmp_path / "empty"
    folder.mkdir()
    places = {"package": package, "folder": folder, "branches": branches}
    assert main(line.format(**places).split()) == 2
    (error,) = capsys.readouterr().err.strip().splitlines()
    assert error.startswith("error: ")
    assert MISTAKES[line] in error


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,a", "x=0,2", "x=1,,2"])
def test_malformed_shapes_are_refused_by_the_parser(text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["describe", "p", "--shape", text])
    assert stop.value.code == 2
    assert "is not NAME=n,n,..." in capsys.readouterr().err
    assert parse_shape("x=1,2") == ("x", (1, 2))


def test_documents_hold_the_rules_of_the_data_file():
    assert main(["rules", "--check", str(ROOT / "mlprogram" / "RULES.md")]) == 0


def test_rules_page_is_renewed_and_checked(tmp_path):
    begin, end = make_marks(COMMAND)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}\nstale words\n{end}\nafter\n", encoding="utf-8")
    verbs = ["--check", "--write", "--check"]
    assert [main(["rules", verb, str(page)]) for verb in verbs] == [1, 0, 0]
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "sin-cos" in text
    assert "stale words" not in text
    page.write_text("no markers", encoding="utf-8")
    assert main(["rules", "--write", str(page)]) == 2


def test_help_loads_nothing_heavy():
    """The command itself, as far as it lies with __main__.py: whatever mlprogram/__init__.py loads
    comes on top.
    """
    script = (
        "import sys, types; p = types.ModuleType('mlprogram');"
        " p.__path__ = ['mlprogram/src/mlprogram'];"
        " sys.modules['mlprogram'] = p\nfrom mlprogram.__main__ import main\ntry:\n    main(['ane',"
        " '--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\nassert not {'torch',"
        " 'coremltools', 'numpy', 'rich', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=ROOT)


class MLNeuralEngineComputeDevice:
    """Stand-in with the real name: the placement is read off the class's name."""


class MLCPUComputeDevice:
    """Likewise."""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    def build(x, i):
        return mb.gather(x=mb.sin(x=mb.relu(x=x)), indices=i, axis=3)

    folder = tmp_path_factory.mktemp("program")
    return open_program(package_of({"x": (1, 4, 1, 8), "i": (8,)}, build, folder))


@pytest.fixture
def core_ml(program):
    """Stand-ins: sin on the CPU, everything else on the engine, constants nowhere; the clock
    advances by two milliseconds each time it is read.
    """
    model, plan = MagicMock(), MagicMock()
    model().get_compiled_model_path.return_value = "compiled.mlmodelc"
    model.reset_mock()
    functions = plan.load_from_path().model_structure.program.functions
    functions.__getitem__().block.operations = [
        SimpleNamespace(operator_name=op.op_type, outputs=[op.outputs[0]], blocks=[])
        for op in program.function.body.walk()
    ]
    cpu, engine = MLCPUComputeDevice(), MLNeuralEngineComputeDevice()
    plan.load_from_path().get_compute_device_usage_for_mlprogram_operation = lambda op: (
        SimpleNamespace(preferred_compute_device=cpu if op.operator_name == "sin" else engine)
        if op.operator_name != "const"
        else None
    )
    plan.load_from_path.reset_mock()
    units = SimpleNamespace(**{unit: unit for unit in device.UNITS})
    return CoreML(model, plan, units, partial(next, count(0, 0.002)), "Apple M2")


def test_off_a_mac_there_is_no_core_ml(monkeypatch):
    monkeypatch.setattr(device.sys, "platform", "linux")
    assert load_core_ml() is None


def test_measure_asks_for_every_unit_and_reads_the_plan(core_ml, program):
    facts = measure(core_ml, program, program.shapes({}))
    opened = core_ml.model.call_args_list
    assert [one.kwargs["compute_units"] for one in opened] == [*device.UNITS, "CPU_AND_NE"]
    assert {one.kwargs["function_name"] for one in opened} == {None}
    (path,) = {one.args[0] for one in opened}
    assert path != str(program.package.path), "coremltools rewrites a package that it opens"
    loaded = call("compiled.mlmodelc", compute_units="CPU_AND_NE")
    assert core_ml.plan.load_from_path.call_args_list == [loaded]
    assert set(facts.placement.values()) == {"engine", "CPU"}
    assert len(facts.placement) == 3
    assert facts.share_on_engine() == pytest.approx(2 / 3)
    for timing in facts.timings.values():
        assert timing.load_ms == pytest.approx(2)
        assert timing.median_ms == pytest.approx(2)
        assert len(timing.predict_ms) == 10
    (inputs,) = core_ml.model().predict.call_args.args
    assert str(inputs["x"].dtype) == "float16"
    assert inputs["x"].shape == (1, 4, 1, 8)
    assert str(inputs["i"].dtype) == "int32"


def test_a_refusal_by_core_ml_is_one_line(core_ml, program):
    core_ml.model().predict.side_effect = RuntimeError("Error computing NN outputs.")
    pytest.raises(ProgramError, measure, core_ml, program, program.shapes({})).match(
        "Core ML of this Mac refused it: Error computing NN outputs"
    )


def test_forecast_and_fact_stand_side_by_side(
    core_ml,
    program,
    monkeypatch,
    capsys,
):
    monkeypatch.setattr(ane, "load_core_ml", lambda: core_ml)
    out, _ = ran(f"ane {program.package.path} --chip m2 --per-op", capsys)
    assert NOT_MEASURED not in out
    assert "Apple M2 CPU_AND_NE" in out
    assert "66.6" in out
    assert NOT_MEASURED in ran(f"ane {program.package.path} --chip m2 --no-device", capsys)[0]


small = st.integers(1, 4)


def counted(op, function, attributes, **shapes):
    """Multiply-accumulates of an operation on ones: each result is the number of its products."""
    y = function(*(torch.ones(shape) for shape in shapes.values()))
    assert count_macs(op, shapes, (tuple(y.shape),), attributes) == int(y.sum())


@settings(max_examples=50, deadline=None)
@given(st.tuples(*[small] * 8))
def test_macs_are_the_sum_of_ones(sizes):
    n, groups, i, o, high, wide, stride, dilation = sizes
    spans = [(k - 1) * dilation + 1 + n for k in (high, wide)]
    more = {"stride": stride, "groups": groups}
    counted(
        "conv",
        lambda x, w: F.conv2d(x, w, dilation=dilation, **more),
        {},
        x=(n, groups * i, *spans),
        weight=(groups * o, i, high, wide),
    )
    counted(
        "conv_transpose",
        lambda x, w: F.conv_transpose1d(x, w, **more),
        {},
        x=(n, groups * i, high * dilation),
        weight=(groups * i, o, wide),
    )
    x, y = (n, i, wide), (n, wide, o)
    counted("matmul", torch.matmul, {"transpose_x": False}, x=x, y=y)
    counted("matmul", lambda x, y: x.mT @ y, {"transpose_x": True}, x=(n, wide, i), y=y)
    counted("linear", F.linear, {}, x=x, weight=(o, wide))
    operands = {"values[000]": x, "values[001]": y}
    counted("einsum", torch.matmul, {"equation": "bij,bjk->bik"}, **operands)


# multiply-accumulates and floating-point operations of closed form: operation, shapes of its
# operands and of its result
COUNTS = """
scaled_dot_product_attention query=2,3,5,8 key=2,3,7,8 value=2,3,7,4 -> 2,3,5,4 : 2520 macs
lstm x=10,2,6 weight_ih=16,6 weight_hh=16,4 bias=16 -> 10,2,4 : 3200 macs
relu x=2,3,4 -> 2,3,4 : 24 flops
reduce_sum x=2,3,4 -> 2,3,1 : 24 flops
softmax x=2,3,4 -> 2,3,4 : 120 flops
transpose x=2,3,4 -> 4,3,2 : 0 flops
"""


@pytest.mark.parametrize("row", rows(COUNTS))
def test_closed_forms(row):
    def shape(text):
        return tuple(map(int, text.split(",")))

    call, _, rest = row.partition(" -> ")
    op, *operands = call.split()
    result, _, count, unit = rest.split()
    shapes = {name: shape(text) for name, text in (operand.split("=") for operand in operands)}
    macs = count_macs(op, shapes, (shape(result),), {})
    counts = {"macs": macs, "flops": count_flops(op, macs, shapes, (shape(result),))}
    assert counts[unit] == int(count)


def chain(x):
    a = mb.relu(x=x)  # reads x, writes a
    b = mb.add(x=a, y=x)  # reads a and x, the last use of both
    c = mb.reshape(x=b, shape=[1, 8, 1, 4])  # the same bytes as b
    return mb.conv(x=c, weight=np.ones((2, 8, 1, 1), np.float16))  # [1, 2, 1, 4]


def operand_twice(x):
    """One operand twice is read once, and a slice reads what it writes."""
    return mb.slice_by_index(x=mb.mul(x=x, y=x), begin=[0, 0, 0, 0], end=[1, 4, 1, 2])


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        # of each operation: bytes of activations and weights, macs, flops; x has 64 bytes
        (chain, [(128, 0, 0, 32), (192, 0, 0, 32), (0, 0, 0, 0), (80, 32, 64, 128)]),
        (operand_twice, [(128, 0, 0, 32), (32, 0, 0, 0)]),
    ],
)
def test_operations_counted_by_hand(build, expected, tmp_path):
    profile = profile_of({"x": (1, 4, 1, 8)}, build, tmp_path)
    assert [
        (op.activation_bytes, op.weight_bytes, op.macs, op.flops) for op in profile.ops
    ] == expected
    if build is chain:
        assert profile.live_bytes() == [128, 192, 64, 80]
        assert profile.live_peak_bytes() == 192


def test_loop_is_counted_as_often_as_it_runs(tmp_path):
    def build(x):
        return mb.while_loop(
            _cond=lambda i, y: mb.less(x=i, y=3),
            _body=lambda i, y: (mb.add(x=i, y=1), mb.mul(x=y, y=2.0)),
            loop_vars=(0, x),
        )[1]

    profile = profile_of({"x": (4,)}, build, tmp_path, dtype=types.fp32)
    times = {op.op_type: op.times for op in profile.ops}
    assert profile.shapes_from == "one run on zeros"
    assert times["mul"] == 3
    assert times["while_loop"] == 1
    assert next(op for op in profile.ops if op.op_type == "mul").flops == 3 * 4


def test_a_weight_of_two_layers_is_stored_once(tmp_path):
    def twice(x):
        weight = mb.const(val=np.ones((4, 4, 1, 3), np.float16))
        return mb.conv(x=mb.conv(x=x, weight=weight), weight=weight)

    path = package_of({"x": (1, 4, 1, 9)}, twice, tmp_path)
    assert open_program(path).storage.bytes_by_kind() == {"fp16": 96}
