"""The package to judge: found, or built by the commands that a user would type.

manifest = built_package(method_named("w8a8"), "windowed", checkpoint, "demo", Path("build"))
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from core.checkpoint import Checkpoint
from core.errors import CheckFailed, InputError
from core.manifest import Manifest
from core.portable import PRECISION
from pipeline.packages import encoder_manifests, require_made
from pipeline.runtimes import RUNTIMES, Request, check_runtime, module_of
from quantize.methods import METHODS, Method, method_named
from quantize.packages import command_of, find_package, manifest_path


def judged_manifest(
    runtime: str, level: str, form: str, checkpoint: Checkpoint, source: str | None, build: Path
) -> tuple[Method, Manifest]:
    """A level of a runtime, built where it is missing and told on stderr. Raises InputError and CheckFailed as built_package."""
    check_runtime(runtime, level, form=form)
    if not RUNTIMES[runtime].files:
        raise InputError(f"--runtime {runtime} is what levels are judged against: nothing of it can be lost")
    if RUNTIMES[runtime].packages:
        method = method_named(level)
        return method, built_package(method, form, checkpoint, source, build)
    path: Path = built_file(runtime, Request(checkpoint, build, level, form), source)
    return METHODS.get(level) or Method(level, f"{level}, as exported"), Manifest.load(path)


def built_package(method: Method, form: str, checkpoint: Checkpoint, source: str | None, build: Path) -> Manifest:
    """The package's manifest, after building it and its parent where they are missing; each build is told on stderr.

    source: --checkpoint as given. Raises InputError (a package of another checkpoint, or changed since), CheckFailed (a build that
    was refused).
    """
    if method.parent and not manifest_path(build, checkpoint, method, form).is_file():
        built_package(method_named(method.parent), form, checkpoint, source, build)
    if not manifest_path(build, checkpoint, method, form).is_file():
        _run(build_arguments(method, form, source, build))
    return find_package(build, checkpoint, method, form)


def built_file(runtime: str, request: Request, source: str | None) -> Path:
    """The manifest of another runtime's vocoder, after building the file and its parent where they are missing. Raises as built_package."""
    made = module_of(runtime)
    if not made.vocoder_is_built(request):
        given = ["--runtime", runtime] + (["--checkpoint", source] if source else [])
        if request.method == PRECISION:
            _run(["pipeline.build", "vocoder", "--out", str(request.build), *given])
        else:
            built_file(runtime, replace(request, method=PRECISION), source)
            _run(["quantize.apply", "--method", request.method, "--build", str(request.build), *given])
    path: Path = made.vocoder_path(request)
    return path


def build_arguments(method: Method, form: str, source: str | None, build: Path) -> list[str]:
    """What follows `python -m`."""
    given = ["--form", form] + (["--checkpoint", source] if source else [])
    if method.parent:
        return ["quantize.apply", "--method", method.name, "--build", str(build), *given]
    return ["pipeline.build", "vocoder", "--out", str(build), *given]


def built_encoder(checkpoint: Checkpoint, source: str | None, build: Path, may_build: bool) -> tuple[Path, ...]:
    """The fp16 encoder's manifests (one, or two of an iOS 17 build), after building it where it is missing and may be built."""
    encoders = encoder_manifests(checkpoint, build)
    if may_build and not any(path.is_file() for path in encoders):
        _run(["pipeline.build", "encoder", "--out", str(build), *(["--checkpoint", source] if source else [])])
    return require_made(encoders, checkpoint, build)


def _run(arguments: list[str]) -> None:
    print(f"not built yet: python -m {' '.join(arguments)}", file=sys.stderr)
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit {done.returncode}"]
        raise (CheckFailed if done.returncode == 1 else InputError)(said[-1].removeprefix("error: ").removeprefix("rejected: "))


def missing(method: Method, form: str, checkpoint: Checkpoint, build: Path) -> str | None:
    """The command for a package that is not there; None where it is."""
    there = manifest_path(build, checkpoint, method, form).is_file()
    return None if there else f"not built; `{command_of(method, form)}` builds it"
