"""Whole networks converted from PyTorch and executed: recurrent, attention and convolution, with
dense and with compressed weights.

    python -m pytest mlprogram/tests/test_networks.py -q

The limit is 100 dB in fp32 against the same PyTorch module, for compressed packages with the
decompressed weights copied into it.
"""

import coremltools as ct
import coremltools.optimize.coreml as cto
import numpy as np
import pytest
import torch
from coremltools.converters.mil.frontend.milproto.load import load as load_milproto
from torch import nn

from built import (
    FP16,
    FP32,
    IOS16,
    IOS18,
    compressed,
    converted,
    joint,
    linear,
    operations_of,
    palette,
    sparse,
)
from mlprogram import Program
from mlprogram.examine.profile import open_program
from mlprogram_benches.shared import snr_db

LIMIT_DB = 100.0


def convert(module, shape, folder, flexible=None, **options):
    """The module with input x, of this shape or of a flexible one, and output y, in fp32."""
    x = ct.TensorType("x", shape=flexible or shape, dtype=np.float32)
    options = {"compute_precision": FP32} | options
    y = ct.TensorType("y", dtype=np.float32)
    return converted(module, folder, x, outputs=[y], **options)


class Recurrent(nn.Module):
    """Layers as users write them; the first state is not zero where `first` is set. A GRU becomes a
    while loop with gather and scatter.
    """

    def __init__(self, kind=nn.GRU, first=False, **more):
        super().__init__()
        self.layer = kind(6, 8, batch_first=True, **more)
        self.first = nn.Parameter(torch.randn(1, 1, 8)) if first else None

    def forward(self, x):
        if self.first is None:
            return self.layer(x)[0]
        return self.layer(x, self.first.expand(1, x.shape[0], 8).contiguous())[0]


def vocoder():
    """Convolutions of every kind, one of them transposed."""
    return nn.Sequential(
        nn.Conv2d(16, 32, (1, 7), padding=(0, 3)),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose2d(32, 32, (1, 8), stride=(1, 4), padding=(0, 2)),
        nn.Conv2d(32, 32, (1, 3), dilation=(1, 3), padding=(0, 3)),
        nn.Tanh(),
        nn.Conv2d(32, 16, (1, 7), padding=(0, 3)),
    ).eval()


def convolutions(module):
    return [layer for layer in module if hasattr(layer, "weight")]


