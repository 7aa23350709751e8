"""Text to phonemes in Kokoro's vocabulary, on the CPU.

from kokoro_ane.g2p import G2P, phonemize
phonemize("Hello, world.").phonemes
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kokoro_ane.g2p.phonemizer import G2P, phonemize

__all__ = ["G2P", "phonemize"]


def __getattr__(name: str) -> Any:
    """`phonemize` and `G2P`, imported when first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'g2p' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("kokoro_ane.g2p.phonemizer"), name)
