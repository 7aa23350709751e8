"""Snake without sine: its error in exact and in fp16 arithmetic, what it converts to, and the two benches on a tiny checkpoint."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.random_checkpoint import tiny_config, write_checkpoint
from bench.snake_forms import FORMS, Steps, errors, horner, quintic
from bench.snake_ranges import by_block, half_error, main, random_with_styles, ranges
from core.export import TensorType, convert
from vocoder.windowed.layers import POLYNOMIAL, PolynomialSnake


def test_the_bench_measures_the_form_that_is_built() -> None:
    u = torch.linspace(-9, 9, 10_001, dtype=torch.float64).view(1, 1, 1, -1)
    torch.testing.assert_close(PolynomialSnake()(u), quintic(u, Steps(half=False)), atol=1e-14, rtol=0)


def test_error_in_exact_and_in_fp16_arithmetic() -> None:
    u = torch.linspace(-13, 13, 40_001, dtype=torch.float64).view(1, 1, 1, -1)  # the demo voice reaches 12.4
    exact = u + torch.sin(math.pi * u) ** 2 / math.pi
    assert (PolynomialSnake()(u) - exact).abs().max() < 4e-5
    found = errors(quintic)
    assert found["largest_error"] < 4e-5 and found["fp16_rms_error"] < errors(FORMS["cosine"])["fp16_rms_error"]
    assert all(float(np.float16(value)) == value for value in POLYNOMIAL)


def test_control_a_shorter_form_is_worse_than_fp16() -> None:
    for name in ("q (c (aq+b)^2 + d)", "y (c - y), y = q (aq+b)", "e - (c (q+a)^2 + d)^2"):
        assert errors(FORMS[name])["fp16_rms_error"] > errors(quintic)["fp16_rms_error"]


def test_counted_operations_are_the_converted_ones() -> None:
    class Between(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.form, self.second = torch.nn.Conv2d(4, 4, 1), PolynomialSnake(), torch.nn.Conv2d(4, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.form(self.first(x)))

    sides = {"inputs": [TensorType("x", np.float32, shapes=((1, 4, 2, 8), (1, 4, 3, 8)))], "outputs": [TensorType("y", np.float32)]}
    model = convert(Between(), (torch.randn(1, 4, 2, 8),), **sides, precision="fp16", keep_fp32=(), target="iOS17")
    found = Counter(op.op_type for op in model._mil_program.functions["main"].operations)
    own = {name: count for name, count in found.items() if name not in ("const", "cast", "conv")}
    assert own == {"round": 1, "sub": 1, "mul": 4, "batch_norm": 2, "add": 1}
    assert sum(own.values()) == errors(quintic)["operations"] < errors(horner)["operations"]


def test_half_error() -> None:
    u = torch.linspace(2, 4, 10_001, dtype=torch.float64)[:-1]
    assert (u.half().double() - u).abs().max() == pytest.approx(half_error(3.0), rel=0.01)
    assert half_error(0.0) == 0.0


def test_ranges_follow_alpha() -> None:
    vocoder, inputs = random_with_styles(tiny_config(), None, frames=4)
    before = ranges(vocoder, inputs[:1])
    assert len(before) == 48 and len(by_block(before)) == 8
    first = vocoder.generator.noise_res[0].alpha1[0]
    with torch.no_grad():
        first.alpha.mul_(2)
    after = ranges(vocoder, inputs[:1])
    assert not any(module._forward_pre_hooks for module in vocoder.modules())
    name = "generator.noise_res.0.alpha1.0"
    assert after[name]["largest"] == pytest.approx(2 * before[name]["largest"], rel=1e-5)
    assert before[name]["median"] <= before[name]["quantile"] <= before[name]["largest"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_checkpoint(tmp_path, tiny_config())
    arguments = ["--checkpoint", str(folder), "--small", "--sentences", "1", "--frames", "4"]
    assert main(arguments) == 0
    assert {len(rows) for rows in json.loads(capsys.readouterr().out.splitlines()[-1]).values()} == {48}
    assert main([*arguments, "--voices", str(tmp_path / "none")]) == 2
    assert "holds no voice pack" in capsys.readouterr().err
    assert main(["--sentences", "0"]) == 2
