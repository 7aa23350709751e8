"""Find the package of a method for a checkpoint, and refuse one that belongs to other weights.

manifest = find_package(Path("build"), checkpoint, method_named("w8"))
"""

from pathlib import Path

from pipeline.checkpoint import Checkpoint
from pipeline.contract import VOCODER_NAME
from pipeline.errors import InputError
from pipeline.manifest import Manifest, package_name
from quantize.methods import Method


def manifest_path(build: Path, checkpoint: Checkpoint, method: Method) -> Path:
    """build/KokoroVocoder-fp16.json, or build/KokoroVocoder-demo-fp16.json for a checkpoint that may never be released."""
    return build / f"{package_name(VOCODER_NAME, checkpoint.name, checkpoint.releasable, method.name)}.json"


def find_package(build: Path, checkpoint: Checkpoint, method: Method) -> Manifest:
    """The manifest of `method` in `build`, its package's hash verified.

    Raises InputError when it is not built (naming the command), was built from another checkpoint, or differs from its manifest.
    """
    path = manifest_path(build, checkpoint, method)
    if not path.is_file():
        raise InputError(f"{path} does not exist: the {method.name} package is not built; `{method.command}` builds it")
    manifest = Manifest.load(path)
    if manifest.checkpoint_sha256 != checkpoint.sha256:
        built, given = manifest.checkpoint_sha256[:12], checkpoint.sha256[:12]
        raise InputError(f"{path} was built from checkpoint {built}, but {checkpoint.weights} is {given}: run `{method.command}` again")
    if manifest.method != method.name:
        raise InputError(f"{path} says method {manifest.method!r}, expected {method.name!r}: run `{method.command}` again")
    manifest.verify()
    return manifest
