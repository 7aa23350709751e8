"""Built packages in one .pte for ExecuTorch's Core ML delegate, byte for byte, and taken out of it
again.

    write([Manifest.load(path) for path in paths], Path("aside.pte"))
    # method -> Delegated: the package's folder and the function in it
    delegated = take_packages(Path("x.pte"), Path("folder"))

Nothing is converted again: a method is one call of the delegate, whose bytes are the package that
was executed and judged. Around it stands a program that knows shapes only. A package of several
functions is stored once, for all of them (the delegate's named data).
"""

import hashlib
import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import MAIN, InputError, Manifest
from mlprogram import Program

if TYPE_CHECKING:
    from torch import nn

BACKEND = "CoreMLBackend"
# what the delegate looks for
ROOT, MODEL, METADATA = "lowered_module", "model.mlpackage", "metadata.json"
# before JSON that names the data, where several methods share them
REFERENCE = b"CMJR"
# of a package whose manifest asks for nothing else
EVERYWHERE = "CPU_AND_NE"
# a dimension in words: "120 * frames + 1"
LENGTH = re.compile(r"(?:(\d+) \* )?([a-z_]+)(?: \+ (\d+))?")


def parse_length(dimension: str) -> tuple[int, str, int]:
    """(120, "frames", 1) of "120 * frames + 1"; other words are a length of their own."""
    match = LENGTH.fullmatch(dimension)
    return (int(match[1] or 1), match[2], int(match[3] or 0)) if match else (1, dimension, 0)


def compute_sizes(shape: Sequence[int | str], lengths: Mapping[str, Any]) -> tuple[Any, ...]:
    """The shape as numbers: (1, "120 * frames + 1") where frames is 40 -> (1, 4801). Lengths may be
    symbols. InputError for a length that is not known.
    """
    values: list[Any] = []
    for dimension in shape:
        if str(dimension).isdecimal():
            values.append(int(dimension))
            continue
        times, name, rest = parse_length(str(dimension))
        if name not in lengths:
            raise InputError(
                f"no input says how long {dimension!r} is; a tail on the host cannot be delegated"
            )
        # symbols take a product by one or a sum with nothing for another length
        value = lengths[name] if times == 1 else times * lengths[name]
        values.append(value + rest if rest else value)
    return tuple(values)


def solve_length(dimension: str, size: Any) -> tuple[str, Any]:
    """The length where the dimension has that size: "120 * frames + 1" of 4801 -> frames, 40."""
    times, name, rest = parse_length(dimension)
    # The two steps of compute_sizes, undone in the opposite order.
    value = size - rest if rest else size
    return name, value if times == 1 else value // times


@dataclass(frozen=True)
class Delegated:
    """A method of a .pte: the package it calls, and the function in it."""

    package: Path
    function: str


@dataclass(frozen=True, eq=False)
class Signature:
    """The inputs and outputs of a method: each tensor's shape in the contract (numbers, or words
    such as '600 * bucket + 1'), and the opened function.
    """

    name: str
    program: Program
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    @property
    def lengths(self) -> dict[str, tuple[int, int]]:
        """The smallest and the largest of each length of the inputs, read from the package."""
        values: dict[str, list[int]] = {}
        for tensor, spec in self.program.inputs.items():
            # Every enumerated shape, or the one shape of an input that cannot vary.
            for shape in spec.shapes or (spec.shape,):
                for dimension, size in zip(self.inputs[tensor]["shape"], shape, strict=True):
                    if isinstance(dimension, str):
                        name, value = solve_length(dimension, size)
                        values.setdefault(name, []).append(value)
        return {name: (min(found), max(found)) for name, found in values.items()}

    def dtype(self, tensor: str) -> Any:
        """PyTorch's dtype of an input or output."""
        import torch

        spec = self.program.inputs.get(tensor) or self.program.outputs[tensor]
        return {"fp16": torch.float16, "fp32": torch.float32, "int32": torch.int32}[spec.dtype]


def read_signatures(manifest: Manifest) -> Iterator[tuple[str, Signature]]:
    """The functions inside the package, each with its signature. InputError for a tail on the host,
    whose output's length no shape says.
    """
    for name, inside in manifest.functions.items():
        inputs = manifest.inputs
        outputs = manifest.outputs
        if name in inputs:
            # of several functions each has its own tensors
            inputs, outputs = inputs[name], outputs[name]
        program = Program(manifest.package_path, function=inside)
        # The one function of a package is called after its stage: "vocoder".
        method = manifest.stage.removeprefix("Kokoro").lower() if name == MAIN else name
        signature = Signature(method, program, inputs, outputs)
        for spec in outputs.values():
            # Lengths of 1 are enough to find a name that no input gives, before anything is
            # written.
            compute_sizes(spec["shape"], dict.fromkeys(signature.lengths, 1))
        yield inside, signature


def write(manifests: Sequence[Manifest], path: Path) -> None:
    """All functions of the packages as methods of one file."""
    from executorch.exir import EdgeCompileConfig, to_edge

    programs: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for manifest in manifests:
            programs |= _export_calls(manifest, path.parent)
        path.write_bytes(
            to_edge(programs, compile_config=EdgeCompileConfig(_check_ir_validity=False))
            .to_executorch()
            .buffer
        )


