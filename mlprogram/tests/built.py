"""Programs built for tests, and a table's way to test an operation.

    case(torch.clamp, x=x, alpha=-0.7, beta=1.3)  # one call and what is right
    each(x=x, axis=(0, 1, -1))  # one case an axis; value inference says what is right
    test_operation = test_of({"clip": [...], "conv": maker})

Many operations share a package on disk, one branch each. Every case runs in fp32 and in fp16, with
its inputs at run time, and once more with its inputs as constants, where coremltools' own value
inference says what is right too.
"""

import functools
import inspect
import itertools
import tempfile
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
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
from mlprogram.examine.placement import forecast_placement
from mlprogram.examine.profile import open_program, profile_program
from mlprogram.examine.rules import load_rules
from mlprogram.ops import KERNELS

FLOATS = {np.dtype(np.float32): types.fp32, np.dtype(np.float16): types.fp16}
IOS16, IOS17, IOS18 = ct.target.iOS16, ct.target.iOS17, ct.target.iOS18


@dataclass(frozen=True)
class Case:
    """One call of an operation.

    Arguments named in `live` arrive at run time, the others are constants; floats take the float
    type under test. `reference` gets all of them in this order, floats and arrays of floats in
    float64 tensors; None leaves the word to value inference. `fp16=False` leaves the fp16 program
    out, `folds=False` says that value inference cannot be asked (it raises, or differs for the
    reason given beside the case).
    """

    reference: Callable[..., Any] | None
    arguments: dict[str, Any]
    live: tuple[str, ...]
    fp16: bool
    folds: bool
    ulps: float


def case(
    reference=None,
    *,
    consts=MappingProxyType({}),
    fp16=True,
    folds=True,
    ulps=1.0,
    **arguments,
):
    """A case whose arrays and lists of arrays arrive at run time; then come the constants, then
    what is left.
    """
    live = {n: v for n, v in arguments.items() if isinstance(listed(v)[0], np.ndarray)}
    rest = {n: v for n, v in arguments.items() if n not in live}
    return Case(reference, {**live, **consts, **rest}, (*live,), fp16, folds and bool(live), ulps)


def each(reference=None, **arguments):
    """The cases of every combination: an argument in a tuple is one of its values."""
    choices = [v if isinstance(v, tuple) else (v,) for v in arguments.values()]
    return [
        case(reference, **dict(zip(arguments, chosen, strict=True)))
        for chosen in itertools.product(*choices)
    ]


def flip(rng, share=0.5):
    return bool(rng.random() < share)


def listed(value):
    """Several values as they are, one alone in a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def as_type(value, dtype):
    """Floats in the float type under test, everything else unchanged."""
    if isinstance(value, list):
        return [as_type(v, dtype) for v in value]
    if isinstance(value, float):
        return dtype(value)
    return value.astype(dtype) if getattr(value, "dtype", np.int32) == np.float64 else value


def wide(value):
    """What a reference gets: tensors, floats in float64, and Python's numbers."""
    if isinstance(value, list):
        return [wide(v) for v in value]
    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(value)
        return tensor.double() if tensor.is_floating_point() else tensor
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Branch:
    """One case in one float type inside a package; its inputs and outputs carry its key."""

    key: str
    op: str
    case: Case
    dtype: type

    def arguments(self):
        return {n: as_type(v, self.dtype) for n, v in self.case.arguments.items()}

    def kinds(self):
        return ("live", "folded") if self.case.folds else ("live",)

    def feeds(self):
        """Inputs of the program; booleans come as int32, which Core ML allows at its border."""
        return {
            f"{self.key}_{n}_{i}": v.astype(np.int32) if v.dtype == bool else v
            for n, value in self.arguments().items()
            if n in self.case.live
            for i, v in enumerate(listed(value))
        }

    def results(self, kind, inputs):
        """The operation on inputs of the program, or on constants."""
        arguments = self.arguments()
        for n in self.case.live if kind == "live" else ():
            variables = [inputs[f"{self.key}_{n}_{i}"] for i in range(len(listed(arguments[n])))]
            if listed(arguments[n])[0].dtype == bool:
                variables = [mb.cast(x=v, dtype="bool") for v in variables]
            arguments[n] = variables if isinstance(arguments[n], list) else variables[0]
        return listed(getattr(mb, self.op)(**arguments))

    def expected(self, inferred):
        """By the reference, or by value inference where there is none."""
        if self.case.reference is not None:
            return [
                np.asarray(r)
                for r in listed(self.case.reference(*map(wide, self.arguments().values())))
            ]
        results = [
            v for n, v in inferred.items() if n.startswith(f"{self.kinds()[-1]}_{self.key}_")
        ]
        assert results, f"{self.op}: no reference, and value inference is silent"
        return results


