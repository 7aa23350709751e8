"""Which files are part of something, and therefore not replaced by a command's output.

# "it is inside the package Model.mlpackage"
needed(Path("Model.mlpackage/Manifest.json"), {})
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlprogram.files import MAX_TEXT_BYTES

PACKAGES, WEIGHTS, SUMS = (".mlpackage", ".mlmodelc"), (".pth", ".pt", ".safetensors"), "SHA256SUMS"


def needed(place: Path, arguments: Mapping[str, Any], manifests: bool = True) -> str | None:
    """Why a file there may not be replaced, though it was named: it is part of something, or two of
    the arguments `given` name it.
    """
    real = Path(os.path.realpath(place))
    paths = [
        (key, path)
        for key, value in arguments.items()
        for path in (value if isinstance(value, list) else [value])
    ]
    same = [key for key, path in paths if isinstance(path, Path) and _same(path, real)]
    if len(same) > 1:
        return f"{' and '.join(same)} are the same file"
    # A part of a package or of a signed folder would no longer be what its hash says.
    for folder in real.parents:
        if folder.suffix in PACKAGES:
            return f"it is inside the package {folder.name}"
        if (folder / SUMS).is_file() and real.relative_to(folder).as_posix().encode() in (
            folder / SUMS
        ).read_bytes().split():
            return f"{folder / SUMS} names it"
    voices = real.parent.name == "voices"
    home = real.parent.parent if voices else real.parent
    part = (voices or real.name == "config.json" or real.suffix in WEIGHTS) and (
        home / "config.json"
    ).is_file()
    if part and any(path.suffix in WEIGHTS for path in home.iterdir()):
        return f"it is part of the checkpoint {home}"
    beside = real.with_suffix(".json")  # its manifest, or itself
    if (
        manifests
        and real.is_file()
        and beside.is_file()
        and 0 < beside.stat().st_size <= MAX_TEXT_BYTES
    ):
        text = beside.read_bytes()
        if b'sha256"' in text and (beside == real or f'"{real.name}"'.encode() in text):
            return f"{beside.name} is a manifest or record, with hashes"
    return None


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == str(other)
