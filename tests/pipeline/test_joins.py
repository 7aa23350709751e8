"""Joins: where sound is found, what is cut, whose samples are whose in a shared call, and what an
open pipe gives. Signals that say what is right, and real Kokoro where it is slow.
"""

import io
import os
import queue
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.heard_joins import LONG, measure_silences
from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import FRAME_SAMPLES, PADDED_BUCKETS
from kokoro_ane.eval.metrics.framing import at_16_khz
from kokoro_ane.eval.metrics.listeners import recognized
from kokoro_ane.pipeline.joins import (
    PLOSIVES,
    RELEASE_SAMPLES,
    JoinTrim,
    NoPause,
    find_edges,
    find_sounds,
    last_sound,
    lengthen_pauses,
    move_to_sound,
    split_shares,
)
from kokoro_ane.pipeline.synthesis import Pipeline, Speech, SpeechOptions
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.runtimes.opened_voice import open_voice
from kokoro_ane.runtimes.registry import open_runtime
from kokoro_g2p.alphabet import voice_language
from kokoro_g2p.text import (
    LiveText,
    calls,
    chunks,
    is_pipe,
    measure_whole_part,
    phoneme_sentences,
    text_reader,
)
from tests.commands import refused
from tests.pipeline.test_synthesis import VOICE, FakeVocoder, pipeline, spoken

ROOT = Path(__file__).resolve().parents[2]
FADE = 120  # 5 ms


def silence(samples):
    return np.zeros(samples, np.float32)


def tone(samples, level=0.3):
    return (level * np.sin(np.arange(samples) * 0.4 + 1)).astype(np.float32)


# 12 frames of silence, "ab" of 4 frames each, its last sound drawn out over 8 more of silence
DURATIONS = [12, 4, 12, 2]
WORD = np.concatenate([silence(6000), tone(6000), silence(6000)])


class TestTrim:
    # the first chunk of a text keeps what is before its sound
    @pytest.mark.parametrize("first, start", [(False, 6000 - FADE), (True, 0)])
    @pytest.mark.parametrize(
        "cuts", [[], [3000], [6060, 11_000], [17_990], list(range(60, 18_000, 600))]
    )
    def test_the_sound_stays_and_the_silence_goes_in_any_pieces(self, cuts, first, start):
        trim = JoinTrim(find_edges(DURATIONS), "ab", first)
        samples = np.concatenate([trim(piece) for piece in np.split(WORD, cuts)])
        assert trim.start == start
        assert np.array_equal(samples, WORD[start : 12_000 + FADE])

    def test_nothing_is_held_back_before_the_last_sound(self):
        durations = [12, 60, 12, 2]
        trim = JoinTrim(find_edges(durations), "ab", first=False)
        early = trim(np.concatenate([silence(6000), tone(30_000)]))
        assert len(early) == 30_000 + FADE

    @pytest.mark.parametrize("phonemes, length", [("as", 12_000 + 1200), ("aa", 12_000)])
    def test_a_consonant_of_noise_fades_out_slowly(self, phonemes, length):
        faint = WORD.copy()
        faint[12_000:13_200] = tone(1200, 0.005)
        samples = JoinTrim(find_edges(DURATIONS), phonemes, first=True)(faint)
        assert len(samples) == length + FADE

    def test_a_sound_too_soft_to_find_stays_by_its_durations(self):
        soft = 0.01 * WORD
        edges = find_edges(DURATIONS)
        trim = JoinTrim(edges, "ab", first=False)
        samples = trim(soft)
        assert trim.start == edges[1] - FADE
        assert trim.start + len(samples) == edges[2] + FADE


TICK = np.array([0.2, -0.1], np.float32)


def behind(sound, at):
    """Twelve frames of a word, and a sound so many samples behind it."""
    samples = np.concatenate([tone(7200), silence(6000)])
    samples[7200 + at : 7200 + at + len(sound)] = sound
    return samples


