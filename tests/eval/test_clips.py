"""What a clip is judged with: its references, the listeners, the worst 60 ms. Each tells apart what
it claims to tell apart.
"""

from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import DEFAULT_BUCKETS, SAMPLE_RATE_HZ, TUNING
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.encoder import encoder_stage
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend, input_ids
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.eval import ENCODER, PRODUCT, VOCODER, execution
from kokoro_ane.eval import reference as reference_module
from kokoro_ane.eval.execution import ClipBench, Execution
from kokoro_ane.eval.gates import COMMON
from kokoro_ane.eval.metrics import listeners
from kokoro_ane.eval.metrics.allowance import ALLOWED_DB
from kokoro_ane.eval.metrics.catalog import measure
from kokoro_ane.eval.metrics.listeners import (
    distillmos_of,
    dnsmos_of,
    recognized,
    voiceprint_of,
    words_heard,
)
from kokoro_ane.eval.metrics.local import (
    click_db,
    gain_variation_db,
    local_level_db,
    local_pitch_cents,
    local_spectrum_db,
)
from kokoro_ane.eval.metrics.trial import Baseline, Heard, Tone, Trial
from kokoro_ane.eval.metrics.whole_clip import (
    MOST_WORDS,
    distillmos_loss,
    dnsmos_loss,
    lag_samples,
    mcd_db,
    polarity,
    snr_db,
    speaker_distance,
    word_errors_added,
    words_changed,
)
from kokoro_ane.eval.reference import OTHER_SEEDS, Reference
from kokoro_ane.eval.renditions import EncoderSubject, ProductSubject, VocoderSubject
from kokoro_ane.eval.waveform_faults import dipped, swaying
from kokoro_ane.quantize.corpus import within, words_of
from kokoro_ane.quantize.locator import HALF, Request, built_encoder
from kokoro_ane.quantize.speech import own_speech, text_encoder, vocoder_inputs
from kokoro_ane.vocoder.packing import VocoderInputs
from tests.builds import uninstall
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE, heldout, recording
from tests.signals import delayed, glitched, phrase_of, replaced, white_noise


@pytest.fixture(scope="module")
def reference():
    return Reference(open_checkpoint(str(DEMO_VOICE)), seed=5)


def same(one, two):
    return all(
        torch.equal(getattr(one, field.name), getattr(two, field.name))
        for field in fields(VocoderInputs)
    )


def alone(reference, clip, other_seed):
    return vocoder_inputs(
        reference.checkpoint,
        reference.vocoder,
        text_encoder(reference.checkpoint),
        clip,
        reference.seed + other_seed,
    )


def test_every_seed_has_the_features_of_its_own(reference):
    for clip in heldout()[:2]:
        for other_seed in range(OTHER_SEEDS + 1):
            assert same(reference.inputs(clip, other_seed), alone(reference, clip, other_seed))
            vowel, pitch_hz = reference.vowel_inputs(clip, other_seed)
            by_itself = Reference(reference.checkpoint, reference.seed + other_seed).vowel_inputs(
                clip
            )
            assert same(vowel, by_itself[0])
            assert pitch_hz == by_itself[1]
    assert not same(reference.inputs(clip, 1), reference.inputs(clip, 2))


def test_a_clip_is_encoded_once(reference, monkeypatch):
    """Another clip of the same name is another clip."""
    asked = []

    def counted(*given):
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

    def __init__(self, *_):
        checkpoint = open_checkpoint(str(DEMO_VOICE))
        limits = AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1])
        self.backend = EncoderBackend(torch_functions(Encoder.of(checkpoint)), limits)


@pytest.fixture
def bench(reference, monkeypatch):
    """A bench whose packages are the fp32 model."""
    monkeypatch.setattr(encoder_stage, "EncoderPackage", InPyTorch)
    monkeypatch.setattr(execution, "opened", lambda *_: SimpleNamespace(render=None))
    return ClipBench(reference)


def test_features_are_the_encoder_s(reference, bench):
    clip = min(own_speech(reference.checkpoint, TUNING), key=lambda clip: clip.frames)
    expected = reference.inputs(clip)
    executed = Execution("declared", (Path("encoder.json"),))
    reader = bench.subject(Path("vocoder.json"), executed).reader
    _, inputs = reader.inputs(
        replace(clip, f0_hz=np.zeros_like(clip.f0_hz), energy=np.zeros_like(clip.energy))
    )  # nothing of the clip's own is taken
    for name in ("asr", "f0_hz", "energy", "style", "spectrum"):
        assert torch.allclose(getattr(inputs, name), getattr(expected, name), atol=1e-3), name
    # the encoder finds the durations
    slow = replace(clip, speed=clip.speed / 2)
    assert reader.inputs(slow)[1].frames > expected.frames


