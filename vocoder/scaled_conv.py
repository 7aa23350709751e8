"""Convolutions whose input is scaled to fit int8: each channel by a constant, and all channels by
one scale that varies over time.

    conv = ScaledConv(conv, divisor=channel_scales, envelope=TimeVaryingScale(columns=120, cap=3.0))
    # the same result, but for a ripple of some -40 dB where the scale moves
    y = conv(x)
    # a scale for every column, exact whatever the kernel's reach
    conv = PerColumnScaledConv(conv, floor=0.01)

One int8 step for a whole tensor has to fit the loudest syllable, and its noise drowns the pauses.
So x is divided by a smooth envelope e(t) before it is rounded, and the convolution's result is
multiplied by it. That is exact where e is constant over the kernel; e moves over frames, and the
kernels reach a quarter of one at most. Where they reach further (the decoder: one column a frame,
kernels of three), each tap becomes output channels: a product of one column needs no constant e,
and the taps are shifted and summed after the multiplication by e. These are standard operations;
those of e are on one channel, most on one value a frame. The modules' attributes and the variables
of their `forward` name the values of a built package.
"""

from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import Conv, read_by

# factors of the columns a frame: pooling kernels of these sizes are within every chip's limit
FACTORS = MappingProxyType({120: (4, 5, 6), 20: (4, 5)})
RANGE = 200.0  # how far below the cap the scale falls
WIDTH = 3  # frames: of the running maximum, and of the mean after it


