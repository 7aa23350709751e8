"""Tiny packages of every method: structure, bytes, refusal, exactness; the commands that build,
measure and judge.
"""

import dataclasses
import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb

from built import package_of, palette
from kokoro_ane.core.checkpoint import Checkpoint, open_checkpoint
from kokoro_ane.core.contract import MAIN, PADDED
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.manifest import describe_package
from kokoro_ane.eval import execution
from kokoro_ane.eval.channel_gains import find_wrong_scales, read_layer_pairs
from kokoro_ane.eval.execution import ClipResult
from kokoro_ane.eval.metrics.catalog import METRICS as METRICS_JUDGED
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.pipeline.apply import main as apply
from kokoro_ane.quantize import level
from kokoro_ane.quantize.compress import (
    CompressedStage,
    build_compressed,
    load_or_make_level,
    locate_level,
    make_parent_stage,
    require_stored,
)
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.quantize.methods import METHODS, IntegerWeights
from kokoro_ane.quantize.plan import list_vocoder_layers
from kokoro_ane.quantize.stored_forms import Integers, RoundedInput
from kokoro_ane.runtimes.genuine import CONVOLUTIONS, require_genuine
from kokoro_ane.speech.speech import load_own_speech
from kokoro_ane.vocoder.decoder import Vocoder
from mlprogram import Program
from mlprogram.examine.profile import open_program
from tests.builds import (
    COMPRESSED,
    QUICK,
    manifest_of,
    program_of,
    quantize_ops,
    quick,
    recipe_of,
    small_config,
)
from tests.commands import parsed, printed
from tests.demo_voice import DEMO_VOICE
from tests.random_checkpoint import write_checkpoint


# kind of operation that holds each convolution's weight
def storage(program):
    kinds = {value.name: op.op_type for op in program.operations for value in op.outputs}
    return {
        op.name: kinds[op.inputs["weight"][0]]
        for op in program.operations
        if op.op_type in CONVOLUTIONS
    }


def scaled_tables(program):
    """What scales a table: computes its values, or reads the weight made of it before a convolution
    does.
    """
    makers = {value.name: op.op_type for op in program.operations for value in op.outputs}
    tables = [op for op in program.operations if op.op_type == "constexpr_lut_to_dense"]
    assert tables
    weights = {value.name for op in tables for value in op.outputs}
    readers = [
        op.op_type
        for op in program.operations
        if weights & {name for names in op.inputs.values() for name in names}
    ]
    scaling = [makers.get(op.inputs["lut"][0], "const") for op in tables] + readers
    return [kind for kind in scaling if kind not in ("const", *CONVOLUTIONS)]


def compressed_layers(built):
    layers = list_vocoder_layers(Vocoder.from_checkpoint(built[0]))
    return [layer for layer in layers if layer.elements > 2048 and not layer.is_tail]


def reads_of(layer, convolutions, maker):
    """What makes the input of a layer, which the names of its constants tell."""
    starts = tuple(f"vocoder_{layer.replace('.', '_')}_{part}" for part in ("weight", "bias"))
    op = next(
        op
        for op in convolutions
        if any(op.inputs.get(part, ("",))[0].startswith(starts) for part in ("weight", "bias"))
    )
    return maker.get(op.inputs["x"][0])


def stage_with(built, name):
    """The stage of a level that was built, from its file."""
    parent = manifest_of(built, "fp16")
    recipe = recipe_of(built[0]) if METHODS[name].by_recipe else None
    made = load_or_make_level(quick(name), *built, recipe)
    return CompressedStage.from_stage(made, make_parent_stage(built[0], parent), parent)


