"""The demo voice's text, phone map, alignment and measured features.

pytest tests/test_demo_corpus.py
"""

from pathlib import Path

import numpy as np
import pytest

from core.contract import PROSODY_PER_FRAME
from core.corpus import RECORDING_RATE_HZ, VOICES, calibration, frozen_sentences, heldout, load_folder, save
from core.errors import InputError
from demo.features import VOICE_RANGES, log_energy, mel_filters, pitch_hz, resampled, to_frames
from demo.phones import (
    FLITE_TO_KOKORO,
    PAUSES,
    FlitePhone,
    frame_durations,
    kokoro_tokens,
    parse_psdur,
    token_ids,
    vocabulary,
)  # fmt: skip
from demo.sentences import training_sentences, words_of
from demo.sentences import vocabulary as training_words

FLITE_PHONES = """aa ae ah ao aw ax axr ay b ch d dh dx eh el em en er ey f g hh hv ih iy jh k l m n nx ng ow oy p r s sh t th uh uw v w y
    z zh pau h# brth"""  # flite 2.2, lang/usenglish/us_phoneset.c


def test_the_phone_map_covers_flite_and_stays_in_kokoros_vocabulary() -> None:
    assert set(FLITE_PHONES.split()) <= set(FLITE_TO_KOKORO) | PAUSES
    assert set("".join(FLITE_TO_KOKORO.values())) | set(",.?") <= set(vocabulary())


def test_the_vocabulary_is_upstreams_178_ids() -> None:
    ids = vocabulary()
    assert (len(ids), max(ids.values()), ids["ˈ"], ids["ˌ"]) == (114, 177, 156, 157)


def test_pauses_become_pads_commas_and_a_final_mark() -> None:
    phones = parse_psdur("pau:0.2 er:0.4 pau:0.5 ow:0.7 pau:0.9")
    tokens = kokoro_tokens(phones, question=True)
    assert [t.symbol for t in tokens] == ["", "ɜ", "ɹ", ",", "O", "?", ""]
    assert [t.end_seconds for t in tokens] == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9])
    assert token_ids(tokens, vocabulary())[0] == token_ids(tokens, vocabulary())[-1] == 0


@pytest.mark.parametrize("line", ["", "pau:0.2", "pau:x b:1 pau:2", "b:0.1 ah:0.2 pau:0.3", "pau:0.1 qq:0.2 pau:0.3"])
def test_unusable_flite_output_is_one_clear_error(line: str) -> None:
    with pytest.raises(InputError, match="flite"):
        kokoro_tokens(parse_psdur(line), question=False)


def test_an_unknown_phone_is_named() -> None:
    with pytest.raises(InputError, match="'qq'"):
        kokoro_tokens([FlitePhone("pau", 0.1), FlitePhone("qq", 0.2), FlitePhone("pau", 0.3)], question=False)


@pytest.mark.parametrize(
    ("ends_seconds", "frames", "expected"),
    [
        ([0.1, 0.2, 0.3], 12, [4, 4, 4]),
        ([0.1, 0.101, 0.102, 0.3], 12, [4, 1, 1, 6]),  # short ones borrow from what follows
        ([0.1, 0.3, 0.301, 0.302], 12, [4, 6, 1, 1]),  # or from what stands before
        ([0.0, 0.0, 0.0], 3, [1, 1, 1]),
        ([0.5, 0.6, 9.0], 3, [1, 1, 1]),
    ],
)
def test_durations_fill_the_frames_with_one_at_least(ends_seconds: list[float], frames: int, expected: list[int]) -> None:
    assert frame_durations(ends_seconds, frames) == expected


def test_more_tokens_than_frames_is_an_error() -> None:
    with pytest.raises(InputError, match="do not fit"):
        frame_durations([0.1, 0.2, 0.3], 2)


@pytest.mark.parametrize("frozen", [heldout, calibration])
def test_frozen_utterances_agree_with_themselves(frozen) -> None:
    utterances = frozen()
    assert [u.text for u in utterances] == frozen_sentences(frozen.__name__)
    assert [u.voice for u in utterances] == [VOICES[i % 3] for i in range(24)]
    for u in utterances:
        assert len(u.input_ids) == len(u.durations) == len(u.phonemes) + 2
        assert u.durations.min() >= 1
        assert len(u.f0_hz) == len(u.energy) == PROSODY_PER_FRAME * u.frames
        assert 4.0 <= u.frames / 40 <= 12.0
        assert (u.recording is not None) == (frozen is heldout)
        assert u.recording is None or len(u.recording) == 400 * u.frames
        assert [vocabulary()[s] for s in u.phonemes] == u.input_ids[1:-1].tolist()


@pytest.mark.parametrize("index", [0, 1, 2])
def test_features_measured_again_are_the_bundled_ones(index: int) -> None:
    u = heldout()[index]
    audio = to_frames(resampled(u.recording, RECORDING_RATE_HZ), u.frames)
    assert np.abs(log_energy(audio) - u.energy).max() < 1e-3  # the bundled ones were measured before FLAC's 16 bit
    measured = pitch_hz(audio, VOICE_RANGES[u.voice])
    assert np.mean(np.abs(measured - u.f0_hz) < 0.1) > 0.99


def test_a_sine_has_its_own_pitch_and_energy() -> None:
    seconds = np.arange(24_000) / 24_000
    audio = 0.5 * np.sin(2 * np.pi * 200 * seconds)
    assert np.median(pitch_hz(audio, VOICE_RANGES["slt"])) == pytest.approx(200, abs=0.5)
    assert np.allclose(log_energy(2 * audio)[8:-8] - log_energy(audio)[8:-8], np.log(4), atol=1e-3)  # power, natural log
    assert log_energy(np.zeros(600)) == pytest.approx([np.log(1e-5 * 80**0.5)] * 2, abs=1e-5)


def test_mel_filters_are_triangles_over_all_bins() -> None:
    filters = mel_filters()
    assert filters.shape == (1025, 80)
    assert (filters >= 0).all()
    assert (filters.max(axis=0) > 0.3).all()


def test_frozen_sentences_cannot_come_from_the_generator() -> None:
    held, calibrating = frozen_sentences("heldout"), frozen_sentences("calibration")
    assert not set(held) & set(calibrating)
    assert all(set(words_of(sentence)) - training_words() for sentence in [*held, *calibrating])


def test_the_generator_writes_only_its_own_words_and_repeats_itself() -> None:
    sentences = training_sentences(500, seed=0)
    assert sentences == training_sentences(500, seed=0) != training_sentences(500, seed=1)
    assert {word for sentence in sentences for word in words_of(sentence)} <= training_words()
    assert not set(sentences) & {*frozen_sentences("heldout"), *frozen_sentences("calibration")}


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no .npz"):
        load_folder(tmp_path)


def test_bundled_data_stay_small() -> None:
    folder = Path(__file__).parents[1] / "demo/data"
    assert sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) < 5e6


def test_an_utterance_survives_the_disk(tmp_path: Path) -> None:
    before = heldout()[0]
    save(before, tmp_path)
    (after,) = load_folder(tmp_path)
    assert {f.name for f in tmp_path.iterdir()} == {f"{before.id}.npz", f"{before.id}.flac"}
    assert (before.id, before.phonemes, before.frames) == (after.id, after.phonemes, after.frames)
    assert np.array_equal(before.energy, after.energy)
    assert np.array_equal(before.recording, after.recording)
