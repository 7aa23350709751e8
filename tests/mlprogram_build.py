"""Build one-operation programs with coremltools' Builder, and hold what mlprogram computes against an independent reference.

    check("gelu", [Case({"x": x}, attrs={"mode": "EXACT"}, reference=lambda x, mode: ...)], tmp_path)

Several cases of one operation share a package on disk, one branch each: a package costs 0.1 s. Every case runs in fp32 and in fp16, with
its inputs at run time, and once more with its inputs as constants, where coremltools' own value inference says what is right.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from coremltools.converters.mil.mil import Program as MilProgram

from mlprogram import Program

FLOATS = {"fp32": (types.fp32, np.float32), "fp16": (types.fp16, np.float16)}


@dataclass(frozen=True)
class Case:
    """One call of an operation.

    `inputs` arrive at run time, `consts` are constant tensors, `attrs` everything else; float arrays and float attributes take the
    float type under test. `reference` gets all of them in this order, floats in float64. `fp16=False` leaves the fp16 program out,
    `folds=False` says that value inference cannot be asked (it raises, or differs for the reason given beside the case).
    """

    inputs: dict[str, Any]
    reference: Callable[..., Any]
    consts: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    fp16: bool = True
    folds: bool = True
    ulps: float = 1.0


def as_type(value: Any, dtype: type) -> Any:
    """Floats (arrays, lists of arrays, numbers) in the float type under test, everything else unchanged."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [as_type(v, dtype) for v in value]
    if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return dtype(value) if isinstance(value, float) else value.astype(dtype)
    return value