def run_all(calls, folder, target=IOS17):
    """Every case of every operation, in fp32 and fp16, in one package, executed as declared and in
    exact64: the check of one operation's results.
    """
    branches = [
        Branch(f"{op}_{dtype}x{k}", op, case, dtype.type)
        for op, cases in calls.items()
        for dtype in FLOATS
        for k, case in enumerate(cases)
        if case.fp16 or dtype == np.float32
    ]
    feeds = {n: v for branch in branches for n, v in branch.feeds().items()}
    feeds = feeds or {"unused": np.zeros(1, np.float32)}
    inferred = {}

    def build(**inputs):
        outputs = {}
        for branch, kind in ((b, kind) for b in branches for kind in b.kinds()):
            for i, result in enumerate(branch.results(kind, inputs)):
                value, name = result.val, f"{kind}_{branch.key}_{i}"
                if branch.op.startswith("constexpr"):
                    value = result.op.materialized_val_inference()
                if value is not None:
                    inferred[name] = np.asarray(value)
                plain = result.dtype in (*FLOATS.values(), types.int32)
                outputs[name] = result if plain else mb.cast(x=result, dtype="int32")
        return outputs

    placeholders = {
        n: mb.placeholder(v.shape, FLOATS.get(v.dtype, types.int32)) for n, v in feeds.items()
    }
    path = package_of(placeholders, build, folder, target=target)
    missing = set(calls) - {o.op_type for o in Program(path).operations}
    assert not missing, f"not in the package: {missing}"
    declared, exact = (
        {n: t.numpy() for n, t in Program(path, precision=p)(feeds).items()}
        for p in ("declared", "exact64")
    )

    def check(op):
        for branch in (branch for branch in branches if branch.op == op):
            ulps = branch.case.ulps
            for i, want in enumerate(branch.expected(inferred)):
                for name in (f"{kind}_{branch.key}_{i}" for kind in branch.kinds()):
                    compare(f"declared {name}", declared[name], want, ulps)
                    if branch.dtype is np.float32:
                        compare(f"exact64 {name}", exact[name], want, ulps)
                    if name in inferred:
                        value = inferred[name].reshape(want.shape)
                        compare(f"inferred {name}", declared[name], value, ulps, inferred=True)

    return check


def compare(what, got, want, ulps, inferred=False):
    """got has the shape of want and agrees with it: integers exactly, floats within `ulps` units of
    the type (fp32: 64, for its sums). Value inference computes in the type itself: fp16 within two
    of its steps.
    """
    assert got.shape == want.shape, f"{what}: shape {got.shape}, wanted {want.shape}"
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=what)
        return
    size = got.itemsize
    unit = {2: 2.0**-9 if inferred else 2.0**-11 * 1.001, 4: 2.0**-18, 8: 2.0**-36}[size]
    # subnormals of fp16; cancelled sums of fp32 and fp64
    floor = unit if inferred else {2: 2.0**-24, 4: 2.0**-20, 8: 2.0**-40}[size]
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), unit * ulps, floor * ulps, err_msg=what
    )


def makers(module):
    """The functions of a test file that make a case of a generator, by name: each is called as the
    operation that it tests.
    """
    named = {name: function for name, function in module.items() if name in KERNELS}
    return {n: f for n, f in named.items() if list(inspect.signature(f).parameters) == ["rng"]}


def test_of(cases, targets, count=6):
    """A test of every operation of a family: its list of cases, or `count` random ones of its
    maker. One package a target.
    """

    def drawn(op):
        rng, made = np.random.default_rng(sum(map(ord, op))), cases[op]
        return made if isinstance(made, list) else [made(rng) for _ in range(count)]

    @functools.cache
    def checked(target):
        calls = {op: drawn(op) for op in cases if targets.get(op, IOS17) == target}
        with tempfile.TemporaryDirectory() as folder:
            return run_all(calls, Path(folder), target)

    @pytest.mark.parametrize("op", sorted(cases))
    def test_operation(op):
        checked(targets.get(op, IOS17))(op)

    return test_operation


