"""The package of the streaming layout: three functions that share their weights, compressed, opened
and refused as any package.

python -m pytest tests/vocoder/test_streaming_package.py
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.contract import (
    DECODER,
    PADDED,
    STATISTICS,
    STREAMING,
    STREAMING_POLYNOMIAL,
    UTTERANCE,
    WINDOW,
)
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.manifest import Manifest, level_name
from kokoro_ane.eval.facts import read_facts
from kokoro_ane.eval.gates import select_gates
from kokoro_ane.eval.levels import find_wrong_channels
from kokoro_ane.pipeline import package_builds
from kokoro_ane.pipeline.apply import main as quantize
from kokoro_ane.pipeline.build import main as build
from kokoro_ane.pipeline.bundle import main as bundle
from kokoro_ane.pipeline.speak import main as speak
from kokoro_ane.quantize import streaming_level
from kokoro_ane.quantize.compress import (
    CAST,
    LevelFile,
    build_compressed,
    load_or_make_level,
    make_parent_stage,
    require_stored,
)
from kokoro_ane.quantize.locator import default_layout
from kokoro_ane.quantize.methods import METHODS, SCHEMES
from kokoro_ane.quantize.plan import list_vocoder_layers
from kokoro_ane.quantize.recipe import QuantizationRecipe
from kokoro_ane.quantize.stored_forms import Integers
from kokoro_ane.quantize.streaming_level import (
    PRODUCTS,
    Residuals,
    find_affine_palette,
    make_streaming_stage,
    measure_statistics_shift,
    with_integers,
)
from kokoro_ane.runtimes.genuine import require_genuine
from kokoro_ane.runtimes.onnx import onnx_file, onnx_levels
from kokoro_ane.runtimes.onnx.onnx_file import INTEGERS, files_in, name_function_file
from kokoro_ane.runtimes.onnx.onnx_streaming import OnnxStreamingStage
from kokoro_ane.runtimes.registry import RUNTIMES, module_of
from kokoro_ane.speech.speech import check_speech, make_calibration_inputs
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import cut_excerpt, pack_utterance, unpack_spectrum
from kokoro_ane.vocoder.render import open_package, render_reference
from kokoro_ane.vocoder.streaming import norm_statistics
from kokoro_ane.vocoder.streaming.streaming_model import list_stage_norms
from kokoro_ane.vocoder.streaming.streaming_package import StreamingPackage
from mlprogram import Program
from mlprogram.examine.placement import forecast_placement
from mlprogram.examine.profile import open_program, profile_program
from mlprogram.examine.rules import load_rules
from tests.builds import checkpoint_once, once, quick, small_config
from tests.commands import refused, table
from training import taught_lines
from training.fit_statistics import main as fit

LEVELS = ("fp16", "w8", "w8a8")
MADE = {STREAMING: LEVELS, STREAMING_POLYNOMIAL: LEVELS[:1]}
Built = tuple[Checkpoint, Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A tiny checkpoint with a predictor of its own, and its packages. Shared: copy before
    writing.
    """
    checkpoint = checkpoint_once(tmp_path_factory, small_config(kernel=11), encoder=True)
    checkpoint_flags = ["--checkpoint", str(checkpoint.folder)]

    def make(out):
        statistics = out / norm_statistics.name_predictor_file(checkpoint.sha256)
        few = f"--count 24 --landmarks 12 --rank 4 --data {out}/data --out {statistics}"
        # of so few sentences none may be one as nobody speaks
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(taught_lines, "ALTERED", 0.0)
            assert fit([*checkpoint_flags, *few.split()]) == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(norm_statistics, "DATA", out)
            for (layout, levels), flags in zip(MADE.items(), ([], ["--without-sine"]), strict=True):
                lengths = ["--buckets", "40,128,280", "--out", str(out)]
                assert build(["vocoder", *checkpoint_flags, *flags, *lengths]) == 0
                for name in levels[1:]:
                    build_compressed(quick(name), checkpoint, out, layout=layout)

    return checkpoint, once(tmp_path_factory, ["streaming", checkpoint.sha256], make)