def _export_calls(manifest: Manifest, scratch: Path) -> dict[str, Any]:
    """A package's functions as exported programs by method name."""
    from executorch.backends.apple.coreml import executorchcoreml
    from executorch.exir._serialize._named_data_store import NamedDataStore

    methods = dict(read_signatures(manifest))
    # by which the delegate keeps what Core ML compiled
    identifier = f"executorch_{manifest.package_sha256[:32]}"
    names = {
        s.name: {"inputNames": list(s.program.inputs), "outputNames": list(s.program.outputs)}
        for s in methods.values()
    }
    # With one method its names stand at the top level, where the delegate looks for them.
    about = {"methods": names} if len(names) > 1 else next(iter(names.values()))
    # the package and its metadata as the delegate reads them
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        place = Path(folder) / ROOT
        shutil.copytree(manifest.package_path, place / MODEL)
        (place / METADATA).write_text(json.dumps(about | {"identifier": identifier}))
        data: bytes = executorchcoreml.flatten_directory_contents(str(place))
    # one method: the package's bytes stand in it; several share them by a key
    if len(methods) == 1:
        return {s.name: _call(s, data, None, manifest) for s in methods.values()}
    # The bytes are added once; each method then holds a short reference to their key.
    store = NamedDataStore()
    key = f"coreml_{identifier}"
    store.add_named_data(key, data)
    shared = store.get_named_data_store_output()
    calls = {}
    for inside, signature in methods.items():
        reference = json.dumps({"version": 1, "key": key, "functionName": inside}).encode()
        calls[signature.name] = _call(signature, REFERENCE + reference, shared, manifest)
    return calls


def _call(signature: Signature, data: bytes, shared: Any, manifest: Manifest) -> Any:
    """An exported program that hands its inputs to the delegate."""
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    units = manifest.compute_units.get("default", EVERYWHERE)
    ranges = signature.lengths
    # One symbol for each length, so that axes of equal length stay equal in the graph.
    dims = {name: torch.export.Dim(name, min=low, max=high) for name, (low, high) in ranges.items()}
    # zeros of the second smallest length: torch.export takes a length of 1 for a constant
    some = {name: min(low + 1, high) for name, (low, high) in ranges.items()}
    example, free = [], []
    for tensor in signature.program.inputs:
        shape = signature.inputs[tensor]["shape"]
        example.append(torch.zeros(compute_sizes(shape, some), dtype=signature.dtype(tensor)))
        words = {axis: dim for axis, dim in enumerate(shape) if isinstance(dim, str)}
        # "120 * frames + 1" becomes an expression of a Dim: its axis follows that of the frames.
        free.append({axis: compute_sizes((dim,), dims)[0] for axis, dim in words.items()})

    def export(module: "nn.Module") -> Any:
        shapes = (tuple(free),)  # of *inputs
        return torch.export.export(module, tuple(example), dynamic_shapes=shapes, strict=False)

    config = EdgeCompileConfig(_check_ir_validity=False)
    # The delegate's bytes stand in for this program; only its inputs and outputs are looked at.
    edge = to_edge(export(_shapes_only(signature)), compile_config=config).exported_program()
    lowered = LoweredBackendModule(
        edge, BACKEND, data, [CompileSpec("compute_units", units.lower().encode())], shared
    )

    class Call(torch.nn.Module):
        """One call."""

        def __init__(self) -> None:
            super().__init__()
            self.lowered = lowered

        def forward(self, *inputs: torch.Tensor) -> Any:
            """Inputs in the package's order."""
            return self.lowered(*inputs)

    # Exported a second time, because a method is a program that calls the delegate.
    return export(Call())


def _shapes_only(signature: Signature) -> "nn.Module":
    """What the delegate's call is traced with: zeros of the outputs' shapes."""
    import torch

    class ShapesOnly(torch.nn.Module):
        """Inputs to zeros."""

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            """Lengths are read off the inputs."""
            lengths: dict[str, Any] = {}
            for tensor, value in zip(signature.program.inputs, inputs, strict=True):
                for axis, dimension in enumerate(signature.inputs[tensor]["shape"]):
                    if isinstance(dimension, str):
                        name, length = solve_length(dimension, value.shape[axis])
                        lengths[name] = length
            return tuple(
                inputs[0].new_zeros(
                    compute_sizes(signature.outputs[tensor]["shape"], lengths),
                    dtype=signature.dtype(tensor),
                )
                for tensor in signature.program.outputs
            )

    return ShapesOnly()


def take_packages(path: Path, folder: Path) -> dict[str, Delegated]:
    """Take the packages out of a file that `write` wrote: what each method calls.

    For one's own files: ExecuTorch's reader does not look where the names inside lead.
    """
    from executorch.backends.apple.coreml import executorchcoreml
    from executorch.exir._serialize._program import deserialize_pte_binary

    file = deserialize_pte_binary(path.read_bytes())
    delegated = {}
    for plan in file.program.execution_plan:
        index = plan.delegates[0].processed.index
        data = bytes(file.program.backend_delegate_data[index].data)
        function = MAIN
        # Without a reference the bytes are the package itself, whose function is the main one.
        if data.startswith(REFERENCE):
            reference = json.loads(data.removeprefix(REFERENCE))
            function = reference["functionName"]
            entry = file.named_data.pte_data[reference["key"]]
            data = bytes(file.named_data.buffers[entry.buffer_index])
        # several methods of one package share a folder
        place = folder / hashlib.sha256(data).hexdigest()[:32]
        if not place.exists():
            place.mkdir(parents=True)
            executorchcoreml.unflatten_directory_contents(data, str(place))
        delegated[plan.name] = Delegated(place / ROOT / MODEL, function)
    return delegated
