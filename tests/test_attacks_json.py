"""JSON that nobody vouches for: other kinds, missing keys, 200,000 brackets, 5,000 digits. A reader gives its value or one InputError."""

import dataclasses
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.random_checkpoint import tiny_config
from kokoro_ane.core.checksummed import checksummed
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.data_files import check_inside, check_name
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest, package_name
from kokoro_ane.core.staging import parse_json, read_json
from kokoro_ane.eval.reported import read_reported
from kokoro_ane.pipeline.assembly import Assembly
from kokoro_ane.pipeline.decision_file import ABOUT, FORMAT, read_decision
from kokoro_ane.pipeline.vector_files import load_index
from kokoro_ane.quantize.recipe import Recipe, load_recipe
from tests.changes import changed, places
from tests.release_record import made_up, shortened

SHA = "0" * 64
MANIFEST = Manifest(
    stage="KokoroVocoder", method="fp16", precision="fp16", checkpoint={"name": "tiny", "sha256": SHA}, releasable=False,
    package="KokoroVocoder-tiny-fp16.mlpackage", package_sha256=SHA, package_bytes=1, target="iOS17", buckets=(20, 40), hidden_dim=16,
    inputs={"features": {"shape": [1]}}, outputs={}, source={}, operations={"conv": 1}, checks={}, tools={"torch": "2"},
    functions={"main": "main"}, token_buckets=(16,), alignment={"a": 1},
)  # fmt: skip
STORED = {"file": "a/b.npy", "sha256": SHA, "shape": [1], "dtype": "float32"}
FILE = {"file": "x.json", "sha256": SHA, "bytes": 1}
PACKAGE = FILE | {"package": "x.mlpackage", "package_sha256": SHA, "package_bytes": 1, "target": "iOS17"}
LEVEL = {"method": "w8", "verdict": "SHIP", "bytes": 1, "failed": None, "reasons": ["good"], "provenance": {"package_sha256": SHA}}
REPORTED = shortened(made_up({"fp16": 0.01}) | {"format": FORMAT})
READERS: dict[str, tuple[dict[str, Any], Callable[[Path], Any]]] = {
    "manifest": ({k: v for k, v in dataclasses.asdict(MANIFEST).items() if k != "path"}, Manifest.load),
    "config": (tiny_config(), KokoroConfig.load),
    "recipe": (Recipe("tiny", SHA, {"size": 0.5}, {"size": 0.4}, {"conv": "w8"}).as_dict(), load_recipe),
    "decision": (
        {"format": FORMAT, "verdict": "SHIP", "level": "w8", "levels": [LEVEL], "provenance": {"seed": 0, "precision": "declared"}},
        read_decision,
    ),
    "reported decision": (REPORTED, read_reported),
    "index.json": (
        {"format": 1, "checkpoint": {"sha256": SHA}, "packages": {"x": SHA}, "voice": {"file": "voice.npy", "sha256": SHA},
         "utterances": [{"id": "short", "tensors": {"asr": STORED}}],
         "text": {"file": "text.wav", "sha256": SHA, "longest_phonemes": 20, "chunks": [{}]}},
        lambda path: load_index(path.parent),
    ),
    "assembly": (
        {"format": 2, "checkpoint": {"name": "tiny", "sha256": SHA}, "releasable": False, "withheld": "tiny", "method": "fp16",
         "encoder": [PACKAGE], "vocoder": PACKAGE, "g2p": {"absent": "x"}, "vocabulary": FILE, "voices": {"files": [FILE]},
         "lexicon": {}, "vectors": None},
        Assembly.load,
    ),
}  # fmt: skip


def written(folder: Path, kind: str, text: str) -> Path:
    path = folder / ("index.json" if kind == "index.json" else f"{kind}.json")
    with suppress(ValueError, RecursionError):
        if kind.endswith("decision") and isinstance(data := json.loads(text), dict):
            text = json.dumps(checksummed(data, ABOUT))  # what is wrong with it beside its digest
    path.write_text(text, encoding="utf-8")
    return path


OTHERS = (None, True, 5, -1, 0, 1.5, 10**25, float("nan"), "x", "../../x", "", [], [[]], ["x"], {}, {"x": {}}, [None])