def test_what_a_package_does_not_take_is_judged_by_its_first_words(reference):
    clip = max(own_speech(reference.checkpoint, TUNING), key=lambda clip: clip.frames)
    assert within(clip, clip.frames) is clip
    first = within(clip, clip.frames // 2)
    assert clip.frames // 3 < first.frames <= clip.frames // 2
    assert first.id != clip.id
    assert clip.phonemes.startswith(f"{first.phonemes} ")
    # tokens and columns are those of the clip, and it closes with the clip's boundary token
    vocab = reference.checkpoint.config.vocab
    assert tuple(first.input_ids) == input_ids(first.phonemes, vocab)
    assert len(first.durations) == len(first.input_ids)
    assert first.durations[-1] == clip.durations[-1]
    assert len(first.f0_hz) == len(first.energy) == 2 * first.frames
    assert np.array_equal(first.f0_hz[:40], clip.f0_hz[:40])
    assert reference.inputs(first).frames == first.frames
    refused("no word of it fits 3 frames", within, clip, 3)


@pytest.mark.parametrize(
    ("stage", "kind"),
    [(VOCODER, VocoderSubject), (ENCODER, EncoderSubject), (PRODUCT, ProductSubject)],
)
def test_every_stage_has_its_subject(stage, kind, bench):
    executed = Execution("declared", (Path("encoder.json"),), stage)
    assert type(bench.subject(Path("vocoder.json"), executed)) is kind


def test_features_of_pytorch_have_no_reader(bench):
    assert bench.subject(Path("vocoder.json"), Execution("declared")).reader is None


def test_figures_are_kept_by_the_package_s_hash(monkeypatch):
    monkeypatch.setattr(
        Manifest,
        "load",
        classmethod(lambda _cls, path: type("M", (), {"package_sha256": path.stem * 40})),
    )
    one, other = (Execution("declared", (Path(f"{stem}.json"),)) for stem in ("a", "b"))
    assert Execution("declared").name == "declared"
    assert Execution("declared").features == "PyTorch fp32"
    assert one.name == "declared-" + "a" * 16 != other.name
    assert one.features == "a"


def test_an_encoder_that_is_not_built_names_the_command(reference, tmp_path):
    with refused("does not exist: run `kokoro-ane build encoder"):
        built_encoder(Request(reference.checkpoint, tmp_path, HALF, source=str(DEMO_VOICE)), None)


@pytest.fixture(scope="module")
def speech():
    return recording(0)


@pytest.fixture(scope="module")
def sentence(speech):
    return Baseline(speech, (), heldout()[0].text, Heard(speech))


class TestListeners:
    def test_words_of_a_text_are_as_said(self):
        said = (
            "doctor",
            "smith",
            "paid",
            "three",
            "dollars",
            "and",
            "fifty",
            "cents",
            "isn't",
            "it",
        )
        assert words_of("Dr. Smith paid $3.50; isn't it?") == said
        assert words_of("well-known") == ("well", "known")

    def test_the_recognizer_hears_most_of_a_recording_and_forgets_the_last(self, speech):
        first, wanted = words_heard(speech), set(words_of(heldout()[0].text))
        assert len(wanted & set(first)) >= len(wanted) / 2
        words_heard(recording(1))
        assert words_heard(speech) == first
        listeners._decoder.cache_clear()
        assert words_heard(speech) == first  # a fresh recognizer hears the same
        assert recognized(np.zeros(8000)) == ()

    def test_words_lost_are_counted(self, sentence):
        same = Trial(sentence.reference, sentence.reference, text=sentence.text, sentence=sentence)
        assert (word_errors_added(same), words_changed(same)) == (0, 0)
        lost = Trial(sentence.reference, sentence.reference, text=sentence.text, sentence=sentence)
        lost.__dict__["heard"] = Heard.read(
            {**sentence.heard.plain(), "words": np.frombuffer(b"nothing of it " * 9, np.uint8)}
        )
        # a recognizer that is lost in one clip does not decide for all
        assert words_changed(lost) == MOST_WORDS
        gone = sentence.reference.copy()
        gone[len(gone) // 3 : 2 * len(gone) // 3] *= 1e-3
        muted = Trial(sentence.reference, gone, text=sentence.text, sentence=sentence)
        assert word_errors_added(muted) >= 2
        assert words_changed(muted) >= 2

    def test_words_need_a_text(self, speech):
        with refused("what is said"):
            word_errors_added(Trial(speech, speech))

    def test_voices_are_told_apart(self, sentence):
        """Another sentence of the voice is nearer than the same speaker's pitch half an octave up,
        or another speaker.
        """
        ours, again, other = (voiceprint_of(recording(i)) for i in (0, 3, 1))
        assert heldout()[0].voice == heldout()[3].voice != heldout()[1].voice
        assert np.linalg.norm(ours) == pytest.approx(1.0, abs=1e-5)
        assert ours @ again > ours @ other + 0.1
        assert speaker_distance(
            Trial(sentence.reference, 0.5 * sentence.reference, sentence=sentence)
        ) == pytest.approx(0.0, abs=0.01)
        assert (
            speaker_distance(
                Trial(sentence.reference, white_noise(sentence.reference, 10), sentence=sentence)
            )
            > 1
        )

    def test_noise_costs_predicted_quality(self, sentence):
        noisy = Trial(sentence.reference, white_noise(sentence.reference, 10), sentence=sentence)
        assert dnsmos_loss(noisy) > 0.3
        assert distillmos_loss(noisy) > 0.3
        assert 1 < dnsmos_of(sentence.reference) < 5
        assert 1 < distillmos_of(sentence.reference) < 5

    @pytest.mark.parametrize(
        ("package", "ask"),
        [("speechmos", dnsmos_of), ("distillmos", distillmos_of), ("resemblyzer", voiceprint_of)],
    )
    def test_a_missing_package_is_one_line(self, package, ask, speech, monkeypatch):
        uninstall(monkeypatch, package)
        for loader in (listeners._dnsmos, listeners._distillmos, listeners._voice_encoder):
            loader.cache_clear()
        refused(f"{package}, which is not installed: pip install", ask, speech)

    def test_a_missing_recognizer_is_one_line(self, speech, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pocketsphinx", None)
        listeners._decoder.cache_clear()
        refused("pocketsphinx, which is not installed", words_heard, speech)


LIMITS = {gate.metric: gate.limit for gate in COMMON}
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def swelling():
    return recording(0)[:144_000]


@pytest.fixture(scope="module")
# the recording, and three others that differ from it by noise 50 dB down
def spoken(swelling):
    return Baseline(swelling, tuple(white_noise(swelling, 50, seed) for seed in SEEDS))


def trial(spoken, test):
    return Trial(spoken.reference, test, spoken.other_seeds, sentence=spoken)


class TestWorstWindow:
    def test_one_wrong_sound_and_a_dip_break_their_gates(self, spoken):
        wrong = trial(spoken, replaced(spoken.reference, 75.0))
        assert local_spectrum_db(wrong) > LIMITS["local_spectrum_db"]
        assert mcd_db(wrong) < 0.5  # what a mean makes of it
        assert (
            local_level_db(trial(spoken, dipped(spoken.reference, 9.0))) > LIMITS["local_level_db"]
        )
        assert local_level_db(trial(spoken, dipped(spoken.reference, 9.0))) == pytest.approx(
            9.0, abs=0.6
        )

    @pytest.mark.parametrize("hz", [0.7, 2.0, 5.0, 8.0])
    def test_a_level_that_sways_is_found_and_a_gain_is_not(self, spoken, hz):
        assert (
            gain_variation_db(trial(spoken, swaying(spoken.reference, 2.0, hz)))
            > LIMITS["gain_variation_db"]
        )
        assert (
            gain_variation_db(trial(spoken, swaying(spoken.reference, 0.3, hz)))
            < LIMITS["gain_variation_db"] / 2
        )
        assert gain_variation_db(trial(spoken, spoken.reference * 1.3)) == pytest.approx(
            0, abs=0.05
        )
        assert (
            gain_variation_db(trial(spoken, spoken.other_seeds[0]))
            < LIMITS["gain_variation_db"] / 2
        )

    def test_a_pitch_glitch_breaks_its_gate_another_seed_and_a_gain_none(self, spoken):
        assert (
            local_pitch_cents(trial(spoken, glitched(spoken.reference, 300.0)))
            > LIMITS["local_pitch_cents"]
        )
        for harmless in (
            white_noise(spoken.reference, 50, seed=9),
            spoken.reference * 10 ** (-0.3 / 20),
        ):
            figures = measure(
                trial(spoken, harmless),
                ("local_spectrum_db", "local_level_db", "local_pitch_cents"),
            )
            assert all(value < LIMITS[name] / 2 for name, value in figures.items())
        # Another seed that has the same dip excuses 3 dB of it, not all
        dip = dipped(spoken.reference, 9.0)
        excused = replace(spoken, other_seeds=(dip, *spoken.other_seeds[1:]))
        assert local_level_db(trial(spoken, dip)) - local_level_db(
            trial(excused, dip)
        ) == pytest.approx(ALLOWED_DB, abs=0.3)

    def test_a_jump_that_other_seeds_have_is_none(self, spoken):
        holed = spoken.reference.copy()
        loudest = int(np.argmax(np.convolve(np.square(holed), np.ones(240), mode="valid")))
        holed[loudest : loudest + 240] = 0
        assert click_db(trial(spoken, holed)) > LIMITS["click_db"]
        excused = Trial(spoken.reference, holed, [holed])
        assert click_db(Trial(spoken.reference, holed)) - click_db(excused) == pytest.approx(6.0)

    @pytest.mark.parametrize("at", [0.0, 0.5])
    # A sample too many, at the start or in the middle
    def test_lag_of_a_part(self, spoken, at):
        start = int(at * len(spoken.reference))
        late = np.concatenate([spoken.reference[:start], delayed(spoken.reference[start:], 1)])
        assert lag_samples(trial(spoken, late)) == 1
        assert lag_samples(trial(spoken, spoken.other_seeds[0])) == 0

    def test_turned_low_harmonics_are_no_lag(self, spoken):
        """What noise and other statistics do to the loudest harmonics, where a sample is three
        degrees: the waves then fit best a sample late, but the phases of all bins say that nothing
        is. A sample more is still one.
        """
        spectrum, hz = (
            np.fft.rfft(spoken.reference),
            np.fft.rfftfreq(len(spoken.reference), 1 / SAMPLE_RATE_HZ),
        )
        turned = np.fft.irfft(
            spectrum * np.exp(-1j * np.where(hz < 700, np.radians(9), 0)), len(spoken.reference)
        )
        assert trial(spoken, turned).alignment[0] > 0
        assert lag_samples(trial(spoken, turned)) == 0
        assert lag_samples(trial(spoken, delayed(turned, 1))) == 1

    def test_lag_of_features_of_its_own(self, spoken):
        """Another F0 turns phases: no delay by the render of the same features. A sample late is
        one by that render too.
        """
        turned = np.concatenate([spoken.reference[:72_000], delayed(spoken.reference[72_000:], 1)])
        assert lag_samples(trial(spoken, turned)) == 1
        assert lag_samples(replace(trial(spoken, turned), clock=turned)) == 0
        assert lag_samples(replace(trial(spoken, delayed(turned, 1)), clock=turned)) == 1

    def test_polarity_is_taken_out_once(self, spoken):
        short = Baseline(
            spoken.reference[:60_000], tuple(seed[:60_000] for seed in spoken.other_seeds)
        )
        noisy = white_noise(short.reference, 30)
        upright, over = measure(trial(short, noisy)), measure(trial(short, -noisy))
        assert (upright.pop("polarity"), over.pop("polarity")) == (1.0, -1.0)
        assert over == pytest.approx(upright, abs=1e-6)
        assert snr_db(trial(short, -noisy)) == pytest.approx(30.0, abs=0.1)
        assert polarity(trial(spoken, delayed(spoken.reference, 3))) == 1.0

    def test_thd_n_is_blind_to_gain_sign_and_delay(self, swelling):
        seconds = np.arange(28_800) / 24_000
        vowel = sum(
            0.1 / k * np.sin(2 * np.pi * 100 * k * seconds + k) for k in range(1, 9)
        ) + 1e-3 * np.random.default_rng(0).normal(size=28_800)
        changed = {"gain": 0.9 * vowel, "sign": -vowel, "delay": np.roll(vowel, 5)}
        for name, test in changed.items():
            figures = measure(
                Trial(swelling, swelling, tone=Tone(100.0, vowel, test)), ("thd_n_increase_db",)
            )
            assert abs(figures["thd_n_increase_db"]) < 0.2, name
        bent = vowel + 0.01 * np.sin(2 * np.pi * 300 * seconds)
        assert (
            measure(
                Trial(swelling, swelling, tone=Tone(100.0, vowel, bent)), ("thd_n_increase_db",)
            )["thd_n_increase_db"]
            > 3
        )
