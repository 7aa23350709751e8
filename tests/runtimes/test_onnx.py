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
from torch import nn

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import CheckFailed
from kokoro_ane.core.layers import Conv, ConvTranspose, with_zero_taps
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.package_builds import build_package
from kokoro_ane.quantize.fits import form_of
from kokoro_ane.quantize.locator import Request
from kokoro_ane.quantize.methods import IntegerWeights
from kokoro_ane.quantize.stored_forms import Integers
from kokoro_ane.runtimes.genuine import require_genuine
from kokoro_ane.runtimes.onnx import onnx_file
from kokoro_ane.runtimes.onnx.integer_conv import INT8, IntegerConv
from kokoro_ane.runtimes.portable import PortableFunction
from kokoro_ane.runtimes.registry import open_runtime
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.eager import EagerVocoder, Place, places
from kokoro_ane.vocoder.scaled_conv import PerColumnScaledConv, ScaledConv, TimeVaryingScale
from tests.commands import printed, refused
from tests.parity import input_factor
from tests.runtimes.test_portable import files_of, spoken

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
        found = {row["name"]: row for row in report["intermediates"]["onnx"]}
        assert {
            found[name]["verdict"] for name in ("durations", "text", "f0_hz", "energy", "asr")
        } == {"good"}  # upstream has no narrow decoder

    def test_quality_judges_what_onnx_runtime_renders(self, tiny_checkpoint, build):
        """Its vocoder alone, opened from the manifest; figures of another version or precision have
        another name.
        """
        from kokoro_ane.eval.execution import arithmetic, opened
        from kokoro_ane.quantize.speech import check_speech
        from kokoro_ane.runtimes.registry import judged_manifest
        from kokoro_ane.vocoder.decoder import Vocoder
        from kokoro_ane.vocoder.render import render_reference

        request = Request(tiny_checkpoint, build, "fp32")
        method, manifest = judged_manifest("onnx", request, build_package)
        speech, how = check_speech(tiny_checkpoint, 40), arithmetic("onnx", "declared")
        assert method.name == "fp32"
        assert how.startswith("onnx-1.")
        assert arithmetic("mlprogram", "ane_numerics") == "ane_numerics"
        assert (
            snr_db(
                render_reference(Vocoder.of(tiny_checkpoint), speech),
                opened(manifest.path, how).render(speech),
            )
            >= 100
        )
        refused(
            "--precision ane_numerics is of the executed packages",
            arithmetic,
            "onnx",
            "ane_numerics",
        )
        with refused("--runtime torch is what levels are judged against"):
            judged_manifest("torch", request, build_package)

    def test_quality_builds_the_file_that_it_lacks(self, tiny_checkpoint, tmp_path, capsys):
        from kokoro_ane.runtimes.registry import judged_manifest

        source = str(tiny_checkpoint.folder)
        request = Request(tiny_checkpoint, tmp_path, "w8", source=source)
        _, manifest = judged_manifest("onnx", request, build_package)
        told = capsys.readouterr().err.splitlines()[1:]  # behind why it is padded
        assert [line.partition(" is not built yet")[0] for line in told] == [
            f"KokoroVocoder-tiny-onnx-padded-{level}" for level in ("fp32", "w8")
        ]
        assert manifest.method == "w8"
        (tmp_path / "KokoroVocoder-tiny-onnx-padded-w8.onnx").write_bytes(b"another")
        with refused("has hash .* its manifest says"):  # never built over
            judged_manifest("onnx", request, build_package)

    def test_facts_of_a_file_are_its_own(self, tiny_checkpoint, build):
        from kokoro_ane.eval.facts import facts_of

        manifest = Manifest.load(build / "KokoroVocoder-tiny-onnx-padded-fp32.json")
        facts = facts_of(manifest)
        assert facts.int8_macs_share == 0
        assert facts.operations["Conv"] > 10
        assert facts.stored_bytes["float"] > 0.9 * facts.bytes / 2

    def test_bundle_of_onnx_files(self, tiny_checkpoint, build, tmp_path, capsys):
        from kokoro_ane.pipeline.bundle import main as bundle

        out = tmp_path / "tiny-onnx"
        assert (
            bundle(
                (
                    f"--runtime onnx --checkpoint {tiny_checkpoint.folder} --build "
                    f"{build} --out {out}"
                ).split()
            )
            == 3
        )
        assert printed(capsys)["tensors"] > 40
        assert len(list((out / "packages").glob("*.onnx"))) == 3
        assert "Kokoro text-to-speech for ONNX Runtime: tiny, fp32" in (
            out / "MODEL_CARD.md"
        ).read_text(encoding="utf-8")
        manifest = out / "packages" / "KokoroVocoder-tiny-onnx-padded-fp32.onnx"
        manifest.write_bytes(manifest.read_bytes()[:-1] + b"\0\0")
        assert bundle(["--verify", str(out)]) == 2
        assert "was changed after the bundle was written" in capsys.readouterr().err
        flags = f"--runtime torch --checkpoint {tiny_checkpoint.folder} --out {tmp_path}/tiny-t"
        assert bundle(flags.split()) == 2
        assert "--runtime torch has no files: it reads the checkpoint" in capsys.readouterr().err

    def test_w8_keeps_the_audio_and_a_quarter_of_the_weights(
        self, tiny_checkpoint, build, tmp_path
    ):
        """The small file is opened, judged and refused as the large one is."""
        from kokoro_ane.eval.facts import facts_of
        from kokoro_ane.pipeline.apply import main as quantize

        copy = Path(shutil.copytree(build, tmp_path / "build"))
        flags = (
            f"--method w8 --runtime onnx --checkpoint {tiny_checkpoint.folder} --build {copy}"
        ).split()
        assert quantize(flags) == 0
        require_genuine(Manifest.load(copy / "KokoroVocoder-tiny-onnx-padded-w8.json"), "padded-w8")
        facts = facts_of(Manifest.load(copy / "KokoroVocoder-tiny-onnx-padded-w8.json"))
        assert facts.stored_bytes["int8"] > facts.stored_bytes["float"] / 4
        assert facts.int8_macs_share == 0
        reference = spoken(tiny_checkpoint, copy, "onnx", "abt de, fɡh.")
        small = open_runtime("onnx", Request(tiny_checkpoint, copy, "w8")).vocoder
        waveform = small.run(reference["features"], reference["style"], reference["asr"].shape[-1])
        assert 20 < snr_db(reference["waveform"], waveform) < 80
        (copy / "KokoroVocoder-tiny-onnx-padded-w8.json").unlink()
        with refused("run `kokoro-ane quantize --method w8 .*--runtime onnx`"):
            open_runtime("onnx", Request(tiny_checkpoint, copy, "w8"))
        assert quantize([*flags[:1], "p6", *flags[2:]]) == 2

    def test_w8a8_multiplies_integers_and_says_so(
        self, tiny_checkpoint, build, tmp_path, monkeypatch
    ):
        """Built, opened and described like the others; the chain speaks with it. A processor that
        loses bits refuses it; opened nevertheless, there is more noise.
        """
        import onnx

        from kokoro_ane.eval.facts import facts_of
        from kokoro_ane.pipeline.apply import main as quantize

        copy = Path(shutil.copytree(build, tmp_path / "build"))
        flags = (
            f"--method w8a8 --runtime onnx --checkpoint {tiny_checkpoint.folder} --build {copy}"
        ).split()
        if not onnx_file.are_exact():
            assert quantize(flags) == 2
            monkeypatch.setattr(onnx_file, "are_exact", lambda: True)
        assert quantize(flags) == 0
        manifest = Manifest.load(copy / "KokoroVocoder-tiny-onnx-padded-w8a8.json")
        require_genuine(manifest, "padded-w8a8")
        for name in ("w8", "fp32"):
            with refused(f"which is not padded-{name}: renamed"):
                require_genuine(dataclasses.replace(manifest, method=name), f"padded-{name}")
        facts = facts_of(manifest)
        assert facts.int8_macs_share > 0.5
        assert facts.operations["ConvInteger"] == manifest.compression["int8_inputs"] > 20
        assert {entry.key for entry in onnx.load(manifest.package_path).metadata_props} == {
            onnx_file.INTEGERS
        }
        reference = spoken(tiny_checkpoint, copy, "onnx", "abt de, fɡh.")
        whole = open_runtime("onnx", Request(tiny_checkpoint, copy, "w8a8")).vocoder
        waveform = whole.run(reference["features"], reference["style"], reference["asr"].shape[-1])
        assert 10 < snr_db(reference["waveform"], waveform) < 60


onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

INNER, OUT = 12, 20


# A convolution as the recipe prepares it, and the range of what it reads
def integer_conv(conv, size, place):
    """The convolution on its weights' integers."""
    form = form_of(conv.weight.detach().numpy(), IntegerWeights())
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
    wanted = (conv(x) - conv.bias.view(1, -1, 1, 1)) * 0.5
    assert snr_db(wanted.detach(), module(x * alpha.view(1, -1, 1, 1))) > 25
    assert snr_db(wanted.detach(), module(x)) < 15
    assert snr_db(conv(x).detach(), module(x * alpha.view(1, -1, 1, 1))) < 10


def make_unsigned(path):
    """Change a file's inputs from int8 to uint8 around 128. ONNX Runtime sums such products without
    loss on any processor, but hardly faster than floats.
    """
    model = onnx.load(path)
    constants = [node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"]
    for tensor in (*model.graph.initializer, *constants):
        if tensor.data_type == onnx.TensorProto.INT8:
            zeros = onnx.numpy_helper.to_array(tensor) + np.uint8(128)
            tensor.CopyFrom(onnx.numpy_helper.from_array(zeros.astype(np.uint8), tensor.name))
    onnx.save(model, path)


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
    if not onnx_file.are_exact():
        make_unsigned(tmp_path / "conv.onnx")
    program = onnx_file.OnnxProgram(tmp_path / "conv.onnx", ("y",))
    for steps in LENGTHS:
        x = torch.randn(1, INNER, 1, steps)
        # a code on a rounding edge may fall to the other side
        assert snr_db(module(x).numpy(), program({"x": x.numpy()})["y"]) > 50


def test_places_name_every_convolution_and_what_it_holds(tiny_checkpoint):
    vocoder = Vocoder.of(tiny_checkpoint)
    eager = EagerVocoder(vocoder)
    convolutions = {
        path
        for path, layer in vocoder.named_modules()
        if isinstance(layer, Conv | ConvTranspose) and path != "generator.conv_post"
    }
    known = places(eager)
    assert {place.path for place in known.values()} == convolutions
    for name, place in known.items():
        layer = with_zero_taps(copy.deepcopy(vocoder.get_submodule(place.path)))
        divisor = torch.ones(1) if place.alpha is None else place.alpha
        divisor = divisor.view(-1, 1, 1, 1) if layer.transposed else divisor.view(1, -1, 1, 1)
        weight = layer.weight.detach() * place.outer / divisor
        assert torch.allclose(eager.get_submodule(name).weight, weight, rtol=1e-5), name


def probe():
    helper, kinds, shape = onnx.helper, onnx.TensorProto, (1, onnx_file.CHANNELS, 1, 1)
    weights = np.full((onnx_file.CHANNELS, *shape[1:]), onnx_file.LARGEST_WEIGHT, np.uint8)
    stored = {"w": weights, "z": np.int8(0), "m": np.uint8(onnx_file.MIDDLE)}
    tensors = [
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()
    ]
    ends = (
        [helper.make_tensor_value_info(*end, shape)]
        for end in (("x", kinds.INT8), ("y", kinds.INT32))
    )
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w", "z", "m"], ["y"])], "probe", *ends, tensors
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", onnx_file.OPSET)],
        ir_version=8,
        producer_name="kokoro-ane",
    )
    return model.SerializeToString()


