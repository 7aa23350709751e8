"""Build programs of single operations with coremltools' Builder, and hold what mlprogram computes
against an independent reference.

    case = Case({"x": x}, attrs={"mode": "EXACT"}, reference=lambda x, mode: ...)
    check("gelu", run_all({"gelu": [case]}, tmp_path))

Many operations share a package on disk, one branch each. Every case runs in fp32 and in fp16, with
its inputs at run time, and once more with its inputs as constants, where coremltools' own value
inference says what is right.
"""

from __future__ import annotations

import functools
import tempfile
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from coremltools.converters.mil.mil import Program as MilProgram

from mlprogram import Program
from mlprogram.examine.placement import Forecast, forecast_placement
from mlprogram.examine.profile import Profile, open_program, profile_program
from mlprogram.examine.rules import load_rules

FLOATS = {"fp32": (types.fp32, np.float32), "fp16": (types.fp16, np.float16)}


@dataclass(frozen=True)
class Case:
    """One call of an operation.

    `inputs` arrive at run time, `consts` are constant tensors, `attrs` everything else; float
    arrays and float attributes take the float type under test. `reference` gets all of them in this
    order, floats in float64. `fp16=False` leaves the fp16 program out, `folds=False` says that
    value inference cannot be asked (it raises, or differs for the reason given beside the case).
    """

    inputs: dict[str, Any]
    reference: Callable[..., Any]
    consts: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    fp16: bool = True
    folds: bool = True
    ulps: float = 1.0


def as_type(value: Any, dtype: type) -> Any:
    """Floats (arrays, lists of arrays, numbers) in the float type under test, everything else
    unchanged.
    """
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [as_type(v, dtype) for v in value]
    if isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f"):
        return dtype(value) if isinstance(value, float) else value.astype(dtype)
    return value


def wide(value: Any) -> Any:  # what a reference gets: floats in float64
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [wide(v) for v in value]
    if isinstance(value, np.floating):
        return float(value)
    return (
        value.astype(np.float64)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else value
    )


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


def converted(
    module: torch.nn.Module,
    examples: Any,
    path: Path,
    inputs: list[Any],
    outputs: Sequence[Any] | None = ("y",),
    **more: Any,
) -> Path:
    """Write a PyTorch module as an .mlpackage; outputs by name or by their type, None for
    coremltools' own.
    """
    kinds = [ct.TensorType(o) if isinstance(o, str) else o for o in outputs] if outputs else None
    options = {"minimum_deployment_target": ct.target.iOS17, "skip_model_load": True} | more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module.eval(), examples, check_trace=False)
        ct.convert(traced, inputs=inputs, outputs=kinds, **options).save(str(path))
    return path


def program_of(
    body: Callable[..., list[Any]],
    folder: Path,
    target: ct.target = ct.target.iOS17,
    precision: str = "declared",
    **shapes: tuple,
) -> Program:
    """A program whose outputs `body(**inputs)` makes; inputs are fp32 unless given as (shape,
    type).
    """
    specs = {
        name: spec if spec and isinstance(spec[0], tuple) else (spec, types.fp32)
        for name, spec in shapes.items()
    }
    placeholders = {
        name: mb.placeholder(shape=shape, dtype=dtype) for name, (shape, dtype) in specs.items()
    }
    with Function(placeholders, opset_version=target) as function:
        function.set_outputs(body(**function.inputs))
    return Program(save(function, folder / "p.mlpackage", target), precision=precision)


def _placeholder(value: np.ndarray) -> Any:
    kinds = {np.dtype(np.float16): types.fp16, np.dtype(np.float32): types.fp32}
    return mb.placeholder(shape=value.shape, dtype=kinds.get(value.dtype, types.int32))


