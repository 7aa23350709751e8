"""Find the model and the weights inside an .mlpackage folder or a .mlmodel file, and read them on
any machine.

    from mlprogram.package import open_package
    package = open_package("Vocoder.mlpackage")  # or .mlmodel, or a compiled .mlmodelc
    package.spec.specificationVersion, package.function_names()

No Core ML object is ever built: the specification is read as a protobuf and the weights are mapped
from their file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from mlprogram.compiled import find_stage_folders, read_compiled
from mlprogram.dtypes import DType, Model_pb2
from mlprogram.dtypes import coremltools as ct
from mlprogram.errors import ProgramError
from mlprogram.files import read_json

# Blob storage version 2: a file header, then for each tensor a record of 64 bytes and its data.
_SENTINEL = 0xDEADBEEF
_HEADER = struct.Struct("<II")
# sentinel, type, size in bytes, offset of the data, padding bits
_RECORD = struct.Struct("<IIQQQ")
_HEADER_BYTES = 64
# protobuf refuses longer messages
_LONGEST_MESSAGE = 1 << 31  # bytes


class BlobFile:
    """One memory-mapped blob file. It has one responsibility: bytes at an offset become values; it
    knows nothing of programs.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ProgramError(
                f"{path}: the program stores its weights in this file, and it is missing; copy the"
                " whole package"
            )
        self.path = path
        self.size = path.stat().st_size
        if self.size < _HEADER_BYTES:
            raise ProgramError(
                f"{path}: {self.size} bytes, shorter than its {_HEADER_BYTES}-byte header; the"
                " weight file is truncated"
            )
        # Mapped, so that a weight is read from the disk when it is first touched.
        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")
        version = _HEADER.unpack_from(self._bytes.data, 0)[1]
        if version != 2:
            raise ProgramError(
                f"{path}: blob storage version {version}, only 2 is known; is this a weight file?"
            )

    def read(self, offset: int, dtype: DType, count: int) -> np.ndarray:
        """`count` values of `dtype` from the record at `offset`, one value per element. Raises
        ProgramError if the file is too short.
        """
        start, size = self._record(offset)
        # values narrower than a byte are packed, and the last byte may be filled in part
        expected = (count * dtype.bits + 7) // 8
        if size < expected:
            raise ProgramError(
                f"{self.path}: the tensor at {offset} holds {size} bytes, but {count} {dtype.name}"
                f" values need {expected}"
            )
        # A record may be longer than the values need; the rest is not read.
        data = self._bytes[start : start + expected]
        return unpack_bits(data, dtype, count) if dtype.bits < 8 else data.view(dtype.numpy)

    def _record(self, offset: int) -> tuple[int, int]:
        # A record is as long as the file header, so one constant serves both checks.
        if offset + _HEADER_BYTES > self.size:
            raise ProgramError(
                f"{self.path}: {self.size} bytes, but the program reads a tensor at {offset}; the"
                " weight file is truncated"
            )
        sentinel, _, size, start, _ = _RECORD.unpack_from(self._bytes.data, offset)
        if sentinel != _SENTINEL:
            raise ProgramError(
                f"{self.path}: no tensor record at offset {offset}; the weight file does not belong"
                " to this program"
            )
        if start + size > self.size:
            raise ProgramError(
                f"{self.path}: {self.size} bytes, but a tensor ends at byte {start + size}; the"
                " weight file is truncated"
            )
        return start, size


def unpack_bits(data: np.ndarray, dtype: DType, count: int) -> np.ndarray:
    """Values narrower than a byte, packed least significant bit first: uint8 bytes -> [count]
    uint8, or int8 for signed types.
    """
    # [count * bits] -> [count, bits], bit 0 of each value first
    bits = np.unpackbits(
        np.ascontiguousarray(data), bitorder="little", count=count * dtype.bits
    ).reshape(count, dtype.bits)
    values = np.zeros(count, np.uint8)
    for i in range(dtype.bits):
        values |= bits[:, i] << i
    if dtype.kind == "uint":
        return values
    # two's complement: flip the sign bit, then take its weight off again
    sign = 1 << (dtype.bits - 1)
    # int16 in between, because uint8 minus the sign would wrap around.
    return ((values ^ sign).astype(np.int16) - sign).astype(np.int8)


# coremltools keeps its versions in constants of this prefix; the greatest is the newest.
_NEWEST = max(
    value for name, value in vars(ct).items() if name.startswith("_SPECIFICATION_VERSION_IOS")
)


@dataclass(frozen=True)
class Package:
    """A specification with the blob files it refers to. `weights_dir`: the
    folder of those files.
    """

    path: Path
    spec: Model_pb2.Model
    weights_dir: Path

    @property
    def default_function(self) -> str:
        """The function that runs when none is named."""
        return self.spec.description.defaultFunctionName or "main"

    def function_names(self) -> tuple[str, ...]:
        """Names of the program's functions, sorted."""
        return tuple(sorted(self.spec.mlProgram.functions))

    def open_blob(self, file_name: str, opened: dict[str, BlobFile]) -> BlobFile:
        """The reader of one blob file named as in the program ("@model_path/weights/weight.bin"),
        kept in `opened`.
        """
        # Only the last part counts: "@model_path" stands for the package, wherever it lies.
        name = file_name.split("/")[-1]
        if name not in opened:
            opened[name] = BlobFile(self.weights_dir / name)
        return opened[name]


