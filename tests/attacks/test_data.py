"""Data that nobody vouches for: JSON of other kinds, weights nobody trained, metadata, digits
without end. A value or one InputError.
"""

import dataclasses
import io
import json
import pickle
import re
import shutil
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import VOICE_SHAPE
from kokoro_ane.core.data_files import check_inside, check_name, parse_json, read_json, readable
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest, package_name
from kokoro_ane.core.process import scratch
from kokoro_ane.core.voices import VoiceLibrary, parse_blend, read_pack
from kokoro_ane.g2p.__main__ import main as g2p
from kokoro_ane.g2p.neural import WEIGHTS as BUNDLED
from kokoro_ane.g2p.neural import load_arrays
from kokoro_ane.pipeline.assembly import Assembly
from kokoro_ane.pipeline.decision_file import FORMAT, decision_for, model_card
from kokoro_ane.pipeline.vector_files import load_index
from kokoro_ane.quantize.locator import find_package
from kokoro_ane.quantize.methods import method_named
from kokoro_ane.quantize.recipe import Recipe, load_recipe
from mlprogram import ProgramError
from mlprogram.compiled import read_compiled
from test_compiled import OLD
from tests.attacks.spoil import Runs, changed, places
from tests.builds import left_behind
from tests.commands import printed
from tests.random_checkpoint import tiny_config

SHA = "0" * 64
MANIFEST = Manifest(
    stage="KokoroVocoder",
    method="fp16",
    precision="fp16",
    checkpoint={"name": "tiny", "sha256": SHA},
    releasable=False,
    package="KokoroVocoder-tiny-fp16.mlpackage",
    package_sha256=SHA,
    package_bytes=1,
    target="iOS17",
    buckets=(20, 40),
    hidden_dim=16,
    inputs={"features": {"shape": [1]}},
    outputs={},
    source={},
    operations={"conv": 1},
    checks={},
    tools={"torch": "2"},
    functions={"main": "main"},
    token_buckets=(16,),
    alignment={"a": 1},
)
STORED = {"file": "a/b.npy", "sha256": SHA, "shape": [1], "dtype": "float32"}
FILE = {"file": "x.json", "sha256": SHA, "bytes": 1}
PACKAGE = FILE | {
    "package": "x.mlpackage",
    "package_sha256": SHA,
    "package_bytes": 1,
    "target": "iOS17",
}
LEVEL = {
    "method": "w8",
    "verdict": "SHIP",
    "bytes": 1,
    "failed": None,
    "reasons": ["good"],
    "broken": [],
    "clips": [{}],
    "summary": {"pesq": {"mean": 4.5, "worst": 4.2}, "mcd_db": {"mean": 0.1}},
    "provenance": {"package_sha256": SHA},
}
CARD = {"checkpoint": {"name": "tiny", "sha256": SHA}, "releasable": True, "method": "w8"}
CARD |= {"encoder": [PACKAGE], "vocoder": PACKAGE, "g2p": {}}


def bundled(path):
    """As far as a bundle reads it: the level of this package, and the model card."""
    decision, level = decision_for(path, SHA)
    with readable(path, "run `kokoro-ane release` again"):
        model_card(CARD, decision, level, [])


READERS = {
    "manifest": (
        {k: v for k, v in dataclasses.asdict(MANIFEST).items() if k != "path"},
        Manifest.load,
    ),
    "config": (tiny_config(), KokoroConfig.load),
    "recipe": (
        Recipe("tiny", SHA, {"size": 0.5}, {"size": 0.4}, {"conv": "w8"}).as_dict(),
        load_recipe,
    ),
    "decision": (
        {
            "format": FORMAT,
            "verdict": "SHIP",
            "level": "w8",
            "levels": [LEVEL],
            "releasable": True,
            "provenance": {"commit": "a" * 40, "precision": "declared"},
        },
        bundled,
    ),
    "index.json": (
        {
            "format": 1,
            "checkpoint": {"sha256": SHA},
            "packages": {"x": SHA},
            "voice": {"file": "voice.npy", "sha256": SHA},
            "utterances": [{"id": "short", "tensors": {"asr": STORED}}],
            "text": {"file": "text.wav", "sha256": SHA, "longest_phonemes": 20, "chunks": [{}]},
        },
        lambda path: load_index(path.parent),
    ),
    "assembly": (
        {
            "format": 3,
            "checkpoint": {"name": "tiny", "sha256": SHA},
            "releasable": False,
            "withheld": "tiny",
            "method": "fp16",
            "encoder": [PACKAGE],
            "vocoder": PACKAGE,
            "g2p": {"absent": "x"},
            "vocabulary": FILE,
            "voices": {"files": [FILE]},
            "lexicon": {},
            "text": [],
            "vectors": None,
        },
        Assembly.load,
    ),
}


