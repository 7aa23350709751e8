"""Tensors of several rows, stored with the channels last: the same numbers as stored the usual way."""

import itertools

import pytest
import torch

from mlprogram.ops.conv import CONV
from mlprogram.ops.reduction import REDUCTION

AXES = [axes for size in (1, 2, 3, 4) for axes in itertools.combinations(range(4), size)]


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("op", ["reduce_mean", "reduce_sum", "reduce_l2_norm", "reduce_max", "reduce_log_sum_exp"])
def test_reductions_do_not_hang_on_the_storage(op: str, keep_dims: bool) -> None:
    x = torch.randn(2, 5, 3, 7, generator=torch.Generator().manual_seed(0))
    stored = x.to(memory_format=torch.channels_last)
    for axes in (*AXES, (-1,), (-3, -1)):
        usual, other = (REDUCTION[op].run(t, axes=list(axes), keep_dims=keep_dims) for t in (x, stored))
        assert other.shape == usual.shape
        torch.testing.assert_close(other, usual)


@pytest.mark.parametrize("channels", [15, 16, 33])
def test_convolution_of_rows(channels: int) -> None:
    generator = torch.Generator().manual_seed(channels)
    x, weight = torch.randn(1, channels, 4, 50, generator=generator), torch.randn(channels, channels, 1, 7, generator=generator)
    bias = torch.randn(channels, generator=generator)
    found = CONV["conv"].run(x, weight, bias, pad_type="custom", pad=[0, 0, 9, 9], dilations=[1, 3])
    exact = torch.conv2d(x.double(), weight.double(), bias.double(), padding=(0, 9), dilation=(1, 3))
    torch.testing.assert_close(found.double(), exact, atol=1e-4, rtol=1e-4)