def _outputs(result: Any, prefix: str) -> list[Any]:
    results = result if isinstance(result, (tuple, list)) else (result,)
    plain = (types.fp32, types.fp16, types.int32)
    return [
        (
            mb.identity(x=r, name=f"{prefix}_{i}")
            if r.dtype in plain
            else mb.cast(x=r, dtype="int32", name=f"{prefix}_{i}")
        )
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
                feeds[f"{self.key}_{name}_{i}"] = (
                    v.astype(np.int32) if v.dtype == bool else as_type(v, self.dtype)
                )
        return feeds

    def live(self, function: Function) -> list[Any]:
        """The operation on inputs of the program (booleans come as int32, which Core ML allows at
        its border).
        """
        live = {}
        for name, value in self.case.inputs.items():
            variables = []
            for i, v in enumerate(value if isinstance(value, list) else [value]):
                var = function.inputs[f"{self.key}_{name}_{i}"]
                variables.append(mb.cast(x=var, dtype="bool") if v.dtype == bool else var)
            live[name] = variables if isinstance(value, list) else variables[0]
        return _outputs(getattr(mb, self.op)(**live, **self.fixed()), f"live_{self.key}")

    # the operation on constants, and what value inference makes of it
    def folded(self) -> tuple[list[Any], dict[str, np.ndarray]]:
        if not self.case.folds or not self.case.inputs:
            return [], {}
        frozen = {n: as_type(v, self.dtype) for n, v in self.case.inputs.items()}
        result = getattr(mb, self.op)(**frozen, **self.fixed())
        results = result if isinstance(result, (tuple, list)) else (result,)
        values = {
            f"folded_{self.key}_{i}": np.asarray(r.val)
            for i, r in enumerate(results)
            if r.val is not None
        }
        return _outputs(result, f"folded_{self.key}"), values

    def expected(self) -> list[np.ndarray]:
        case = self.case
        result = case.reference(
            *(
                wide(as_type(v, self.dtype))
                for v in (case.inputs | case.consts | case.attrs).values()
            )
        )
        return [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]


@dataclass(frozen=True)
class Ran:
    """What a package of many branches gave in both precisions, and what value inference said."""

    branches: list[Branch]
    declared: dict[str, np.ndarray]
    exact: dict[str, np.ndarray]
    folded: dict[str, np.ndarray]


def run_all(
    calls: Mapping[str, list[Case]], folder: Path, target: ct.target = ct.target.iOS17
) -> Ran:
    """Every case of every operation, in fp32 and fp16, in one package: executed as declared and in
    exact64.
    """
    branches = [
        Branch(f"{op}_{name}x{k}", op, case, dtype)
        for op, cases in calls.items()
        for name, (_, dtype) in FLOATS.items()
        for k, case in enumerate(cases)
        if case.fp16 or name == "fp32"
    ]
    feeds = {n: v for branch in branches for n, v in branch.feeds().items()} or {
        "unused": np.zeros(1, np.float32)
    }
    outputs, folded = [], {}
    with Function({n: _placeholder(v) for n, v in feeds.items()}, opset_version=target) as function:
        for branch in branches:
            constant, values = branch.folded()
            outputs += branch.live(function) + constant
            folded |= values
        function.set_outputs(outputs)
    path = save(function, folder / f"{target.name}.mlpackage", target)
    missing = set(calls) - {o.op_type for o in Program(path).operations}
    assert not missing, f"not in the package: {missing}"
    declared, exact = (
        {n: t.numpy() for n, t in Program(path, precision=p)(feeds).items()}
        for p in ("declared", "exact64")
    )
    return Ran(branches, declared, exact, folded)


# the branches of an operation: as declared in fp32 and fp16, in exact64, and against value
# inference
def check(op: str, ran: Ran) -> None:
    for branch in (branch for branch in ran.branches if branch.op == op):
        kinds = ("live", "folded") if branch.case.folds and branch.case.inputs else ("live",)
        for i, want in enumerate(branch.expected()):
            for kind in kinds:
                name = f"{kind}_{branch.key}_{i}"
                compare(ran.declared[name], want, f"{op} declared {name}", branch.case.ulps)
                if branch.dtype is np.float32:
                    compare(ran.exact[name], want, f"{op} exact64 {name}", branch.case.ulps)
        for name, value in ran.folded.items():
            if name.startswith(f"folded_{branch.key}_"):
                compare_folded(
                    ran.declared[name],
                    value,
                    f"{op} against value inference, {name}",
                    branch.case.ulps,
                )


def compare(got: np.ndarray, want: np.ndarray, what: str, ulps: float) -> None:
    """got has the shape of want and agrees with it: integers exactly, floats within `ulps` units of
    the type (fp32: 64, for its sums).
    """
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=what)
        return
    unit = {2: 2.0**-11 * 1.001, 4: 2.0**-18, 8: 2.0**-36}[got.itemsize] * ulps
    # subnormals of fp16; cancelled sums of fp32 and fp64
    floor = {2: 2.0**-24, 4: 2.0**-20, 8: 2.0**-40}[got.itemsize] * ulps
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=unit, atol=floor, err_msg=what
    )


def compare_folded(got: np.ndarray, want: np.ndarray, what: str, ulps: float) -> None:
    """Against coremltools' value inference, which computes in the type itself: integers exactly,
    fp16 within two of its steps.
    """
    want = want.reshape(got.shape)
    if got.dtype.kind != "f" or want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=what)
        return
    unit = {2: 2.0**-9, 4: 2.0**-18}[got.itemsize] * ulps
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=unit, atol=unit, err_msg=what
    )


