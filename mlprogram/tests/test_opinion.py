"""The benches: Apple's Core AI beside the executor on one program of every bridged operation, and
the suite's tables.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types

from mlprogram import Program
from mlprogram.benches import coremltools_suite, executor
from mlprogram.benches.coreai import opinion
from mlprogram.benches.coreai.asked import PYTHON, TARGET, Case, Runtime, RuntimeRefused, Subject
from mlprogram.benches.coreai.bridge import PlainKernels, read_graph
from mlprogram.benches.coreai.lowerings import of_two
from mlprogram.benches.coreai.opinion import layers, rows_of
from mlprogram.benches.coreai.runner import LOWERINGS, Bridge, widened
from mlprogram.benches.coremltools_suite import HALF, RULES, explanation, kind_of, main
from mlprogram.benches.shared import snr_db
from mlprogram.tests.built import package_of, save

Cases = dict[str, Callable[[], Any]]


def _numbers(shape: tuple[int, ...], dtype: type, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _elementwise(x: Any, y: Any, kind: type) -> Cases:
    half = kind(0.5)
    above, square = mb.greater(x=x, y=half), mb.mul(x=x, y=x)
    both = {
        name: lambda name=name: getattr(mb, name)(x=x, y=y)
        for name in ("add", "sub", "mul", "maximum")
    }
    one = {
        name: lambda name=name: getattr(mb, name)(x=x)
        for name in ("sin", "cos", "exp", "relu", "sigmoid", "tanh")
    }
    axes = {
        name: lambda name=name: getattr(mb, name)(x=x, axes=[1, 3], keep_dims=True)
        for name in ("reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_l2_norm")
    }
    seen = {
        "greater": lambda: mb.cast(x=above, dtype="int32"),
        "greater_equal": lambda: mb.cast(x=mb.greater_equal(x=x, y=half), dtype="int32"),
        "not_equal": lambda: mb.cast(
            x=mb.not_equal(x=mb.cast(x=x, dtype="int32"), y=0), dtype="int32"
        ),
        "cast": lambda: mb.cast(x=mb.mul(x=x, y=kind(3)), dtype="int32"),
        "select": lambda: mb.select(cond=above, a=x, b=y),
        "cumsum": lambda: mb.cumsum(x=mb.cast(x=x, dtype="int32"), axis=3),
    }
    rest = {
        "sub of a number": lambda: mb.sub(x=kind(1), y=x),
        "real_div": lambda: mb.real_div(x=x, y=mb.add(x=square, y=half)),
        "maximum of a number": lambda: mb.maximum(x=half, y=x),
        "log": lambda: mb.log(x=square, epsilon=kind(0.25)),
        "rsqrt": lambda: mb.rsqrt(x=square, epsilon=kind(0.25)),
        "gelu": lambda: mb.gelu(x=x, mode="TANH_APPROXIMATION"),
        "leaky_relu": lambda: mb.leaky_relu(x=x, alpha=kind(0.2)),
        "clip": lambda: mb.clip(x=x, alpha=kind(-0.5), beta=half),
        "softmax": lambda: mb.softmax(x=x, axis=1),
    }
    return both | one | axes | seen | rest


def _layout(x: Any, kind: type) -> Cases:
    indices = np.array([[2, 0], [1, 1]], np.int32)
    return {
        "concat": lambda: mb.concat(values=[x, x], axis=3),
        "expand_dims": lambda: mb.expand_dims(x=mb.squeeze(x=x, axes=[2]), axes=[0, -1]),
        "squeeze": lambda: mb.squeeze(x=x, axes=[0, 2]),
        "reshape": lambda: mb.reshape(x=x, shape=[0, 2, 2, -1]),
        "transpose": lambda: mb.transpose(x=x, perm=[0, -1, 2, 1]),
        "split": lambda: mb.split(x=x, split_sizes=[1, 3], axis=1)[1],
        "split in equal parts": lambda: mb.split(x=x, num_splits=2, axis=1)[1],
        "slice_by_index": lambda: mb.slice_by_index(
            x=x,
            begin=[0, 1, 0, -5],
            end=[0, 3, 0, -1],
            stride=[1, 1, 1, 2],
            begin_mask=[True, False, False, False],
            end_mask=[True, False, True, False],
            squeeze_mask=[False, False, True, False],
        ),
        "gather": lambda: mb.gather(x=x, indices=indices, axis=1),
        "pad": lambda: mb.pad(x=x, pad=[0, 0, 1, 2], mode="constant", constant_val=kind(0.5)),
    }


def _layers(x: Any, kind: type) -> Cases:
    weight, bias = _numbers((6, 4, 1, 3), kind, 1), _numbers((6,), kind, 2)
    up, deep = _numbers((4, 3, 1, 4), kind, 3), _numbers((5, 6), kind, 4)
    row = mb.squeeze(x=x, axes=[2])  # [1, 4, 6]
    pooled = {"kernel_sizes": [1, 3], "strides": [1, 2], "pad_type": "custom", "pad": [0, 0, 1, 1]}
    scale = kind(0.05)
    codes = mb.quantize(input=x, scale=scale, output_dtype="int8")
    along = mb.quantize(
        input=x,
        scale=_numbers((4,), kind, 5) ** 2 + kind(0.1),
        zero_point=np.array([3, -3, 0, 9], np.int8),
        axis=1,
        output_dtype="int8",
    )
    return {
        "conv": lambda: mb.conv(x=x, weight=weight, bias=bias, pad_type="custom", pad=[0, 0, 1, 1]),
        "conv, wide and uneven": lambda: mb.conv(
            x=x,
            weight=weight,
            dilations=[1, 2],
            strides=[1, 2],
            pad_type="custom",
            pad=[0, 0, 3, 1],
        ),
        "conv_transpose": lambda: mb.conv_transpose(
            x=x, weight=up, strides=[1, 2], pad_type="custom", pad=[0, 0, 1, 1]
        ),
        "max_pool": lambda: mb.max_pool(x=x, ceil_mode=True, **pooled),
        "avg_pool": lambda: mb.avg_pool(x=x, exclude_padding_from_average=False, **pooled),
        "linear": lambda: mb.linear(x=row, weight=deep, bias=bias[:5]),
        "matmul": lambda: mb.matmul(x=row, y=row, transpose_x=False, transpose_y=True),
        "layer_norm": lambda: mb.layer_norm(
            x=row, axes=[-1], gamma=bias, beta=bias[::-1].copy(), epsilon=kind(1e-4)
        ),
        "upsample_nearest_neighbor": lambda: mb.upsample_nearest_neighbor(
            x=x, scale_factor_height=1, scale_factor_width=3
        ),
        "quantize": lambda: mb.cast(x=codes, dtype="int32"),
        "quantize along an axis": lambda: mb.cast(x=along, dtype="int32"),
        "dequantize": lambda: mb.dequantize(input=codes, scale=scale),
        "lstm": lambda: _lstm(mb.transpose(x=row, perm=[2, 0, 1]), kind),
    }


def _lstm(steps: Any, kind: type) -> Any:
    weights = {
        f"{name}{end}": _numbers(shape, kind, len(name + end))
        for end in ("", "_back")
        for name, shape in (("weight_ih", (12, 4)), ("weight_hh", (12, 3)), ("bias", (12,)))
    }
    first = _numbers((1, 6), kind, 6)
    return mb.lstm(
        x=steps,
        initial_h=first,
        initial_c=-first,
        direction="bidirectional",
        output_sequence=True,
        **weights,
    )[0]


def every_operation(path: Path, dtype: type) -> tuple[Path, dict[str, np.ndarray], dict[str, str]]:
    """The package, its inputs, and case -> name of its output."""
    given = {"x": _numbers((1, 4, 1, 6), dtype, 7), "y": _numbers((1, 4, 1, 6), dtype, 8)}
    kind = types.fp16 if dtype is np.float16 else types.fp32
    placeholders = {
        name: mb.placeholder(shape=value.shape, dtype=kind) for name, value in given.items()
    }
    with Function(placeholders, opset_version=ct.target.iOS17) as function:
        x, y = (function.inputs[name] for name in given)
        cases = _elementwise(x, y, dtype) | _layout(x, dtype) | _layers(x, dtype)
        names = {case: f"out_{i}" for i, case in enumerate(cases)}
        function.set_outputs([_named(make(), names[case]) for case, make in cases.items()])
    return save(function, path, ct.target.iOS17), given, names


def _named(value: Any, name: str) -> Any:
    value.name = name  # an output by the name that the case is known by
    return value


class PlainRuntime:
    """In the place of Apple's: the bridge in PyTorch, in this process. `lowerings`: of another
    meaning, for controls.
    """

    def __init__(self, _python: Path = PYTHON, lowerings: Mapping[str, Any] = LOWERINGS) -> None:
        self.lowerings = lowerings

    def ask(
        self,
        package: Path,
        function: str,
        cases: Sequence[Mapping[str, np.ndarray]],
        watched: Sequence[str] = (),
        free: Mapping[str, Sequence[int]] | None = None,
        wide: bool = False,
    ) -> tuple[list[dict[str, np.ndarray]], dict[str, Any]]:
        graph = read_graph(package, function)
        module = Bridge(
            graph,
            PlainKernels(),
            tuple(watched),
            self.lowerings,
            torch.float32 if wide else torch.float16,
        ).eval()
        names = (*graph.outputs, *watched)
        answers = []
        with torch.inference_mode():
            for case in cases:
                values = module(
                    *(torch.from_numpy(widened(case[name], wide)) for name in graph.inputs)
                )
                answers.append(
                    {name: value.numpy() for name, value in zip(names, values, strict=True)}
                )
        return answers, {"convert_s": 0.0, "execute_s": 0.0, "versions": {}}


# sums in another order; in fp16 one step more or less
WORST_DB = {np.float32: 110.0, np.float16: 60.0}


@pytest.fixture(scope="module", params=[np.float32, np.float16], ids=["fp32", "fp16"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[type, Subject, dict[str, str]]:
    """Every operation, once in each float type: the subject with mlprogram's answers, and case ->
    output.
    """
    package, given, names = every_operation(
        tmp_path_factory.mktemp("n") / "n.mlpackage", request.param
    )
    program = Program(package)
    ours = {name: value.numpy() for name, value in program(given).items()}
    return request.param, Subject(package, "main", program, [Case(given, ours)]), names


def test_every_operation_of_the_bridge_is_there_and_agrees_with_mlprogram(
    both: tuple[type, Subject, dict[str, str]],
) -> None:
    dtype, subject, names = both
    (theirs,), _ = PlainRuntime().ask(subject.package, "main", [subject.cases[0].given])
    figures = {
        case: snr_db(subject.cases[0].ours[name], theirs[name]) for case, name in names.items()
    }
    assert min(figures.values()) >= WORST_DB[dtype], {
        case: value for case, value in figures.items() if value < WORST_DB[dtype]
    }
    whole = {case for case, name in names.items() if subject.cases[0].ours[name].dtype == np.int32}
    assert {"quantize", "quantize along an axis", "cast"} <= whole
    assert all(figures[case] == float("inf") for case in whole)
    assert all(theirs[name].dtype == subject.cases[0].ours[name].dtype for name in names.values())
    assert {op.op_type for op in read_graph(both[1].package, "main").operations} == set(LOWERINGS)


def test_a_wrong_operation_is_noticed_and_named(both: tuple[type, Subject, dict[str, str]]) -> None:
    """Controls: one lowering means another thing; its output falls below the limit, and the layers
    name it and nothing before it.
    """
    _, subject, names = both
    wrong = {"sub": of_two(operator.add), "leaky_relu": lambda call: call.tensor("x") * 1.001}
    for op_type, lowering in wrong.items():
        runtime = PlainRuntime(lowerings={**LOWERINGS, op_type: lowering})
        (theirs,), told = runtime.ask(subject.package, "main", [subject.cases[0].given])
        rows = {row["output"]: row for row in rows_of(subject, [(subject.cases[0], theirs)], told)}
        assert not opinion.good(rows[names[op_type]])
        found = layers(subject, runtime, 55.0, 10)
        assert found["count"] == len(found["parted"]) or found["count"] > 10
        assert {row["operation"] for row in found["parted"]} == {op_type}
    assert layers(subject, PlainRuntime(), 55.0, 10)["count"] == 0


def _subject_of(function: Any, path: Path, given: dict[str, np.ndarray], target: Any) -> Subject:
    package = save(function, path, target)
    program = Program(package)
    return Subject(
        package,
        "main",
        program,
        [Case(given, {name: value.numpy() for name, value in program(given).items()})],
    )


def test_a_remainder_of_two_large_numbers_is_no_fault(tmp_path: Path) -> None:
    """Its agreement with itself is bad by nature; against what it was made from it is good, and a
    real fault still shows, and no other.
    """
    with Function(
        {"x": mb.placeholder(shape=(1, 512), dtype=types.fp16)}, opset_version=ct.target.iOS17
    ) as function:
        x = function.inputs["x"]
        centred = mb.sub(x=x, y=mb.reduce_mean(x=x, axes=[1], keep_dims=True))
        rest = mb.mul(x=mb.reduce_mean(x=centred, axes=[1], keep_dims=True), y=np.float16(1.5))
        function.set_outputs([mb.add(x=mb.sub(x=centred, y=rest), y=x)])
    given = {"x": (np.random.default_rng(0).standard_normal((1, 512)) + 40).astype(np.float16)}
    subject = _subject_of(function, tmp_path / "n.mlpackage", given, ct.target.iOS17)
    tilted = {
        **LOWERINGS,
        "reduce_mean": lambda call: call.tensor("x").mean(1, keepdim=True) + 0.0005,
    }
    assert layers(subject, PlainRuntime(lowerings=tilted), 55.0, 10)["count"] == 0
    wrong = {**LOWERINGS, "reduce_mean": lambda call: call.tensor("x").mean(1, keepdim=True) * 1.01}
    found = layers(subject, PlainRuntime(lowerings=wrong), 55.0, 10)
    assert {row["operation"] for row in found["parted"]} == {"reduce_mean"}
    kinds = {row["operation"]: row for row in found["kinds"]}
    assert kinds["reduce_mean"]["differ_percent"] > 0
    assert kinds["sub"]["differ_percent"] == 0
    assert kinds["sub"]["worst_db"] == 1000


def test_compressed_weights_are_mlprograms(tmp_path: Path) -> None:
    """int8 with offsets, int4 in blocks, packed indices of 4 and 6 bits, a palette a group: every
    value equal.
    """
    random = np.random.default_rng(0)
    codes, scale = (
        random.integers(-128, 128, (4, 6), dtype=np.int8),
        random.random(4).astype(np.float16) / 50,
    )

    def old() -> list[Any]:
        kept = [
            mb.constexpr_affine_dequantize(
                quantized_data=codes, zero_point=np.int8(5), scale=np.float16(0.1), axis=0
            )
        ]
        kept.append(
            mb.constexpr_affine_dequantize(
                quantized_data=codes, zero_point=codes[:, 0], scale=scale, axis=0
            )
        )
        for bits in (4, 6):
            indices = random.integers(0, 1 << bits, 24, dtype=np.uint8)
            packed = np.packbits(
                np.unpackbits(indices[:, None], axis=1, bitorder="little")[:, :bits].reshape(-1),
                bitorder="little",
            )
            lut, shape = (
                random.standard_normal(1 << bits).astype(np.float16),
                np.array([4, 6], np.uint32),
            )
            kept.append(mb.constexpr_lut_to_dense(indices=packed, lut=lut, shape=shape))
        return kept

    def new() -> list[Any]:
        int4, uint2 = types.np_int4_dtype, types.np_uint2_dtype
        blocks = mb.constexpr_blockwise_shift_scale(
            data=(codes % 16 - 8).astype(int4), scale=random.random((4, 2)).astype(np.float16)
        )
        grouped = mb.constexpr_lut_to_dense(
            indices=(codes % 4).astype(uint2),
            lut=random.standard_normal((2, 1, 4, 1)).astype(np.float16),
        )
        return [blocks, grouped]

    for name, make, target in (("old", old, ct.target.iOS16), ("new", new, ct.target.iOS18)):
        with Function(
            {"x": mb.placeholder(shape=(4, 6), dtype=types.fp16)}, opset_version=target
        ) as function:
            function.set_outputs([mb.add(x=function.inputs["x"], y=weight) for weight in make()])
        subject = _subject_of(
            function, tmp_path / f"{name}.mlpackage", {"x": np.zeros((4, 6), np.float16)}, target
        )
        (theirs,), _ = PlainRuntime().ask(subject.package, "main", [subject.cases[0].given])
        assert len(theirs) > 1
        for output, ours in subject.cases[0].ours.items():
            assert np.any(ours)
            np.testing.assert_array_equal(theirs[output], ours)


def test_what_is_not_bridged_is_told_before_anything_runs(tmp_path: Path) -> None:
    with Function(
        {"x": mb.placeholder(shape=(3,), dtype=types.fp32)}, opset_version=ct.target.iOS17
    ) as function:
        function.set_outputs([mb.atan(x=function.inputs["x"], name="angle")])
    graph = read_graph(save(function, tmp_path / "n.mlpackage", ct.target.iOS17), "main")
    with pytest.raises(NotImplementedError, match="atan 'angle' is not bridged"):
        Bridge(graph, PlainKernels())
    pytest.raises(ValueError, read_graph, tmp_path / "n.mlpackage", "other").match(
        "no function 'other'; it has main"
    )


def test_the_command_compares_agrees_disagrees_and_tells_a_refusal(
    both: tuple[type, Subject, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    dtype, subject, _ = both
    if dtype is np.float16:
        return
    np.savez(tmp_path / "given.npz", **subject.cases[0].given)
    command = [str(subject.package), "--layers", "60"]
    monkeypatch.setattr(opinion, "Runtime", PlainRuntime)
    assert (
        opinion.main(
            [*command, "--precision", "declared,exact", "--inputs", str(tmp_path / "given.npz")]
        )
        == 0
    )
    table, *_, last = (said := capsys.readouterr().out).splitlines()
    assert [
        row["precision"] for row in json.loads(last)["rows"][:: len(subject.program.outputs)]
    ] == ["declared", "exact"]
    assert "| n | main | declared | out_0 |" in said
    assert table.startswith("| package |")
    monkeypatch.setattr(
        opinion,
        "Runtime",
        lambda python: PlainRuntime(python, {**LOWERINGS, "add": of_two(operator.sub)}),
    )
    assert opinion.main([*command, "--seed", "3"]) == 1
    assert (
        min(
            row["agreement_db"] or 999
            for row in json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
        )
        < 30
    )

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeRefused("RuntimeError: no lowering for it")

    monkeypatch.setattr(PlainRuntime, "ask", refuse)
    assert opinion.main(command) == 1
    said = capsys.readouterr().out
    assert "refused: RuntimeError: no lowering for it" in said
    assert json.loads(said.splitlines()[-1])["good"] is False


def test_without_the_environment_one_line_names_the_make_target(
    tmp_path: Path, capsys: Any
) -> None:
    bare = tmp_path / "bare"
    bare.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    bare.chmod(0o755)
    for python in (tmp_path / "python", bare):
        assert opinion.main(["any.mlpackage", "--python", str(python)]) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert TARGET in told


@pytest.mark.slow
def test_apples_runtime_agrees_on_every_operation(
    both: tuple[type, Subject, dict[str, str]],
) -> None:
    if not PYTHON.is_file():
        pytest.skip("Apple's runtime is not installed: make venv-second-opinion")
    dtype, subject, names = both
    (theirs,), _ = Runtime().ask(subject.package, "main", [subject.cases[0].given])
    figures = {
        case: snr_db(subject.cases[0].ours[name], theirs[name]) for case, name in names.items()
    }
    limit = {np.float32: 90.0, np.float16: 50.0}[dtype]
    assert min(figures.values()) >= limit, {
        case: value for case, value in figures.items() if value < limit
    }


GOOD = {
    "case": "f.py::T::t[precision='fp32']",
    "predictions": 1,
    "errors": [],
    "other_kind": False,
    "half": False,
}
GOOD |= {"operations": ["add"], "worst": 0.0, "outcome": "passed", "message": "", "where": ""}
MISSED = {"outcome": "failed", "message": "AssertionError: Not equal to tolerance rtol=1e-05"}


class TestSuite:
    @pytest.mark.slow
    def test_a_sample_of_the_operations_agrees(self, capsys: pytest.CaptureFixture) -> None:
        """Two files of the suite, chosen by the seed, first cases of every function in them."""
        assert main(["--suite", "operations", "--files", "2", "--sample", "30", "--seed", "5"]) == 0
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert summary["judged"] >= 10
        assert summary["unexplained"] == 0

    @pytest.mark.parametrize(
        ("change", "kind"),
        [
            ({}, "agrees"),
            (MISSED, "disagrees"),
            (MISSED | {"half": True, "worst": HALF / 2}, "agrees to fp16"),
            (MISSED | {"half": True, "worst": HALF * 2}, "disagrees"),
            (
                MISSED | {"half": True, "worst": HALF / 2, "case": "f.py::T::t[precision='fp16']"},
                "disagrees",
            ),
            (
                {
                    "outcome": "failed",
                    "message": "RuntimeError",
                    "errors": ["run: no"],
                    "half": True,
                },
                "disagrees",
            ),
            ({"outcome": "failed", "predictions": 0}, "does not convert here"),
            ({"predictions": 0}, "predicts nothing"),
            ({"other_kind": True, "outcome": "failed"}, "not an ML program"),
            ({"outcome": "expected to fail"}, "expected to fail"),
        ],
    )
    def test_kinds_of_cases(self, change: dict, kind: str) -> None:
        assert kind_of(GOOD | change) == kind

    def test_only_written_rules_explain(self) -> None:
        assert explanation(GOOD | MISSED) == ("not explained", "unknown")
        assert {rule.who for rule in RULES} <= {"mlprogram", "coremltools", "both"}

    @pytest.mark.parametrize(("red", "code"), [(0, 0), (1, 1)])
    def test_an_unexplained_case_fails_the_run(
        self, red: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
    ) -> None:
        cases = [{"collected": 9, "chosen": 3}, *[GOOD] * (3 - red), *[GOOD | MISSED] * red]
        monkeypatch.setattr(coremltools_suite, "run_pytest", lambda *_: cases)
        assert main(["--suite", "quantization"]) == code
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["unexplained"] == red

    def test_a_case_that_takes_its_process_down_is_red_and_the_others_still_run(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from mlprogram.benches.coremltools_suite import run_pytest, told

        head, first, fatal, last = (
            {"collected": 3, "chosen": 3},
            GOOD | {"case": "a"},
            {"begun": "b"},
            GOOD | {"case": "c"},
        )
        assert told([head, {"begun": "a"}, first], 0) == [head, first]
        red = told([head, {"begun": "a"}, first, fatal], -11)[-1]
        assert red["case"] == "b"
        assert red["message"] == "the process ended with -11"
        assert kind_of(red) == "disagrees"
        answers = {0: told([head, first, fatal], -11), 2: [head, last]}
        monkeypatch.setattr(
            coremltools_suite, "run_process", lambda _, __, ___, skip: answers[skip]
        )
        assert [case.get("case") for case in run_pytest([], None, None)] == [None, "a", "b", "c"]

    @pytest.mark.slow
    def test_full_size_generator(self, tmp_path: Path) -> None:
        figures = executor.measure(rounds=1, folder=tmp_path)
        assert figures["snr_db_to_float64"]["fp32 declared"] >= executor.AGREEMENT_DB
        for name in ("fp32 declared", "fp16 declared"):
            assert figures["memory_ratio"][name] <= executor.MEMORY_LIMIT, figures["memory_ratio"]
        assert (
            figures["snr_db_to_float64"]["fp16 declared"]
            > figures["snr_db_to_float64"]["fp16 ane_numerics"]
            > 30
        )


def test_two_packages_on_the_same_inputs(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    package = package_of({"x": (1, 4, 1, 8)}, lambda x: mb.relu(x=x), tmp_path)
    np.savez(tmp_path / "given.npz", x=np.ones((1, 4, 1, 8), np.float16))
    for flags in ([], ["--inputs", str(tmp_path / "given.npz")]):
        assert executor.main(
            ["--packages", str(package), str(package), "--rounds", "2", *flags]
        ) in (0, 1)
        assert json.loads(capsys.readouterr().out)["shapes"] == {"x": [1, 4, 1, 8]}
    np.savez(tmp_path / "other.npz", y=1)
    assert (
        executor.main(
            ["--packages", str(package), str(package), "--inputs", str(tmp_path / "other.npz")]
        )
        == 2
    )
    assert "holds no x" in capsys.readouterr().err
