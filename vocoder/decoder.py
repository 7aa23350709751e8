"""The vocoder: features, style and harmonic spectrum to a waveform, equal to upstream's Decoder at any padding.

    waveform = Vocoder(config)(asr, f0, energy, style, spectrum, mask)

Source: upstream kokoro/istftnet.py, Decoder, in (B, C, 1, S) with the source outside.
"""

from torch import Tensor, nn

from core.blocks import AdainResBlk1d, concatenate
from core.checkpoint import Checkpoint
from core.config import KokoroConfig
from core.layers import Conv, Mask, masked
from core.modules import Modules
from vocoder.generator import Generator


class Vocoder(nn.Module):
    """Responsibilities: 1. mix text, pitch and energy at the frame rate; 2. hand them to the generator. Upstream's keys."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        wide, residual, style_dim = config.decoder.hidden_dim, config.decoder.asr_res_dim, config.style_dim
        joined = wide + 2 + residual
        self.encode = AdainResBlk1d(config.hidden_dim + 2, wide, style_dim)
        self.decode = Modules(AdainResBlk1d(joined, wide, style_dim) for _ in range(3))
        self.decode.append(AdainResBlk1d(joined, config.istftnet.upsample_initial_channel, style_dim, upsample=True))
        self.F0_conv = Conv(1, 1, 3, stride=2, padding=1)
        self.N_conv = Conv(1, 1, 3, stride=2, padding=1)
        self.asr_res = nn.Sequential(Conv(config.hidden_dim, residual, 1))
        self.generator = Generator(config)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Vocoder":
        """The checkpoint's vocoder, in float32 and eval mode."""
        return checkpoint.load_part(cls(checkpoint.config), "decoder")

    @property
    def residual_conv(self) -> Conv:
        """The one convolution of `asr_res`, which upstream keeps in a list."""
        conv = self.asr_res[0]
        assert isinstance(conv, Conv)
        return conv

    def forward(self, asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor, spectrum: Tensor, mask: Mask | None = None) -> Tensor:
        """One utterance or a batch of equal length; `mask=None` means no padding.

        Shapes: asr [B, hidden, 1, F]; f0 (Hz) and energy [B, 1, 1, 2F]; style [B, style_dim, 1, 1]; spectrum [B, 22, 1, 120F + 1];
        mask at rate F. Returns [B, 1, 1, 600F] at 24 kHz; beyond the mask the samples mean nothing and are cut by the caller.
        """
        return self.generator(*self._decoded(asr, f0, energy, style, spectrum, mask))

    def trunk(self, asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor, spectrum: Tensor, mask: Mask | None = None) -> Tensor:
        """As forward, up to what the generator's conv_post reads: [B, C, 1, 120F + 1], 0 beyond the mask."""
        return self.generator.trunk(*self._decoded(asr, f0, energy, style, spectrum, mask))

    def _decoded(
        self, asr: Tensor, f0: Tensor, energy: Tensor, style: Tensor, spectrum: Tensor, mask: Mask | None
    ) -> tuple[Tensor, Tensor, Tensor, Mask | None]:
        """What the generator reads."""
        double = mask.upsampled(2) if mask is not None else None
        asr = masked(asr, mask)
        f0 = masked(self.F0_conv(masked(f0, double)), mask)  # [B, 1, 1, F]
        energy = masked(self.N_conv(masked(energy, double)), mask)
        residual = masked(self.asr_res(asr), mask)
        x, _ = self.encode(concatenate(asr, f0, energy), style, mask)
        for block in self.decode:
            x, mask_out = block(masked(concatenate(x, residual, f0, energy), mask), style, mask)
        return masked(x, mask_out), style, spectrum, mask_out
