"""Runtimes by name on a tiny checkpoint, and ONNX Runtime: what PyTorch says, without PyTorch in
the process; refusals in one line.
"""

import copy
import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.compute_units import units_for
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.steps import run_steps
from kokoro_ane.pipeline.build import main as build_stage
from kokoro_ane.pipeline.speak import main
from kokoro_ane.pipeline.synthesis import STEPS, Chain, begin
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.runtimes.opened_voice import open_voice
from kokoro_ane.runtimes.portable import PortableFunction
from kokoro_ane.runtimes.registry import (
    RUNTIMES,
    check_runtime,
    default_runtime,
    module_of,
    open_runtime,
)
from kokoro_ane.speech.speech import check_speech
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.source import HarmonicSource
from kokoro_ane.vocoder.vocoder_steps import VOCODER_INPUTS
from tests.builds import once, uninstall
from tests.commands import parsed, ran, refused

pytest.importorskip("onnxruntime")
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


def files_of(runtime, checkpoint, tmp_path_factory):
    """A build folder with the files of a runtime, made once."""

    def make(out):
        for stage in ("encoder", "vocoder"):
            flags = f"{stage} --runtime {runtime} --checkpoint {checkpoint.folder} --out {out}"
            assert build_stage(flags.split()) == 0

    return once(tmp_path_factory, [runtime, checkpoint.sha256], make)


@pytest.fixture(scope="module")
def build(tiny_checkpoint, tmp_path_factory):
    return files_of("onnx", tiny_checkpoint, tmp_path_factory)


def spoken(checkpoint, build, runtime, phonemes):
    opened = open_runtime(runtime, PackageRequest(checkpoint, build))
    chain = Chain(
        checkpoint.config.vocab,
        open_voice(checkpoint, checkpoint.voices[0], opened.vocoder.predictor),
        opened.encoder,
        opened.vocoder,
    )
    return run_steps(STEPS, chain, begin(phonemes, 1.0, 0))


def needs(package):
    """Skipped where it is not installed: .ci/run has it in an environment of its own."""
    return pytest.mark.skipif(not find_spec(package), reason=f"{package} is not installed")


def compare_at_any_length(library, module, folder, lengths, limit_db):
    """A module of x [1, 5, 1, S], written and opened, against PyTorch in float64. A constant input
    has finite results.
    """
    function = PortableFunction(
        module,
        (torch.randn(1, 5, 1, 60),),
        ("x",),
        ("y",),
        {"x": {3: "steps"}},
        {"steps": lengths[-1]},
    )
    path = folder / f"x{library.SUFFIX}"
    library.write(function, path)
    program = library.open_file(path, ("x",), ("y",))
    exact = copy.deepcopy(module).double()
    for steps in lengths:
        x = torch.randn(1, 5, 1, steps) * 3
        reference, y = exact(x.double()).numpy(), program({"x": x.numpy()})["y"]
        assert y.shape == reference.shape
        assert snr_db(reference, y) > limit_db
    constant = np.full((1, 5, 1, lengths[-1]), 217.3, np.float32)
    assert np.isfinite(program({"x": constant})["y"]).all()


# Runtime, the library that it needs, the target of another version's file.
LIBRARIES = {
    "onnx": ("onnxruntime", "ONNX opset 99"),
    "tvm": ("tvm", "TVM 0.26.0, x86-64-v3"),
    "executorch": ("executorch", "ExecuTorch 1.4, XNNPACK"),
}
# a build for ExecuTorch takes minutes
SLOW = {"executorch": [pytest.mark.slow]}
FILES = [
    pytest.param(runtime, marks=[needs(library), *SLOW.get(runtime, [])])
    for runtime, (library, _) in LIBRARIES.items()
]


