"""A program's fp16 values on other processors: the same bits, from tables whose every value lies
far from where its rounding turns, and from no kernel that a library may replace.
"""

import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types

from built import IOS17, package_of
from half_kernels import SAME_EVERYWHERE, HalfKernels
from mlprogram import Program
from mlprogram.halves import list_halves, look_up, tabulate
from mlprogram.numerics import ANE_KERNELS
from mlprogram.ops import KERNELS
from mlprogram.ops.elementwise import ACTIVATION, ELEMENTWISE

PARAMETERS = {"alpha": 0.7, "beta": 1.3, "y": 1.7}
MODES = {"gelu": [{"mode": m} for m in ("TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")]}
# Instruction sets that PyTorch, oneDNN and MKL can be told to keep to.
OTHERS = {
    "SSE": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    },
}


def parameters_of(op):
    """What a call of an operation needs besides x, with pow's exponent as a number."""
    kernel = KERNELS[op]
    needed = kernel.required & PARAMETERS.keys()
    if op != "pow" and "y" not in kernel.host:
        needed -= {"y"}
    return {name: PARAMETERS[name] for name in needed}


POINTWISE = [
    pytest.param(kernel, parameters_of(op) | more, id=" ".join([name, *more.values()]))
    for name, op, kernel in [
        *((op, op, kernel) for op, kernel in sorted(KERNELS.items())),
        *((f"ane {op}", op, kernel) for op, kernel in sorted(ANE_KERNELS.items())),
    ]
    if kernel.pointwise
    for more in [{}, *MODES.get(op, ())]
]


def function_of(kernel, parameters):
    """A pointwise kernel as a function of x in float64."""
    rest = {
        name: value if name in kernel.host else torch.tensor(value, dtype=torch.float64)
        for name, value in parameters.items()
    }
    return lambda x: kernel.run(x=x, **rest)


def turned(function, error):
    """How many halves get another value where the function is wrong by this share of it."""
    low, high = (tabulate(lambda x, e=e: function(x) * (1 + e)) for e in (-error, error))
    return int(((low != high) & ~(low.isnan() & high.isnan())).sum())


@pytest.mark.parametrize(("kernel", "parameters"), POINTWISE)
def test_no_value_lies_where_the_rounding_turns(kernel, parameters):
    """A kernel of float64 errs by some 2^-50. One that errs by 2^-40 would make the same table."""
    # 2^-25 is halfway between zero and the least half, and float64 holds it
    halfway = 1 if kernel is KERNELS["exp2"] else 0
    assert turned(function_of(kernel, parameters), 2.0**-40) == halfway


def test_fp32_lies_where_the_rounding_turns():
    """The negative control: a kernel of fp32 does not settle sin's table."""
    assert turned(torch.sin, 2.0**-23) > 0


REFERENCES = {
    "cos": np.cos,
    "exp": np.exp,
    "gelu": lambda x: x / 2 * np.vectorize(math.erfc)(-x / math.sqrt(2)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sin": np.sin,
    "tanh": np.tanh,
}


@pytest.mark.parametrize("op", sorted(REFERENCES))
def test_a_table_holds_the_nearest_halves(op):
    """Of every finite half, by another library's float64."""
    x = list_halves()
    with np.errstate(over="ignore"):
        nearest = REFERENCES[op](x[x.isfinite()].double().numpy()).astype(np.float16)
    values = tabulate(KERNELS[op].run)[x.isfinite()].numpy()
    np.testing.assert_array_equal(values, nearest)


@pytest.mark.parametrize("width", [5, 20_000])  # at once, and in parts
def test_a_look_up_keeps_the_order_in_memory(width):
    table = tabulate(torch.neg)
    images = torch.randn(2, 3, 4, width).half()
    rows = images[:, :1].expand(2, 3, 4, width)
    orders = (images, images.to(memory_format=torch.channels_last), images.mT, images[..., ::2])
    for x in (*orders, rows, images[0, 0, 0, 0], images[:0]):
        y = look_up(x, table)
        assert torch.equal(y, -x)
        assert y.stride() == (-x).stride()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Every elementwise operation that takes fp16 as it is or by a table, of all halves; y are the
    same in another order.
    """
    calls = {
        op: kernel
        for op, kernel in sorted({**ELEMENTWISE, **ACTIVATION}.items())
        if (kernel.half or kernel.pointwise) and op not in ("cast", "identity", "select")
    }

    def build(x, y):
        outputs = {}
        for op, kernel in calls.items():
            two = "y" in kernel.parameters and op != "pow"
            rest = {n: np.float16(value) for n, value in parameters_of(op).items()}
            for more in [{}, *MODES.get(op, ())]:
                value = getattr(mb, op)(x=x, **({"y": y} if two else {}), **rest, **more)
                is_bool = value.dtype == types.bool
                name = "_".join([op, *more.values()])
                outputs[name] = mb.cast(x=value, dtype="fp16") if is_bool else value
        return outputs

    placeholders = {n: mb.placeholder((2**16,), types.fp16) for n in ("x", "y")}
    return package_of(placeholders, build, tmp_path_factory.mktemp("halves"), target=IOS17)


def run(path):
    order = torch.randperm(2**16, generator=torch.Generator().manual_seed(0))
    return Program(path)({"x": list_halves(), "y": list_halves()[order]})


def digests(path):
    """A hash of every output's bits, all NaN alike."""
    rows = []
    for name, value in sorted(run(path).items()):
        bits = torch.where(value.isnan(), torch.nan, value).numpy().tobytes()
        rows.append(f"{name} {hashlib.sha256(bits).hexdigest()}")
    return rows


@pytest.mark.filterwarnings("ignore")  # the inputs hold NaN and infinity
@pytest.mark.parametrize("isa", sorted(OTHERS))
def test_every_half_is_the_same_with_other_instructions(package, isa):
    script = f"import test_processors as t; print(*t.digests({str(package)!r}), sep='\\n')"
    environment = os.environ | OTHERS[isa] | {"PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = digests(package)
    assert len(rows) > 40
    assert other.stdout.split("\n")[:-1] == rows


@pytest.mark.filterwarnings("ignore")  # the inputs hold NaN and infinity
def test_no_half_goes_to_a_kernel_that_may_be_replaced(package):
    with HalfKernels() as kernels:
        run(package)
    assert "index_select" in kernels.names
    assert kernels.names <= SAME_EVERYWHERE


def test_a_half_in_a_kernel_that_may_be_replaced_is_seen():
    """The negative control: oneDNN computes this on a processor with fp16 arithmetic."""
    with HalfKernels() as kernels:
        torch.nn.functional.gelu(torch.ones(2).half())
    assert kernels.names == {"gelu"}
