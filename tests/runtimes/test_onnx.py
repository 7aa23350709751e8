"""ONNX files as a user makes and speaks with them, and their integer products against the
arithmetic written down.
"""

import copy
import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.layers import Conv, ConvTranspose, Snake, with_zero_taps
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.package_builds import build_package
from kokoro_ane.quantize.fits import make_form
from kokoro_ane.quantize.level import CompressionLevel
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.quantize.methods import METHODS, IntegerWeights
from kokoro_ane.quantize.stored_forms import Integers
from kokoro_ane.runtimes.genuine import require_genuine
from kokoro_ane.runtimes.onnx import onnx_file
from kokoro_ane.runtimes.onnx.integer_conv import INT8, IntegerConv
from kokoro_ane.runtimes.onnx.onnx_levels import attach_to_eager
from kokoro_ane.runtimes.portable import PortableFunction
from kokoro_ane.runtimes.registry import open_runtime
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.eager import EagerVocoder, Place, find_places
from kokoro_ane.vocoder.scaled_conv import PerColumnScaledConv, ScaledConv, TimeVaryingScale
from kokoro_ane.vocoder.vocoder_steps import VOCODER_INPUTS
from tests.commands import printed, refused
from tests.parity import input_factor
from tests.runtimes.test_portable import files_of, spoken

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def build(tiny_checkpoint, tmp_path_factory):
    return files_of("onnx", tiny_checkpoint, tmp_path_factory)


class TestFiles:
    def test_validate_compares_the_runtime_with_upstream(self, tiny_checkpoint, build, capsys):
        from kokoro_ane.pipeline.validate import main as validate

        flags = f"--checkpoint {tiny_checkpoint.folder} --runtime onnx --build {build}"
        assert validate(["--phonemes", "abt de, fɡh.", *flags.split()]) == 0
        report = printed(capsys)
        assert report["first_bad"] == {"torch": None, "onnx": None}
        rows = {row["name"]: row for row in report["intermediates"]["onnx"]}
        assert {
            rows[name]["verdict"] for name in ("durations", "text", "f0_hz", "energy", "asr")
        } == {"good"}  # upstream has no narrow decoder

    def test_quality_judges_what_onnx_runtime_renders(self, tiny_checkpoint, build):
        """Its vocoder alone, opened from the manifest; figures of another version or precision have
        another name.
        """
        from kokoro_ane.eval.execution import name_arithmetic, open_executable
        from kokoro_ane.runtimes.registry import judged_manifest
        from kokoro_ane.speech.speech import check_speech
        from kokoro_ane.vocoder.render import render_reference

        request = PackageRequest(tiny_checkpoint, build, "fp32")
        method, manifest = judged_manifest("onnx", request, build_package)
        speech, how = check_speech(tiny_checkpoint, 40), name_arithmetic("onnx", "declared")
        assert method.name == "fp32"
        assert how.startswith("onnx-1.")
        assert name_arithmetic("mlprogram", "ane_numerics") == "ane_numerics"
        reference = render_reference(Vocoder.from_checkpoint(tiny_checkpoint), speech)
        assert snr_db(reference, open_executable(manifest.path, how).render(speech)) >= 100
        with refused("--precision ane_numerics is of the executed packages"):
            name_arithmetic("onnx", "ane_numerics")
        with refused("--runtime torch is what levels are judged against"):
            judged_manifest("torch", request, build_package)

    def test_quality_builds_the_file_that_it_lacks(self, tiny_checkpoint, tmp_path, capsys):
        from kokoro_ane.runtimes.registry import judged_manifest

        source = str(tiny_checkpoint.folder)
        request = PackageRequest(tiny_checkpoint, tmp_path, "w8", source=source)
        _, manifest = judged_manifest("onnx", request, build_package)
        # after the line that says why the layout is padded
        lines = capsys.readouterr().err.splitlines()[1:]
        assert [line.partition(" is not built yet")[0] for line in lines] == [
            f"KokoroVocoder-tiny-onnx-padded-{level}" for level in ("fp32", "w8")
        ]
        assert manifest.method == "w8"
        (tmp_path / "KokoroVocoder-tiny-onnx-padded-w8.onnx").write_bytes(b"another")
        with refused("has hash .* its manifest says"):  # never built over
            judged_manifest("onnx", request, build_package)

    def test_bundle_of_onnx_files(self, tiny_checkpoint, build, tmp_path, capsys):
        from kokoro_ane.pipeline.bundle import main as bundle

        out, source = tmp_path / "tiny-onnx", f"--checkpoint {tiny_checkpoint.folder}"
        assert bundle(f"--runtime onnx {source} --build {build} --out {out}".split()) == 3
        assert printed(capsys)["tensors"] > 40
        assert len(list((out / "packages").glob("*.onnx"))) == 3
        assert "Kokoro text-to-speech for ONNX Runtime: tiny, fp32" in (
            out / "MODEL_CARD.md"
        ).read_text(encoding="utf-8")

    @pytest.mark.parametrize(
        ("level", "integers", "least_db", "most_db"),
        [("w8", False, 20, 80), ("w8a8", True, 10, 60)],
    )
    def test_a_level_is_built_opened_and_described(
        self, tiny_checkpoint, build, tmp_path, monkeypatch, level, integers, least_db, most_db
    ):
        """A processor that loses bits refuses integer products; opened nevertheless, there is more
        noise.
        """
        from kokoro_ane.eval.facts import read_facts
        from kokoro_ane.pipeline.apply import main as quantize

        copied = Path(shutil.copytree(build, tmp_path / "build"))
        flags = f"--runtime onnx --checkpoint {tiny_checkpoint.folder} --build {copied}".split()
        if integers and not onnx_file.has_exact_sums():
            assert quantize(["--method", level, *flags]) == 2
            monkeypatch.setattr(onnx_file, "has_exact_sums", lambda: True)
        assert quantize(["--method", level, *flags]) == 0
        path = copied / f"KokoroVocoder-tiny-onnx-padded-{level}.json"
        manifest = Manifest.load(path)
        require_genuine(manifest, f"padded-{level}")
        for name in sorted({"fp32", "w8", "w8a8"} - {level}):
            with refused(f"which is not padded-{name}: renamed"):
                require_genuine(dataclasses.replace(manifest, method=name), f"padded-{name}")
        facts = read_facts(manifest)
        stored = facts.stored_bytes["int8"] + facts.stored_bytes.get("uint8", 0)
        assert facts.stored_bytes["float"] / 4 < stored < facts.bytes
        products = facts.operations.get(onnx_file.INTEGER_PRODUCT, 0)
        assert products == manifest.compression["int8_inputs"]
        assert (products > 20) == (facts.int8_macs_share > 0.2) == integers
        marks = {entry.key for entry in onnx.load(manifest.package_path).metadata_props}
        assert marks == ({onnx_file.INTEGERS} if integers else set())
        reference = spoken(tiny_checkpoint, copied, "onnx", "abt de, fɡh.")
        vocoder, frames = (
            open_runtime("onnx", PackageRequest(tiny_checkpoint, copied, level)).vocoder,
            reference["asr"].shape[-1],
        )
        columns = (reference[name] for name in VOCODER_INPUTS)
        waveform = vocoder.run(*columns, frames)
        assert least_db < snr_db(reference["waveform"], waveform) < most_db
        path.unlink()
        with refused(f"run `kokoro-ane quantize --method {level} .*--runtime onnx`"):
            open_runtime("onnx", PackageRequest(tiny_checkpoint, copied, level))
        assert quantize(["--method", "p6", *flags]) == 2


