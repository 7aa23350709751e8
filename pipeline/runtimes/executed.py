"""The packages, executed by mlprogram on any machine. Where only the vocoder's is built (`make vocoder`), PyTorch encodes.

opened = open_chain(Request(checkpoint, Path("build"), method="w8a8"))
"""

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
    encoders, path = package_manifests(request.checkpoint, request.build, request.method, request.form)
    encoder, vocoder = EncoderPackage(encoders), VocoderPackage(path)
    hashes = {manifest.path.stem: manifest.package_sha256 for manifest in (*encoder.manifests, vocoder.manifest)}
    return Opened(encoder.backend, vocoder, hashes)
