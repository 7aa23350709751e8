"""Whole programs and inputs of every kind that hypothesis draws, against PyTorch and
coremltools.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
import yaml
from coremltools.converters.mil.mil import Builder as mb
from coremltools.proto import Model_pb2
from torch import nn

import test_constants
import test_elementwise
import test_layers
import test_layout
from built import IOS16, IOS17, converted, operations_of, program_of
from mlprogram import Program, ProgramError
from mlprogram.__main__ import main
from mlprogram.constants import CONSTEXPR
from mlprogram.ops import CONTROL, KERNELS
from mlprogram.ops_doc import DOCUMENT, render


def test_cond_runs_one_branch_and_names_belong_to_their_block(tmp_path):
    """A constant of one name in both branches, with another value in each."""

    def build(x, i):
        return mb.cond(
            pred=mb.cast(x=mb.squeeze(x=i), dtype="bool"),
            _true_fn=lambda: mb.mul(x=x, y=np.full(40, 2.0, np.float32)),
            _false_fn=lambda: mb.mul(x=x, y=np.full(40, 3.0, np.float32)),
        )

    program_of({"x": (40,), "i": (1,)}, build, tmp_path)
    model = next(tmp_path.rglob("model.mlmodel"))
    spec = Model_pb2.Model.FromString(model.read_bytes())
    for block in next(op for op in operations_of(spec) if op.type == "cond").blocks:
        constant, product = block.operations
        constant.outputs[0].name = product.inputs["y"].arguments[0].name = "c"
    model.write_bytes(spec.SerializeToString())
    program = Program(next(tmp_path.glob("*.mlpackage")))
    for i, factor in ((1, 2), (0, 3)):
        inputs, seen = {"x": np.ones(40, np.float32), "i": np.array([i])}, []
        y = program(inputs, hook=lambda name, op, value, seen=seen: seen.append(op))["y"]
        assert y.tolist() == [factor] * 40
        assert seen.count("mul") == 1


def test_while_loop_uses_outer_values_and_its_own(tmp_path):
    """x * 1.5 ** k added up while k < i; `x` comes from outside the loop and outlives it."""

    def build(x, i):
        limit = mb.squeeze(x=i)
        loop = mb.while_loop(
            _cond=lambda k, power, total: mb.less(x=k, y=limit),
            _body=lambda k, power, total: (
                mb.add(x=k, y=1),
                mb.mul(x=power, y=1.5),
                mb.add(x=total, y=mb.mul(x=power, y=x)),
            ),
            loop_vars=(np.int32(0), np.float32(1), np.zeros(3, np.float32)),
        )
        return {"y": loop[2], "same": x}

    program = program_of({"x": (3,), "i": (1,)}, build, tmp_path)
    x = np.array([1, -2, 3], np.float32)
    for i in (0, 1, 5):
        out = program({"x": x, "i": np.array([i])})
        np.testing.assert_allclose(out["y"], x * sum(1.5**k for k in range(i)), rtol=1e-6)
        np.testing.assert_array_equal(out["same"], x)


def test_lists(tmp_path):
    def build(x):
        items = mb.make_list(init_length=2, dynamic_length=True, elem_shape=(3,), dtype="fp32")
        items = mb.list_write(ls=items, index=1, value=x)
        rows = mb.stack(values=[mb.mul(x=x, y=2.0), mb.mul(x=x, y=3.0)], axis=0)
        items = mb.list_scatter(ls=items, indices=[0, 2], value=rows)
        return {
            "y": mb.list_gather(ls=items, indices=[2, 1, 0]),
            "first": mb.list_read(ls=items, index=0),
            "n": mb.expand_dims(x=mb.list_length(ls=items), axes=[0]),
        }

    x = np.array([1, 2, 3], np.float32)
    out = program_of({"x": (3,)}, build, tmp_path)({"x": x})
    np.testing.assert_array_equal(out["y"], np.stack([3 * x, x, 2 * x]))
    np.testing.assert_array_equal(out["first"], 2 * x)
    assert out["n"].tolist() == [3]


def test_random_operations_draw_from_the_callers_generator(tmp_path):
    def build(x):
        shape = np.array([2000], np.int32)
        draws = {"normal": mb.random_normal(shape=shape, mean=1.0, stddev=2.0),
            "uniform": mb.random_uniform(shape=shape, low=-1.0, high=3.0),
            "bernoulli": mb.random_bernoulli(shape=shape, prob=np.float32(0.25)),
            "categorical": mb.random_categorical(x=x, mode="probs", size=2000)}  # fmt: skip
        return {name: mb.cast(x=v, dtype="fp32") for name, v in draws.items()}

    program = program_of({"x": (1, 3)}, build, tmp_path)
    x = {"x": np.array([[0.2, 0.5, 0.3]], np.float32)}
    pytest.raises(ProgramError, program, x).match(
        "random_normal '.*normal.* draws random numbers; pass generator="
    )
    first, again, other = (
        program(x, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[n], again[n]) for n in first)
    assert not any(torch.equal(first[n], other[n]) for n in first)
    assert abs(first["normal"].mean() - 1) < 0.2
    assert abs(first["normal"].std() - 2) < 0.2
    assert -1 <= first["uniform"].min() < -0.9
    assert 2.9 < first["uniform"].max() < 3
    assert abs(first["bernoulli"].mean() - 0.25) < 0.05
    shares = [(first["categorical"] == k).float().mean() for k in range(3)]
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.3], atol=0.05)


@pytest.mark.parametrize(
    ("target", "more", "places"),
    [(IOS16, {"score_threshold": 0.2}, [[1, 2, -1, -1]]), (IOS17, {}, [[1, 2, 4, -1]])],
)
def test_non_maximum_suppression(target, more, places, tmp_path):
    """Two pairs of boxes that overlap and one alone; the lower score of each pair goes. From iOS 17
    on boxes come last, and there is no least score.
    """
    boxes = [[1, 1, 2, 2], [1.1, 1, 2, 2], [5, 5, 2, 2], [5, 5.2, 2, 2], [9, 9, 1, 1]]
    scores = torch.tensor([0.6, 0.9, 0.8, 0.7, 0.1])[None, :, None]
    inputs = {"boxes": torch.tensor(boxes)[None], "scores": scores}
    inputs = inputs if more else {n: v.mT.contiguous() for n, v in inputs.items()}

    def build(**values):
        results = mb.non_maximum_suppression(**values, iou_threshold=0.5, max_boxes=4, **more)
        return {f"y{i}": r for i, r in enumerate(results)}

    shapes = {n: tuple(v.shape) for n, v in inputs.items()}
    out = program_of(shapes, build, tmp_path, target=target)(inputs)
    assert out["y2"].tolist() == places
    picked = out["y0"] if more else out["y0"].mT
    assert torch.equal(picked[0, :2], torch.tensor(boxes)[[1, 2]])
    assert not more or out["y3"].tolist() == [2]


def test_hook_sees_and_replaces_every_tensor(tmp_path):
    def build(x):
        return [mb.add(x=mb.mul(x=x, y=2.0, name="double"), y=1.0, name="y")]

    program, seen = program_of({"x": (3,)}, build, tmp_path), []
    x = {"x": np.array([1, 2, 3], np.float32)}

    def hook(name, op_type, value):
        seen.append((name, op_type, value.tolist()))
        return torch.zeros(3) if name == "double" else None

    assert program(x, hook=hook)["y"].tolist() == [1, 1, 1]
    assert seen == [("double", "mul", [2, 4, 6]), ("y", "add", [1, 1, 1])]
    with pytest.raises(ProgramError, match=r"the hook replaced 'double' \[3\] by one of \[2\]"):
        program(x, hook=lambda *_: torch.zeros(2))


def test_tensors_die_at_their_last_use(tmp_path):
    """In a chain of ten operations no more than two results are alive at once."""

    def build(x):
        for _ in range(10):
            x = mb.add(x=x, y=1.0)
        return x

    references = []
    alive = []

    def count(name, op_type, value):
        references.append(weakref.ref(value))
        alive.append(sum(reference() is not None for reference in references))

    program_of({"x": (1000,)}, build, tmp_path)({"x": np.zeros(1000)}, hook=count)
    assert len(alive) >= 10
    assert max(alive) <= 2


def test_outputs_share_nothing_with_inputs_and_constants(tmp_path):
    def build(x):
        return [mb.identity(x=x, name="y"), mb.const(val=np.ones(40, np.float32), name="c")]

    program, x = program_of({"x": (40,)}, build, tmp_path), torch.zeros(40)
    out = program({"x": x})
    out["y"] += 1
    out["c"] += 1
    assert x.sum() == 0
    assert program({"x": x})["c"].sum() == 40


ROOT = Path(__file__).resolve().parents[2]
FAMILIES = (test_constants, test_elementwise, test_layers, test_layout)
# operation -> what a test writes that makes it
WRITTEN_AS = {"write_state": "mb.coreml_update_state", "classify": "ClassifierConfig"}


def test_the_document_is_current_and_every_operation_known_and_tested():
    assert DOCUMENT.read_text(encoding="utf-8") == render(), "run: python -m mlprogram.ops_doc"
    listed = set(KERNELS) | set(CONSTEXPR) | set(CONTROL)
    cases = set().union(*(module.CASES for module in FAMILIES))
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    for op in listed - cases:
        text = WRITTEN_AS.get(op, f'"{op}"' if op in CONSTEXPR else f"mb.{op}(")
        assert text in tests, op
    assert cases <= listed
    # Whatever coremltools can emit, but the two nobody emits: conv_quantized (experimental) and
    # _const_symbolic (internal)
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    executed = set(KERNELS) | set(CONSTEXPR) | set(CONTROL) | {"const"}
    assert set(SSAOpRegistry.core_ops) - executed == {"conv_quantized", "_const_symbolic"}


@pytest.fixture
def model(tmp_path):
    torch.manual_seed(0)
    layers = (
        nn.Sequential(nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.GELU()),
        nn.Sequential(nn.Conv2d(32, 64, 3, padding=2, dilation=2), nn.GELU()),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )
    image = ct.TensorType("image", shape=(1, 3, 64, 64))
    path = converted(nn.Sequential(*layers), tmp_path, image, outputs=("scores",))
    return path.rename(tmp_path / "Model.mlpackage")


def test_the_readme_runs_and_its_figures_are_those(model, monkeypatch, capsys):
    text = (ROOT / "mlprogram" / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(model.parent)
    example, _ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    record = {}
    exec(example, record)
    assert record["scores"].shape == (1, 10)
    assert 0 < record["error"] < 0.01
    assert "scores" in record["largest"]
    outputs = {}
    for verb, line in re.findall(r"^python -m mlprogram (describe|ane) (.*)$", text, re.MULTILINE):
        assert main([verb, *shlex.split(line)]) == 0
        outputs[verb] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert outputs["describe"]["totals"]["live_peak_bytes"] == 262_144
    assert outputs["describe"]["by_type"]["conv"]["macs"] == 19_759_104
    (shown,) = re.findall(r"^ main, image 1x3x64x64 +(\S+) +(\S+)$", text, re.MULTILINE)
    readings = ("optimistic", "pessimistic")
    for record, cell in zip(outputs["ane"]["forecasts"], shown, strict=True):
        assert cell == "/".join(f"{100 * record[name]['share']['macs']:g}" for name in readings)


def test_the_example_tests_its_model_as_its_workflow_types_it(tmp_path, monkeypatch):
    """And finds a changed weight; the model is made again to the same weights and outputs."""
    page = (ROOT / "mlprogram" / "README.md").read_text(encoding="utf-8")
    copy = shutil.copytree(ROOT / "mlprogram" / "examples", tmp_path / "example")
    workflow, test = (
        (copy / name).read_text(encoding="utf-8") for name in ("core-ml.yml", "test_model.py")
    )
    assert workflow in page
    assert test in page
    assert len(workflow.splitlines()) <= 15
    files = [path for path in (copy / "Model.mlpackage").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 20_000
    command = yaml.safe_load(workflow)["jobs"]["model"]["steps"][-1]["run"]
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "mlprogram" / "src"))

    def typed():
        done = subprocess.run(command, shell=True, cwd=copy, stdout=subprocess.PIPE, check=False)
        return done.stdout

    assert b"2 passed" in typed()
    (weights,) = copy.rglob("weight.bin")
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 0x80]))  # the last one's sign
    assert b"1 failed, 1 passed" in typed()
    recorded = np.load(copy / "recorded.npz")["scores"]
    monkeypatch.chdir(copy)
    runpy.run_path("make_model.py")
    assert weights.read_bytes() == content
    assert np.allclose(np.load("recorded.npz")["scores"], recorded, atol=1e-6)
