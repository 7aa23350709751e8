"""What a clip is judged with: its text is encoded once, and every seed's features are those of its own."""

from dataclasses import fields, replace

import pytest
import torch

from core.checkpoint import open_checkpoint
from core.corpus import Utterance, heldout
from eval import corpus
from eval.corpus import OTHER_SEEDS, Truth
from quantize.features import text_encoder, vocoder_inputs
from tests.signals import phrase_of
from vocoder.packing import VocoderInputs


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth(open_checkpoint("demo"), seed=5)


def same(one: VocoderInputs, two: VocoderInputs) -> bool:
    """Bit for bit."""
    return all(torch.equal(getattr(one, field.name), getattr(two, field.name)) for field in fields(VocoderInputs))


def alone(truth: Truth, clip: Utterance, other_seed: int) -> VocoderInputs:
    return vocoder_inputs(truth.checkpoint, truth.vocoder, text_encoder(truth.checkpoint), clip, truth.seed + other_seed)


def test_every_seed_has_the_features_of_its_own(truth: Truth) -> None:
    for clip in heldout()[:2]:
        for other_seed in range(OTHER_SEEDS + 1):
            assert same(truth.inputs(clip, other_seed), alone(truth, clip, other_seed))
            vowel, pitch_hz = truth.vowel_inputs(clip, other_seed)
            by_itself = Truth(truth.checkpoint, truth.seed + other_seed).vowel_inputs(clip)
            assert same(vowel, by_itself[0]) and pitch_hz == by_itself[1]
    assert not same(truth.inputs(clip, 1), truth.inputs(clip, 2))


def test_a_clip_is_encoded_once(truth: Truth, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another clip of the same name is another clip."""
    asked: list[str] = []

    def counted(*given: object) -> VocoderInputs:
        asked.append(given[3].id)
        return vocoder_inputs(*given)

    monkeypatch.setattr(corpus, "vocoder_inputs", counted)
    phrase = phrase_of(heldout()[2])
    truth.of(phrase)
    truth.inputs(phrase)
    assert asked == [phrase.id]
    truth.inputs(replace(phrase, voice="rms"))
    assert len(asked) == 2
