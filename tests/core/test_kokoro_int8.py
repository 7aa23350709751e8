"""kokoro-int8: a tiny ONNX graph decodes to what its scales say; archives are attacked; the real
parts decode to pinned weights (slow).
"""

import hashlib
import io
import tarfile

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

from kokoro_ane.core.kokoro_int8 import packages
from kokoro_ane.core.kokoro_int8.cache import (
    LARGEST_MEMBER_BYTES,
    WEIGHTS_SHA256,
    add_voices,
    read_npm_voices,
)
from kokoro_ane.core.kokoro_int8.packages import (
    decode,
    find_module,
    order_gates,
    read_parts,
    split_weight_norm,
)
from kokoro_ane.core.voices import VoiceLibrary
from kokoro_ane.vocoder.decoder import Vocoder
from tests.commands import refused

HIDDEN = 2


class Graph:
    """Nodes and initializers under the names that the exporter and the quantizer give."""

    def __init__(self):
        self.nodes, self.stored = [], []

    def store(self, name, array):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.stored.append(helper.make_tensor(name, kind, array.shape, array.tobytes(), raw=True))
        return name

    def quantized(self, base, weight, scale, zero_point):
        scale_name = self.store(f"{base}_scale", np.asarray(scale, np.float32))
        return (
            self.store(f"{base}_quantized", weight),
            scale_name,
            self.store(f"{base}_zero_point", zero_point),
        )

    def add(self, op, name, inputs):
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name=name))

    def content(self):
        out = helper.make_tensor_value_info("audio", TensorProto.FLOAT, [1])
        return helper.make_model(
            helper.make_graph(self.nodes, "tiny", [], [out], self.stored)
        ).SerializeToString()


