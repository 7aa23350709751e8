"""The packages, executed by mlprogram on any machine. Where only the vocoder's is built (`make vocoder`), PyTorch encodes.

opened = open_chain(Request(checkpoint, Path("build"), method="w8a8"))
"""

from pathlib import Path

from core.manifest import Manifest
from encoder.package import EncoderPackage
from pipeline.packages import ENCODER_BY_PYTORCH, package_manifests, vocoder_alone
from pipeline.runtimes import Opened, Request
from vocoder.package import VocoderPackage


def open_chain(request: Request) -> Opened:
    """See pipeline.runtimes."""
    alone = vocoder_alone(request.checkpoint, request.build, request.method, request.form)
    if alone:
        from pipeline.runtimes.pytorch import torch_encoder

        made_of = {alone.stem: Manifest.load(alone).package_sha256, ENCODER_BY_PYTORCH: request.checkpoint.sha256}
        return Opened(torch_encoder(request.checkpoint), VocoderPackage(alone), made_of)
    return open_manifests(*manifest_paths(request))


def manifest_paths(request: Request) -> tuple[tuple[Path, ...], Path]:
    """Of the encoder and of the vocoder. InputError: not built, of another checkpoint."""
    return package_manifests(request.checkpoint, request.build, request.method, request.form)


def open_manifests(encoders: tuple[Path, ...], path: Path) -> Opened:
    """Packages that belong together, wherever they lie."""
    encoder, vocoder = EncoderPackage(encoders), VocoderPackage(path)
    hashes = {manifest.path.stem: manifest.package_sha256 for manifest in (*encoder.manifests, vocoder.manifest)}
    return Opened(encoder.backend, vocoder, hashes)


def open_vocoder(path: Path, precision: str = "declared") -> VocoderPackage:
    """The vocoder alone. `precision`: of the executor's arithmetic."""
    return VocoderPackage(path, precision)
