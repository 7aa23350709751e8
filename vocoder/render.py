"""Features to samples: by a built vocoder package, executed on any machine, and by PyTorch in fp32,
which it is compared with.

    package = open_package(Path("build/KokoroVocoder-fp16.json"))
    samples = package.render(inputs)  # [600 F] float32 at 24 kHz
    reference = render_reference(vocoder, inputs)
"""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core import FEATURES, MAIN, STREAMED, STYLE, Manifest, bucket_for, described
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.packing import VocoderInputs, require_finite
from kokoro_ane.vocoder.source import HarmonicSource
from kokoro_ane.vocoder.streaming.streaming_package import Opener, StreamingPackage, make_opener

if TYPE_CHECKING:
    from kokoro_ane.vocoder.eager import EagerVocoder


def run_program(
    program: Any, layout: PaddedLayout, inputs: VocoderInputs, bucket: int
) -> np.ndarray:
    """Pack into `bucket`, execute, join: [600 F] float32, of a program in float64 in that."""
    arrays = {FEATURES: layout.pack(inputs, bucket), STYLE: inputs.style[:, :, None, None].float()}
    return layout.join(program(arrays)[layout.output], inputs.frames).numpy()


class VocoderPackage:
    """Responsibilities: 1. refuse a package that is not the one its manifest describes; 2. pack,
    execute, join: a VocoderBackend.
    """

    arrays = False
    predictor = ""  # statistics are measured

    def __init__(
        self, manifest_path: Path, precision: str = "declared", opened: Opener | None = None
    ) -> None:
        """`precision` is that of the executor's arithmetic (mlprogram). `opened` is another way to
        open a function, Core ML's own.
        """
        self.manifest = Manifest.load(manifest_path)
        self.manifest.verify()
        self.buckets = self.manifest.buckets
        self.layout = PaddedLayout()
        with described(manifest_path):
            self.source = HarmonicSource.from_manifest(self.manifest.source)
        self.program = (opened or make_opener(precision))(self.manifest.package_path, MAIN)

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """`features` [1, channels, 1, B + 1], in the smallest bucket that holds them."""
        return self.layout.pack(inputs, bucket_for(inputs.frames, self.buckets))

    def run(self, features: Tensor, style: Tensor, statistics: Tensor, frames: int) -> Tensor:
        """Samples [600F] of packed features; `statistics` is not read. Raises InputError for NaN or
        infinity in an input.
        """
        require_finite("features", features)
        require_finite("style", style)
        outputs = self.program({FEATURES: features, STYLE: style.float()})
        return self.layout.join(outputs[self.layout.output].float(), frames)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600 F] float32. Raises InputError for features that are longer than the largest
        bucket.
        """
        style = inputs.style[:, :, None, None]
        # Statistics without rows, because this layout measures them.
        return self.run(self.pack(inputs), style, style[:, :0], inputs.frames).numpy()


def open_package(
    manifest_path: Path, precision: str = "declared", opened: Opener | None = None
) -> VocoderPackage | StreamingPackage:
    """Open a package by the layout that its manifest names; arguments as VocoderPackage's."""
    streamed = Manifest.load(manifest_path).layout in STREAMED
    return (StreamingPackage if streamed else VocoderPackage)(manifest_path, precision, opened)


@torch.no_grad()
def render_reference(
    vocoder: "Vocoder | EagerVocoder", inputs: VocoderInputs, dtype: torch.dtype = torch.float32
) -> np.ndarray:
    """The PyTorch render at exact length, without a mask: [600 F] in `dtype`."""
    return vocoder(*(t.to(dtype) for t in make_reference_arguments(inputs))).flatten().numpy()


def render_exact(vocoder: Vocoder, inputs: VocoderInputs) -> np.ndarray:
    """PyTorch's render in float64, which shares no rounding with what is checked: [600 F]."""
    return render_reference(copy.deepcopy(vocoder).double(), inputs, torch.float64)


def make_reference_arguments(inputs: VocoderInputs) -> tuple[Tensor, ...]:
    """The arguments of Vocoder.forward: asr, F0, energy, style, spectrum."""
    # [1, hidden, 1, F]
    asr = inputs.asr[:, :, None]
    # [1, 1, 1, 2F]
    f0 = inputs.f0_hz[:, None, None]
    energy = inputs.energy[:, None, None]
    return asr, f0, energy, inputs.style[:, :, None, None], inputs.spectrum[:, :, None]