WIDE = (1, 16, 1, 20)
FIRST = {"norm_first": True, "batch_first": True}
TWO = {"num_layers": 2, "bidirectional": True}
NETWORKS = {
    "BiLSTM": (lambda: Recurrent(nn.LSTM, **TWO), (2, 9, 6)),
    "GRU": (Recurrent, (2, 9, 6)),
    "attention": (lambda: nn.TransformerEncoderLayer(16, 4, 32, 0, "gelu", **FIRST), (2, 7, 16)),
    "convolution": (vocoder, WIDE),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network_agrees_with_pytorch_and_reader_with_coremltools(name, tmp_path):
    """The own reader of the protobuf against coremltools' milproto.load: the same operations and
    constants, in the same order.
    """
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(shape)
    path = convert(module, shape, tmp_path)
    with torch.no_grad():
        reference = module(x)
    for precision in ("declared", "exact", "exact64"):
        y = Program(path, precision=precision)({"x": x})["y"]
        assert snr_db(reference, y) >= LIMIT_DB, precision

    program, model = Program(path), ct.models.MLModel(str(path), skip_model_load=True)
    spec, theirs = model.get_spec(), []

    def walk(block):
        for op in block.operations:
            theirs.append(op)
            for inner in op.blocks:
                walk(inner)

    walk(load_milproto(spec, spec.specificationVersion, model.weights_dir).functions["main"])
    kinds, ours = ([op.op_type for op in ops] for ops in (theirs, program.operations))
    assert [kind for kind in ours if kind != "const"] == [kind for kind in kinds if kind != "const"]
    used = {n for op in program.operations for names in op.inputs.values() for n in names}
    for op in (op for op in theirs if op.op_type == "const" and op.name in used):
        np.testing.assert_array_equal(program.constant(op.name), op.outputs[0].val)


AFFINE, SHIFT_SCALE, SPARSE = (
    "constexpr_affine_dequantize",
    "constexpr_blockwise_shift_scale",
    "constexpr_sparse_to_dense",
)
LUT, SPARSE_LUT, SPARSE_SCALE = (
    "constexpr_lut_to_dense",
    "constexpr_lut_to_sparse",
    "constexpr_sparse_blockwise_shift_scale",
)
WHOLE = linear(granularity="per_tensor")
INT4 = linear("int4", granularity="per_block", block_size=8)
GROUPED = palette(nbits=3, granularity="per_grouped_channel", group_size=8)
SPARSE_4_BIT, SPARSE_INT8 = joint(palette(nbits=4)), joint(linear())
VALUES, CHANNELS = 18432, 112  # weights of the four convolutions, and their channels
SCALES, SHAPES = 4 * CHANNELS, 4 * 4 * 4  # bytes; the older forms store shapes or axes too
MASKS, REST = VALUES // 8, 7374  # bytes, and the values that 60 % of zeros leave
# target, compression, the operation that makes the weights, kind and bytes of what is stored
COMPRESSIONS = {
    "int8, iOS 16": (IOS16, linear(), AFFINE, "linear int8", VALUES + SCALES + CHANNELS + 16),
    "int8": (IOS18, linear(), SHIFT_SCALE, "linear int8", VALUES + SCALES),
    "int8, one scale": (IOS18, WHOLE, SHIFT_SCALE, "linear int8", VALUES + 4 * 4),
    "uint8": (IOS18, linear("uint8"), SHIFT_SCALE, "linear uint8", VALUES + SCALES + CHANNELS),
    "int4": (IOS18, INT4, SHIFT_SCALE, "linear per block int4", VALUES // 2 + 4 * 384),
    "2-bit, iOS 16": (IOS16, palette(nbits=2), LUT, "palette 2-bit", VALUES // 4 + 64 + SHAPES),
    "6-bit, iOS 16": (IOS16, palette(nbits=6), LUT, "palette 6-bit", 13824 + 1024 + SHAPES),
    "4-bit palette": (IOS18, palette(nbits=4), LUT, "palette 4-bit", VALUES // 2 + 256),
    "3-bit in groups": (IOS18, GROUPED, LUT, "palette 3-bit", 6912 + 14 * 8 * 4),
    "sparse, iOS 16": (IOS16, sparse(0.6), SPARSE, "sparse fp32", MASKS + 4 * REST + SHAPES),
    "sparse": (IOS18, sparse(0.6), SPARSE, "sparse fp32", MASKS + 4 * REST),
    "sparse palette": (IOS18, SPARSE_4_BIT, SPARSE_LUT, "sparse + palette 4-bit", MASKS + 3944),
    "sparse int8": (IOS18, SPARSE_INT8, SPARSE_SCALE, "sparse + linear int8", MASKS + 7822),
}


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """The convolutional network, converted once for each target."""
    torch.manual_seed(0)
    module = vocoder()
    folder = tmp_path_factory.mktemp("dense")
    return module, {t: convert(module, WIDE, folder, target=t) for t in (IOS16, IOS18)}


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_compressed_network_agrees_with_decompressed_weights(name, dense, tmp_path):
    target, compress, constexpr, kind, stored_bytes = COMPRESSIONS[name]
    module, paths = dense
    path = compressed(paths[target], compress, tmp_path)
    program = Program(path)
    plain = Program(compressed(path, cto.decompress_weights, tmp_path / "plain"))
    kinds = [op.op_type for op in program.operations]
    assert kinds.count(constexpr) == 4, set(kinds)
    assert not any(op.op_type.startswith("constexpr") for op in plain.operations)
    biases = {"fp32": 4 * CHANNELS}
    assert open_program(path).storage.bytes_by_kind() == {kind: stored_bytes} | biases
    twin = vocoder()
    ops = [op for op in plain.operations if op.op_type in ("conv", "conv_transpose")]
    for layer, op, source in zip(convolutions(twin), ops, convolutions(module), strict=True):
        layer.weight.data = torch.from_numpy(np.array(plain.constant(op.inputs["weight"][0])))
        layer.bias.data = source.bias.data
        assert not torch.equal(layer.weight, source.weight), "nothing was compressed"
    x = torch.randn(WIDE)
    with torch.no_grad():
        assert snr_db(twin(x), program({"x": x})["y"]) >= LIMIT_DB


def test_bytes_of_weights_that_are_not_compressed(dense):
    storage = open_program(dense[1][IOS18]).storage
    assert storage.bytes_by_kind() == {"fp32": 4 * (VALUES + CHANNELS)}


SHAPE = (1, 9, 6)  # batch, steps, features
RANGE, LISTED = (1, ct.RangeDim(4, 20, default=9), 6), ct.EnumeratedShapes([SHAPE, (1, 14, 6)])
# options of the network, its loops, options of the conversion
KINDS = {
    "one": ({}, 1, {}),
    "no bias, a first state, a batch of 2": ({"first": True, "bias": False}, 1, {}),
    "two layers, both directions": (TWO, 4, {}),
    "one of a range of lengths": ({}, 1, {"flexible": RANGE}),
    "two layers of listed lengths": (TWO, 4, {"flexible": LISTED, "target": IOS18}),
}


def loops(program):
    return [step.gru for step in program._plan.body.steps if step.op.op_type == "while_loop"]


# with a hook every step of the loop is run, and seen
def watched(program, x):
    seen = []
    y = program({"x": x}, hook=lambda name, kind, value: seen.append(kind))["y"]
    assert seen.count("tanh") >= x.shape[1]
    return y


@pytest.mark.parametrize("precision", [FP32, FP16])
@pytest.mark.parametrize("kind", KINDS)
def test_recognized_loop_gives_what_its_steps_give(kind, precision, tmp_path):
    layers, count, more = KINDS[kind]
    torch.manual_seed(0)
    module = Recurrent(**layers).eval()
    shape = (2, 9, 6) if layers.get("first") else SHAPE
    path = convert(module, shape, tmp_path, compute_precision=precision, **more)
    # not the length that the network was traced with
    x = torch.randn((1, 14, 6) if more else shape)
    for name in ("declared", "exact", "exact64"):
        program = Program(path, precision=name)
        assert len(loops(program)) == count
        assert None not in loops(program)
        # a product that falls on an edge of fp16 goes either way with the order of its sum
        limit = 75.0 if precision == FP16 and name == "declared" else 120.0
        assert snr_db(watched(program, x), program({"x": x})["y"]) >= limit
    with torch.no_grad():
        error_db = snr_db(module(x), Program(path)({"x": x})["y"])
    assert error_db >= (55.0 if precision == FP16 else 120.0)


def test_fp16_steps_are_rounded_as_declared(tmp_path):
    """With numbers whose products are exact in any order, recognized and step by step agree bit by
    bit. The engine model keeps its own sums.
    """
    torch.manual_seed(0)
    module = Recurrent().eval()
    for parameter in module.parameters():
        parameter.data = torch.randint(-2, 3, parameter.shape) / 4
    path = convert(module, SHAPE, tmp_path, compute_precision=FP16)
    program, x = Program(path), torch.randint(-8, 9, SHAPE) / 8
    assert torch.equal(watched(program, x), program({"x": x})["y"])
    assert not torch.equal(program({"x": x})["y"], Program(path, precision="exact")({"x": x})["y"])
    engine = Program(path, precision="ane_numerics")
    assert loops(engine) == [None]
    assert np.isfinite(engine({"x": torch.randn(SHAPE)})["y"].numpy()).all()


def _first(operations, kind):
    return next(op for op in operations if op.type == kind)


def _another_gate(operations):
    _first(operations, "sigmoid").type = "tanh"


def _another_rest(operations):
    _first(operations, "sub").type = "add"


# the last product takes the reset gate in place of the update gate
def _gates_swapped(operations):
    for binding in _first(operations[::-1], "mul").inputs.values():
        if binding.arguments[0].name.startswith("sigmoid"):
            binding.arguments[0].name = _first(operations, "sigmoid").outputs[0].name


# the branch that a counter from zero never takes, here t // length, is taken
def _another_index(operations):
    chosen = _first(operations, "select").inputs
    a, b = chosen["a"].arguments[0], chosen["b"].arguments[0]
    a.name, b.name = b.name, a.name
    next(op for op in operations if op.outputs[0].name == a.name).type = "floor_div"


@pytest.fixture(scope="module")
# without a fixed length, so that its index has a branch for one counted from the end
def ranged(tmp_path_factory):
    torch.manual_seed(0)
    return convert(Recurrent().eval(), SHAPE, tmp_path_factory.mktemp("ranged"), flexible=RANGE)


@pytest.mark.parametrize("change", [_another_gate, _another_rest, _gates_swapped, _another_index])
def test_another_loop_is_left_alone(change, ranged, tmp_path):
    def edited(model):
        spec = model.get_spec()
        change([*_first(operations_of(spec), "while_loop").blocks[1].operations])
        return ct.models.MLModel(spec, weights_dir=model.weights_dir, skip_model_load=True)

    program, x = Program(compressed(ranged, edited, tmp_path)), torch.randn(SHAPE)
    assert loops(program) == [None]
    y = program({"x": x})["y"]
    assert torch.equal(y, program({"x": x}, hook=lambda *_: None)["y"])
    assert snr_db(Program(ranged)({"x": x})["y"], y) < 40
