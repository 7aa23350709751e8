"""Negative controls on real held-out sentences: each is rejected, and by the gate that claims to catch it. The undamaged pass."""

from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.eval.controls import controls_of, main
from kokoro_ane.eval.faults import Control, ControlTrials, Faults, Harmless, Spoilt, rounded
from kokoro_ane.eval.gates import COMMON, FEWEST_CLIPS, gates_for
from kokoro_ane.eval.judge import judge_clip
from kokoro_ane.eval.negative_controls import CONTROLS, HARMLESS, LATER, SHIPPED, THIRTEEN, Through
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.verdict import SHIP, decide
from kokoro_ane.eval.waveform_faults import bandwidth_hz
from kokoro_ane.quantize.corpus import Utterance, heldout
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.source import gaussian_noise
from tests.signals import delayed, phrase_of, white_noise


@pytest.fixture(scope="module")
def reference() -> Reference:
    """The demo voice."""
    return Reference(open_checkpoint("demo"), seed=0)


@pytest.fixture(scope="module")
def phrase() -> Utterance:
    """The first two seconds of a sentence: enough for an error of the model, which is there in every sentence."""
    return phrase_of(heldout()[0])


@pytest.mark.parametrize("name", CONTROLS)
def test_control_is_rejected_by_its_gate(name: str, reference: Reference, phrase: Utterance) -> None:
    """Only the metric that claims to catch it is measured."""
    caught = ControlTrials(reference, [phrase], only=(CONTROLS[name].metric,)).caught(CONTROLS[name])
    assert caught.rejected


@dataclass(frozen=True)
class Told:
    """The fp32 model on features that it is told, `late` samples late."""

    vocoder: Vocoder
    late: int

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        return delayed(render_reference(self.vocoder, inputs), self.late)


@pytest.mark.parametrize("late", [0, 1])
def test_a_delay_is_one_by_the_same_features(late: int, reference: Reference, phrase: Utterance) -> None:
    """An encoder package computes another F0, which turns phases: only what the vocoder adds to that is its delay."""
    inputs = reference.inputs(phrase)
    spectrum = reference.vocoder.generator.m_source.spectrum(1.001 * inputs.f0_hz, gaussian_noise(inputs.frames, reference.seed))
    told = replace(inputs, f0_hz=1.001 * inputs.f0_hz, spectrum=spectrum)
    result = judge_clip(reference, Told(reference.vocoder, late), phrase, only=("lag_samples",), inputs=told)
    assert result.figures["lag_samples"] == late


def test_how_many_there_are() -> None:
    assert len(THIRTEEN) == 13
    assert len(SHIPPED) >= 8
    assert len(LATER) >= 10
    assert len(CONTROLS) == len(THIRTEEN) + len(SHIPPED) + len(LATER)


@pytest.fixture(scope="module")
def phrases(reference: Reference) -> ControlTrials:
    """Three voices before the gates."""
    slow = ("dnsmos_loss", "distillmos_loss", "words_changed", "word_errors_added")  # `make controls` measures them too
    return ControlTrials(reference, [phrase_of(whole) for whole in heldout()[:3]], [g.metric for g in COMMON if g.metric not in slow])


@pytest.mark.parametrize("change", HARMLESS, ids=lambda change: change.name)
def test_the_harmless_pass(change: Harmless, phrases: ControlTrials) -> None:
    assert phrases.caught(change).broken == ()


def test_what_may_name_a_harmless_change_does(phrases: ControlTrials) -> None:
    """The exception is needed: without it the gate would reject."""
    for change in HARMLESS:
        if change.named_by:
            assert f"{change.named_by} worst" in phrases.caught(replace(change, named_by=None)).broken


def test_the_bench_itself_is_never_spoilt(reference: Reference, phrase: Utterance) -> None:
    faults, inputs = Faults(reference.checkpoint, reference.vocoder, reference.seed), reference.inputs(phrase)
    before = render_reference(reference.vocoder, inputs)
    for control in CONTROLS.values():
        spoilt = Spoilt(faults, control.render).render(inputs)
        assert spoilt.shape == before.shape
        assert not np.array_equal(spoilt, before), control.name
    assert np.array_equal(render_reference(reference.vocoder, inputs), before)


class Hiss:
    """The fp32 model with an inaudible error."""

    def __init__(self, reference: Reference) -> None:
        self._vocoder = reference.vocoder

    def render(self, inputs: object) -> np.ndarray:
        return white_noise(render_reference(self._vocoder, inputs).astype(np.float64), 75)


def test_an_inaudible_error_ships(reference: Reference, phrase: Utterance) -> None:
    """Gates that reject everything prove nothing."""
    result = judge_clip(reference, Hiss(reference), phrase)
    repeated = [result.figures] * FEWEST_CLIPS
    assert decide(gates_for("w8"), repeated, [result.seed_variation] * FEWEST_CLIPS).verdict == SHIP


def test_rounding_to_int4_keeps_fifteen_levels() -> None:
    import torch

    weight = torch.randn(4, 6, 1, 3, generator=torch.Generator().manual_seed(0))
    levels = [len(row.unique()) for row in rounded(weight, bits=4, axis=0)]
    assert max(levels) <= 15
    assert torch.allclose(rounded(weight, bits=16, axis=1), weight, atol=1e-3)