class TestTicks:
    """What is shorter than 30 ms, behind 10 ms of quiet behind the last phone, is no sound."""

    @pytest.mark.parametrize("at", [300, 1000, 3000, 5000])
    @pytest.mark.parametrize("phonemes", ["a", "s"])
    def test_a_tick_behind_the_word_is_cut_and_the_word_is_whole(self, at, phonemes):
        samples = behind(TICK, at)
        assert last_sound(samples, 0, find_edges([2, 10, 10]), phonemes) == 7200
        for cuts in ([3000, 6000, 9000], [7200], [7100, 7300], [12_600], [9000, 9001]):
            trim = JoinTrim(find_edges([2, 10, 10]), phonemes, first=True)
            pieces = [trim(piece) for piece in np.split(samples, cuts)]
            assert len(np.concatenate(pieces)) == 7200 + FADE

    @pytest.mark.parametrize(
        "phonemes, sound, at, end",
        [
            ("a", tone(2400), 0, 2400),
            ("a", tone(1200), 600, 1800),
            ("t", TICK, 1200, 1260),
            ("a", tone(720), 2400, 0),
            ("a", tone(780), 2400, 3180),
        ],
        ids=["rings out", "goes on", "a late release", "30 ms", "long"],
    )
    def test_no_word_loses_sound(self, phonemes, sound, at, end):
        samples = behind(sound, at)
        assert last_sound(samples, 0, find_edges([2, 10, 10]), phonemes) == 7200 + end

    def test_speech_behind_a_tick_is_speech(self):
        samples = behind(tone(2400), 2640)
        samples[9600:9602] = TICK
        assert last_sound(samples, 0, find_edges([2, 10, 10]), "a") == 7200 + 5040

    def test_a_consonant_of_noise_fades_out_before_the_tick(self):
        samples = behind(tone(1200, 0.005), 0)
        samples[7800:7802] = TICK
        assert last_sound(samples, 0, find_edges([2, 10, 10]), "s") == 7800 - FADE