@pytest.mark.parametrize("runtime", FILES)
@pytest.mark.parametrize("phonemes", ["a", "abt de, fɡh.", "abt de, fɡh. " * 8])
def test_a_runtime_of_files_says_what_pytorch_says(
    runtime, phonemes, tiny_checkpoint, tmp_path_factory
):
    """Durations equal; the vocoder on the same features."""
    build = files_of(runtime, tiny_checkpoint, tmp_path_factory)
    reference = spoken(tiny_checkpoint, build, "torch", phonemes)
    outputs = spoken(tiny_checkpoint, build, runtime, phonemes)
    assert np.array_equal(reference["durations"], outputs["durations"])
    for name in ("hidden", "text", "f0_hz", "energy"):
        exact = runtime == "onnx" and name in ("hidden", "text")
        assert snr_db(reference[name], outputs[name]) >= (100 if exact else 90), name
    vocoder = open_runtime(runtime, PackageRequest(tiny_checkpoint, build)).vocoder
    columns = (reference[name] for name in VOCODER_INPUTS)
    waveform = vocoder.run(*columns, reference["asr"].shape[-1])
    assert snr_db(reference["waveform"], waveform) >= 100


@pytest.mark.parametrize("runtime", LIBRARIES)
def test_a_runtime_that_is_not_installed_names_its_command(
    runtime, tiny_checkpoint, tmp_path, monkeypatch, capsys
):
    library, _ = LIBRARIES[runtime]
    uninstall(monkeypatch, library)
    line = "make venv" if runtime == "onnx" else f'pip install "kokoro-ane[{runtime}]"'
    needed = f"runtime {runtime} needs {library}, which is not installed: run `{line}`"
    refused(
        f"^{re.escape(needed)}$", open_runtime, runtime, PackageRequest(tiny_checkpoint, tmp_path)
    )
    assert default_runtime() == "mlprogram"
    flags = f"--runtime {runtime} --checkpoint {tiny_checkpoint.folder}"
    assert build_stage(f"vocoder {flags} --out {tmp_path}".split()) == 2
    assert main(f"a --phonemes {flags} -o {tmp_path}/x.wav".split()) == 2
    assert capsys.readouterr().err.count(f"error: {needed}\n") == 2


@pytest.mark.parametrize("runtime", FILES)
def test_a_file_of_another_make_is_refused(runtime, tiny_checkpoint, tmp_path_factory, tmp_path):
    build = files_of(runtime, tiny_checkpoint, tmp_path_factory)
    copied = Path(shutil.copytree(build, tmp_path / "build"))
    (path,) = copied.glob("KokoroVocoder-*.json")
    whole, command = parsed(path), f"run `kokoro-ane build vocoder --runtime {runtime}"
    target, checkpoint = LIBRARIES[runtime][1], whole["checkpoint"] | {"sha256": "0" * 64}
    changes = {
        rf"was built from checkpoint 000000000000.*{command}": {"checkpoint": checkpoint},
        rf"is for {target}, this version reads .*: {command}": {"target": target},
        "its manifest says 000000000000": {"package_sha256": "0" * 64},
    }
    for message, change in changes.items():
        path.write_text(json.dumps(whole | change))
        refused(message, open_runtime, runtime, PackageRequest(tiny_checkpoint, copied))
    message = f"json does not exist: run `kokoro-ane build encoder --runtime {runtime}"
    refused(message, open_runtime, runtime, PackageRequest(tiny_checkpoint, tmp_path / "nothing"))


def flags(folder, build, out):
    place = f"--layout padded --checkpoint {folder} --build {build} -o {out}"
    return ["abt de, fɡh.", "--phonemes", *place.split()]


def samples_of(folder, build, out, *more):
    assert main([*flags(folder, build, out), *more]) == 0
    return soundfile.read(out)[0]


def without_torch(folder, build, out, *more):
    return ran(sys.executable, "-c", WITHOUT_TORCH, *flags(folder, build, out), *more)


def test_speaks_without_pytorch_and_is_the_default_there(tiny_checkpoint, build, tmp_path):
    done = without_torch(tiny_checkpoint.folder, build, tmp_path / "a.wav")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["runtime"] == "onnx"
    samples = samples_of(tiny_checkpoint.folder, build, tmp_path / "b.wav", "--runtime", "onnx")
    assert np.array_equal(soundfile.read(tmp_path / "a.wav")[0], samples)


@pytest.mark.parametrize("runtime", ["torch", "mlprogram"])
def test_what_needs_pytorch_says_so(tiny_checkpoint, build, tmp_path, runtime):
    done = without_torch(tiny_checkpoint.folder, build, tmp_path / "a.wav", "--runtime", runtime)
    assert (done.returncode, done.stdout) == (2, "")
    needed = f"runtime {runtime} needs torch, which is not installed: run `make venv`"
    assert done.stderr == f"error: {needed}\n"