class TestStructure:
    def test_no_table_has_a_scale_over_it(self, built, tmp_path):
        """Such a package was reported to crash when the engine loads it (coremltools 2688)."""
        assert scaled_tables(program_of(built, "mixed")) == []
        weight = np.random.default_rng(0).standard_normal((8, 8, 1, 3)).astype(np.float16)
        plain = package_of(
            {"x": (1, 8, 1, 9)},
            lambda x: mb.conv(x=x, weight=weight),
            tmp_path,
            target=ct.target.iOS18,
        )
        scaled = palette(nbits=4, enable_per_channel_scale=True)(
            ct.models.MLModel(str(plain), skip_model_load=True)
        )
        scaled.save(str(tmp_path / "scaled.mlpackage"))
        assert scaled_tables(Program(tmp_path / "scaled.mlpackage")) == [
            "constexpr_blockwise_shift_scale"
        ]

    @pytest.mark.parametrize("name", COMPRESSED)
    def test_the_parent_is_untouched_and_both_verify(self, built, name):
        """coremltools rewrites the Manifest.json of a package that it opens, so it gets a copy."""
        parent, child = manifest_of(built, "fp16"), manifest_of(built, name)
        assert child.parent_sha256 == parent.package_sha256
        assert child.method == name
        assert child.releasable is False
        assert (child.buckets, child.inputs, child.checkpoint) == (
            parent.buckets,
            parent.inputs,
            parent.checkpoint,
        )

    def test_exactly_the_large_weights_are_compressed_each_on_its_grid(self, built):
        program, large = program_of(built, "w8"), compressed_layers(built)
        counts = Counter(storage(program).values())
        assert counts["constexpr_affine_dequantize"] == len(large)
        assert set(counts) == {"constexpr_affine_dequantize", "const"}
        layer = next(layer for layer in large if not layer.transposed)
        exact = Vocoder.from_checkpoint(built[0]).get_submodule(layer.name).weight.detach().numpy()
        label = f"vocoder_{layer.name.replace('.', '_')}_weight_cast_fp16"
        coarse = np.asarray(program.constant(label), dtype=np.float64)
        steps = np.abs(exact).reshape(len(exact), -1).max(axis=1) / 127
        assert np.abs(coarse - exact).reshape(len(exact), -1).max(axis=1) == pytest.approx(
            steps / 2, rel=0.5
        )

    def test_mixed_follows_its_recipe(self, built):
        kinds = set(storage(program_of(built, "mixed")).values())
        assert {"constexpr_affine_dequantize", "constexpr_lut_to_dense", "const"} == kinds
        shares = [
            manifest_of(built, name).compression["int8_macs_share"] for name in ("mixed", "w8a8")
        ]
        assert 0 < shares[0] < shares[1]

    def test_a_package_that_differs_from_its_module_is_refused(self, built):
        module = stage_with(built, "mixed").make_function(MAIN).module
        require_stored(module, program_of(built, "mixed"))
        with pytest.raises(CheckFailed, match="does not store as planned: vocoder_"):
            require_stored(module, program_of(built, "w8"))
        rounding = next(part for part in module.modules() if isinstance(part, RoundedInput))
        rounding.step *= 2
        with pytest.raises(CheckFailed, match="rounds other inputs than planned"):
            require_stored(module, program_of(built, "mixed"))
        form = next(part for part in module.modules() if isinstance(part, Integers))
        form.values[0] += 1
        with pytest.raises(CheckFailed, match=f"unpacks {form.label} to other values"):
            require_stored(module, program_of(built, "mixed"))

    def test_a_package_does_what_its_module_does(self, built):
        for name, limit_db in (("w8", 50.0), ("w8a8", 15.0), ("mixed", 15.0)):
            figures = {
                figure["name"]: figure["value"]
                for figure in manifest_of(built, name).checks["figures"]
            }
            assert figures["SNR against the level in PyTorch"] > limit_db, name