@pytest.fixture(autouse=True)
def own_predictor(built, monkeypatch):
    monkeypatch.setattr(norm_statistics, "DATA", built[1])


@pytest.fixture(scope="module")
def speech(built):
    return check_speech(built[0], 180)


@pytest.fixture
def stage(built):
    """The stage of the uncompressed package."""
    return make_parent_stage(built[0], manifest_of(built, "fp16"))


def manifest_of(built, level, layout=STREAMING):
    return Manifest.load(built[1] / f"KokoroVocoder-tiny-{level_name(level, layout)}.json")


def package_of(built, level, layout=STREAMING):
    package = open_package(manifest_of(built, level, layout).path)
    assert isinstance(package, StreamingPackage)
    return package


def test_a_short_utterance_is_the_vocoders_and_a_long_one_that_of_pytorch_told_the_same(
    built, speech
):
    checkpoint, package = built[0], package_of(built, "fp16")
    short = cut_excerpt(speech, 0, 100)
    assert (
        snr_db(render_reference(Vocoder.from_checkpoint(checkpoint), short), package.render(short))
        > 40
    )
    twin = make_parent_stage(checkpoint, package.manifest).make_torch_chain()
    whole = package.render(speech)
    assert snr_db(twin.render(speech), whole) > 40
    features, style = package.pack(speech), speech.style[:, :, None, None]
    nothing = np.zeros((1, package.chain.rows, 1, 1), np.float32)  # what the voice adds
    early = list(package.render_pieces(features, style, nothing, speech.frames))
    # fp16 sums of other windows
    assert len(early) >= 3
    assert len(early[0]) < 600 * 24
    assert snr_db(whole, np.concatenate(early)) > 45
    with pytest.raises(InputError, match="features holds 1 NaN"):
        package.render_pieces(
            np.where(np.arange(features.size).reshape(features.shape) == 7, np.nan, features),
            style,
            nothing,
            180,
        )
    with pytest.raises(InputError, match=r"statistics has shape \[1, 0, 1, 1\], but these"):
        list(package.render_pieces(features, style, nothing[:, :0], 180))


def test_the_reference_in_float64_rounds_nothing_to_float32(stage, speech):
    """Weights and predictor are float32's, so one more float32 anywhere would be seen: 1e-13 of
    the inputs moves the samples by less than float32's last bit.
    """
    chain = stage.make_torch_chain(torch.float64)
    moved = replace(speech, energy=speech.energy.double() * (1 + 1e-13))
    reference = chain.render(speech)
    assert reference.dtype == np.float64
    assert 160 < snr_db(reference, chain.render(moved)) < 1000


def test_the_functions_share_their_weights_and_a_window_reduces_nothing_over_time(
    built,
):
    manifest = manifest_of(built, "fp16")
    structure = manifest.checks["structure"]
    assert structure[WINDOW]["over_time"] == 0 < structure[UTTERANCE]["over_time"]
    assert structure[WINDOW]["count"] <= 195
    assert structure[DECODER]["count"] <= 800
    assert structure[DECODER]["fp32_outside_tail"] == []
    assert list(manifest.functions) == [
        DECODER,
        UTTERANCE,
        WINDOW,
    ]
    facts = read_facts(manifest)
    assert sum(facts.stored_bytes.values()) < 1.02 * facts.bytes
    assert facts.minimum_ios == "iOS18"
    # windows, not the utterance
    long = read_facts(manifest, 280)
    assert long.forecast["m1"]["engine_high"] != facts.forecast["m1"]["engine_high"]


