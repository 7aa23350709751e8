"""ONNX Runtime on a tiny checkpoint: what PyTorch says, at any length, with no PyTorch in the process; what is refused, in one line."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.steps import run_steps
from kokoro_ane.pipeline.build import main as build_stage
from kokoro_ane.pipeline.chain import STEPS, Chain, begin
from kokoro_ane.pipeline.speak import main
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.onnx.onnx_file import OnnxProgram
from kokoro_ane.runtimes.registry import RUNTIMES, check_runtime, default_runtime, open_runtime
from tests.builds import once

pytest.importorskip("onnxruntime")
ROOT = Path(__file__).resolve().parents[1]
WITHOUT_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "coremltools", "onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from importlib import util
find = util.find_spec
util.find_spec = lambda name, *rest: None if name in ("torch", "coremltools", "onnx") else find(name, *rest)
from kokoro_ane.pipeline.speak import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules
raise SystemExit(code)
"""


def onnx_files(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with the files of ONNX Runtime, made once."""

    def make(out: Path) -> None:
        for stage in ("encoder", "vocoder"):
            flags = [stage, "--runtime", "onnx", "--checkpoint", str(checkpoint.folder), "--out", str(out)]
            assert build_stage(flags) == 0

    return once(tmp_path_factory, ["onnx", checkpoint.sha256], make)


@pytest.fixture(scope="module")
def build(tiny_checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_files(tiny_checkpoint, tmp_path_factory)


def spoken(checkpoint: Checkpoint, build: Path, runtime: str, phonemes: str) -> dict[str, np.ndarray]:
    opened = open_runtime(runtime, Request(checkpoint, build))
    chain = Chain(checkpoint.config.vocab, checkpoint.voice(checkpoint.voices[0]).numpy(), opened.encoder, opened.vocoder)
    return run_steps(STEPS, chain, begin(phonemes, 1.0, 0))


@pytest.mark.parametrize("phonemes", ["a", "abt de, fɡh.", "abt de, fɡh. " * 8])
def test_onnx_runtime_says_what_pytorch_says(tiny_checkpoint: Checkpoint, build: Path, phonemes: str) -> None:
    """Durations equal; the vocoder on the same features."""
    reference = spoken(tiny_checkpoint, build, "torch", phonemes)
    found = spoken(tiny_checkpoint, build, "onnx", phonemes)
    assert np.array_equal(reference["durations"], found["durations"])
    for name, limit_db in (("hidden", 100.0), ("text", 100.0), ("f0_hz", 90.0), ("energy", 90.0)):
        assert snr_db(reference[name], found[name]) >= limit_db, name
    vocoder = open_runtime("onnx", Request(tiny_checkpoint, build)).vocoder
    waveform = vocoder.run(reference["features"], reference["style"], reference["asr"].shape[-1])
    assert snr_db(reference["waveform"], waveform) >= 100


def without_torch(folder: Path, build: Path, out: Path, *more: str) -> subprocess.CompletedProcess:
    flags = ["abt de, fɡh.", "--phonemes", "--checkpoint", str(folder), "--build", str(build), "-o", str(out), *more]
    return subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *flags], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def plain_voices(tiny_checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint with its voices in raw float32."""
    folder = Path(shutil.copytree(tiny_checkpoint.folder, tmp_path_factory.mktemp("plain") / "tiny"))
    for name in tiny_checkpoint.voices:
        (folder / "voices" / f"{name}.pt").unlink()
        (folder / "voices" / f"{name}.bin").write_bytes(tiny_checkpoint.voice(name).numpy().astype("<f4").tobytes())
    return folder


def test_speaks_without_pytorch_and_is_the_default_there(plain_voices: Path, build: Path, tmp_path: Path) -> None:
    done = without_torch(plain_voices, build, tmp_path / "a.wav")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["runtime"] == "onnx"
    flags = ["abt de, fɡh.", "--phonemes", "--checkpoint", str(plain_voices), "--build", str(build), "-o", str(tmp_path / "b.wav")]
    assert main([*flags, "--runtime", "onnx"]) == 0
    assert np.array_equal(soundfile.read(tmp_path / "a.wav")[0], soundfile.read(tmp_path / "b.wav")[0])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--runtime", "torch"], "runtime torch needs torch, which is not installed: make venv"),
        (["--runtime", "mlprogram"], "runtime mlprogram needs torch, which is not installed: make venv"),
    ],
)
def test_what_needs_pytorch_says_so(plain_voices: Path, build: Path, tmp_path: Path, flags: list[str], message: str) -> None:
    done = without_torch(plain_voices, build, tmp_path / "a.wav", *flags)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr == f"error: {message}\n"