class TestLevelFile:
    def test_it_gives_the_level_back(self, built):
        for name in COMPRESSED:
            recipe = recipe_of(built[0]) if METHODS[name].by_recipe else None
            made, read = (
                load_or_make_level(quick(name), *built, recipe),
                level.load_level(
                    locate_level(METHODS[name], *built), built[0], quick(name), recipe
                ),
            )
            assert read is not None
            assert set(read.forms) == set(made.forms)
            assert read.caps == made.caps
            assert read.ranges == made.ranges
            for path, form in read.forms.items():
                assert np.array_equal(form.to_array(), made.forms[path].to_array()), path
                assert form.label == made.forms[path].label

    def test_what_is_wrong_with_a_file_is_one_line(self, copied, monkeypatch, tmp_path):
        checkpoint, build = copied
        path, method = locate_level(METHODS["w8"], *copied), METHODS["w8"]
        whole = path.read_bytes()
        with pytest.raises(InputError, match="was made from another method"):
            level.load_level(path, checkpoint, METHODS["p6"])
        other = dataclasses.replace(method, weights=IntegerWeights(4))
        with pytest.raises(InputError, match="was made from another settings"):
            level.load_level(path, checkpoint, other)
        stranger = Checkpoint.from_folder(
            write_checkpoint(tmp_path / "other", small_config(), seed=1, encoder=True)
        )
        with pytest.raises(InputError, match="was made from another checkpoint"):
            level.load_level(path, stranger, method)
        path.write_bytes(whole[:-100])
        with pytest.raises(InputError, match="is no level's file"):
            level.load_level(path, checkpoint, method)
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(InputError, match="was altered"):
            level.load_level(path, checkpoint, method)
        path.write_bytes(whole)
        monkeypatch.setattr(level, "source_sha256", lambda *_: "other code")
        assert level.load_level(path, checkpoint, method) is None


class TestW8A8:
    def test_convolutions_read_int8_by_symmetric_scales(self, built):
        program, layers = (
            program_of(built, "w8a8"),
            list_vocoder_layers(Vocoder.from_checkpoint(built[0])),
        )
        layers = tuple(layer for layer in layers if not layer.is_tail)
        maker = {value.name: op.op_type for op in program.operations for value in op.outputs}
        convolutions = [op for op in program.operations if op.op_type in CONVOLUTIONS]
        reads = {x.name: reads_of(x.name, convolutions, maker) for x in layers}
        in_float = {x.name for x in layers if not x.is_style and reads[x.name] != "dequantize"}
        upsamplers = {
            x.name
            for x in layers
            if x.name.endswith(".pool") or x.name.startswith("generator.ups.")
        }
        last_stage = re.compile(r"generator\.(noise_(convs|res)\.1|resblocks\.[345])\b")
        late = {x.name for x in layers if not x.is_style and last_stage.match(x.name)}
        assert in_float - upsamplers - late == {
            "F0_conv",
            "N_conv",
            "encode.conv1",
            *(f"generator.resblocks.1.convs1.{index}" for index in range(3)),
        }
        assert late | upsamplers <= in_float
        assert not [x.name for x in layers if x.is_style and reads[x.name] == "dequantize"]
        assert len(quantize_ops(program)) == sum(kind == "dequantize" for kind in reads.values())
        program = program_of(built, "w8a8")
        for op in quantize_ops(program):
            assert "zero_point" not in op.inputs
            assert np.asarray(program.constant(op.inputs["scale"][0])).dtype == np.float16
            assert op.outputs[0].dtype.name == "int8"

    def test_figures_and_share_are_in_the_manifest(self, built):
        manifest = manifest_of(built, "w8a8")
        balanced, following, module, against_parent = manifest.checks["figures"]
        assert balanced["value"] > 100.0 > following["value"] > 25.0
        assert module["value"] > against_parent["value"] > 15.0
        # tail and decoder weigh more in a tiny model
        assert 0.2 < manifest.compression["int8_macs_share"] < 1.0
        assert manifest.compression["activations"]["exponent"] == QUICK.exponent


