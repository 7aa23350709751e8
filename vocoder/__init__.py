"""Vocoder: features to waveform, the iSTFTNet decoder in (B, C, 1, S) for the Neural Engine."""

from typing import TYPE_CHECKING

from core.lazy import exports

if TYPE_CHECKING:
    from vocoder.decoder import Vocoder
    from vocoder.forms import form_named
    from vocoder.package import VocoderPackage, render_reference
    from vocoder.packing import VocoderInputs
    from vocoder.stage import VocoderStage

__all__ = ["Vocoder", "VocoderInputs", "VocoderPackage", "VocoderStage", "form_named", "render_reference"]
__getattr__ = exports(
    __name__,
    {
        "Vocoder": "vocoder.decoder",
        "VocoderInputs": "vocoder.packing",
        "VocoderPackage": "vocoder.package",
        "VocoderStage": "vocoder.stage",
        "form_named": "vocoder.forms",
        "render_reference": "vocoder.package",
    },
)