@pytest.mark.parametrize("runtime", FILES)
def test_an_unreadable_file_is_one_line(runtime, tmp_path):
    module, path = module_of(runtime).module, tmp_path / "x"
    path.write_bytes(b"no program")
    refused(f"x is not read by {RUNTIMES[runtime].title}", module.open_file, path, (), ())


def test_a_file_that_misses_its_limit_is_thrown_away(tiny_checkpoint, tmp_path, monkeypatch):
    """A graph whose norm takes a wrong gain."""
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


class TestPackages:
    @pytest.mark.parametrize(("method", "limit_db"), [("fp32", 30.0), ("fp16", 25.0)])
    def test_executed_packages_say_what_pytorch_says(
        self, tiny_checkpoint, tiny_build, tmp_path, method, limit_db
    ):
        """The whole chain, each run on its own F0. 16 bit output and the phases of silent bins
        bound the SNR: docs/speaking.md.
        """
        runs = ("--runtime", "torch"), ("--runtime", "mlprogram", "--method", method)
        reference, executed = (
            samples_of(tiny_checkpoint.folder, tiny_build, tmp_path / "a.wav", *run) for run in runs
        )
        assert len(executed) == len(reference)
        assert snr_db(reference, executed) >= limit_db

    @pytest.mark.parametrize(("method", "limit_db"), [("fp32", 100.0), ("fp16", 45.0)])
    def test_on_the_same_features(self, tiny_checkpoint, tiny_build, method, limit_db):
        """Vocoder against vocoder: durations, F0 and spectrum shared."""
        inputs, waveforms = check_speech(tiny_checkpoint, 37), []
        for name in ("torch", "mlprogram"):
            vocoder = open_runtime(
                name, PackageRequest(tiny_checkpoint, tiny_build, method)
            ).vocoder
            style = inputs.style[:, :, None, None]
            samples = vocoder.run(vocoder.pack(inputs), style, style[:, :0], inputs.frames)
            waveforms.append(samples.numpy())
        assert snr_db(*waveforms) >= limit_db

    def test_source_of_the_manifest_is_the_checkpoints(self, tiny_checkpoint, tiny_build):
        recorded = HarmonicSource.from_manifest(
            Manifest.load(tiny_build / "KokoroVocoder-tiny-padded-fp16.json").source
        )
        twin = Vocoder.from_checkpoint(tiny_checkpoint).generator.m_source.host
        assert np.array_equal(recorded.weights, twin.weights)
        assert recorded.bias == twin.bias

    def test_a_vocoder_alone_speaks_and_says_who_encodes(
        self, tiny_checkpoint, tiny_build, tmp_path, capsys
    ):
        """What `make vocoder` leaves is enough to hear it."""
        copied = Path(shutil.copytree(tiny_build, tmp_path / "build"))
        for path in copied.glob("KokoroEncoder-*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        alone, whole = (
            samples_of(tiny_checkpoint.folder, build, tmp_path / "a.wav")
            for build in (copied, tiny_build)
        )
        assert "durations and prosody come from PyTorch" in capsys.readouterr().err
        assert len(alone) == len(whole)
        assert not np.array_equal(alone, whole)

    # the encoder's LSTM aborts on the M5's GPU
    def test_compute_units_by_chip_and_core_ml_elsewhere(self):
        assert units_for("encoder", "macOS", [26, 5], "Apple M5 Max") == "CPU_ONLY"
        assert units_for("encoder", "macOS", [26, 5], "Apple M4") == "CPU_AND_GPU"
        assert units_for("encoder", "iOS", [27, 0], "") == "CPU_ONLY"
        assert units_for("vocoder", "macOS", [15, 0], "Apple M1") == "CPU_AND_NE"
        assert units_for("vocoder", "plan9", [4], "") == "CPU_ONLY"
        refused("needs macOS, here is linux", check_runtime, "coreml", "fp16", platform="linux")
        check_runtime("coreml", "fp16", platform="darwin")
