"""What a clip is judged with: the reference's features and noise, and the subject of each stage."""

from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import DEFAULT_BUCKETS, TUNING
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend, encode_phonemes
from kokoro_ane.encoder.functions import Encoder, make_torch_functions
from kokoro_ane.eval import ClipReader, execution
from kokoro_ane.eval import reference as reference_module
from kokoro_ane.eval.execution import ClipBench, Execution
from kokoro_ane.eval.reference import OTHER_SEEDS, Reference
from kokoro_ane.eval.renditions import (
    PRODUCT_SHARE,
    EncoderSubject,
    ProductSubject,
    VocoderSubject,
    fit_clip,
)
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, VOCODER
from kokoro_ane.quantize.locator import HALF, PackageRequest, ensure_encoder
from kokoro_ane.speech.corpus import cut_within
from kokoro_ane.speech.speech import load_own_speech, load_text_encoder, make_vocoder_inputs
from kokoro_ane.vocoder.packing import VocoderInputs
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE, heldout
from tests.signals import phrase_of

VOCODER_FILE, ENCODER_FILES = Path("vocoder.json"), (Path("encoder.json"),)


@pytest.fixture(scope="module")
def reference():
    return Reference(open_checkpoint(str(DEMO_VOICE)), seed=5)


@pytest.fixture(scope="module")
def tuning(reference):
    return sorted(load_own_speech(reference.checkpoint, TUNING), key=lambda clip: clip.frames)


def same(one, two):
    names = [field.name for field in fields(VocoderInputs) if field.name != "statistics"]
    return all(torch.equal(getattr(one, name), getattr(two, name)) for name in names)


def test_every_seed_has_the_features_of_its_own(reference):
    checkpoint = reference.checkpoint
    for clip in heldout()[:2]:
        for other_seed in range(OTHER_SEEDS + 1):
            seed = reference.seed + other_seed
            alone = make_vocoder_inputs(
                checkpoint, reference.vocoder, load_text_encoder(checkpoint), clip, seed
            )
            assert same(reference.compute_inputs(clip, other_seed), alone)
            vowel, pitch_hz = reference.compute_vowel_inputs(clip, other_seed)
            by_itself = Reference(checkpoint, seed).compute_vowel_inputs(clip)
            assert same(vowel, by_itself[0])
            assert pitch_hz == by_itself[1]
    assert not same(reference.compute_inputs(clip, 1), reference.compute_inputs(clip, 2))


def test_a_clip_is_encoded_once(reference, monkeypatch):
    """Another clip of the same name is another clip."""
    encoded = []

    def counted(*inputs):
        encoded.append(inputs[3].id)
        return make_vocoder_inputs(*inputs)

    monkeypatch.setattr(reference_module, "make_vocoder_inputs", counted)
    phrase = phrase_of(heldout()[2])
    reference.get_renders(phrase)
    reference.compute_inputs(phrase)
    assert encoded == [phrase.id]
    reference.compute_inputs(replace(phrase, voice="rms"))
    assert len(encoded) == 2


class InPyTorch:
    """In the package's place: the same network, so that what comes out is the reference's own."""

    def __init__(self, *_):
        checkpoint = open_checkpoint(str(DEMO_VOICE))
        limits = AlignmentLimits.from_config(checkpoint.config, DEFAULT_BUCKETS[-1])
        self.backend = EncoderBackend(
            make_torch_functions(Encoder.from_checkpoint(checkpoint)), limits
        )


@pytest.fixture
def bench(reference, monkeypatch):
    """A bench whose packages are the fp32 model."""
    monkeypatch.setattr("kokoro_ane.encoder.EncoderPackage", InPyTorch)
    monkeypatch.setattr(
        execution, "open_executable", lambda *_: SimpleNamespace(render=None, predictor="")
    )
    return ClipBench(reference)


