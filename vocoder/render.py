"""Features to samples: by a built vocoder package, executed on any machine, and by PyTorch in fp32,
which it is held against.

    package = open_package(Path("build/KokoroVocoder-fp16.json"))
    samples = package.render(inputs)  # [600 F] float32 at 24 kHz
    reference = render_reference(vocoder, inputs)
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.core.contract import FEATURES, MAIN, STREAMED, STYLE, bucket_for
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest, described
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout, layout_recorded
from kokoro_ane.vocoder.packing import VocoderInputs, require_finite
from kokoro_ane.vocoder.source import HarmonicSource
from mlprogram import Program, ProgramError

if TYPE_CHECKING:
    from kokoro_ane.vocoder.eager import EagerVocoder
    from kokoro_ane.vocoder.streaming.streaming_package import Opener, StreamingPackage


def run_program(
    program: Program,
    layout: PaddedLayout,
    inputs: VocoderInputs,
    bucket: int,
    hook: Callable[..., None] | None = None,
) -> np.ndarray:
    """Pack into `bucket`, execute, join: [600 F] float32."""
    arrays = {FEATURES: layout.pack(inputs, bucket), STYLE: inputs.style[:, :, None, None].float()}
    return layout.join(program(arrays, hook=hook)[layout.output].float(), inputs.frames).numpy()


class VocoderPackage:
    """Responsibilities: 1. refuse a package that is not the one its manifest describes; 2. pack,
    execute, join: a VocoderBackend.
    """

    arrays = False
    voices: tuple[str, ...] | None = None  # any

    def __init__(
        self, manifest_path: Path, precision: str = "declared", opened: "Opener | None" = None
    ) -> None:
        """`precision`: of the executor's arithmetic (mlprogram). `opened`: another way to open a
        function, Core ML's own.
        """
        self.manifest = Manifest.load(manifest_path)
        self.manifest.verify()
        self.buckets = self.manifest.buckets
        with described(manifest_path):
            self.layout = layout_recorded(self.manifest.layout, self.manifest.outputs)
            self.source = HarmonicSource.recorded(self.manifest.source)
        try:
            path = self.manifest.package_path
            self.program = opened(path, MAIN) if opened else Program(path, precision=precision)
        except ProgramError as problem:
            raise InputError(str(problem)) from None

    def pack(self, inputs: VocoderInputs) -> Tensor:
        """`features`, in the smallest bucket that holds them."""
        return self.layout.pack(inputs, bucket_for(inputs.frames, self.buckets))

    def run(self, features: Tensor, style: Tensor, frames: int) -> Tensor:
        """Samples [600F] of packed features. Raises InputError for NaN or infinity in an input."""
        require_finite("features", features)
        require_finite("style", style)
        waveform = self.program({FEATURES: features, STYLE: style.float()})[
            self.layout.output
        ].float()
        return self.layout.join(waveform, frames)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Waveform [600 F] float32; InputError when the features are longer than the largest
        bucket.
        """
        return self.run(self.pack(inputs), inputs.style[:, :, None, None], inputs.frames).numpy()


def open_package(
    manifest_path: Path, precision: str = "declared", opened: "Opener | None" = None
) -> "VocoderPackage | StreamingPackage":
    """Open a package by the layout that its manifest names; arguments as VocoderPackage's."""
    if Manifest.load(manifest_path).layout not in STREAMED:
        return VocoderPackage(manifest_path, precision, opened)
    from kokoro_ane.vocoder.streaming.streaming_package import StreamingPackage

    return StreamingPackage(manifest_path, precision, opened)


@torch.no_grad()
def render_reference(
    vocoder: "Vocoder | EagerVocoder", inputs: VocoderInputs, dtype: torch.dtype = torch.float32
) -> np.ndarray:
    """The PyTorch render at exact length, no mask: [600 F] in `dtype`."""
    return vocoder(*(t.to(dtype) for t in reference_arguments(inputs))).flatten().numpy()


def reference_arguments(inputs: VocoderInputs) -> tuple[Tensor, ...]:
    """What the PyTorch vocoder takes: asr, F0, energy, style, spectrum, as Vocoder.forward says."""
    asr, f0, energy = (
        inputs.asr[:, :, None],
        inputs.f0_hz[:, None, None],
        inputs.energy[:, None, None],
    )
    return asr, f0, energy, inputs.style[:, :, None, None], inputs.spectrum[:, :, None]
