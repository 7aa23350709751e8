"""The conductor with stages of its own: order, seeds, cutting what is too long, times, and that no chunk hangs on another."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from core.contract import FRAME_SAMPLES
from core.errors import InputError, UtteranceTooLong
from encoder.functions import Encoded
from g2p.result import Result
from pipeline.conductor import STAGES, Manner, Pipeline, Speech
from pipeline.reading import PhonemeReader
from pipeline.tally import Tally
from pipeline.timestamps import stamp
from vocoder.packing import VocoderInputs
from vocoder.source import HarmonicSource

VOCAB = {symbol: index + 1 for index, symbol in enumerate("abcdefgh .,!?")}
VOICE = torch.zeros(510, 1, 256)


class FakeEncoder:
    """Two frames a token; refuses more than `longest` frames."""

    def __init__(self, longest: int = 1200) -> None:
        self.longest, self.speeds = longest, []

    def encode(self, ids: tuple[int, ...], style: torch.Tensor, speed: float) -> Encoded:
        frames = 2 * len(ids)
        self.speeds.append(speed)
        if frames > self.longest:
            raise UtteranceTooLong(f"{frames} frames")
        empty, durations = torch.zeros(1, 4, frames), torch.full((len(ids),), 2)
        f0_hz, energy = torch.full((1, 2 * frames), 100.0), torch.zeros(1, 2 * frames)
        return Encoded(durations.float(), durations, empty, empty, empty, empty, f0_hz, energy)


class FakeVocoder:
    """Gives back the spectrum's first row, drawn out: audio that hangs on the noise."""

    source = HarmonicSource()

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        return 0.01 * np.repeat(inputs.spectrum[0, 0, :-1].numpy(), 5)


class FakeG2P:
    """Letters are phonemes; an emoji is dropped."""

    def sentences(self, text: str) -> Iterator[Result]:
        for result in PhonemeReader().sentences(text.replace("☺", " ")):
            yield Result(result.text, result.phonemes, result.words, {"emoji": text.count("☺")} if "☺" in text else {})


def pipeline(longest: int = 1200) -> Pipeline:
    ticks = itertools.count()
    return Pipeline(FakeG2P(), FakeEncoder(longest), FakeVocoder(), VOCAB, clock=lambda: next(ticks))


def spoken(text: str, manner: Manner | None = None, longest: int = 1200, **given: object) -> list[Speech]:
    return list(pipeline(longest).speak(text, VOICE, manner or Manner(), **given))


def test_chunks_in_order_with_pauses_between() -> None:
    found = spoken("abc de. fgh!\n\nab, cd?")
    assert [speech.chunk.phonemes for speech in found] == ["abc de.", "fgh!", "ab, cd?"]
    assert [speech.pause for speech in found] == [0, 4800, 12000]
    assert all(len(speech.samples) == FRAME_SAMPLES * sum(speech.durations) for speech in found)
    assert all(tuple(speech.seconds) == STAGES for speech in found)
    assert all(not speech.audio[: speech.pause].any() for speech in found)


def test_each_chunk_is_independent_of_the_others() -> None:
    """Chunk k said alone with seed + k gives the same samples."""
    found = spoken("abc de. fgh! ab, cd?", Manner(seed=7))
    for index, text in enumerate(("abc de.", "fgh!", "ab, cd?")):
        alone = spoken(text, Manner(seed=7 + index))[0]
        assert np.array_equal(alone.samples, found[index].samples)
    assert not np.array_equal(spoken("abc de.", Manner(seed=8))[0].samples, found[0].samples)


def test_too_long_is_cut_until_it_fits_and_nothing_is_lost() -> None:
    text = "ab cd ef gh, ab cd ef gh ab. cc."
    found = spoken(text, longest=30)
    assert [speech.index for speech in found] == list(range(len(found))) and len(found) > 2
    assert " ".join(speech.chunk.phonemes for speech in found) == text
    assert [speech.pause for speech in found][1] == 1920  # behind the comma
    with pytest.raises(InputError, match="does not fit one utterance"):
        spoken("a", longest=2)


def test_speed_goes_to_the_encoder_and_into_the_pauses() -> None:
    chain = pipeline()
    found = list(chain.speak("ab. cd.", VOICE, Manner(speed=2.0)))
    assert chain.encoder.speeds == [2.0, 2.0] and found[1].pause == 2400
    with pytest.raises(InputError, match="speed nan is outside"):
        spoken("ab.", Manner(speed=float("nan")))


@pytest.mark.parametrize("text", ["", "  \n ", ". ! ?", "☺"])
def test_nothing_to_say(text: str) -> None:
    with pytest.raises(InputError, match="nothing to say"):
        spoken(text)


def test_what_was_left_out_is_counted() -> None:
    chain = pipeline()
    list(chain.speak("☺ ab.", VOICE, Manner()))
    assert chain.dropped == {"emoji": 1}


def test_unknown_phoneme_is_named() -> None:
    with pytest.raises(InputError, match=r"'z' \(U\+007A\) at 1"):
        spoken("az.")


def test_kept_chunks_are_not_spoken_again() -> None:
    first = spoken("abc de. fgh!")
    again = spoken("abc de. fgh!", kept=lambda index, chunk: first[index] if index == 0 else None)
    assert again[0] is first[0] and np.array_equal(again[1].samples, first[1].samples) and again[1].pause == first[1].pause


def test_stamps_sum_up_and_words_lie_where_their_phonemes_do() -> None:
    offset = 0
    for speech in spoken("abc de. fgh!"):
        found = stamp(speech, offset)
        edges = [found["start_s"], *(end for _, _, end in found["phonemes"])]
        assert edges == sorted(edges) and all(start == edge for (_, start, _), edge in zip(found["phonemes"], edges, strict=False))
        offset += len(speech.audio)
        assert found["end_s"] == pytest.approx(offset / 24000, abs=1e-6)
        for word in found["words"]:
            inside = [s for s, start, end in found["phonemes"] if word["start_s"] <= start and end <= word["end_s"]]
            assert "".join(inside) == word["phonemes"] and word["text"] == "abc de. fgh!"[word["start"] : word["end"]]


def test_tally_counts_only_what_this_run_spoke() -> None:
    first = spoken("abc de. fgh!")
    tally = Tally(clock=itertools.count().__next__)
    for speech in (first[0], Speech(1, first[1].chunk, first[1].durations, first[1].samples, 4800, 0.5, 2.0)):
        tally.add(speech)
    report = tally.report()
    assert report["chunks"] == 2 and report["chunks_of_an_earlier_run"] == 1
    assert report["seconds_of_audio"] == (sum(len(s.samples) for s in first) + 4800) / 24000
    assert report["chunks_turned_down"] == 1 and report["turned_down_db"] == pytest.approx(-6.02) and report["peak_of_the_model"] == 2.0
    spent = sum(first[0].seconds.values())
    assert report["real_time_factor"] == pytest.approx(spent / (len(first[0].samples) / 24000), rel=1e-3)
