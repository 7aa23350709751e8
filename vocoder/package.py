"""Render with the artifact: a checked vocoder package, executed on any machine, and its fp32 PyTorch reference.

package = VocoderPackage(Path("build/KokoroVocoder-demo-fp16.json"))
samples = package.render(inputs)             # [600 F] float32 at 24 kHz
reference = render_reference(vocoder, inputs)
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.contract import FEATURES, STYLE, bucket_for
from core.errors import InputError
from core.manifest import Manifest, described
from mlprogram import Program, ProgramError
from vocoder.decoder import Vocoder
from vocoder.eager import EagerVocoder
from vocoder.form import Form
from vocoder.forms import form_recorded
from vocoder.inputs import require_finite
from vocoder.packing import VocoderInputs
from vocoder.source import HarmonicSource


def run_program(
    program: Program, form: Form, inputs: VocoderInputs, bucket: int, hook: Callable[..., None] | None = None, half: bool | None = None
) -> np.ndarray:
    """Pack into `bucket`, execute, join: [600 F] float32. `half`: how the features are packed, if not as the program takes them."""
    takes_half = program.inputs[FEATURES].dtype == "fp16"
    features = form.pack(inputs, bucket, half=takes_half if half is None else half)
    waveform = program({FEATURES: features, STYLE: inputs.style[:, :, None, None].float()}, hook=hook)[form.output].float()
    return form.join(waveform, inputs.frames, bucket).numpy()


class VocoderPackage:
    """Responsibilities: 1. refuse a package that is not the one its manifest describes; 2. pack, execute, join: a VocoderBackend."""

    arrays = False

    def __init__(self, manifest_path: Path, precision: str = "declared", opened: Callable[[Path], Any] | None = None) -> None:
        """`precision`: of the executor's arithmetic (mlprogram). `opened`: another way to open the package, Core ML's own."""
        self.manifest = Manifest.load(manifest_path)
        self.manifest.verify()
        self.buckets = self.manifest.buckets
        with described(manifest_path):
            self.form = form_recorded(self.manifest.form, self.manifest.inputs[FEATURES], self.manifest.outputs)
            self.source = HarmonicSource.recorded(self.manifest.source)
        try:
            path = self.manifest.package_path
            self.program = opened(path) if opened else Program(path, precision=precision)
        except ProgramError as problem:
            raise InputError(str(problem)) from None

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """See vocoder.steps.VocoderBackend."""
        return self.form.pack(inputs, bucket_for(inputs.frames, self.buckets), half=self.program.inputs[FEATURES].dtype == "fp16")

    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """See vocoder.steps.VocoderBackend. Raises InputError for NaN or infinity in what it is given."""
        require_finite("features", features)
        require_finite("style", style)
        waveform = self.program({FEATURES: features, STYLE: style.float()})[self.form.output].float()
        return self.form.join(waveform, frames, bucket_for(frames, self.buckets))

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600 F] float32; InputError when the features are longer than the largest bucket."""
        return self.run(self.pack(inputs), inputs.style[:, :, None, None], inputs.frames).numpy()


@torch.no_grad()
def render_reference(vocoder: Vocoder | EagerVocoder, inputs: VocoderInputs, dtype: torch.dtype = torch.float32) -> np.ndarray:
    """The PyTorch render at exact length, no mask: [600 F] in `dtype`."""
    return vocoder(*(t.to(dtype) for t in reference_arguments(inputs))).flatten().numpy()


def reference_arguments(inputs: VocoderInputs) -> tuple[Tensor, ...]:
    """What the PyTorch vocoder takes: asr, F0, energy, style, spectrum, as Vocoder.forward says."""
    asr, f0, energy = inputs.asr[:, :, None], inputs.f0_hz[:, None, None], inputs.energy[:, None, None]
    return asr, f0, energy, inputs.style[:, :, None, None], inputs.spectrum[:, :, None]
