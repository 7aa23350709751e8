"""Runtimes by name on a tiny checkpoint, and ONNX Runtime: what PyTorch says, without PyTorch in
the process; refusals in one line.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.steps import run_steps
from kokoro_ane.pipeline.build import main as build_stage
from kokoro_ane.pipeline.speak import main
from kokoro_ane.pipeline.synthesis import STEPS, Chain, begin
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.coreml import CoreMLProgram, units_for
from kokoro_ane.runtimes.onnx.onnx_file import OnnxProgram
from kokoro_ane.runtimes.registry import check_runtime, default_runtime, open_runtime
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.source import HarmonicSource
from tests.builds import once, uninstall
from tests.commands import refused
from tests.random_checkpoint import tiny_config, write_checkpoint

pytest.importorskip("onnxruntime")
ROOT = Path(__file__).resolve().parents[2]
WITHOUT_TORCH = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "coremltools", "onnx"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
from importlib import util
find = util.find_spec
gone = ("torch", "coremltools", "onnx")
util.find_spec = lambda name, *rest: None if name in gone else find(name, *rest)
from kokoro_ane.pipeline.speak import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules
raise SystemExit(code)
"""


def onnx_files(checkpoint, tmp_path_factory):
    """A build folder with the files of ONNX Runtime, made once."""

    def make(out):
        for stage in ("encoder", "vocoder"):
            flags = [
                stage,
                "--runtime",
                "onnx",
                "--checkpoint",
                str(checkpoint.folder),
                "--out",
                str(out),
            ]
            assert build_stage(flags) == 0

    return once(tmp_path_factory, ["onnx", checkpoint.sha256], make)


@pytest.fixture(scope="module")
def build(tiny_checkpoint, tmp_path_factory):
    return onnx_files(tiny_checkpoint, tmp_path_factory)


def spoken(checkpoint, build, runtime, phonemes):
    opened = open_runtime(runtime, Request(checkpoint, build))
    chain = Chain(
        checkpoint.config.vocab,
        checkpoint.voice(checkpoint.voices[0]).numpy(),
        opened.encoder,
        opened.vocoder,
    )
    return run_steps(STEPS, chain, begin(phonemes, 1.0, 0))


@pytest.mark.parametrize("phonemes", ["a", "abt de, fɡh.", "abt de, fɡh. " * 8])
def test_onnx_runtime_says_what_pytorch_says(tiny_checkpoint, build, phonemes):
    """Durations equal; the vocoder on the same features."""
    reference = spoken(tiny_checkpoint, build, "torch", phonemes)
    found = spoken(tiny_checkpoint, build, "onnx", phonemes)
    assert np.array_equal(reference["durations"], found["durations"])
    for name, limit_db in (("hidden", 100.0), ("text", 100.0), ("f0_hz", 90.0), ("energy", 90.0)):
        assert snr_db(reference[name], found[name]) >= limit_db, name
    vocoder = open_runtime("onnx", Request(tiny_checkpoint, build)).vocoder
    waveform = vocoder.run(reference["features"], reference["style"], reference["asr"].shape[-1])
    assert snr_db(reference["waveform"], waveform) >= 100


def without_torch(folder, build, out, *more):
    flags = [
        "abt de, fɡh.",
        "--phonemes",
        "--checkpoint",
        str(folder),
        "--build",
        str(build),
        "-o",
        str(out),
        *more,
    ]
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def plain_voices(tiny_checkpoint, tmp_path_factory):
    folder = Path(
        shutil.copytree(tiny_checkpoint.folder, tmp_path_factory.mktemp("plain") / "tiny")
    )
    for name in tiny_checkpoint.voices:
        (folder / "voices" / f"{name}.pt").unlink()
        (folder / "voices" / f"{name}.bin").write_bytes(
            tiny_checkpoint.voice(name).numpy().astype("<f4").tobytes()
        )
    return folder


def test_speaks_without_pytorch_and_is_the_default_there(plain_voices, build, tmp_path):
    done = without_torch(plain_voices, build, tmp_path / "a.wav")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["runtime"] == "onnx"
    flags = [
        "abt de, fɡh.",
        "--phonemes",
        "--checkpoint",
        str(plain_voices),
        "--build",
        str(build),
        "-o",
        str(tmp_path / "b.wav"),
    ]
    assert main([*flags, "--runtime", "onnx"]) == 0
    assert np.array_equal(
        soundfile.read(tmp_path / "a.wav")[0], soundfile.read(tmp_path / "b.wav")[0]
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--runtime", "torch"], "runtime torch needs torch, which is not installed: make venv"),
        (
            ["--runtime", "mlprogram"],
            "runtime mlprogram needs torch, which is not installed: make venv",
        ),
    ],
)
def test_what_needs_pytorch_says_so(plain_voices, build, tmp_path, flags, message):
    done = without_torch(plain_voices, build, tmp_path / "a.wav", *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}\n"


