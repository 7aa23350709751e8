"""The vocoder for runtimes that take any length: one function of (features, style), in float32, at exact length, without a mask.

    manifests = build(PortableVocoderStage(checkpoint, ONNX, speeches), Path("build"), ONNX.kind)

The graph is vocoder/eager.py's: the style's affine inside the norm, Snake on two elementwise operations; or, for files that need a plain
one, the vocoder's own with norms written out. `features` are those of the literal form in a bucket of their own length.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.config import KokoroConfig
from core.contract import DEFAULT_BUCKETS, FEATURES, FRAME_SAMPLES, LITERAL, SAMPLE_RATE_HZ, STYLE, VOCODER_NAME, WAVEFORM, PackedLayout
from core.figures import Figure, snr_db
from core.layers import NORM_EPSILON, AdaIN1d, Conv, Mask
from core.modules import replace_module
from core.portable import PortableFunction, PortableProgram
from core.portable_stage import PortableStage, baked, dynamic
from core.stage import MAIN, Part
from vocoder.decoder import Vocoder
from vocoder.eager import EagerVocoder, Norm
from vocoder.inputs import VocoderInputs, packed
from vocoder.package import render_reference
from vocoder.packing import unpack
from vocoder.stage import source_contract

LIMIT_SNR_DB = 100.0
LONGEST_SUM = 384  # products of one convolution that are added one after another
FRAMES = (20, 40, 140)  # that a build is checked with
EXAMPLE_FRAMES = 40


class StyledNorm(Norm):
    """eager's Norm in one operation that every exporter has: an instance norm whose affine is an input."""

    def forward(self, x: Tensor, affines: Tensor) -> Tensor:
        """x [1, C, 1, S], affines [rows] -> [1, C, 1, S]."""
        gain, shift = affines[self.begin : self.begin + 2 * self.channels].chunk(2)
        return F.instance_norm(x, weight=gain, bias=shift, eps=NORM_EPSILON)


class PortableVocoder(nn.Module):
    """What is exported."""

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        super().__init__()
        self.sizes, self.eager = PackedLayout(hidden_dim).sizes, EagerVocoder(vocoder)
        for module in self.eager.modules():
            if isinstance(module, Norm):
                module.__class__ = StyledNorm

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """features [1, channels, 1, F + 1], style [1, style_dim, 1, 1] -> waveform [1, 1, 1, 600F]."""
        asr, f0, energy, _, spectrum = unpack(features, self.sizes)
        return self.eager(asr, f0, energy, style, spectrum)