INNER, OUT = 12, 20


# A convolution as the recipe prepares it, and the range of what it reads
def integer_conv(conv, size, place):
    """The convolution on its weights' integers."""
    form = make_form(conv.weight.detach().numpy(), IntegerWeights())
    assert isinstance(form, Integers)
    return IntegerConv(conv, form, size, place)


def conv_of(kind, seed):
    torch.manual_seed(seed)
    divisor = torch.rand(INNER) + 0.5
    if kind == "strided":
        return ScaledConv(Conv(INNER, OUT, 12, stride=6, padding=3), divisor), 3.0
    if kind == "columns":
        return PerColumnScaledConv(
            ScaledConv(Conv(INNER, OUT, 3, padding=1, bias=False), divisor), floor=0.01
        ), 1.0
    conv = Conv(INNER, OUT, 7, dilation=3, padding=9)
    return {
        "plain": (conv, 3.0),
        "balanced": (ScaledConv(conv, divisor), 3.0),
        "following": (ScaledConv(conv, envelope=TimeVaryingScale(20, cap=4.0)), 1.0),
    }[kind]


KINDS = ("plain", "balanced", "following", "columns", "strided")
LENGTHS = (47, 120, 333)


def rounded(conv, x, size):
    """The same convolution of rounded weights and inputs, without the module under test."""
    exact, step = copy.deepcopy(conv), size / INT8
    steps = exact.weight.detach().abs().amax(dim=(1, 2, 3), keepdim=True) / INT8
    exact.weight.data = torch.round(exact.weight.detach() / steps) * steps
    prepared = input_factor(conv, x)
    return exact(torch.round(x * prepared / step).clamp(-128, 127) * step / prepared)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", LENGTHS)
def test_it_is_the_convolution_of_rounded_values(kind, steps):
    conv, size = conv_of(kind, seed=steps)
    x = torch.randn(1, INNER, 1, steps) * torch.linspace(0.05, 1.0, steps)
    module = integer_conv(conv, size, Place("x"))
    assert snr_db(conv(x).detach(), module(x)) > 20, "int8 is near"
    assert snr_db(rounded(conv, x, size).detach(), module(x)) > 45, (
        "as written down, but for a code on an edge"
    )


