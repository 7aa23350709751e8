"""Stored forms: PyTorch, the executed package and ONNX Runtime compute the same, and a package
holds a form's integers, bit for bit.
"""

import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.export import FunctionSpec, TensorType, convert, save_package
from kokoro_ane.quantize.stored_forms import (
    Integers,
    OrderedLSTM,
    Palette,
    RoundedInput,
    StoredWeight,
    register_with_onnx,
    store,
)
from mlprogram import Program

CHANNELS, HIDDEN = 16, 12
HALF_DB = 60.0  # fp16's own distance is 66 to 70 dB
Make = Callable[[np.random.Generator, tuple[int, ...], int, str], StoredWeight]


def linear(steps, bits=8, block=0):
    """Integers with a scale for each row of `axis`, or for each `block` inputs."""

    def make(random, shape, axis, label):
        sizes = [size if place == axis else 1 for place, size in enumerate(shape)]
        if block:
            sizes[:2] = shape[0], shape[1] // block
        most = 2 ** (bits - 1) - 1
        values = random.integers(-most, most + 1, shape).astype(np.int8)
        scale = random.uniform(steps, 2 * steps, sizes).astype(np.float16)
        return Integers(values, scale, label, bits)

    return make


rows, blocks = linear(1e-3), linear(0.02, bits=4, block=4)


def tables(groups, bits, int8=False):
    """Tables for groups of rows; with `int8` their entries are integers."""

    def make(random, shape, axis, label):
        index = random.integers(0, 2**bits, shape).astype(np.uint8)
        if int8:
            entries = np.sort(random.integers(-127, 128, (groups, 2**bits)), axis=1).astype(np.int8)
            scale = random.uniform(1e-3, 2e-3, (groups, 1)).astype(np.float16)
            return Palette(index, entries, axis, label, scale)
        entries = np.sort(random.normal(0, 0.1, (groups, 2**bits)), axis=1).astype(np.float16)
        return Palette(index, entries, axis, label)

    return make


class Layers(nn.Module):
    """A convolution, a transposed one, a linear layer and an embedding, all weights stored."""

    def __init__(self, make, rounding=False):
        super().__init__()
        random = np.random.default_rng(0)
        self.first, self.up = nn.Conv2d(CHANNELS, 32, (1, 7)), nn.ConvTranspose2d(32, 16, (1, 4))
        self.last, self.words = nn.Linear(CHANNELS, 8), nn.Embedding(20, 8)
        for layer, axis in ((self.first, 0), (self.up, 1), (self.last, 0), (self.words, 0)):
            name = next(name for name, child in self.named_children() if child is layer)
            store(layer, make(random, tuple(layer.weight.shape), axis, f"{name}_weight"))
        one, each = np.array([0.03]), np.linspace(0.01, 0.02, CHANNELS)
        self.whole = RoundedInput(one.astype(np.float16), one.astype(np.float16))
        self.channels = RoundedInput(each.astype(np.float16), np.array([0.015], np.float16))
        self.rounding = rounding

    def forward(self, x, ids):
        x = self.channels(x) if self.rounding else x
        x = torch.tanh(F.conv2d(x, self.first.weight, self.first.bias, padding=(0, 3)))
        x = self.up(self.whole(x) if self.rounding else x)
        return self.last(x[0, :, 0].transpose(0, 1)) * self.words(ids)


class Recurrent(nn.Module):
    """A two-way LSTM, its weights stored where `make` says how."""

    def __init__(self, make):
        super().__init__()
        torch.manual_seed(0)
        lstm = nn.LSTM(CHANNELS, HIDDEN, bidirectional=True)
        self.lstm = OrderedLSTM([part.detach() for part in lstm._flat_weights])
        random = np.random.default_rng(0)
        for name in ("weight_ih", "weight_hh", "weight_ih_back", "weight_hh_back"):
            if make is not None:
                rows = getattr(self.lstm, name)
                store(rows, make(random, rows.weight.shape, 0, name))

    def forward(self, x):
        return self.lstm(x)


def saved(module, inputs, target, path):
    """The module as a package in fp16, by the one conversion that there is."""
    kinds = {name: np.int32 if name == "ids" else np.float32 for name in inputs}
    function = FunctionSpec(
        module,
        tuple(inputs.values()),
        tuple(TensorType(name, kinds[name], (tuple(x.shape),)) for name, x in inputs.items()),
        (TensorType("y", np.float32),),
    )
    save_package(convert(function, "fp16", target), path)
    return Program(path)


def unpacked(program):
    """What the package's unpacking operations give, by the label of the form that was stored."""
    names = [
        op.outputs[0].name
        for op in program.operations
        if op.op_type.startswith("constexpr_") and "_table" not in op.outputs[0].name
    ]
    return {name.removesuffix("_cast_fp16"): program.constant(name) for name in names}


def inputs_of(module):
    torch.manual_seed(1)
    if isinstance(module, Recurrent):
        return {"x": torch.randn(30, 1, CHANNELS)}
    return {"x": torch.randn(1, CHANNELS, 1, 40), "ids": torch.arange(43, dtype=torch.int32) % 20}