def test_a_processor_that_saturates_is_refused(tmp_path, monkeypatch):
    """A file that says nothing of integers opens there; one that has their products is refused in
    one line.
    """
    assert (
        Path(onnx_file.__file__).with_name("data").joinpath("integer_probe.onnx").read_bytes()
        == probe()
    )
    model = onnx.load_from_string(probe())
    onnx.save(model, tmp_path / "plain.onnx")
    onnx.helper.set_model_props(model, {onnx_file.INTEGERS: "1"})
    onnx.save(model, tmp_path / "whole.onnx")
    if onnx_file.are_exact():
        onnx_file.OnnxProgram(tmp_path / "whole.onnx", ("y",))
    monkeypatch.setattr(
        onnx_file, "sums", lambda: np.full((1, 64, 1, 1), -64 * 32768 // 2, np.int32)
    )
    onnx_file.are_exact.cache_clear()
    try:
        onnx_file.OnnxProgram(tmp_path / "plain.onnx", ("y",))
        with refused("loses bits of their sums on this processor: use w8 or fp32"):
            onnx_file.OnnxProgram(tmp_path / "whole.onnx", ("y",))
    finally:
        onnx_file.are_exact.cache_clear()


@pytest.mark.parametrize("biased", [True, False])
def test_blocks_are_the_same_bits_at_every_length(biased, tmp_path):
    from kokoro_ane.runtimes.onnx.integer_conv import BLOCK, in_blocks
    from kokoro_ane.runtimes.onnx.onnx_file import int8_macs_share, operations

    conv, size = conv_of("following", seed=2)
    module = nn.Sequential(
        nn.Conv2d(INNER, INNER, 1), integer_conv(conv, size, Place("x", centred=not biased))
    )
    axes = {"x": {3: "columns"}, "y": {3: "steps"}}
    onnx_file.write(
        PortableFunction(module, (torch.randn(1, INNER, 1, 100),), ("x",), ("y",), axes, {}),
        tmp_path / "whole.onnx",
    )
    model = onnx.load(tmp_path / "whole.onnx")
    before = operations(model), int8_macs_share([model])
    in_blocks(model, "1")
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "blocks.onnx")
    assert operations(model)["Loop"] == 1
    assert operations(model)["ConvInteger"] == before[0]["ConvInteger"] == 1
    assert int8_macs_share([model]) == before[1] > 0.9
    whole, blocks = (
        onnx_file.OnnxProgram(tmp_path / f"{name}.onnx", ("y",)) for name in ("whole", "blocks")
    )
    for steps in (1, 21, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7):
        x = torch.randn(1, INNER, 1, steps).numpy()
        assert np.array_equal(whole({"x": x})["y"], blocks({"x": x})["y"]), steps
    pytest.raises(CheckFailed, in_blocks, model, "0").match(
        "0 is no convolution of integers with an envelope: nothing"
    )