class TestDecoding:
    def test_convolution_has_one_scale_a_tensor_and_a_zero_channel_keeps_a_direction(self):
        graph = Graph()
        # [2, 1, 3]: 0 3 -4; a channel of zeros
        weight = np.array([[[128, 131, 124]], [[128, 128, 128]]], np.uint8)
        names = graph.quantized("/decoder/decoder/encode/Mul_output_0", weight, 0.5, np.uint8(128))
        graph.add(
            "ConvInteger",
            "/decoder/decoder/encode/conv1/Conv_quant",
            ["x", names[0], "zero", names[2]],
        )
        graph.store("decoder.decoder.encode.conv1.bias", np.array([1, 2], np.float32))
        state = decode(graph.content())
        assert state["decoder.encode.conv1.weight_v"].tolist() == [[[0, 1.5, -2]], [[1, 1, 1]]]
        assert state["decoder.encode.conv1.weight_g"].tolist() == [[[2.5]], [[0]]]
        assert state["decoder.encode.conv1.bias"].tolist() == [1, 2]
        v, g = (torch.from_numpy(state[f"decoder.encode.conv1.weight_{part}"]) for part in "vg")
        assert torch._weight_norm(v, g, 0).tolist() == [[[0, 1.5, -2]], [[0, 0, 0]]]  # no NaN

    # left to right in double precision, whatever order the library's own sum takes
    def test_gain_is_the_same_on_every_machine(self):
        weight, expected = (
            np.random.default_rng(0).standard_normal((3, 257, 5)).astype(np.float32),
            [],
        )
        for row in weight.reshape(3, -1):
            total = 0.0
            for value in row.tolist():
                total += value * value
            expected.append(np.float32(total**0.5))
        assert split_weight_norm("m", weight)["m.weight_g"].ravel().tolist() == expected

    def test_linear_layer_has_one_scale_a_column(self):
        graph = Graph()
        weight = np.array([[1, 2], [3, 4], [5, 6]], np.int8)  # [in 3, out 2]
        names = graph.quantized("onnx::MatMul_1", weight, [0.5, 2], np.array([0, 1], np.int8))
        graph.add(
            "MatMulInteger",
            "/encoder/bert/encoder/albert_layers.0/ffn_3/MatMul_quant",
            ["x", names[0], "zero", names[2]],
        )
        # of activations: no weight
        graph.add(
            "MatMul", "/encoder/bert/encoder/albert_layers.0/attention/MatMul", ["query", "key"]
        )
        state = decode(graph.content())
        assert state["bert.encoder.albert_layers.0.ffn.weight"].tolist() == [
            [0.5, 1.5, 2.5],
            [2, 6, 10],
        ]
        assert [key for key in state if "attention" in key] == []

    # weights that say which gate they are of, one scale a direction
    def test_lstm_gates_go_from_onnx_order_to_torchs(self):
        graph, gate = Graph(), {"i": 1, "o": 2, "f": 3, "c": 4}
        row = np.repeat([gate[name] for name in "iofc"], HIDDEN).astype(np.float32)  # [4H]
        w = graph.quantized(
            "w",
            np.broadcast_to(row, (2, 3, 4 * HIDDEN)).astype(np.int8),
            [1, 10],
            np.zeros(2, np.int8),
        )
        r = graph.quantized(
            "r",
            np.broadcast_to(row, (2, HIDDEN, 4 * HIDDEN)).astype(np.int8),
            [100, 1000],
            np.zeros(2, np.int8),
        )
        # [2, 8H]
        bias = graph.store(
            "b", np.stack([np.concatenate([row, 10 * row]), np.concatenate([100 * row, -row])])
        )
        graph.add(
            "DynamicQuantizeLSTM",
            "/encoder/shared/LSTM_quant",
            ["x", w[0], r[0], bias, "", "h", "c", "", w[1], w[2], r[1], r[2]],
        )
        state, torchs = (
            decode(graph.content()),
            np.repeat([gate[name] for name in "ifco"], HIDDEN).tolist(),
        )
        lstm = torch.nn.LSTM(3, HIDDEN, bidirectional=True)
        weights = {
            key.removeprefix("predictor.shared."): torch.from_numpy(value)
            for key, value in state.items()
            if "shared" in key
        }
        lstm.load_state_dict(weights)  # strict: every key and shape of torch's
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
            column = weights[key][:, 0] if weights[key].ndim == 2 else weights[key]
            assert column.tolist() == [factor * value for value in torchs], key
        assert order_gates(np.arange(4)).tolist() == [0, 2, 3, 1]

    def test_embeddings_take_the_zero_point_that_the_node_names(self):
        graph = Graph()
        graph.store("shared_zero", np.int8(1))
        graph.quantized(
            "encoder.text_encoder.embedding.weight", np.array([[1, 3]], np.int8), 0.25, np.int8(99)
        )
        inputs = ["rows", "encoder.text_encoder.embedding.weight_scale", "shared_zero"]
        graph.add(
            "DequantizeLinear",
            "/encoder/text_encoder/embedding/Gather_quant_DequantizeLinear",
            inputs,
        )
        assert decode(graph.content())["text_encoder.embedding.weight"].tolist() == [[0, 0.5]]

    @pytest.mark.parametrize(
        "node, module",
        [
            (
                "/decoder/decoder/generator/resblocks.4/convs1.0/Conv_quant",
                "decoder.generator.resblocks.4.convs1.0",
            ),
            ("/decoder/decoder/asr_res/asr_res.0/Conv_quant", "decoder.asr_res.0"),
            ("/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant", "text_encoder.cnn.0.0"),
            ("/encoder/F0.1/pool/ConvTranspose", "predictor.F0.1.pool"),
            ("/encoder/N_proj/Conv_quant", "predictor.N_proj"),
            ("/encoder/shared/LSTM_quant", "predictor.shared"),
            ("/encoder/bert_encoder/MatMul_quant", "bert_encoder"),
            (
                "/encoder/bert/encoder/albert_layers.0/ffn_output_11/MatMul_quant",
                "bert.encoder.albert_layers.0.ffn_output",
            ),
        ],
    )
    def test_node_names_become_upstreams_modules(self, node, module):
        assert find_module(node) == module


class Installed:
    """Stands for one installed distribution: a folder with part.bin."""

    def __init__(self, folder, version):
        self.folder, self.version = folder, version

    def locate_file(self, name):
        return self.folder / name


@pytest.fixture
def two_parts(tmp_path, monkeypatch):
    contents, installed = {"kokoro-part-1": b"one", "kokoro-part-2": b"two"}, {}
    for package, content in contents.items():
        path = tmp_path / package.replace("-", "_") / "part.bin"
        path.parent.mkdir()
        path.write_bytes(content)
        installed[package] = Installed(tmp_path, packages.VERSION)

    def distribution(package):
        if package not in installed:
            raise packages.PackageNotFoundError(package)
        return installed[package]

    monkeypatch.setattr(packages, "distribution", distribution)
    return installed, tuple(contents), hashlib.sha256(b"onetwo").hexdigest()


def test_parts_are_joined_in_order(two_parts):
    _, names, whole = two_parts
    assert read_parts(names, whole) == b"onetwo"
    refused("join to SHA-256", read_parts, names[::-1], whole)


