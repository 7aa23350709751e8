"""Element types of an ML program, what a precision makes of them, and coremltools' protobuf
classes, imported without its banner.

    find_precision("declared").choose_type(BY_NAME["fp16"])  # torch.float16

Types narrower than a byte are held one value per byte. uint16, uint32 and uint64 are held in the
next wider signed type, because PyTorch has next to no arithmetic for them.

| precision | fp16 tensors | arithmetic |
| --- | --- | --- |
| declared | fp16, so rounded after every operation | fp32, or a table (halves.py); rounded once |
| exact | fp32 | fp32 |
| exact64 | fp64 (fp32 tensors too) | fp64 |
| declared64 | as declared | as declared, but sums of products in fp64 |
| ane_numerics | as declared | as numerics.py models the Neural Engine |
| device | as declared | as declared; what Core ML is reported to compute otherwise, as it does |
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch

from mlprogram.errors import ProgramError

# on import coremltools warns of missing macOS libraries, which do not concern the protobuf classes
_LOGGER = logging.getLogger("coremltools")
_LEVEL = _LOGGER.level
_LOGGER.setLevel(logging.ERROR)
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import coremltools  # noqa: F401  # for the rest of the package, as the next

        # for the rest of the package
        from coremltools.proto import FeatureTypes_pb2, MIL_pb2, Model_pb2  # noqa: F401
finally:
    _LOGGER.setLevel(_LEVEL)

# Each of these names a set of kernels that replaces the ordinary ones (KERNELS_OF in plan.py).
MODELS = ("declared64", "ane_numerics", "device")
PRECISIONS = ("declared", "exact", "exact64", *MODELS)


@dataclass(frozen=True)
class DType:
    """One element type: `name` as Core ML prints it, `bits` in a file, `kind` of float / int / uint
    / bool / string.
    """

    name: str
    bits: int
    kind: str
    numpy: type
    torch: torch.dtype | None

    @property
    def is_float(self) -> bool:
        """True for fp16, fp32 and fp64."""
        return self.kind == "float"


_BY_PROTO = MappingProxyType(
    {  # numbers: enum DataType in coremltools' MIL.proto
        1: DType("bool", 8, "bool", np.bool_, torch.bool),
        2: DType("string", 0, "string", np.str_, None),
        # Floats begin at 10, signed integers at 21, unsigned ones at 31; bf16 and fp8 are left out.
        10: DType("fp16", 16, "float", np.float16, torch.float16),
        11: DType("fp32", 32, "float", np.float32, torch.float32),
        12: DType("fp64", 64, "float", np.float64, torch.float64),
        21: DType("int8", 8, "int", np.int8, torch.int8),
        22: DType("int16", 16, "int", np.int16, torch.int16),
        23: DType("int32", 32, "int", np.int32, torch.int32),
        24: DType("int64", 64, "int", np.int64, torch.int64),
        # A type below a byte has a whole byte here; only `bits` says how the file packs it.
        25: DType("int4", 4, "int", np.int8, torch.int8),
        31: DType("uint8", 8, "uint", np.uint8, torch.uint8),
        32: DType("uint16", 16, "uint", np.uint16, torch.int32),
        33: DType("uint32", 32, "uint", np.uint32, torch.int64),
        34: DType("uint64", 64, "uint", np.uint64, torch.int64),
        35: DType("uint4", 4, "uint", np.uint8, torch.uint8),
        36: DType("uint2", 2, "uint", np.uint8, torch.uint8),
        37: DType("uint1", 1, "uint", np.uint8, torch.uint8),
        38: DType("uint6", 6, "uint", np.uint8, torch.uint8),
        39: DType("uint3", 3, "uint", np.uint8, torch.uint8),
    }
)
BY_NAME = MappingProxyType({t.name: t for t in _BY_PROTO.values()})


def find_dtype(number: int) -> DType:
    """The type behind a `DataType` number of the MIL protobuf. Raises ProgramError for one with no
    meaning here (bf16, fp8).
    """
    if number not in _BY_PROTO:
        raise ProgramError(
            f"element type number {number} of the MIL protobuf is not supported; known:"
            f" {sorted(BY_NAME)}"
        )
    return _BY_PROTO[number]


def to_torch(array: np.ndarray, dtype: DType) -> torch.Tensor:
    """A NumPy array of a declared type as the tensor that holds it here (own memory)."""
    # np.array copies: a mapped weight file is read-only, and PyTorch would alias its memory.
    return torch.from_numpy(
        np.array(array, dtype=np.dtype(str(dtype.torch).removeprefix("torch.")))
    )


@dataclass(frozen=True)
class Precision:
    """One precision: `wide` replaces every declared float type if set; `model` names kernels that
    take the place of the ordinary ones (KERNELS_OF in plan.py).
    """

    name: str
    wide: torch.dtype | None
    model: str | None

    def choose_type(self, dtype: DType) -> torch.dtype:
        """The PyTorch type that holds a value of a declared type."""
        # None for a string: plan.OutputSlot
        return self.wide if dtype.is_float and self.wide is not None else dtype.torch  # type: ignore[return-value]


def find_precision(name: str) -> Precision:
    """The precision of a name in PRECISIONS. Raises ProgramError for another name."""
    if name not in PRECISIONS:
        raise ProgramError(f"precision '{name}' is unknown; one of {', '.join(PRECISIONS)}")
    # Under "declared" and the models no type is replaced, so every declared type stays as it is.
    return Precision(
        name,
        {"exact": torch.float32, "exact64": torch.float64}.get(name),
        name if name in MODELS else None,
    )
