"""Kokoro-82M text-to-speech as Core ML packages for Apple's Neural Engine, executed and judged on
any machine.

    import kokoro_ane

    samples, rate_hz = kokoro_ane.speak("The ferry crossed the harbour.", voice="af_heart")
    kokoro_ane.phonemize("Hello, world.").phonemes
    manifests = kokoro_ane.build("vocoder", checkpoint="kokoro-int8")  # checked, under build/
    kokoro_ane.judge("w8a8", checkpoint="kokoro-int8").verdict         # SHIP, REJECT or UNDECIDED

Each does what the command of its name does; its docstring says arguments, units and errors.
Importing this costs nothing: PyTorch and coremltools come with the first call that needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kokoro_ane.api import Judged, build, bundle, judge, quantize, release, speak
    from kokoro_ane.core.checkpoint import Checkpoint, open_checkpoint
    from kokoro_ane.core.errors import CheckFailed, InputError
    from kokoro_ane.core.manifest import Manifest
    from kokoro_ane.g2p.phonemizer import phonemize

__version__ = "0.2.0"
__all__ = [
    "CheckFailed",
    "Checkpoint",
    "InputError",
    "Judged",
    "Manifest",
    "build",
    "bundle",
    "judge",
    "open_checkpoint",
    "phonemize",
    "quantize",
    "release",
    "speak",
]
_HOMES = {
    "kokoro_ane.api": ("Judged", "build", "bundle", "judge", "quantize", "release", "speak"),
    "kokoro_ane.core.checkpoint": ("Checkpoint", "open_checkpoint"),
    "kokoro_ane.core.errors": ("CheckFailed", "InputError"),
    "kokoro_ane.core.manifest": ("Manifest",),
    "kokoro_ane.g2p.phonemizer": ("phonemize",),
}


def __getattr__(name: str) -> Any:
    """Public names, imported when they are first asked for."""
    # importing the package alone costs no NumPy and no PyTorch
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'kokoro_ane' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