def written(folder, kind, text):
    path = folder / ("index.json" if kind == "index.json" else f"{kind}.json")
    path.write_text(text, encoding="utf-8")
    return path


def refusal(read, document):
    """The one line of bad input; nothing where it was read."""
    try:
        read(document)
    except (InputError, ProgramError) as problem:
        assert len(str(problem).splitlines()) == 1, problem
        assert len(str(problem)) < 1500, problem
        return str(problem)
    return ""


OTHERS = (
    None,
    True,
    5,
    -1,
    0,
    1.5,
    10**25,
    float("nan"),
    "x",
    "../../x",
    "",
    [],
    [[]],
    ["x"],
    {},
    {"x": {}},
    [None],
)


@pytest.mark.parametrize("kind", READERS)
def test_the_good_one_is_read(kind, tmp_path):
    data, reader = READERS[kind]
    reader(written(tmp_path, kind, json.dumps(data)))


@pytest.mark.parametrize("kind", READERS)
def test_every_field_of_every_other_kind(kind, tmp_path):
    """Hundreds of documents a reader: each is read, or refused in one line that names the file."""
    data, reader = READERS[kind]
    refused, data = 0, json.loads(json.dumps(data))
    # one of a list
    for at in {
        tuple(0 if isinstance(key, int) else key for key in at): at for at in places(data)
    }.values():
        for value in OTHERS:
            path = written(tmp_path, kind, json.dumps(changed(data, at, value)))
            refused += refusal(reader, path) != ""
    assert refused > (20 if kind == "decision" else 100)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        "9" * 5_000,
        '{"format": ' + "9" * 5_000 + "}",
        '{"format": 1e999}',
        "null",
        "[]",
        "5",
        '"x"',
        "",
        "{",
        '{"format": 1}',
        '{"format": 2}',
        "\ufeff{}",
        "\0",
        '{"format": NaN}',
    ],
    ids=lambda text: text[:12] or "empty",
)
def test_what_is_no_document(kind, text, tmp_path):
    assert refusal(READERS[kind][1], written(tmp_path, kind, text))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bits_of_a_document(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(sorted(READERS)))
    text = bytearray(json.dumps(READERS[kind][0]).encode())
    for place in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=6)):
        text[place] = data.draw(st.integers(0, 255))
    path = written(tmp_path_factory.mktemp("bits"), kind, "")
    path.write_bytes(
        text[: data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text
    )
    refusal(READERS[kind][1], path)


@pytest.mark.parametrize(
    "name", ["../../x", "/x", "a/b", ".", "..", ".hidden", "a\nb", "x" * 65, "", "ü", "a\0", "con:"]
)
def test_names_that_are_no_names(name, tmp_path):
    pytest.raises(InputError, check_name, name, "name").match("a name has letters")
    with pytest.raises(InputError, match="a name has letters"):
        KokoroConfig.load(written(tmp_path, "config", json.dumps(tiny_config() | {"name": name})))
    with pytest.raises(InputError):
        Manifest.load(
            written(tmp_path, "manifest", json.dumps(READERS["manifest"][0] | {"package": name}))
        )
    if name:
        method = f"{name}/../x" if name in ("..", ".", ".hidden") or len(name) > 60 else name
        with pytest.raises(InputError, match="the package's name" if len(name) < 60 else "at most"):
            package_name("KokoroVocoder", "tiny", True, method)


def test_paths_stay_inside():
    assert check_inside("short/asr.npy", "file") == "short/asr.npy"
    for path in ("../x", "/etc/passwd", "a//b", "a/../b"):
        with pytest.raises(InputError):
            check_inside(path, "file")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"n_layer": 10_000_000}, "not a positive whole number up to 16384"),
        ({"n_layer": 4096}, "at most 128"),
        (
            {"hidden_dim": 16_384, "n_layer": 128, "text_encoder_kernel_size": 16_384},
            "GB, this machine has",
        ),
        ({"releasable": "false"}, "not true or false"),
        ({"surprise": 1}, "unknown key surprise"),
        ({"hidden_dim": "wide"}, "hidden_dim is 'wide'"),
        ({"hidden_dim": None}, "key hidden_dim is missing"),
        ({"istftnet": {"gen_istft_n_fft": 16}}, "n_fft and hop"),
        ({"istftnet": {"upsample_rates": [10, 5]}}, "500 samples a frame"),
        ({"style_dim": 64}, "style_dim is 64; a voice's rows hold two"),
        (
            {"istftnet": {"upsample_kernel_sizes": [21, 12]}},
            r"istftnet\.upsample_kernel_sizes has 21 for a rate of 10",
        ),
        (
            {"istftnet": {"upsample_rates": [60, 1], "upsample_kernel_sizes": [60, 3]}},
            "has 3 for a rate of 1: a rate of 2 or more",
        ),
        (
            {"istftnet": {"resblock_kernel_sizes": [3, 4, 7]}},
            r"istftnet\.resblock_kernel_sizes has 4: only odd",
        ),
        (
            {"istftnet": {"upsample_initial_channel": 3}},
            r"istftnet\.upsample_initial_channel 3 cannot be halved 2 times",
        ),
        ({"hidden_dim": 17}, "hidden_dim is 17"),
        ({"text_encoder_kernel_size": 4}, "text_encoder_kernel_size is 4: only odd"),
        (
            {"plbert": {"max_position_embeddings": 256}},
            r"plbert\.max_position_embeddings is 256, an utterance takes up to 512",
        ),
        ({"n_token": 40}, r"vocab gives 'a': 43, outside n_token 40"),
        ({"vocab": {"ts": 5}}, "vocab holds 'ts': each key is one character"),
        ({"vocab": {"a": 178}}, "outside n_token"),
        ({"vocab": {"a": -1}}, "vocab gives 'a': -1, outside"),
        ({"vocab": {"a": "1"}}, "not a whole number"),
        ({"dropout": float("nan")}, "not a finite number"),
        ({"plbert": {"num_attention_heads": 5}}, "no multiple of num_attention_heads"),
        ({"istftnet": {"resblock_kernel_sizes": [3, "7", 11]}}, "not a whole number"),
        ({"istftnet": {"upsample_rates": []}}, "is empty"),
    ],
)
def test_config_kinds_ranges_and_memory(change, message, tmp_path):
    config = tiny_config()
    for key, value in change.items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    config = {key: value for key, value in config.items() if value is not None}
    with pytest.raises(InputError, match=message):
        KokoroConfig.load(written(tmp_path, "config", json.dumps(config)))


