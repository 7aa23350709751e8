"""Read the text form of an ML program (`model.mil` of a compiled .mlmodelc) into the protobuf of an
.mlpackage.

    program, attributes = parse_program(text)      # MIL_pb2.Program, {function: {attribute: value}}

The grammar is what published .mlmodelc folders show. Older compilers write scalars as `tensor<fp16,
[]>`, newer ones as `fp16`; both are read. Nested blocks (cond, while_loop) are taken as a list of
`(inputs) { operations } -> (outputs)` after the arguments.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

from mlprogram.dtypes import MIL_pb2
from mlprogram.errors import ProgramError

TYPES = MappingProxyType(
    {
        # The protobuf's constants have the text's names in capitals.
        **{
            name: getattr(MIL_pb2, name.upper())
            for name in ("bool", "string", "int4", "int8", "int16", "int32", "int64")
        },
        **{
            f"uint{bits}": getattr(MIL_pb2, f"UINT{bits}")
            for bits in (1, 2, 3, 4, 6, 8, 16, 32, 64)
        },
        "fp16": MIL_pb2.FLOAT16,
        "fp32": MIL_pb2.FLOAT32,
        "fp64": MIL_pb2.FLOAT64,
        "bf16": MIL_pb2.BFLOAT16,
    }
)


class Blob:
    """Where a constant lies in a weights file."""

    def __init__(self, places: dict[str, tuple[MIL_pb2.ValueType, Any]]) -> None:
        self.path, self.offset = places["path"][1], places["offset"][1]


def parse_number(token: str) -> int | float:
    """A number as the text writes it: decimal, or a float in hexadecimal. Raises ValueError."""
    # A mantissa point or an exponent makes a hexadecimal number a float.
    if "0x" in token.lower():
        return float.fromhex(token) if "p" in token.lower() or "." in token else int(token, 16)
    return int(token) if re.fullmatch(r"[-+]?\d+", token) else float(token)


def fill_dimension(dimension: MIL_pb2.Dimension, size: str) -> None:
    """A size, `?` for one that only a run knows, `...` for any number of axes."""
    if size.isdecimal():
        dimension.constant.size = int(size)
    else:
        dimension.unknown.variadic = size == "..."


def make_value(kind: MIL_pb2.ValueType, literal: Any) -> MIL_pb2.Value:
    """A constant of the protobuf. Lists of lists are flattened: the type holds the shape."""
    value = MIL_pb2.Value(type=kind)
    if isinstance(literal, Blob):
        value.blobFileValue.fileName, value.blobFileValue.offset = literal.path, literal.offset
    elif kind.WhichOneof("type") == "listType":
        value.immediateValue.list.values.extend(
            make_value(kind.listType.type, item) for item in literal
        )
    elif kind.WhichOneof("type") == "tensorType":
        _fill(value.immediateValue.tensor, kind.tensorType.dataType, _flat(literal))
    return value  # dictionaries and tuples only describe the build


def _flat(literal: Any) -> list[Any]:
    return (
        [one for item in literal for one in _flat(item)] if isinstance(literal, list) else [literal]
    )


def _fill(tensor: MIL_pb2.TensorValue, dtype: int, values: list[Any]) -> None:
    # An empty tensor is written as no field at all.
    if not values:
        return
    # Which repeated field a type is kept in; several types share one.
    if dtype == MIL_pb2.STRING:
        tensor.strings.values.extend(values)
    elif dtype == MIL_pb2.BOOL:
        tensor.bools.values.extend(bool(v) for v in values)
    elif dtype in (MIL_pb2.FLOAT16, MIL_pb2.FLOAT32, MIL_pb2.BFLOAT16):
        tensor.floats.values.extend(float(v) for v in values)
    elif dtype == MIL_pb2.FLOAT64:
        tensor.doubles.values.extend(float(v) for v in values)
    # uint32 does not fit into the int32 of `ints`.
    elif dtype in (MIL_pb2.INT64, MIL_pb2.UINT64, MIL_pb2.UINT32):
        tensor.longInts.values.extend(values)
    else:
        tensor.ints.values.extend(values)


_STRING, _HEX, _DECIMAL = (
    r'"(?:[^"\\]|\\.)*"',
    r"[-+]?0[xX][0-9a-fA-F.]+(?:p[-+]?\d+)?",
    r"[-+]?(?:\d[\w.+-]*|inf|nan)\b",
)
_TOKEN = re.compile(rf"\s*(?:({_STRING})|({_HEX})|({_DECIMAL})|([A-Za-z_@]\w*)|(->|[^\s\w]))")
_ESCAPES = MappingProxyType({"n": "\n", "t": "\t", "r": "\r", "0": "\0"})


def parse_program(text: str) -> tuple[MIL_pb2.Program, dict[str, dict[str, Any]]]:
    """The program, and the attributes of each function. Raises ProgramError with the line where the
    text is not understood.
    """
    return _Parser(text).read_program()


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        # The current token, where it starts, and where the text behind it goes on.
        self._text, self._at = text, 0
        self._token, self._start = "", 0
        self._advance()

    # tokens
    def _advance(self) -> str:
        """The current token; the next one becomes current ("" at the end)."""
        old = self._token
        match = _TOKEN.match(self._text, self._at)
        # Nothing matches either at the end or at a foreign character.
        if match is None or match.lastindex is None:
            if self._text[self._at :].strip():
                self._fail("a character that is no part of a program")
            self._token = ""
            self._start = len(self._text)
        else:
            self._token = match.group(match.lastindex)
            self._start = match.start(match.lastindex)
            self._at = match.end()
        return old

    def _fail(self, expected: str) -> None:
        # Lines are counted only now: a good text never needs them.
        line = self._text.count("\n", 0, self._start) + 1
        raise ProgramError(
            f"line {line}: '{self._token or 'end of the text'}' where {expected} should stand"
        )

    def _take(self, token: str) -> None:
        if self._token != token:
            self._fail(f"'{token}'")
        self._advance()

    def _skip(self, token: str) -> bool:
        matches = self._token == token
        if matches:
            self._advance()
        return matches

    def _read_name(self) -> str:
        if not re.match(r"[A-Za-z_@]", self._token):
            self._fail("a name")
        return self._advance()

    def _read_list(self, end: str, read: Any) -> list[Any]:
        """`read` again and again, parted by commas, up to `end`."""
        items = []
        while not self._skip(end):
            items.append(read())
            if self._token != end:
                self._take(",")
        return items

    # programs
    def read_program(self) -> tuple[MIL_pb2.Program, dict[str, dict[str, Any]]]:
        """The whole text: the program, and by function the attributes that its protobuf has no
        place for.
        """
        self._take("program")
        self._take("(")
        # The version, such as 1.0, changes nothing here.
        self._advance()
        self._take(")")
        self._read_attributes()
        self._take("{")
        program = MIL_pb2.Program(version=1)
        attributes = {}
        while not self._skip("}"):
            self._take("func")
            name = self._read_name()
            self._take("<")
            opset = self._read_name()
            self._take(">")
            # A protobuf map makes the entry on its first look-up.
            function = program.functions[name]
            function.opset = opset
            self._take("(")
            function.inputs.extend(
                MIL_pb2.NamedValueType(name=n, type=t)
                for t, n in self._read_list(")", self._read_typed_name)
            )
            attributes[name] = {n: v for n, (_, v) in self._read_attributes().items()}
            self._read_body(function.block_specializations[opset])
            self._skip(";")
        return program, attributes

    def _read_typed_name(self) -> tuple[MIL_pb2.ValueType, str]:
        return self._read_type(), self._read_name()

    def _read_body(self, block: MIL_pb2.Block) -> None:
        self._take("{")
        while not self._skip("}"):
            self._read_operation(block.operations.add())
        self._take("->")
        self._take("(")
        block.outputs.extend(self._read_list(")", self._read_name))

    def _read_operation(self, operation: MIL_pb2.Operation) -> None:
        # `type name, type name = operation(...)`, or the operation alone.
        while not self._is_call_next():
            kind, name = self._read_typed_name()
            operation.outputs.add(name=name, type=kind)
            if not self._skip(","):
                self._take("=")
                break
        operation.type = self._read_name()
        self._take("(")
        for name, bindings in self._read_list(")", self._read_argument):
            operation.inputs[name].arguments.extend(bindings)
        # Blocks follow the arguments, before the attributes.
        while self._token in ("(", "{"):
            self._read_blocks(operation)
        for name, (kind, value) in self._read_attributes().items():
            operation.attributes[name].CopyFrom(make_value(kind, value))
        self._take(";")

    def _is_call_next(self) -> bool:
        """Whether an operation's name is next: one that gives nothing back, such as write_state,
        has no type before it.
        """
        # 64 characters of look-ahead, so that the rest of a large text is not copied.
        return re.match(r"\s*\(", self._text[self._at : self._at + 64]) is not None

    def _read_blocks(self, operation: MIL_pb2.Operation) -> None:
        """`(inputs) { ... } -> (outputs)`, several parted by commas."""
        while True:
            block = operation.blocks.add()
            if self._skip("("):
                block.inputs.extend(
                    MIL_pb2.NamedValueType(name=n, type=t)
                    for t, n in self._read_list(")", self._read_typed_name)
                )
            self._read_body(block)
            if not self._skip(","):
                return

    def _read_argument(self) -> tuple[str, list[MIL_pb2.Argument.Binding]]:
        name = self._read_name()
        self._take("=")
        return name, self._read_list(")", self._read_binding) if self._skip("(") else [
            self._read_binding()
        ]

    def _read_binding(self) -> MIL_pb2.Argument.Binding:
        # Kept, because the first word may be a type or a name, and only the next token tells.
        start, token, at = self._start, self._token, self._at
        name = self._read_name()
        if self._token not in ("<", "("):
            return MIL_pb2.Argument.Binding(name=name)
        # a value written in place: its type comes first
        self._start, self._token, self._at = start, token, at
        return MIL_pb2.Argument.Binding(value=make_value(*self._read_typed_value()))

    def _read_attributes(self) -> dict[str, tuple[MIL_pb2.ValueType, Any]]:
        if not self._skip("["):
            return {}
        return dict(self._read_list("]", self._read_attribute))

    def _read_attribute(self) -> tuple[str, tuple[MIL_pb2.ValueType, Any]]:
        name = self._read_name()
        self._take("=")
        return name, self._read_typed_value()

    # types and values
    def _read_type(self) -> MIL_pb2.ValueType:
        kind = MIL_pb2.ValueType()
        name = self._read_name()
        # A scalar of newer compilers: an element type with no axes.
        if name in TYPES:
            kind.tensorType.dataType = TYPES[name]
            return kind
        self._take("<")
        if name == "tensor":
            self._read_tensor_type(kind.tensorType)
        elif name == "list":
            kind.listType.type.CopyFrom(self._read_type())
            self._take(",")
            fill_dimension(kind.listType.length, self._advance())
        elif name == "dict":
            kind.dictionaryType.keyType.CopyFrom(self._read_type())
            self._take(",")
            kind.dictionaryType.valueType.CopyFrom(self._read_type())
        elif name == "tuple":
            # _read_list takes the closing bracket itself.
            kind.tupleType.types.extend(self._read_list(">", self._read_type))
            return kind
        elif name == "state":
            kind.stateType.wrappedType.CopyFrom(self._read_type())
        else:
            self._fail(f"a type other than '{name}'")
        self._take(">")
        return kind

    def _read_tensor_type(self, tensor: MIL_pb2.TensorType) -> None:
        name = self._read_name()
        if name not in TYPES:
            self._fail(f"an element type other than '{name}'")
        tensor.dataType = TYPES[name]
        self._take(",")
        self._take("[")
        sizes = self._read_list("]", self._read_size)
        # -1 where even the number of axes is open.
        tensor.rank = -1 if "..." in sizes else len(sizes)
        for size in sizes:
            fill_dimension(tensor.dimensions.add(), size)

    def _read_size(self) -> str:
        # Every dot is a token of its own.
        if self._token in (".", "*"):  # any number of axes
            while self._token in (".", "*", "?"):
                self._advance()
            return "..."
        return self._advance()

    def _read_typed_value(self) -> tuple[MIL_pb2.ValueType, Any]:
        kind = self._read_type()
        self._take("(")
        value = self._read_literal()
        self._take(")")
        return kind, value

    def _read_literal(self) -> Any:
        """Numbers, text, truth, nested lists, tuples, dictionaries, or the place of a blob (file,
        offset).
        """
        if self._skip("["):
            return self._read_list("]", self._read_literal)
        if self._skip("("):
            return tuple(self._read_list(")", self._read_literal))
        # A dictionary is written as {{key, value}, ...}.
        if self._skip("{"):
            pairs = self._read_list("}", self._read_pair)
            return dict(pairs)
        if self._token == "BLOBFILE":
            self._advance()
            self._take("(")
            # BLOBFILE(path = string("..."), offset = uint64(...))
            return Blob(dict(self._read_list(")", self._read_attribute)))
        token = self._advance()
        if token.startswith('"'):
            # An escaped character stands for itself unless it is in the table.
            return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), token[1:-1])
        if token in ("true", "false"):
            return token == "true"
        try:
            return parse_number(token)
        except ValueError as error:
            line = self._text.count("\n", 0, self._start) + 1
            raise ProgramError(f"line {line}: '{token}' where a value should stand") from error

    def _read_pair(self) -> tuple[Any, Any]:
        self._take("{")
        key = self._read_literal()
        self._take(",")
        value = self._read_literal()
        self._take("}")
        return key, value
