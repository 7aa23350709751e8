"""The verdict: every gate can fail, and every negative control is rejected by the gate that claims
to catch it; the undamaged pass.
"""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.eval import comparisons, gates, judge
from kokoro_ane.eval.comparisons import VocoderComparison
from kokoro_ane.eval.execution import ClipResult, judge_clip
from kokoro_ane.eval.gates import COMMON, FEWEST_CLIPS, select_gates
from kokoro_ane.eval.judge import REJECT, SHIP, UNDECIDED, decide, estimate_interval
from kokoro_ane.eval.metrics.catalog import DURATIONS, HIGHER, METRICS, PROSODY, ZERO
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import Rendition, VocoderSubject
from kokoro_ane.eval.subjects import STAGES, VOCODER
from kokoro_ane.quantize.methods import METHODS
from kokoro_ane.vocoder.packing import cut_excerpt
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.source import draw_noise
from tests.demo_voice import DEMO_VOICE, heldout
from tests.eval.controls.__main__ import controls_of, main
from tests.eval.controls.faults import drop, of_model, rendered
from tests.eval.controls.negative_controls import CONTROLS, ControlTrials, Setting, vocoder_control
from tests.eval.controls.vocoder_controls import HARMLESS, LATER, SHIPPED, THIRTEEN
from tests.signals import delayed, phrase_of, white_noise

MEAN, WORST = gates.MEAN, gates.WORST
SCALED = {*comparisons.SCALED, *DURATIONS}
PERFECT = {name: metric.perfect for name, metric in METRICS.items()}
FLOOR = PERFECT | dict.fromkeys((*PROSODY, *DURATIONS), 0.1)
FLOOR |= {"pesq": 4.4, "mcd_db": 0.6, "lsd_db": 1.3, "snr_db": 20.0, "speaker_distance": 0.2}
FLOOR |= {"words_changed": 1.0}
GATES = {name: select_gates(name) for name in METHODS}
GATES |= {"encoder": gates.ENCODER_GATES, "product": gates.PRODUCT_GATES}
# Of the methods w8 has what all have, and fp16 a few of its own.
ROWS = [(name, gate) for name in ("w8", "fp16", "encoder", "product") for gate in GATES[name]]


def decision(figures, name="w8", **more):
    return decide(GATES[name], figures, [FLOOR] * len(figures), **more)


def verdict(figures, name="w8", **more):
    return decision(figures, name, **more).verdict


def clips(count=FEWEST_CLIPS, **figures):
    return [PERFECT | figures] * count


def missed_value(gate):
    limit = gate.compute_limit(FLOOR[gate.metric])
    return limit - 0.01 if METRICS[gate.metric].best == HIGHER else limit + 0.01


def test_every_figure_has_a_gate():
    encoder, product = GATES["encoder"], GATES["product"]
    assert {gate.metric for gate in encoder} == set(PROSODY)
    heard = {*comparisons.VOCODER_ALONE, *comparisons.HEARD, *DURATIONS}
    assert {gate.metric for gate in product} == heard
    assert {gate.metric for gate in product if gate.multiple} <= SCALED


@pytest.mark.parametrize("name", GATES)
def test_perfect_clips_ship(name):
    assert verdict(clips(), name) == SHIP
    assert verdict(clips(6), name) == UNDECIDED
    assert verdict(clips(), name, defects=("heldout-03: is silent",)) == REJECT


@pytest.mark.parametrize("name, gate", ROWS, ids=str)
def test_each_gate_rejects_alone(name, gate):
    bad = clips(**{gate.metric: missed_value(gate)})
    decided = decision(bad if gate.statistic == MEAN else clips()[1:] + bad[:1], name)
    assert decided.verdict == REJECT
    assert gate.name in decided.broken
    assert any(gate.reason in reason for reason in decided.reasons)
    if METRICS[gate.metric].best == ZERO:
        assert verdict(clips(**{gate.metric: -gate.limit - 0.01}), name) == REJECT