def test_what_the_graph_has_folded_is_put_back():
    """Snake's alpha times the input, a factor behind, a constant that a norm takes off: all three,
    and each alone would be heard.
    """
    conv, size = conv_of("following", seed=3)
    x, alpha = torch.randn(1, INNER, 1, 120), torch.rand(INNER) * 3 + 0.2
    module = integer_conv(conv, size, Place("x", alpha, outer=0.5, centred=True))
    assert conv.bias is not None
    expected = (conv(x) - conv.bias.view(1, -1, 1, 1)) * 0.5
    assert snr_db(expected.detach(), module(x * alpha.view(1, -1, 1, 1))) > 25
    assert snr_db(expected.detach(), module(x)) < 15
    assert snr_db(conv(x).detach(), module(x * alpha.view(1, -1, 1, 1))) < 10


@pytest.mark.skipif(not onnx_file.has_exact_sums(), reason="this processor opens no such file")
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_runtime_computes_it_at_every_length(kind, tmp_path):
    conv, size = conv_of(kind, seed=1)
    module, axes = (integer_conv(conv, size, Place("x")), {"x": {3: "columns"}, "y": {3: "steps"}})
    function = PortableFunction(
        module, (torch.randn(1, INNER, 1, 100),), ("x",), ("y",), axes, {"columns": 400}
    )
    onnx_file.write(function, tmp_path / "conv.onnx")
    nodes = [node.op_type for node in onnx.load(tmp_path / "conv.onnx").graph.node]
    assert nodes.count("ConvInteger") == 1
    assert "QuantizeLinear" in nodes
    program = onnx_file.OnnxProgram(tmp_path / "conv.onnx", ("y",))
    for steps in LENGTHS:
        x = torch.randn(1, INNER, 1, steps)
        # a code on a rounding edge may fall to the other side
        assert snr_db(module(x).numpy(), program({"x": x.numpy()})["y"]) > 50


def test_places_name_every_convolution_and_a_level_fits_what_they_fold(tiny_checkpoint):
    torch.manual_seed(0)
    vocoder = with_zero_taps(Vocoder.from_checkpoint(tiny_checkpoint))
    for module in vocoder.modules():
        if isinstance(module, Snake):
            module.alpha.data = 0.2 + 3 * torch.rand_like(module.alpha)
    eager, forms, folded = EagerVocoder(vocoder), {}, {}
    for name, place in find_places(eager).items():
        layer = vocoder.get_submodule(place.path)
        weight, axis = layer.weight.detach(), int(layer.transposed)
        forms[place.path] = make_form(weight.numpy(), IntegerWeights(), axis=axis)
        divisor = torch.ones(1) if place.alpha is None else place.alpha
        divisor = divisor.view((-1, 1, 1, 1) if axis else (1, -1, 1, 1))
        folded[name] = weight * place.outer / divisor
        assert torch.allclose(eager.get_submodule(name).weight, folded[name], rtol=1e-5), name
    assert set(forms) == {
        path
        for path, layer in vocoder.named_modules()
        if isinstance(layer, Conv | ConvTranspose) and path != "generator.conv_post"
    }
    attach_to_eager(eager, vocoder, CompressionLevel(METHODS["w8"], forms, {}, {}, {}))
    for name, weight in folded.items():
        assert snr_db(weight, eager.get_submodule(name).weight.detach()) > 35, name


def test_a_processor_that_saturates_is_refused(tmp_path, monkeypatch):
    """The probe is the largest product of uint8 weights and int8 inputs. Where its sums are wrong,
    a file without integer products opens, and one with them is refused in one line.
    """
    plain = Path(onnx_file.__file__).with_name("data") / "integer_probe.onnx"
    model = onnx.load(plain)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert [node.op_type for node in model.graph.node] == [onnx_file.INTEGER_PRODUCT]
    assert (weights["w"] == onnx_file.LARGEST_WEIGHT).all()
    assert (weights["m"], weights["z"]) == (onnx_file.MIDDLE, 0)
    onnx.helper.set_model_props(model, {onnx_file.INTEGERS: "1"})
    marked = tmp_path / "marked.onnx"
    onnx.save(model, marked)
    if onnx_file.has_exact_sums():
        onnx_file.OnnxProgram(marked, ("y",))
    saturated = np.full((1, onnx_file.CHANNELS, 1, 1), -64 * 32768 // 2, np.int32)
    monkeypatch.setattr(onnx_file, "compute_sums", lambda: saturated)
    onnx_file.has_exact_sums.cache_clear()
    try:
        onnx_file.OnnxProgram(plain, ("y",))
        with refused("loses bits of their sums on this processor: use w8 or fp32"):
            onnx_file.OnnxProgram(marked, ("y",))
    finally:
        onnx_file.has_exact_sums.cache_clear()
