"""A function of an ML program as plain records: operations, values, nested blocks. No tensor is
computed here.

    from mlprogram.graph import read_function
    from mlprogram.package import open_package
    [op.op_type for op in read_function(open_package("Vocoder.mlpackage"), "main").body.operations]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mlprogram.dtypes import DType, MIL_pb2, find_dtype
from mlprogram.errors import ProgramError
from mlprogram.package import Package


@dataclass(frozen=True)
class ValueType:
    """A named value: element type, shape (None where it is decided at run time), and the container:
    tensor, list or state.

    `ranked` is false where the program leaves even the number of axes open; `shape` then means
    nothing.
    """

    name: str
    dtype: DType
    shape: tuple[int | None, ...]
    container: str = "tensor"
    ranked: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape where the program knows all of it. Raises ProgramError where one axis is
        open.
        """
        sizes = tuple(n for n in self.shape if n is not None)
        if len(sizes) != len(self.shape):
            raise ProgramError(f"'{self.name}' has an axis that only a run decides")
        return sizes


@dataclass(frozen=True)
class Operation:
    """One operation.

    `inputs` maps a parameter to value names; a value written in place has the name
    OPERATION#PARAMETER and is in `literals`. `path` is where it stands ("main/loop_3/block1"),
    `index` its place there.
    """

    name: str
    op_type: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: tuple[ValueType, ...]
    blocks: tuple[OperationBlock, ...]
    path: str
    index: int
    literals: Mapping[str, MIL_pb2.Value] = field(repr=False)

    def where(self) -> str:
        """One phrase that names operation, output and place, for error messages."""
        return f"{self.op_type} '{self.name}' (operation {self.index} of {self.path})"


@dataclass(frozen=True)
class OperationBlock:
    """A list of operations with its own inputs and the names of the values it gives back."""

    inputs: tuple[ValueType, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]

    def walk(self) -> Iterator[Operation]:
        """Every operation in program order, those of nested blocks after the operation that holds
        them.
        """
        for op in self.operations:
            yield op
            for block in op.blocks:
                yield from block.walk()


@dataclass(frozen=True)
class Function:
    """One function of a program: its input types and its body."""

    name: str
    inputs: tuple[ValueType, ...]
    body: OperationBlock


def read_function(package: Package, name: str) -> Function:
    """Read one function. Raises ProgramError if the program does not have it."""
    functions = package.spec.mlProgram.functions
    if name not in package.function_names():  # protobuf's own look-up raises for what is not UTF-8
        raise ProgramError(
            f"{package.path}: no function '{name}'; this program has"
            f" {', '.join(package.function_names())}"
        )
    proto = functions[name]
    # A function may hold a block for each of several opsets; its own opset names the one to run.
    if proto.opset not in proto.block_specializations:
        raise ProgramError(
            f"{package.path}: function '{name}' has no block for its own opset {proto.opset}"
        )
    body = _read_block(proto.block_specializations[proto.opset], name)
    return Function(name, tuple(_read_value_type(v.name, v.type) for v in proto.inputs), body)


def _read_block(proto: MIL_pb2.Block, path: str) -> OperationBlock:
    operations = tuple(_read_operation(op, path, i) for i, op in enumerate(proto.operations))
    return OperationBlock(
        tuple(_read_value_type(v.name, v.type) for v in proto.inputs),
        tuple(proto.outputs),
        operations,
    )


def _read_operation(proto: MIL_pb2.Operation, path: str, index: int) -> Operation:
    outputs = tuple(_read_value_type(v.name, v.type) for v in proto.outputs)
    # An output's name is unique in its function; without outputs only the label is left.
    name = outputs[0].name if outputs else _read_attribute_name(proto)
    literals, inputs = {}, {}
    # const keeps its value here, and constexpr did before iOS 18
    for param, value in proto.attributes.items():
        # "name" is the operation's label and no input.
        if param != "name":
            inputs[param] = (f"{name}#{param}",)
            literals[inputs[param][0]] = value
    # A parameter may take several bindings (the values of a concat), each a name or a literal.
    for param, argument in proto.inputs.items():
        names = []
        for i, binding in enumerate(argument.arguments):
            if binding.WhichOneof("binding") == "name":
                names.append(binding.name)
            else:
                # The first literal has no number: OPERATION#PARAMETER, then OPERATION#PARAMETER1.
                names.append(f"{name}#{param}{i or ''}")
                literals[names[-1]] = binding.value
        inputs[param] = tuple(names)
    # The path grows with each level, so that a message says in which loop a step stands.
    blocks = tuple(
        _read_block(block, f"{path}/{name}/block{i}") for i, block in enumerate(proto.blocks)
    )
    return Operation(name, proto.type, inputs, outputs, blocks, path, index, literals)


def _read_attribute_name(proto: MIL_pb2.Operation) -> str:
    values = (
        proto.attributes["name"].immediateValue.tensor.strings.values
        if "name" in proto.attributes
        else ()
    )
    return values[0] if values else proto.type


def _read_value_type(name: str, proto: MIL_pb2.ValueType) -> ValueType:
    kind = proto.WhichOneof("type")
    if kind == "tensorType":
        # A variadic dimension stands for any number of axes.
        ranked = not any(d.unknown.variadic for d in proto.tensorType.dimensions)
        return ValueType(
            name,
            find_dtype(proto.tensorType.dataType),
            read_tensor_shape(proto.tensorType),
            ranked=ranked,
        )
    if kind == "listType":
        return ValueType(name, _read_value_type(name, proto.listType.type).dtype, (None,), "list")
    if kind == "stateType":
        # A state wraps a tensor, which only read_state and write_state reach.
        inner = _read_value_type(name, proto.stateType.wrappedType)
        return ValueType(name, inner.dtype, inner.shape, "state")
    if kind == "dictionaryType":
        return ValueType(
            name, _read_value_type(name, proto.dictionaryType.valueType).dtype, (), "dictionary"
        )
    raise ProgramError(
        f"value '{name}' has a {kind}, which is not supported; supported: tensor, list, state,"
        " dictionary"
    )


def read_tensor_shape(proto: MIL_pb2.TensorType) -> tuple[int | None, ...]:
    """Shape of a tensor type, None for a dimension the program leaves open."""
    return tuple(
        d.constant.size if d.WhichOneof("dimension") == "constant" else None
        for d in proto.dimensions
    )