def test_bad_parts_are_named(two_parts, tmp_path):
    installed, names, whole = two_parts
    path = tmp_path / "kokoro_part_2" / "part.bin"
    path.write_bytes(b"twO")
    with refused(r"join to SHA-256 .*--no-deps kokoro-part-1==0\.1\.0 k"):
        read_parts(names, whole)
    path.unlink()
    refused(r"part\.bin is missing", read_parts, names, whole)
    installed["kokoro-part-1"].version = "0.2.0"
    refused(
        r"needs the package kokoro-part-1 0\.1\.0, installed is 0\.2\.0", read_parts, names, whole
    )
    del installed["kokoro-part-1"]
    with refused(
        r"needs the package kokoro-part-1 0\.1\.0, which is not installed: `make venv` or `pip"
        r" install"
    ):
        read_parts(names, whole)


@pytest.mark.slow
def test_the_real_parts_decode_to_the_pinned_weights_and_load_everywhere():
    """Every tensor of upstream's five parts, 81,763,410 numbers, one SHA-256; the strict loader
    takes all of them.
    """
    if not packages.is_installed():
        pytest.skip("the extra kokoro-int8 is not installed")
    from safetensors.numpy import save

    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.encoder.functions import PARTS as ENCODER_PARTS
    from kokoro_ane.encoder.functions import Encoder

    state = decode(read_parts())
    assert len(state) == 548
    assert sum(array.size for array in state.values()) == 81_763_410
    assert all(np.isfinite(array).all() for array in state.values())
    assert (
        sum(int((array == 0).sum()) for key, array in state.items() if key.endswith("weight_g"))
        == 94
    )
    assert hashlib.sha256(save(state)).hexdigest() == WEIGHTS_SHA256
    checkpoint = open_checkpoint("kokoro-int8")
    assert (checkpoint.name, checkpoint.releasable, checkpoint.sha256) == (
        "kokoro-int8",
        False,
        WEIGHTS_SHA256,
    )
    encoder = Encoder(checkpoint.config)
    for name in ENCODER_PARTS:
        checkpoint.load_part(getattr(encoder, name), name)
    Vocoder.from_checkpoint(checkpoint)


GOOD = np.full((510, 1, 256), 0.5, "<f4").tobytes()


def member(name, data=GOOD, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data) if kind == tarfile.REGTYPE else 0, kind, target
    return info, data


def archive(path, *members):
    with tarfile.open(path, "w:gz") as out:
        for info, data in members:
            out.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return path


def test_npms_layout_and_torch_files(tmp_path):
    stored = io.BytesIO()
    torch.save(torch.full((510, 1, 256), 0.25), stored)
    source = archive(
        tmp_path / "voices.tgz",
        member("package/LICENSE", b"text"),
        member("package/voices", kind=tarfile.DIRTYPE),
        member("package/voices/af_sky.bin"),
        member("package/voices/bm_lewis.pt", stored.getvalue()),
    )
    assert add_voices(source, tmp_path / "voices") == ("af_sky", "bm_lewis")
    assert (tmp_path / "voices" / "af_sky.bin").read_bytes() == GOOD
    assert np.fromfile(tmp_path / "voices" / "bm_lewis.bin", "<f4").max() == 0.25
    # a folder of voices
    assert add_voices(tmp_path / "voices", tmp_path / "again") == ("af_sky", "bm_lewis")


def test_all_voices_come_by_npm_where_it_is_installed(tmp_path, monkeypatch):
    """A program of that name that packs one voice, one that fails, and none."""
    made = archive(tmp_path / "made.tgz", member("package/voices/af_sky.bin"))
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    monkeypatch.setattr("shutil.which", lambda _: str(program))
    program.write_text(f'#!/bin/sh\ntest "$3" = kokoro-js@1.2.1 && cp {made} kokoro-js.tgz\n')
    program.chmod(0o755)
    with read_npm_voices() as source:
        assert add_voices(source, tmp_path / "voices") == ("af_sky",)
    program.write_text("#!/bin/sh\necho npm: no network >&2; exit 1\n")
    with refused("npm did not fetch kokoro-js@1.2.1: npm: no network"), read_npm_voices():
        pass
    monkeypatch.setattr("shutil.which", lambda _: None)
    with refused("npm is not installed"), read_npm_voices():
        pass


def test_a_voice_of_kokoros_that_is_not_at_hand_is_named_with_what_brings_it(tmp_path):
    library = VoiceLibrary(tmp_path)
    refused("one of Kokoro's 54, which .*--voices all. adds", library.pack, "pm_santa")
    refused("no voice 'nobody' in .*\\. There are: none", library.pack, "nobody")