def test_few_clips_never_ship_and_what_is_certain_rejects():
    assert verdict(clips(FEWEST_CLIPS - 1)) == UNDECIDED
    assert verdict([]) == UNDECIDED
    assert verdict([PERFECT | {"f0_rmse_cents": 50.0 + i} for i in range(3)]) == REJECT  # the mean
    assert verdict([PERFECT, PERFECT, PERFECT | {"lag_samples": 1.0}]) == REJECT  # a fact
    assert verdict(clips(1, level_db=-3.0)) == REJECT
    assert verdict(clips(2, mcd_db=2.0)) == UNDECIDED  # two clips are no mean
    # each clip is above 0.2, but Student's interval is wide
    near = [PERFECT | {"mcd_increase_db": value} for value in (0.3, 0.35, 1.2)]
    assert verdict(near) == UNDECIDED
    silent = decision(clips(FEWEST_CLIPS - 1), defects=("heldout-03: is silent",))
    assert silent.verdict == REJECT
    assert silent.reasons == ("heldout-03: is silent",)


def spoken(count, voice="one", seconds=3.0, **figures):
    """Clips of one voice and length, perfect but for these figures."""
    return [
        ClipResult(f"{voice}-{n}", voice, seconds, "", PERFECT | figures, PERFECT)
        for n in range(count)
    ]


def judged(*groups):
    return judge.judge_results(COMMON, [clip for group in groups for clip in group])


@pytest.mark.parametrize("seconds, expected", [(9.0, REJECT), (3.0, SHIP)])
def test_long_clips_are_held_to_the_limits_by_themselves(seconds, expected):
    """A quarter of the clips at 0.3 dB leave the mean of all at 0.075, limit 0.2."""
    others = [spoken(12, voice) for voice in ("one", "two", "three")]
    far = [spoken(1, f"v{n}", seconds, mcd_increase_db=0.3) for n in range(12)]
    decided = judged(*others, *far)
    assert decided.verdict == expected
    said = any(reason.startswith("clips longer than 4.5 s: mcd_incr") for reason in decided.reasons)
    assert said == (expected == REJECT)
    # an encoder predicts no statistics
    every = [clip for group in (*others, *far) for clip in group]
    assert judge.judge_results(COMMON, every, predicted=False).verdict == SHIP


def test_a_long_mean_that_is_too_near_to_tell_does_not_ship():
    others = [spoken(12, voice) for voice in ("one", "two", "three")]
    far = [spoken(1, f"v{n}", 9.0, mcd_increase_db=(0.1, 0.28)[n % 2]) for n in range(12)]
    assert judged(*others, *far).verdict == UNDECIDED


def test_a_voice_rejects_by_itself_and_never_leaves_a_verdict_open():
    others = [spoken(12, voice) for voice in ("one", "two", "three")]
    bad = judged(*others, spoken(4, "four", mcd_increase_db=0.4))
    assert bad.verdict == REJECT
    assert bad.reasons[0].startswith("voice four: mcd_increase_db mean is 0.4")
    assert bad.record()["means_of"]["voice four"]["mcd_increase_db"] == pytest.approx(0.4)
    # two clips are no mean, and four of them that differ are too few to be certain
    assert judged(*others, spoken(2, "four", mcd_increase_db=0.4)).verdict == SHIP
    # the recognizer knows English alone
    for voice, verdict in (("af_heart", REJECT), ("ff_siwis", SHIP)):
        assert judged(*others, spoken(4, voice, word_errors_added=5.0)).verdict == verdict
    unsure = [spoken(1, "four", mcd_increase_db=value) for value in (0.1, 0.15, 0.5, 0.4)]
    assert judged(*others, *unsure).verdict == SHIP


