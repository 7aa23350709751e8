"""Built packages in one .pte for ExecuTorch's Core ML delegate, byte for byte, and taken out of it
again.

    write([Manifest.load(path) for path in paths], Path("aside.pte"))
    # method -> Delegated: the package's folder and the function in it
    found = packages_in(Path("x.pte"), Path("folder"))

Nothing is converted again: a method is one call of the delegate, whose bytes are the package that
was executed and judged. Around it stands a program that knows shapes only. A package of several
functions is there once, for all of them (the delegate's named data).
"""

import hashlib
import json
import shutil
import struct
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.contract import MAIN
from kokoro_ane.core.data_files import parse_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.runtimes.executorch.dimensions import lengths_of, sizes, solved
from mlprogram import Program

if TYPE_CHECKING:
    from torch import nn

SUFFIX, BACKEND = ".pte", "CoreMLBackend"
# what the delegate looks for
ROOT, MODEL, METADATA = "lowered_module", "model.mlpackage", "metadata.json"
# before JSON that names the data, where several methods share them
REFERENCE = b"CMJR"
# of a package whose manifest asks for nothing else
EVERYWHERE = "CPU_AND_NE"


@dataclass(frozen=True)
class Delegated:
    """A method of a .pte: the package it calls, and the function in it."""

    package: Path
    function: str


