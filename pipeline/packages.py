"""Where the packages of a chain stand: found by name, refused when they belong to another checkpoint.

encoders, vocoder = package_manifests(checkpoint, Path("build"), method="w8a8", form="windowed")
"""

from pathlib import Path

from core.checkpoint import Checkpoint
from core.commands import build_command, quantize_command
from core.contract import DURATION, ENCODER_NAME, LITERAL, PROSODY, VOCODER_NAME
from core.errors import InputError
from core.manifest import Manifest, level_name, package_name
from quantize.methods import CONVERTED

ENCODER_BY_PYTORCH = "checkpoint"  # what stands in `made_of` where no encoder package was used


def vocoder_alone(checkpoint: Checkpoint, build: Path, method: str, form: str = LITERAL) -> Path | None:
    """The vocoder's manifest where no encoder stands beside it (after `make vocoder`): PyTorch then encodes, and the user is told."""
    encoders, vocoder = _places(checkpoint, build, method, form)
    if any(path.is_file() for path in encoders) or not vocoder.is_file():
        return None
    check_same_checkpoint(vocoder, checkpoint, build, method, form)
    return vocoder


def package_manifests(checkpoint: Checkpoint, build: Path, method: str, form: str = LITERAL) -> tuple[tuple[Path, ...], Path]:
    """Manifests of the encoder (one, or two of an iOS 17 build) and of the vocoder at `method`, of this checkpoint."""
    encoders, vocoder = _places(checkpoint, build, method, form)
    require_made((*encoders, vocoder), checkpoint, build, method, form, hint=" (or speak with --runtime torch)")
    return encoders, vocoder


def encoder_manifests(checkpoint: Checkpoint, build: Path) -> tuple[Path, ...]:
    """Where the fp16 encoder's manifests stand, or would: one, or the two of an iOS 17 build."""
    return _places(checkpoint, build, "fp16")[0]


def require_made(
    paths: tuple[Path, ...], checkpoint: Checkpoint, build: Path, method: str = "fp16", form: str = LITERAL, hint: str = ""
) -> tuple[Path, ...]:
    """The paths; InputError for one that is not there (naming the command, then `hint`) or was made from another checkpoint."""
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path} does not exist: run `{maker(path, checkpoint, build, method, form)}`{hint}")
        check_same_checkpoint(path, checkpoint, build, method, form)
    return paths


def _places(checkpoint: Checkpoint, build: Path, method: str, form: str = LITERAL) -> tuple[tuple[Path, ...], Path]:
    """Where the manifests stand, or would."""
    named = {stage: build / f"{_name(checkpoint, stage, method, form)}.json" for stage in (ENCODER_NAME, VOCODER_NAME)}
    pair = tuple(build / f"{_name(checkpoint, ENCODER_NAME + part.capitalize(), method, form)}.json" for part in (DURATION, PROSODY))
    encoders = pair if not named[ENCODER_NAME].is_file() and any(path.is_file() for path in pair) else (named[ENCODER_NAME],)
    return encoders, named[VOCODER_NAME]


def _name(checkpoint: Checkpoint, stage: str, method: str, form: str) -> str:
    if stage == VOCODER_NAME:
        return package_name(stage, checkpoint.name, checkpoint.releasable, level_name(method, form))
    return package_name(stage, checkpoint.name, checkpoint.releasable, "fp32" if method == "fp32" else "fp16")  # never compressed


def source_name(checkpoint: Checkpoint) -> str:
    """What `--checkpoint` calls it."""
    return checkpoint.name if checkpoint.name in ("demo", "kokoro-int8") else str(checkpoint.folder)


def maker(path: Path, checkpoint: Checkpoint, build: Path, method: str, form: str) -> str:
    """The command that builds the package of that manifest, for the user to type."""
    source = source_name(checkpoint)
    if path.stem.startswith(ENCODER_NAME):
        return build_command("encoder", precision="fp32" if method == "fp32" else "fp16", checkpoint=source, out=build)
    if method in CONVERTED:
        return build_command("vocoder", form, method, source, build)
    return quantize_command(method, form, source, build)


def check_same_checkpoint(path: Path, checkpoint: Checkpoint, build: Path, method: str, form: str = LITERAL) -> None:
    """InputError when the package was built from another checkpoint than the voices and the vocabulary come from."""
    Manifest.load(path).require_made_from(checkpoint, maker(path, checkpoint, build, method, form))