def test_limits_are_tightened_by_seeds_and_never_loosened():
    """The smaller of cap and multiple holds: eight times the floor moves no limit above its cap, an
    eighth tightens it.
    """
    for gate in (gate for gate in COMMON if gate.multiple is not None):
        assert gate.compute_limit(8 * gate.limit) == gate.limit
        assert gate.compute_limit(gate.limit / 8 / gate.multiple) == pytest.approx(gate.limit / 8)
        bad, noisy = (clips(**{gate.metric: by * gate.limit}) for by in (1.01, 8))
        assert decide(COMMON, bad, noisy).verdict == REJECT
    spread = [dict.fromkeys(SCALED, 1.0)] * FEWEST_CLIPS
    for mcd_db, expected in ((1.2, SHIP), (1.4, REJECT)):  # 1.3 variations
        assert decide(GATES["product"], clips(mcd_db=mcd_db), spread).verdict == expected
    floors = [{"local_level_db": 1.0, "local_level_db worst": 2.0 + i} for i in range(3)]
    assert judge.compute_statistic("local_level_db", MEAN, floors) == 1.0
    assert judge.compute_statistic("local_level_db", WORST, floors) == 4.0


def test_what_is_missing_or_too_near_does_not_ship():
    lacking = decision(clips()[1:] + [{k: v for k, v in PERFECT.items() if k != "level_db"}])
    assert lacking.verdict == UNDECIDED
    assert lacking.reasons == ("level_db worst was not measured",)
    unscaled = decide(COMMON, clips(), [])
    assert unscaled.verdict == UNDECIDED
    missing = {check.gate.name for check in unscaled.checks if check.state != judge.HOLDS}
    assert missing == {gate.name for gate in COMMON if gate.multiple is not None}
    # Half the clips at 3.9 and half at 4.12: the mean is above 4, its interval is not
    near = decision([PERFECT | {"pesq": (4.12, 3.9)[i % 2]} for i in range(FEWEST_CLIPS)])
    assert near.verdict == UNDECIDED
    straddling = [check.gate.name for check in near.checks if check.state == judge.STRADDLES]
    assert straddling == ["pesq mean"]
    assert not near.by_limit
    assert "too near to tell" in near.reasons[0]
    assert verdict(clips(), doubts=("no device",)) == UNDECIDED
    assert verdict(clips(pesq=1.0), doubts=("no device",)) == REJECT


def test_other_seeds_are_wanted_where_only_their_limit_is_open():
    words = [PERFECT | {"words_changed": 1.0 + i % 2} for i in range(FEWEST_CLIPS)]
    other = [PERFECT | {"words_changed": 1.5 * (i % 2)} for i in range(FEWEST_CLIPS)]
    assert decide(COMMON, words, other).by_limit
    assert not decide(COMMON, words, other, doubts=("no device",)).by_limit
    assert not decide(COMMON, words[1:], other[1:]).by_limit
    assert not decide(COMMON, words, words).by_limit  # it ships
    unsure = [clip | {"pesq": (4.12, 3.9)[i % 2]} for i, clip in enumerate(words)]
    assert not decide(COMMON, unsure, other).by_limit


def test_clips_are_resampled_with_their_limits():
    """Clip by clip just below the other seed: certain, though both means have wide intervals that
    overlap.
    """
    spread = [0.1 + 0.05 * i for i in range(FEWEST_CLIPS)]
    multiple = next(gate.multiple for gate in COMMON if gate.metric == "mcd_db")
    near, variation = (
        [PERFECT | {"mcd_db": factor * x} for x in spread] for factor in (0.99 * multiple, 1.0)
    )
    checks = {c.gate.name: c for c in decide(COMMON, near, variation).checks}
    assert checks["mcd_db mean"].state == judge.HOLDS
    assert checks["mcd_db mean"].high > checks["mcd_db mean"].limit
    values = [1.0, 2.0, 4.0, 8.0] * 6
    assert (
        estimate_interval(values) == estimate_interval(values) != estimate_interval(values, seed=1)
    )
    low, high = estimate_interval(values)
    assert low < sum(values) / len(values) < high
    assert estimate_interval([3.0] * 5) == (3.0, 3.0)


def test_every_gate_is_a_limit_that_can_hold():
    """Errors of both signs cancel in a mean, and a multiple of a good score says nothing."""
    for _, gate in ROWS:
        assert gate.statistic in (MEAN, WORST)
        if gate.best == HIGHER:
            assert gate.multiple is None
        if gate.best == ZERO:
            assert gate.statistic == WORST