@pytest.mark.slow
class TestW4:
    def test_blocks_a_warning_and_much_worse(self, copied):
        """The negative control, with one scale a block and the reason why it is not for the
        engine.
        """
        manifest, kinds = (
            build_compressed(METHODS["w4"], *copied, layout=PADDED)[0][1],
            storage(program_of(copied, "w4")),
        )
        counts = Counter(kinds.values())
        assert counts["constexpr_blockwise_shift_scale"] == len(compressed_layers(copied))
        assert manifest.target == "iOS18"
        assert "Neural Engine" in manifest.compression["unfit_for_engine"]
        require_genuine(manifest, "padded-w4")
        for name in ("w8", "p4", "mixed"):
            pytest.raises(
                InputError,
                require_genuine,
                dataclasses.replace(manifest, method=name),
                f"padded-{name}",
            ).match("renamed")
        snr_db = {
            name: manifest_of(copied, name).checks["figures"][-1]["value"] for name in ("w4", "w8")
        }
        assert snr_db["w4"] < snr_db["w8"] - 15.0


class TestBuild:
    def test_same_inputs_same_bytes(self, copied):
        """Ranges, int8 inputs, palettes and integers; tests/core/test_convert.py holds the
        conversion to it.
        """
        first, recipe = manifest_of(copied, "mixed").package_sha256, recipe_of(copied[0])
        again = build_compressed(quick("mixed"), *copied, recipe, PADDED, anew=True)[0][1]
        assert again.package_sha256 == first

    def test_a_package_below_the_limit_leaves_nothing(self, copied):
        checkpoint, build = copied
        shutil.rmtree(manifest_of(copied, "w8").package_path)
        with pytest.raises(CheckFailed, match=r"SNR against fp16 in PyTorch, .* limit >= 300 dB"):
            build_compressed(
                dataclasses.replace(METHODS["w8"], check_snr_db=300.0),
                checkpoint,
                build,
                layout=PADDED,
                anew=True,
            )
        assert not list(build.glob("*w8.mlpackage")) + list(build.glob(".staged*"))

    def test_what_is_no_compression_or_anothers_recipe_is_refused(self, built):
        with pytest.raises(
            InputError,
            match="method 'fp16' compresses nothing: `kokoro-ane build vocoder --layout padded`",
        ):
            build_compressed(METHODS["fp16"], *built, layout=PADDED)
        other = dataclasses.replace(recipe_of(built[0]), checkpoint_sha256="00ff")
        with pytest.raises(InputError, match="the recipe was found for checkpoint tiny 00ff"):
            build_compressed(quick("mixed"), *built, other, PADDED, anew=True)


class TestApplyCommand:
    def test_no_parent(self, built, tmp_path, capsys):
        assert (
            apply(f"--method w8a8 --checkpoint {built[0].folder} --build {tmp_path}".split()) == 2
        )
        assert "does not exist: run `kokoro-ane build vocoder --" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())


