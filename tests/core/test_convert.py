"""Builds as a user types them, vocoder and g2p: a checked package, its manifest last, reproducible
bytes, nothing left after a failure.
"""

import json
import re
import resource
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_ane.core.builder import BUILD_KEY, all_held
from kokoro_ane.core.builder import build_packages as build
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.contract import FEATURES, STYLE
from kokoro_ane.core.errors import EXIT_GOOD, CheckFailed
from kokoro_ane.core.manifest import Manifest, hash_package
from kokoro_ane.core.package_notes import MEANINGS
from kokoro_ane.pipeline import g2p_stage
from kokoro_ane.pipeline.build import main
from kokoro_ane.pipeline.g2p_stage import (
    IDS,
    SHAPES,
    G2PStage,
    check_words,
    make_package_run,
)
from kokoro_ane.speech.speech import load_text_encoder, make_vocoder_inputs
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import cut_excerpt
from kokoro_ane.vocoder.render import VocoderPackage, render_reference
from kokoro_ane.vocoder.vocoder_stage import VocoderFacts
from kokoro_g2p.alphabet import encode
from kokoro_g2p.network import LetterToSound, quantize_rows, save_weights
from kokoro_g2p.neural import NeuralG2P
from mlprogram import MLModel, Program
from mlprogram.examine.describe import read_notes
from mlprogram.package import open_model
from tests import builds
from tests.builds import SMALLEST_G2P, left_behind
from tests.commands import parsed, printed, ran, refused, table
from tests.demo_voice import heldout

BUCKETS = "40,160,640"  # of the shared packages: tests/conftest.py
NAME = "KokoroVocoder-tiny-padded-fp16"
ALL_CHECKS = """
import contextlib, sys
from kokoro_ane import cli
from kokoro_ane.core import export, package_notes
export.reduce_self_checks = contextlib.nullcontext
commit, *arguments = sys.argv[1:]  # an earlier session's package is of an earlier one
package_notes.commit = lambda: commit
raise SystemExit(cli.main(arguments))
"""


@pytest.fixture(scope="module")
def speech(tiny_checkpoint):
    vocoder, text = Vocoder.from_checkpoint(tiny_checkpoint), load_text_encoder(tiny_checkpoint)
    return cut_excerpt(
        make_vocoder_inputs(tiny_checkpoint, vocoder, text, heldout()[0], seed=0),
        start=30,
        frames=26,
    )


