"""Whole networks converted from PyTorch and executed: recurrent, attention and convolution, with
dense and with compressed weights.

    python -m pytest mlprogram/tests/test_networks.py -q

The limit is 100 dB in fp32 against the same PyTorch module, for compressed packages with the
decompressed weights copied into it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import pytest
import torch
from coremltools.converters.mil.frontend.milproto.load import load as load_milproto
from torch import nn

from built import joint, linear, palette, sparse
from mlprogram import Program
from mlprogram.benches.shared import snr_db

LIMIT_DB = 100.0


def convert(
    module: nn.Module,
    shape: tuple[int, ...],
    target: ct.target = ct.target.iOS18,
    precision: str = "FLOAT32",
    flexible: Any = None,
) -> ct.models.MLModel:
    """The module as an ML program with input x, of this shape or of a flexible one, and output
    y.
    """
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(
            module.eval(),
            torch.randn(shape, generator=torch.Generator().manual_seed(1)),
            check_trace=False,
        )
        return ct.convert(
            traced,
            inputs=[ct.TensorType("x", shape=flexible or shape, dtype=np.float32)],
            outputs=[ct.TensorType("y", dtype=np.float32)],
            convert_to="mlprogram",
            minimum_deployment_target=target,
            compute_precision=getattr(ct.precision, precision),
            skip_model_load=True,
        )


def stored(model: ct.models.MLModel, path: Path) -> Path:
    model.save(str(path))
    return path


class BiLstm(nn.Module):
    """Two bidirectional layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


