"""What the other commands make of ONNX Runtime's files: validate, the parity table, quality, bundle, and the level w8."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.quantize.genuine import require_genuine
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.registry import open_runtime
from tests.test_runtimes_portable import onnx_files, spoken

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def build(tiny_checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_files(tiny_checkpoint, tmp_path_factory)


def test_validate_compares_the_runtime_with_upstream(tiny_checkpoint: Checkpoint, build: Path, capsys: pytest.CaptureFixture) -> None:
    from kokoro_ane.pipeline.validate import main as validate

    flags = ["--phonemes", "abt de, fɡh.", "--checkpoint", str(tiny_checkpoint.folder), "--runtime", "onnx", "--build", str(build)]
    assert validate(flags) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["first_bad"] == {"torch": None, "onnx": None}
    found = {row["name"]: row for row in report["intermediates"]["onnx"]}
    assert {found[name]["verdict"] for name in ("durations", "text", "f0_hz", "energy", "asr")} == {
        "good"
    }  # upstream has no narrow decoder


def test_parity_table_of_a_runtime(tiny_checkpoint: Checkpoint, build: Path) -> None:
    """Rows beside PyTorch; a row whose durations differ, or that is far away, is not good."""
    from bench.runtime_rows import Row, parity, said
    from bench.runtimes import BEGIN, END, good, placed

    sentences = said(tiny_checkpoint, ["Hello there.", "It is late."], tiny_checkpoint.voices[:2])
    row = Row.parse("onnx")
    figures = parity(row, tiny_checkpoint, build, sentences, frozenset({"words"}))
    figures |= {"runtime": "onnx", "level": row.level, "layout": row.layout}
    assert figures["wer"] > 0.5  # random weights say nothing
    assert figures["durations_changed"] == 0 and figures["not_finite"] == 0 and figures["vocoder_db"] >= 100 and figures["bytes"] > 0
    figures |= {"duration_db": 120.0, "prosody_db": 110.0, "voices": 2, "checkpoint": "tiny"}
    assert good(figures)
    assert (
        not good(figures | {"durations_changed": 1}) and not good(figures | {"vocoder_db": 99.0}) and not good(figures | {"not_finite": 1})
    )
    page = placed(f"before\n{BEGIN}\nold\n{END}\nafter", [figures])
    assert page.startswith("before\n") and page.endswith("\nafter") and "old" not in page
    assert "| onnx | fp32 |" in page and f"| {100 * figures['wer']:.1f} |" in page
    with pytest.raises(InputError, match="unknown runtime 'onyx'"):
        Row.parse("onyx:fp32")


def test_quality_judges_what_onnx_runtime_renders(tiny_checkpoint: Checkpoint, build: Path) -> None:
    """Its vocoder alone, opened from the manifest; figures of another version or precision have another name."""
    from kokoro_ane.eval.execution import arithmetic, opened
    from kokoro_ane.quantize.speech import check_speech
    from kokoro_ane.runtimes.registry import judged_manifest
    from kokoro_ane.vocoder.decoder import Vocoder
    from kokoro_ane.vocoder.render import render_reference

    method, manifest = judged_manifest("onnx", "fp32", "padded", tiny_checkpoint, None, build)
    speech = check_speech(tiny_checkpoint, 40)
    how = arithmetic("onnx", "declared")
    assert method.name == "fp32" and how.startswith("onnx-1.") and arithmetic("mlprogram", "ane_numerics") == "ane_numerics"
    assert snr_db(render_reference(Vocoder.of(tiny_checkpoint), speech), opened(manifest.path, how).render(speech)) >= 100
    with pytest.raises(InputError, match="--precision ane_numerics is of the executed packages"):
        arithmetic("onnx", "ane_numerics")
    with pytest.raises(InputError, match="--runtime torch is what levels are judged against"):
        judged_manifest("torch", "fp32", "padded", tiny_checkpoint, None, build)


def test_figures_of_a_runtime_are_named_by_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution that holds its module: apache-tvm is imported as tvm."""
    from kokoro_ane.eval import execution

    monkeypatch.setattr(execution, "packages_distributions", lambda: {"tvm": ["apache-tvm"]})
    monkeypatch.setattr(execution, "version", {"apache-tvm": "0.27", "onnxruntime": "1.31"}.__getitem__)
    assert execution.arithmetic("tvm", "declared").startswith("tvm-0.27-")
    assert execution.arithmetic("onnx", "declared").startswith("onnx-1.31-")