@pytest.mark.parametrize("level", LEVELS[1:])
def test_every_method_compresses_all_functions_alike(built, speech, level):
    manifest, parent = manifest_of(built, level), manifest_of(built, "fp16")
    require_genuine(manifest, level)
    # by the stored kinds of every function
    refused(f"which is not {level}: renamed", require_genuine, replace(parent, method=level), level)
    facts = read_facts(manifest)
    assert facts.stored_bytes["linear int8"] > facts.stored_bytes["fp16"]
    assert (facts.int8_macs_share > 0.2) == (level == "w8a8")
    # its operations weigh more than the tiny model's weights
    assert level == "w8a8" or manifest.package_bytes < parent.package_bytes
    assert (
        snr_db(package_of(built, "fp16").render(speech), package_of(built, level).render(speech))
        > 5
    )


def level_named(built, name):
    """The level whose file stands beside the packages."""
    return load_or_make_level(quick(name), *built)


def test_five_wrong_scales_of_a_level_are_found_without_ears(built, monkeypatch):
    """The integers are the package's, so they are read in the level's file."""
    manifest = manifest_of(built, "w8")
    context = SimpleNamespace(
        checkpoint=built[0],
        options=SimpleNamespace(build=built[1]),
        store=SimpleNamespace(load_or_measure=lambda _, make: make()),
    )
    assert not find_wrong_channels(quick("w8"), manifest, context)
    file = LevelFile.open("w8", *built, "vocoder")
    path, form = next(iter(file.level.forms.items()))
    form.scale.view(-1)[:5].mul_(1.1)
    monkeypatch.setattr(LevelFile, "open", lambda *_: file)
    assert [line.split(":")[0] for line in find_wrong_channels(quick("w8"), manifest, context)] == [
        path
    ]


def test_statistics_are_corrected_by_what_a_levels_weights_change(built, stage, monkeypatch):
    level = level_named(built, "w8")
    clips = list(make_calibration_inputs(built[0], stage.vocoder, 6))
    monkeypatch.setattr(streaming_level, "make_calibration_inputs", lambda *_: clips[:5])
    assert not measure_statistics_shift(stage, stage).any()
    corrected = make_streaming_stage(stage, level)
    shift = corrected.shift
    # a sentence that took no part has it too
    moved = Residuals(corrected.modules)(clips[5]) - Residuals(stage.modules)(clips[5])
    assert moved.shape == stage.predictor.bias.shape
    assert np.square(moved - shift).mean() < 0.8 * np.square(moved).mean()


def test_the_frame_decoder_reads_in_the_levels_steps(built, stage, monkeypatch):
    """A level that is attached to the same vocoder twice would find its factors gone."""
    level = level_named(built, "w8a8")
    clips = list(make_calibration_inputs(built[0], stage.vocoder, 1))
    monkeypatch.setattr(streaming_level, "make_calibration_inputs", lambda *_: clips)
    modules, expected = make_streaming_stage(stage, level).modules, level.apply(stage.vocoder)
    frames = [path for path in level.ranges if not path.startswith("generator.")]
    assert len(frames) > 5
    for path in frames:
        step = modules[DECODER].get_submodule(f"vocoder.{path}.rounding").step
        assert torch.equal(step, expected.get_submodule(f"{path}.rounding").step), path


