"""The encoder build as a user types it: a checked package of two functions, a manifest written last, nothing left after a failure."""

import shutil
from pathlib import Path

import pytest
import torch

from bench.comparison import real_styles
from kokoro_ane.core.checkpoint import DEMO_FOLDER, Checkpoint
from kokoro_ane.core.checks import ProgramFacts
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder import encoder_stage
from kokoro_ane.encoder.encoder_stage import FORBIDDEN, EncoderPackage
from kokoro_ane.encoder.encoder_steps import EncoderBackend, encode, input_ids
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.pipeline.build import main
from mlprogram import Program

ROOT = Path(__file__).resolve().parents[1]
NAME = "KokoroEncoder-tiny-fp16"
BUCKETS = ["--buckets", "40,160,640", "--token-buckets", "16,64,192"]  # of the shared packages: tests/conftest.py
pytestmark = pytest.mark.usefixtures("quick_conversion")


@pytest.fixture
def checkpoint(tiny_checkpoint: Checkpoint) -> Checkpoint:
    return tiny_checkpoint


@pytest.fixture
def built(tiny_build: Path) -> Path:
    return tiny_build


def some_ids(checkpoint: Checkpoint, count: int) -> list[int]:
    """Ids of `count` symbols, one after another in the order of the vocabulary, every seventh of it."""
    symbols = sorted(checkpoint.config.vocab)
    return input_ids("".join(symbols[(7 * i + count) % len(symbols)] for i in range(count)), checkpoint.config.vocab)


def build(checkpoint: Checkpoint, out: Path, *flags: str) -> int:
    return main(["encoder", "--checkpoint", str(checkpoint.folder), "--out", str(out), *BUCKETS, *flags])


def left_behind(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir()) if out.exists() else []


def test_manifest_says_everything(built: Path, checkpoint: Checkpoint) -> None:
    manifest = Manifest.load(built / f"{NAME}.json")
    manifest.verify()
    assert manifest.functions == {"duration": "duration", "prosody": "prosody"}
    assert manifest.token_buckets == (16, 64, 192) and manifest.buckets == (40, 160, 640)
    assert manifest.compute_units["default"] == "CPU_AND_GPU" and manifest.compute_units["M5"] == "CPU_ONLY"
    assert manifest.source["kept_fp32"] == {"duration": ["duration_predictor"], "prosody": ["f0_predictor"]}
    assert manifest.inputs["duration"]["input_ids"]["padding"] == -1
    assert manifest.checkpoint_sha256 == checkpoint.content_sha256 and not manifest.releasable


@pytest.mark.parametrize(("function", "lstms", "lengths"), [("duration", 5, {16, 64, 192}), ("prosody", 1, {40, 160, 640})])
def test_structure(built: Path, function: str, lstms: int, lengths: set[int]) -> None:
    program = Program(built / f"{NAME}.mlpackage", function=function)
    facts = ProgramFacts.of(program, "input_ids" if function == "duration" else "frames", FORBIDDEN)
    assert facts.operations["lstm"] == lstms and facts.forbidden == {}
    assert facts.count < 400
    flexible = [spec for spec in program.inputs.values() if spec.shapes]
    assert len(flexible) == 1 and {shape[-1] for shape in flexible[0].shapes} == lengths


def test_durations_run_in_fp32_and_text_in_fp16(built: Path) -> None:
    """Not what the file declares but what runs: every value on the way to a duration is finer than fp16, none of the text encoder's is."""
    fine, coarse = [], []

    def hook(_name: str, op_type: str, value: torch.Tensor) -> None:
        if op_type in ("lstm", "linear", "layer_norm", "conv"):
            (coarse if torch.equal(value.half().to(value.dtype), value) else fine).append(op_type)

    ids = torch.randint(0, 100, (1, 64), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    program = Program(built / f"{NAME}.mlpackage", function="duration")
    program({"input_ids": ids, "style": real_styles()[0][:, 128:], "speed": torch.ones(1)}, hook=hook)
    assert {kind: coarse.count(kind) for kind in coarse} == {"conv": 3, "layer_norm": 3, "lstm": 3}  # text encoder; an lstm gives three
    assert fine.count("linear") >= 20 and fine.count("layer_norm") >= 10 and "lstm" in fine


def test_any_length_through_the_package(built: Path, checkpoint: Checkpoint) -> None:
    """Durations of every token equal PyTorch's; features within fp16's rounding."""
    package, twin = EncoderPackage((built / f"{NAME}.json",)), torch_functions(Encoder.of(checkpoint))
    for length in (1, 14, 15, 33):
        ids = some_ids(checkpoint, length)
        style = real_styles()[length % 6][:, 128:]
        wanted, got = (encode(backend, ids, style, 1.0) for backend in (EncoderBackend(twin, package.limits), package.backend))
        assert torch.equal(wanted.durations, got.durations)
        figures = encoder_stage.compared([(wanted, got)], "fp16")
        assert all(figure.holds for figure in figures), figures


def test_fp32_package_equals_pytorch(built: Path) -> None:
    manifest = Manifest.load(built / "KokoroEncoder-tiny-fp32.json")
    assert min(f["value"] for f in manifest.checks["figures"] if f["unit"] == "dB") >= 100
    assert all(structure["fp16_operations"] == 0 for structure in manifest.checks["structure"].values())


def test_ios17_gives_two_packages_that_work_together(built: Path, checkpoint: Checkpoint, tmp_path: Path) -> None:
    assert build(checkpoint, tmp_path, "--target", "iOS17") == 0
    names = ("KokoroEncoderDuration-tiny-fp16", "KokoroEncoderProsody-tiny-fp16")
    assert left_behind(tmp_path) == sorted(f"{name}.{kind}" for name in names for kind in ("json", "mlpackage"))
    paths = tuple(tmp_path / f"{name}.json" for name in names)
    ids, style = some_ids(checkpoint, 7), real_styles()[0][:, 128:]
    one = encode(EncoderPackage((built / f"{NAME}.json",)).backend, ids, style, 1.0)
    assert torch.equal(encode(EncoderPackage(paths).backend, ids, style, 1.0).f0_hz, one.f0_hz)
    with pytest.raises(InputError, match="holds no function 'prosody'"):
        EncoderPackage(paths[:1])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--token-buckets", "16,513"], "not within 3..512"),
        (["--token-buckets", "2,16"], "not within 3..512"),
        (["--buckets", "40,20"], "20 stands after 40"),
    ],
)
def test_bad_flags(flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["encoder", "--out", str(tmp_path / "out"), *flags])
    assert message in capsys.readouterr().err
    assert left_behind(tmp_path / "out") == []


def test_a_checkpoint_without_an_encoder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "vocoder_only"
    shutil.copytree(DEMO_FOLDER, folder)
    weights = next(folder.glob("*.pth"))
    state = torch.load(weights, weights_only=True)
    torch.save({name: state[name] for name in ("decoder", "text_encoder")}, weights)
    assert main(["encoder", "--checkpoint", str(folder), "--out", str(tmp_path / "out")]) == 2
    assert "checkpoint 'demo' has no encoder" in capsys.readouterr().err
    assert left_behind(tmp_path / "out") == []