def test_quality_builds_the_file_that_it_lacks(tiny_checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kokoro_ane.runtimes.registry import judged_manifest

    source = str(tiny_checkpoint.folder)
    _, manifest = judged_manifest("onnx", "w8", "padded", tiny_checkpoint, source, tmp_path)
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[6] for line in told] == ["build", "quantize"] and manifest.method == "w8"
    (tmp_path / "KokoroVocoder-tiny-onnx-w8.onnx").write_bytes(b"another")
    with pytest.raises(InputError, match="has hash"):  # never built over
        judged_manifest("onnx", "w8", "padded", tiny_checkpoint, source, tmp_path)


def test_facts_of_a_file_are_its_own(tiny_checkpoint: Checkpoint, build: Path) -> None:
    from kokoro_ane.eval.levels import facts_of

    manifest = Manifest.load(build / "KokoroVocoder-tiny-onnx-fp32.json")
    facts = facts_of(manifest.package_path, 80)
    facts.require_told(manifest)
    assert facts.int8_macs_share == 0 and facts.operations["Conv"] > 10 and facts.stored_bytes["float"] > 0.9 * facts.bytes / 2
    with pytest.raises(InputError, match="says package_bytes"):
        facts.require_told(dataclasses.replace(manifest, package_bytes=manifest.package_bytes + 1))


