"""Whole programs and inputs of every kind that hypothesis draws, against PyTorch and
coremltools.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import weakref
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from coremltools.proto import Model_pb2
from torch import nn

import test_elementwise
import test_layers
import test_layout
from built import converted, program_of
from mlprogram import Program, ProgramError
from mlprogram.__main__ import main
from mlprogram.constants import CONSTEXPR
from mlprogram.ops import CONTROL, KERNELS
from mlprogram.ops_doc import DOCUMENT, render

IOS17 = ct.target.iOS17


class TestExecution:
    def test_cond_runs_one_branch(self, tmp_path: Path) -> None:
        def body(x, flag):
            chosen = mb.cond(
                pred=mb.cast(x=mb.squeeze(x=flag), dtype="bool"),
                _true_fn=lambda: mb.mul(x=x, y=2.0),
                _false_fn=lambda: mb.sub(x=x, y=1.0),
            )
            return [mb.identity(x=chosen, name="y")]

        program, x = (
            program_of(body, tmp_path, x=(3,), flag=((1,), types.int32)),
            np.array([1, 2, 3], np.float32),
        )
        seen: list[str] = []
        for flag, want in ((1, x * 2), (0, x - 1)):
            y = program(
                {"x": x, "flag": np.array([flag], np.int32)},
                hook=lambda name, op, value: seen.append(op),
            )["y"]
            np.testing.assert_array_equal(y, want)
        assert seen.count("mul") == seen.count("sub") == 1

    def test_names_belong_to_their_block(
        self, tmp_path: Path
    ) -> None:  # A constant of one name in both branches, with another value in each

        def body(x, flag):
            pred = mb.cast(x=mb.squeeze(x=flag), dtype="bool")
            chosen = mb.cond(
                pred=pred,
                _true_fn=lambda: mb.mul(x=x, y=np.full(40, 2.0, np.float32)),
                _false_fn=lambda: mb.mul(x=x, y=np.full(40, 3.0, np.float32)),
            )
            return [mb.identity(x=chosen, name="y")]

        program_of(body, tmp_path, x=(40,), flag=((1,), types.int32))
        model = next(tmp_path.rglob("model.mlmodel"))
        spec = Model_pb2.Model.FromString(model.read_bytes())
        function = spec.mlProgram.functions["main"]
        cond = next(
            op
            for op in function.block_specializations[function.opset].operations
            if op.type == "cond"
        )
        for block in cond.blocks:
            constant, product = block.operations
            constant.outputs[0].name = product.inputs["y"].arguments[0].name = "c"
        model.write_bytes(spec.SerializeToString())
        program, x = Program(tmp_path / "p.mlpackage"), np.ones(40, np.float32)
        for flag, want in ((1, 2), (0, 3)):
            assert program({"x": x, "flag": np.array([flag])})["y"].tolist() == [want] * 40

    def test_while_loop_uses_outer_values_and_its_own(self, tmp_path: Path) -> None:
        """x * 1.5 ** k added up while k < n; `x` comes from outside the loop and outlives it."""

        def body(x, n):
            def step(k, power, total):
                return (
                    mb.add(x=k, y=1),
                    mb.mul(x=power, y=1.5),
                    mb.add(x=total, y=mb.mul(x=power, y=x)),
                )

            limit = mb.squeeze(x=n)
            loop = mb.while_loop(
                _cond=lambda k, power, total: mb.less(x=k, y=limit),
                _body=step,
                loop_vars=(np.int32(0), np.float32(1), np.zeros(3, np.float32)),
            )
            return [mb.identity(x=loop[2], name="y"), mb.identity(x=x, name="same")]

        program, x = (
            program_of(body, tmp_path, x=(3,), n=((1,), types.int32)),
            np.array([1, -2, 3], np.float32),
        )
        for n in (0, 1, 5):
            out = program({"x": x, "n": np.array([n], np.int32)})
            np.testing.assert_allclose(out["y"], x * sum(1.5**k for k in range(n)), rtol=1e-6)
            np.testing.assert_array_equal(out["same"], x)

    def test_lists(self, tmp_path: Path) -> None:
        def body(x):
            items = mb.make_list(init_length=2, dynamic_length=True, elem_shape=(3,), dtype="fp32")
            items = mb.list_write(ls=items, index=1, value=x)
            items = mb.list_scatter(
                ls=items,
                indices=[0, 2],
                value=mb.stack(values=[mb.mul(x=x, y=2.0), mb.mul(x=x, y=3.0)], axis=0),
            )
            gathered = mb.list_gather(ls=items, indices=[2, 1, 0])
            return [
                mb.identity(x=gathered, name="y"),
                mb.list_read(ls=items, index=0, name="first"),
                mb.expand_dims(x=mb.list_length(ls=items), axes=[0], name="n"),
            ]

        x = np.array([1, 2, 3], np.float32)
        out = program_of(body, tmp_path, x=(3,))({"x": x})
        np.testing.assert_array_equal(out["y"], np.stack([3 * x, x, 2 * x]))
        np.testing.assert_array_equal(out["first"], 2 * x)
        assert out["n"].tolist() == [3]

    def test_random_operations_draw_from_the_callers_generator(self, tmp_path: Path) -> None:
        def body(x):
            shape = np.array([2000], np.int32)
            draws = {"normal": mb.random_normal(shape=shape, mean=1.0, stddev=2.0),
                "uniform": mb.random_uniform(shape=shape, low=-1.0, high=3.0),
                "bernoulli": mb.random_bernoulli(shape=shape, prob=np.float32(0.25)),
                "categorical": mb.random_categorical(x=x, mode="probs", size=2000)}  # fmt: skip
            return [mb.cast(x=v, dtype="fp32", name=name) for name, v in draws.items()]

        program, x = (
            program_of(body, tmp_path, x=(1, 3)),
            {"x": np.array([[0.2, 0.5, 0.3]], np.float32)},
        )
        pytest.raises(ProgramError, program, x).match(
            "random_normal '.*main.* draws random numbers; pass generator="
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

    @pytest.mark.parametrize("target", (ct.target.iOS16, IOS17))
    def test_non_maximum_suppression(self, target: ct.target, tmp_path: Path) -> None:
        """Two pairs of boxes that overlap and one alone; the lower score of each pair goes."""
        boxes = np.array(
            [[[1, 1, 2, 2], [1.1, 1, 2, 2], [5, 5, 2, 2], [5, 5.2, 2, 2], [9, 9, 1, 1]]], np.float32
        )
        scores, old = (
            np.array([[[0.6], [0.9], [0.8], [0.7], [0.1]]], np.float32),
            target == ct.target.iOS16,
        )

        def body(boxes, scores):
            more = {"score_threshold": 0.2} if old else {}
            results = mb.non_maximum_suppression(
                boxes=boxes, scores=scores, iou_threshold=0.5, max_boxes=4, **more
            )
            return [mb.identity(x=r, name=f"y{i}") for i, r in enumerate(results)]

        inputs = (
            {"boxes": boxes, "scores": scores}
            if old
            else {"boxes": boxes.swapaxes(1, 2), "scores": scores.swapaxes(1, 2)}
        )
        out = program_of(body, tmp_path, target, **{n: v.shape for n, v in inputs.items()})(
            {n: np.ascontiguousarray(v) for n, v in inputs.items()}
        )
        assert out["y2"].tolist() == ([[1, 2, -1, -1]] if old else [[1, 2, 4, -1]])
        picked = out["y0"] if old else out["y0"].mT
        np.testing.assert_array_equal(picked[0, :2], boxes[0, [1, 2]])
        if old:
            assert out["y3"].tolist() == [2]

    def test_hook_sees_and_replaces_every_tensor(self, tmp_path: Path) -> None:
        program = program_of(
            lambda x: [mb.add(x=mb.mul(x=x, y=2.0, name="double"), y=1.0, name="y")],
            tmp_path,
            x=(3,),
        )
        x, seen = np.array([1, 2, 3], np.float32), []

        def hook(name: str, op_type: str, value: torch.Tensor) -> torch.Tensor | None:
            seen.append((name, op_type, value.tolist()))
            return torch.zeros(3) if name == "double" else None

        assert program({"x": x}, hook=hook)["y"].tolist() == [1, 1, 1]
        assert seen == [
            ("double", "mul", [2, 4, 6]),
            ("y", "add", [1, 1, 1]),
        ]
        with pytest.raises(
            ProgramError, match="the hook replaced 'double' \\[3\\] by one of \\[2\\]"
        ):
            program({"x": x}, hook=lambda *_: torch.zeros(2))

    def test_tensors_die_at_their_last_use(
        self, tmp_path: Path
    ) -> None:  # in a chain of ten operations no more than two results are alive at once

        def body(x):
            for i in range(10):
                x = mb.add(x=x, y=1.0, name=f"y{i}")
            return [x]

        program = program_of(body, tmp_path, x=(1000,))
        alive: list[weakref.ref] = []
        most = 0

        def count(name: str, op_type: str, value: torch.Tensor) -> None:
            nonlocal most
            alive.append(weakref.ref(value))
            most = max(most, sum(ref() is not None for ref in alive))

        program({"x": np.zeros(1000, np.float32)}, hook=count)
        assert most <= 2

    def test_outputs_share_nothing_with_inputs_and_constants(self, tmp_path: Path) -> None:
        program = program_of(
            lambda x: [mb.identity(x=x, name="y"), mb.const(val=np.ones(40, np.float32), name="c")],
            tmp_path,
            x=(40,),
        )
        x = torch.zeros(40)
        out = program({"x": x})
        out["y"] += 1
        out["c"] += 1
        assert x.sum() == 0
        assert program({"x": x})["c"].sum() == 40


ROOT = Path(__file__).resolve().parents[2]
FAMILIES = (test_elementwise, test_layers, test_layout)
TESTED_BY_HAND = {  # operation -> what the test of that file writes
    **dict.fromkeys(("cond", "while_loop", "non_maximum_suppression"), "test_programs.py"),
    "read_state": "test_mlmodel.py",
    **dict.fromkeys(
        (name for name in KERNELS if name.startswith(("random_", "list_", "make_list"))),
        "test_programs.py",
    ),
    **dict.fromkeys(CONSTEXPR, "test_constants.py"),
    **dict.fromkeys(
        ("constexpr_lut_to_sparse", "constexpr_sparse_blockwise_shift_scale"), "test_networks.py"
    ),
}
WRITTEN_AS = {"write_state": "mb.coreml_update_state", "classify": "ClassifierConfig"}


def test_the_document_is_current_and_every_operation_known_and_tested() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == render(), "run: python -m mlprogram.ops_doc"
    listed = set(KERNELS) | set(CONSTEXPR) | set(CONTROL)
    cases, folder = set().union(*(module.CASES for module in FAMILIES)), Path(__file__).parent
    by_hand = {
        op
        for op, file in TESTED_BY_HAND.items()
        if op in (folder / file).read_text(encoding="utf-8")
    }
    programs = (folder / "test_mlmodel.py").read_text(encoding="utf-8")
    by_hand |= {op for op, text in WRITTEN_AS.items() if text in programs}
    assert listed == cases | by_hand
    # Whatever coremltools can emit, but the two nobody emits: conv_quantized (experimental) and
    # _const_symbolic (internal)
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    executed = set(KERNELS) | set(CONSTEXPR) | set(CONTROL) | {"const"}
    assert set(SSAOpRegistry.core_ops) - executed == {"conv_quantized", "_const_symbolic"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    convs = nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.Conv2d(32, 64, 3, padding=2, dilation=2)
    module = nn.Sequential(
        convs[0],
        nn.GELU(),
        convs[1],
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).eval()
    return converted(
        module,
        torch.randn(1, 3, 64, 64),
        tmp_path / "Model.mlpackage",
        [ct.TensorType("image", shape=(1, 3, 64, 64))],
        ("scores",),
    )


def test_the_readme_runs_and_its_figures_are_those(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    text = (ROOT / "mlprogram" / "README.md").read_text(encoding="utf-8")
    monkeypatch.chdir(model.parent)
    example, _ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    record: dict = {}
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
    for record in outputs["ane"]["forecasts"]:
        segments = [record[reading]["segments"] for reading in ("optimistic", "pessimistic")]
        assert record["chip"] != "m1" or "{} / {}".format(*segments) in text


@pytest.mark.slow
def test_the_test_of_the_page_runs(tmp_path: Path) -> None:
    text = (ROOT / "mlprogram" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(# test_my_model\.py.*?)```", text, re.DOTALL)
    (tmp_path / "test_my_model.py").write_text(example, encoding="utf-8")
    module, x = (
        nn.Sequential(nn.Conv1d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 2, 1)).eval(),
        torch.randn(1, 3, 16),
    )
    converted(module, x, tmp_path / "MyModel.mlpackage", [ct.TensorType("x", shape=x.shape)])
    np.savez(tmp_path / "recorded.npz", x=x.numpy(), y=module(x).detach().numpy())
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "test_my_model.py",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "mlprogram" / "src")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
