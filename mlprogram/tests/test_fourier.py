"""A long row's convolution in fewer products: what it computes, and where it is not taken."""

import pytest
import torch

from mlprogram import can_convolve_row, convolve_row
from mlprogram.ops.conv import CONV

STEPS = 5000
# as near as the direct sum in float32 comes (118 to 138 dB)
LEAST_DB = 110


def draw(steps=STEPS, kernel=11, channels=64, out=64):
    """A row [1, C, 1, S], weights [O, C, 1, K] and a bias [O]."""
    generator = torch.Generator().manual_seed(steps + kernel)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    return normal(1, channels, 1, steps), normal(out, channels, 1, kernel), normal(out)


def sum_exactly(x, weight, bias, padding, dilation):
    bias = None if bias is None else bias.double()
    return torch.conv2d(x.double(), weight.double(), bias, 1, (0, padding), (1, dilation))


def agreement_db(y, exact):
    return 10 * torch.log10(exact.square().mean() / (y - exact).square().mean()).item()


@pytest.mark.parametrize("kernel", [7, 8, 11, 40])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("padding", [0, 5])
def test_it_is_as_near_as_a_direct_sum(kernel, dilation, padding):
    x, weight, bias = draw(kernel=kernel, out=96)
    exact = sum_exactly(x, weight, bias, padding, dilation)
    y = convolve_row(x, weight, bias, padding, dilation)
    assert y.shape == exact.shape
    assert agreement_db(y, exact) > LEAST_DB


@pytest.mark.parametrize("steps", [1, 11, 22, 23, 2816, 2817])
def test_rows_of_any_length(steps):
    x, weight, _ = draw(steps)
    exact = sum_exactly(x, weight, None, 5, 1)
    assert agreement_db(convolve_row(x, weight, None, 5, 1), exact) > LEAST_DB


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_spreads_as_far_as_the_kernel(value):
    x, weight, bias = draw()
    x[0, 3, 0, 2000] = value
    y = convolve_row(x, weight, bias, 5, 1)
    assert (~y.isfinite()).any(dim=1).flatten().nonzero().flatten().tolist() == [*range(1995, 2006)]


@pytest.mark.parametrize("height", [0, 1])
def test_an_executed_row_takes_it(height, monkeypatch):
    """Of one dimension, and of two."""
    taken = []

    def note(*arguments):
        taken.append(arguments)
        return convolve_row(*arguments)

    monkeypatch.setattr("mlprogram.ops.conv.convolve_row", note)
    x, weight, bias = draw()
    exact = sum_exactly(x, weight, bias, 5, 1)[..., 2:]
    if not height:
        x, weight, exact = x[:, :, 0], weight[:, :, 0], exact[:, :, 0]
    pad = [*[0, 0] * height, 3, 5]
    y = CONV["conv"].run(x, weight, bias, pad_type="custom", pad=pad)
    assert len(taken) == 1
    assert y.shape == exact.shape
    assert agreement_db(y, exact) > LEAST_DB


class TestWhereItIsTaken:
    def test_a_long_row_of_many_channels(self):
        assert can_convolve_row(*draw()[:2], 1, 1)

    @pytest.mark.parametrize(
        "other",
        [
            {"steps": 100},  # the transforms cost more than a short row's products
            {"kernel": 3},
            {"channels": 32},
        ],
    )
    def test_nothing_that_gains_nothing(self, other):
        assert not can_convolve_row(*draw(**other)[:2], 1, 1)

    def test_no_stride(self):
        assert not can_convolve_row(*draw()[:2], 2, 1)

    def test_no_exact_arithmetic(self):
        x, weight, _ = draw()
        assert not can_convolve_row(x.double(), weight.double(), 1, 1)

    def test_no_gradients(self):
        x, weight, _ = draw()
        assert not can_convolve_row(x, weight.requires_grad_(), 1, 1)

    def test_no_graph_that_is_written_down(self):
        x, weight, bias = draw()

        def call(x):
            assert not can_convolve_row(x, weight, 1, 1)
            return torch.conv2d(x, weight, bias)

        torch.jit.trace(call, x, check_trace=False)
