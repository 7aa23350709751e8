"""Runtimes by name on tiny packages: the executed packages say what PyTorch says, packages of other weights are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from bench.random_checkpoint import tiny_config, write_checkpoint
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import InputError
from kokoro_ane.pipeline.build import main as build_stage
from kokoro_ane.pipeline.speak import main
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.coreml import CoreMLProgram, units_for
from kokoro_ane.runtimes.registry import check_runtime, open_runtime
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.source import HarmonicSource
from kokoro_ane.vocoder.vocoder_steps import VocoderBackend

FLAGS = ["abt de, fɡh.", "--phonemes", "--seed", "3"]


@pytest.fixture
def checkpoint(tiny_checkpoint: Checkpoint) -> Checkpoint:
    return tiny_checkpoint


@pytest.fixture
def build(tiny_build: Path) -> Path:
    return tiny_build


def rendered(vocoder: VocoderBackend, inputs: VocoderInputs) -> np.ndarray:
    return vocoder.run(vocoder.pack(inputs), inputs.style[:, :, None, None], inputs.frames).numpy()


def said(checkpoint: Checkpoint, build: Path, out: Path, *more: str) -> np.ndarray:
    assert main([*FLAGS, "--checkpoint", str(checkpoint.folder), "--build", str(build), "-o", str(out), *more]) == 0
    return soundfile.read(out)[0]


@pytest.mark.parametrize(("method", "limit_db"), [("fp32", 30.0), ("fp16", 25.0)])
def test_executed_packages_say_what_pytorch_says(checkpoint: Checkpoint, build: Path, tmp_path: Path, method: str, limit_db: float) -> None:
    """The whole chain, each run on its own F0. 16 bit output and the phases of silent bins bound the SNR: docs/speaking.md."""
    reference = said(checkpoint, build, tmp_path / "a.wav", "--runtime", "torch")
    found = said(checkpoint, build, tmp_path / "b.wav", "--runtime", "mlprogram", "--method", method)
    assert len(found) == len(reference) and snr_db(reference, found) >= limit_db


@pytest.mark.parametrize(("method", "limit_db"), [("fp32", 100.0), ("fp16", 45.0)])
def test_on_the_same_features(checkpoint: Checkpoint, build: Path, method: str, limit_db: float) -> None:
    """Vocoder against vocoder: durations, F0 and spectrum shared."""
    frames, generator = 37, torch.Generator().manual_seed(0)
    opened = {name: open_runtime(name, Request(checkpoint, build, method)) for name in ("torch", "mlprogram")}
    source, f0_hz = opened["mlprogram"].vocoder.source, torch.full((1, 2 * frames), 150.0)
    noise = torch.randn(1, 600 * frames, 9, generator=generator).numpy()
    spectrum = torch.from_numpy(source.spectrum(f0_hz.numpy(), noise)).float()
    draw = [torch.randn(1, *shape, generator=generator) * 0.3 for shape in ((16, frames), (2 * frames,), (128,))]
    inputs = VocoderInputs(draw[0], f0_hz, draw[1], draw[2], spectrum)
    one, other = (rendered(found.vocoder, inputs) for found in opened.values())
    assert snr_db(one, other) >= limit_db


def test_source_of_the_manifest_is_the_checkpoints(checkpoint: Checkpoint, build: Path) -> None:
    from kokoro_ane.core.manifest import Manifest

    found = HarmonicSource.recorded(Manifest.load(build / "KokoroVocoder-tiny-fp16.json").source)
    twin = Vocoder.of(checkpoint).generator.m_source.host
    assert np.array_equal(found.weights, twin.weights) and found.bias == twin.bias


def test_packages_of_another_checkpoint_are_refused(
    tiny_checkpoint: Checkpoint, build: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    other = write_checkpoint(tmp_path / "other", tiny_config() | {"vocab": tiny_checkpoint.config.vocab}, seed=1, encoder=True)
    flags = [*FLAGS, "--checkpoint", str(other), "--build", str(build), "-o", str(tmp_path / "a.wav")]
    assert main(flags) == 2
    error = capsys.readouterr().err
    assert "packages of different checkpoints do not fit together; run `kokoro-ane build encoder --checkpoint " in error
    assert not (tmp_path / "a.wav").exists()


def test_missing_level_names_the_command_that_makes_it(checkpoint: Checkpoint, build: Path) -> None:
    with pytest.raises(InputError, match=r"run `kokoro-ane quantize --method w8a8 --checkpoint .* --build .*`"):
        open_runtime("mlprogram", Request(checkpoint, build, "w8a8"))


def test_a_changed_package_is_refused(checkpoint: Checkpoint, build: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(build, tmp_path / "build"))
    manifest = copy / "KokoroVocoder-tiny-fp16.json"
    data = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(data | {"package_sha256": "0" * 64}), encoding="utf-8")
    with pytest.raises(InputError, match="its manifest says 000000000000"):
        open_runtime("mlprogram", Request(checkpoint, copy))


def test_a_vocoder_alone_speaks_and_says_who_encodes(
    checkpoint: Checkpoint, build: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """What `make vocoder` leaves is enough to hear it."""
    copy = Path(shutil.copytree(build, tmp_path / "build"))
    for path in copy.glob("KokoroEncoder-*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    alone, whole = said(checkpoint, copy, tmp_path / "a.wav"), said(checkpoint, build, tmp_path / "b.wav")
    assert "durations and prosody come from PyTorch" in capsys.readouterr().err
    assert len(alone) == len(whole) and not np.array_equal(alone, whole)


def test_an_ios_17_pair_speaks_the_same(checkpoint: Checkpoint, build: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(build, tmp_path / "build"))
    for path in copy.glob("KokoroEncoder-*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    flags = ["--checkpoint", str(checkpoint.folder), "--out", str(copy), "--buckets", "40,160,640", "--token-buckets", "16,64"]
    assert build_stage(["encoder", *flags, "--target", "iOS17"]) == 0
    assert np.array_equal(said(checkpoint, copy, tmp_path / "a.wav"), said(checkpoint, build, tmp_path / "b.wav"))


def test_core_ml_gets_the_declared_types_and_gives_tensors(build: Path) -> None:
    """Core ML itself is not here: a stand-in of its predict sees what it would see."""
    seen = {}

    def opened(path: Path, function: str, units: str) -> object:
        seen["opened"] = (path.name, function, units)

        def predict(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            seen["dtypes"] = {name: value.dtype.name for name, value in inputs.items()}
            return {"waveform": np.ones((1, 1, 1, 24000), np.float32)}

        return predict

    program = CoreMLProgram(build / "KokoroVocoder-tiny-fp16.mlpackage", "main", "CPU_AND_NE", opened)
    found = program({"features": torch.zeros(1, 2661, 1, 41), "style": torch.zeros(1, 128, 1, 1)})
    assert seen == {
        "opened": ("KokoroVocoder-tiny-fp16.mlpackage", "main", "CPU_AND_NE"),
        "dtypes": dict.fromkeys(("features", "style"), "float16"),
    }
    assert found["waveform"].dtype == torch.float32


def test_an_encoder_of_two_layers_is_built(tmp_path: Path) -> None:
    """The demo voice's depth: fewer LSTMs than Kokoro's."""
    shallow = write_checkpoint(tmp_path / "shallow", tiny_config() | {"vocab": {"a": 1}, "n_layer": 2}, encoder=True)
    flags = ["--checkpoint", str(shallow), "--out", str(tmp_path), "--buckets", "40,160", "--token-buckets", "16"]
    assert build_stage(["encoder", *flags]) == 0


def test_compute_units_by_chip() -> None:
    """The encoder's LSTM aborts on the M5's GPU."""
    declared = {"default": "CPU_AND_GPU", "M5": "CPU_ONLY", "reason": "the LSTM aborts on the M5's GPU"}
    assert units_for(declared, "Apple M5 Max") == "CPU_ONLY" and units_for(declared, "Apple M4") == "CPU_AND_GPU"


def test_core_ml_is_refused_elsewhere() -> None:
    with pytest.raises(InputError, match="needs macOS, here is linux"):
        check_runtime("coreml", "fp16", platform="linux")
    check_runtime("coreml", "fp16", platform="darwin")
