"""The package: structure, equality with PyTorch, the bundled weights and their manifest, bad input; a tiny random model throughout."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.builder import all_held, build
from kokoro_ane.core.errors import EXIT_BAD_INPUT, EXIT_GOOD, CheckFailed, InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.g2p.alphabet import encode
from kokoro_ane.g2p.g2p_stage import IDS, SHAPES, G2PStage, check_words, matrix_count, package_run, shape_for
from kokoro_ane.g2p.network import LetterToSound, load_model, quantized, save_weights, torch_run
from kokoro_ane.g2p.neural import Config, NeuralG2P
from kokoro_ane.pipeline.build import main
from mlprogram import Program

TINY = Config(width=16, heads=2, inner=24, blocks=2, answers=(1,))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model as the repository keeps one."""
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("weights") / "tiny.npz"
    save_weights(LetterToSound(TINY), path, {"seed": 1, "steps": 0})
    return path


@pytest.fixture(scope="module")
def model(weights: Path) -> LetterToSound:
    return load_model(weights)


@pytest.fixture(scope="module")
def package(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    (manifest,) = build(G2PStage(weights), tmp_path_factory.mktemp("build"))
    return Program(manifest.package_path)


def test_the_8_bit_package_answers_as_pytorch_does(package: Program, model: LetterToSound) -> None:
    words = [word for word in check_words(seed=5) if len(word) < 20]
    pair = [NeuralG2P(run=run).predict(words) for run in (package_run(package), torch_run(model))]
    assert [guess.phonemes for guess in pair[0]] == [guess.phonemes for guess in pair[1]]
    assert np.allclose([guess.confidence for guess in pair[0]], [guess.confidence for guess in pair[1]], rtol=1e-4, atol=0)


def test_structure(package: Program, weights: Path) -> None:
    facts = G2PStage(weights).facts("main", package)
    assert facts.int8_weights == matrix_count(TINY) and facts.fp16_operations == 0
    assert "reshape" not in facts.operations and "shape" not in facts.operations
    assert not facts.promises("fp32", 3)["15 enumerated shapes for 3 lengths"]
    with pytest.raises(CheckFailed, match="weights in int8"):
        G2PStage(weights, "fp16").facts("main", package)


def test_another_model_is_rejected(package: Program, tmp_path: Path) -> None:
    torch.manual_seed(2)
    save_weights(LetterToSound(TINY), tmp_path / "other.npz", {"seed": 2, "steps": 0})
    with pytest.raises(CheckFailed, match="largest difference of a logit"):
        all_held(G2PStage(tmp_path / "other.npz").figures({"main": package}))


def test_fp16_is_close_and_has_no_int8(weights: Path, tmp_path: Path) -> None:
    (manifest,) = build(G2PStage(weights, "fp16"), tmp_path)
    structure = manifest.checks["structure"]["main"]
    assert structure["int8_weights"] == 0 and structure["fp16_operations"] > 50


def test_words_are_padded_to_the_nearest_shape(package: Program, model: LetterToSound) -> None:
    assert shape_for(1, 3, SHAPES) == (1, 8)
    assert shape_for(2, 9, SHAPES) == (8, 12)
    assert shape_for(9, 32, SHAPES) == (64, 32)
    with pytest.raises(InputError, match="at most"):
        shape_for(65, 8, SHAPES)
    ids = np.array([encode("kokoro"), encode("banana"), encode("tomato")], dtype=np.int32)
    assert np.abs(package_run(package)(ids) - torch_run(model)(ids)).max() < 1e-5
    assert set(map(tuple, package.inputs[IDS].shapes)) == set(SHAPES)


def test_command(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["g2p", "--weights", str(weights), "--out", str(tmp_path)]) == EXIT_GOOD
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    manifest = Manifest.load(Path(last["manifests"][0]))
    manifest.verify()
    assert (manifest.stage, manifest.package, manifest.method) == ("G2P", "G2P.mlpackage", "w8")
    assert manifest.compute_units["default"] == "CPU_ONLY"
    assert manifest.inputs[IDS]["letters"]["a"] == encode("a")[1] and manifest.inputs[IDS]["first"]["us_gold"] == encode("a")[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["G2P.json", "G2P.mlpackage"]


@pytest.mark.parametrize(("flags", "message"), [(["--weights", "x.pth"], "a .npz file"), (["--weights", "no/x.npz"], "does not exist")])
def test_bad_input_is_one_line(flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["g2p", *flags, "--out", str(tmp_path)]) == EXIT_BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_quantized_rows_reach_127_and_come_back_to_the_same_grid() -> None:
    matrix = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
    matrix[3] = 0
    values, scale = quantized(matrix)
    assert values.dtype == np.int8 and np.abs(values).max(axis=1).tolist() == [127, 127, 127, 0, 127, 127]
    assert np.abs(values * scale - matrix).max() <= scale.max() / 2 * 1.001
    again, _ = quantized(values * scale)
    assert np.array_equal(again, values)


def _copied(weights: Path, folder: Path) -> Path:
    for suffix in (".npz", ".json"):
        (folder / f"tiny{suffix}").write_bytes(weights.with_suffix(suffix).read_bytes())
    return folder / "tiny.npz"


def test_weights_are_reproducible_and_checked(weights: Path, model: LetterToSound, tmp_path: Path) -> None:
    path = _copied(weights, tmp_path)
    save_weights(model, path, {"seed": 1, "steps": 0})
    assert path.read_bytes() == weights.read_bytes()  # the grid is kept, and so are the bytes
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(InputError, match="its manifest says"):
        load_model(path)
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda manifest: {}, "not a manifest"),
        (lambda manifest: manifest | {"config": manifest["config"] | {"width": 32}}, "does not hold the model"),
        (lambda manifest: manifest | {"config": manifest["config"] | {"depth": 1}}, "does not hold the model"),
    ],
)
def test_a_manifest_of_another_model(change: "object", message: str, weights: Path, tmp_path: Path) -> None:
    path = _copied(weights, tmp_path)
    manifest = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(change(manifest)))  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        load_model(path)
