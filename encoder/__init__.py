"""Encoder: phonemes to features, durations and prosody equal to upstream at any padding."""

from typing import TYPE_CHECKING

from core.lazy import exports

if TYPE_CHECKING:
    from encoder.model import Encoder
    from encoder.package import EncoderPackage
    from encoder.stage import EncoderStage
    from encoder.steps import EncoderBackend, encode

__all__ = ["Encoder", "EncoderBackend", "EncoderPackage", "EncoderStage", "encode"]
__getattr__ = exports(
    __name__,
    {
        "Encoder": "encoder.model",
        "EncoderBackend": "encoder.steps",
        "EncoderPackage": "encoder.package",
        "EncoderStage": "encoder.stage",
        "encode": "encoder.steps",
    },
)
