"""Integer products in the .onnx file: each convolution against its own arithmetic written down, in PyTorch and in ONNX Runtime; the share
that is counted; processors that cannot.

python -m pytest tests/test_runtimes_integers.py -q
"""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.layers import Conv
from kokoro_ane.runtimes.exported import dynamic
from kokoro_ane.runtimes.onnx import onnx_file
from kokoro_ane.runtimes.onnx.integer_conv import INT8, IntegerConv
from kokoro_ane.runtimes.portable import PortableFunction
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.eager import EagerVocoder, FrozenConv, Place, places
from kokoro_ane.vocoder.scaled_conv import PerColumnScaledConv, ScaledConv, TimeVaryingScale, input_factor

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

INNER, OUT = 12, 20
EXACT = pytest.mark.skipif(not onnx_file.are_exact(), reason="ONNX Runtime loses bits of integer sums on this processor: refused")


def conv_of(kind: str, seed: int) -> tuple[Conv, float]:
    """A convolution as the recipe prepares it, and the range of what it reads."""
    torch.manual_seed(seed)
    divisor = torch.rand(INNER) + 0.5
    if kind == "strided":
        return ScaledConv(Conv(INNER, OUT, 12, stride=6, padding=3), divisor), 3.0
    if kind == "columns":
        return PerColumnScaledConv(ScaledConv(Conv(INNER, OUT, 3, padding=1, bias=False), divisor), floor=0.01), 1.0
    conv = Conv(INNER, OUT, 7, dilation=3, padding=9)
    return {
        "plain": (conv, 3.0),
        "balanced": (ScaledConv(conv, divisor), 3.0),
        "following": (ScaledConv(conv, envelope=TimeVaryingScale(20, cap=4.0)), 1.0),
    }[kind]


KINDS = ("plain", "balanced", "following", "columns", "strided")
LENGTHS = (47, 120, 333)


def rounded(conv: Conv, x: Tensor, size: float) -> Tensor:
    """The same convolution of rounded weights and inputs, without the module under test."""
    exact, step = copy.deepcopy(conv), size / INT8
    steps = exact.weight.detach().abs().amax(dim=(1, 2, 3), keepdim=True) / INT8
    exact.weight.data = torch.round(exact.weight.detach() / steps) * steps
    prepared = input_factor(conv, x)
    whole: Tensor = exact(torch.round(x * prepared / step).clamp(-128, 127) * step / prepared)
    return whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", LENGTHS)
def test_it_is_the_convolution_of_rounded_values(kind: str, steps: int) -> None:
    conv, size = conv_of(kind, seed=steps)
    x = torch.randn(1, INNER, 1, steps) * torch.linspace(0.05, 1.0, steps)
    module = IntegerConv(conv, size, Place("x"))
    assert snr_db(conv(x).detach(), module(x)) > 20, "int8 is near"
    assert snr_db(rounded(conv, x, size).detach(), module(x)) > 45, "as written down, but for a code on an edge"


def test_what_the_graph_has_folded_is_put_back() -> None:
    """Snake's alpha times the input, a factor behind, a constant that a norm takes off: all three, and each alone would be heard."""
    conv, size = conv_of("following", seed=3)
    x, alpha = torch.randn(1, INNER, 1, 120), torch.rand(INNER) * 3 + 0.2
    module = IntegerConv(conv, size, Place("x", alpha, outer=0.5, centred=True))
    assert conv.bias is not None
    wanted = (conv(x) - conv.bias.view(1, -1, 1, 1)) * 0.5
    assert snr_db(wanted.detach(), module(x * alpha.view(1, -1, 1, 1))) > 25
    assert snr_db(wanted.detach(), module(x)) < 15 and snr_db(conv(x).detach(), module(x * alpha.view(1, -1, 1, 1))) < 10


@EXACT
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_runtime_computes_it_at_every_length(kind: str, tmp_path: Path) -> None:
    conv, size = conv_of(kind, seed=1)
    module = IntegerConv(conv, size, Place("x"))
    axes = dynamic(("x", 3, "columns"), ("y", 3, "steps"))
    function = PortableFunction(module, (torch.randn(1, INNER, 1, 100),), ("x",), ("y",), axes, {"columns": 400})
    onnx_file.write(function, tmp_path / "conv.onnx")
    nodes = [node.op_type for node in onnx.load(tmp_path / "conv.onnx").graph.node]
    assert nodes.count("ConvInteger") == 1 and "QuantizeLinear" in nodes
    program = onnx_file.OnnxProgram(tmp_path / "conv.onnx", ("y",))
    for steps in LENGTHS:
        x = torch.randn(1, INNER, 1, steps)
        assert snr_db(module(x).numpy(), program({"x": x.numpy()})["y"]) > 50  # a code on a rounding edge may fall to the other side


def test_places_name_every_convolution_and_what_it_holds(tiny_checkpoint: Checkpoint) -> None:
    vocoder = Vocoder.of(tiny_checkpoint)
    eager, known = EagerVocoder(vocoder), places(vocoder)
    held = {name for name, module in eager.named_modules() if isinstance(module, FrozenConv)}
    assert held - set(known) == {"f0_conv", "energy_conv", "generator.conv_post"} and set(known) <= held
    for name, place in known.items():
        weight = vocoder.get_submodule(place.path).weight.detach() * place.outer
        weight = weight if place.alpha is None else weight / place.alpha.view(1, -1, 1, 1)
        assert torch.allclose(eager.get_submodule(name).weight, weight, rtol=1e-5), name