def open_package(path: str | Path | Package) -> Package:
    """Open an .mlpackage folder, a .mlmodel file or a compiled .mlmodelc folder that holds an ML
    program; a Package is given back.

    Raises ProgramError when nothing is there, when it is not a package, holds no ML program, or is
    newer than coremltools knows.
    """
    package = path if isinstance(path, Package) else open_model(path)
    # An empty protobuf is a valid message, so a file may hold a model of no kind.
    kind = package.spec.WhichOneof("Type") or "model of no kind"
    if kind.startswith("pipeline"):
        raise ProgramError(
            f"{package.path}: holds a pipeline; mlprogram.MLModel runs those, and"
            f" {len(list_stages(package))} programs are in it"
        )
    if kind != "mlProgram":
        raise ProgramError(
            f"{package.path}: holds a {kind}, not an ML program; convert with"
            ' convert_to="mlprogram"'
        )
    return package


def open_model(path: str | Path) -> Package:
    """Open a model of any kind. Raises ProgramError when nothing is there or it is no model."""
    path = Path(path)
    if not path.exists():
        raise ProgramError(
            f"{path}: nothing there; give an .mlpackage or .mlmodelc folder or a .mlmodel file"
        )
    # A package has a manifest; without one, either sign tells a compiled model.
    if (
        path.is_dir()
        and not (path / "Manifest.json").is_file()
        and (path.suffix == ".mlmodelc" or (path / "model.mil").is_file())
    ):
        return Package(path, read_compiled(path), path / "weights")
    # A lone .mlmodel keeps its blobs in a folder beside it.
    model, weights = _locate(path) if path.is_dir() else (path, path.parent / "weights")
    return Package(path, _read_spec(model), weights)


def list_stages(package: Package) -> tuple[Package, ...]:
    """The models of a pipeline in the order they run; of anything else, the model itself."""
    kind = package.spec.WhichOneof("Type")
    spec = package.spec
    if not kind.startswith("pipeline"):
        return (package,)
    # A pipeline classifier or regressor wraps a plain pipeline.
    pipeline = spec.pipeline if kind == "pipeline" else getattr(spec, kind).pipeline
    # Stages of a compiled pipeline have folders of their own; in a package they share one.
    folders = [stage / "weights" for stage in find_stage_folders(package.path)] or [
        package.weights_dir
    ] * len(pipeline.models)
    pairs = enumerate(zip(pipeline.models, folders, strict=True))
    return tuple(
        Package(package.path / f"stage {i}", model, weights) for i, (model, weights) in pairs
    )


def _locate(folder: Path) -> tuple[Path, Path]:
    manifest = folder / "Manifest.json"
    if not manifest.is_file():
        raise ProgramError(f"{folder}: not an .mlpackage, it has no Manifest.json")
    try:
        content = read_json(manifest)
        entries = content["itemInfoEntries"]
        model = folder / "Data" / entries[content["rootModelIdentifier"]]["path"]
        # A manifest from elsewhere may not point out of its package.
        if ".." in model.parts or (folder / "Data") not in model.parents:
            raise ValueError("its model lies outside of the package")
        missing = not model.is_file()
    except ProgramError as error:
        raise ProgramError(f"{error}; a package manifest is needed") from None
    except (ValueError, RecursionError, KeyError, TypeError, OSError) as error:
        raise ProgramError(
            f"{manifest}: not a package manifest ({type(error).__name__}: {error}); it must name a"
            " rootModelIdentifier"
        ) from error
    if missing:
        raise ProgramError(
            f"{folder}: the manifest names {model.relative_to(folder)}, which is missing; copy the"
            " whole package"
        )
    return model, model.parent / "weights"


def _read_spec(model: Path) -> Model_pb2.Model:
    spec = Model_pb2.Model()
    # Checked before the read, because protobuf would fail with a message that says nothing.
    if model.stat().st_size >= _LONGEST_MESSAGE:
        raise ProgramError(
            f"{model}: {model.stat().st_size} bytes; a Core ML specification is a protobuf message,"
            " of less than 2 GiB"
        )
    try:
        spec.ParseFromString(model.read_bytes())
    except DecodeError as error:
        raise ProgramError(
            f"{model}: not a Core ML specification ({error}); is the file complete?"
        ) from error
    # Bytes that are no model may still parse: every field of a protobuf is optional.
    if not spec.specificationVersion:
        raise ProgramError(f"{model}: not a Core ML specification, it has no specification version")
    if spec.specificationVersion > _NEWEST:
        raise ProgramError(
            f"{model}: specification version {spec.specificationVersion} is newer than {_NEWEST},"
            f" the last one coremltools {ct.__version__} knows; install a newer coremltools"
        )
    return spec