def test_residuals_are_what_the_vocoders_norms_measure_less_what_is_predicted(built, stage):
    clip = next(iter(make_calibration_inputs(built[0], stage.vocoder, 1)))
    read = []
    for norm in list_stage_norms(stage.vocoder.generator, 1):
        # [C, S]
        norm.norm.register_forward_pre_hook(
            lambda _, inputs: read.append(inputs[0][0, :, 0].double().numpy())
        )
    render_reference(stage.vocoder, clip)
    expected = np.concatenate(
        [*(x.mean(1) for x in read), *(np.log(x.var(1) + 1e-5) for x in read)]
    )
    expected[: len(expected) // 2] -= stage.predictor.centres[-len(expected) // 2 :]
    products = []
    outer = stage.modules[DECODER].get_submodule("outer")
    handle = outer.register_forward_hook(
        lambda _, inputs, product: products.append(product.flatten().numpy())
    )
    stage.make_torch_chain().render(clip)
    handle.remove()
    assert np.abs(Residuals(stage.modules)(clip) + products[0] - expected).max() < 1e-3


def integers_in(program):
    """The int8 weights that a function stores, by their label."""
    names = ("data", "quantized_data")
    return {
        op.outputs[0].name.removesuffix("_cast_fp16"): np.asarray(
            program.constant(next(op.inputs[name][0] for name in names if name in op.inputs))
        )
        for op in program.operations
        if op.op_type.startswith("constexpr_")
    }


@pytest.mark.parametrize("name", LEVELS[1:])
def test_all_layouts_and_files_have_the_same_integers(built, tmp_path, name):
    """The padded package's, the streaming package's and the ONNX files' are the level's."""
    import onnx
    from onnx import numpy_helper

    level = level_named(built, name)
    expected = {form.label: form.values.numpy() for form in level.forms.values()}
    streamed = {}
    for function in (DECODER, UTTERANCE, WINDOW):
        program = Program(manifest_of(built, name).package_path, function=function)
        streamed |= integers_in(program)
    # affines of the generator's norms are rows of one product there, and the first stage's source
    # convolution reads six columns as rows
    affines = {label for label in expected if "_fc_" in label and "generator" in label}
    source = "vocoder_generator_noise_convs_0_weight"
    shared = set(expected) - affines - {source}
    assert shared <= set(streamed)
    for label in shared:
        assert np.array_equal(streamed[label], expected[label]), label
    if source in expected:
        packed = streamed["generator_noise_convs_0_weight"]
        for row, values in zip(packed, expected[source], strict=True):
            assert np.array_equal(np.sort(row[row != 0]), np.sort(values[values != 0]))
    assert name == "w8" or source in expected
    onnx_levels.write_level(level, built[0], PADDED, tmp_path / "level.onnx")
    stored = [
        numpy_helper.to_array(tensor)
        for tensor in onnx.load(tmp_path / "level.onnx").graph.initializer
    ]
    # integer products have theirs as uint8 around 128
    signed = [
        (array.astype(np.int16) - 128).astype(np.int8) if array.dtype == np.uint8 else array
        for array in stored
        if array.dtype in (np.int8, np.uint8)
    ]
    rows = np.concatenate([array for array in signed if array.ndim == 2])
    for label, values in expected.items():
        if "_fc_" in label:
            assert (rows[:, None] == values[None, :4, :, 0, 0]).all(axis=2).any(axis=0).all(), label
        else:
            assert any(np.array_equal(values, array) for array in signed), label


def test_the_polynomial_stays_on_chips_without_sine(built, speech):
    """The only sines left are the fp32 tail's; the sound is the other layout's."""
    manifest, rules = manifest_of(built, "fp16", STREAMING_POLYNOMIAL), load_rules()
    require_genuine(manifest, "streaming-poly-fp16")
    for name in (UTTERANCE, WINDOW):
        sine, polynomial = (
            [
                op.op_type
                for op in Program(
                    manifest_of(built, "fp16", layout).package_path, function=name
                ).operations
                if op.op_type in ("sin", "cos", "round") and op.outputs[0].dtype.name == "fp16"
            ]
            for layout in MADE
        )
        assert len(sine) == len(polynomial) == 12
        assert set(sine) == {"sin"}
        assert set(polynomial) == {"round"}
    for layout, whole in ((STREAMING, False), (STREAMING_POLYNOMIAL, True)):
        window = open_program(manifest_of(built, "fp16", layout).package_path, WINDOW)
        profile = profile_program(window, window.all_shapes()[-1])
        assert all(
            (forecast_placement(profile, rules, chip).optimistic.cut.engine_segments == 1) == whole
            for chip in ("m1", "a14")
        )
    assert snr_db(*(package_of(built, "fp16", layout).render(speech) for layout in MADE)) > 45


def test_both_stages_have_the_levels_forms_and_what_the_vocoder_lacks_has_rows(built, stage):
    """And a function of another level is no package of this one."""
    level = level_named(built, "w8a8")
    stage = with_integers(stage, level)
    decoder, window = stage.modules[DECODER], stage.modules[WINDOW]
    blocks = stage.vocoder.generator.blocks_per_stage
    compared = []
    for number, function in enumerate((decoder, window)):
        for block in range(number * blocks, (number + 1) * blocks):
            for path in (f"generator.resblocks.{block}.convs{one}.0" for one in (1, 2)):
                weight = function.get_submodule(f"{path}.conv").weight
                # the tiny last stage's weights are too few to pay, and its inputs are in float
                if path in level.forms:
                    compared.append(number)
                    assert np.array_equal(weight.detach().numpy(), level.forms[path].to_array()), (
                        path
                    )
    assert compared
    for product in PRODUCTS:
        layers = decoder.get_submodule(product).modules()
        assert any(isinstance(layer, Integers) for layer in layers), product
    program = Program(manifest_of(built, "w8").package_path, function=DECODER)
    with pytest.raises(CheckFailed, match=r"unpacks .* to other values|does not store as planned"):
        require_stored(decoder, program)


def test_a_recipe_gives_its_palette_to_the_affines_product_and_to_what_predicts(
    built, speech, tmp_path
):
    """And only where all affines have one: their rows lie in one product."""
    checkpoint, out = built[0], tmp_path / "build"
    shutil.copytree(built[1], out)
    layers = list_vocoder_layers(Vocoder.from_checkpoint(checkpoint))
    affines = [x.name for x in layers if x.is_style and x.name.startswith("generator.")]
    levels = {x.name: "w8" for x in layers if not x.is_tail} | dict.fromkeys(affines, "p6g_gptq")
    recipe = QuantizationRecipe(checkpoint.name, checkpoint.sha256, {}, {}, levels)
    (_, manifest), *_ = build_compressed(METHODS["mixed18"], checkpoint, out, recipe)
    # each constant is the stage's own, or the build had refused it
    program = Program(manifest.package_path, function=DECODER)
    kinds = {op.outputs[0].name.removesuffix(CAST): op.op_type for op in program.operations}
    tables = ["styles_weight", "outer_weight"]
    assert {kinds[name] for name in tables} == {"constexpr_lut_to_dense"}
    for name in ("axes", "landmarks", "hidden"):
        label = f"hidden_statistics_{name}"
        assert kinds[label] == "constexpr_blockwise_shift_scale", name
        assert program.constant(label).dtype == np.float32, name
    rendered = open_package(manifest.path).render(speech)
    assert snr_db(package_of(built, "w8").render(speech), rendered) > 15
    assert find_affine_palette(levels) == SCHEMES["p6g_gptq"].weights
    assert find_affine_palette(levels | {affines[0]: "w8"}) is None
    assert find_affine_palette(levels | dict.fromkeys(affines, "p6")) is None


@table(
    "flags message",
    """
    --target iOS17 | three functions need iOS 18
    --buckets 200,280 | the streaming layout needs one from 24, its shortest window, to 180
""",
)
def test_what_the_layout_cannot_be(flags, message, built, tmp_path, capsys):
    place = f"--checkpoint {built[0].folder} --out {tmp_path}/b"
    assert build(f"vocoder --layout streaming {place} {flags}".split()) == 2
    problem = capsys.readouterr().err.strip()
    assert message in problem
    assert problem.count("\n") == 0
    assert not (tmp_path / "b").exists()


def test_a_package_of_a_layout_that_is_gone(built, tmp_path):
    path = tmp_path / "KokoroVocoder-tiny-tiled-fp16.json"
    replace(manifest_of(built, "fp16"), layout="tiled").save(path)
    again = "run `kokoro-ane build vocoder` again"
    refused(f"says layout 'tiled', no longer one of padded, .*; {again}", Manifest.load, path)


def test_a_package_of_another_predictor(built, tmp_path, capsys):
    checkpoint, out = built
    manifest = manifest_of(built, "fp16")
    manifest.inputs[DECODER][STATISTICS]["predictor_sha256"] = "0" * 64
    words = "has predicted statistics 000000000000, tiny now has .* again"
    refused(words, make_parent_stage, checkpoint, manifest)
    folder = Path(shutil.copytree(out, tmp_path / "build"))
    manifest.save(folder / manifest.path.name)
    common = f"Hi. --checkpoint {checkpoint.folder} --build {folder} -o {tmp_path}/a.wav"
    assert speak(common.split()) == 2
    assert "was built with the predictor 000000000000" in capsys.readouterr().err


def test_packing_can_be_undone_and_fp16_is_held_to_its_own_gates(speech):
    spectrum = unpack_spectrum(pack_utterance(speech, 280))
    assert np.array_equal(spectrum[..., : 120 * 180 + 1], speech.spectrum.numpy())
    assert not spectrum[..., 120 * 180 + 1 :].any()
    assert {gate.name for gate in select_gates("fp16", PADDED)} - {
        gate.name for gate in select_gates("fp16")
    } == {"snr_db mean"}


@pytest.fixture(scope="module")
def files(built, tmp_path_factory):
    """The same for ONNX Runtime, in float32, with int8 weights, and on integers."""
    pytest.importorskip("onnxruntime")
    runtime_flags = f"--runtime onnx --checkpoint {built[0].folder}".split()

    def make(out):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(norm_statistics, "DATA", built[1])
            patch.setattr(onnx_file, "has_exact_sums", lambda: True)
            for stage in ("encoder", "vocoder"):
                assert build([stage, *runtime_flags, "--out", str(out)]) == 0
            for level in ("w8", "w8a8"):
                assert quantize(["--method", level, *runtime_flags, "--build", str(out)]) == 0

    return once(tmp_path_factory, ["streaming-onnx", built[0].sha256], make)


def _places(path):
    """Where the weights of a function stand in the file that functions share."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    return {
        entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "offset"
    }


def test_onnx_runtime_renders_what_the_package_renders(built, files, speech, monkeypatch):
    """In the same windows, at exact length; equal weights stand once; levels are told apart."""
    # a processor that loses bits of integer sums adds noise here, which the wide limits allow
    monkeypatch.setattr(onnx_file, "has_exact_sums", lambda: True)
    checkpoint, manifest = (
        built[0],
        Manifest.load(files / "KokoroVocoder-tiny-onnx-fp32.json"),
    )
    fp32, w8, w8a8 = (
        module_of("onnx").open_vocoder(files / f"KokoroVocoder-tiny-onnx-{level}.json")
        for level in ("fp32", "w8", "w8a8")
    )
    long = check_speech(checkpoint, 220)
    whole = fp32.render(long)
    assert (
        snr_db(
            make_parent_stage(checkpoint, manifest_of(built, "fp16"))
            .make_torch_chain()
            .render(long),
            whole,
        )
        >= 100
    )
    nothing = np.zeros((1, fp32.chain.rows, 1, 1), np.float32)
    early = list(
        fp32.render_pieces(fp32.pack(long), long.style[:, :, None, None], nothing, long.frames)
    )
    assert len(early) >= 3
    assert len(early[0]) < 600 * 24
    assert snr_db(whole, np.concatenate(early)) >= 100
    for frames in (2, 41, 180):
        short = cut_excerpt(speech, 0, frames)
        assert (
            snr_db(render_reference(Vocoder.from_checkpoint(checkpoint), short), fp32.render(short))
            >= 100
        )
    assert 15 < snr_db(whole, w8.render(long)) < 80
    window, utterance = (
        _places(name_function_file(manifest.package_path, name)) for name in (WINDOW, UTTERANCE)
    )
    assert len(window) > 5
    assert window == utterance
    require_genuine(manifest, "fp32")
    refused("which is not w8: renamed", require_genuine, replace(manifest, method="w8"), "w8")
    facts = read_facts(w8.manifest)
    assert facts.stored_bytes["int8"] > 0 == facts.int8_macs_share
    assert 10 < snr_db(whole, w8a8.render(long)) < 60
    facts = read_facts(w8a8.manifest)
    assert facts.int8_macs_share > 0.2
    # a convolution of both the decoder and the utterance function stands in both files
    assert facts.operations["ConvInteger"] >= w8a8.manifest.compression["int8_inputs"] > 20
    require_genuine(w8a8.manifest, "w8a8")


def test_integers_in_windows_on_any_processor(built, tmp_path):
    """As files, and in PyTorch, whose sums are exact; a processor that loses bits opens none of
    them.
    """
    level, long = level_named(built, "w8a8"), check_speech(built[0], 220)
    prepared = level.prepare(Vocoder.from_checkpoint(built[0]))
    stage = onnx_levels.make_integer_functions(
        OnnxStreamingStage.from_checkpoint(built[0], prepared), level
    )
    onnx_levels.write_level(level, built[0], STREAMING, tmp_path / "w8a8.onnx")
    whole = OnnxStreamingStage.from_checkpoint(built[0]).twin.make_torch_chain().render(long)
    assert 10 < snr_db(whole, stage.twin.make_torch_chain().render(long)) < 60
    # so that its processor is asked
    assert all(INTEGERS.encode() in path.read_bytes() for path in files_in(tmp_path / "w8a8.onnx"))


def test_onnx_streaming_speaks_in_windows_and_is_bundled(built, files, tmp_path, capsysbinary):
    flags = f"--checkpoint {built[0].folder} --runtime onnx --build {files}".split()
    assert speak(["abt de, fɡh. " * 9, "--phonemes", *flags, "--stream", "pcm"]) == 0
    assert json.loads(capsysbinary.readouterr().err.splitlines()[-1])["least_margin_s"] is not None
    out = tmp_path / "tiny-s"
    assert bundle([*flags, "--out", str(out)]) == 3
    assert json.loads(capsysbinary.readouterr().out.splitlines()[-1])["tensors"] > 40
    weights = out / "packages" / "KokoroVocoder-tiny-onnx-fp32.onnx" / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    assert bundle(["--verify", str(out)]) == 2


def test_what_other_runtimes_have_not(built, tmp_path, capsys):
    # manifests there: whether a build is current is asked only after whether it can be
    (tmp_path / "other.json").write_text("{}")
    flags = f"vocoder --runtime tvm --checkpoint {built[0].folder} --out {tmp_path}".split()
    assert build([*flags, "--layout", STREAMING]) == 2
    assert "TVM has only padded" in capsys.readouterr().err


def test_what_cannot_have_the_default_layout_has_the_padded_one_and_says_so(
    built, monkeypatch, tmp_path, capsys
):
    """ExecuTorch and TVM, iOS 17, and weights without statistics."""
    checkpoint = built[0]
    assert default_layout(checkpoint) == STREAMING
    for runtime in ("executorch", "tvm"):
        assert default_layout(checkpoint, RUNTIMES[runtime].layouts) == PADDED
    monkeypatch.setattr(package_builds, "make_vocoder_stage", refuse)
    flags = f"vocoder --target iOS17 --checkpoint {checkpoint.folder} --out {tmp_path}"
    assert build(flags.split()) == 2
    monkeypatch.setattr(norm_statistics, "DATA", tmp_path)
    assert default_layout(checkpoint) == PADDED
    *lines, reached, fitted = capsys.readouterr().err.splitlines()
    assert lines == ["this runtime or target has no streaming layout: --layout padded"] * 3
    assert reached == "error: padded"
    assert fitted.startswith("tiny is not of Kokoro-82M's architecture")


def refuse(_checkpoint, layout, *_):
    raise InputError(layout.name)