def test_one_reader(tmp_path):
    pytest.raises(InputError, read_json, tmp_path, "what for").match("is not a file")
    pytest.raises(InputError, parse_json, "1" * 31, "x").match("a number of 31 digits")


GOOD = torch.randn(VOICE_SHAPE)


@pytest.fixture
def folder(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "checkpoint")


def spoilt(value):
    pack = GOOD.clone()
    pack[17, 0, 3] = value
    return pack


VOICES = {
    "NaN": (spoilt(float("nan")), "holds NaN or infinity"),
    "infinity": (spoilt(float("-inf")), "holds NaN or infinity"),
    "float64 beyond float32": (spoilt(0.0).double() * 1e300, "holds NaN or infinity"),
    "complex": (GOOD.to(torch.complex64), "is complex"),
    "sparse": (GOOD.to_sparse(), "is sparse"),
    "meta": (GOOD.to("meta"), "is on the meta device"),
    "zeros": (torch.zeros(VOICE_SHAPE), "nothing but zeros"),
    "whole numbers": (torch.ones(VOICE_SHAPE, dtype=torch.int64), "holds torch.int64"),
    "a dict": ({"a": GOOD}, "holds a dict"),
    "another shape": (torch.ones(1).expand(1 << 20, 1 << 20), "has shape"),
}