def test_bandwidth_of_a_band_limited_voice() -> None:
    noise = np.random.default_rng(0).standard_normal(24_000)
    spectrum = np.fft.rfft(noise)
    spectrum[6500:] = 0
    assert bandwidth_hz(noise) == 12_000
    assert bandwidth_hz(np.fft.irfft(spectrum, 24_000)) == 7000


class Loud(Reference):
    """The demo voice with source noise eight times as loud, in every seed."""

    def inputs(self, utterance: Utterance, other_seed: int = 0) -> VocoderInputs:
        return self.louder(super().inputs(utterance, other_seed), other_seed)

    def vowel_inputs(self, utterance: Utterance, other_seed: int = 0) -> tuple[VocoderInputs, float]:
        inputs, pitch_hz = super().vowel_inputs(utterance, other_seed)
        return self.louder(inputs, other_seed), pitch_hz

    def louder(self, inputs: VocoderInputs, other_seed: int) -> VocoderInputs:
        noise = 8 * gaussian_noise(inputs.frames, self.seed + other_seed)
        return replace(inputs, spectrum=self.vocoder.generator.m_source.spectrum(inputs.f0_hz, noise))


@pytest.fixture(scope="module")
def noisy_voice(reference: Reference) -> ControlTrials:
    """Three phrases of it before the gate that no noise loosens: how much farther from other seeds."""
    return ControlTrials(Loud(reference.checkpoint, seed=0), [phrase_of(whole) for whole in heldout()[:3]], ("mcd_increase_db",))


def test_a_noisier_voice_hides_no_dropped_block(noisy_voice: ControlTrials) -> None:
    assert noisy_voice.caught(block_control(3)).rejected


@pytest.mark.slow
def test_24_clips_of_a_noisier_voice_do_not_hide_the_least_block(reference: Reference) -> None:
    """Block 0 of the demo voice: PESQ 4.58, an MCD below the floor of the noisier voice. The gate needs 24 clips to be certain."""
    clips = [phrase_of(whole) for whole in heldout()]
    lineup = ControlTrials(Loud(reference.checkpoint, seed=0), clips, ("mcd_increase_db",))
    assert all(lineup.caught(block_control(block)).rejected for block in (0, 1, 2))


def block_control(block: int) -> Control:
    """A model without one of its residual blocks."""

    def dropped(faults: Faults, inputs: VocoderInputs) -> np.ndarray:
        copy = deepcopy(faults.vocoder)
        copy.generator.resblocks[block] = Through()
        return render_reference(copy.eval(), inputs)

    return Control(f"block {block} dropped", "mcd_increase_db", dropped, "a branch of a stage not added")


def test_a_noisier_voice_itself_passes(noisy_voice: ControlTrials) -> None:
    """Otherwise the test above proves nothing."""
    unchanged = Harmless("unchanged", lambda faults, inputs: render_reference(faults.vocoder, inputs), "the same model")
    assert not noisy_voice.caught(unchanged).rejected


def test_output_of_another_length_is_no_audio(reference: Reference, phrase: Utterance) -> None:
    class Short:
        def render(self, inputs: VocoderInputs) -> np.ndarray:
            return render_reference(reference.vocoder, inputs)[:-5]

    assert "samples, the reference" in judge_clip(reference, Short(), phrase, only=("level_db",)).defect


def test_renders_are_kept_whole(reference: Reference, phrase: Utterance, tmp_path: Path) -> None:
    """Reference, seeds, vowels and what was heard come back from the file as they went in."""
    made, fresh = reference.of(phrase), Reference(reference.checkpoint, 0, tmp_path).of(phrase)
    again = Reference(reference.checkpoint, 0, tmp_path).of(phrase)
    assert len(again.other_seeds) == len(again.vowel_other_seeds) == 3 and not np.array_equal(again.other_seeds[0], again.other_seeds[1])
    for kept in (fresh, again):
        assert np.array_equal(kept.reference, made.reference) and np.array_equal(kept.other_seeds, made.other_seeds)
        assert np.array_equal(kept.vowel, made.vowel) and np.array_equal(kept.vowel_other_seeds, made.vowel_other_seeds)
        assert kept.pitch_hz == made.pitch_hz and kept.heard.words == made.baseline.heard.words
        assert np.array_equal(kept.heard.voiceprint, made.baseline.heard.voiceprint)
        assert (kept.heard.dnsmos, kept.heard.distillmos) == (made.baseline.heard.dnsmos, made.baseline.heard.distillmos)
    only = ("mcd_db", "local_level_db", "thd_n_increase_db")
    assert again.seed_variation(only) == made.seed_variation(only) and set(made.seed_variation(only)) == {
        *only,
        *(f"{name} worst" for name in only),
    }


def test_a_control_of_no_such_name_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--checkpoint", "demo", "--only", "level sways,hom"]) == 2
    said = capsys.readouterr().err
    assert "--only hom: no control is called so" in said and "hum" in said


def test_only_the_asked_controls_are_tried(capsys: pytest.CaptureFixture[str]) -> None:
    errors, changes = controls_of("level sways,polarity")
    assert [c.name for c in errors] == ["level sways"] and [c.name for c in changes] == ["polarity"]
    assert len(controls_of(None)[0]) == len(CONTROLS) and len(controls_of(None)[1]) == len(HARMLESS)