class Gru(nn.Module):
    """One layer; coremltools turns it into a while loop with gather and scatter."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(x)[0]


class Attention(nn.Module):
    """A transformer block written out: attention, residuals, layer norms, gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            t.reshape(2, 7, 4, 4).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(16, dim=-1)
        )
        seen = torch.softmax(q @ k.transpose(-1, -2) / 2, dim=-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(2, 7, 16))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Conv(nn.Module):
    """A small vocoder: convolutions, a transposed one, a Snake, an exponential tail."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.up = (
            nn.Conv2d(16, 32, (1, 7), padding=(0, 3)),
            nn.ConvTranspose2d(32, 32, (1, 8), stride=(1, 4), padding=(0, 2)),
        )
        self.inner, self.last = (
            nn.Conv2d(32, 32, (1, 3), dilation=(1, 3), padding=(0, 3)),
            nn.Conv2d(32, 16, (1, 7), padding=(0, 3)),
        )
        for parameter in self.parameters():
            # the initial weights make every layer quieter than the one before
            parameter.data *= 1.7

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(nn.functional.leaky_relu(self.first(x), 0.1))
        x = x + self.inner(x + torch.sin(2 * x) ** 2 / 2)
        return torch.exp(self.last(x)) - 1


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "BiLSTM": (BiLstm, (2, 9, 6)),
    "GRU": (Gru, (2, 9, 6)),
    "attention": (Attention, (2, 7, 16)),
    "convolution": (Conv, (1, 16, 1, 20)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network_agrees_with_pytorch(name: str, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    module = make().eval()
    path, x = (
        stored(convert(module, shape, ct.target.iOS17), tmp_path / "n.mlpackage"),
        torch.randn(shape),
    )
    with torch.no_grad():
        reference = module(x)
    figures = {
        precision: snr_db(reference, Program(path, precision=precision)({"x": x})["y"])
        for precision in ("declared", "exact", "exact64")
    }
    assert min(figures.values()) >= LIMIT_DB, figures


@pytest.mark.parametrize("name", NETWORKS)
def test_reader_sees_what_coremltools_reads(name: str, tmp_path: Path) -> None:
    """The own reader of the protobuf against coremltools' milproto.load: the same operations, types
    and constants, in the same order.
    """
    make, shape = NETWORKS[name]
    model = convert(make().eval(), shape, ct.target.iOS17)
    program, spec = Program(stored(model, tmp_path / "n.mlpackage")), model.get_spec()
    theirs, differences = load_milproto(spec, spec.specificationVersion, model.weights_dir), []

    def walk(block: Any) -> None:
        for op in block.operations:
            differences.append(op)
            for inner in op.blocks:
                walk(inner)

    walk(theirs.functions["main"])
    used = {n for op in program.operations for names in op.inputs.values() for n in names} | set(
        program.outputs
    )
    ours = [op for op in program.operations if op.op_type != "const"]
    assert [op.op_type for op in ours] == [
        op.op_type for op in differences if op.op_type != "const"
    ]
    for op in (op for op in differences if op.op_type == "const" and op.name in used):
        np.testing.assert_array_equal(
            np.asarray(program.constant(op.name)), np.asarray(op.outputs[0].val)
        )


IOS16, IOS18 = ct.target.iOS16, ct.target.iOS18
COMPRESSIONS: dict[str, tuple[ct.target, Callable, str]] = {
    "int8, iOS 16": (IOS16, linear("int8"), "constexpr_affine_dequantize"),
    "int8": (IOS18, linear("int8"), "constexpr_blockwise_shift_scale"),
    "uint8 with offset": (IOS18, linear("uint8"), "constexpr_blockwise_shift_scale"),
    "int4 in blocks": (
        IOS18,
        linear("int4", granularity="per_block", block_size=8),
        "constexpr_blockwise_shift_scale",
    ),
    "6-bit palette, iOS 16": (IOS16, palette(nbits=6), "constexpr_lut_to_dense"),
    "4-bit palette": (IOS18, palette(nbits=4), "constexpr_lut_to_dense"),
    "3-bit grouped palette": (
        IOS18,
        palette(nbits=3, granularity="per_grouped_channel", group_size=8),
        "constexpr_lut_to_dense",
    ),
    "sparse, iOS 16": (IOS16, sparse(0.6), "constexpr_sparse_to_dense"),
    "sparse": (IOS18, sparse(0.6), "constexpr_sparse_to_dense"),
    "sparse palette": (IOS18, joint("palette"), "constexpr_lut_to_sparse"),
    "sparse int8": (IOS18, joint("int8"), "constexpr_sparse_blockwise_shift_scale"),
}


@pytest.fixture(scope="module")
# the convolutional network, converted once for each target
def dense() -> tuple[nn.Module, dict[ct.target, ct.models.MLModel]]:
    torch.manual_seed(0)
    module = Conv().eval()
    return module, {target: convert(module, (1, 16, 1, 20), target) for target in (IOS16, IOS18)}


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressed_network_agrees_with_decompressed_weights(
    name: str, dense: tuple, tmp_path: Path
) -> None:
    target, compress, expected_op = COMPRESSIONS[name]
    module, models = dense
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compressed = compress(models[target])
        path = stored(compressed, tmp_path / "c.mlpackage")
        plain = Program(stored(cto.decompress_weights(compressed), tmp_path / "d.mlpackage"))
    program = Program(path)
    kinds = [op.op_type for op in program.operations]
    assert kinds.count(expected_op) == 4, set(kinds)
    assert not any(op.op_type.startswith("constexpr") for op in plain.operations)
    twin = Conv().eval()
    convolutions = [op for op in plain.operations if op.op_type in ("conv", "conv_transpose")]
    layers = [twin.first, twin.up, twin.inner, twin.last]
    for layer, op, source in zip(
        layers, convolutions, (module.first, module.up, module.inner, module.last), strict=True
    ):
        layer.weight.data = torch.from_numpy(np.array(plain.constant(op.inputs["weight"][0])))
        layer.bias.data = source.bias.data
        assert not torch.equal(layer.weight, source.weight), "nothing was compressed"
    x = torch.randn(1, 16, 1, 20)
    with torch.no_grad():
        reference = twin(x)
    assert snr_db(reference, program({"x": x})["y"]) >= LIMIT_DB


SHAPE = (1, 9, 6)  # batch, steps, features


class Layers(nn.Module):
    """GRUs as users write them; the first state is not zero where `first` is set."""

    def __init__(self, first: bool = False, **more: object) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 8, batch_first=True, **more)
        self.first = nn.Parameter(torch.randn(1, 1, 8)) if first else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gru(
            x, None if self.first is None else self.first.expand(1, x.shape[0], 8).contiguous()
        )[0]


def two_layers() -> nn.Module:
    return Layers(num_layers=2, bidirectional=True)


RANGE, LISTED = (1, ct.RangeDim(4, 20, default=9), 6), ct.EnumeratedShapes([SHAPE, (1, 14, 6)])
# network, shape of the example, loops, target, flexible shape
KINDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int, ct.target, Any]] = {
    "one": (Layers, SHAPE, 1, ct.target.iOS17, None),
    "no bias, a first state, a batch of 2": (
        lambda: Layers(first=True, bias=False),
        (2, 9, 6),
        1,
        ct.target.iOS17,
        None,
    ),
    "two layers, both directions": (two_layers, SHAPE, 4, ct.target.iOS17, None),
    "one of a range of lengths": (Layers, SHAPE, 1, ct.target.iOS17, RANGE),
    "two layers of listed lengths": (two_layers, SHAPE, 4, ct.target.iOS18, LISTED),
}


def loops(program: Program) -> list:
    return [step.gru for step in program._plan.body.steps if step.op.op_type == "while_loop"]


# with a hook every step of the loop is run, and seen
def watched(program: Program, x: torch.Tensor) -> torch.Tensor:
    seen = []
    y = program({"x": x}, hook=lambda name, kind, value: seen.append(kind))["y"]
    assert seen.count("tanh") >= x.shape[1]
    return y


@pytest.mark.parametrize("precision", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("kind", KINDS)
def test_recognized_loop_gives_what_its_steps_give(
    kind: str, precision: str, tmp_path: Path
) -> None:
    make, shape, count, target, flexible = KINDS[kind]
    torch.manual_seed(0)
    module = make().eval()
    model = convert(module, shape, target, precision, flexible)
    path = stored(model, tmp_path / "g.mlpackage")
    # not the length that the network was traced with
    x = torch.randn(shape if flexible is None else (1, 14, 6))
    for name in ("declared", "exact", "exact64"):
        program = Program(path, precision=name)
        assert len(loops(program)) == count
        assert None not in loops(program)
        half = precision == "FLOAT16" and name == "declared"
        # a product that falls on an edge of fp16 goes either way with the order of its sum
        limit = 75.0 if half else 120.0
        assert snr_db(watched(program, x), program({"x": x})["y"]) >= limit
    with torch.no_grad():
        assert snr_db(module(x), Program(path)({"x": x})["y"]) >= (
            55.0 if precision == "FLOAT16" else 120.0
        )


def test_fp16_steps_are_rounded_as_declared(tmp_path: Path) -> None:
    """With numbers whose products are exact in any order, recognized and step by step agree bit by
    bit.
    """
    torch.manual_seed(0)
    module = Layers().eval()
    for parameter in module.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape) / 4
    path = stored(convert(module, SHAPE, ct.target.iOS17, "FLOAT16"), tmp_path / "g.mlpackage")
    program, x = Program(path), torch.randint(-8, 9, SHAPE) / 8
    assert torch.equal(watched(program, x), program({"x": x})["y"])
    assert not torch.equal(program({"x": x})["y"], Program(path, precision="exact")({"x": x})["y"])


def _changed(path: Path, out: Path, change: Callable[[list], None]) -> Path:
    model = ct.models.MLModel(str(path), skip_model_load=True)
    spec = model.get_spec()
    function = spec.mlProgram.functions["main"]
    block = function.block_specializations[function.opset]
    change(next(op for op in block.operations if op.type == "while_loop").blocks[1].operations)
    ct.models.MLModel(spec, weights_dir=model.weights_dir, skip_model_load=True).save(str(out))
    return out


def _another_gate(operations: list) -> None:
    next(op for op in operations if op.type == "sigmoid").type = "tanh"


def _another_rest(operations: list) -> None:
    next(op for op in operations if op.type == "sub").type = "add"


# the last product takes the reset gate in place of the update gate
def _gates_swapped(operations: list) -> None:
    first = next(op for op in operations if op.type == "sigmoid").outputs[0].name
    last = [op for op in operations if op.type == "mul"][-1]
    for binding in (last.inputs["x"].arguments[0], last.inputs["y"].arguments[0]):
        if binding.name.startswith("sigmoid"):
            binding.name = first


# the branch that a counter from zero never takes, here t // length, is taken
def _another_index(operations: list) -> None:
    chosen = next(op for op in operations if op.type == "select").inputs
    a, b = chosen["a"].arguments[0], chosen["b"].arguments[0]
    a.name, b.name = b.name, a.name
    next(op for op in operations if op.outputs[0].name == a.name).type = "floor_div"


@pytest.mark.parametrize("change", [_another_gate, _another_rest, _gates_swapped, _another_index])
def test_another_loop_is_left_alone(change: Callable, tmp_path: Path) -> None:
    torch.manual_seed(0)
    flexible = RANGE if change is _another_index else None
    model = convert(Layers().eval(), SHAPE, ct.target.iOS17, flexible=flexible)
    path = stored(model, tmp_path / "g.mlpackage")
    program = Program(_changed(path, tmp_path / "c.mlpackage", change))
    assert loops(program) == [None]
    x = torch.randn(SHAPE)
    assert torch.equal(program({"x": x})["y"], program({"x": x}, hook=lambda *_: None)["y"])
    assert snr_db(Program(path)({"x": x})["y"], program({"x": x})["y"]) < 40


def test_engine_model_keeps_its_own_sums(tmp_path: Path) -> None:
    path = stored(
        convert(Layers().eval(), SHAPE, ct.target.iOS17, "FLOAT16"), tmp_path / "g.mlpackage"
    )
    assert loops(Program(path, precision="ane_numerics")) == [None]
    assert np.isfinite(
        Program(path, precision="ane_numerics")({"x": torch.randn(SHAPE)})["y"].numpy()
    ).all()
