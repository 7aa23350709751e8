"""Find the package of a method for a checkpoint, and refuse one that belongs to other weights.

manifest = find_package(Path("build"), checkpoint, method_named("w8"))
"""

from pathlib import Path

from core.checkpoint import Checkpoint
from core.contract import VOCODER_NAME
from core.errors import InputError
from core.manifest import Manifest, package_name
from quantize.methods import Method
from vocoder.windowed.options import ENGINE


def manifest_path(build: Path, checkpoint: Checkpoint, method: Method, variant: str | None = None) -> Path:
    """build/KokoroVocoder-fp16.json, or build/KokoroVocoder-demo-engine-fp16.json: the checkpoint's name where it may never be released."""
    return build / f"{package_name(VOCODER_NAME, checkpoint.name, checkpoint.releasable, level_of(method, variant))}.json"


def find_package(build: Path, checkpoint: Checkpoint, method: Method, variant: str | None = None) -> Manifest:
    """The manifest of `method` (of a variant of the vocoder) in `build`, its package's hash verified.

    Raises InputError when it is not built (naming the command), was built from another checkpoint, or differs from its manifest.
    """
    path, level = manifest_path(build, checkpoint, method, variant), level_of(method, variant)
    command = method.command if variant is None else _variant_command(method, variant)
    if not path.is_file():
        raise InputError(f"{path} does not exist: the {level} package is not built; `{command}` builds it")
    manifest = Manifest.load(path)
    if manifest.checkpoint_sha256 != checkpoint.sha256:
        built, given = manifest.checkpoint_sha256[:12], checkpoint.sha256[:12]
        raise InputError(f"{path} was built from checkpoint {built}, but {checkpoint.weights} is {given}: run `{command}` again")
    if manifest.method != level:
        raise InputError(f"{path} says method {manifest.method!r}, expected {level!r}: run `{command}` again")
    manifest.verify()
    return manifest


def _variant_command(method: Method, variant: str) -> str:
    return f"{method.command} --variant {variant}" if method.parent else f"python -m vocoder.convert --variant {ENGINE}"


def level_of(method: Method, variant: str | None) -> str:
    """The method's name in file names and manifests: that of the variant before it."""
    return method.name if variant is None else f"{variant}-{method.name}"