def test_a_voice_that_only_pytorch_reads_is_one_line(tiny_checkpoint, build, tmp_path):
    done = without_torch(tiny_checkpoint.folder, build, tmp_path / "a.wav")
    assert done.returncode == 2
    assert "is read by PyTorch, which is not installed: put " in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_runtime_that_is_not_installed_names_its_command(monkeypatch):
    uninstall(monkeypatch, "onnxruntime")
    with refused(
        r"^runtime onnx needs onnxruntime, which is not installed: pip install"
        r' "kokoro-ane\[onnx\]"$'
    ):
        check_runtime("onnx", "fp32")
    assert default_runtime() == "mlprogram"


VOCODER = "run `kokoro-ane build vocoder --runtime onnx"


def spoil(build, folder, change):
    copy = Path(shutil.copytree(build, folder / "build"))
    manifest = copy / "KokoroVocoder-tiny-onnx-fp32.json"
    manifest.write_text(
        json.dumps(json.loads(manifest.read_text(encoding="utf-8")) | change), encoding="utf-8"
    )
    return copy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"checkpoint": {"name": "tiny", "sha256": "0" * 64}},
            rf"was built from checkpoint 000000000000.*{VOCODER}",
        ),
        (
            {"target": "ONNX opset 99"},
            rf"is for ONNX opset 99, this version reads ONNX opset 17: {VOCODER}",
        ),
        ({"package_sha256": "0" * 64}, "its manifest says 000000000000"),
    ],
)
def test_files_of_another_make_are_refused(tiny_checkpoint, build, tmp_path, change, message):
    with refused(message):
        open_runtime("onnx", Request(tiny_checkpoint, spoil(build, tmp_path, change)))


def test_a_missing_file_names_the_command(tiny_checkpoint, tmp_path):
    message = (
        r"KokoroEncoderDuration-tiny-onnx-fp32\.json does not exist: run `kokoro-ane build encoder"
        r" --runtime onnx"
    )
    with refused(message):
        open_runtime("onnx", Request(tiny_checkpoint, tmp_path))


def test_an_unreadable_file_is_one_line(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"not a graph")
    refused(r"x\.onnx is not read by ONNX Runtime", OnnxProgram, tmp_path / "x.onnx", ("waveform",))


def test_a_file_that_misses_its_limit_is_thrown_away(tiny_checkpoint, tmp_path, monkeypatch):
    """A graph whose norm has lost the style's gain."""

    from kokoro_ane.runtimes.exported import StyledNorm

    true = StyledNorm.forward

    def wrong(self, x, affines):
        return true(self, x, affines * 1.001)

    monkeypatch.setattr(StyledNorm, "forward", wrong)
    stage = (
        f"vocoder --runtime onnx --checkpoint {tiny_checkpoint.folder} --out {tmp_path}"
    ).split()
    assert build_stage(stage) == 1
    assert not list(tmp_path.glob("Kokoro*"))


FLAGS = ["abt de, fɡh.", "--phonemes", "--seed", "3"]


@pytest.fixture
def checkpoint(tiny_checkpoint):
    return tiny_checkpoint


def rendered(vocoder, inputs):
    return vocoder.run(vocoder.pack(inputs), inputs.style[:, :, None, None], inputs.frames).numpy()


def said(checkpoint, tiny_build, out, *more):
    assert (
        main(
            [
                *FLAGS,
                "--checkpoint",
                str(checkpoint.folder),
                "--build",
                str(tiny_build),
                "-o",
                str(out),
                *more,
            ]
        )
        == 0
    )
    return soundfile.read(out)[0]


