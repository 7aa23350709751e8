"""Tests of operations from a table: a line for the cases of one, many operations in one package.

    CASES = table("transpose x=(2,3) perm=[0,1]|[1,0]", {})  # two; value inference is the reference
    CASES["clip"] = [Case(torch.clamp, x=x, alpha=-0.7, beta=1.3)]  # one call and its reference
    test_operation = test_of(CASES)

Each operation has a branch in the package. Every case runs in fp32 and in fp16, with its inputs at
run time, and once more with its inputs as constants, where coremltools' own value inference is a
second reference.
"""

import ast
import functools
import itertools
import math
import re
import tempfile
from pathlib import Path
from types import MappingProxyType

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types

from built import IOS17, listed, package_of, rows
from half_kernels import SAME_EVERYWHERE, HalfKernels
from mlprogram import Program

FLOATS = {np.dtype(np.float32): types.fp32, np.dtype(np.float16): types.fp16}


class Case:
    """One call of an operation.

    Arrays and lists of arrays among the arguments arrive at run time; `consts` and everything else
    are constants; floats take the float type under test. `reference` gets the arrays, the constants
    and the rest in this order, floats and arrays of floats in float64 tensors; without one, value
    inference is the reference. `fp16=False` leaves the fp16 program out. `folds=False` says that
    value inference cannot be asked (it raises, or differs for the reason beside the case).
    """

    def __init__(
        self,
        reference=None,
        *,
        consts=MappingProxyType({}),
        fp16=True,
        folds=True,
        ulps=1.0,
        target=IOS17,
        **arguments,
    ):
        arrays = {n: v for n, v in arguments.items() if isinstance(listed(v)[0], np.ndarray)}
        self.reference, self.arguments = reference, arrays | {**consts} | arguments
        self.inputs = [*arrays]
        self.kinds = ("live", "folded") if folds and arrays else ("live",)
        self.fp16, self.ulps, self.target = fp16, ulps, target


def table(text, references, repeat=1):
    """{operation: cases} of a table, `repeat` cases for each combination of its alternatives:

        gather x=(3,4,5) indices=int32(3,2)<3 axis=0|-1

    (3,4,5) is an array of this shape in quarters, (2,3)@-1..1 one of values between -1 and 1, -1..1
    such a one of a random shape that broadcasts to the array before; int32(3,2)<3 holds integers
    below 3, and int32[1,2] these two. `const:` marks an array that is no input. Options of Case are
    words as well.
    """
    rng, cases = np.random.default_rng(0), {}

    def drawn(value):
        if isinstance(value, list):
            return [drawn(v) for v in value]
        if isinstance(value, tuple):
            return (rng.permutation(math.prod(value)).reshape(value) - 7) / 4.0
        return value

    def parsed(word, before):
        if word.startswith("iOS"):
            return getattr(ct.target, word)
        if between := re.fullmatch(r"(?:(.+)@)?(-?[\d.]+)\.\.(-?[\d.]+)", word):
            shape = rng.integers(1, 6, rng.integers(1, 5))
            if between[1]:
                shape = ast.literal_eval(between[1])
            elif before:
                shape = [n if flip(rng, 0.6) else 1 for n in before[0].shape]
                shape = shape[rng.integers(len(shape)) :]
            return rng.uniform(float(between[2]), float(between[3]), shape)
        if typed := re.fullmatch(r"(u?int8|u?int32|float\d\d|bool)(.+?)(?:<(\d+))?", word):
            value = ast.literal_eval(typed[2])
            value = rng.integers(0, int(typed[3]), value) if typed[3] else value
            return np.array(value, typed[1])[()]
        return drawn(ast.literal_eval(word))

    for row in rows(text) * repeat:
        op, *words = row.split()
        names, choices = zip(*(word.split("=") for word in words), strict=True)
        for choice in itertools.product(*(values.split("|") for values in choices)):
            arguments, consts = {}, {}
            for name, word in zip(names, choice, strict=True):
                value = parsed(word, [*arguments.values()])
                if name.startswith("const:"):
                    consts[name.removeprefix("const:")] = value
                else:
                    arguments[name] = value
            case = Case(references.get(op), consts=consts, **arguments)
            cases.setdefault(op, []).append(case)
    return cases


def flip(rng, share=0.5):
    return bool(rng.random() < share)


def as_type(value, dtype):
    """Floats in the float type under test, everything else unchanged."""
    if isinstance(value, list):
        return [as_type(v, dtype) for v in value]
    if isinstance(value, float):
        return dtype(value)
    return value.astype(dtype) if getattr(value, "dtype", None) == np.float64 else value


def wide(value):
    """What a reference gets: tensors, floats in float64, and Python's numbers."""
    if isinstance(value, list):
        return [wide(v) for v in value]
    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(value)
        return tensor.double() if tensor.is_floating_point() else tensor
    return value.item() if isinstance(value, np.generic) else value