ERRORS = {name: control for name, control in CONTROLS[VOCODER].items() if control.rejected}
PASSING = {name: control for name, control in CONTROLS[VOCODER].items() if not control.rejected}
TEXT = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_page_states_every_control_s_metric():
    section = TEXT.split("## Negative controls")[1]
    assert {control.metric for control in ERRORS.values()} <= set(re.findall(r"`(\w+)`:", section))


@pytest.fixture(scope="module")
def reference():
    return Reference(open_checkpoint(str(DEMO_VOICE)), seed=0)


@pytest.fixture(scope="module")
# the first two seconds of a sentence: enough for an error of the model, which is there in every
# sentence
def phrase():
    return phrase_of(heldout()[0])


@pytest.fixture(scope="module")
# by metric: its seed variation is measured once
def trials(reference, phrase):
    setting = Setting(reference, [phrase])
    return cache(lambda metric: ControlTrials(setting, only=(metric,)))


@pytest.fixture(scope="module")
def untouched(reference, phrase):
    """Ten frames, and what the vocoder makes of them before any control."""
    inputs = cut_excerpt(reference.compute_inputs(phrase), start=30, frames=10)
    return inputs, render_reference(reference.vocoder, inputs)


@pytest.mark.parametrize("name", ERRORS)
def test_control_is_rejected_by_its_gate(name, reference, trials, untouched):
    """Only the metric that claims to catch it is measured; the bench itself is never spoilt."""
    assert trials(ERRORS[name].metric).outcome(ERRORS[name]).right
    assert np.array_equal(render_reference(reference.vocoder, untouched[0]), untouched[1])


@pytest.mark.parametrize("samples", [0, 1])
def test_a_delay_is_one_by_the_same_features(samples, reference, phrase):
    """An encoder package computes another F0, which turns phases: only what the vocoder adds to
    that is its delay.
    """
    inputs = reference.compute_inputs(phrase)
    clock = reference.render_clock(
        reference.with_noise(replace(inputs, f0_hz=1.001 * inputs.f0_hz), 0)
    )
    rendition = Rendition(delayed(clock, samples), reference.get_renders(phrase).vowel, clock)
    subject = SimpleNamespace(render=lambda _: rendition)
    result = judge_clip(VocoderComparison(reference, ("lag_samples",)), subject, phrase)
    assert result.figures["lag_samples"] == samples


def test_how_many_there_are():
    assert len(THIRTEEN) == 13
    assert len(SHIPPED) >= 8
    assert len(LATER) >= 10
    assert len(ERRORS) == len(THIRTEEN) + len(SHIPPED) + len(LATER) == 39
    assert len(PASSING) == len(HARMLESS) == 5


@pytest.fixture(scope="module")
def phrases(reference):
    # `make controls` measures them too
    slow = ("dnsmos_loss", "distillmos_loss", "words_changed", "word_errors_added")
    setting = Setting(reference, [phrase_of(whole) for whole in heldout()[:3]])
    return ControlTrials(setting, only=[g.metric for g in COMMON if g.metric not in slow])


@pytest.mark.parametrize("name", PASSING)
def test_the_harmless_pass(name, phrases):
    assert phrases.outcome(PASSING[name]).broken == ()


# the exception is needed: without it the gate would reject
def test_what_may_name_a_harmless_change_does(phrases):
    for change in PASSING.values():
        if change.metric:
            assert f"{change.metric} worst" in phrases.outcome(replace(change, metric="")).broken


# gates that reject everything prove nothing
def test_an_inaudible_error_ships(reference, phrase):
    subject = VocoderSubject(
        reference, lambda inputs: white_noise(reference.render_clock(inputs), 75)
    )
    result = judge_clip(VocoderComparison(reference), subject, phrase)
    repeated = [result.figures] * FEWEST_CLIPS
    assert decide(COMMON, repeated, [result.variation] * FEWEST_CLIPS).verdict == SHIP