def without_mean(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [1, C, 1, S] less its mean, and the mean [1, C, 1, 1], for kernels that add S values up one after the other: what such a sum
    missed is found by a second one, of values around 0."""
    coarse = x.mean(dim=3, keepdim=True)
    rest = (x - coarse).mean(dim=3, keepdim=True)
    return x - coarse - rest, coarse + rest


class CenteredNorm(AdaIN1d):
    """AdaIN in two passes: no exporter may make E[x^2] - E[x]^2 of its variance, which is negative for a constant."""

    def forward(self, x: Tensor, style: Tensor, mask: Mask | None) -> Tensor:
        """x [1, C, 1, S], style [1, style_dim, 1, 1] -> [1, C, 1, S]."""
        gain, shift = self.fc(style).chunk(2, dim=1)  # [1, C, 1, 1] each
        centered = without_mean(x)[0]
        variance = without_mean(centered * centered)[1]
        return centered * (torch.rsqrt(variance + NORM_EPSILON) * gain) + shift


class PartedConv(nn.Module):
    """A convolution in parts of its input's channels, for kernels that add one product after another: in float32 so long a sum loses
    14 dB of real Kokoro's waveform, a sum of short ones 6."""

    def __init__(self, conv: Conv, channels: int) -> None:
        super().__init__()
        self.channels, self.how = channels, (conv.stride, conv.padding, conv.dilation)
        self.weights = nn.ParameterList(part.clone() for part in conv.weight.detach().split(channels, dim=1))
        self.bias = conv.bias

    @property
    def weight(self) -> Tensor:
        """The first part, for those who ask for its type."""
        return self.weights[0]

    def forward(self, x: Tensor) -> Tensor:
        """As the convolution: [1, C, 1, S]."""
        parts = x.split(self.channels, dim=1)
        y = F.conv2d(parts[0], self.weights[0], self.bias, *self.how)
        for part, weight in zip(parts[1:], list(self.weights)[1:], strict=True):
            y = y + F.conv2d(part, weight, None, *self.how)
        return y


def in_parts(vocoder: nn.Module, longest: int = LONGEST_SUM) -> None:
    """Replace every convolution that sums more than so many products."""
    long = [(path, module) for path, module in vocoder.named_modules() if isinstance(module, Conv) and module.groups == 1]
    for path, conv in long:
        if conv.in_channels * conv.kernel_size[1] > longest:
            replace_module(vocoder, path, PartedConv(conv, max(1, longest // conv.kernel_size[1])))


class PlainVocoder(nn.Module):
    """What is exported where the fused graph is not taken."""

    def __init__(self, vocoder: Vocoder, hidden_dim: int) -> None:
        super().__init__()
        self.sizes, self.vocoder = PackedLayout(hidden_dim).sizes, baked(vocoder)
        for module in self.vocoder.modules():
            if isinstance(module, AdaIN1d):
                module.__class__ = CenteredNorm
        in_parts(self.vocoder)

    def forward(self, features: Tensor, style: Tensor) -> Tensor:
        """As PortableVocoder."""
        asr, f0, energy, _, spectrum = unpack(features, self.sizes)
        waveform: Tensor = self.vocoder(asr, f0, energy, style, spectrum)
        return waveform


def exported(module: nn.Module, config: KokoroConfig) -> PortableFunction:
    """A function of (features, style) as every runtime of files takes it."""
    example = (torch.ones(1, PackedLayout(config.hidden_dim).channels, 1, EXAMPLE_FRAMES + 1), torch.zeros(1, config.style_dim, 1, 1))
    axes = dynamic((FEATURES, 3, "columns"), (WAVEFORM, 3, "samples"))
    longest = {"columns": DEFAULT_BUCKETS[-1] + 1}
    return PortableFunction(module.eval().requires_grad_(False), example, (FEATURES, STYLE), (WAVEFORM,), axes, longest)


@dataclass(frozen=True, eq=False)
class PortableVocoderStage(PortableStage):
    """See core.stage.Stage. `speeches`: utterances that the file is checked with."""

    speeches: tuple[VocoderInputs, ...]

    @cached_property
    def vocoder(self) -> Vocoder:
        """In PyTorch."""
        return Vocoder.of(self.checkpoint)

    def parts(self) -> tuple[Part, ...]:
        """See Stage."""
        return (Part(VOCODER_NAME, self.file_of(VOCODER_NAME)),)

    def function(self, name: str = MAIN) -> PortableFunction:
        """What is exported."""
        graph = PlainVocoder if self.files.plain else PortableVocoder
        return exported(graph(self.vocoder, self.checkpoint.config.hidden_dim), self.checkpoint.config)

    def figures(self, programs: Mapping[str, PortableProgram]) -> list[Figure]:
        """The waveform against PyTorch at several lengths."""
        figures = []
        for speech in self.speeches:
            found = rendered(programs[MAIN], packed(speech, speech.frames), speech.style[:, :, None, None].numpy())
            snr = snr_db(render_reference(self.vocoder, speech), found)
            figures.append(Figure(f"SNR against PyTorch, {speech.frames} frames", snr, LIMIT_SNR_DB, at_least=True))
        return figures

    def contract(self, part: Part) -> dict[str, Any]:
        """See Stage."""
        config, layout = self.checkpoint.config, PackedLayout(self.checkpoint.config.hidden_dim)
        rows = dict(zip(("asr", "f0_hz", "energy", "mask", "spectrum"), layout.sizes, strict=True))
        packing = "each tensor padded with zeros to rows * (frames + 1) values a channel group, row after row; the mask is not read"
        return self.contract_head() | {
            "form": LITERAL,
            "inputs": {
                FEATURES: {"shape": [1, layout.channels, 1, "frames + 1"], "rows": rows, "packing": packing, "dtype": "float32"},
                STYLE: {"shape": [1, config.style_dim, 1, 1], "dtype": "float32"},
            },
            "outputs": {WAVEFORM: {"shape": [1, 1, 1, f"{FRAME_SAMPLES} * frames"], "dtype": "float32", "rate_hz": SAMPLE_RATE_HZ}},
            "source": source_contract(self.vocoder),
        }


def rendered(program: PortableProgram, features: Any, style: Any) -> Any:
    """Waveform [600F]."""
    return program({FEATURES: features, STYLE: style})[WAVEFORM].reshape(-1)
