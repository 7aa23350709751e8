"""The rest of what was seen: a megabyte of digits, bundled data cut off, a manifest of another method, compiled
programs that do not know their lengths, the two recoveries of a killed process's files."""

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.__main__ import main as g2p
from kokoro_ane.g2p.neural import WEIGHTS, load_arrays
from kokoro_ane.quantize.locator import find_package
from kokoro_ane.quantize.methods import method_named
from mlprogram import ProgramError
from mlprogram.compiled import read_compiled
from mlprogram.files import aside
from mlprogram.scratch import scratch
from mlprogram.tests.test_compiled import OLD
from tests.test_attacks_json import OTHERS, changed, places
from tests.test_attacks_output import names


def test_a_megabyte_of_digits(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """46 s once: as one number its words were counted again for each digit. A tenth of it takes a tenth of the time."""
    seconds = []
    for digits in (30_000, 120_000):
        (tmp_path / "digits.txt").write_text("1" * digits)
        started = time.process_time()
        assert g2p(["--file", str(tmp_path / "digits.txt")]) == 0
        seconds.append(time.process_time() - started)
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["words"] == digits
    assert seconds[1] < 12 * max(seconds[0], 0.1)  # 4 where it is linear, 16 where it is not


@pytest.mark.parametrize("kept", [0, 1, 1000, 100_000])
def test_bundled_weights_that_were_cut_off(kept: int, tmp_path: Path) -> None:
    shutil.copy2(WEIGHTS.with_suffix(".json"), tmp_path / WEIGHTS.with_suffix(".json").name)
    (tmp_path / WEIGHTS.name).write_bytes(WEIGHTS.read_bytes()[:kept])
    with pytest.raises(InputError, match="has SHA-256"):
        load_arrays(tmp_path / WEIGHTS.name)


def test_a_manifest_of_another_method(tiny_build: Path, tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    build = Path(shutil.copytree(tiny_build, tmp_path / "build"))
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
METADATA = [{"specificationVersion": 7, "shortDescription": "x", "userDefinedMetadata": {"a": "b"}, "defaultFunctionName": "main",
             "inputSchema": [SCHEMA], "outputSchema": [{"name": "first", "type": "MultiArray", "dataType": "Float16", "shape": "[]"}],
             "functions": [{"name": "main", "inputSchema": [SCHEMA], "outputSchema": []}]}]  # fmt: skip


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A compiled program of four operations."""
    folder = tmp_path / "x.mlmodelc"
    folder.mkdir()
    (folder / "model.mil").write_text(OLD, encoding="utf-8")
    return folder


def test_metadata_of_every_other_kind(compiled: Path) -> None:
    (compiled / "metadata.json").write_text(json.dumps(METADATA))
    read_compiled(compiled)
    documents, refused = [changed(METADATA, at, value) for at in places(METADATA) for value in OTHERS], 0
    for text in [json.dumps(document) for document in documents] + ["[" * 200_000, "9" * 5_000, "", "\0", "null", "[]", "[5]"]:
        (compiled / "metadata.json").write_text(text)
        try:
            read_compiled(compiled)
        except ProgramError as problem:
            refused += 1
            assert len(str(problem).splitlines()) == 1
    assert refused > 100


def test_a_compiled_program_that_does_not_know_its_lengths_can_be_told(compiled: Path) -> None:
    """Such programs gave NaN durations on iOS; docs/synthesis.md has ports compare the lengths with the manifest's before a call."""
    assert read_compiled(compiled).description.input[0].type.multiArrayType.WhichOneof("ShapeFlexibility") == "shapeRange"
    text = re.sub(r"\[FlexibleShapeInformation.*?\)\)\)\]", "", OLD, flags=re.DOTALL)
    assert "FlexibleShapeInformation" not in text
    (compiled / "model.mil").write_text(text, encoding="utf-8")
    assert read_compiled(compiled).description.input[0].type.multiArrayType.WhichOneof("ShapeFlexibility") is None


def test_scratch_and_aside_of_a_living_process_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with scratch() as first, aside(tmp_path / "x.json") as path:
        path.write_text("{}")
        with scratch(), aside(tmp_path / "y.json") as other:
            other.write_text("{}")
        assert first.is_dir() and names(first) == ["owner.lock"]
    assert names(tmp_path) == ["x.json", "y.json"]
