"""PyTorch module to .mlpackage: the only caller of ct.convert, on any operating system, with bytes
that depend on nothing but the inputs.

    function = FunctionSpec(module, example, inputs, outputs, keep_fp32=("conv_post", "stft"))
    save_package(convert(function, precision="fp16", target="iOS17"), Path("aside.mlpackage"))

Known traps of coremltools 9.0 that this file answers are in docs/architecture.md.
"""

import contextlib
import errno
import io
import json
import logging
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import ITEMS, PACKAGE_NAMESPACE, format_items

if TYPE_CHECKING:
    import coremltools as ct
    import torch

PRECISIONS = ("fp16", "fp32")
TARGETS = ("iOS17", "iOS18")


@dataclass(frozen=True)
class TensorType:
    """One input or output of the package. One entry in `shapes` is a fixed shape; several are an
    enumeration, the first the default; an output has none.
    """

    name: str
    dtype: type[np.generic]
    shapes: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        # coremltools issue 2730: a batch of several enumerated sizes may come back as one row
        if len({shape[:1] for shape in self.shapes}) > 1:
            raise InputError(f"{self.name}: the first axis of {self.shapes} is enumerated")


@dataclass(frozen=True, eq=False)
class FunctionSpec:
    """What is traced and converted. `keep_fp32` names submodules whose operations stay in fp32 when
    the precision is fp16.
    """

    module: "torch.nn.Module"
    example: "tuple[torch.Tensor, ...]"
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    keep_fp32: tuple[str, ...] = ()


@contextlib.contextmanager
def full_disk_is_an_oserror() -> Iterator[None]:
    """coremltools' weight writer says RuntimeError where the disk is full; say what it is."""
    try:
        yield
    except RuntimeError as problem:
        # Any other RuntimeError is a conversion that failed.
        if "FileWriter" not in str(problem):
            raise
        raise OSError(
            errno.ENOSPC, f"no room for the weights ({problem})", tempfile.gettempdir()
        ) from None


@contextlib.contextmanager
def quiet_coremltools() -> Iterator[None]:
    """Import and run coremltools without its banner, progress bars and warnings about missing macOS
    libraries.
    """
    logger = logging.getLogger("coremltools")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def reduce_self_checks() -> Iterator[None]:
    """coremltools looks over the whole program after each of its hundred passes, a third of a
    conversion's time; here only where the program comes in, behind dead code and where it is
    written. The bytes are the same, and the package is executed and compared.
    """
    from unittest import mock

    from coremltools.converters.mil.mil import Program

    validate = Program.validate

    def essential(program: Program, check_essential_scope: bool = False) -> None:
        # The passes that need the whole look ask for the essential scope.
        if check_essential_scope:
            validate(program, check_essential_scope)

    with mock.patch.object(Program, "validate", essential):
        yield


def convert(function: FunctionSpec, precision: str, target: str) -> "ct.models.MLModel":
    """Trace and convert. Raises InputError for an unknown precision or target."""
    if precision not in PRECISIONS or target not in TARGETS:
        raise InputError(
            f"precision {precision!r} and target {target!r}: choose from {PRECISIONS} and {TARGETS}"
        )
    import torch

    with quiet_coremltools(), full_disk_is_an_oserror():
        import coremltools as ct

        # a module with operators of its own brings their converters (quantize/stored_forms.py)
        for module in function.module.modules():
            register = getattr(module, "register_converters", None)
            if register is not None:
                register()
        with torch.no_grad():
            # The check would run the module a second time; the package is compared with it anyway.
            traced = torch.jit.trace(function.module.eval(), function.example, check_trace=False)
        with reduce_self_checks():
            return ct.convert(
                traced,
                inputs=[_describe_tensor(spec) for spec in function.inputs],
                outputs=[_describe_tensor(spec) for spec in function.outputs],
                convert_to="mlprogram",
                minimum_deployment_target=getattr(ct.target, target),
                compute_precision=_compute_precision(precision, set(function.keep_fp32)),
                skip_model_load=True,  # prediction would compile, and off a Mac cannot
            )