ATTACKS = {
    "climbs": (
        [member("../../af_sky.bin")],
        r"member '\.\./\.\./af_sky\.bin' leaves the archive's folder",
    ),
    "climbs in the middle": ([member("a/../../af_sky.bin")], "leaves the archive's folder"),
    "absolute": ([member("/tmp/af_sky.bin")], "leaves the archive's folder"),
    "backslash": ([member("..\\af_sky.bin")], "leaves the archive's folder"),
    "symbolic link": (
        [member("af_sky.bin", kind=tarfile.SYMTYPE, target="/etc/passwd")],
        "is a link or a device",
    ),
    "hard link": (
        [member("af_sky.bin", kind=tarfile.LNKTYPE, target="x")],
        "is a link or a device",
    ),
    "device": ([member("af_sky.bin", kind=tarfile.CHRTYPE)], "is a link or a device"),
    "wrong size": (
        [member("af_sky.bin", GOOD[:-4])],
        "has 522236 bytes; raw float32 of shape",
    ),
    "NaN": (
        [member("af_sky.bin", np.full((510, 1, 256), np.nan, "<f4").tobytes())],
        r"af_sky\.bin holds NaN or infinity",
    ),
    "no tensor": ([member("af_sky.pt", b"no pickle")], "cannot be read as a PyTorch file"),
    "twice": ([member("a/af_sky.bin"), member("b/af_sky.bin")], "holds the voice af_sky twice"),
    "odd name": ([member("Af Sky.bin")], "is no name of a voice"),
    "no voice": ([member("README.md", b"text")], "holds no voice"),
}


class TestArchives:
    @pytest.mark.parametrize("attack", ATTACKS)
    def test_attacks_are_refused_and_nothing_is_written(self, tmp_path, attack):
        members, message = ATTACKS[attack]
        first = [] if attack == "no voice" else [member("am_good.bin")]
        source = archive(tmp_path / "evil.tgz", *first, *members)
        with refused(message) as refusal:
            add_voices(source, tmp_path / "voices")
        assert "\n" not in str(refusal.value)
        assert str(source) in str(refusal.value)
        assert [path for path in tmp_path.iterdir() if path != source] == []

    def test_a_member_as_large_as_a_bomb_is_not_unpacked(self, tmp_path):
        source, (zeros, _) = tmp_path / "bomb.tar", member("zeros.txt", b"")
        zeros.size = LARGEST_MEMBER_BYTES + 1
        source.write_bytes(zeros.tobuf())
        refused("no archive of voices holds that", add_voices, source, tmp_path / "voices")

    @pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00 broken"])
    def test_no_archive(self, tmp_path, content):
        (tmp_path / "voices.tgz").write_bytes(content)
        with refused("cannot be read as a tar archive|holds no voice"):
            add_voices(tmp_path / "voices.tgz", tmp_path / "voices")

    def test_an_archive_cut_short(self, tmp_path):
        noise = np.random.default_rng(0).standard_normal((510, 1, 256)).astype("<f4").tobytes()
        source = archive(tmp_path / "voices.tgz", member("af_sky.bin", noise))
        source.write_bytes(source.read_bytes()[:200_000])
        refused("cannot be read as a tar archive", add_voices, source, tmp_path / "voices")

    def test_nowhere_and_a_link_in_a_folder(self, tmp_path):
        refused(
            "is neither a folder nor an archive",
            add_voices,
            tmp_path / "nowhere.tgz",
            tmp_path / "voices",
        )
        (tmp_path / "given").mkdir()
        (tmp_path / "given" / "af_sky.bin").symlink_to("/etc/hostname")
        refused("is a link or no file", add_voices, tmp_path / "given", tmp_path / "voices")

    def test_a_bundled_voice_may_come_again_but_not_differ(self, tmp_path):
        voices = tmp_path / "voices"
        voices.mkdir()
        (voices / "af_heart.bin").write_bytes(GOOD)
        assert add_voices(
            archive(tmp_path / "a.tgz", member("af_heart.bin")), voices, ["af_heart"]
        ) == ("af_heart",)
        other = archive(
            tmp_path / "b.tgz",
            member("af_heart.bin", np.full((510, 1, 256), 0.75, "<f4").tobytes()),
        )
        refused("af_heart differs from the bundled voice", add_voices, other, voices, ["af_heart"])
        assert (voices / "af_heart.bin").read_bytes() == GOOD
