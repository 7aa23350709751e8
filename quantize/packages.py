"""Find the package of a method for a checkpoint, and refuse one that belongs to other weights.

manifest = find_package(Path("build"), checkpoint, method_named("w8"), form="windowed")
"""

from pathlib import Path

from core.checkpoint import Checkpoint
from core.commands import build_command, quantize_command
from core.contract import FORMS, LITERAL, VOCODER_NAME
from core.errors import InputError
from core.manifest import Manifest, level_name, package_name
from quantize.methods import Method, method_named


def manifest_path(build: Path, checkpoint: Checkpoint, method: Method, form: str = LITERAL) -> Path:
    """build/KokoroVocoder-fp16.json, or build/KokoroVocoder-demo-windowed-fp16.json: a name stands there where it may never be released."""
    return build / f"{package_name(VOCODER_NAME, checkpoint.name, checkpoint.releasable, level_name(method.name, form))}.json"


def parse_level(name: str, form: str = LITERAL) -> tuple[Method, str]:
    """'windowed-w8a8' -> (w8a8, windowed); a name without a form is of `form`. InputError for an unknown method."""
    for prefix in sorted(FORMS, key=len, reverse=True):
        if name.startswith(f"{prefix}-"):
            return method_named(name.removeprefix(f"{prefix}-")), prefix
    return method_named(name), form


def command_of(method: Method, form: str = LITERAL) -> str:
    """What builds the package, for the user to type."""
    return quantize_command(method.name, form) if method.parent else build_command("vocoder", form)


def find_package(build: Path, checkpoint: Checkpoint, method: Method, form: str = LITERAL) -> Manifest:
    """The manifest of `method` in that form of the vocoder in `build`, its package's hash verified.

    Raises InputError when it is not built (naming the command), was built from another checkpoint, or differs from its manifest.
    """
    path, level, command = manifest_path(build, checkpoint, method, form), level_name(method.name, form), command_of(method, form)
    if not path.is_file():
        raise InputError(f"{path} does not exist: the {level} package is not built; `{command}` builds it")
    manifest = Manifest.load(path)
    manifest.require_made_from(checkpoint, command)
    if manifest.level != level:
        raise InputError(f"{path} says method {manifest.level!r}, expected {level!r}: run `{command}` again")
    manifest.verify()
    return manifest
