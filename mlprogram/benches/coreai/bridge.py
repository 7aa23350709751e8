"""One function of an ML program as plain records, read by coremltools' own loader: neither
mlprogram's parser nor its weights are used.

    graph = read_graph(Path("build/KokoroVocoder-fp16.mlpackage"), "main")
    [op.op_type for op in graph.operations], graph.constants["conv_0_weight_to_fp16"].shape
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

INSIDE = Path("Data") / "com.apple.CoreML"


@dataclass(frozen=True)
class Operation:
    """One operation: parameter -> name of a value, or names where it takes several; names of what
    it gives, in order.
    """

    op_type: str
    name: str
    inputs: Mapping[str, str | tuple[str, ...]]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """`operations` in program order, without the constants, which are NumPy arrays, numbers and
    strings by name.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    constants: Mapping[str, Any]

    @property
    def quantizes(self) -> bool:
        """Whether values, and not only weights, are rounded to integers."""
        return any(op.op_type == "quantize" for op in self.operations)


def read_graph(package: Path, function: str) -> Graph:
    """Read one function of an .mlpackage, which stays as it is. Raises ValueError where the
    function is not there.

    The specification inside is read, since coremltools' load_spec of a package writes its
    Manifest.json anew.
    """
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto.load import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("coremltools").setLevel(logging.ERROR)
        spec = ct.utils.load_spec(str(package / INSIDE / "model.mlmodel"))
        program = load(spec, spec.specificationVersion, str(package / INSIDE / "weights"))
    if function not in program.functions:
        raise ValueError(
            f"{package} has no function {function!r}; it has {', '.join(program.functions)}"
        )
    block = program.functions[function]
    constants = {
        op.outputs[0].name: op.outputs[0].val for op in block.operations if op.op_type == "const"
    }
    operations = tuple(_record(op) for op in block.operations if op.op_type != "const")
    return Graph(
        tuple(block.inputs),
        tuple(v.name for v in block.outputs),
        operations,
        MappingProxyType(constants),
    )


def _record(op: Any) -> Operation:
    if op.blocks:
        raise ValueError(f"{op.op_type} '{op.name}' holds blocks: control flow is not bridged")
    inputs = {
        name: tuple(v.name for v in given) if isinstance(given, tuple | list) else given.name
        for name, given in _given(op)
    }
    return Operation(
        op.op_type, op.name, MappingProxyType(inputs), tuple(v.name for v in op.outputs)
    )


def _given(op: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in op.inputs.items() if value is not None)


