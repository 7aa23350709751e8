"""The tail on the host: NumPy says what the generator's tail says, in both layouts; packages that end before conv_post, end to end."""

import base64
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.commands import layout_argument
from kokoro_ane.core.contract import LAYOUTS, TRUNK, WAVEFORM, with_host_tail
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.pipeline.apply import main as compress
from kokoro_ane.pipeline.build import main as build_stage
from kokoro_ane.pipeline.speak import main as speak
from kokoro_ane.quantize.locator import Request
from kokoro_ane.quantize.speech import check_speech
from kokoro_ane.runtimes.registry import open_runtime
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.host_tail import HostTail
from kokoro_ane.vocoder.layouts import PaddedLayout, TiledLayout, layout_named
from kokoro_ane.vocoder.render import VocoderPackage, render_reference
from kokoro_ane.vocoder.vocoder_stage import VocoderFacts
from mlprogram import Program
from tests.builds import once


@pytest.fixture(scope="module")
def build(tiny_checkpoint: Checkpoint, tiny_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both encoders and vocoders, and the vocoder with a host tail."""

    def make(out: Path) -> None:
        shutil.copytree(tiny_build, out, dirs_exist_ok=True)
        flags = ["vocoder", "--tail", "host", "--checkpoint", str(tiny_checkpoint.folder), "--out", str(out), "--buckets", "40,160,640"]
        assert build_stage(flags) == 0

    return once(tmp_path_factory, ["host tail", tiny_checkpoint.sha256], make)


def test_numpy_is_the_generators_tail(tiny_checkpoint: Checkpoint) -> None:
    vocoder = Vocoder.of(tiny_checkpoint)
    channels = vocoder.generator.conv_post.in_channels
    trunk = torch.randn(1, channels, 1, 2401, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = vocoder.generator.stft(vocoder.generator.conv_post(trunk), None).flatten().numpy()
    assert snr_db(wanted, HostTail.of(vocoder)(trunk[0, :, 0].numpy())) >= 115


def test_the_manifests_words_give_the_same_tail(tiny_checkpoint: Checkpoint) -> None:
    tail = HostTail.of(Vocoder.of(tiny_checkpoint))
    found = HostTail.recorded(json.loads(json.dumps(tail.described())))
    assert np.array_equal(found.weight, tail.weight) and np.array_equal(found.bias, tail.bias)


@pytest.mark.parametrize("chips", [None, ("m3",)])
def test_both_layouts_end_before_conv_post(chips: tuple[str, ...] | None) -> None:
    """The demo voice's widths, in exact arithmetic: the whole layout and the one with a host tail say the same."""
    from kokoro_ane.core.checkpoint import open_checkpoint

    checkpoint = open_checkpoint("demo")
    vocoder, whole = Vocoder.of(checkpoint), PaddedLayout() if chips is None else TiledLayout.of(chips)
    speech = check_speech(checkpoint, 140)
    bucket = next(length for length in whole.lengths(checkpoint.config, None) if whole.holds(140, length))
    for layout in (whole, replace(whole, host_tail=True).with_tail_of(vocoder)):
        module = layout.module(vocoder, checkpoint.config.hidden_dim).eval()
        with torch.no_grad():
            out = module(layout.pack(speech, bucket, half=False), speech.style[:, :, None, None])
        assert snr_db(render_reference(vocoder, speech), layout.join(out, 140, bucket).numpy()) >= 105, layout.name


def test_the_package_has_no_fp32_and_gives_the_trunk(build: Path) -> None:
    manifest = Manifest.load(build / "KokoroVocoder-tiny-host-fp16.json")
    program = Program(manifest.package_path)
    facts = VocoderFacts.of(program)
    assert list(program.outputs) == list(manifest.outputs) == [TRUNK] and manifest.outputs[TRUNK]["dtype"] == "float16"
    assert facts.tail_operations == 0 and facts.fp32_outside_tail == () and "exp" not in facts.operations
    whole = VocoderFacts.of(Program(build / "KokoroVocoder-tiny-fp16.mlpackage"))
    assert whole.tail_operations > 0


def test_host_tail_against_the_tail_in_the_package(build: Path, tiny_checkpoint: Checkpoint) -> None:
    speech = check_speech(tiny_checkpoint, 37)
    one, other = (VocoderPackage(build / f"KokoroVocoder-tiny-{level}.json").render(speech) for level in ("fp16", "host-fp16"))
    assert snr_db(one, other) >= 60


def test_speaks_and_is_compressed_like_any_layout(build: Path, tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    import soundfile

    copy = Path(shutil.copytree(build, tmp_path / "build"))
    place = ["--checkpoint", str(tiny_checkpoint.folder), "--build", str(copy)]
    assert compress(["--method", "w8", "--tail", "host", *place]) == 0
    said = {}
    for name, more in {"package": [], "host": ["--tail", "host"], "w8": ["--tail", "host", "--method", "w8"]}.items():
        out = tmp_path / f"{name}.wav"
        assert speak(["abt de, fɡh.", "--phonemes", "-o", str(out), "--runtime", "mlprogram", *place, *more]) == 0
        said[name] = soundfile.read(out)[0]
    assert snr_db(said["package"], said["host"]) >= 40 and not np.array_equal(said["host"], said["w8"])


def test_layout_and_tail_in_any_order() -> None:
    import argparse

    parser = argparse.ArgumentParser()
    layout_argument(parser)
    for flags, wanted in (
        ([], "padded"), (["--tail", "host"], "host"), (["--tail", "host", "--layout", "tiled"], "tiled-host"),
        (["--layout", "tiled-poly", "--tail", "host"], "tiled-poly-host"), (["--layout", "tiled-host"], "tiled-host"),
    ):  # fmt: skip
        assert parser.parse_args(flags).layout == wanted
    assert {layout_named(name).name for name in ("padded", "host")} == {"padded", "host"}
    assert {with_host_tail(layout) for layout in LAYOUTS} < set(LAYOUTS)


def test_a_package_without_the_tails_weights_is_refused(build: Path, tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(build, tmp_path / "build"))
    path = copy / "KokoroVocoder-tiny-host-fp16.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    data["outputs"] = {WAVEFORM: data["outputs"][TRUNK]}
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError, match="does not describe such a package"):
        open_runtime("mlprogram", Request(tiny_checkpoint, copy, layout="host"))


def test_vectors_and_bundle_know_it(build: Path, tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    """Every step replays from the bundle, the vocoder's with the tail of the manifest."""
    from kokoro_ane.pipeline.bundle import main as bundle

    place = ["--checkpoint", str(tiny_checkpoint.folder), "--build", str(build)]
    out = tmp_path / "bundle-tiny"
    assert bundle(["--tail", "host", *place, "--out", str(out)]) == 3
    assert bundle(["--verify", str(out), "--checkpoint", str(tiny_checkpoint.folder)]) == 0
    assert (out / "packages" / "KokoroVocoder-tiny-host-fp16.mlpackage").is_dir()


@pytest.mark.parametrize(("part", "command"), [("weight", "quality"), ("bias", "bundle")])
def test_a_tail_of_another_checkpoint_is_refused(
    part: str, command: str, build: Path, tiny_checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    from kokoro_ane.eval.quality import main as quality
    from kokoro_ane.pipeline.bundle import main as bundle

    copy = Path(shutil.copytree(build, tmp_path / "build"))
    path = copy / "KokoroVocoder-tiny-host-fp16.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    tail = data["outputs"][TRUNK]["tail"]
    tail[part] = base64.b64encode(bytes(len(base64.b64decode(tail[part])))).decode()
    path.write_text(json.dumps(data), encoding="utf-8")
    place = ["--tail", "host", "--method", "fp16", "--checkpoint", str(tiny_checkpoint.folder), "--build", str(copy)]
    judged = command == "quality"
    assert (quality([*place, "--workers", "1"]) if judged else bundle([*place, "--out", str(tmp_path / "bundle-tiny")])) == 2
    assert "the tail's weights are not those of" in capsys.readouterr().err
