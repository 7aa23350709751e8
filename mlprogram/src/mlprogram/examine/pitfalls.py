"""What a file shows of known traps: operations that compute something else than the author of the
network wrote, on a device or as coremltools converted them. CHOICES.md tells each, with versions.

    find_pitfalls(profile_program(program, shapes))  # {"sentence": how many operations}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import MappingProxyType

import numpy as np

from mlprogram.examine.profile import VIEWS, OpProfile, Profile
from mlprogram.ops.conv import plan_windows

# (type of the operation, parameter, what makes that parameter) -> what is seen in the results
_PAIRS = MappingProxyType(
    {
        ("atan", "x", "real_div"): "atan2 as it is converted: 0 at (0, -1), 4.712 at (1, -1e-9)",
        ("sub", "y", "band_part"): "triu or tril as it is converted: NaN where x is infinite",
    }
)
_FLOATS = (np.float16, np.float32)
_INVERSE = "1 / x with an epsilon: wrong by epsilon / x"
_POW = "pow(2, y): Core ML squares y (coremltools 9.1 writes exp(y ln 2))"
_MASK = "a constant of -inf: a row masked as a whole is NaN, and the engine does not handle it"
_OVERFLOW = "a mask beyond fp16, such as -1e9, is -inf here: a row masked as a whole is NaN"
_ATTENTION = "attention under a mask of bool: a row masked as a whole is NaN, in PyTorch 0"
_MOD = "mod: Core ML truncates where its definition floors, so results of negative numbers differ"
_AVG_POOL = "avg_pool with ceil_mode: Core ML divides what hangs over the edge by the whole kernel"
_NARROW = "a slice of nothing: narrow from a negative start, as it is converted"
_DIVISION = "an integer division as it is converted: its result is a float"
_REMAINDER = "x - x: x % 1 as it is converted is 0"
_DIAGONAL = "diagonal as torch.export converts it: a matrix"
_FP16_MAX = 65_504
# what a mask passes on its way from its constant to the softmax
_MASKING = frozenset(("add", "cast", "concat", "mul", "select", "sub", "tile", "transpose")) | VIEWS
_ATTENDING = ("softmax", "scaled_dot_product_attention")


def find_pitfalls(profile: Profile) -> Counter[str]:
    """How many operations there are of each."""
    makers = {tensor.name: op for op in profile.ops for tensor in op.outputs}
    constants = profile.program.plan.constants
    masks: set[str] = set()  # values in which a constant beyond fp16 may stand

    def check(op: OpProfile) -> Iterator[str | None]:
        # The first value stands for a parameter; no trap needs the others of a concat.
        reads = {name: names[0] for name, names in op.op.inputs.items() if names}
        for parameter, name in reads.items():
            maker = makers[name].op_type if name in makers else ""
            yield _PAIRS.get((op.op_type, parameter, maker))
        values = [constants[name].value for name in reads.values() if name in constants]
        floats = [v for v in values if getattr(v, "dtype", None) in _FLOATS]
        if any(np.isneginf(v).any() for v in floats):
            yield _MASK
        # Finite in its own type, and infinite once it is cast to fp16.
        far = any((np.isfinite(v) & (abs(v) > _FP16_MAX)).any() for v in floats)
        if op.op_type in _MASKING and (far or not masks.isdisjoint(reads.values())):
            # In program order, so a mask is known before what reads it.
            masks.update(tensor.name for tensor in op.outputs)
        half = any(tensor.dtype == "fp16" for tensor in op.activations)
        if op.op_type in _ATTENDING and half and not masks.isdisjoint(reads.values()):
            yield _OVERFLOW
        yield from _check_one_operation(op, reads, makers)

    # As a set, so that an operation counts once for each trap.
    return Counter(
        sentence for op in profile.ops for sentence in sorted(filter(None, {*check(op)}))
    )


def _check_one_operation(
    op: OpProfile, reads: dict[str, str], makers: dict[str, OpProfile]
) -> Iterator[str]:
    """Traps that one operation shows, with the types of what it reads."""
    a = op.attributes
    reads_bool = any(tensor.dtype == "bool" for tensor in op.activations)
    x = makers.get(reads.get("x", ""))
    from_integers = x is not None and x.activations and x.activations[0].dtype == "int32"
    empty = any(0 in tensor.shape for tensor in op.outputs)
    kinds = {
        # An epsilon that is not written is 1e-4, and counts as one.
        _INVERSE: op.op_type == "inverse" and a.get("epsilon", 1),
        _POW: op.op_type == "pow" and a.get("x") == 2,
        _ATTENTION: op.op_type == "scaled_dot_product_attention" and reads_bool,
        _MOD: op.op_type == "mod",
        _AVG_POOL: op.op_type == "avg_pool" and _has_overhang(op),
        _NARROW: op.op_type == "slice_by_index" and empty,
        _REMAINDER: op.op_type == "sub" and reads.get("x") == reads.get("y"),
        _DIAGONAL: op.op_type == "band_part" and a.get("lower") == a.get("upper") == 0,
        # Floor division of integers through floats: a cast on either side of it.
        _DIVISION: x is not None
        and from_integers
        and (op.op_type, x.op_type) in (("floor_div", "cast"), ("cast", "floor_div"))
        and op.outputs[0].dtype.startswith("fp"),
    }
    yield from (sentence for sentence, holds in kinds.items() if holds)


def _has_overhang(op: OpProfile) -> bool:
    """Whether a window reaches beyond the padding, which the divisor counts."""
    a = op.attributes
    if a.get("exclude_padding_from_average"):
        return False
    names = ("kernel_sizes", "pad_type", "strides", "pad", "ceil_mode")
    windows = {name: a[name] for name in names if name in a}
    return any(plan_windows(op.activations[0].shape, **windows)[1])
