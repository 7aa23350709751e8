"""Synthesis with stages of its own: order, seeds, cutting what is too long, times, and that no
chunk hangs on another.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from kokoro_ane.core.voices import Voice
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend
from kokoro_ane.pipeline.synthesis import (
    STAGES,
    Pipeline,
    SpeechOptions,
    SynthesisStats,
)
from kokoro_ane.pipeline.timestamps import stamp
from kokoro_ane.vocoder.source import HarmonicSource
from kokoro_g2p.text import phoneme_sentences
from tests.commands import refused

VOCAB = {symbol: index + 1 for index, symbol in enumerate("abcdefgh .,!?")}
VOICE = Voice(np.zeros((510, 1, 256), np.float32))


class FakeFunctions:
    """Two frames a token; the speeds that it was asked for."""

    def __init__(self):
        self.speeds = []

    def duration(self, ids, style, speed):
        self.speeds.append(float(speed))
        columns = torch.zeros(1, 4, 1, ids.shape[1])
        return torch.full(ids.shape, 2.0), columns, columns

    def prosody(self, frames, style):
        count = 2 * frames.shape[-1]
        return torch.full((1, count), 100.0), torch.zeros(1, count)


class FakeVocoder:
    """Gives back the spectrum's first row, drawn out: audio that follows the noise."""

    arrays = False
    source = HarmonicSource(np.full(9, 0.1, np.float32), 0.0)

    def pack(self, inputs):
        return inputs.spectrum

    def run(self, features, style, statistics, frames):
        return 0.01 * features[0, 0, :-1].repeat_interleave(5)


class WindowedVocoder(FakeVocoder):
    """Gives these windows instead."""

    def __init__(self, *windows):
        self.windows = windows

    def render_pieces(self, *_):
        yield from self.windows


def fake_g2p(text):
    """Letters are phonemes; an emoji is dropped."""
    for result in phoneme_sentences(text.replace("☺", " ")):
        yield replace(result, dropped={"emoji": text.count("☺")})


def pipeline(longest=1200, vocoder=None, g2p=fake_g2p, vocab=VOCAB):
    encoder = EncoderBackend(FakeFunctions(), AlignmentLimits(100, longest))
    clock = itertools.count().__next__
    return Pipeline(g2p, encoder, vocoder or FakeVocoder(), vocab, clock)


def spoken(text, options=None, longest=1200, **arguments):
    return list(pipeline(longest).speak(text, VOICE, options or SpeechOptions(), **arguments))


RAW = SpeechOptions(raw=True)


