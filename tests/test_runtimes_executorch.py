"""What makes ExecuTorch's files possible: LSTMs as loops, norms in two passes; its runtime where it is installed; NaN counted."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import AdaIN1d, Conv
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder.albert import Layer
from kokoro_ane.encoder.functions import DurationFunction, Encoder
from kokoro_ane.encoder.lstm import PrefixLSTM, ScanLSTM
from kokoro_ane.pipeline.build import main as build_stage
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.executorch.pte_file import PteProgram, by_name, write
from kokoro_ane.runtimes.exported import CenteredNorm, PartedConv, in_parts, plain
from kokoro_ane.runtimes.portable import PortableFunction
from kokoro_ane.runtimes.registry import open_runtime
from kokoro_ane.vocoder.decoder import Vocoder

needs_executorch = pytest.mark.skipif(importlib.util.find_spec("executorch") is None, reason="executorch is an extra")


@pytest.mark.parametrize("steps", [1, 2, 19])
def test_a_loop_is_the_lstm(steps: int) -> None:
    torch.manual_seed(0)
    lstm, x = PrefixLSTM(6, 4).eval(), torch.randn(1, steps, 6)
    with torch.no_grad():
        assert torch.allclose(ScanLSTM(lstm)(x, None), lstm(x, None), atol=1e-6)


def test_every_lstm_and_gelu_of_the_encoder_is_replaced(tiny_checkpoint: Checkpoint) -> None:
    function = DurationFunction(Encoder.of(tiny_checkpoint)).eval()
    ids, style = torch.arange(1, 12, dtype=torch.int32)[None], torch.randn(1, tiny_checkpoint.config.style_dim)
    copied = plain(function)
    assert not any(isinstance(module, PrefixLSTM) or type(module) is Layer for module in copied.modules())
    with torch.no_grad():
        for ours, theirs in zip(copied(ids, style, torch.ones(1)), function(ids, style, torch.ones(1)), strict=True):
            assert snr_db(theirs.numpy(), ours.numpy()) > 100


def test_the_centered_norm_is_adain_and_finite_where_nothing_varies() -> None:
    torch.manual_seed(0)
    norm, style = AdaIN1d(4, 3).eval(), torch.randn(1, 4, 1, 1)
    speech, constant = torch.randn(1, 3, 1, 50), torch.full((1, 3, 1, 50), 217.3)
    with torch.no_grad():
        wanted = norm(speech, style, None)
        norm.__class__ = CenteredNorm
        assert torch.allclose(norm(speech, style, None), wanted, atol=1e-5)
        assert torch.isfinite(norm(constant, style, None)).all()


@pytest.mark.parametrize("channels", [1, 3, 7, 8])
def test_a_convolution_in_parts_is_the_convolution(channels: int) -> None:
    torch.manual_seed(0)
    conv, x = Conv(8, 5, 3, stride=2, padding=2, dilation=2).eval(), torch.randn(1, 8, 1, 31)
    parted = PartedConv(conv, channels)
    assert max(part.shape[1] for part in parted.weights) == channels
    with torch.no_grad():
        assert torch.allclose(parted(x), conv(x), atol=1e-6)


def test_only_long_sums_are_parted(tiny_checkpoint: Checkpoint) -> None:
    vocoder = Vocoder.of(tiny_checkpoint)
    sums = {path: conv.in_channels * conv.kernel_size[1] for path, conv in vocoder.named_modules() if isinstance(conv, Conv)}
    in_parts(vocoder, longest=max(sums.values()) // 2)
    parted = {path for path, module in vocoder.named_modules() if isinstance(module, PartedConv)}
    assert parted == {path for path, products in sums.items() if products > max(sums.values()) // 2} < set(sums)


def test_values_go_by_name_where_a_file_knows_positions_only() -> None:
    class Difference(torch.nn.Module):
        def forward(self, b: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return b - a, b + a

    ones, twos = torch.ones(1), torch.full((1,), 2.0)
    function = by_name(PortableFunction(Difference(), (ones, twos), ("b", "a"), ("z", "sum"), {}, {}))
    assert (function.inputs, function.outputs) == (("a", "b"), ("sum", "z"))
    assert [float(value) for value in function.module(*function.example)] == [3.0, -1.0]


def test_a_runtime_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch, tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "executorch" else find(name, *rest))
    with pytest.raises(InputError, match=r'^runtime executorch needs executorch, which is not installed: pip install "kokoro-ane\[executo'):
        open_runtime("executorch", Request(tiny_checkpoint, tmp_path))


@needs_executorch
def test_a_norm_of_ours_lowers_and_runs_at_any_length(tmp_path: Path) -> None:
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = AdaIN1d(4, 3)
            self.norm.__class__ = CenteredNorm

        def forward(self, style: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x, style, None)

    block, style = Block().eval(), torch.randn(1, 4, 1, 1)
    function = PortableFunction(block, (style, torch.randn(1, 3, 1, 9)), ("style", "x"), ("y",), {"x": {3: "steps"}}, {"steps": 70})
    write(function, tmp_path / "x.pte")
    program = PteProgram(tmp_path / "x.pte", function.inputs, function.outputs)
    for steps in (3, 9, 70):
        x = torch.randn(1, 3, 1, steps)
        with torch.no_grad():
            wanted = block(style, x).numpy()
        assert snr_db(wanted, program({"style": style.numpy(), "x": x.numpy()})["y"]) > 100
    assert np.isfinite(program({"style": style.numpy(), "x": np.full((1, 3, 1, 70), 217.3, np.float32)})["y"]).all()
    (tmp_path / "y.pte").write_bytes(b"no program")
    with pytest.raises(InputError, match=r"y\.pte is not read by ExecuTorch"):
        PteProgram(tmp_path / "y.pte", (), ())


@pytest.mark.slow
@needs_executorch
def test_the_chain_in_executorch(tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    for stage in ("encoder", "vocoder"):
        assert build_stage([stage, "--runtime", "executorch", "--checkpoint", str(tiny_checkpoint.folder), "--out", str(tmp_path)]) == 0
    from kokoro_ane.eval.levels import facts_of

    manifest = Manifest.load(next(tmp_path.glob("KokoroVocoder-*.json")))
    facts_of(manifest.package_path, 80).require_told(manifest)
