"""Synthesis with stages of its own: order, seeds, cutting what is too long, times, and that no
chunk hangs on another.
"""

import itertools

import numpy as np
import pytest
import torch

from kokoro_ane.core.contract import FRAME_SAMPLES
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend
from kokoro_ane.g2p.result import Result
from kokoro_ane.pipeline.synthesis import (
    STAGES,
    Pipeline,
    Speech,
    SpeechOptions,
    SynthesisStats,
)
from kokoro_ane.pipeline.text import phoneme_sentences
from kokoro_ane.pipeline.timestamps import stamp
from kokoro_ane.vocoder.source import HarmonicSource
from tests.commands import refused

VOCAB = {symbol: index + 1 for index, symbol in enumerate("abcdefgh .,!?")}
VOICE = torch.zeros(510, 1, 256)


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

    def run(self, features, style, frames):
        return 0.01 * features[0, 0, :-1].repeat_interleave(5)


class WindowedVocoder(FakeVocoder):
    """Gives these windows instead."""

    def __init__(self, *windows):
        self.windows = windows

    def pieces(self, *_):
        yield from self.windows


def fake_g2p(text):
    """Letters are phonemes; an emoji is dropped."""
    for result in phoneme_sentences(text.replace("☺", " ")):
        yield Result(
            result.text,
            result.phonemes,
            result.words,
            {"emoji": text.count("☺")} if "☺" in text else {},
        )


def pipeline(longest=1200, vocoder=None, g2p=fake_g2p, vocab=VOCAB):
    encoder = EncoderBackend(FakeFunctions(), AlignmentLimits(100, longest))
    clock = itertools.count().__next__
    return Pipeline(g2p, encoder, vocoder or FakeVocoder(), vocab, clock)


def spoken(text, options=None, longest=1200, **given):
    return list(pipeline(longest).speak(text, VOICE, options or SpeechOptions(), **given))


class TestChunks:
    def test_chunks_in_order_each_independent_of_the_others(self):
        raw = SpeechOptions(raw=True)
        found = spoken("abc de. fgh!\n\nab, cd?", raw)
        assert [speech.chunk.phonemes for speech in found] == ["abc de.", "fgh!", "ab, cd?"]
        assert [speech.pause for speech in found] == [0, 4800, 12000]
        assert all(len(speech.samples) == FRAME_SAMPLES * sum(speech.durations) for speech in found)
        assert all(tuple(speech.seconds) == STAGES for speech in found)
        assert all(not speech.audio[: speech.pause].any() for speech in found)
        # Chunk k said alone with seed + k gives the same samples
        found = spoken("abc de. fgh! ab, cd?", SpeechOptions(seed=7, raw=True))
        for index, text in enumerate(("abc de.", "fgh!", "ab, cd?")):
            alone = spoken(text, SpeechOptions(seed=7 + index, raw=True))[0]
            assert np.array_equal(alone.samples, found[index].samples)
        assert not np.array_equal(
            spoken("abc de.", SpeechOptions(seed=8, raw=True))[0].samples, found[0].samples
        )

    def test_too_long_is_cut_until_it_fits_and_nothing_is_lost(self):
        text = "ab cd ef gh, ab cd ef gh ab. cc."
        found = spoken(text, longest=30)
        assert [speech.index for speech in found] == list(range(len(found)))
        assert len(found) > 2
        assert " ".join(speech.chunk.phonemes for speech in found) == text
        assert [speech.pause for speech in found][1] == 1920  # behind the comma
        refused("does not fit one utterance", spoken, "a", longest=2)

    @pytest.mark.parametrize(
        ("second", "message"),
        [
            (np.ones(1800, np.float32), "1800 equal samples at full scale"),
            (np.zeros(1200, np.float32), r"has shape \[4200\], but 8 frames need \[4800\]"),
        ],
    )
    def test_windows_that_are_no_voice_are_refused(self, second, message):
        vocoder = WindowedVocoder(np.zeros(3000, np.float32), second)
        heard = []
        options = SpeechOptions(raw=True, windowed=True)
        with refused(message):
            for block in pipeline(vocoder=vocoder).blocks("ab", VOICE, options):
                heard.append(block)
        assert sum(map(len, heard)) == 3000 + len(second) * (len(second) == 1200)

    def test_speed_goes_to_the_encoder_and_into_the_pauses(self):
        chain = pipeline()
        found = list(chain.speak("ab. cd.", VOICE, SpeechOptions(speed=2.0, raw=True)))
        assert chain.encoder.functions.speeds == [2.0, 2.0]
        assert found[1].pause == 2400
        with refused("speed nan is outside"):
            spoken("ab.", SpeechOptions(speed=float("nan")))

    @pytest.mark.parametrize("text", ["", "  \n ", ". ! ?", "☺"])
    def test_nothing_to_say(self, text):
        refused("nothing to say", spoken, text)

    def test_left_out_is_counted_unknown_named_kept_not_spoken_again(self):
        chain = pipeline()
        list(chain.speak("☺ ab.", VOICE, SpeechOptions()))
        assert chain.dropped == {"emoji": 1}
        refused(r"'z' \(U\+007A\) at 1", spoken, "az.")
        first = spoken("abc de. fgh!", SpeechOptions(raw=True))
        again = spoken(
            "abc de. fgh!",
            SpeechOptions(raw=True),
            earlier=lambda index, chunk: first[index] if index == 0 else None,
        )
        assert again[0] is first[0]
        assert np.array_equal(again[1].samples, first[1].samples)
        assert again[1].pause == first[1].pause

    def test_stamps_sum_up_and_words_lie_where_their_phonemes_do(self):
        offset = 0
        for speech in spoken("abc de. fgh!", SpeechOptions(raw=True)):
            found = stamp(speech, offset)
            edges = [found["start_s"], *(end for _, _, end in found["phonemes"])]
            assert edges == sorted(edges)
            assert all(
                start == edge for (_, start, _), edge in zip(found["phonemes"], edges, strict=False)
            )
            offset += len(speech.audio)
            assert found["end_s"] == pytest.approx(offset / 24000, abs=1e-6)
            for word in found["words"]:
                inside = [
                    s
                    for s, start, end in found["phonemes"]
                    if word["start_s"] <= start and end <= word["end_s"]
                ]
                assert "".join(inside) == word["phonemes"]
                assert word["text"] == "abc de. fgh!"[word["start"] : word["end"]]

    def test_tally_counts_only_what_this_run_spoke(self):
        first, stats = spoken("abc de. fgh!"), SynthesisStats(clock=itertools.count().__next__)
        for speech in (
            first[0],
            Speech(1, first[1].chunk, first[1].durations, first[1].samples, 4800, 0.5, 2.0),
        ):
            stats.add(speech)
        report = stats.report()
        assert report["chunks"] == 2
        assert report["chunks_of_an_earlier_run"] == 1
        assert report["seconds_of_audio"] == (sum(len(s.samples) for s in first) + 4800) / 24000
        assert report["chunks_turned_down"] == 1
        assert report["turned_down_db"] == pytest.approx(-6.02)
        assert report["peak_of_the_model"] == 2.0
        spent = sum(first[0].seconds.values())
        assert report["real_time_factor"] == pytest.approx(
            spent / (len(first[0].samples) / 24000), rel=1e-3
        )