class TestChunks:
    def test_chunks_in_order_each_independent_of_the_others(self):
        texts = ["abc de.", "fgh!", "ab, cd?"]
        speeches = spoken("abc de. fgh!\n\nab, cd?", replace(RAW, seed=7))
        assert [speech.chunk.phonemes for speech in speeches] == texts
        assert [speech.pause for speech in speeches] == [0, 4800, 12000]
        for index, (speech, text) in enumerate(zip(speeches, texts, strict=True)):
            # chunk k said alone with seed + k gives the same samples, another seed others
            alone, other = (
                spoken(text, replace(RAW, seed=seed))[0].samples for seed in (7 + index, 6 + index)
            )
            assert len(speech.samples) == FRAME_SAMPLES * sum(speech.durations)
            assert tuple(speech.seconds) == STAGES
            assert not speech.audio[: speech.pause].any()
            assert np.array_equal(alone, speech.samples)
            assert not np.array_equal(other, speech.samples)

    def test_too_long_is_cut_until_it_fits_and_nothing_is_lost(self):
        text = "ab cd ef gh, ab cd ef gh ab. cc."
        speeches = spoken(text, longest=30)
        assert [speech.index for speech in speeches] == list(range(len(speeches)))
        assert len(speeches) > 2
        assert " ".join(speech.chunk.phonemes for speech in speeches) == text
        assert speeches[1].pause == 1920  # behind the comma
        refused("does not fit one utterance", spoken, "a", longest=2)

    @pytest.mark.parametrize(
        "second, message, heard",
        [
            (np.ones(1800, np.float32), "1800 equal samples at full scale", 3000),
            (np.zeros(1200, np.float32), r"has shape \[4200\], but 8 frames need \[4800\]", 4200),
        ],
    )
    def test_windows_that_are_no_voice_are_refused(self, second, message, heard):
        chain, samples = pipeline(vocoder=WindowedVocoder(np.zeros(3000, np.float32), second)), 0
        with refused(message):
            for block in chain.blocks("ab", VOICE, replace(RAW, windowed=True)):
                samples += len(block)
        assert samples == heard

    def test_speed_goes_to_the_encoder_and_into_the_pauses(self):
        chain = pipeline()
        _, second = chain.speak("ab. cd.", VOICE, replace(RAW, speed=2.0))
        assert chain.encoder.functions.speeds == [2.0, 2.0]
        assert second.pause == 2400
        refused("speed nan is outside", spoken, "ab.", SpeechOptions(speed=float("nan")))

    @pytest.mark.parametrize("text", ["", "  \n ", ". ! ?", "☺"])
    def test_nothing_to_say(self, text):
        refused("nothing to say", spoken, text)

    def test_left_out_is_counted_unknown_named_kept_not_spoken_again(self):
        chain = pipeline()
        list(chain.speak("☺ ab.", VOICE, SpeechOptions()))
        assert chain.dropped == {"emoji": 1}
        refused(r"'z' \(U\+007A\) at 1", spoken, "az.")
        first = spoken("abc de. fgh!", RAW)
        again = spoken("abc de. fgh!", RAW, earlier=lambda index, _: None if index else first[0])
        assert again[0] is first[0]
        assert np.array_equal(again[1].samples, first[1].samples)
        assert again[1].pause == first[1].pause

    def test_stamps_sum_up_and_words_lie_where_their_phonemes_do(self):
        text, offset = "abc de. fgh!", 0
        for speech in spoken(text, RAW):
            times = stamp(speech, offset)
            symbols, starts, ends = zip(*times["phonemes"], strict=True)
            assert starts == (times["start_s"], *ends[:-1])
            assert list(ends) == sorted(ends)
            offset += len(speech.audio)
            assert times["end_s"] == pytest.approx(offset / SAMPLE_RATE_HZ, abs=1e-6)
            for word in times["words"]:
                first, last = starts.index(word["start_s"]), ends.index(word["end_s"])
                assert "".join(symbols[first : last + 1]) == word["phonemes"]
                assert text[word["start"] : word["end"]] == word["text"]

    def test_tally_counts_only_what_this_run_spoke(self):
        stats = SynthesisStats(clock=itertools.count().__next__)
        new, second = spoken("abc de. fgh!")
        for speech in (new, replace(second, seconds={}, pause=4800, gain=0.5, peak=2.0)):
            stats.heard(2 * SAMPLE_RATE_HZ)
            stats.add(speech)
        report, samples = stats.report(), len(new.samples) + len(second.samples) + 4800
        spoken_s = len(new.samples) / SAMPLE_RATE_HZ
        assert report["chunks"] == 2
        assert report["chunks_of_an_earlier_run"] == 1
        assert report["seconds_of_audio"] == samples / SAMPLE_RATE_HZ
        assert report["chunks_turned_down"] == 1
        assert report["turned_down_db"] == pytest.approx(-6.02)
        assert report["peak_of_the_model"] == 2.0
        assert report["real_time_factor"] == pytest.approx(
            sum(new.seconds.values()) / spoken_s, rel=1e-3
        )
        # of the clock's ticks: the first samples at 1, 2 s of audio before the next at 2
        assert (report["first_audio_s"], report["least_margin_s"]) == (1, 1)
