"""Data that nobody vouches for: JSON of other kinds, weights nobody trained, metadata, digits
without end. A value or one InputError.
"""

import io
import json
import pickle
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core import voices
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import VOICE_SHAPE
from kokoro_ane.core.data_files import check_inside, check_name, parse_json, read_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest, package_name
from kokoro_ane.core.voices import VoiceLibrary, parse_blend, read_pack
from kokoro_ane.pipeline.assembly import read_assembly
from kokoro_ane.pipeline.decision_file import decision_for
from kokoro_ane.pipeline.model_card import write_model_card
from kokoro_ane.pipeline.vector_files import load_index
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.quantize.recipe import load_recipe
from kokoro_g2p.__main__ import main as g2p
from kokoro_g2p.neural import WEIGHTS as BUNDLED
from kokoro_g2p.neural import load_arrays
from mlprogram import ProgramError
from mlprogram.compiled import read_compiled
from test_compiled import OLD
from tests.attacks.spoil import NO_DOCUMENTS, OTHERS, Runs, changed, one_of_a_list, places
from tests.commands import parsed, printed, refused
from tests.random_checkpoint import tiny_config

SHA = "0" * 64
# Good ones, which are spoilt here.
DOCUMENTS = parsed(Path(__file__).parent / "documents.json") | {"config": tiny_config()}
CONFIGS = (Path(__file__).parent / "configs.txt").read_text(encoding="utf-8").splitlines()


def bundled(path):
    """As far as a bundle reads it: the level of this package, and the model card."""
    write_model_card(path, DOCUMENTS["card"], *decision_for(path, SHA))


READERS = {
    "manifest": Manifest.load,
    "config": KokoroConfig.load,
    "recipe": load_recipe,
    "decision": bundled,
    "index.json": lambda path: load_index(path.parent),
    "manifest.json": lambda path: read_assembly(path.parent),
}


def written(folder, kind, text):
    path = folder / (kind if kind.endswith(".json") else f"{kind}.json")
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


@pytest.mark.parametrize("kind", READERS)
def test_the_good_one_is_read(kind, tmp_path):
    READERS[kind](written(tmp_path, kind, json.dumps(DOCUMENTS[kind])))


@pytest.mark.parametrize("kind", READERS)
def test_every_field_of_every_other_kind(kind, tmp_path):
    """Hundreds of documents a reader: each is read, or refused in one line that names the file."""
    data, lines = DOCUMENTS[kind], []
    for at in one_of_a_list(data):
        for value in OTHERS:
            path = written(tmp_path, kind, json.dumps(changed(data, at, value)))
            lines.append(refusal(READERS[kind], path))
    assert sum(line != "" for line in lines) > (20 if kind == "decision" else 100)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("text", NO_DOCUMENTS, ids=lambda text: text[:12] or "empty")
