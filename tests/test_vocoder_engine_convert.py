"""The variant as a user builds it: an executed package, a manifest that tells the variant, refusals in one line."""

from pathlib import Path

import pytest

from bench.random_checkpoint import tiny_config, write_checkpoint
from mlprogram.examine.forecast import forecast_residency
from mlprogram.examine.profile import open_program, profile_program
from mlprogram.examine.rules import load_rules
from pipeline.checkpoint import Checkpoint, open_checkpoint
from pipeline.demo.data import heldout
from pipeline.errors import InputError
from pipeline.features import excerpt, text_encoder, vocoder_inputs
from pipeline.figures import snr_db
from pipeline.manifest import Manifest
from vocoder.convert import main
from vocoder.engine.options import EngineOptions
from vocoder.package import VocoderPackage, render_reference


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return open_checkpoint(str(write_checkpoint(tmp_path_factory.mktemp("checkpoint"), tiny_config())))


@pytest.fixture(scope="module")
def built(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("build")
    flags = ["--variant", "engine", "--chips", "m1,M2", "--buckets", "41,62,119"]
    assert main(["--checkpoint", str(checkpoint.folder), "--out", str(out), *flags]) == 0
    return out / "KokoroVocoder-tiny-engine-poly-fp16.json"


def test_the_manifest_tells_the_variant_and_the_package_speaks(built: Path, checkpoint: Checkpoint) -> None:
    package, vocoder = VocoderPackage(built), checkpoint.vocoder()
    features = package.manifest.inputs["features"]
    assert features["variant"] == "engine-poly" and features["chips"] == ["m1", "m2"]
    assert features["shapes"] == {"41": [3, 13], "62": [3, 20], "119": [3, 39]}
    assert EngineOptions.recorded(features) == EngineOptions.of(("m1", "m2"))
    assert "cos" not in {op for op in package.manifest.operations if package.manifest.operations[op] > 1}
    inputs = excerpt(vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0), start=0, frames=55)
    assert snr_db(render_reference(vocoder, inputs), package.render(inputs)) >= 40


@pytest.mark.parametrize("chip", ["m1", "m2", "m3", "m4", "m5"])
def test_no_trunk_operation_leaves_any_chip(built: Path, chip: str) -> None:
    program = open_program(Manifest.load(built).package_path)
    for shapes in program.all_shapes():
        reading = forecast_residency(profile_program(program, shapes), load_rules(), chip).optimistic
        assert reading.cut.engine_segments == 1


def test_chips_decide_the_snake() -> None:
    assert EngineOptions.of(("m3", "m4", "m5")).name == "engine"
    assert EngineOptions.of(("m5", "m1")).name == "engine-poly"
    assert EngineOptions.of().polynomial
    assert EngineOptions.chosen("literal", None) is None


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--variant", "engine", "--chips", "m9"], "it has m1, m2"),
        (["--chips", "m1"], "--chips belongs to --variant engine"),
        (["--variant", "engine", "--buckets", "40,80"], "41 would be"),
        (["--variant", "engine", "--buckets", "20,182"], "add one between"),
    ],
)
def test_refusals_are_one_line(flags: list[str], says: str, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["--checkpoint", str(checkpoint.folder), "--out", str(tmp_path), *flags]) == 2
    told = capsys.readouterr()
    assert says in told.err and len(told.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_length_no_shape_covers(built: Path, checkpoint: Checkpoint) -> None:
    vocoder = checkpoint.vocoder()
    inputs = excerpt(vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0), start=0, frames=120)
    with pytest.raises(InputError, match="largest bucket is 119"):
        VocoderPackage(built).render(inputs)
