"""The AdaIN residual block that the vocoder's decoder and the encoder's F0 and energy branches share: one definition.

    block = AdainResBlk1d(514, 1024, style_dim=128)
    y, mask = block(x, style, mask)

Source: upstream kokoro/istftnet.py, AdainResBlk1d, in (B, C, 1, S).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.layers import AdaIN1d, Conv, ConvTranspose, Mask, masked

LEAKY_SLOPE = 0.2
HALF_POWER = 1 / math.sqrt(2)


class AdainResBlk1d(nn.Module):
    """Residual block of two AdaIN convolutions of width 3; `upsample=True` doubles the rate."""

    def __init__(self, inner: int, out: int, style_dim: int, *, upsample: bool = False) -> None:
        super().__init__()
        self.conv1 = Conv(inner, out, 3, padding=1)
        self.conv2 = Conv(out, out, 3, padding=1)
        self.norm1 = AdaIN1d(style_dim, inner)
        self.norm2 = AdaIN1d(style_dim, out)
        self.conv1x1 = Conv(inner, out, 1, bias=False) if inner != out else None
        self.pool = ConvTranspose(inner, inner, 3, stride=2, padding=1, output_padding=1, groups=inner) if upsample else None

    def forward(self, x: Tensor, style: Tensor, mask: Mask | None) -> tuple[Tensor, Mask | None]:
        """x [B, inner, 1, S] -> [B, out, 1, S or 2S] and the mask at the new rate."""
        h = masked(F.leaky_relu(self.norm1(x, style, mask), LEAKY_SLOPE), mask)
        if self.pool is not None:
            h = self.pool(h)  # [B, inner, 1, 2S]
            x = F.interpolate(x, scale_factor=(1.0, 2.0), mode="nearest")
            mask = mask.upsampled(2) if mask is not None else None
            h = masked(h, mask)
        h = self.norm2(self.conv1(h), style, mask)
        h = self.conv2(masked(F.leaky_relu(h, LEAKY_SLOPE), mask))
        shortcut = x if self.conv1x1 is None else self.conv1x1(x)
        return (h + shortcut) * HALF_POWER, mask


def concatenate(*parts: Tensor) -> Tensor:
    """Join [B, C_i, 1, S] along channels."""
    return torch.cat(parts, dim=1)