class Ramp(nn.Module):
    """Linear interpolation to `rate` times as many columns: [1, 1, R, n] -> [1, 1, R, rate n].
    Wrong within half a value of the ends.
    """

    weight: Tensor

    def __init__(self, rate: int) -> None:
        super().__init__()
        # An even rate has no centre tap: its taps lie half a column off.
        reach = rate - 0.5 * (1 + rate % 2)
        centres = torch.linspace(-reach, reach, 2 * rate - rate % 2)
        self.rate = rate
        self.register_buffer("weight", (1 - centres.abs() / rate).view(1, 1, 1, -1))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(x, self.weight, None, (1, self.rate), (0, self.rate // 2))


class TimeVaryingScale(nn.Module):
    """The logarithm of a smooth envelope over x's channels: [1, C, R, W] -> [1, 1, R, W].

    It is the largest magnitude in each frame, up to `cap`; the largest of three frames; the mean
    logarithm of three of these, interpolated.
    """

    def __init__(self, columns: int, cap: float) -> None:
        super().__init__()
        self.columns, self.cap = columns, cap
        self.rise = nn.ModuleList(Ramp(rate) for rate in reversed(FACTORS[columns]))

    def forward(self, x: Tensor) -> Tensor:
        """x [1, C, R, W], which may end within a frame -> [1, 1, R, W]."""
        # [1, 1, R, W]
        level = torch.maximum(x.amax(dim=1, keepdim=True), -x.amin(dim=1, keepdim=True))
        for factor in FACTORS[self.columns]:
            # ceil_mode, because x may end within a frame
            level = F.max_pool2d(level, (1, factor), (1, factor), ceil_mode=True)
        level = self.compute_envelope(level)
        # Constants: a length read off x becomes int16 in the package, and 117,601 columns do not
        # fit. The surplus is the same at every length of a layout.
        surplus = int(level.shape[3]) - self.columns - int(x.shape[3])
        return level[..., self.columns : -surplus]

    def compute_envelope(self, level: Tensor) -> Tensor:
        """The largest magnitude of each frame [1, 1, R, n] -> the logarithm [1, 1, R, columns (n +
        2) or more]; x begins at `columns`.
        """
        # [1, 1, R, n]
        level = F.max_pool2d(
            level.clamp(self.cap / RANGE, self.cap), (1, WIDTH), (1, 1), (0, WIDTH // 2)
        )
        first = level[..., :1]
        last = level[..., -1:]
        # The ends are repeated twice, so that neither mean nor ramps read beyond them.
        level = torch.log(torch.cat([first, first, level, last, last], dim=3))
        level = F.avg_pool2d(level, (1, WIDTH), (1, 1))  # [1, 1, R, n + 2]
        for ramp in self.rise:
            level = ramp(level)
        return level


class ColumnScale(nn.Module):
    """The logarithm of each column's largest magnitude over the channels, `floor` at least: [1, C,
    R, W] -> [1, 1, R, W].
    """

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, x: Tensor) -> Tensor:
        """x [1, C, R, W] -> [1, 1, R, W]."""
        # The largest magnitude, without a tensor of magnitudes.
        level = torch.maximum(x.amax(dim=1, keepdim=True), -x.amin(dim=1, keepdim=True))
        return torch.log(level.clamp(min=self.floor))


class TapSum(nn.Module):
    """Sums the products of a convolution's taps, each shifted by its place in the kernel: [1, out
    taps, R, W] -> [1, out, R, W].
    """

    weight: Tensor

    def __init__(self, out: int, taps: int) -> None:
        super().__init__()
        self.out = out
        self.reach = taps // 2
        # [out, taps, 1, taps]
        self.register_buffer("weight", torch.eye(taps).repeat(out, 1, 1)[:, :, None])

    def sum_blocks(self, y: Tensor, bias: Tensor | None) -> Tensor:
        """y [1, out taps, R, W] -> [1, out, R, W]."""
        return F.conv2d(y, self.weight, bias, padding=(0, self.reach), groups=self.out)


class ScaledConv(Conv):
    """A convolution that renders the same as `conv`. Its input's channels are divided by `divisor`
    [C], which the weights take, and then by `envelope`, an e(t) that its result is multiplied by.
    """

    reciprocal: Tensor | None
    taps: TapSum | None

    def __init__(
        self, conv: Conv, divisor: Tensor | None = None, envelope: nn.Module | None = None
    ) -> None:
        super().__init__(
            conv.in_channels,
            conv.out_channels,
            conv.kernel_size[1],
            stride=conv.stride[1],
            padding=int(conv.padding[1]),
            dilation=conv.dilation[1],
            bias=conv.bias is not None,
        )
        weight = conv.weight.detach()
        reciprocal = conv.reciprocal if isinstance(conv, ScaledConv) else None
        if divisor is not None:
            # What the input is divided by, the weights are multiplied by: [1, in, 1, 1].
            factor = divisor.double().view(1, -1, 1, 1)
            weight = (weight.double() * factor).float()
            reciprocal = (1 / factor).float()
        self.weight.data = weight.clone()
        if conv.bias is not None and self.bias is not None:
            self.bias.data = conv.bias.detach().clone()
        # None also where x is rounded and there is no envelope: the rounding's steps have it then
        # (quantize/level.py).
        self.register_buffer("reciprocal", reciprocal)
        self.envelope, self.taps = envelope, None

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, R, S] -> [1, out, R, S / stride]."""
        x = x if self.reciprocal is None else x * self.reciprocal
        if self.envelope is None:
            return self._run_conv(x, self.bias)
        level = self.envelope(x)
        divided = x * torch.exp(-level)
        # a name of its own: coremltools finds no operation that it calls var_N itself
        result = self._run_conv(divided, None)
        y = result * torch.exp(level)
        if self.taps is not None:
            return self.taps.sum_blocks(y, self.bias)
        # The bias is no part of what was divided, and comes last.
        return y if self.bias is None else y + self.bias.view(1, -1, 1, 1)

    def _run_conv(self, x: Tensor, bias: Tensor | None) -> Tensor:
        x = read_by(self, x)
        # While a graph is written down, the names of what is multiplied here are the package's.
        if torch.jit.is_tracing():
            return F.conv2d(x, self.weight, bias, self.stride, self.padding, self.dilation)
        return self._conv_forward(x, self.weight, bias)


class PerColumnScaledConv(ScaledConv):
    """A ScaledConv with a scale for every column, which is exact: the taps of `conv` are output
    channels of one column's product and are summed afterwards.
    """

    def __init__(self, conv: Conv, floor: float) -> None:
        super().__init__(conv, envelope=ColumnScale(floor))
        out, inner, _, count = conv.weight.shape
        # of width 2n + 1, as wide as x
        assert conv.stride[1] == conv.dilation[1] == 1
        assert conv.padding[1] == count // 2
        assert count % 2
        # [out taps, in, 1, 1]
        self.weight.data = (
            conv.weight.detach().permute(0, 3, 1, 2).reshape(out * count, inner, 1, 1).clone()
        )
        self.padding = (0, 0)
        self.kernel_size = (1, 1)
        self.taps = TapSum(out, count) if count > 1 else None
