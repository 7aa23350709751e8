"""The runtimes by name: PyTorch, the packages executed or in Core ML, ONNX Runtime, ExecuTorch and
TVM. One module each.

    request = PackageRequest(checkpoint, Path("build"), method="w8a8")
    opened = open_runtime("mlprogram", request)
    chain = Chain(vocab, voice, opened.encoder, opened.vocoder)

A new runtime is a line in RUNTIMES and a module with `open_chain(request) -> OpenedChain`.
"""

import difflib
import importlib
import importlib.util
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import LAYOUT_FLAGS, LAYOUTS, PADDED, STREAMING, InputError, require_installed
from kokoro_ane.quantize import CONVERTED, LEVELS, METHODS, Method, default_layout, find_method
from kokoro_ane.runtimes.opened import OpenedChain

if TYPE_CHECKING:
    from kokoro_ane.core import Manifest
    from kokoro_ane.quantize import Build, PackageRequest


PACKAGE, DEFAULT_RUNTIME = ".mlpackage", "mlprogram"


@dataclass(frozen=True)
class Runtime:
    """A runtime and what it can open.

    module: the module with open_chain, or with what a FileRuntime asks of a kind of file.
    levels, layouts: the ones that it has; the first level is its default.
    platform: the only platform that it runs on; None means any.
    needs: the modules that it imports; extra: of pyproject.toml, with what writes its files.
    parallel: whether one opened model computes for several threads at once.
    files: the suffix of the files that it opens; "" means none. One that opens files also has
        open_manifests(encoders, vocoder) and open_vocoder(manifest).
    """

    title: str
    module: str
    levels: tuple[str, ...] = LEVELS
    layouts: tuple[str, ...] = LAYOUTS
    platform: str | None = None
    needs: tuple[str, ...] = ("torch",)
    extra: str = ""
    parallel: bool = True
    files: str = ""

    @property
    def is_for_packages(self) -> bool:
        """Whether it runs .mlpackage folders."""
        return self.files == PACKAGE

    @property
    def missing(self) -> tuple[str, ...]:
        """Modules that are not installed."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


RUNTIMES = MappingProxyType(
    {
        # The first level is the default, so the converted ones stand in reverse.
        "torch": Runtime("PyTorch", "kokoro_ane.runtimes.torch_runtime", levels=CONVERTED[::-1]),
        "mlprogram": Runtime(
            "the packages, executed on any machine",
            "kokoro_ane.runtimes.executed",
            needs=("mlprogram", "torch"),
            files=PACKAGE,
        ),
        "coreml": Runtime(
            "the packages, run by Core ML",
            "kokoro_ane.runtimes.coreml",
            platform="darwin",
            needs=("mlprogram", "torch"),
            parallel=False,
            files=PACKAGE,
        ),
        "onnx": Runtime(
            "ONNX Runtime",
            "kokoro_ane.runtimes.onnx.onnx_file",
            levels=("fp32", "w8", "w8a8"),
            layouts=(PADDED, STREAMING),
            needs=("onnxruntime",),
            extra="onnx",
            files=".onnx",
        ),
        "executorch": Runtime(
            "ExecuTorch",
            "kokoro_ane.runtimes.executorch.pte_file",
            levels=("fp32",),
            layouts=(PADDED,),
            needs=("torch", "executorch"),
            extra="executorch",
            parallel=False,
            files=".pte",
        ),
        "tvm": Runtime(
            "TVM",
            "kokoro_ane.runtimes.tvm.library",
            levels=("fp32",),
            layouts=(PADDED,),
            needs=("tvm",),
            extra="tvm",
            parallel=False,
            files=".so",
        ),
    }
)


def module_of(name: str) -> Any:
    """What opens the runtime's chain: its imported module, or the FileRuntime of it."""
    runtime = RUNTIMES[name]
    # Imported by name, so that one runtime's libraries are not needed for another.
    imported = importlib.import_module(runtime.module)
    if not runtime.files or runtime.is_for_packages:
        return imported
    from kokoro_ane.runtimes.files import FileRuntime

    return FileRuntime(imported)


def default_runtime() -> str:
    """The executed packages; ONNX Runtime where PyTorch, which executes them, is not installed."""
    return "onnx" if RUNTIMES[DEFAULT_RUNTIME].missing else DEFAULT_RUNTIME


def choose_runtime_for(package: str) -> str:
    """The first runtime that opens a file of that name. InputError where there is none, or where it
    is not installed.
    """
    # In the order of the table, so mlprogram comes before Core ML for a package.
    for name, runtime in RUNTIMES.items():
        if runtime.files and package.endswith(runtime.files):
            check_runtime(name)
            return name
    raise InputError(
        f"{package} is of no runtime; there are"
        f" {', '.join(sorted({r.files for r in RUNTIMES.values() if r.files}))}"
    )


