"""TVM: the processors that a library is for, and every converted operation against PyTorch at
several lengths. The latter needs apache-tvm (300 MB unpacked): `pip install "kokoro-ane[tvm]"`.
"""

import pytest
import torch
from torch import nn

from kokoro_ane.core.layers import NORM_EPSILON, Conv
from kokoro_ane.encoder.lstm import PrefixLSTM, use_lstm_operators
from kokoro_ane.runtimes.tvm import library
from kokoro_ane.runtimes.tvm.library import find_processor
from tests.runtimes.test_portable import compare_at_any_length, needs

V3 = "avx2 bmi2 fma f16c movbe"


@pytest.mark.parametrize(
    ("flags", "machine", "level"),
    [
        (f"fpu {V3}", "x86_64", "x86-64-v3"),
        (f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl", "x86_64", "x86-64-v4"),
        (f"{V3} avx512f", "x86_64", "x86-64-v3"),
        ("fpu sse2", "x86_64", "x86-64"),
        ("", "arm64", "arm64"),
    ],
)
def test_a_library_names_the_processors_it_is_for(flags, machine, level):
    assert find_processor(f"model name : x\nflags\t\t: {flags}\n", machine) == level


class OneInput(nn.Module):
    """Layers in a row on x [1, C, 1, S], or a function."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class SnakeNorm(nn.Module):
    """The chain that becomes one kernel: norm with an affine that is computed, Snake,
    convolution.
    """

    def __init__(self):
        super().__init__()
        self.gain, self.conv = nn.Linear(1, 10), Conv(5, 6, 3, padding=1)

    def forward(self, x):
        gain, shift = self.gain(x.new_ones(1, 1)).flatten().chunk(2)
        u = torch.nn.functional.instance_norm(x, weight=gain, bias=shift, eps=NORM_EPSILON)
        wave = torch.sin(u)
        return self.conv(torch.addcmul(u, wave, wave))


class Steps(nn.Module):
    """Rows [1, T, C] through an LSTM and a product with a weight."""

    def __init__(self):
        super().__init__()
        self.lstm, self.linear = PrefixLSTM(5, 8), nn.Linear(16, 50)

    def forward(self, x):
        return self.linear(self.lstm(x[:, :, 0].transpose(1, 2), None))


MODULES = {
    "convolution": lambda: OneInput(
        Conv(5, 6, 7, padding=9, dilation=3), nn.LeakyReLU(0.2), Conv(6, 3, 1)
    ),
    "many_inputs": lambda: OneInput(Conv(5, 400, 3, padding=1), Conv(400, 4, 11, padding=5)),
    "strided": lambda: OneInput(Conv(5, 6, 12, stride=6, padding=12)),
    "transposed": lambda: OneInput(
        nn.ConvTranspose2d(5, 3, (1, 20), stride=(1, 10), padding=(0, 5))
    ),
    "transposed_odd": lambda: OneInput(
        nn.ConvTranspose2d(5, 3, (1, 5), stride=(1, 3), padding=(0, 1))
    ),
    "snake": SnakeNorm,
    "steps": lambda: use_lstm_operators(Steps()),
}


@needs("tvm")
@pytest.mark.parametrize("name", MODULES)
def test_a_module_computes_what_pytorch_computes_at_any_length(name, tmp_path):
    torch.manual_seed(0)
    module = MODULES[name]().eval().requires_grad_(False)
    compare_at_any_length(library, module, tmp_path, (12, 60, 111, 500), limit_db=110)