@pytest.mark.parametrize("kind", VOICES)
def test_voice(kind, tmp_path):
    content, message = VOICES[kind]
    torch.save(content, tmp_path / "v.pt")
    pytest.raises(InputError, read_pack, tmp_path / "v.pt").match(message)


def npy(shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


NPY = (
    npy("(10000000000000,)"),
    npy("(510, 1, 256)"),
    npy("'x'"),
    npy("((((((,"),
    b"",
    b"\x93NUMPY",
    b"\0" * 999,
)


@pytest.mark.parametrize("content", NPY)
def test_npy_that_claims_what_it_has_not(content, tmp_path):
    (tmp_path / "v.npy").write_bytes(content)
    pytest.raises(InputError, read_pack, tmp_path / "v.npy").match(
        "cannot be read as a NumPy array"
    )


def test_blend_of_huge_weights_is_no_silence(tiny):
    assert parse_blend("slt:1e308,rms:1e308") == (("slt", 0.5), ("rms", 0.5))
    library = VoiceLibrary(tiny / "voices")
    assert np.allclose(library.blend("slt:1e308,rms:1e308"), library.blend("slt,rms"))


@pytest.mark.parametrize("name", ["../voices/slt", "slt\0", "x" * 300, "/etc/passwd", "."])
def test_voice_names_are_no_paths(name, tiny):
    with pytest.raises(InputError, match="no voice"):
        VoiceLibrary(tiny / "voices").pack(name)


def all_of(change):
    return lambda state: {
        part: {key: change(value) for key, value in tensors.items()}
        for part, tensors in state.items()
    }


WEIGHTS = {
    "zeros": (all_of(torch.zeros_like), "nothing but zeros"),
    "NaN": (all_of(lambda value: value * float("nan")), "holds NaN or infinity"),
    "complex": (all_of(lambda value: value.to(torch.complex64)), "is complex"),
    "sparse": (all_of(lambda value: value.to_sparse()), "is sparse"),
    "meta": (all_of(lambda value: value.to("meta")), "is on the meta device"),
    "numbers": (all_of(lambda _: 1.0), "is a float, not a tensor"),
    "integer keys": (
        lambda state: {part: dict(enumerate(tensors.values())) for part, tensors in state.items()},
        "has the key 0",
    ),
    "integer parts": (lambda state: dict(enumerate(state.values())), "unknown part '0'"),
    "a list": (lambda state: list(state.values()), "not a dict of state dicts"),
    "repeated": (
        all_of(lambda _: torch.ones(1).expand(1 << 20, 1 << 20)),
        "more than 2147483648 numbers",
    ),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights(kind, folder):
    change, message = WEIGHTS[kind]
    state = torch.load(folder / "random.pth", weights_only=True)
    torch.save(change(state), folder / "random.pth")
    with pytest.raises(InputError, match=message):
        Checkpoint.from_folder(folder).part("decoder")


def decoder(folder):
    return Checkpoint.from_folder(folder).part("decoder")


def test_no_pickle_runs_and_a_bad_one_is_one_line(folder):
    for content in (Runs(folder / "ran"), {"decoder": {"a": Runs(folder / "ran")}}):
        for write in (torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))):
            write(content, folder / "random.pth")
            assert refusal(decoder, folder)
            assert not (folder / "ran").exists()


@pytest.mark.parametrize("seed", range(60))
# whatever is done to the bytes: good weights or one InputError
def test_bits_and_cuts_of_a_weights_file(seed, folder):
    draw, stream = np.random.default_rng(seed), io.BytesIO()
    torch.save({"decoder": {"a": torch.ones(3)}}, stream)
    data = bytearray(stream.getvalue())
    for place in draw.integers(0, len(data), 4):
        data[place] ^= 1 << int(draw.integers(8))
    (folder / "random.pth").write_bytes(
        data[: int(draw.integers(len(data)))] if seed % 3 == 0 else data
    )
    refusal(decoder, folder)


