"""What a clip is judged with: encoded once, every seed's features its own; by the encoder package where one is executed, durations too."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import DEFAULT_BUCKETS, TUNING
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.eval import execution
from kokoro_ane.eval import reference as reference_module
from kokoro_ane.eval.execution import Execution, PackageFeatures
from kokoro_ane.eval.reference import OTHER_SEEDS, Reference
from kokoro_ane.quantize.corpus import Utterance, heldout
from kokoro_ane.quantize.locator import built_encoder
from kokoro_ane.quantize.speech import own_speech, text_encoder, vocoder_inputs
from kokoro_ane.vocoder.packing import VocoderInputs
from tests.signals import phrase_of


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(open_checkpoint("demo"), seed=5)


def same(one: VocoderInputs, two: VocoderInputs) -> bool:
    """Bit for bit."""
    return all(torch.equal(getattr(one, field.name), getattr(two, field.name)) for field in fields(VocoderInputs))


def alone(reference: Reference, clip: Utterance, other_seed: int) -> VocoderInputs:
    return vocoder_inputs(reference.checkpoint, reference.vocoder, text_encoder(reference.checkpoint), clip, reference.seed + other_seed)


def test_every_seed_has_the_features_of_its_own(reference: Reference) -> None:
    for clip in heldout()[:2]:
        for other_seed in range(OTHER_SEEDS + 1):
            assert same(reference.inputs(clip, other_seed), alone(reference, clip, other_seed))
            vowel, pitch_hz = reference.vowel_inputs(clip, other_seed)
            by_itself = Reference(reference.checkpoint, reference.seed + other_seed).vowel_inputs(clip)
            assert same(vowel, by_itself[0]) and pitch_hz == by_itself[1]
    assert not same(reference.inputs(clip, 1), reference.inputs(clip, 2))


def test_a_clip_is_encoded_once(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another clip of the same name is another clip."""
    asked: list[str] = []

    def counted(*given: object) -> VocoderInputs:
        asked.append(given[3].id)
        return vocoder_inputs(*given)

    monkeypatch.setattr(reference_module, "vocoder_inputs", counted)
    phrase = phrase_of(heldout()[2])
    reference.of(phrase)
    reference.inputs(phrase)
    assert asked == [phrase.id]
    reference.inputs(replace(phrase, voice="rms"))
    assert len(asked) == 2


class InPyTorch:
    """In the package's place: the same network, so that what comes out is the reference's own."""

    def __init__(self, *_: object) -> None:
        checkpoint = open_checkpoint("demo")
        limits = AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1])
        self.backend = EncoderBackend(torch_functions(Encoder.of(checkpoint)), limits)


def test_features_are_the_encoder_s(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    clip = min(own_speech(reference.checkpoint, TUNING), key=lambda clip: clip.frames)
    said = reference.inputs(clip)
    monkeypatch.setattr(execution, "EncoderPackage", InPyTorch)
    features = PackageFeatures(Execution("declared", (Path("encoder.json"),), "declared-x"), reference)
    found = features.of(
        replace(clip, f0_hz=np.zeros_like(clip.f0_hz), energy=np.zeros_like(clip.energy))
    )  # nothing of the clip's own is taken
    for name in ("asr", "f0_hz", "energy", "style", "spectrum"):
        assert torch.allclose(getattr(found, name), getattr(said, name), atol=1e-3), name
    assert features.of(replace(clip, speed=clip.speed / 2)).frames > said.frames  # the encoder finds the durations


def test_figures_are_kept_by_the_package_s_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Manifest, "load", classmethod(lambda _cls, path: type("M", (), {"package_sha256": path.stem * 40})))
    one, other = (Execution.of("declared", (Path(f"{stem}.json"),)) for stem in ("a", "b"))
    assert Execution.of("declared").name == "declared" and Execution.of("declared").features == "PyTorch fp32"
    assert one.name == "declared-" + "a" * 16 != other.name and one.features == "a"


def test_an_encoder_that_is_not_built_names_the_command(reference: Reference, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist: run `kokoro-ane build encoder"):
        built_encoder(reference.checkpoint, "demo", tmp_path, may_build=False)