@dataclass(frozen=True, eq=False)
class Signature:
    """A method to be: contract dimensions by tensor (numbers, or such as '600 * bucket + 1'), and
    the opened function.
    """

    name: str
    program: Program
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    @property
    def lengths(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest of each length of the inputs, off the package."""
        shapes = {name: spec.shapes or (spec.shape,) for name, spec in self.program.inputs.items()}
        return lengths_of({name: tuple(self.inputs[name]["shape"]) for name in shapes}, shapes)


def signatures(manifest: Manifest) -> Iterator[tuple[str, Signature]]:
    """Function inside the package, and what it takes and gives. InputError for a tail on the host,
    whose output's length no shape says.
    """
    for name, inside in manifest.functions.items():
        several = name in manifest.inputs
        inputs, outputs = (
            tensors[name] if several else tensors for tensors in (manifest.inputs, manifest.outputs)
        )
        program = Program(manifest.package_path, function=inside)
        signature = Signature(
            manifest.stage.removeprefix("Kokoro").lower() if name == MAIN else name,
            program,
            inputs,
            outputs,
        )
        try:
            for spec in outputs.values():
                sizes(spec["shape"], dict.fromkeys(signature.lengths, 1))
        except InputError as problem:
            raise InputError(
                f"{manifest.path}: of an output, {problem}; a tail on the host cannot be delegated"
            ) from None
        yield inside, signature


def write(manifests: Sequence[Manifest], path: Path) -> None:
    """All functions of the packages as methods of one file."""
    from executorch.exir import EdgeCompileConfig, to_edge

    programs: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for manifest in manifests:
            programs |= _calls(manifest, path.parent)
        path.write_bytes(
            to_edge(programs, compile_config=EdgeCompileConfig(_check_ir_validity=False))
            .to_executorch()
            .buffer
        )


def _calls(manifest: Manifest, scratch: Path) -> dict[str, Any]:
    """A package's functions as exported programs by method name."""
    methods = dict(signatures(manifest))
    # by which the delegate keeps what Core ML compiled
    identifier = f"executorch_{manifest.package_sha256[:32]}"
    names = {
        s.name: {"inputNames": list(s.program.inputs), "outputNames": list(s.program.outputs)}
        for s in methods.values()
    }
    about = {"methods": names} if len(names) > 1 else next(iter(names.values()))
    data = _flat(manifest.package_path, about | {"identifier": identifier}, scratch)
    # one method: the package's bytes stand in it; several share them by a key
    if len(names) == 1:
        return {s.name: _call(s, data, None, manifest) for s in methods.values()}
    from executorch.exir._serialize._named_data_store import NamedDataStore

    store, key = NamedDataStore(), f"coreml_{identifier}"
    store.add_named_data(key, data)
    shared = store.get_named_data_store_output()
    calls = {}
    for inside, signature in methods.items():
        reference = json.dumps({"version": 1, "key": key, "functionName": inside}).encode()
        calls[signature.name] = _call(signature, REFERENCE + reference, shared, manifest)
    return calls


def _flat(package: Path, about: Mapping[str, Any], scratch: Path) -> bytes:
    """The package and its metadata as the delegate reads them."""
    from executorch.backends.apple.coreml import executorchcoreml

    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        place = Path(folder) / ROOT
        shutil.copytree(package, place / MODEL)
        (place / METADATA).write_text(json.dumps(about))
        data: bytes = executorchcoreml.flatten_directory_contents(str(place))
    return data


def _call(signature: Signature, data: bytes, shared: Any, manifest: Manifest) -> Any:
    """An exported program that hands its inputs to the delegate."""
    import torch
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from executorch.exir.lowered_backend_module import LoweredBackendModule

    units = manifest.compute_units.get("default", EVERYWHERE)
    example, shapes = _example(signature)
    inner = torch.export.export(
        _shapes_only(signature), example, dynamic_shapes=shapes, strict=False
    )
    edge = to_edge(
        inner, compile_config=EdgeCompileConfig(_check_ir_validity=False)
    ).exported_program()
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

    return torch.export.export(Call(), example, dynamic_shapes=shapes, strict=False)


def _dtype(signature: Signature, name: str) -> Any:
    import torch

    spec = signature.program.inputs.get(name) or signature.program.outputs[name]
    return {"fp16": torch.float16, "fp32": torch.float32, "int32": torch.int32}[spec.dtype]


def _example(signature: Signature) -> tuple[tuple[Any, ...], tuple[Any]]:
    """Zeros of the second smallest length, and what of their shapes may change: one name, one
    length.
    """
    import torch

    ranges = signature.lengths
    dims = {name: torch.export.Dim(name, min=low, max=high) for name, (low, high) in ranges.items()}
    # torch.export takes a length of 1 for a constant
    some = {name: min(low + 1, high) for name, (low, high) in ranges.items()}
    shapes = [tuple(signature.inputs[name]["shape"]) for name in signature.program.inputs]
    dtypes = [_dtype(signature, name) for name in signature.program.inputs]
    example = tuple(
        torch.zeros(sizes(shape, some), dtype=dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    )
    free = tuple(
        {axis: sizes((dim,), dims)[0] for axis, dim in enumerate(shape) if isinstance(dim, str)}
        for shape in shapes
    )
    # of *inputs
    return example, (free,)


def _shapes_only(signature: Signature) -> "nn.Module":
    """What the delegate's call is traced with: zeros of the outputs' shapes."""
    import torch

    places: dict[str, tuple[int, int]] = {}
    for place, name in enumerate(signature.program.inputs):
        places |= {
            dim: (place, axis)
            for axis, dim in enumerate(signature.inputs[name]["shape"])
            if isinstance(dim, str)
        }

    class ShapesOnly(torch.nn.Module):
        """Inputs to zeros."""

        def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            """Lengths are read off the inputs."""
            lengths: dict[str, Any] = {}
            for dim, (place, axis) in places.items():
                lengths |= solved(dim, inputs[place].shape[axis])
            outputs = [
                (sizes(tuple(signature.outputs[x]["shape"]), lengths), _dtype(signature, x))
                for x in signature.program.outputs
            ]
            return tuple(inputs[0].new_zeros(shape, dtype=dtype) for shape, dtype in outputs)

    return ShapesOnly()


def packages_in(path: Path, folder: Path) -> dict[str, Delegated]:
    """Take the packages out of a file that `write` wrote: what each method calls. InputError for
    one of another kind.

    For one's own files: ExecuTorch's reader does not look where the names inside lead.
    """
    from executorch.exir._serialize._program import deserialize_pte_binary

    try:
        file = deserialize_pte_binary(path.read_bytes())
        calls = {
            plan.name: (plan.delegates[0].id, plan.delegates[0].processed.index)
            for plan in file.program.execution_plan
        }
    except (
        AssertionError,
        ValueError,
        IndexError,
        AttributeError,
        TypeError,
        struct.error,
    ) as problem:
        raise InputError(
            f"{path} holds no package:"
            f" {(str(problem) or type(problem).__name__).splitlines()[0][:100]}"
        ) from None
    other = next((backend for backend, _ in calls.values() if backend != BACKEND), None)
    if other is not None:
        raise InputError(
            f"{path} is for {other}, not for Core ML: `python -m kokoro_ane.pipeline.delegate`"
            " writes one that is"
        )
    return {
        name: _taken_out(file, bytes(file.program.backend_delegate_data[index].data), folder)
        for name, (_, index) in calls.items()
    }


def _taken_out(file: Any, data: bytes, folder: Path) -> Delegated:
    """The package that a method's bytes are, or name, and its function."""
    from executorch.backends.apple.coreml import executorchcoreml

    function = MAIN
    if data.startswith(REFERENCE):
        reference = parse_json(
            data.removeprefix(REFERENCE).decode("utf-8", "replace"), "a method's bytes"
        )
        function, entry = reference["functionName"], file.named_data.pte_data[reference["key"]]
        data = bytes(file.named_data.buffers[entry.buffer_index])
    # several methods of one package share a folder
    place = folder / hashlib.sha256(data).hexdigest()[:32]
    if not place.exists():
        place.mkdir(parents=True)
        executorchcoreml.unflatten_directory_contents(data, str(place))
    return Delegated(place / ROOT / MODEL, function)