def package_of(
    inputs: dict[str, tuple[int, ...]],
    build: Callable[..., Any],
    folder: Path,
    dtype: type = types.fp16,
    target: ct.target = ct.target.iOS17,
) -> Path:
    """Write a package whose function is `build` of inputs with these shapes; names that start with
    `i` are int32.
    """
    held = {
        n: mb.placeholder(shape=s, dtype=types.int32 if n.startswith("i") else dtype)
        for n, s in inputs.items()
    }
    with Function(held, opset_version=target) as function:
        result = build(**function.inputs)
        function.set_outputs(list(result) if isinstance(result, (list, tuple)) else [result])
    return save(function, folder / f"{uuid.uuid4().hex}.mlpackage", target)


def profile_of(
    inputs: dict[str, tuple[int, ...]], build: Callable[..., Any], folder: Path, **options: Any
) -> Profile:
    """The profile of such a package at its declared shapes."""
    program = open_program(package_of(inputs, build, folder, **options))
    return profile_program(program, program.shapes({}))


def forecast_of(
    chip: str,
    inputs: dict[str, tuple[int, ...]],
    build: Callable[..., Any],
    folder: Path,
    **options: Any,
) -> Forecast:
    """The forecast of such a package for a chip, by the packaged rules."""
    return forecast_placement(profile_of(inputs, build, folder, **options), load_rules(), chip)


def fired(forecast: Forecast) -> dict[str, str]:  # {rule id: effect} of everything found
    findings = [*(f for op in forecast.ops for f in op.findings), *forecast.graph_findings]
    return {f.rule.id: f.effect for f in findings}


Compress = Callable[[ct.models.MLModel], ct.models.MLModel]


def linear(dtype: str = "int8", **more: Any) -> Compress:  # integer weights with a scale
    config = cto.OptimizationConfig(
        cto.OpLinearQuantizerConfig(
            mode="linear_symmetric", dtype=dtype, weight_threshold=0, **more
        )
    )
    return lambda model: cto.linear_quantize_weights(model, config)


def palette(**more: Any) -> Compress:  # indices into a palette
    config = cto.OptimizationConfig(
        cto.OpPalettizerConfig(mode="uniform", weight_threshold=0, **more)
    )
    return lambda model: cto.palettize_weights(model, config)


def sparse(share: float) -> Compress:  # so many weights zero and left out
    config = cto.OptimizationConfig(
        cto.OpMagnitudePrunerConfig(target_sparsity=share, weight_threshold=0)
    )
    return lambda model: cto.prune_weights(model, config, joint_compression=False)


# sparse first, then a palette or int8 on what is left
def joint(kind: str, share: float = 0.6) -> Compress:
    if kind == "palette":
        config = cto.OptimizationConfig(
            cto.OpPalettizerConfig(mode="uniform", nbits=4, weight_threshold=0)
        )
        return lambda model: cto.palettize_weights(
            sparse(share)(model), config, joint_compression=True
        )
    config = cto.OptimizationConfig(
        cto.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=0)
    )
    return lambda model: cto.linear_quantize_weights(
        sparse(share)(model), config, joint_compression=True
    )


Maker = Callable[[np.random.Generator], Case]


def makers(module: dict[str, Any]) -> dict[str, Maker]:
    """The functions of a test file that make a Case of a generator, by name: each is called as the
    operation that it tests.
    """
    return {
        name: f
        for name, f in module.items()
        if getattr(f, "__annotations__", {}) == {"rng": "Rng", "return": "Case"}
    }


def _listed(op: str, made: Maker | list[Case], count: int) -> list[Case]:
    rng = np.random.default_rng(sum(map(ord, op)))
    return made if isinstance(made, list) else [made(rng) for _ in range(count)]


def test_of(
    cases: Mapping[str, Maker | list[Case]],
    targets: dict[str, ct.target] | None = None,
    count: int = 6,
) -> Callable[..., None]:
    """A test of every operation of a family: its list of cases, or `count` random ones of its
    maker. One package a target.
    """

    chosen = {op: (targets or {}).get(op, ct.target.iOS17) for op in cases}

    @functools.cache
    def ran(target: ct.target) -> Ran:
        calls = {op: _listed(op, made, count) for op, made in cases.items() if chosen[op] == target}
        with tempfile.TemporaryDirectory() as folder:
            return run_all(calls, Path(folder), target)

    @pytest.mark.parametrize("op", sorted(cases))
    def test_operation(op: str) -> None:
        check(op, ran(chosen[op]))

    return test_operation


test_of.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test itself