LUT, BLOCKS = "constexpr_lut_to_dense", "constexpr_blockwise_shift_scale"
AFFINE = "constexpr_affine_dequantize"


@pytest.mark.parametrize(
    ("make", "target", "kinds"),
    [
        (rows, "iOS17", {AFFINE}),
        (rows, "iOS18", {BLOCKS}),
        (blocks, "iOS18", {BLOCKS}),
        (tables(1, 6), "iOS17", {LUT}),
        (tables(1, 6), "iOS18", {LUT}),
        (tables(4, 4), "iOS18", {LUT}),
        (tables(4, 3), "iOS18", {LUT}),
        (tables(4, 4, int8=True), "iOS18", {LUT, BLOCKS}),
    ],
)
@pytest.mark.parametrize("kind", [Layers, Recurrent])
def test_a_package_holds_the_forms_and_computes_what_the_module_computes(
    kind, make, target, kinds, tmp_path
):
    module = kind(make).eval()
    inputs = inputs_of(module)
    program = saved(module, inputs, target, tmp_path / "m.mlpackage")
    forms = {form.label: form for form in module.modules() if isinstance(form, StoredWeight)}
    decoded = unpacked(program)
    assert set(decoded) == set(forms)
    for label, form in forms.items():
        assert decoded[label].dtype == np.float16
        assert np.array_equal(decoded[label], form.to_array())
    counts = Counter(op.op_type for op in program.operations)
    assert {name for name in counts if name.startswith("constexpr_")} == kinds
    assert counts["lstm"] == (kind is Recurrent)
    with torch.no_grad():
        reference = module(*inputs.values()).numpy()
    assert snr_db(reference, program(inputs)["y"].float().numpy()) > HALF_DB


@pytest.mark.parametrize("target", ["iOS17", "iOS18"])
def test_inputs_are_rounded_in_one_step_or_one_a_channel(target, tmp_path):
    module = Layers(rows, rounding=True).eval()
    inputs = inputs_of(module)
    program = saved(module, inputs, target, tmp_path / "m.mlpackage")
    steps = [
        program.constant(op.inputs["scale"][0])
        for op in program.operations
        if op.op_type == "quantize"
    ]
    assert np.array_equal(steps[0], module.channels.step.numpy())
    assert np.array_equal(steps[1].reshape(-1), module.whole.step.numpy())
    with torch.no_grad():
        reference = module(*inputs.values()).numpy()
    # values that lie between two steps go either way
    assert snr_db(reference, program(inputs)["y"].float().numpy()) > 35.0


@pytest.mark.parametrize("make", [blocks, tables(4, 4), tables(1, 4, int8=True)])
def test_what_a_target_cannot_store_is_one_line(make, tmp_path):
    module = Layers(make)
    with pytest.raises(InputError, match=r"first_weight has .* which needs iOS 18"):
        saved(module, inputs_of(module), "iOS17", tmp_path / "m.mlpackage")


def test_onnx_computes_what_the_module_computes(tmp_path):
    module = Layers(rows).eval()
    inputs = inputs_of(module)
    register_with_onnx(17)
    path = str(tmp_path / "m.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, tuple(inputs.values()), path, opset_version=17, dynamo=False,
            input_names=list(inputs), output_names=["y"],
        )  # fmt: skip
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {name: x.numpy() for name, x in inputs.items()})
    with torch.no_grad():
        reference = module(*inputs.values()).numpy()
    # the file's unpacked weights are not rounded to halves
    assert snr_db(reference, result) > HALF_DB


def test_what_onnx_has_no_form_for_is_one_line(tmp_path):
    register_with_onnx(17)
    module = Layers(blocks)
    with pytest.raises(InputError, match="first_weight has scales for blocks.*which ONNX"):
        torch.onnx.export(
            module, tuple(inputs_of(module).values()), str(tmp_path / "m.onnx"),
            opset_version=17, dynamo=False,
        )  # fmt: skip


def test_the_float_weight_is_gone_and_the_form_is_at_hand():
    layer = nn.Conv2d(4, 4, 1)
    form = rows(np.random.default_rng(0), (4, 4, 1, 1), 0, "weight")
    store(layer, form)
    assert form in layer.modules()
    assert sum(parameter.numel() for parameter in layer.parameters()) == len(layer.bias)
    assert np.array_equal(layer.weight.detach().numpy().astype(np.float16), form.to_array())


@pytest.mark.parametrize("make", [rows, tables(4, 4), tables(2, 4, int8=True)])
def test_a_form_times_a_factor_has_the_same_integers(make):
    form = make(np.random.default_rng(0), (8, 4, 1, 1), 0, "weight")
    half = form.scale_by(0.5)
    assert np.array_equal(half.to_array(), form.to_array() / 2)
    assert form.to_array().any()


def test_the_lstm_is_pytorchs():
    torch.manual_seed(0)
    lstm = nn.LSTM(CHANNELS, HIDDEN, bidirectional=True)
    x = torch.randn(9, 2, CHANNELS)
    with torch.no_grad():
        assert torch.allclose(
            OrderedLSTM([part.detach() for part in lstm._flat_weights])(x), lstm(x)[0], atol=1e-6
        )