class TestVocoder:
    def test_manifest_says_everything(self, tiny_build, tiny_checkpoint):
        manifest = Manifest.load(tiny_build / f"{NAME}.json")
        manifest.verify()
        assert manifest.checkpoint_sha256 == tiny_checkpoint.network_sha256
        assert manifest.buckets == (40, 160, 640)
        assert not manifest.releasable
        convolutions = [
            module
            for module in Vocoder.from_checkpoint(tiny_checkpoint).modules()
            if isinstance(module, torch.nn.Conv2d)
        ]
        assert manifest.operations["conv"] == len(convolutions) > 50
        assert len(manifest.source["weights"]) == 9
        names = [
            f"Kokoro{stage}-{precision}"
            for stage in ("Encoder-tiny", "Vocoder-tiny-padded")
            for precision in ("fp16", "fp32")
        ]
        assert left_behind(tiny_build) == sorted(
            f"{name}.{kind}" for name in names for kind in ("json", "mlpackage")
        )

    def test_program_facts(self, tiny_build):
        program = Program(tiny_build / f"{NAME}.mlpackage")
        facts = VocoderFacts.read(program)
        facts.require("fp16", buckets=3)
        assert facts.forbidden == {}
        assert facts.not_rank_4 == 0
        assert facts.fp32_outside_tail == ()
        assert facts.fp16_inside_tail == ()
        assert {shape[3] for shape in program.inputs[FEATURES].shapes} == {41, 161, 641}

    def test_xcode_is_told_what_it_is_and_what_every_tensor_means(self, tiny_build):
        for name in (NAME, "KokoroEncoder-tiny-fp16"):
            manifest = Manifest.load(tiny_build / f"{name}.json")
            for function in manifest.functions.values():
                said = read_notes(open_model(manifest.package_path).spec.description, function)
                assert said["description"].startswith("Kokoro's ")
                assert said["license"] == "that of checkpoint tiny"
                assert said["sample_rate_hz"] == "24000"
                assert said["level"] == "fp16"
                assert said["commit"]
                program = Program(manifest.package_path, function=function)
                for kind, tensors in (("input", program.inputs), ("output", program.outputs)):
                    for tensor in tensors:
                        assert tensor in MEANINGS
                        assert re.search(r": float(16|32) \[1|int32 \[1", said[f"{kind} {tensor}"])

    def test_tail_runs_in_fp32_and_trunk_in_fp16(self, tiny_build, speech):
        """Not what the file declares but what runs: only the tail's values are finer than fp16."""
        finer = set()

        def hook(_name, op_type, value):
            if value.is_floating_point() and not torch.equal(value.half().to(value.dtype), value):
                finer.add(op_type)

        package = VocoderPackage(tiny_build / f"{NAME}.json")
        arrays = {FEATURES: package.pack(speech), STYLE: speech.style[:, :, None, None]}
        package.program(arrays, hook=hook)
        assert {"exp", "cos"} <= finer
        assert not finer & {
            "leaky_relu",
            "reduce_mean",
            "rsqrt",
            "upsample_nearest_neighbor",
            "split",
        }

    def test_fp32_package_equals_pytorch(self, tiny_build, tiny_checkpoint, speech):
        package = VocoderPackage(
            tiny_build / "KokoroVocoder-tiny-padded-fp32.json", precision="exact"
        )
        assert (
            snr_db(
                render_reference(Vocoder.from_checkpoint(tiny_checkpoint), speech),
                package.render(speech),
            )
            >= 100
        )

    def test_another_process_with_all_checks_gives_the_same_bytes_and_ends_in_json(
        self, tiny_build, tiny_checkpoint, tmp_path
    ):
        """coremltools' checks of itself behind every pass, which `convert` leaves out, change
        nothing.
        """
        flags = f"--checkpoint {tiny_checkpoint.folder} --buckets {BUCKETS} --out {tmp_path}"
        commit = MLModel(str(tiny_build / f"{NAME}.mlpackage")).user_defined_metadata["commit"]
        command = ["-c", ALL_CHECKS, commit, *f"build vocoder {flags}".split()]
        done = ran(sys.executable, *command, env={"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"})
        assert done.returncode == 0
        report = json.loads(done.stdout.strip().splitlines()[-1])
        assert [Path(path) for path in report["manifests"]] == [tmp_path / f"{NAME}.json"]
        assert hash_package(tmp_path / f"{NAME}.mlpackage") == hash_package(
            tiny_build / f"{NAME}.mlpackage"
        )

    @table(
        "change is_current",
        """
        nothing | true
        --again | false
        other lengths | false
        other sources | false
        other libraries | false
        another package | false
        an older build | false
    """,
    )
    def test_what_is_current_is_not_built_again(
        self, change, is_current, tiny_build, tiny_checkpoint, tmp_path, monkeypatch, capsys
    ):
        def work(*_):
            raise CheckFailed("it went to work")

        monkeypatch.setattr("kokoro_ane.pipeline.package_builds.make_vocoder_stage", work)
        out = tmp_path / "build"
        shutil.copytree(tiny_build, out)
        weights, manifest = out / f"{NAME}.mlpackage", out / f"{NAME}.json"
        lengths = "40,160" if change == "other lengths" else BUCKETS
        more = ["--again"] if change == "--again" else []
        if change == "other sources":
            monkeypatch.setattr("kokoro_ane.core.source_sha256", lambda *_: "0" * 64)
        elif change == "other libraries":
            monkeypatch.setattr("kokoro_ane.core.tool_versions", lambda *_: {"torch": "1"})
        elif change == "another package":
            shutil.rmtree(weights)
            shutil.copytree(out / f"{NAME.replace('16', '32')}.mlpackage", weights)
        elif change == "an older build":
            manifest.write_text(manifest.read_text().replace(BUILD_KEY, "other"))
        flags = ["--checkpoint", str(tiny_checkpoint.folder), "--buckets", lengths, *more]
        code = main(["vocoder", *flags, "--out", str(out)])
        console = capsys.readouterr()
        if is_current:
            assert code == EXIT_GOOD
            assert f"{NAME}.mlpackage: built before, and current" in console.err
            assert json.loads(console.out.splitlines()[-1])["checks"]["figures"]
        else:
            assert code == 1
            assert "it went to work" in console.err


