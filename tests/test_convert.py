"""The build as a user types it: a checked package, a manifest written last, reproducible bytes, and nothing left after a failure."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.contract import FEATURES
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.export import package_sha256
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.build import main
from kokoro_ane.quantize.corpus import heldout
from kokoro_ane.quantize.speech import excerpt, text_encoder, vocoder_inputs
from kokoro_ane.vocoder import vocoder_stage
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import PaddedLayout
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import VocoderPackage, render_reference, run_program
from kokoro_ane.vocoder.vocoder_stage import VocoderFacts
from mlprogram import Program

ROOT = Path(__file__).resolve().parents[1]
BUCKETS = "40,160,640"  # of the shared packages: tests/conftest.py
NAME = "KokoroVocoder-tiny-fp16"
pytestmark = pytest.mark.usefixtures("quick_conversion")


@pytest.fixture
def checkpoint(tiny_checkpoint: Checkpoint) -> Checkpoint:
    return tiny_checkpoint


@pytest.fixture
def built(tiny_build: Path) -> Path:
    return tiny_build


@pytest.fixture(scope="module")
def speech(tiny_checkpoint: Checkpoint) -> VocoderInputs:
    vocoder, text = Vocoder.of(tiny_checkpoint), text_encoder(tiny_checkpoint)
    return excerpt(vocoder_inputs(tiny_checkpoint, vocoder, text, heldout()[0], seed=0), start=30, frames=26)


def left_behind(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir()) if out.exists() else []


def build_again(checkpoint: Checkpoint, out: Path, *flags: str) -> int:
    return main(["vocoder", "--checkpoint", str(checkpoint.folder), "--buckets", BUCKETS, "--out", str(out), *flags])


def test_manifest_says_everything(built: Path, checkpoint: Checkpoint) -> None:
    manifest = Manifest.load(built / f"{NAME}.json")
    manifest.verify()
    assert manifest.buckets == (40, 160, 640)
    assert manifest.checkpoint_sha256 == checkpoint.content_sha256
    assert not manifest.releasable
    convolutions = [module for module in Vocoder.of(checkpoint).modules() if isinstance(module, torch.nn.Conv2d)]
    assert manifest.operations["conv"] == len(convolutions) > 50
    assert len(manifest.source["weights"]) == 9
    names = [f"Kokoro{stage}-tiny-{precision}" for stage in ("Encoder", "Vocoder") for precision in ("fp16", "fp32")]
    assert left_behind(built) == sorted(f"{name}.{kind}" for name in names for kind in ("json", "mlpackage"))


def test_program_facts(built: Path) -> None:
    program = Program(built / f"{NAME}.mlpackage")
    facts = VocoderFacts.of(program)
    facts.require("fp16", buckets=3)
    assert facts.forbidden == {} and facts.not_rank_4 == 0
    assert facts.fp32_outside_tail == () and facts.fp16_inside_tail == ()
    assert {shape[3] for shape in program.inputs[FEATURES].shapes} == {41, 161, 641}


def test_tail_runs_in_fp32_and_trunk_in_fp16(built: Path, speech: VocoderInputs) -> None:
    """Not what the file declares but what runs: only the tail's values are finer than fp16."""
    finer: set[str] = set()

    def hook(_name: str, op_type: str, value: torch.Tensor) -> None:
        if value.is_floating_point() and not torch.equal(value.half().to(value.dtype), value):
            finer.add(op_type)

    run_program(VocoderPackage(built / f"{NAME}.json").program, PaddedLayout(), speech, 40, hook=hook)
    assert {"exp", "cos"} <= finer
    assert not finer & {"leaky_relu", "reduce_mean", "rsqrt", "upsample_nearest_neighbor", "split"}


def test_fp32_package_equals_pytorch(built: Path, checkpoint: Checkpoint, speech: VocoderInputs) -> None:
    package = VocoderPackage(built / "KokoroVocoder-tiny-fp32.json", precision="exact")
    assert snr_db(render_reference(Vocoder.of(checkpoint), speech), package.render(speech)) >= 100


def test_another_process_gives_the_same_bytes_and_ends_in_json(built: Path, checkpoint: Checkpoint, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kokoro_ane", "build", "vocoder", "--checkpoint", str(checkpoint.folder), "--buckets", BUCKETS]
    command += ["--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}, check=True, capture_output=True, text=True
    )
    report = json.loads(done.stdout.strip().splitlines()[-1])
    assert [Path(path) for path in report["manifests"]] == [tmp_path / f"{NAME}.json"]
    assert package_sha256(tmp_path / f"{NAME}.mlpackage") == package_sha256(built / f"{NAME}.mlpackage")


def test_a_failed_rebuild_leaves_the_old_package_whole(
    built: Path, checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "build"
    shutil.copytree(built, out)
    monkeypatch.setitem(vocoder_stage.LIMIT_SNR_DB, "fp16", 400.0)
    assert build_again(checkpoint, out) == 1
    assert "limit >= 400 dB" in capsys.readouterr().err
    assert left_behind(out) == left_behind(built)
    Manifest.load(out / f"{NAME}.json").verify()


def test_changed_package_is_refused(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "build"
    shutil.copytree(built, out)
    weights = out / f"{NAME}.mlpackage" / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(InputError, match="its manifest says"):
        VocoderPackage(out / f"{NAME}.json")


def test_full_disk_leaves_nothing(checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A file-size limit stands for a disk that fills while the package is written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        assert build_again(checkpoint, tmp_path / "out") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    error = capsys.readouterr().err
    assert "Traceback" not in error and "error: cannot write" in error
    assert left_behind(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--buckets", ""], "bucket list is empty"),
        (["--buckets", "40,20"], "20 stands after 40"),
        (["--buckets", "forty"], "not a list of whole numbers"),
        (["--checkpoint", "nowhere"], "neither a folder nor"),
        (["--precision", "int8"], "invalid choice"),
    ],
)
def test_bad_flags(flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    try:
        code = main(["vocoder", "--out", str(tmp_path / "out"), *flags])
    except SystemExit as stop:  # argparse's own way out
        code = stop.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert left_behind(tmp_path / "out") == []