def resolve(name: str, request: "PackageRequest") -> "PackageRequest":
    """The request for a runtime: its first level and the default layout where the request has none,
    and the runtime's own files where it does not run packages. InputError as check_names.
    """
    check_names(name, request.method, request.layout)
    runtime = RUNTIMES[name]
    return replace(
        request,
        method=request.method or runtime.levels[0],
        layout=request.layout or default_layout(request.checkpoint, runtime.layouts),
        # PackageRequest builds the names of a runtime's own files from this word.
        files=name if runtime.files and not runtime.is_for_packages else "",
    )


def open_runtime(name: str, request: "PackageRequest") -> OpenedChain:
    """Open encoder and vocoder. Raises InputError: unknown name, not this machine, not installed,
    no such package, packages of another checkpoint.
    """
    request = resolve(name, request)
    check_runtime(name, request.method)
    return module_of(name).open_chain(request)


def find_files(name: str, request: "PackageRequest") -> tuple[tuple[Path, ...], Path]:
    """The manifests of the encoder and of the vocoder that a runtime opens. InputError as
    open_runtime, and for a runtime that opens no files.
    """
    request = resolve(name, request)
    if not RUNTIMES[name].files:
        raise InputError(f"--runtime {name} has no files: it reads the checkpoint")
    return module_of(name).paths(request) if request.files else request.check_paths()


def judged_manifest(
    runtime: str, request: "PackageRequest", build: "Build"
) -> "tuple[Method, Manifest]":
    """The method and the vocoder's manifest of a runtime's level, built where it is missing. Raises
    InputError and CheckFailed as quantize.locator.ensure_vocoder.
    """
    from kokoro_ane.quantize import ensure_vocoder

    request = resolve(runtime, request)
    level = request.method
    check_runtime(runtime, level)
    if not RUNTIMES[runtime].files:
        raise InputError(
            f"--runtime {runtime} is what levels are judged against: nothing of it can be lost"
        )
    method = (
        # A file in float32 has no method of packages, so a bare one stands in for it.
        (METHODS.get(level) or Method(level, f"{level}, as exported", None))
        if request.files
        else find_method(level)
    )
    manifest = ensure_vocoder(request, build)
    if request.files:
        module_of(runtime).check(manifest, request)
    return method, manifest


def build_missing(runtime: str, request: "PackageRequest", build: "Build") -> None:
    """Build encoder and vocoder of a resolved request where they are missing. fp32 packages are a
    reference, which is not built on the way. Raises as judged_manifest.
    """
    from kokoro_ane.quantize import ensure_encoder, ensure_vocoder

    if request.files or (RUNTIMES[runtime].is_for_packages and request.method in METHODS):
        ensure_encoder(request, build)
        ensure_vocoder(request, build)


def check_runtime(
    name: str, method: str = "", platform: str = sys.platform, layout: str = ""
) -> None:
    """InputError for names that do not exist, a level or layout that the runtime does not have, and
    a runtime that cannot run on this machine. An empty method or layout stands for any.
    """
    check_names(name, method, layout)
    runtime = RUNTIMES[name]
    if runtime.platform is not None and platform != runtime.platform:
        raise InputError(
            f"runtime {name} needs macOS, here is {platform}: --runtime mlprogram executes the same"
            " packages anywhere"
        )
    require_installed(f"runtime {name}", modules=runtime.needs)


def require_writable(name: str) -> None:
    """InputError where a library is missing that writes or examines the runtime's files."""
    require_installed(f"a file of runtime {name}", RUNTIMES[name].extra)


def check_names(name: str, method: str, layout: str) -> None:
    """InputError for names that do not exist, and a level or layout that the runtime does not
    have.
    """
    # An empty method or layout means the default, so it is on the list.
    for what, value, names in (
        ("runtime", name, RUNTIMES),
        ("method", method, ("", *LEVELS)),
        ("layout", layout, ("", *LAYOUTS)),
    ):
        if value not in names:
            # the message proposes the nearest names
            near = difflib.get_close_matches(value, names, n=2, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else "."
            raise InputError(
                f"unknown {what} {value!r}{hint} There are: {', '.join(filter(None, names))}"
            )
    runtime = RUNTIMES[name]
    layout_flag = LAYOUT_FLAGS.get(layout) or f"--layout {layout}"
    for flag, value, names in (
        (f"--method {method}", method, runtime.levels),
        (layout_flag, layout, runtime.layouts),
    ):
        if value and value not in names:
            raise InputError(
                f"{flag} is a package: {runtime.title} has only {', '.join(names)}; use --runtime"
                " mlprogram"
            )