class TestQualityCommand:
    def run(self, built, *more, method="w8"):
        folders = ("--checkpoint", str(built[0].folder), "--build", str(built[1]))
        return quality(["--method", method, *folders, "--workers", "1", *more])

    @pytest.fixture
    def one_clip(self, built, monkeypatch):
        """Two seconds are all that is judged."""
        clips = [clip for clip in load_own_speech(built[0]) if clip.frames >= 80]
        shortest = min(clips, key=lambda clip: clip.frames)
        monkeypatch.setattr("kokoro_ane.eval.reference.list_judged_clips", lambda *_: [shortest])
        # slow where random weights speak
        monkeypatch.setattr("kokoro_ane.eval.metrics.trial.words_heard", lambda _: ("nothing",))

    def test_one_clip_is_measured_but_undecided(self, copied, one_clip, capsys):
        assert self.run(copied, "--clips", "1") == 3
        printed = capsys.readouterr().out
        data = json.loads(printed.splitlines()[-1])
        record = parsed(Path(data["file"]))
        assert "PESQ wide band" in printed
        assert "not releasable" in printed
        assert data["verdict"] == record["verdict"] == "UNDECIDED"
        assert data["releasable"] is False
        assert record["clips"][0]["figures"]["snr_db"] == pytest.approx(
            data["summary"]["snr_db"]["mean"], abs=1e-4
        )
        assert record["clips"][0]["figures"]["pesq"] > record["clips"][0]["variation"]["pesq"]
        assert record["provenance"]["package_sha256"] == manifest_of(copied, "w8").package_sha256

        assert self.run(copied, "--clips", "1", "--out", str(copied[1] / "again.json")) == 3
        assert parsed(copied[1] / "again.json") == record

    def test_a_level_is_judged_before_it_is_converted(self, copied, one_clip, capsys):
        """The file's figures are nearly the package's; where it is missing it is made."""
        path = locate_level(METHODS["w8"], *copied)
        made = path.read_bytes()
        path.unlink()
        records = []
        for more in ((), ("--runtime", "torch")):
            assert self.run(copied, "--clips", "1", *more) == 3
            captured = capsys.readouterr()
            records.append(parsed(Path(json.loads(captured.out.splitlines()[-1])["file"])))
        assert f"{path} does not exist: making it" in captured.err
        assert path.read_bytes() == made
        package, file = (record["clips"][0]["figures"] for record in records)
        assert records[1]["provenance"]["package"] == path.name
        assert records[1]["provenance"]["precision"].startswith("torch-")
        assert file["mcd_db"] == pytest.approx(package["mcd_db"], abs=0.03)
        assert file["mcd_db"] != package["mcd_db"]

    @pytest.mark.parametrize("channels", [5, None])
    def test_a_broken_level_is_rejected_before_it_is_converted(
        self,
        channels,
        copied,
        one_clip,
        monkeypatch,
        capsys,
    ):
        """Five scales a tenth too large, every clip perfect; integers that a shift has left three
        bits, by the sound of one clip.
        """
        method = METHODS["w8"]
        made = load_or_make_level(method, *copied)
        forms = [form for form in made.forms.values() if isinstance(form, Integers)]
        if channels:
            forms[0].scale[:channels] *= 1.1
            monkeypatch.setattr(execution, "judge_clip", measured_as(None))
        else:
            for form in forms:
                form.values[:] = form.values // 32 * 32
        level.save_level(made, locate_level(method, *copied), copied[0])
        assert self.run(copied, "--runtime", "torch") == 1
        data = printed(capsys)
        assert data["verdict"] == "REJECT"
        reason = "another scale than the parent's" if channels else "pesq worst is"
        assert reason in data["reasons"][0]

    def test_all_clips_decide(
        self,
        copied,
        monkeypatch,
        capsys,
    ):
        """Clips are measured as perfect, and then as silent; what ships ends with 0, whosever
        weights it has.
        """
        monkeypatch.setattr(execution, "judge_clip", measured_as(None))
        assert self.run(copied) == 0
        lines = capsys.readouterr().out.splitlines()
        assert json.loads(lines[-1])["verdict"] == "SHIP"
        assert lines[0].startswith("SHIP  padded-w8, clips: 48")
        assert "the gates hold, but not releasable: " in lines[1]
        assert lines[2].startswith("tightest gate: ")
        assert next(line for line in lines if line.startswith("metric")).split()[-2:] == [
            "pass",
            "limit",
        ]
        assert next(line for line in lines if line.startswith("PESQ wide band")).count("yes") == 1
        shutil.rmtree(copied[1] / "release" / "cache")  # what was measured is not measured again
        monkeypatch.setattr(execution, "judge_clip", measured_as("is silent"))
        assert self.run(copied) == 1
        data = printed(capsys)
        assert data["verdict"] == "REJECT"
        assert "the package's output is silent" in data["reasons"][0]

    def test_five_wrong_scales_are_found_without_ears(
        self,
        copied,
        monkeypatch,
        capsys,
    ):
        """The scales of five channels a tenth too large in the file itself, the manifest sealed
        again, every clip perfect.
        """
        parent = manifest_of(copied, "fp16").package_path
        for name in COMPRESSED:
            assert (
                find_wrong_scales(
                    read_layer_pairs(parent, manifest_of(copied, name).package_path),
                    METHODS[name].balances,
                )
                == ()
            ), name
        manifest = manifest_of(copied, "w8")
        places = [
            stored.places
            for stored in open_program(manifest.package_path).storage.weights.values()
            if stored.kind == "linear int8"
        ]
        # weights, scales of two bytes, zero points of one
        offset = sorted(places[0], key=lambda place: place[2])[-2][1]
        blob = manifest.package_path / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
        data = bytearray(blob.read_bytes())
        # of the values, behind their header
        start = int.from_bytes(data[offset + 16 : offset + 24], "little")
        scales = np.frombuffer(data, np.float16, count=5, offset=start) * np.float16(1.1)
        data[start : start + scales.nbytes] = scales.tobytes()
        blob.write_bytes(data)
        dataclasses.replace(manifest, **describe_package(manifest.package_path)).save(manifest.path)
        monkeypatch.setattr(execution, "judge_clip", measured_as(None))
        assert self.run(copied) == 1
        data = printed(capsys)
        assert data["verdict"] == "REJECT"
        assert "5 of" in data["reasons"][0]
        assert "another scale than the parent's" in data["reasons"][0]

    def test_what_is_missing_is_built_first(
        self,
        built,
        tmp_path,
        monkeypatch,
        capsys,
    ):
        """w8 where nothing is built: its parent, then itself; then it is judged."""
        commands = []

        def build(options):
            commands.append(options.command.split()[1])
            manifest = manifest_of(built, "w8" if commands[-1] == "quantize" else "fp16")
            shutil.copytree(manifest.package_path, tmp_path / manifest.package)
            shutil.copy(manifest.path, tmp_path)

        for name in ("build_stage", "quantize_stage"):
            monkeypatch.setattr(f"kokoro_ane.pipeline.package_builds.{name}", build)
        monkeypatch.setattr(execution, "judge_clip", measured_as(None))
        assert self.run((built[0], tmp_path)) == 0
        assert commands == ["build", "quantize"]
        captured = capsys.readouterr()
        assert json.loads(captured.out.splitlines()[-1])["verdict"] == "SHIP"
        assert "KokoroVocoder-tiny-padded-w8 is not built yet: building it\n" in captured.err
        assert "kokoro-ane" not in captured.err

    def test_a_layout_is_built_under_its_name(self):
        fp16, w8a8 = (
            PackageRequest(open_checkpoint(str(DEMO_VOICE)), Path("a b"), level, "streaming-poly")
            for level in ("fp16", "w8a8")
        )
        common = f"--without-sine --checkpoint {shlex.quote(str(DEMO_VOICE))}"
        assert fp16.command(fp16.vocoder) == f"kokoro-ane build vocoder {common} --out 'a b'"
        assert (
            w8a8.command(w8a8.vocoder)
            == f"kokoro-ane quantize --method w8a8 {common} --build 'a b'"
        )

    def test_another_checkpoint(self, copied, tmp_path, capsys):
        other = Checkpoint.from_folder(
            write_checkpoint(tmp_path / "other", small_config(), seed=1, encoder=True)
        )
        assert self.run((other, copied[1])) == 2
        assert "was built from checkpoint" in capsys.readouterr().err


def measured_as(defect):  # A judge_clip that finds every clip perfect, or without audio
    perfect = {name: metric.perfect for name, metric in METRICS_JUDGED.items()}

    def judge_clip(_truth, _subject, utterance, **_):
        return ClipResult(
            utterance.id,
            utterance.voice,
            5.0,
            utterance.text,
            {} if defect else perfect,
            perfect,
            defect,
        )

    return judge_clip