def test_what_is_no_document(kind, text, tmp_path):
    assert refusal(READERS[kind], written(tmp_path, kind, text))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bits_of_a_document(tmp_path_factory, data):
    kind = data.draw(st.sampled_from(sorted(READERS)))
    text = bytearray(json.dumps(DOCUMENTS[kind]).encode())
    for place in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=6)):
        text[place] = data.draw(st.integers(0, 255))
    path = written(tmp_path_factory.mktemp("bits"), kind, "")
    path.write_bytes(
        text[: data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text
    )
    refusal(READERS[kind], path)


@pytest.mark.parametrize(
    "name", ["../../x", "/x", "a/b", ".", "..", ".hidden", "a\nb", "x" * 65, "", "ü", "a\0", "con:"]
)
def test_names_that_are_no_names(name, tmp_path):
    refused("a name has letters", check_name, name, "name")
    with refused("a name has letters"):
        KokoroConfig.load(written(tmp_path, "config", json.dumps(tiny_config() | {"name": name})))
    with pytest.raises(InputError):
        Manifest.load(
            written(tmp_path, "manifest", json.dumps(DOCUMENTS["manifest"] | {"package": name}))
        )
    if name:
        method = f"{name}/../x" if name in ("..", ".", ".hidden") or len(name) > 60 else name
        with refused("the package's name" if len(name) < 60 else "at most"):
            package_name("KokoroVocoder", "tiny", True, method)


def test_paths_stay_inside():
    assert check_inside("short/asr.npy", "file") == "short/asr.npy"
    for path in ("../x", "/etc/passwd", "a//b", "a/../b"):
        with pytest.raises(InputError):
            check_inside(path, "file")


@pytest.mark.parametrize("row", CONFIGS)
def test_config_kinds_ranges_and_memory(row, tmp_path):
    (change, _, message), config = row.partition(" => "), tiny_config()
    for key, value in json.loads(change).items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    config = {key: value for key, value in config.items() if value is not None}
    with refused(message):
        KokoroConfig.load(written(tmp_path, "config", json.dumps(config)))


def test_one_reader(tmp_path):
    refused("is not a file", read_json, tmp_path, "what for")
    refused("a number of 31 digits", parse_json, "1" * 31, "x")


GOOD = torch.randn(VOICE_SHAPE)


@pytest.fixture
def folder(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "checkpoint")


# what is done to a voice, and to every tensor of the weights
TENSORS = {
    "NaN": (lambda value: value * float("nan"), "holds NaN or infinity"),
    "infinity": (lambda value: value.float() - float("inf"), "holds NaN or infinity"),
    "float64 beyond float32": (lambda value: (value + 9).double() * 1e300, "holds NaN or infinity"),
    "complex": (lambda value: value.to(torch.complex64), "is complex"),
    "sparse": (lambda value: value.to_sparse(), "is sparse"),
    "meta": (lambda value: value.to("meta"), "is on the meta device"),
    "zeros": (torch.zeros_like, "nothing but zeros"),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors(kind, folder, tmp_path):
    change, message = TENSORS[kind]
    torch.save(change(GOOD), tmp_path / "v.pt")
    refused(message, read_pack, tmp_path / "v.pt")
    refused(message, decoder, changed_weights(folder, all_of(change)))


VOICES = {
    "whole numbers": (torch.ones(VOICE_SHAPE, dtype=torch.int64), "holds torch.int64"),
    "a dict": ({"a": GOOD}, "holds a dict"),
    "another shape": (torch.ones(1).expand(1 << 20, 1 << 20), "has shape"),
}


@pytest.mark.parametrize("kind", VOICES)
def test_voice(kind, tmp_path):
    content, message = VOICES[kind]
    torch.save(content, tmp_path / "v.pt")
    refused(message, read_pack, tmp_path / "v.pt")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_voice_is_the_same_without_pytorch(dtype, tmp_path, monkeypatch):
    torch.save(torch.randn(1, 510, 256, dtype=dtype).transpose(0, 1), tmp_path / "v.pt")
    expected = read_pack(tmp_path / "v.pt")
    monkeypatch.setattr(voices, "find_spec", lambda _: None)
    assert np.array_equal(read_pack(tmp_path / "v.pt"), expected)


@pytest.mark.parametrize("kind", ["NaN", "complex", "sparse", "meta", "zeros", *VOICES, "code"])
def test_no_other_pt_file_is_a_voice_without_pytorch(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(voices, "find_spec", lambda _: None)
    content = Runs(tmp_path / "ran")
    if kind in TENSORS:
        content = TENSORS[kind][0](GOOD)
    elif kind in VOICES:
        content = VOICES[kind][0]
    torch.save(content, tmp_path / "v.pt")
    refused("v.pt", read_pack, tmp_path / "v.pt")
    assert not (tmp_path / "ran").exists()


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
    refused("cannot be read as a NumPy array", read_pack, tmp_path / "v.npy")


def test_blend_of_huge_weights_is_no_silence(tiny):
    assert parse_blend("slt:1e308,rms:1e308") == (("slt", 0.5), ("rms", 0.5))
    library = VoiceLibrary(tiny / "voices")
    assert np.allclose(library.blend("slt:1e308,rms:1e308"), library.blend("slt,rms"))


@pytest.mark.parametrize("name", ["../voices/slt", "slt\0", "x" * 300, "/etc/passwd", "."])
def test_voice_names_are_no_paths(name, tiny):
    with refused("no voice"):
        VoiceLibrary(tiny / "voices").pack(name)


def all_of(change):
    return lambda state: {
        part: {key: change(value) for key, value in tensors.items()}
        for part, tensors in state.items()
    }


def changed_weights(folder, change):
    """The checkpoint in `folder` after a change of its weights."""
    state = torch.load(folder / "random.pth", weights_only=True)
    torch.save(change(state), folder / "random.pth")
    return folder


def decoder(folder):
    return Checkpoint.from_folder(folder).part("decoder")


WEIGHTS = {
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
    refused(message, decoder, changed_weights(folder, change))


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
    refused("has SHA-256", load_arrays, tmp_path / BUNDLED.name)


def test_a_manifest_of_another_method(tiny_build, tiny_checkpoint, tmp_path):
    build = shutil.copytree(tiny_build, tmp_path / "build")
    name = "KokoroVocoder-tiny-padded"
    shutil.copy2(build / f"{name}-fp16.json", build / f"{name}-w8.json")
    with refused("says method 'padded-fp16', expected 'padded-w8'"):
        PackageRequest(tiny_checkpoint, build, "w8", "padded").load_verified()


@pytest.fixture
def compiled(tmp_path):
    folder = tmp_path / "x.mlmodelc"
    folder.mkdir()
    (folder / "model.mil").write_text(OLD, encoding="utf-8")
    return folder


def test_metadata_of_every_other_kind(compiled):
    data, refusals = DOCUMENTS["metadata"], 0
    (compiled / "metadata.json").write_text(json.dumps(data))
    read_compiled(compiled)
    documents = [changed(data, at, value) for at in places(data) for value in OTHERS]
    for text in (*map(json.dumps, documents), "[5]", *NO_DOCUMENTS):
        (compiled / "metadata.json").write_text(text)
        refusals += refusal(read_compiled, compiled) != ""
    assert refusals > 100


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