def test_features_are_the_encoder_s(reference, bench, tuning):
    clip = tuning[0]
    expected = reference.compute_inputs(clip)
    reader = bench.open_subject(VOCODER_FILE, Execution("declared", ENCODER_FILES)).reader
    nothing = np.zeros_like(clip.f0_hz)  # of the clip's own is taken
    _, inputs = reader.compute_inputs(replace(clip, f0_hz=nothing, energy=nothing))
    for name in ("asr", "f0_hz", "energy", "style", "spectrum"):
        assert torch.allclose(getattr(inputs, name), getattr(expected, name), atol=1e-3), name
    # the encoder finds the durations
    slow = replace(clip, speed=clip.speed / 2)
    assert reader.compute_inputs(slow)[1].frames > expected.frames


def test_what_a_package_does_not_take_is_judged_by_its_first_words(reference, tuning):
    clip = tuning[-1]
    assert cut_within(clip, clip.frames) is clip
    first = cut_within(clip, clip.frames // 2)
    assert clip.frames // 3 < first.frames <= clip.frames // 2
    assert first.id != clip.id
    assert clip.phonemes.startswith(f"{first.phonemes} ")
    # tokens and columns are those of the clip, and it closes with the clip's boundary token
    assert tuple(first.input_ids) == encode_phonemes(
        first.phonemes, reference.checkpoint.config.vocab
    )
    assert len(first.durations) == len(first.input_ids)
    assert first.durations[-1] == clip.durations[-1]
    assert len(first.f0_hz) == len(first.energy) == 2 * first.frames
    assert np.array_equal(first.f0_hz[:40], clip.f0_hz[:40])
    assert reference.compute_inputs(first).frames == first.frames
    refused("no word of it fits 3 frames", cut_within, clip, 3)


def test_a_product_s_clip_is_cut_to_what_the_encoder_says_it_in(reference, tuning):
    """What an encoder makes of a cut text is longer than the cut."""
    clip, reader = tuning[-1], ClipReader(reference)

    def said(part):
        return int(reader.encode_prosody(part).durations.sum())

    cuts = [cut_within(clip, clip.frames - 1)]
    while len(cuts) < 6:
        cuts.append(cut_within(clip, cuts[-1].frames - 1))
    longer = next(cut for cut in cuts if said(cut) > cut.frames + 2)
    bucket = int(longer.frames / PRODUCT_SHARE) + 1
    judged = fit_clip(clip, PRODUCT, bucket, reference)
    assert judged.frames <= PRODUCT_SHARE * bucket
    # what it is compared with is what the fp32 encoder makes of the cut text
    assert judged.frames == said(judged)


def test_every_stage_has_its_subject(bench):
    kinds = {VOCODER: VocoderSubject, ENCODER: EncoderSubject, PRODUCT: ProductSubject}
    for stage, kind in kinds.items():
        executed = Execution("declared", ENCODER_FILES, stage)
        assert type(bench.open_subject(VOCODER_FILE, executed)) is kind
    # features of PyTorch have no reader
    assert bench.open_subject(VOCODER_FILE, Execution("declared")).reader is None


def test_figures_are_kept_by_the_package_s_hash(monkeypatch):
    def load(_, path):
        return SimpleNamespace(package_sha256=path.stem * 40)

    monkeypatch.setattr(Manifest, "load", classmethod(load))
    declared = Execution("declared")
    one, other = (replace(declared, encoder=(Path(f"{stem}.json"),)) for stem in ("a", "b"))
    assert declared.name == "declared"
    assert declared.features == "PyTorch fp32"
    assert one.name == "declared-" + "a" * 16 != other.name
    assert one.features == "a"
    assert replace(one, stage=PRODUCT).name == f"{one.name}-product"


def test_an_encoder_that_is_not_built_names_the_command(reference, tmp_path):
    request = PackageRequest(reference.checkpoint, tmp_path, HALF, source=str(DEMO_VOICE))
    refused("does not exist: run `kokoro-ane build encoder", ensure_encoder, request, None)