@pytest.fixture(scope="module")
def model(g2p_weights):
    return LetterToSound.load(g2p_weights)


@pytest.fixture(scope="module")
def package(g2p_weights, tmp_path_factory):
    (manifest,) = build(G2PStage(g2p_weights), tmp_path_factory.mktemp("build"))
    return Program(manifest.package_path)


class TestG2P:
    def test_the_8_bit_package_answers_as_pytorch_does(self, package, model):
        words = [word for word in check_words(seed=5) if len(word) < 20]
        pair = [NeuralG2P(run=run).predict(words) for run in (make_package_run(package), model.run)]
        assert [guess.phonemes for guess in pair[0]] == [guess.phonemes for guess in pair[1]]
        assert np.allclose(
            [guess.confidence for guess in pair[0]],
            [guess.confidence for guess in pair[1]],
            rtol=1e-4,
            atol=0,
        )

    def test_structure(self, package, g2p_weights):
        facts = G2PStage(g2p_weights).check_program("main", package)
        assert facts.int8_weights == 6 * SMALLEST_G2P.blocks + 2
        assert facts.fp16_operations == 0
        assert "reshape" not in facts.operations
        assert "shape" not in facts.operations
        assert not facts.promises("fp32", 3)["5 enumerated shapes for 3 lengths"]
        with pytest.raises(CheckFailed, match="weights in int8"):
            G2PStage(g2p_weights, "fp16").check_program("main", package)

    def test_another_model_is_rejected(self, package, tmp_path):
        torch.manual_seed(2)
        save_weights(LetterToSound(SMALLEST_G2P), tmp_path / "other.npz", {"seed": 2, "steps": 0})
        with pytest.raises(CheckFailed, match="largest difference of a logit"):
            all_held(G2PStage(tmp_path / "other.npz").measure_figures({"main": package}))

    def test_fp16_is_close_and_has_no_int8(self, g2p_weights, tmp_path):
        (manifest,) = build(G2PStage(g2p_weights, "fp16"), tmp_path)
        structure = manifest.checks["structure"]["main"]
        assert structure["int8_weights"] == 0
        assert structure["fp16_operations"] > 50

    def test_words_are_padded_to_the_nearest_shape(self, package, model):
        ids = np.array([encode("kokoro"), encode("banana"), encode("tomato")], dtype=np.int32)
        for words in (ids, np.tile(ids, (6, 1))):  # one call, and two
            assert np.abs(make_package_run(package)(words) - model.run(words)).max() < 1e-5
        refused("at most 32", make_package_run(package), np.ones((1, 34), np.int32))
        assert set(map(tuple, package.inputs[IDS].shapes)) == set(SHAPES)

    def test_command_and_a_failed_rebuild_leaves_the_old_package_whole(
        self, g2p_weights, tmp_path, monkeypatch, capsys
    ):
        flags = f"g2p --weights {g2p_weights} --out {tmp_path}".split()
        assert main(flags) == EXIT_GOOD
        last = printed(capsys)
        manifest = Manifest.load(Path(last["manifests"][0]))
        manifest.verify()
        assert (manifest.stage, manifest.package, manifest.method) == ("G2P", "G2P.mlpackage", "w8")
        assert manifest.compute_units["default"] == "CPU_ONLY"
        assert manifest.inputs[IDS]["letters"]["a"] == encode("a")[1]
        assert manifest.inputs[IDS]["first"]["us_gold"] == encode("a")[0]
        monkeypatch.setitem(g2p_stage.LIMIT_LOGITS, "w8", -1.0)
        assert main([*flags, "--again"]) == 1
        assert "limit <= -1" in capsys.readouterr().err
        assert left_behind(tmp_path) == ["G2P.json", "G2P.mlpackage"]
        manifest.verify()

    def test_full_disk_leaves_nothing(self, tmp_path, capsys):
        """A file-size limit stands for a disk that fills while the package, 1.6 MB, is written:
        room for what is tried before the work.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        try:
            assert main(["g2p", "--out", str(tmp_path / "out")]) == 2
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        error = capsys.readouterr().err
        assert "Traceback" not in error
        assert "error: cannot write" in error
        assert left_behind(tmp_path / "out") == []

    def test_quantized_rows_reach_127_and_come_back_to_the_same_grid(self):
        matrix = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
        matrix[3] = 0
        values, scale = quantize_rows(matrix)
        assert values.dtype == np.int8
        assert np.abs(values).max(axis=1).tolist() == [127, 127, 127, 0, 127, 127]
        assert np.abs(values * scale - matrix).max() <= scale.max() / 2 * 1.001
        again, _ = quantize_rows(values * scale)
        assert np.array_equal(again, values)


def _copied(g2p_weights, folder):
    for suffix in (".npz", ".json"):
        (folder / f"tiny{suffix}").write_bytes(g2p_weights.with_suffix(suffix).read_bytes())
    return folder / "tiny.npz"


def test_weights_are_reproducible_and_checked(g2p_weights, model, tmp_path):
    path = _copied(g2p_weights, tmp_path)
    save_weights(model, path, {"seed": 1, "steps": 0})
    assert path.read_bytes() == g2p_weights.read_bytes()  # the grid is kept, and so are the bytes
    path.write_bytes(path.read_bytes() + b"x")
    refused("its manifest says", LetterToSound.load, path)
    path.unlink()
    refused("does not exist", LetterToSound.load, path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: {}, "not a manifest"),
        (
            lambda manifest: manifest | {"config": manifest["config"] | {"width": 32}},
            "does not hold the model",
        ),
        (
            lambda manifest: manifest | {"config": manifest["config"] | {"depth": 1}},
            "does not hold the model",
        ),
    ],
)
def test_a_manifest_of_another_model(change, message, g2p_weights, tmp_path):
    path = _copied(g2p_weights, tmp_path)
    manifest = parsed(path.with_suffix(".json"))
    path.with_suffix(".json").write_text(json.dumps(change(manifest)))  # type: ignore[operator]
    refused(message, LetterToSound.load, path)


def test_what_a_session_made_is_taken_by_the_next_until_its_makers_change(tmp_path, monkeypatch):
    """The shared packages of these tests themselves: tests/builds.py."""
    calls = []

    def make(folder):
        calls.append(folder.name)
        (folder / "package").write_text("made")

    def session(name):
        base = tmp_path / name
        (base / "aside").mkdir(parents=True)
        return SimpleNamespace(getbasetemp=lambda: base, mktemp=lambda _: base / "aside")

    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr(builds, "KEPT", tmp_path / "kept")
    first = builds.once(session("first"), "key", make)
    # A session spoils its copy, not what the next one gets.
    (first / "package").write_text("spoilt")
    second = builds.once(session("second"), "key", make)
    assert (second / "package").read_text() == "made"
    assert len(calls) == 1
    builds.once(session("third"), "another key", make)
    monkeypatch.setattr(builds, "state_of", lambda _: "another source")
    builds.once(session("fourth"), "key", make)
    assert len(calls) == 3
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == sorted(calls)