class TestPackages:
    @pytest.mark.parametrize(("method", "limit_db"), [("fp32", 30.0), ("fp16", 25.0)])
    def test_executed_packages_say_what_pytorch_says(
        self, checkpoint, tiny_build, tmp_path, method, limit_db
    ):
        """The whole chain, each run on its own F0. 16 bit output and the phases of silent bins
        bound the SNR: docs/speaking.md.
        """
        reference = said(checkpoint, tiny_build, tmp_path / "a.wav", "--runtime", "torch")
        found = said(
            checkpoint, tiny_build, tmp_path / "b.wav", "--runtime", "mlprogram", "--method", method
        )
        assert len(found) == len(reference)
        assert snr_db(reference, found) >= limit_db

    @pytest.mark.parametrize(("method", "limit_db"), [("fp32", 100.0), ("fp16", 45.0)])
    def test_on_the_same_features(self, checkpoint, tiny_build, method, limit_db):
        """Vocoder against vocoder: durations, F0 and spectrum shared."""
        frames, generator = 37, torch.Generator().manual_seed(0)
        opened = {
            name: open_runtime(name, Request(checkpoint, tiny_build, method))
            for name in ("torch", "mlprogram")
        }
        source, f0_hz = opened["mlprogram"].vocoder.source, torch.full((1, 2 * frames), 150.0)
        noise = torch.randn(1, 600 * frames, 9, generator=generator).numpy()
        spectrum = torch.from_numpy(source.spectrum(f0_hz.numpy(), noise)).float()
        draw = [
            torch.randn(1, *shape, generator=generator) * 0.3
            for shape in ((16, frames), (2 * frames,), (128,))
        ]
        inputs = VocoderInputs(draw[0], f0_hz, draw[1], draw[2], spectrum)
        one, other = (rendered(found.vocoder, inputs) for found in opened.values())
        assert snr_db(one, other) >= limit_db

    def test_source_of_the_manifest_is_the_checkpoints(self, checkpoint, tiny_build):
        from kokoro_ane.core.manifest import Manifest

        found = HarmonicSource.recorded(
            Manifest.load(tiny_build / "KokoroVocoder-tiny-fp16.json").source
        )
        twin = Vocoder.of(checkpoint).generator.m_source.host
        assert np.array_equal(found.weights, twin.weights)
        assert found.bias == twin.bias

    def test_packages_of_another_checkpoint_are_refused(
        self, tiny_checkpoint, tiny_build, tmp_path, capsys
    ):
        other = write_checkpoint(
            tmp_path / "other",
            tiny_config() | {"vocab": tiny_checkpoint.config.vocab},
            seed=1,
            encoder=True,
        )
        flags = [
            *FLAGS,
            "--checkpoint",
            str(other),
            "--build",
            str(tiny_build),
            "-o",
            str(tmp_path / "a.wav"),
        ]
        assert main(flags) == 2
        error = capsys.readouterr().err
        assert (
            "packages of different checkpoints do not fit together; run `kokoro-ane build encoder"
            " --checkpoint " in error
        )
        assert not (tmp_path / "a.wav").exists()

    def test_missing_level_names_the_command_that_makes_it(self, checkpoint, tiny_build):
        with refused(r"run `kokoro-ane quantize --method w8a8 --checkpoint .* --build .*`"):
            open_runtime("mlprogram", Request(checkpoint, tiny_build, "w8a8"))

    def test_a_vocoder_alone_speaks_and_says_who_encodes(
        self, checkpoint, tiny_build, tmp_path, capsys
    ):
        """What `make vocoder` leaves is enough to hear it."""
        copy = Path(shutil.copytree(tiny_build, tmp_path / "build"))
        for path in copy.glob("KokoroEncoder-*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        alone, whole = (
            said(checkpoint, copy, tmp_path / "a.wav"),
            said(checkpoint, tiny_build, tmp_path / "b.wav"),
        )
        assert "durations and prosody come from PyTorch" in capsys.readouterr().err
        assert len(alone) == len(whole)
        assert not np.array_equal(alone, whole)

    def test_an_ios_17_pair_speaks_the_same(self, checkpoint, tiny_build, tmp_path):
        copy = Path(shutil.copytree(tiny_build, tmp_path / "build"))
        for path in copy.glob("KokoroEncoder-*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        flags = (
            f"--checkpoint {checkpoint.folder} --out {copy} --buckets 40,160,640 "
            "--token-buckets 16,64"
        ).split()
        assert build_stage(["encoder", *flags, "--target", "iOS17"]) == 0
        assert np.array_equal(
            said(checkpoint, copy, tmp_path / "a.wav"),
            said(checkpoint, tiny_build, tmp_path / "b.wav"),
        )

    def test_core_ml_gets_the_declared_types_and_gives_tensors(self, tiny_build):
        """Core ML itself is not here: a stand-in of its predict sees what it would see."""
        seen = {}

        def opened(path, function, units):
            seen["opened"] = (path.name, function, units)

            def predict(inputs):
                seen["dtypes"] = {name: value.dtype.name for name, value in inputs.items()}
                return {"waveform": np.ones((1, 1, 1, 24000), np.float32)}

            return predict

        program = CoreMLProgram(
            tiny_build / "KokoroVocoder-tiny-fp16.mlpackage", "main", "CPU_AND_NE", opened
        )
        found = program(
            {"features": torch.zeros(1, 2661, 1, 41), "style": torch.zeros(1, 128, 1, 1)}
        )
        assert seen == {"opened": ("KokoroVocoder-tiny-fp16.mlpackage", "main", "CPU_AND_NE"),
            "dtypes": dict.fromkeys(("features", "style"), "float16")}  # fmt: skip
        assert found["waveform"].dtype == torch.float32

    # the encoder's LSTM aborts on the M5's GPU
    def test_compute_units_by_chip_and_core_ml_elsewhere(self):
        declared = {
            "default": "CPU_AND_GPU",
            "M5": "CPU_ONLY",
            "reason": "the LSTM aborts on the M5's GPU",
        }
        assert units_for(declared, "Apple M5 Max") == "CPU_ONLY"
        assert units_for(declared, "Apple M4") == "CPU_AND_GPU"
        refused("needs macOS, here is linux", check_runtime, "coreml", "fp16", platform="linux")
        check_runtime("coreml", "fp16", platform="darwin")