test_of.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test itself


def save(function, path, target):
    """Write a MIL function as an .mlpackage without any graph pass."""
    program = MilProgram()
    program.add_function("main", function)
    options = {"source": "milinternal", "pass_pipeline": ct.PassPipeline.EMPTY}
    return _stored(program, path, target, compute_precision=ct.precision.FLOAT32, **options)


def converted(
    module,
    examples,
    path,
    inputs,
    outputs=("y",),
    target=IOS17,
    **more,
):
    """Write a PyTorch module as an .mlpackage; outputs by name or by their type, None for
    coremltools' own.
    """
    kinds = [ct.TensorType(o) if isinstance(o, str) else o for o in outputs] if outputs else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module.eval(), examples, check_trace=False)
    return _stored(traced, path, target, inputs=inputs, outputs=kinds, **more)


def _stored(model, path, target, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ct.convert(
            model,
            convert_to="mlprogram",
            minimum_deployment_target=target,
            skip_model_load=True,
            **options,
        ).save(str(path))
    return path


def op(name, **attributes):
    """A builder of one operation of x, and of indices where they are an input."""
    return lambda x, **i: getattr(mb, name)(x=x, **attributes, **({"indices": i["i"]} if i else {}))


def package_of(
    inputs,
    build,
    folder,
    dtype=types.fp16,
    target=IOS17,
):
    """Write a package whose function is `build` of inputs with these shapes (names that start with
    `i` are int32) or placeholders; it returns values, or a dictionary of them by name.
    """
    placeholders = {
        n: mb.placeholder(s, types.int32 if n.startswith("i") else dtype)
        if isinstance(s, tuple)
        else s
        for n, s in inputs.items()
    }
    with Function(placeholders, opset_version=target) as function:
        result = build(**function.inputs)
        if isinstance(result, dict):
            result = [mb.identity(x=v, name=n) for n, v in result.items()]
        function.set_outputs(listed(result))
    return save(function, folder / f"{uuid.uuid4().hex}.mlpackage", target)


def program_of(
    inputs,
    build,
    folder,
    precision="declared",
    dtype=types.fp32,
    target=IOS17,
):
    """Such a package, opened; fp32 and one output y where not said otherwise."""

    def named(**values):
        result = build(**values)
        return result if isinstance(result, (dict, list)) else {"y": result}

    return Program(package_of(inputs, named, folder, dtype, target), precision=precision)


def profile_of(inputs, build, folder, **options):
    """The profile of such a package at its declared shapes."""
    return profile_at(package_of(inputs, build, folder, **options))


def profile_at(path):
    """The profile of a package at its declared shapes."""
    program = open_program(path)
    return profile_program(program, program.shapes({}))


def forecast_of(
    chip,
    inputs,
    build,
    folder,
    **options,
):
    """The forecast of such a package for a chip, by the packaged rules."""
    return forecast_placement(profile_of(inputs, build, folder, **options), load_rules(), chip)


def fired(forecast):  # {rule id: effect} of everything found
    findings = [*(f for op in forecast.ops for f in op.findings), *forecast.graph_findings]
    return {f.rule.id: f.effect for f in findings}


Compress = Callable[[ct.models.MLModel], ct.models.MLModel]


def linear(dtype="int8", **more):  # integer weights with a scale
    return _compress(
        cto.linear_quantize_weights,
        cto.OpLinearQuantizerConfig,
        mode="linear_symmetric",
        dtype=dtype,
        **more,
    )


def palette(**more):  # indices into a palette
    return _compress(cto.palettize_weights, cto.OpPalettizerConfig, mode="uniform", **more)


def sparse(share):  # so many weights zero and left out
    return _compress(cto.prune_weights, cto.OpMagnitudePrunerConfig, target_sparsity=share)


def _compress(run, config, **options):
    chosen = cto.OptimizationConfig(config(weight_threshold=0, **options))
    return lambda model, joint=False: run(model, chosen, joint_compression=joint)


# sparse first, then a palette or int8 on what is left
def joint(then, share=0.6):
    return lambda model: then(sparse(share)(model), joint=True)


def compressed(path, change, folder):
    """The package after a change of its model, beside nothing else in this folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = change(ct.models.MLModel(str(path), skip_model_load=True))
        model.save(str(folder / "changed.mlpackage"))
    return folder / "changed.mlpackage"
