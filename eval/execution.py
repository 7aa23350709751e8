"""How a level is executed: the precision of the executor's arithmetic, and who computes the features it is given.

    execution = Execution.of("declared", encoder_manifests)   # the whole chain of packages; without manifests: features in PyTorch fp32
    inputs = PackageFeatures(execution, truth).of(clip)

The reference is always the fp32 chain. Noise is the same on both sides, durations must be.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from core.corpus import Utterance
from core.manifest import Manifest
from core.voices import style_row
from encoder.package import EncoderPackage
from encoder.steps import encode
from eval.corpus import Truth
from quantize.features import with_text_features
from vocoder.packing import VocoderInputs


@dataclass(frozen=True)
class Execution:
    """`name` is what figures are kept under: the precision, and the hash of the encoder package where one is executed."""

    precision: str
    encoder: tuple[Path, ...]
    name: str

    @classmethod
    def of(cls, precision: str, encoder: tuple[Path, ...] = ()) -> Self:
        """`encoder`: manifests (one, or the two of an iOS 17 build). Raises InputError for one that cannot be read."""
        hashes = [Manifest.load(path).package_sha256[:16] for path in encoder]
        return cls(precision, encoder, "-".join([precision, *hashes]))

    @property
    def features(self) -> str:
        """Who computes them, in words."""
        return ", ".join(path.stem for path in self.encoder) or "PyTorch fp32"


class PackageFeatures:
    """Responsibilities: 1. execute the encoder package for a clip; 2. the vocoder's inputs from it. It renders nothing."""

    def __init__(self, execution: Execution, truth: Truth) -> None:
        self._truth = truth
        self._package = EncoderPackage(execution.encoder, execution.precision)

    def of(self, clip: Utterance) -> VocoderInputs:
        """Text features, F0 and energy as the package gives them, with the durations it finds."""
        checkpoint = self._truth.checkpoint
        style = style_row(checkpoint.blend(clip.voice), len(clip.phonemes))[:, checkpoint.config.style_dim :]
        encoded = encode(self._package.backend, tuple(int(i) for i in clip.input_ids), style, clip.speed)
        durations = encoded.durations.numpy().astype(clip.durations.dtype)
        found = replace(clip, durations=durations, f0_hz=encoded.f0_hz[0].numpy(), energy=encoded.energy[0].numpy())
        return with_text_features(checkpoint, self._truth.vocoder, encoded.asr, found, self._truth.seed)
