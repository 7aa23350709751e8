"""A prepared convolution whose product is of integers, in operations that ONNX has: QuantizeLinear,
ConvInteger, DequantizeLinear.

    conv = IntegerConv(prepared, form, size=1.0, place=place)
    replace_module(eager, "generator.resblocks.3.convs1.0.conv", conv)

It renders what vocoder/scaled_conv.py's convolution renders of rounded values: inputs divided by
their envelope, of one int8 step a channel (balance, Snake's alpha and the range in one number);
int8 weights of one step an output channel. Weights are stored as uint8 around 128: ONNX Runtime's
fast kernel wants unsigned weights and signed inputs (signed weights: ten times slower).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core import Conv
from kokoro_ane.quantize import Integers
from kokoro_ane.vocoder import ColumnScale, Place, ScaledConv, TimeVaryingScale

# the largest int8; the middle of uint8, which stands for zero
INT8, HALF = 127.0, 128


class Rounded(torch.autograd.Function):
    """x [1, C, 1, S] in steps [C] -> int8, half to even, saturating."""

    @staticmethod
    def forward(_: Any, x: Tensor, steps: Tensor, zeros: Tensor) -> Tensor:
        """In PyTorch. `zeros` [C]: the zero points."""
        # [C] -> [1, C, 1, 1]; torch.round takes halves to even, as QuantizeLinear does.
        whole = torch.round(x / steps.view(1, -1, 1, 1)) + zeros.view(1, -1, 1, 1)
        return whole.clamp(-INT8 - 1, INT8).to(torch.int8)

    @staticmethod
    def symbolic(g: Any, x: Any, steps: Any, zeros: Any) -> Any:
        """In ONNX."""
        # The exporter knows no type for this operation, and what follows needs one.
        return g.op("QuantizeLinear", x, steps, zeros, axis_i=1).setType(
            x.type().with_dtype(torch.int8)
        )


class Product(torch.autograd.Function):
    """int8 [1, in, 1, S] and uint8 weights around 128 [out, in, 1, k] -> the sums times `steps`
    [out], float32 [1, out, 1, S / stride].
    """

    @staticmethod
    def forward(
        _: Any,
        x: Tensor,
        weight: Tensor,
        middle: Tensor,
        steps: Tensor,
        geometry: tuple[int, int, int],
    ) -> Tensor:
        """In PyTorch."""
        stride, padding, dilation = geometry
        # float64 holds every sum of int8 products exactly
        whole = F.conv2d(
            x.double(), weight.double() - middle, None, (1, stride), (0, padding), (1, dilation)
        )
        return whole.float() * steps.view(1, -1, 1, 1)

    @staticmethod
    def symbolic(
        g: Any,
        x: Any,
        weight: Any,
        middle: Any,
        steps: Any,
        geometry: tuple[int, int, int],
    ) -> Any:
        """In ONNX."""
        stride, padding, dilation = geometry
        zero = g.op("Constant", value_t=torch.zeros((), dtype=torch.int8))
        places = {
            # [top, left, bottom, right]
            "pads_i": [0, padding, 0, padding],
            "strides_i": [1, stride],
            "dilations_i": [1, dilation],
        }
        whole = g.op("ConvInteger", x, weight, zero, middle, **places)
        outputs = weight.type().sizes()[0]
        # An int32 sum times its channel's step is what DequantizeLinear computes.
        return g.op("DequantizeLinear", whole, steps, axis_i=1).setType(
            steps.type().with_sizes([1, outputs, 1, None])
        )


class IntegerConv(nn.Module):
    """`conv` on the integers of `form`. `size`: the range of its prepared input; `place`: the
    factors that the graph around it has folded.
    """

    weight: Tensor
    middle: Tensor
    input_steps: Tensor
    input_zeros: Tensor
    output_steps: Tensor
    reciprocal: Tensor
    bias: Tensor | None

    def __init__(self, conv: Conv, form: Integers, size: float, place: Place) -> None:
        super().__init__()
        # The input lies in [-size, size], which is cut into 127 steps on either side.
        step = size / INT8
        steps = form.scale.double().flatten()  # [out], of the weights
        # int8 would overflow at + 128, so the sum is taken in int16.
        self.register_buffer("weight", (form.values.short() + HALF).to(torch.uint8))
        self.register_buffer("middle", torch.tensor(HALF, dtype=torch.uint8))
        # The step of a sum is that of a weight times that of an input, and what is folded behind
        # it.
        self.register_buffer("output_steps", (steps * step * place.outer).float())
        prepared = conv if isinstance(conv, ScaledConv) else None
        self.envelope, self.taps = (prepared.envelope, prepared.taps) if prepared else (None, None)
        # what the channels are multiplied by before they are rounded
        channels = torch.ones(form.values.shape[1], dtype=torch.float64)
        if prepared is not None and prepared.reciprocal is not None:
            channels = prepared.reciprocal.double().flatten()
        # What the graph has left in a channel, such as Snake's alpha, is divided out here.
        if place.alpha is not None:
            channels = channels / place.alpha.double()
        self.register_buffer("reciprocal", channels.float().view(1, -1, 1, 1))
        # A factor on the channel is a finer step of it, so it costs no operation.
        self.register_buffer("input_steps", (step / channels).float())
        self.register_buffer("input_zeros", torch.zeros(len(channels), dtype=torch.int8))
        # AdaIN takes off any constant of what it reads, so a bias before it is left out.
        self.register_buffer(
            "bias", None if conv.bias is None or place.centred else conv.bias.detach() * place.outer
        )
        # stride, padding and dilation along time
        self.geometry = int(conv.stride[1]), int(conv.padding[1]), int(conv.dilation[1])

    def forward(self, x: Tensor) -> Tensor:
        """[1, in, 1, S] -> [1, out, 1, S / stride]."""
        level = self.level(x)
        x = x if level is None else x * (1 / level)
        whole = Rounded.apply(x, self.input_steps, self.input_zeros)
        y = Product.apply(
            whole,
            self.weight,
            self.middle,
            self.output_steps,
            self.geometry,
        )
        # Multiplied back column by column, before taps of different columns are added.
        y = y if level is None else y * level
        if self.taps is not None:
            return self.taps.sum_blocks(y, self.bias)
        return y if self.bias is None else y + self.bias.view(1, -1, 1, 1)

    def level(self, x: Tensor) -> Tensor | None:
        """The envelope of what is prepared of x, [1, 1, 1, S]: maxima over time first, so that
        channels are multiplied once a frame.
        """
        if isinstance(self.envelope, ColumnScale):
            return (
                (x.abs() * self.reciprocal).amax(dim=1, keepdim=True).clamp(min=self.envelope.floor)
            )
        if not isinstance(self.envelope, TimeVaryingScale):
            return None
        columns = self.envelope.columns
        # [1, in, 1, n]
        frames = F.max_pool2d(x.abs(), (1, columns), (1, columns), ceil_mode=True) * self.reciprocal
        # the envelope is smoothed over frames, then read column by column
        smooth = self.envelope.compute_envelope(frames.amax(dim=1, keepdim=True))
        # The envelope begins one frame early; [1, 1, 1, S] of it lies over x.
        return torch.exp(smooth[..., columns : columns + x.shape[3]])