@pytest.mark.parametrize("kind", READERS)
def test_the_good_one_is_read(kind: str, tmp_path: Path) -> None:
    data, reader = READERS[kind]
    reader(written(tmp_path, kind, json.dumps(data)))


@pytest.mark.parametrize("kind", READERS)
def test_every_field_of_every_other_kind(kind: str, tmp_path: Path) -> None:
    """Hundreds of documents a reader: each is read, or refused in one line that names the file."""
    data, reader = READERS[kind]
    refused = 0
    data = json.loads(json.dumps(data))
    for at in places(data):
        for value in OTHERS:
            path = written(tmp_path, kind, json.dumps(changed(data, at, value)))
            try:
                reader(path)
            except InputError as problem:
                refused += 1
                assert len(str(problem).splitlines()) == 1 and len(str(problem)) < 1500, problem
    assert refused > 100


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 200_000, "9" * 5_000, '{"format": ' + "9" * 5_000 + "}", '{"format": 1e999}', "null", "[]", "5", '"x"',
     "", "{", '{"format": 1}', '{"format": 2}', "\ufeff{}", "\0", '{"format": NaN}'],
    ids=lambda text: text[:12] or "empty",
)  # fmt: skip
def test_what_is_no_document(kind: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        READERS[kind][1](written(tmp_path, kind, text))
    assert len(str(told.value).splitlines()) == 1 and len(str(told.value)) < 1500


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_bits_of_a_document(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(READERS)))
    text = bytearray(json.dumps(READERS[kind][0]).encode())
    for place in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=6)):
        text[place] = data.draw(st.integers(0, 255))
    path = written(tmp_path_factory.mktemp("bits"), kind, "")
    path.write_bytes(text[: data.draw(st.integers(0, len(text)))] if data.draw(st.booleans()) else text)
    try:
        READERS[kind][1](path)
    except InputError as problem:
        assert len(str(problem).splitlines()) == 1


@pytest.mark.parametrize("name", ["../../x", "/x", "a/b", ".", "..", ".hidden", "a\nb", "x" * 65, "", "ü", "a\0", "con:"])
def test_names_that_are_no_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a name has letters"):
        check_name(name, "name")
    with pytest.raises(InputError, match="a name has letters"):
        KokoroConfig.load(written(tmp_path, "config", json.dumps(tiny_config() | {"name": name})))
    with pytest.raises(InputError):
        Manifest.load(written(tmp_path, "manifest", json.dumps(READERS["manifest"][0] | {"package": name})))
    if name:
        with pytest.raises(InputError, match="the package's name" if len(name) < 60 else "at most"):
            package_name("KokoroVocoder", "tiny", True, f"{name}/../x" if name in ("..", ".", ".hidden") or len(name) > 60 else name)


def test_paths_stay_inside() -> None:
    assert check_inside("short/asr.npy", "file") == "short/asr.npy"
    for path in ("../x", "/etc/passwd", "a//b", "a/../b"):
        with pytest.raises(InputError):
            check_inside(path, "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layer": 10_000_000}, "not a positive whole number up to 16384"),
        ({"n_layer": 4096}, "at most 128"),
        ({"hidden_dim": 16_384, "n_layer": 128, "text_encoder_kernel_size": 16_384}, "GB, this machine has"),
        ({"releasable": "false"}, "not true or false"),
        ({"vocab": {"a": 178}}, "outside n_token"),
        ({"vocab": {"a": -1}}, "outside n_token"),
        ({"vocab": {"a": "1"}}, "not a whole number"),
        ({"dropout": float("nan")}, "not a finite number"),
        ({"plbert": tiny_config()["plbert"] | {"num_attention_heads": 5}}, "no multiple of num_attention_heads"),
        ({"istftnet": tiny_config()["istftnet"] | {"resblock_kernel_sizes": [3, "7", 11]}}, "not a whole number"),
        ({"istftnet": tiny_config()["istftnet"] | {"upsample_rates": []}}, "is empty"),
    ],
)
def test_config_kinds_ranges_and_memory(change: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        KokoroConfig.load(written(tmp_path, "config", json.dumps(tiny_config() | change)))


def test_one_reader(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        read_json(tmp_path, "what for")
    with pytest.raises(InputError, match="a number of 31 digits"):
        parse_json("1" * 31, "x")
