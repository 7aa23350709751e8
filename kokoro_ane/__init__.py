"""Kokoro-82M text-to-speech as Core ML packages for Apple's Neural Engine, executed and judged on
any machine.

    import kokoro_ane

    samples, rate_hz = kokoro_ane.speak("The ferry crossed the harbour.", voice="af_heart")
    for piece in kokoro_ane.stream("It is late. Go home."): play(piece.samples)
    [voice.name for voice in kokoro_ane.voices() if voice.language == "en-GB"]
    kokoro_ane.phonemize("Hello, world.").phonemes
    manifests = kokoro_ane.build("vocoder", checkpoint="kokoro-int8")  # checked, under build/
    kokoro_ane.judge("w8a8", checkpoint="kokoro-int8").verdict         # SHIP, REJECT or UNDECIDED

Each does what the command of its name does; its docstring says arguments, units and errors.
Importing this costs nothing: PyTorch and coremltools come with the first call that needs them.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kokoro_ane.api import (
        Judged,
        build,
        bundle,
        compress,
        judge,
        load,
        release,
        speak,
        stream,
        stream_async,
        voices,
    )
    from kokoro_ane.core import CheckFailed, Checkpoint, InputError, Manifest, open_checkpoint
    from kokoro_g2p import phonemize

__version__ = "0.2.0"
# In a checkout the rooms stand beside this folder; a wheel holds them in it.
if not (Path(__file__).parent / "core").is_dir():
    __path__.append(str(Path(__file__).parents[1]))
__all__ = [
    "CheckFailed",
    "Checkpoint",
    "InputError",
    "Judged",
    "Manifest",
    "build",
    "bundle",
    "compress",
    "judge",
    "load",
    "open_checkpoint",
    "phonemize",
    "release",
    "speak",
    "stream",
    "stream_async",
    "voices",
]
# module -> the public names in it; no module is named before one is asked for
_HOMES = {
    "kokoro_ane.api": (
        "Judged",
        "build",
        "bundle",
        "compress",
        "judge",
        "load",
        "release",
        "speak",
        "stream",
        "stream_async",
        "voices",
    ),
    "kokoro_ane.core.checkpoint": ("Checkpoint", "open_checkpoint"),
    "kokoro_ane.core.errors": ("CheckFailed", "InputError"),
    "kokoro_ane.core.manifest": ("Manifest",),
    "kokoro_g2p": ("phonemize",),
}


def __getattr__(name: str) -> Any:
    """Public names, imported when they are first asked for."""
    # importing the package alone costs no NumPy and no PyTorch
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'kokoro_ane' has no attribute {name!r}")


def __dir__() -> list[str]:
    # Without this, completion would miss every name that has not been imported yet.
    return sorted({*globals(), *__all__})
