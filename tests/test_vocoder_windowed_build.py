"""The windowed form as a user builds it: an executed package, a manifest that tells the form, refusals in one line."""

from pathlib import Path

import pytest

from bench.random_checkpoint import tiny_config
from core.checkpoint import Checkpoint
from core.commands import build_command
from core.contract import FORMS
from core.corpus import heldout
from core.errors import InputError
from core.figures import snr_db
from core.manifest import Manifest
from eval.packages import build_arguments
from mlprogram.examine.forecast import forecast_residency
from mlprogram.examine.profile import Profile, open_program, profile_program
from mlprogram.examine.rules import load_rules
from pipeline.build import main, parse_arguments
from quantize.features import excerpt, text_encoder, vocoder_inputs
from quantize.methods import METHODS
from tests.builds import checkpoint_once, packages_once
from vocoder.decoder import Vocoder
from vocoder.forms import WindowedForm, chips_without_sine, form_named, form_recorded
from vocoder.package import VocoderPackage, render_reference


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint_once(tmp_path_factory, tiny_config())


@pytest.fixture(scope="module")
def built(checkpoint: Checkpoint, quick_conversion: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ["--form", "windowed", "--chips", "m1,M2", "--buckets", "41,62,119"]
    return packages_once(tmp_path_factory, checkpoint, [["vocoder", *flags]]) / "KokoroVocoder-tiny-windowed-poly-fp16.json"


@pytest.fixture(scope="module")
def profiles(built: Path) -> list[Profile]:
    """The program at each of its lengths."""
    program = open_program(Manifest.load(built).package_path)
    return [profile_program(program, shapes) for shapes in program.all_shapes()]


def test_the_manifest_tells_the_form_and_the_package_speaks(built: Path, checkpoint: Checkpoint) -> None:
    package, vocoder = VocoderPackage(built), Vocoder.of(checkpoint)
    features = package.manifest.inputs["features"]
    assert package.manifest.form == "windowed-poly" and features["chips"] == ["m1", "m2"]
    assert features["shapes"] == {"41": [3, 13], "62": [3, 20], "119": [3, 39]}
    assert form_recorded(package.manifest.form, features) == WindowedForm.of(("m1", "m2"))
    assert "cos" not in {op for op in package.manifest.operations if package.manifest.operations[op] > 1}
    inputs = excerpt(vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0), start=0, frames=55)
    assert snr_db(render_reference(vocoder, inputs), package.render(inputs)) >= 40


@pytest.mark.parametrize("chip", ["m1", "m2", "m3", "m4", "m5"])
def test_no_trunk_operation_leaves_any_chip(profiles: list[Profile], chip: str) -> None:
    assert len(profiles) == 3
    for profile in profiles:
        assert forecast_residency(profile, load_rules(), chip).optimistic.cut.engine_segments == 1


def test_chips_decide_the_snake() -> None:
    assert WindowedForm.of(("m3", "m4", "m5")).name == "windowed"
    assert WindowedForm.of(("m5", "m1")).name == "windowed-poly"
    assert WindowedForm.of().polynomial


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_asked_for_by_the_name_of_its_package(name: str) -> None:
    """By the command that a message names, and by the one that the judge runs."""
    named = build_command("vocoder", name).split()[2:]
    ran = build_arguments(METHODS["fp16"], name, None, Path("b"))[1:]
    for arguments in map(parse_arguments, (named, ran)):
        assert form_named(arguments.form, arguments.chips).name == name


def test_chips_decide_under_either_name() -> None:
    assert form_named("windowed", ("m1",)).name == form_named("windowed-poly", ("m3",)).name == "windowed-poly"
    assert form_named("windowed", ("m3",)).name == "windowed"
    assert not set(form_named("windowed").chips) & chips_without_sine(load_rules())


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--form", "windowed", "--chips", "m9"], "it has m1, m2"),
        (["--chips", "m1"], "--chips belongs to --form windowed"),
        (["--form", "windowed", "--buckets", "40,80"], "41 would be"),
        (["--form", "windowed", "--buckets", "20,182"], "add one between"),
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
