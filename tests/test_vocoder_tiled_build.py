"""The tiled layout as a user builds it: an executed package, a manifest that tells the layout, refusals in one line."""

from pathlib import Path

import pytest

from bench.random_checkpoint import tiny_config
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.commands import build_command
from kokoro_ane.core.contract import LAYOUTS
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.build import main, parse_arguments
from kokoro_ane.quantize.corpus import heldout
from kokoro_ane.quantize.speech import excerpt, text_encoder, vocoder_inputs
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import TiledLayout, chips_without_sine, layout_named, layout_recorded
from kokoro_ane.vocoder.render import VocoderPackage, render_reference
from mlprogram.examine.forecast import forecast_residency
from mlprogram.examine.profile import Profile, open_program, profile_program
from mlprogram.examine.rules import load_rules
from tests.builds import checkpoint_once, packages_once


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint_once(tmp_path_factory, tiny_config())


@pytest.fixture(scope="module")
def built(checkpoint: Checkpoint, quick_conversion: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ["--layout", "tiled", "--chips", "m1,M2", "--buckets", "41,62,119"]
    return packages_once(tmp_path_factory, checkpoint, [["vocoder", *flags]]) / "KokoroVocoder-tiny-tiled-poly-fp16.json"


@pytest.fixture(scope="module")
def profiles(built: Path) -> list[Profile]:
    """The program at each of its lengths."""
    program = open_program(Manifest.load(built).package_path)
    return [profile_program(program, shapes) for shapes in program.all_shapes()]


def test_the_manifest_tells_the_layout_and_the_package_speaks(built: Path, checkpoint: Checkpoint) -> None:
    package, vocoder = VocoderPackage(built), Vocoder.of(checkpoint)
    features = package.manifest.inputs["features"]
    assert package.manifest.layout == "tiled-poly" and features["chips"] == ["m1", "m2"]
    assert features["shapes"] == {"41": [3, 13], "62": [3, 20], "119": [3, 39]}
    assert layout_recorded(package.manifest.layout, features, package.manifest.outputs) == TiledLayout.of(("m1", "m2"))
    assert "cos" not in {op for op in package.manifest.operations if package.manifest.operations[op] > 1}
    inputs = excerpt(vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0), start=0, frames=55)
    assert snr_db(render_reference(vocoder, inputs), package.render(inputs)) >= 40


@pytest.mark.parametrize("chip", ["m1", "m2", "m3", "m4", "m5"])
def test_no_trunk_operation_leaves_any_chip(profiles: list[Profile], chip: str) -> None:
    assert len(profiles) == 3
    for profile in profiles:
        assert forecast_residency(profile, load_rules(), chip).optimistic.cut.engine_segments == 1


def test_chips_decide_the_snake() -> None:
    assert TiledLayout.of(("m3", "m4", "m5")).name == "tiled"
    assert TiledLayout.of(("m5", "m1")).name == "tiled-poly"
    assert TiledLayout.of().polynomial


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_asked_for_by_the_name_of_its_package(name: str) -> None:
    """By the command that a message names, which is the one that the judge runs."""
    arguments = parse_arguments(build_command("vocoder", name).split()[2:])
    assert layout_named(arguments.layout, arguments.chips).name == name


def test_chips_decide_under_either_name() -> None:
    assert layout_named("tiled", ("m1",)).name == layout_named("tiled-poly", ("m3",)).name == "tiled-poly"
    assert layout_named("tiled", ("m3",)).name == "tiled"
    assert not set(layout_named("tiled").chips) & chips_without_sine(load_rules())


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--layout", "tiled", "--chips", "m9"], "it has m1, m2"),
        (["--chips", "m1"], "--chips belongs to --layout tiled"),
        (["--layout", "tiled", "--buckets", "40,80"], "41 would be"),
        (["--layout", "tiled", "--buckets", "20,182"], "add one between"),
    ],
)
def test_refusals_are_one_line(flags: list[str], says: str, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["vocoder", "--checkpoint", str(checkpoint.folder), "--out", str(tmp_path), *flags]) == 2
    told = capsys.readouterr()
    assert says in told.err and len(told.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_length_no_shape_covers(built: Path, checkpoint: Checkpoint) -> None:
    vocoder = Vocoder.of(checkpoint)
    inputs = excerpt(vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0), start=0, frames=120)
    with pytest.raises(InputError, match="largest bucket is 119"):
        VocoderPackage(built).render(inputs)