class Branch:
    """One case in one float type inside a package; its inputs and outputs carry its key."""

    def __init__(self, op, number, case, dtype):
        self.op, self.case, self.dtype = op, case, dtype
        self.key = f"{op}_{np.dtype(dtype)}x{number}"
        self.arguments = {n: as_type(v, dtype) for n, v in case.arguments.items()}
        # booleans come as int32, which Core ML allows at its border
        self.feeds = {
            f"{self.key}_{n}_{i}": v.astype(np.int32) if v.dtype == bool else v
            for n in case.inputs
            for i, v in enumerate(listed(self.arguments[n]))
        }

    def results(self, kind, inputs):
        """The operation on inputs of the program, or on constants."""
        arguments = dict(self.arguments)
        for n in self.case.inputs if kind == "live" else ():
            arrays = listed(arguments[n])
            variables = [inputs[f"{self.key}_{n}_{i}"] for i in range(len(arrays))]
            if arrays[0].dtype == bool:
                variables = [mb.cast(x=v, dtype="bool") for v in variables]
            arguments[n] = variables if isinstance(arguments[n], list) else variables[0]
        return listed(getattr(mb, self.op)(**arguments))

    def expected(self, inferred):
        """By the reference, or by value inference where there is none."""
        if self.case.reference is not None:
            results = self.case.reference(*map(wide, self.arguments.values()))
            return [np.asarray(r) for r in listed(results)]
        prefix = f"{self.case.kinds[-1]}_{self.key}_"
        results = [v for n, v in inferred.items() if n.startswith(prefix)]
        assert results, f"{self.op}: no reference, and value inference is silent"
        return results


def run_all(calls, folder, target):
    """Execute every case of every operation, in fp32 and fp16, in one package, as declared and in
    exact64. Return the check of one operation's results.
    """
    branches = [
        Branch(op, number, case, dtype.type)
        for op, cases in calls.items()
        for dtype in FLOATS
        for number, case in enumerate(cases)
        if case.fp16 or dtype == np.float32
    ]
    feeds = {n: v for branch in branches for n, v in branch.feeds.items()}
    feeds = feeds or {"unused": np.zeros(1, np.float32)}
    inferred = {}

    def build(**inputs):
        outputs = {}
        for branch, kind in ((b, kind) for b in branches for kind in b.case.kinds):
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
    with HalfKernels() as kernels:
        declared = {n: t.numpy() for n, t in Program(path)(feeds).items()}
    replaceable = kernels.names - SAME_EVERYWHERE
    assert not replaceable, f"fp16 tensors in kernels that may be replaced: {replaceable}"
    exact = {n: t.numpy() for n, t in Program(path, precision="exact64")(feeds).items()}

    def check(op):
        for branch in (branch for branch in branches if branch.op == op):
            ulps = branch.case.ulps
            for i, expected in enumerate(branch.expected(inferred)):
                for name in (f"{kind}_{branch.key}_{i}" for kind in branch.case.kinds):
                    compare(f"declared {name}", declared[name], expected, ulps)
                    if branch.dtype is np.float32:
                        compare(f"exact64 {name}", exact[name], expected, ulps)
                    if name in inferred:
                        value = inferred[name].reshape(expected.shape)
                        compare(f"inferred {name}", declared[name], value, ulps, inferred=True)

    return check


def compare(name, computed, expected, ulps, inferred=False):
    """Assert that `computed` has the shape of `expected` and agrees with it: integers exactly,
    floats within `ulps` units of the type (fp32: 64, for its sums). Value inference computes in the
    type itself: fp16 within two of its steps.
    """
    assert computed.shape == expected.shape, (
        f"{name}: shape {computed.shape}, expected {expected.shape}"
    )
    if computed.dtype.kind != "f":
        np.testing.assert_array_equal(computed, expected.astype(computed.dtype), err_msg=name)
        return
    size = computed.itemsize
    unit = {2: 2.0**-9 if inferred else 2.0**-11 * 1.001, 4: 2.0**-18, 8: 2.0**-36}[size]
    # subnormals of fp16; cancelled sums of fp32 and fp64
    floor = unit if inferred else {2: 2.0**-24, 4: 2.0**-20, 8: 2.0**-40}[size]
    np.testing.assert_allclose(
        computed.astype(np.float64),
        expected.astype(np.float64),
        unit * ulps,
        floor * ulps,
        err_msg=name,
    )


def test_of(cases):
    """A test of every operation of a family by its list of cases. One package per target."""

    @functools.cache
    def checks():
        by_target = {}
        for op in cases:
            for case in cases[op]:
                by_target.setdefault(case.target, {}).setdefault(op, []).append(case)
        with tempfile.TemporaryDirectory() as folder:
            return [
                (calls, run_all(calls, Path(folder), target)) for target, calls in by_target.items()
            ]

    @pytest.mark.parametrize("op", sorted(cases))
    def test_operation(op):
        for calls, check in checks():
            if op in calls:
                check(op)

    return test_operation


test_of.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test itself
