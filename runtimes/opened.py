"""An opened chain: what every runtime gives, whoever computes it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kokoro_ane.core import Manifest
    from kokoro_ane.encoder import EncoderBackend
    from kokoro_ane.vocoder import VocoderBackend

# what stands in `made_of` where no encoder package was used
ENCODER_BY_PYTORCH = "checkpoint"


@dataclass(frozen=True, eq=False)
class OpenedChain:
    """An opened encoder and vocoder. `made_of`: the hash of each package or file by its name; a
    hash changes whenever the audio may.
    """

    encoder: "EncoderBackend"
    vocoder: "VocoderBackend"
    made_of: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_parts(
        cls, encoder: "EncoderBackend", vocoder: Any, encoders: "Iterable[Manifest]"
    ) -> "OpenedChain":
        """Both with their hashes. `encoders`: the encoder's manifests. An utterance longer than the
        vocoder takes is refused as soon as its durations are known.
        """
        limits = encoder.limits
        # A backend without buckets takes any length, and the encoder's own limit holds.
        if vocoder.buckets is not None:
            total_frames = min(limits.total_frames, vocoder.buckets[-1])
            encoder = replace(encoder, limits=replace(limits, total_frames=total_frames))
        made_of = {
            manifest.path.stem: manifest.package_sha256
            for manifest in (*encoders, vocoder.manifest)
        }
        return cls(encoder, vocoder, made_of)
