"""Find the model and the weights inside an .mlpackage folder or a .mlmodel file, and read them on any machine.

    from mlprogram.package import open_package
    package = open_package("Vocoder.mlpackage")  # or .mlmodel, or a compiled .mlmodelc
    package.spec.specificationVersion, package.function_names()

No Core ML object is ever built: the specification is read as a protobuf and the weights are mapped from their file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from mlprogram.compiled import read_compiled, stage_folders
from mlprogram.errors import ProgramError
from mlprogram.files import read_json
from mlprogram.protos import Model_pb2
from mlprogram.protos import coremltools as ct
from mlprogram.weights import BlobFile

_NEWEST = max(value for name, value in vars(ct).items() if name.startswith("_SPECIFICATION_VERSION_IOS"))


@dataclass(frozen=True)
class Package:
    """A specification with the blob files it refers to. `weights` maps a blob's file name to its reader."""

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

    def blob(self, file_name: str, opened: dict[str, BlobFile]) -> BlobFile:
        """The reader of one blob file named as in the program ("@model_path/weights/weight.bin"), kept in `opened`."""
        name = file_name.split("/")[-1]
        if name not in opened:
            opened[name] = BlobFile(self.weights_dir / name)
        return opened[name]


def open_package(path: str | Path | Package) -> Package:
    """Open an .mlpackage folder, a .mlmodel file or a compiled .mlmodelc folder that holds an ML program; a Package is given back.

    Raises ProgramError when nothing is there, when it is not a package, holds no ML program, or is newer than coremltools knows.
    """
    package = path if isinstance(path, Package) else open_model(path)
    kind = package.spec.WhichOneof("Type")
    if kind.startswith("pipeline"):
        raise ProgramError(f"{package.path}: holds a pipeline; mlprogram.MLModel runs those, and {len(stages(package))} programs are in it")
    if kind != "mlProgram":
        raise ProgramError(f'{package.path}: holds a {kind}, not an ML program; convert with convert_to="mlprogram"')
    return package


def open_model(path: str | Path) -> Package:
    """Open a model of any kind. Raises ProgramError when nothing is there or it is no model."""
    path = Path(path)
    if not path.exists():
        raise ProgramError(f"{path}: nothing there; give an .mlpackage or .mlmodelc folder or a .mlmodel file")
    if path.is_dir() and not (path / "Manifest.json").is_file() and (path.suffix == ".mlmodelc" or (path / "model.mil").is_file()):
        return Package(path, read_compiled(path), path / "weights")
    model, weights = _locate(path) if path.is_dir() else (path, path.parent / "weights")
    return Package(path, _read_spec(model), weights)


def stages(package: Package) -> tuple[Package, ...]:
    """The models of a pipeline in the order they run; of anything else, the model itself."""
    kind, spec = package.spec.WhichOneof("Type"), package.spec
    if not kind.startswith("pipeline"):
        return (package,)
    pipeline = spec.pipeline if kind == "pipeline" else getattr(spec, kind).pipeline
    folders = [stage / "weights" for stage in stage_folders(package.path)] or [package.weights_dir] * len(pipeline.models)
    pairs = enumerate(zip(pipeline.models, folders, strict=True))
    return tuple(Package(package.path / f"stage {i}", model, weights) for i, (model, weights) in pairs)


def _locate(folder: Path) -> tuple[Path, Path]:
    manifest = folder / "Manifest.json"
    if not manifest.is_file():
        raise ProgramError(f"{folder}: not an .mlpackage, it has no Manifest.json")
    try:
        content = read_json(manifest)
        entries = content["itemInfoEntries"]
        model = folder / "Data" / entries[content["rootModelIdentifier"]]["path"]
        if ".." in model.parts or (folder / "Data") not in model.parents:
            raise ValueError("its model lies outside of the package")
        missing = not model.is_file()
    except ProgramError as error:
        raise ProgramError(f"{error}; a package manifest is needed") from None
    except (ValueError, RecursionError, KeyError, TypeError, OSError) as error:
        raise ProgramError(
            f"{manifest}: not a package manifest ({type(error).__name__}: {error}); it must name a rootModelIdentifier"
        ) from error
    if missing:
        raise ProgramError(f"{folder}: the manifest names {model.relative_to(folder)}, which is missing; copy the whole package")
    return model, model.parent / "weights"


def _read_spec(model: Path) -> Model_pb2.Model:
    spec = Model_pb2.Model()
    try:
        spec.ParseFromString(model.read_bytes())
    except DecodeError as error:
        raise ProgramError(f"{model}: not a Core ML specification ({error}); is the file complete?") from error
    if not spec.specificationVersion:
        raise ProgramError(f"{model}: not a Core ML specification, it has no specification version")
    if spec.specificationVersion > _NEWEST:
        raise ProgramError(
            f"{model}: specification version {spec.specificationVersion} is newer than {_NEWEST}, the last one coremltools "
            f"{ct.__version__} knows; install a newer coremltools"
        )
    return spec