class Loud(Reference):
    """The demo voice with source noise eight times as loud, in every seed."""

    def compute_inputs(self, utterance, other_seed=0):
        return self.louder(super().compute_inputs(utterance, other_seed), other_seed)

    def compute_vowel_inputs(self, utterance, other_seed=0):
        inputs, pitch_hz = super().compute_vowel_inputs(utterance, other_seed)
        return self.louder(inputs, other_seed), pitch_hz

    def louder(self, inputs, other_seed):
        noise = 8 * draw_noise(inputs.frames, self.seed + other_seed)
        spectrum = self.vocoder.generator.m_source.compute_spectrum(inputs.f0_hz, noise)
        return replace(inputs, spectrum=spectrum)


@pytest.fixture(scope="module")
def noisy_voice(reference):
    """Three phrases of it before the gate that no noise loosens: how much farther from other
    seeds.
    """
    clips = [phrase_of(whole) for whole in heldout()[:3]]
    setting = Setting(Loud(reference.checkpoint, seed=0), clips)
    return ControlTrials(setting, only=("mcd_increase_db",))


def test_a_noisier_voice_hides_no_dropped_block(noisy_voice):
    assert noisy_voice.outcome(block_control(3)).broken


@pytest.mark.slow
def test_24_clips_of_a_noisier_voice_do_not_hide_the_least_block(reference):
    """Block 0 of the demo voice: PESQ 4.58, an MCD below the floor of the noisier voice. The gate
    needs 24 clips to be certain.
    """
    clips = [phrase_of(whole) for whole in heldout()]
    setting = Setting(Loud(reference.checkpoint, seed=0), clips)
    lineup = ControlTrials(setting, only=("mcd_increase_db",))
    assert all(lineup.outcome(block_control(block)).broken for block in (0, 1, 2))


def block_control(block):
    fault = of_model(lambda vocoder: drop(vocoder.generator.resblocks[block], lambda x, *_: x))
    return vocoder_control(f"block {block} dropped", "mcd_increase_db", fault, "a branch not added")


# otherwise the test above proves nothing
def test_a_noisier_voice_itself_passes(noisy_voice):
    unchanged = vocoder_control("unchanged", "", rendered, "the same model", rejected=False)
    assert not noisy_voice.outcome(unchanged).broken


def test_output_of_another_length_is_no_audio(reference, phrase):
    subject = VocoderSubject(reference, lambda inputs: reference.render_clock(inputs)[:-5])
    result = judge_clip(VocoderComparison(reference, ("level_db",)), subject, phrase)
    assert "samples, the reference" in result.defect


def test_renders_are_kept_whole(reference, phrase, tmp_path):
    """Reference and vowel come back from the file as they went in; other seeds are rendered."""
    made, fresh = (
        reference.get_renders(phrase),
        Reference(reference.checkpoint, 0, tmp_path).get_renders(phrase),
    )
    again = Reference(reference.checkpoint, 0, tmp_path).get_renders(phrase)
    assert len(again.baseline.other_seeds) == 1
    assert len(again.seeded.other_seeds) == 3
    assert not np.array_equal(again.baseline.other_seeds[0], again.baseline.other_seeds[1])
    for render in (fresh, again):
        assert np.array_equal(render.reference, made.reference)
        assert np.array_equal(render.vowel, made.vowel)
        assert render.pitch_hz == made.pitch_hz
    only = ("mcd_db", "local_level_db", "thd_n_increase_db")
    again, made = (
        VocoderComparison(each, only, thorough=True).get_natural(phrase).figures
        for each in (Reference(reference.checkpoint, 0, tmp_path), reference)
    )
    assert again == made
    assert set(made) == {*only, *(f"{name} worst" for name in only)}


def test_controls_are_asked_for_by_name(capsys):
    assert main(["--checkpoint", str(DEMO_VOICE), "--only", "level sways,hom"]) == 2
    message = capsys.readouterr().err
    assert "--only hom: no control is called so" in message
    assert "hum" in message
    chosen = controls_of(VOCODER, "level sways,polarity")
    assert [control.name for control in chosen] == ["level sways", "polarity"]
    assert [len(controls_of(stage)) for stage in STAGES] == [44, 10, 8]