def wide(value: Any) -> Any:
    """What a reference gets: floats in float64."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [wide(v) for v in value]
    if isinstance(value, np.floating):
        return float(value)
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def save(functions: dict[str, Function] | Function, path: Path, target: ct.target) -> Path:
    """Write a MIL function as an .mlpackage without any graph pass."""
    program = MilProgram()
    program.add_function("main", functions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ct.convert(
            program,
            source="milinternal",
            convert_to="mlprogram",
            pass_pipeline=ct.PassPipeline.EMPTY,
            skip_model_load=True,
            minimum_deployment_target=target,
            compute_precision=ct.precision.FLOAT32,
        )
        model.save(str(path))
    return path


def _placeholder(value: np.ndarray) -> Any:
    kinds = {np.dtype(np.float16): types.fp16, np.dtype(np.float32): types.fp32}
    return mb.placeholder(shape=value.shape, dtype=kinds.get(value.dtype, types.int32))


def _outputs(result: Any, prefix: str) -> list[Any]:
    results = result if isinstance(result, (tuple, list)) else (result,)
    plain = (types.fp32, types.fp16, types.int32)
    return [
        mb.identity(x=r, name=f"{prefix}_{i}") if r.dtype in plain else mb.cast(x=r, dtype="int32", name=f"{prefix}_{i}")
        for i, r in enumerate(results)
    ]


@dataclass(frozen=True)
class Branch:
    """One case in one float type inside a package; its inputs and outputs carry its key."""

    key: str
    op: str
    case: Case
    dtype: type

    def fixed(self) -> dict[str, Any]:
        return {n: as_type(v, self.dtype) for n, v in (self.case.consts | self.case.attrs).items()}

    def feeds(self) -> dict[str, np.ndarray]:
        feeds = {}
        for name, value in self.case.inputs.items():
            for i, v in enumerate(value if isinstance(value, list) else [value]):
                feeds[f"{self.key}_{name}_{i}"] = v.astype(np.int32) if v.dtype == bool else as_type(v, self.dtype)
        return feeds

    def live(self, function: Function) -> list[Any]:
        """The operation on inputs of the program (booleans come as int32, which Core ML allows at its border)."""
        live = {}
        for name, value in self.case.inputs.items():
            variables = []
            for i, v in enumerate(value if isinstance(value, list) else [value]):
                var = function.inputs[f"{self.key}_{name}_{i}"]
                variables.append(mb.cast(x=var, dtype="bool") if v.dtype == bool else var)
            live[name] = variables if isinstance(value, list) else variables[0]
        return _outputs(getattr(mb, self.op)(**live, **self.fixed()), f"live_{self.key}")

    def folded(self) -> tuple[list[Any], dict[str, np.ndarray]]:
        """The operation on constants, and what value inference makes of it."""
        if not self.case.folds or not self.case.inputs:
            return [], {}
        frozen = {n: as_type(v, self.dtype) for n, v in self.case.inputs.items()}
        result = getattr(mb, self.op)(**frozen, **self.fixed())
        results = result if isinstance(result, (tuple, list)) else (result,)
        values = {f"folded_{self.key}_{i}": np.asarray(r.val) for i, r in enumerate(results) if r.val is not None}
        return _outputs(result, f"folded_{self.key}"), values

    def expected(self) -> list[np.ndarray]:
        case = self.case
        result = case.reference(*(wide(as_type(v, self.dtype)) for v in (case.inputs | case.consts | case.attrs).values()))
        return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


def check(op: str, cases: list[Case], folder: Path, target: ct.target = ct.target.iOS17) -> None:
    """Run every case in fp32 (exact64 and declared) and fp16 (declared) and compare; also against value inference."""
    branches = [
        Branch(f"{name}x{k}", op, case, dtype)
        for name, (_, dtype) in FLOATS.items()
        for k, case in enumerate(cases)
        if case.fp16 or name == "fp32"
    ]
    feeds = {n: v for branch in branches for n, v in branch.feeds().items()} or {"unused": np.zeros(1, np.float32)}
    outputs, folded = [], {}
    with Function({n: _placeholder(v) for n, v in feeds.items()}, opset_version=target) as function:
        for branch in branches:
            constant, values = branch.folded()
            outputs += branch.live(function) + constant
            folded |= values
        function.set_outputs(outputs)
    path = save(function, folder / f"{op}.mlpackage", target)
    assert op in {o.op_type for o in Program(path).operations}, f"{op} is not in the package"
    _compare_all(path, branches, feeds, folded)


def _compare_all(path: Path, branches: list[Branch], feeds: dict[str, np.ndarray], folded: dict[str, np.ndarray]) -> None:
    declared, exact = ({n: t.numpy() for n, t in Program(path, precision=p)(feeds).items()} for p in ("declared", "exact64"))
    for branch in branches:
        kinds = ("live", "folded") if branch.case.folds and branch.case.inputs else ("live",)
        for i, want in enumerate(branch.expected()):
            for kind in kinds:
                name = f"{kind}_{branch.key}_{i}"
                compare(declared[name], want, f"{branch.op} declared {name}", branch.case.ulps)
                if branch.dtype is np.float32:
                    compare(exact[name], want, f"{branch.op} exact64 {name}", branch.case.ulps)
        for name, value in folded.items():
            if name.startswith(f"folded_{branch.key}_"):
                compare_folded(declared[name], value, f"{branch.op} against value inference, {name}", branch.case.ulps)


def compare(got: np.ndarray, want: np.ndarray, what: str, ulps: float) -> None:
    """got has the shape of want and agrees with it: integers exactly, floats within `ulps` units of the type (fp32: 64, for its sums)."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=what)
        return
    unit = {2: 2.0**-11 * 1.001, 4: 2.0**-18, 8: 2.0**-36}[got.itemsize] * ulps
    floor = {2: 2.0**-24, 4: 2.0**-20, 8: 2.0**-40}[got.itemsize] * ulps  # subnormals of fp16; cancelled sums of fp32 and fp64
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=unit, atol=floor, err_msg=what)


def compare_folded(got: np.ndarray, want: np.ndarray, what: str, ulps: float) -> None:
    """Against coremltools' value inference, which computes in the type itself: integers exactly, fp16 within two of its steps."""
    want = want.reshape(got.shape)
    if got.dtype.kind != "f" or want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=what)
        return
    unit = {2: 2.0**-9, 4: 2.0**-18}[got.itemsize] * ulps
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=unit, atol=unit, err_msg=what)