class Kernels(Protocol):
    """The operations that differ between PyTorch and Apple's runtime. Shapes broadcast: a scale has
    the rank of what it scales.
    """

    def blocks(self, data: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
        """(data - offset) * scale; every axis of the scale divides that of the data."""

    def palette(self, indices: Tensor, lut: Tensor) -> Tensor:
        """Entries of `lut` [1 or blocks..., entries, 1] in place of `indices`."""

    def quantize(
        self, x: Tensor, scale: Tensor, offset: Tensor | None, dtype: torch.dtype, axis: int
    ) -> Tensor:
        """clip(round(x / scale) + offset), the quotient in fp32, half to even."""

    def dequantize(self, codes: Tensor, scale: Tensor, offset: Tensor | None, axis: int) -> Tensor:
        """(codes - offset) * scale, in the scale's type."""


class PlainKernels:
    """In fp32, rounded once to the type that is stored."""

    def blocks(self, data: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
        """See Kernels."""
        shift = 0.0 if offset is None else spread(offset.float(), data.shape)
        return ((data.float() - shift) * spread(scale.float(), data.shape)).to(scale.dtype)

    def palette(self, indices: Tensor, lut: Tensor) -> Tensor:
        """See Kernels."""
        blocks, entries = lut.shape[:-2], lut.shape[-2]
        which = spread(torch.arange(blocks.numel()).reshape(blocks), indices.shape)
        return lut.reshape(-1, entries)[which, indices.long()]

    def quantize(
        self, x: Tensor, scale: Tensor, offset: Tensor | None, dtype: torch.dtype, axis: int
    ) -> Tensor:
        """See Kernels."""
        codes = torch.round(x.float() / along(scale.float(), axis, x.dim()))
        shifted = codes if offset is None else codes + along(offset.float(), axis, x.dim())
        limits = torch.iinfo(dtype)
        return shifted.clamp(limits.min, limits.max).to(dtype)

    def dequantize(self, codes: Tensor, scale: Tensor, offset: Tensor | None, axis: int) -> Tensor:
        """See Kernels."""
        shift = 0.0 if offset is None else along(offset.float(), axis, codes.dim())
        return ((codes.float() - shift) * along(scale.float(), axis, codes.dim())).to(scale.dtype)


def along(vector: Tensor, axis: int, rank: int) -> Tensor:
    """A scalar as it is; [n] -> [1, ..., n, ..., 1] with n at `axis`."""
    return (
        vector
        if vector.dim() == 0
        else vector.reshape([-1 if i == axis % rank else 1 for i in range(rank)])
    )


def spread(blocks: Tensor, shape: torch.Size) -> Tensor:
    """Repeat each entry over its block until the tensor has `shape`."""
    for axis, size in enumerate(shape):
        blocks = blocks.repeat_interleave(size // blocks.shape[axis], dim=axis)
    return blocks


@dataclass(frozen=True, eq=False)
class Call:
    """One operation in a run. `values`: computed so far; `constants`: by name; `dense`: a constant
    or a compressed weight as a tensor.
    """

    op: Operation
    values: Mapping[str, Tensor]
    constants: Mapping[str, Any]
    dense: Callable[[str], Tensor]
    kernels: Kernels
    half: torch.dtype = torch.float16  # what the program's fp16 is computed in

    def has(self, name: str) -> bool:
        """Whether the parameter is given."""
        return name in self.op.inputs

    def tensor(self, name: str) -> Tensor:
        """A parameter that must be a tensor."""
        source = self.op.inputs[name]
        assert isinstance(source, str)  # only `values` of concat and the like takes several
        return self._tensor(source)

    def optional(self, name: str) -> Tensor | None:
        """The same, None where it is not given."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Tensor]:
        """A parameter of several tensors."""
        return [self._tensor(source) for source in self.op.inputs[name]]

    def operand(self, name: str) -> Tensor | float | int | bool:
        """A tensor, or a number where the program has a constant of rank 0: it takes the type of
        what it meets.
        """
        source = self.op.inputs[name]
        if (
            isinstance(source, str)
            and source in self.constants
            and np.ndim(self.constants[source]) == 0
        ):
            return np.asarray(self.constants[source]).item()
        return self.tensor(name)

    def attribute(self, name: str, default: Any = None) -> Any:
        """A constant as a Python value: number, string, bool, or a list of them."""
        if not self.has(name):
            return default
        # a str: what takes several is never an attribute
        value = self.constants[self.op.inputs[name]]  # type: ignore[index]
        return value if isinstance(value, str) else np.asarray(value).tolist()

    def refuse(self, why: str) -> NotImplementedError:
        """To raise: what of this operation is not bridged."""
        return NotImplementedError(f"{self.op.op_type} '{self.op.name}': {why} is not bridged")

    def _tensor(self, source: str) -> Tensor:
        return self.values[source] if source in self.values else self.dense(source)


Lowering = Callable[[Call], "Tensor | tuple[Tensor, ...]"]


def tensor_of(value: Any) -> Tensor:
    """A constant as a tensor of its own memory. int4 and the like arrive in the next wider type of
    NumPy.
    """
    array = np.asarray(value)
    return torch.from_numpy(np.array(array, _storage(array.dtype)))


def _storage(dtype: np.dtype) -> np.dtype:
    """The type that holds its values: coremltools marks 1 to 6 bits by metadata on int8 and
    uint8.
    """
    return np.dtype(dtype.str)


class Blocks(nn.Module):
    """Integers with a scale, and perhaps an offset, for each block."""

    def __init__(self, data: Tensor, scale: Tensor, offset: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("data", data)
        self.register_buffer("scale", scale)
        self.register_buffer("offset", offset)

    def forward(self, kernels: Kernels) -> Tensor:
        """The dense weight."""
        return kernels.blocks(self.data, self.scale, self.offset)


class Palette(nn.Module):
    """Indices into a table, one for each block."""

    def __init__(self, indices: Tensor, lut: Tensor) -> None:
        super().__init__()
        self.register_buffer("indices", indices)
        self.register_buffer("lut", lut)

    def forward(self, kernels: Kernels) -> Tensor:
        """The dense weight."""
        return kernels.palette(self.indices, self.lut)


def compressed(op: Operation, constants: Mapping[str, Any]) -> nn.Module | None:
    """The weight that a constexpr operation stands for. Raises NotImplementedError for one that is
    not bridged.
    """
    if not op.op_type.startswith("constexpr_"):
        return None
    given = {
        name: constants[source] for name, source in op.inputs.items() if isinstance(source, str)
    }
    if op.op_type == "constexpr_affine_dequantize":
        return _affine(**given)
    if op.op_type == "constexpr_blockwise_shift_scale":
        offset = given.get("offset")
        return Blocks(
            tensor_of(given["data"]),
            tensor_of(given["scale"]),
            None if offset is None else tensor_of(offset),
        )
    if op.op_type == "constexpr_lut_to_dense":
        return _palette(**given)
    raise NotImplementedError(f"{op.op_type} '{op.name}' is not bridged")


def _affine(quantized_data: Any, zero_point: Any, scale: Any, axis: Any) -> Blocks:
    """iOS 16: scalars, or vectors along `axis`."""
    data = tensor_of(quantized_data)
    step, zero = (along(tensor_of(value), int(axis), data.dim()) for value in (scale, zero_point))
    full = step.reshape(step.shape or (1,) * data.dim())  # a scalar too has the rank of the data
    return Blocks(data, full, zero.expand(full.shape).contiguous().to(data.dtype))


def _palette(indices: Any, lut: Any, shape: Any = None, vector_axis: Any = None) -> Palette:
    """iOS 16: bits packed from the lowest on, with the final `shape`; iOS 18: one index a value,
    `lut` [blocks..., entries, 1].
    """
    if shape is None:
        if np.shape(lut)[-1] != 1:
            raise NotImplementedError("palettes of vectors are not bridged")
        return Palette(tensor_of(indices), tensor_of(lut))
    sizes, entries = tuple(int(n) for n in shape), len(lut)
    width, count = entries.bit_length() - 1, int(np.prod(sizes))
    bits = np.unpackbits(np.asarray(indices, np.uint8), bitorder="little")[: count * width].reshape(
        count, width
    )
    codes = (bits << np.arange(width)).sum(1).astype(np.uint8).reshape(sizes)
    return Palette(
        torch.from_numpy(codes), tensor_of(lut).reshape((1,) * len(sizes) + (entries, 1))
    )