class TestHeard:
    def test_words_lie_where_they_sound(self):
        # "ab, cd." by durations: each sound late by 2 frames, b drawn out over the pause
        samples = np.concatenate(
            [silence(6000), tone(6000), silence(4800), tone(6000), silence(4200)]
        )
        durations = [12, 4, 12, 2, 2, 4, 6, 2, 1]
        edges = move_to_sound(samples, find_edges(durations), "ab, cd.")
        assert edges[1] == 6000
        assert edges[3] == 12_000
        assert edges[5] == 16_800
        assert edges[7] == 22_800
        assert edges[0] == 0
        assert edges[-1] == len(samples)
        assert (np.diff(edges) > 0).all()

    def test_no_word_is_left_without_time(self):
        rng = np.random.default_rng(0)
        for _ in range(200):
            durations = rng.integers(1, 9, 9).tolist()
            bursts = rng.random(sum(durations) * 5) > 0.5
            samples = np.repeat(bursts * 0.1, FRAME_SAMPLES // 5).astype(np.float32)
            edges = move_to_sound(samples, find_edges(durations), "a, b, d")
            assert (np.diff(edges) >= 0).all()
            assert all(edges[place + 1] < edges[place + 2] for place in (0, 3, 6))


def short_call(pause):
    """Samples, durations and parts of "ab." and "cd." in one call, so many samples apart."""
    parts = ["ab.", "cd."]
    durations = lengthen_pauses(np.array([12, 4, 2, 1, 1, 4, 6, 2, 1]), parts).tolist()
    samples = [silence(6000), tone(6000), silence(pause), tone(15_000)]
    rest = FRAME_SAMPLES * sum(durations) - sum(map(len, samples))
    return np.concatenate([*samples, silence(rest)]), durations, parts


class TestSharedCalls:
    def test_very_short_neighbours_of_one_pace_share_a_call(self):
        def planned(text):
            sentences = chunks(phoneme_sentences(text), text)
            return [[chunk.phonemes for chunk in call] for call in calls(sentences)]

        assert planned("ab. cd. ef!") == [["ab.", "cd.", "ef!"]]
        assert planned("ab. abcdefghijkl. cd. ef.") == [["ab."], ["abcdefghijkl."], ["cd.", "ef."]]
        assert all(len(" ".join(call)) <= 60 for call in planned("abcd ef. " * 30))
        # of a shared call and the next one
        assert [speech.index for speech in spoken("ab. cd. abcdefgh abcd.")] == [0, 1, 2]

    def test_ends_are_drawn_out_and_shares_are_cut_in_the_pause(self):
        samples, durations, parts = short_call(4800)
        assert durations == [12, 4, 10, 8, 6, 4, 6, 2, 1]
        first, second = split_shares(samples, durations, parts)
        assert np.array_equal(np.concatenate([*first.pieces, *second.pieces]), samples)
        assert len(*first.pieces) == 12_000 + 2400
        assert first.durations == (12, 4, 10, 8, 6)
        assert second.durations == (0, 4, 6, 2, 1)
        assert len(second.edges) == 6
        assert second.edges[-1] == len(*second.pieces)

    def test_control_words_that_run_together_are_not_cut(self):
        pytest.raises(NoPause, split_shares, *short_call(600)).match("no pause behind")

    def test_a_vocoder_that_makes_no_pause_says_each_alone(self):
        class Loud(FakeVocoder):
            def run(self, features, style, statistics, frames):
                return torch.from_numpy(tone(FRAME_SAMPLES * frames))

        chain = pipeline(vocoder=Loud())
        speeches = list(chain.speak("ab. cd.", VOICE, SpeechOptions()))
        assert [speech.chunk.phonemes for speech in speeches] == ["ab.", "cd."]
        assert len(chain.encoder.functions.speeds) == 3


class Speaks(FakeVocoder):
    """Its sounds are a tone; its boundaries, marks and spaces are silent."""

    def run(self, features, style, statistics, frames):
        speech = [silence(1200), tone(FRAME_SAMPLES * (frames - 4)), silence(1200)]
        return torch.from_numpy(np.concatenate(speech))


class SpeaksInWindows(Speaks):
    def render_pieces(self, *inputs):
        yield from torch.tensor_split(self.run(*inputs), 5)


@pytest.mark.parametrize("vocoder", [Speaks(), SpeaksInWindows()])
def test_silence_at_a_join_is_what_the_text_asks_for(vocoder):
    text = "abcdefgh abcd. abcdefgh abcd!\n\nabcdefgh abcd."
    samples, audio = [], []
    for block in pipeline(vocoder=vocoder).blocks(text, VOICE, SpeechOptions(windowed=True)):
        if isinstance(block, Speech):
            audio.append(block.audio)
            assert block.edges[-1] == len(block.samples)
        else:
            samples.append(block)
    played = np.concatenate(samples)
    assert np.array_equal(played, np.concatenate(audio))
    loud = np.flatnonzero(np.abs(played) > 0.01)
    gaps = np.diff(loud)[np.diff(loud) > 100]
    assert np.abs(gaps - [4800 + 2 * FADE, 12_000 + 2 * FADE]).max() < 10
    # the text's first chunk keeps what is before its sound
    assert abs(loud[0] - 1200) < 10


LIVE = [
    line.replace("⏎", "\n").split("\t")
    for line in (ROOT / "swift/Tests/live_text.tsv").read_text(encoding="utf-8").splitlines()[1:]
]


class TestPipe:
    def test_a_part_is_whole_whatever_comes_next(self):
        for text, idle, part in LIVE:
            assert text[: measure_whole_part(text, idle == "yes")] == part, (text, idle)
        assert measure_whole_part('<prosody rate="slow">One. Two. ', idle=True) == 0

    def test_sentences_come_as_they_complete_and_nothing_is_lost(self):
        reading, writing = os.pipe()
        heard = queue.Queue()
        tokens = ["The first", " one", ". The sec", "ond", " one", "? And", " the r"]

        def write():
            for token in tokens:
                os.write(writing, token.encode())
                time.sleep(0.05)
            # the pipe stays open until what is whole has been heard
            parts.extend(heard.get(timeout=60) for _ in range(2))
            os.write(writing, "é".encode()[:1])
            os.write(writing, "é".encode()[1:] + b"st\n\n")
            parts.append(heard.get(timeout=60))
            os.close(writing)

        parts = []
        writer = threading.Thread(target=write)
        writer.start()
        with os.fdopen(reading, "rb") as stream:
            assert is_pipe(stream)
            live = LiveText(stream)
            for part in live:
                heard.put(part)
        writer.join()
        assert parts == ["The first one.", " The second one?", " And the rést\n\n"]
        assert live[4:9] == "first"

    def test_bytes_that_are_no_utf8_are_named(self, monkeypatch):
        monkeypatch.setattr("kokoro_g2p.text.BLOCK_BYTES", 2)
        reading, writing = os.pipe()
        os.write(writing, b"abc \xff")
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            refused("byte 0xff at 4", list, LiveText(stream))

    def test_memory_is_no_pipe(self):
        assert not is_pipe(io.BytesIO(b"abc"))

    def test_parts_are_spoken_as_a_whole_with_places_of_the_whole(self):
        parts = ["abcdefgh abcd. ", "abcdefgh abcd!\n\n", "abcdefgh abcd."]
        whole, live = spoken("".join(parts)), spoken(parts)
        for one, other in zip(whole, live, strict=True):
            assert one.chunk == other.chunk
            assert one.pause == other.pause
            assert np.array_equal(one.samples, other.samples)


SHORT = "Hi. No? A. Go! Yes. Oh. Two. Stop! Okay. Me? Thanks. Wait.".split()


def bursts(samples, start):
    """Begin and length, in steps of 2.5 ms behind `start`, of what passes -40 dBFS, with less than
    10 ms of quiet inside.
    """
    count = max(0, len(samples) - start) // 60
    steps = np.abs(samples[start : start + 60 * count].reshape(count, 60)).max(axis=1, initial=0)
    loud = np.flatnonzero(steps > 0.01)
    runs = np.split(loud, np.flatnonzero(np.diff(loud) > 4) + 1) if len(loud) else []
    return [(int(run[0]), int(run[-1] + 1 - run[0])) for run in runs]


@pytest.fixture(scope="module")
def kokoro():
    """Real Kokoro's checkpoint, and its models in PyTorch."""
    checkpoint = open_checkpoint("kokoro-int8")
    return checkpoint, open_runtime("torch", PackageRequest(checkpoint, Path("build"), ""))


def voice_of(kokoro, name):
    checkpoint, opened = kokoro
    return open_voice(checkpoint, name, opened.vocoder.predictor)


@pytest.mark.slow
def test_short_texts_of_real_kokoro_end_without_a_tick_in_every_voice(kokoro):
    checkpoint, opened = kokoro
    ticked, left, shortened = [], [], []
    for voice in checkpoint.voices:
        reader = text_reader(voice_language(voice))
        chain = Pipeline(reader, opened.encoder, opened.vocoder, checkpoint.config.vocab)
        for text in SHORT:
            (speech,) = chain.speak(text, voice_of(kokoro, voice), SpeechOptions(raw=True))
            phonemes, samples, edges = speech.chunk.phonemes, speech.samples, np.array(speech.edges)
            place = find_sounds(phonemes)[-1]
            late = RELEASE_SAMPLES if phonemes[place] in PLOSIVES else 0
            over = int(edges[place + 2]) + late  # the last phone, by durations
            end = last_sound(samples, 0, edges, phonemes)
            for ticks, audio in ((ticked, samples), (left, samples[: end + FADE])):
                ticks += [
                    (voice, text) for at, steps in bursts(audio, over) if at >= 4 and steps <= 12
                ]
            lost = [steps for _, steps in bursts(samples, end) if steps > 12]
            if lost or bursts(samples[:over], end):
                shortened.append((voice, text))
    print(f"{len(set(ticked))} of {len(checkpoint.voices) * len(SHORT)} tick in the model")
    assert len(set(ticked)) > 10
    assert not left
    assert not shortened


@pytest.mark.slow
def test_a_sentence_that_no_bucket_holds_is_heard_as_the_whole_one(kokoro):
    """Of 20 s and without a mark: two parts that a padded package holds, by real Kokoro."""
    checkpoint, opened = kokoro
    limits = replace(opened.encoder.limits, total_frames=PADDED_BUCKETS[-1])
    reader, text = text_reader("us"), " ".join(LONG.split()[:51])
    runs, missed = [], []
    for encoder in (opened.encoder, replace(opened.encoder, limits=limits)):
        chain = Pipeline(reader, encoder, opened.vocoder, checkpoint.config.vocab)
        runs.append(list(chain.speak(text, voice_of(kokoro, "af_heart"), SpeechOptions(0.75))))
        audio = np.concatenate([speech.audio for speech in runs[-1]])
        missed.append((Counter(text.split()) - Counter(recognized(at_16_khz(audio)))).total())
    (whole,), parts = runs
    frames, gaps = [sum(part.durations) for part in parts], list(measure_silences(parts))
    print(f"{sum(whole.durations)} frames, cut {frames}; of 51 words missed {missed}; {gaps} s")
    assert sum(whole.durations) > 750
    assert max(frames) <= PADDED_BUCKETS[-1]
    assert " ".join(part.chunk.phonemes for part in parts) == whole.chunk.phonemes
    assert max(gaps) < 0.2
    assert missed[1] <= missed[0] + 1