def test_a_voice_that_only_pytorch_reads_is_one_line(tiny_checkpoint: Checkpoint, build: Path, tmp_path: Path) -> None:
    done = without_torch(tiny_checkpoint.folder, build, tmp_path / "a.wav")
    assert done.returncode == 2 and "is read by PyTorch, which is not installed: put " in done.stderr and done.stderr.count("\n") == 1


def test_a_runtime_that_is_not_installed_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "onnxruntime" else find(name, *rest))
    with pytest.raises(InputError, match=r'^runtime onnx needs onnxruntime, which is not installed: pip install "kokoro-ane\[onnx\]"$'):
        check_runtime("onnx", "fp32")
    assert default_runtime() == "mlprogram"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--method", "p6"], "--method p6 is a package: ONNX Runtime has only fp32, w8, w8a8"),
        (["--layout", "tiled"], "--layout tiled is a package: ONNX Runtime has only padded"),
        (["--runtime", "onyx"], "unknown runtime 'onyx'; did you mean onnx?"),
    ],
)
def test_levels_forms_and_names(build: Path, tmp_path: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["abt.", "--phonemes", "--runtime", "onnx", "--build", str(build), "-o", str(tmp_path / "a.wav"), *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


VOCODER = "run `kokoro-ane build vocoder --runtime onnx"


def spoil(build: Path, folder: Path, change: dict) -> Path:
    copy = Path(shutil.copytree(build, folder / "build"))
    manifest = copy / "KokoroVocoder-tiny-onnx-fp32.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text(encoding="utf-8")) | change), encoding="utf-8")
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"checkpoint": {"name": "tiny", "sha256": "0" * 64}}, rf"was built from checkpoint 000000000000.*{VOCODER}"),
        ({"target": "ONNX opset 99"}, rf"is for ONNX opset 99, this version reads ONNX opset 17: {VOCODER}"),
        ({"package_sha256": "0" * 64}, "its manifest says 000000000000"),
    ],
)
def test_files_of_another_make_are_refused(tiny_checkpoint: Checkpoint, build: Path, tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_runtime("onnx", Request(tiny_checkpoint, spoil(build, tmp_path, change)))


def test_a_missing_file_names_the_command(tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    message = r"KokoroEncoderDuration-tiny-onnx-fp32\.json does not exist: run `kokoro-ane build encoder --runtime onnx"
    with pytest.raises(InputError, match=message):
        open_runtime("onnx", Request(tiny_checkpoint, tmp_path))


def test_an_unreadable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"not a graph")
    with pytest.raises(InputError, match=r"x\.onnx is not read by ONNX Runtime"):
        OnnxProgram(tmp_path / "x.onnx", ("waveform",))


def test_longer_than_the_longest_is_split_by_synthesis(tiny_checkpoint: Checkpoint, build: Path) -> None:
    vocoder = open_runtime("onnx", Request(tiny_checkpoint, build)).vocoder
    assert vocoder.longest == 1200 and not RUNTIMES["onnx"].packages


def test_a_file_that_misses_its_limit_is_thrown_away(tiny_checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph whose norm has lost the style's gain."""
    from torch import Tensor

    from kokoro_ane.runtimes.exported import StyledNorm

    true = StyledNorm.forward

    def wrong(self: StyledNorm, x: Tensor, affines: Tensor) -> Tensor:
        return true(self, x, affines * 1.001)

    monkeypatch.setattr(StyledNorm, "forward", wrong)
    stage = ["vocoder", "--runtime", "onnx", "--checkpoint", str(tiny_checkpoint.folder), "--out", str(tmp_path)]
    assert build_stage(stage) == 1 and not list(tmp_path.glob("Kokoro*"))


def test_packages_flags_are_refused_for_files(capsys: pytest.CaptureFixture) -> None:
    assert build_stage(["vocoder", "--runtime", "onnx", "--layout", "tiled", "--checkpoint", "demo"]) == 2
    assert "--layout belongs to a package" in capsys.readouterr().err