def test_bundle_of_onnx_files(tiny_checkpoint: Checkpoint, build: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from kokoro_ane.pipeline.bundle import main as bundle

    out = tmp_path / "tiny-onnx"
    assert bundle(["--runtime", "onnx", "--checkpoint", str(tiny_checkpoint.folder), "--build", str(build), "--out", str(out)]) == 3
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["tensors"] > 40
    assert len(list((out / "packages").glob("*.onnx"))) == 3
    assert "Kokoro text-to-speech for ONNX Runtime: tiny, fp32" in (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    manifest = out / "packages" / "KokoroVocoder-tiny-onnx-fp32.onnx"
    manifest.write_bytes(manifest.read_bytes()[:-1] + b"\0\0")
    assert bundle(["--verify", str(out)]) == 2 and "was changed after the bundle was written" in capsys.readouterr().err
    assert bundle(["--runtime", "torch", "--checkpoint", str(tiny_checkpoint.folder), "--out", str(tmp_path / "tiny-t")]) == 2
    assert "--runtime torch has no files: it reads the checkpoint" in capsys.readouterr().err


def test_w8_keeps_the_audio_and_a_quarter_of_the_weights(tiny_checkpoint: Checkpoint, build: Path, tmp_path: Path) -> None:
    """Every Snake's convolution is known by name; the small file is opened, judged and refused as the large one is."""
    import onnx

    from kokoro_ane.eval.levels import facts_of
    from kokoro_ane.pipeline.apply import main as quantize
    from kokoro_ane.runtimes.onnx.onnx_levels import alphas
    from kokoro_ane.vocoder.decoder import Vocoder

    copy = Path(shutil.copytree(build, tmp_path / "build"))
    names = {tensor.name for tensor in onnx.load(copy / "KokoroVocoder-tiny-onnx-fp32.onnx").graph.initializer}
    assert set(alphas(Vocoder.of(tiny_checkpoint))) <= names
    flags = ["--method", "w8", "--runtime", "onnx", "--checkpoint", str(tiny_checkpoint.folder), "--build", str(copy)]
    assert quantize(flags) == 0
    require_genuine(Manifest.load(copy / "KokoroVocoder-tiny-onnx-w8.json"), "w8", tiny_checkpoint)
    facts = facts_of(copy / "KokoroVocoder-tiny-onnx-w8.onnx", 80)
    assert facts.stored_bytes["int8"] > facts.stored_bytes["float"] / 4 and facts.int8_macs_share == 0
    reference = spoken(tiny_checkpoint, copy, "onnx", "abt de, fɡh.")
    small = open_runtime("onnx", Request(tiny_checkpoint, copy, "w8")).vocoder
    waveform = small.run(reference["features"], reference["style"], reference["asr"].shape[-1])
    assert 20 < snr_db(reference["waveform"], waveform) < 80
    (copy / "KokoroVocoder-tiny-onnx-w8.json").unlink()
    with pytest.raises(InputError, match="run `kokoro-ane quantize --method w8 .*--runtime onnx`"):
        open_runtime("onnx", Request(tiny_checkpoint, copy, "w8"))
    assert quantize([*flags[:1], "p6", *flags[2:]]) == 2


def test_w8a8_multiplies_integers_and_says_so(tiny_checkpoint: Checkpoint, build: Path, tmp_path: Path) -> None:
    """Built, opened and described like the others; the chain speaks with it."""
    import onnx

    from kokoro_ane.eval.levels import facts_of
    from kokoro_ane.pipeline.apply import main as quantize
    from kokoro_ane.runtimes.onnx.onnx_file import INTEGERS, are_exact

    copy = Path(shutil.copytree(build, tmp_path / "build"))
    flags = ["--method", "w8a8", "--runtime", "onnx", "--checkpoint", str(tiny_checkpoint.folder), "--build", str(copy)]
    assert quantize(flags) == (0 if are_exact() else 2)
    if not are_exact():
        pytest.skip("refused: ONNX Runtime loses bits of integer sums on this processor")
    manifest = Manifest.load(copy / "KokoroVocoder-tiny-onnx-w8a8.json")
    require_genuine(manifest, "w8a8", tiny_checkpoint)
    for name in ("w8", "fp32"):
        with pytest.raises(InputError, match=f"which is not {name}: renamed"):
            require_genuine(dataclasses.replace(manifest, method=name), name, tiny_checkpoint)
    facts = facts_of(manifest.package_path, 80)
    facts.require_told(manifest)
    assert facts.int8_macs_share > 0.5 and facts.operations["ConvInteger"] == manifest.compression["int8_inputs"] > 20
    assert {entry.key for entry in onnx.load(manifest.package_path).metadata_props} == {INTEGERS}
    reference = spoken(tiny_checkpoint, copy, "onnx", "abt de, fɡh.")
    whole = open_runtime("onnx", Request(tiny_checkpoint, copy, "w8a8")).vocoder
    waveform = whole.run(reference["features"], reference["style"], reference["asr"].shape[-1])
    assert 10 < snr_db(reference["waveform"], waveform) < 60
    assert quantize([*flags, "--set", "float_inputs=generator.*"]) == 0
    assert facts_of(manifest.package_path, 80).int8_macs_share < facts.int8_macs_share / 2


def test_a_row_of_channels_that_snake_divided_is_quantized_without_it(tiny_checkpoint: Checkpoint, build: Path) -> None:
    import onnx
    from onnx import numpy_helper

    from kokoro_ane.quantize.methods import LinearWeights
    from kokoro_ane.runtimes.onnx.onnx_levels import compress

    model = onnx.load(build / "KokoroVocoder-tiny-onnx-fp32.onnx")
    node = next(node for node in model.graph.node if node.op_type == "Conv" and "stages" in node.name)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == node.input[1])
    alpha = np.geomspace(0.01, 100, tensor.dims[1], dtype=np.float32).reshape(1, -1, 1, 1)
    plain = numpy_helper.to_array(tensor) * 1.0
    tensor.CopyFrom(numpy_helper.from_array(plain / alpha, tensor.name))

    def kept(folded: dict[str, np.ndarray]) -> float:
        copied = onnx.ModelProto()
        copied.CopyFrom(model)
        compress(copied, LinearWeights(keep_up_to=0), folded)
        found = {entry.name: numpy_helper.to_array(entry) for entry in copied.graph.initializer if entry.name.startswith(tensor.name)}
        scale = found[f"{tensor.name}_scale"].reshape(-1, 1, 1, 1)
        weight = found[f"{tensor.name}_int8"] * scale * found.get(f"{tensor.name}_inverse", 1.0)
        return snr_db(plain, weight * alpha)

    assert kept({tensor.name: alpha}) > 40 > kept({})
