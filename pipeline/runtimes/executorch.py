"""The vocoder in ExecuTorch's XNNPACK kernels; durations and prosody by PyTorch, whose LSTMs torch.export unrolls to one length.

opened = open_chain(Request(checkpoint, Path("build")))
"""

import core.pte_file
from core.contract import WAVEFORM
from pipeline.packages import ENCODER_BY_PYTORCH
from pipeline.runtimes import Opened, Request
from pipeline.runtimes.portable import PortableBackend, manifests_of
from pipeline.runtimes.pytorch import torch_encoder


def open_chain(request: Request) -> Opened:
    """See pipeline.runtimes."""
    manifest = manifests_of(request, core.pte_file, (WAVEFORM,))[WAVEFORM]
    vocoder = PortableBackend(core.pte_file.open_program(manifest.package_path, (WAVEFORM,)), manifest)
    made_of = {manifest.path.stem: manifest.package_sha256, ENCODER_BY_PYTORCH: request.checkpoint.sha256}
    return Opened(torch_encoder(request.checkpoint), vocoder, made_of)
