"""The demo voice as one trainable module, and its checkpoint folder in hexgrad's layout.

voice = DemoVoice.load(DEMO_FOLDER)
waveform = voice.render(utterance, seed=0)  # [600 F] float32
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from core.checkpoint import Checkpoint
from core.config import KokoroConfig
from core.corpus import VOICES, Utterance
from core.layers import Conv, StyleAffine, upstream_state
from core.staging import staged
from core.tensor_files import read_tensors
from encoder.text_encoder import TextEncoder, aligned
from vocoder.decoder import Vocoder
from vocoder.generator import Generator
from vocoder.istft import BINS
from vocoder.source import gaussian_noise

WEIGHTS = "kokoro-demo.pth"
PARTS = ("decoder", "text_encoder")
PACK_ROWS, PREFIX = 510, "module."
PITCH_UNIT_HZ, ENERGY_UNIT = 100.0, 4.0
QUIET_LOG_MAGNITUDE = -3.0


class DemoVoice(nn.Module):
    """Responsibilities: 1. text encoder, voice styles and vocoder as one module; 2. its checkpoint. Durations, F0 and energy are given."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.config = config
        self.text_encoder = TextEncoder(config)
        self.decoder = Vocoder(config)
        self.styles = nn.Parameter(torch.randn(len(VOICES), config.style_dim) * 0.5)

    def forward(self, asr: Tensor, f0_hz: Tensor, energy: Tensor, voices: Tensor, noise: Tensor) -> Tensor:
        """asr [B, hidden, 1, F], f0_hz and energy [B, 2F], voices [B] indices, noise [B, 600F, 9] -> [B, 600F]."""
        spectrum = self.decoder.generator.m_source(f0_hz, noise).to(asr.dtype)
        style = self.styles[voices][..., None, None]  # [B, style, 1, 1]
        wave = self.decoder(asr, f0_hz[:, None, None], energy[:, None, None], style, spectrum)
        return wave[:, 0, 0]

    @torch.no_grad()
    def render(self, utterance: Utterance, seed: int) -> Tensor:
        """[600 F] float32 on the CPU."""
        asr = aligned(self.text_encoder(_row(utterance.input_ids).long(), None), torch.from_numpy(utterance.durations).long())
        voice = torch.tensor([VOICES.index(utterance.voice)])
        return self(asr, _row(utterance.f0_hz), _row(utterance.energy), voice, gaussian_noise(utterance.frames, seed))[0]

    def initialize(self) -> None:
        """Start values that torch's defaults miss: unit gains, a quiet spectrum, pitch and energy scaled to order one (and kept so)."""
        unit_gains(self)
        generator: Generator = self.decoder.generator
        nn.init.constant_(generator.conv_post.bias.data[:BINS], QUIET_LOG_MAGNITUDE)
        nn.init.constant_(generator.m_source.l_linear.weight, 1 / 3)
        nn.init.zeros_(generator.m_source.l_linear.bias)
        _fix_smoother(self.decoder.F0_conv, PITCH_UNIT_HZ)
        _fix_smoother(self.decoder.N_conv, ENERGY_UNIT)
        generator.m_source.requires_grad_(False)

    def save(self, folder: Path) -> None:
        """Write weights in float16 and one pack a voice; config.json is the caller's."""
        (folder / "voices").mkdir(parents=True, exist_ok=True)
        states = {name: upstream_state(getattr(self, name)) for name in PARTS}
        state = {name: {PREFIX + key: tensor.half() for key, tensor in part.items()} for name, part in states.items()}
        with staged(folder / WEIGHTS) as aside:
            torch.save(state, aside)
        for voice, style in zip(VOICES, self.styles.detach(), strict=True):
            row = torch.cat([style, torch.zeros_like(style)]).half()  # [256]: decoder style, prosody style
            with staged(folder / "voices" / f"{voice}.pt") as aside:
                torch.save(row.view(1, 1, -1).expand(PACK_ROWS, 1, -1), aside)

    @classmethod
    def load(cls, folder: Path) -> "DemoVoice":
        """Strict, through core.checkpoint: a missing, extra or mis-shaped tensor is an InputError."""
        checkpoint = Checkpoint.from_folder(folder)
        voice = cls(checkpoint.config)
        for name in PARTS:
            checkpoint.load_part(getattr(voice, name), name)
        voice.styles.data = torch.stack([checkpoint.voice(name)[0, 0, : voice.config.style_dim] for name in VOICES])
        return voice.eval()


def put_parts(folder: Path, parts: dict[str, nn.Module]) -> None:
    """Replace or add these parts in the weights of a checkpoint folder, in float16; the others stay."""
    state = read_tensors(folder / WEIGHTS)
    for name, module in parts.items():
        state[name] = {PREFIX + key: tensor.half() for key, tensor in upstream_state(module).items()}
    with staged(folder / WEIGHTS) as aside:
        torch.save(state, aside)


def put_styles(folder: Path, styles: Tensor, columns: slice) -> None:
    """Replace these columns of every voice's pack: styles [voices, style]; the other half stays."""
    for voice, style in zip(VOICES, styles, strict=True):
        path = folder / "voices" / f"{voice}.pt"
        row = read_tensors(path)[0, 0].clone()  # [256]: decoder style, prosody style
        row[columns] = style.half()
        with staged(path) as aside:
            torch.save(row.view(1, 1, -1).expand(PACK_ROWS, 1, -1), aside)


def unit_gains(module: nn.Module) -> None:
    """Every AdaIN starts as plain instance norm: gain 1 (its bias holds the 1), shift 0."""
    for layer in module.modules():
        if isinstance(layer, StyleAffine):
            nn.init.zeros_(layer.bias)
            nn.init.ones_(layer.bias.data[: layer.channels])


def _row(values) -> Tensor:
    """numpy [N] -> tensor [1, N]."""
    return torch.from_numpy(values)[None]


def _fix_smoother(conv: Conv, unit: float) -> None:
    """Width-3 smoothing to units of `unit`, not trained: raw hertz in the residual path would drown the rest."""
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([0.25, 0.5, 0.25]).view(1, 1, 1, 3) / unit)
        conv.bias.zero_()
    conv.requires_grad_(False)
