"""TVM: what is refused without it; and where it is installed, every kernel of ours against PyTorch
at several lengths, and the chain.

The second half needs apache-tvm (300 MB unpacked): `pip install "kokoro-ane[tvm]"`.
"""

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.layers import NORM_EPSILON, Conv
from kokoro_ane.encoder.lstm import OperatorLSTM, PrefixLSTM, with_operators
from kokoro_ane.runtimes.portable import PortableFunction
from kokoro_ane.runtimes.tvm.library import TvmProgram, processor, write
from tests.commands import refused

needs_tvm = pytest.mark.skipif(
    importlib.util.find_spec("tvm") is None,
    reason="apache-tvm is an extra: .ci/run installs it in an environment of its own",
)
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
    assert processor(f"model name : x\nflags\t\t: {flags}\n", machine) == level


@pytest.mark.parametrize("steps", [1, 2, 19])
def test_the_operator_is_the_lstm(steps):
    torch.manual_seed(0)
    lstm, x = PrefixLSTM(6, 4).eval(), torch.randn(1, steps, 6)
    replaced = with_operators(nn.ModuleList([lstm]))[0]
    assert isinstance(replaced, OperatorLSTM)
    with torch.no_grad():
        assert torch.allclose(replaced(x, None), lstm(x, None), atol=1e-6)


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


def kernels_of():
    return {
        "convolution": OneInput(
            Conv(5, 6, 7, padding=9, dilation=3), nn.LeakyReLU(0.2), Conv(6, 3, 1)
        ),
        "many_inputs": OneInput(Conv(5, 400, 3, padding=1), Conv(400, 4, 11, padding=5)),
        "strided": OneInput(Conv(5, 6, 12, stride=6, padding=12)),
        "transposed": OneInput(nn.ConvTranspose2d(5, 3, (1, 20), stride=(1, 10), padding=(0, 5))),
        "transposed_odd": OneInput(nn.ConvTranspose2d(5, 3, (1, 5), stride=(1, 3), padding=(0, 1))),
        "snake": SnakeNorm(),
        "steps": with_operators(Steps()),
    }


@needs_tvm
@pytest.mark.parametrize("name", list(kernels_of()))
def test_a_kernel_of_ours_says_what_pytorch_says_at_any_length(name, tmp_path):
    torch.manual_seed(0)
    module = kernels_of()[name].eval().requires_grad_(False)
    function = PortableFunction(
        module, (torch.randn(1, 5, 1, 60),), ("x",), ("y",), {"x": {3: "steps"}}, {"steps": 500}
    )
    write(function, tmp_path / "x.so")
    program = TvmProgram(tmp_path / "x.so", ("x",), ("y",))
    for steps in (12, 60, 111, 500):
        x = torch.randn(1, 5, 1, steps) * 3
        found = program({"x": x.numpy()})["y"]
        assert found.shape == module(x).shape
        assert snr_db(module.double()(x.double()).numpy(), found) > 110
        module.float()
    assert np.isfinite(program({"x": np.full((1, 5, 1, 111), 217.3, np.float32)})["y"]).all()


@needs_tvm
def test_an_unreadable_library_is_one_line(tmp_path):
    (tmp_path / "x.so").write_bytes(b"no library")
    refused(r"x\.so is not read by TVM", TvmProgram, tmp_path / "x.so", (), ())
