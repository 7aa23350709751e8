"""One function of an ML program as plain records, read by coremltools' own loader: neither mlprogram's parser nor its weights are used.

graph = read_graph(Path("build/KokoroVocoder-fp16.mlpackage"), "main")
[op.op_type for op in graph.operations], graph.constants["conv_0_weight_to_fp16"].shape
"""

import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

INSIDE = Path("Data") / "com.apple.CoreML"


@dataclass(frozen=True)
class Operation:
    """One operation: parameter -> name of a value, or names where it takes several; names of what it gives, in order."""

    op_type: str
    name: str
    inputs: Mapping[str, str | tuple[str, ...]]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """`operations` in program order, without the constants, which are NumPy arrays, numbers and strings by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    constants: Mapping[str, Any]

    @property
    def quantizes(self) -> bool:
        """Whether values, and not only weights, are rounded to integers."""
        return any(op.op_type == "quantize" for op in self.operations)


def read_graph(package: Path, function: str) -> Graph:
    """Read one function of an .mlpackage, which stays as it is. Raises ValueError where the function is not there.

    The specification inside is read, since coremltools' load_spec of a package writes its Manifest.json anew.
    """
    import coremltools as ct
    from coremltools.converters.mil.frontend.milproto.load import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("coremltools").setLevel(logging.ERROR)
        spec = ct.utils.load_spec(str(package / INSIDE / "model.mlmodel"))
        program = load(spec, spec.specificationVersion, str(package / INSIDE / "weights"))
    if function not in program.functions:
        raise ValueError(f"{package} has no function {function!r}; it has {', '.join(program.functions)}")
    block = program.functions[function]
    constants = {op.outputs[0].name: op.outputs[0].val for op in block.operations if op.op_type == "const"}
    operations = tuple(_record(op) for op in block.operations if op.op_type != "const")
    return Graph(tuple(block.inputs), tuple(v.name for v in block.outputs), operations, MappingProxyType(constants))


def _record(op: Any) -> Operation:
    if op.blocks:
        raise ValueError(f"{op.op_type} '{op.name}' holds blocks: control flow is not bridged")
    inputs = {name: tuple(v.name for v in given) if isinstance(given, tuple | list) else given.name for name, given in _given(op)}
    return Operation(op.op_type, op.name, MappingProxyType(inputs), tuple(v.name for v in op.outputs))


def _given(op: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, value) for name, value in op.inputs.items() if value is not None)