def test_a_centred_place_may_lose_any_constant(tiny_checkpoint: Checkpoint) -> None:
    vocoder = Vocoder.of(tiny_checkpoint)
    given = (torch.randn(1, tiny_checkpoint.config.hidden_dim, 1, 20), torch.full((1, 1, 1, 40), 120.0), torch.randn(1, 1, 1, 40))
    given = (*given, torch.randn(1, tiny_checkpoint.config.style_dim, 1, 1), torch.randn(1, 22, 1, 2401))

    def rendered(centred: bool) -> np.ndarray:
        eager = EagerVocoder(vocoder)
        for name, place in places(vocoder).items():
            bias = eager.get_submodule(name).bias
            if place.centred == centred and bias is not None:
                bias += 0.5
        with torch.no_grad():
            return eager(*given).numpy()

    with torch.no_grad():
        wanted = EagerVocoder(vocoder)(*given).numpy()
    assert snr_db(wanted, rendered(centred=True)) > 70 and snr_db(wanted, rendered(centred=False)) < 40


class Three(nn.Module):
    """A float convolution, a transposed one and one on integers."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.up = nn.Conv2d(4, INNER, (1, 5), padding=(0, 2)), nn.ConvTranspose2d(INNER, INNER, (1, 4), (1, 2), (0, 1))
        self.whole = IntegerConv(Conv(INNER, OUT, 3, padding=1), 3.0, Place("x"))

    def forward(self, x: Tensor) -> Tensor:
        return self.whole(self.up(self.plain(x)))


def test_the_share_of_multiply_accumulates_is_counted(tmp_path: Path) -> None:
    from kokoro_ane.runtimes.onnx.onnx_file import int8_macs_share

    axes = dynamic(("x", 3, "columns"), ("y", 3, "steps"))
    onnx_file.write(
        PortableFunction(Three().eval(), (torch.randn(1, 4, 1, 30),), ("x",), ("y",), axes, {"columns": 99}), tmp_path / "x.onnx"
    )
    plain, up, whole = 4 * INNER * 5, INNER * INNER * 4, INNER * OUT * 3 * 2  # multiply-accumulates a column of the input
    assert int8_macs_share(onnx.load(tmp_path / "x.onnx")) == pytest.approx(whole / (plain + up + whole), abs=1e-4)


def probe() -> bytes:
    """What runtimes/onnx/data/integer_probe.onnx holds."""
    helper, kinds, shape = onnx.helper, onnx.TensorProto, (1, onnx_file.CHANNELS, 1, 1)
    weights = np.full((onnx_file.CHANNELS, *shape[1:]), onnx_file.LARGEST_WEIGHT, np.uint8)
    stored = {"w": weights, "z": np.int8(0), "m": np.uint8(onnx_file.MIDDLE)}
    tensors = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    ends = ([helper.make_tensor_value_info(*end, shape)] for end in (("x", kinds.INT8), ("y", kinds.INT32)))
    graph = helper.make_graph([helper.make_node("ConvInteger", ["x", "w", "z", "m"], ["y"])], "probe", *ends, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", onnx_file.OPSET)], ir_version=8, producer_name="kokoro-ane")
    return model.SerializeToString()


def test_a_processor_that_saturates_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that says nothing of integers opens there; one that has their products is refused in one line."""
    assert Path(onnx_file.__file__).with_name("data").joinpath("integer_probe.onnx").read_bytes() == probe()
    model = onnx.load_from_string(probe())
    onnx.save(model, tmp_path / "plain.onnx")
    onnx.helper.set_model_props(model, {onnx_file.INTEGERS: "1"})
    onnx.save(model, tmp_path / "whole.onnx")
    if onnx_file.are_exact():
        onnx_file.OnnxProgram(tmp_path / "whole.onnx", ("y",))
    monkeypatch.setattr(onnx_file, "sums", lambda: np.full((1, 64, 1, 1), -64 * 32768 // 2, np.int32))
    onnx_file.are_exact.cache_clear()
    try:
        onnx_file.OnnxProgram(tmp_path / "plain.onnx", ("y",))
        with pytest.raises(InputError, match="loses bits of their sums on this processor: use w8 or fp32"):
            onnx_file.OnnxProgram(tmp_path / "whole.onnx", ("y",))
    finally:
        onnx_file.are_exact.cache_clear()


@EXACT
@pytest.mark.parametrize("biased", [True, False])
def test_blocks_are_the_same_bits_at_every_length(biased: bool, tmp_path: Path) -> None:
    from kokoro_ane.runtimes.onnx.integer_conv import BLOCK, in_blocks
    from kokoro_ane.runtimes.onnx.onnx_file import int8_macs_share, operations

    conv, size = conv_of("following", seed=2)
    module = nn.Sequential(nn.Conv2d(INNER, INNER, 1), IntegerConv(conv, size, Place("x", centred=not biased)))
    axes = dynamic(("x", 3, "columns"), ("y", 3, "steps"))
    onnx_file.write(PortableFunction(module, (torch.randn(1, INNER, 1, 100),), ("x",), ("y",), axes, {}), tmp_path / "whole.onnx")
    model = onnx.load(tmp_path / "whole.onnx")
    before = operations(model), int8_macs_share(model)
    in_blocks(model, "1")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "blocks.onnx")
    assert operations(model)["Loop"] == 1 and operations(model)["ConvInteger"] == before[0]["ConvInteger"] == 1
    assert int8_macs_share(model) == before[1] > 0.9
    whole, blocks = (onnx_file.OnnxProgram(tmp_path / f"{name}.onnx", ("y",)) for name in ("whole", "blocks"))
    for steps in (1, 21, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7):
        x = torch.randn(1, INNER, 1, steps).numpy()
        assert np.array_equal(whole({"x": x})["y"], blocks({"x": x})["y"]), steps
    with pytest.raises(CheckFailed, match="0 is no convolution of integers with an envelope: nothing"):
        in_blocks(model, "0")