def test_a_megabyte_of_digits(tmp_path, capsys):
    """46 s once: as one number its words were counted again for each digit. A tenth of it takes a
    tenth of the time.
    """
    seconds = []
    for digits in (30_000, 120_000):
        (tmp_path / "digits.txt").write_text("1" * digits)
        started = time.process_time()
        assert g2p(f"--file {tmp_path}/digits.txt".split()) == 0
        seconds.append(time.process_time() - started)
        assert printed(capsys)["words"] == digits
    assert seconds[1] < 12 * max(seconds[0], 0.1)  # 4 where it is linear, 16 where it is not


@pytest.mark.parametrize("size", [0, 1, 1000, 100_000])
def test_bundled_weights_that_were_cut_off(size, tmp_path):
    shutil.copy2(BUNDLED.with_suffix(".json"), tmp_path / BUNDLED.with_suffix(".json").name)
    (tmp_path / BUNDLED.name).write_bytes(BUNDLED.read_bytes()[:size])
    pytest.raises(InputError, load_arrays, tmp_path / BUNDLED.name).match("has SHA-256")


def test_a_manifest_of_another_method(tiny_build, tiny_checkpoint, tmp_path):
    build = shutil.copytree(tiny_build, tmp_path / "build")
    shutil.copy2(build / "KokoroVocoder-tiny-fp16.json", build / "KokoroVocoder-tiny-w8.json")
    with pytest.raises(InputError, match="says method 'fp16', expected 'w8'"):
        find_package(build, tiny_checkpoint, method_named("w8"))


SCHEMA = {
    "name": "audio",
    "isOptional": "0",
    "type": "MultiArray",
    "dataType": "Float16",
    "shape": "[1, 4]",
    "shapeRange": "[[1, 1], [2, 9]]",
}
METADATA = [
    {
        "specificationVersion": 7,
        "shortDescription": "x",
        "userDefinedMetadata": {"a": "b"},
        "defaultFunctionName": "main",
        "inputSchema": [SCHEMA],
        "outputSchema": [
            {"name": "first", "type": "MultiArray", "dataType": "Float16", "shape": "[]"}
        ],
        "functions": [{"name": "main", "inputSchema": [SCHEMA], "outputSchema": []}],
    }
]


@pytest.fixture
def compiled(tmp_path):
    folder = tmp_path / "x.mlmodelc"
    folder.mkdir()
    (folder / "model.mil").write_text(OLD, encoding="utf-8")
    return folder


def test_metadata_of_every_other_kind(compiled):
    (compiled / "metadata.json").write_text(json.dumps(METADATA))
    read_compiled(compiled)
    documents = [changed(METADATA, at, value) for at in places(METADATA) for value in OTHERS]
    broken, refused = ["[" * 200_000, "9" * 5_000, "", "\0", "null", "[]", "[5]"], 0
    for text in (*map(json.dumps, documents), *broken):
        (compiled / "metadata.json").write_text(text)
        refused += refusal(read_compiled, compiled) != ""
    assert refused > 100


def flexibility(compiled):
    audio = read_compiled(compiled).description.input[0].type.multiArrayType
    return audio.WhichOneof("ShapeFlexibility")


def test_a_compiled_program_that_does_not_know_its_lengths_can_be_told(compiled):
    """Such programs gave NaN durations on iOS; docs/synthesis.md has ports compare the lengths with
    the manifest's before a call.
    """
    assert flexibility(compiled) == "shapeRange"
    text = re.sub(r"\[FlexibleShapeInformation.*?\)\)\)\]", "", OLD, flags=re.DOTALL)
    assert "FlexibleShapeInformation" not in text
    (compiled / "model.mil").write_text(text, encoding="utf-8")
    assert flexibility(compiled) is None


def test_scratch_of_a_living_process_stays(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch() as first:
        with scratch():
            pass
        assert first.is_dir()
        assert left_behind(first) == ["owner.lock"]
    assert not left_behind(tmp_path)