def _describe_tensor(spec: TensorType) -> "ct.TensorType":
    """A new object at every call: ct.convert changes the ones it is given."""
    import coremltools as ct

    shape = spec.shapes[0] if spec.shapes else None
    if len(spec.shapes) > 1:
        shape = ct.EnumeratedShapes(
            shapes=[list(s) for s in spec.shapes], default=list(spec.shapes[0])
        )
    return ct.TensorType(name=spec.name, dtype=spec.dtype, shape=shape)


def _compute_precision(
    precision: str, keep_fp32: set[str]
) -> "ct.precision | ct.transform.FP16ComputePrecision":
    import coremltools as ct
    from coremltools.converters.mil.mil.scope import ScopeSource

    if precision == "fp32":
        return ct.precision.FLOAT32
    return ct.transform.FP16ComputePrecision(
        # True means fp16: operations of the modules that are named stay in fp32.
        op_selector=lambda op: (
            not keep_fp32 & set(op.scopes.get(ScopeSource.TORCHSCRIPT_MODULE_NAME, ()))
        )
    )


def save_package(model: "ct.models.MLModel", path: Path) -> None:
    """Save `model` as `path` (.mlpackage) with reproducible bytes. Raises OSError when the disk
    cannot take it.
    """
    with quiet_coremltools(), full_disk_is_an_oserror():
        model.save(str(path))
    make_reproducible(path)


def save_functions(models: "dict[str, ct.models.MLModel]", path: Path) -> None:
    """One package: a single model under `main`, several as functions of these names, equal weights
    stored once (iOS 18).
    """
    if len(models) == 1:
        save_package(next(iter(models.values())), path)
        return
    with (
        quiet_coremltools(),
        full_disk_is_an_oserror(),
        tempfile.TemporaryDirectory(dir=path.parent) as folder,
    ):
        import coremltools as ct

        joined = ct.utils.MultiFunctionDescriptor()
        for name, model in models.items():
            single = Path(folder) / f"{name}.mlpackage"
            model.save(str(single))
            joined.add_function(str(single), src_function_name="main", target_function_name=name)
        # The first function is the one that opens where nobody names another.
        joined.default_function_name = next(iter(models))
        ct.utils.save_multifunction(joined, str(path))
    make_reproducible(path)


def find_model_file(package: Path) -> Path:
    """Where a package's .mlmodel stands, its program and description."""
    manifest = json.loads((package / ITEMS).read_text(encoding="utf-8"))
    paths = (entry["path"] for entry in manifest["itemInfoEntries"].values())
    # A package lists its weights as well; the model is the entry that ends so.
    return package / "Data" / next(path for path in paths if path.endswith(".mlmodel"))


def make_reproducible(package: Path) -> None:
    """Take out what changes from run to run: conversion date, map order of the protobuf, random
    identifiers in Manifest.json.
    """
    with quiet_coremltools():
        from coremltools.proto import Model_pb2
    manifest_path = package / ITEMS
    manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
    spec_path = find_model_file(package)
    # A protobuf map has no order of its own: deterministic=True sorts it.
    spec = Model_pb2.Model.FromString(spec_path.read_bytes())
    metadata = spec.description.metadata.userDefined
    metadata.pop("com.github.apple.coremltools.conversion_date", None)
    spec_path.write_bytes(spec.SerializeToString(deterministic=True))
    # Identifiers are random; made from the path, they are the same in every build.
    new_id = {
        old: str(uuid.uuid5(PACKAGE_NAMESPACE, entry["path"]))
        for old, entry in manifest["itemInfoEntries"].items()
    }
    manifest["itemInfoEntries"] = {
        new_id[old]: entry for old, entry in manifest["itemInfoEntries"].items()
    }
    manifest["rootModelIdentifier"] = new_id[manifest["rootModelIdentifier"]]
    manifest_path.write_text(format_items(manifest), encoding="utf-8")
