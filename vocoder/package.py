"""Render with the artifact: a checked vocoder package, executed on any machine, and its fp32 PyTorch reference.

package = VocoderPackage(Path("build/KokoroVocoder-demo-fp16.json"))
samples = package.render(inputs)             # [600 F] float32 at 24 kHz
reference = render_reference(vocoder, inputs)
"""

from pathlib import Path

import numpy as np
import torch

from core.contract import FEATURES, FRAME_SAMPLES, STYLE, WAVEFORM, PackedLayout, bucket_for
from core.errors import InputError
from core.manifest import Manifest
from mlprogram import Program, ProgramError
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs, pack
from vocoder.windowed.geometry import Windows
from vocoder.windowed.packing import joined_rows, pack_rows


def in_rows(program: Program, hidden_dim: int) -> bool:
    """Whether a program is the engine variant, whose features have one channel more than the literal vocoder's."""
    return program.inputs[FEATURES].shape[1] != PackedLayout(hidden_dim).channels


def run_program(program: Program, inputs: VocoderInputs, bucket: int, hook=None) -> np.ndarray:
    """Pack into `bucket` as this program wants it, execute, trim: [600 F] float32."""
    rows = in_rows(program, inputs.asr.shape[1])
    half = program.inputs[FEATURES].dtype == "fp16"
    features = pack_rows(inputs, bucket, half) if rows else pack(inputs, bucket)
    waveform = program({FEATURES: features, STYLE: inputs.style[:, :, None, None].float()}, hook=hook)[WAVEFORM].float()
    if rows:
        return joined_rows(waveform, Windows.of(inputs.frames, bucket)).numpy()
    return waveform.flatten()[: FRAME_SAMPLES * inputs.frames].numpy()  # of [1, 1, 1, 600 * bucket]


class VocoderPackage:
    """Responsibilities: 1. refuse a package that is not the one its manifest describes; 2. bucket, pack, execute, trim."""

    def __init__(self, manifest_path: Path, precision: str = "declared") -> None:
        self.manifest = Manifest.load(manifest_path)
        self.manifest.verify()
        self.buckets = self.manifest.buckets
        try:
            self.program = Program(self.manifest.package_path, precision=precision)
        except ProgramError as problem:
            raise InputError(str(problem)) from None

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600 F] float32; InputError when the features are longer than the largest bucket."""
        return run_program(self.program, inputs, bucket_for(inputs.frames, self.buckets))


@torch.no_grad()
def render_reference(vocoder: Vocoder, inputs: VocoderInputs, dtype: torch.dtype = torch.float32) -> np.ndarray:
    """The PyTorch render at exact length, no mask: [600 F] in `dtype`."""
    asr, f0, energy = inputs.asr[:, :, None], inputs.f0_hz[:, None, None], inputs.energy[:, None, None]
    tensors = (asr, f0, energy, inputs.style[:, :, None, None], inputs.spectrum[:, :, None])
    return vocoder(*(t.to(dtype) for t in tensors)).flatten().numpy()
