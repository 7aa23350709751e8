"""Chunks and joins by themselves: nothing is lost where a sentence is cut, nothing clicks where chunks meet, nothing passes full scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.contract import FRAME_SAMPLES
from kokoro_ane.core.errors import UtteranceTooLong
from kokoro_ane.g2p.chunks import ending_of
from kokoro_ane.g2p.result import Result, Word
from kokoro_ane.pipeline.audio import CEILING, FADE_SAMPLES, fade, finished, join_db, largest_step, own_step, to_pcm
from kokoro_ane.pipeline.text import Chunk, Pauses, PhonemeReader, chunks, cut, halves

SYMBOLS = "abdefhijklmnopstuvwz"


def sentence(text: str) -> Result:
    return next(PhonemeReader().sentences(text))


@st.composite
def sentences(draw: st.DrawFn) -> str:
    words = draw(st.lists(st.text(SYMBOLS, min_size=1, max_size=9), min_size=1, max_size=80))
    marks = draw(st.lists(st.sampled_from(["", "", "", ",", ";", " —"]), min_size=len(words), max_size=len(words)))
    return " ".join(word + mark for word, mark in zip(words, marks, strict=True)) + "."


@given(sentences(), st.integers(1, 120))
@settings(max_examples=60, deadline=None)
def test_cutting_loses_nothing_and_keeps_the_limit(text: str, longest: int) -> None:
    whole = Chunk.of(sentence(text).words)
    parts = list(cut(whole, longest)) if longest > 9 else [whole]
    assert all(len(part.phonemes) <= longest for part in parts) or longest <= 9
    assert "".join(part.phonemes for part in parts).replace(" ", "") == whole.phonemes.replace(" ", "")
    assert [word.start for part in parts for word in part.words] == sorted(word.start for part in parts for word in part.words)
    assert parts[-1].ending == whole.ending == "sentence"
    for part in parts:
        assert all(part.phonemes[place:].startswith(word.phonemes) for word, place in zip(part.words, part.places, strict=True))


def test_cut_at_a_mark_near_the_middle() -> None:
    left, right = halves(Chunk.of(sentence("aa bb cc dd, ee ff gg hh ii jj.").words))
    assert left.phonemes == "aa bb cc dd," and left.ending == "clause"
    assert right.phonemes == "ee ff gg hh ii jj." and right.ending == "sentence"


def test_cut_between_words_then_inside_one() -> None:
    left, right = halves(Chunk.of(sentence("aaaa bbbb cccc dddd").words))
    assert (left.phonemes, right.phonemes, left.ending) == ("aaaa bbbb", "cccc dddd", "none")
    left, right = halves(Chunk.of(sentence("aaaabbbb").words))
    assert (left.phonemes, right.phonemes) == ("aaaa", "bbbb")
    assert left.words[0].start == right.words[0].start == 0 and left.words[0].end == 8
    with pytest.raises(UtteranceTooLong, match="'a' at 0 does not fit"):
        halves(Chunk.of(sentence("a").words))


@pytest.mark.parametrize(
    ("text", "ending"),
    [("a.", "sentence"), ("a?”", "sentence"), ("a…", "sentence"), ("a,", "clause"), ("a —", "clause"), ("a", "none"), ("(a)", "none")],
)
def test_ending(text: str, ending: str) -> None:
    assert ending_of(text) == ending


def test_paragraphs_and_sentences_with_nothing_to_say() -> None:
    text = "aa bb.\n\nkk. ... !\ncc dd.\n  \nee."
    found = list(chunks(PhonemeReader().sentences(text), text))
    assert [(chunk.phonemes, chunk.ending) for chunk in found] == [
        ("aa bb.", "paragraph"), ("kk.", "sentence"), ("cc dd.", "paragraph"), ("ee.", "sentence")
    ]  # fmt: skip
    assert all(text[word.start : word.end] == word.text for chunk in found for word in chunk.words)


def test_words_without_phonemes_are_left_out() -> None:
    words = (Word("a", 0, 1, "a", "a", "gold"), Word("-", 2, 3, "", "", "rule"), Word("b", 4, 5, "b", "b", "gold", space=False))
    chunk = next(chunks(iter([Result("a - b", "a b", words)]), "a - b"))
    assert chunk.phonemes == "a b" and chunk.places == (0, 2)


def test_pauses_follow_the_pace() -> None:
    pauses = Pauses()
    assert pauses.samples("sentence", 1.0) == 4800 and pauses.samples("sentence", 2.0) == 2400
    assert pauses.samples("none", 1.0) == 0
    assert pauses.samples("paragraph", 1.0) > pauses.samples("sentence", 1.0) > pauses.samples("clause", 1.0)


waveforms = st.builds(
    lambda seed, frames, level: level * np.random.default_rng(seed).uniform(-1, 1, frames * FRAME_SAMPLES).astype(np.float32),
    st.integers(0, 9999), st.integers(1, 12), st.floats(0.01, 4.0),
)  # fmt: skip


@given(waveforms, waveforms, st.integers(0, 5000))
@settings(max_examples=60, deadline=None)
def test_no_join_is_louder_than_the_voice(one: np.ndarray, other: np.ndarray, pause: int) -> None:
    """Even noise at any level, joined anywhere, moves less at the join than inside."""
    before, after = finished(one)[0], finished(other)[0]
    joined = np.concatenate([before, np.zeros(pause, np.float32), after])
    place = len(before)
    around = joined[max(0, place - FADE_SAMPLES // 8) : place + pause + FADE_SAMPLES // 8]
    slope = np.pi / (4 * FADE_SAMPLES) * 2
    assert largest_step(around) <= 0.1 * max(largest_step(before), largest_step(after)) + slope * max(
        np.abs(before).max(), np.abs(after).max()
    )
    assert abs(joined[place - 1]) < 1e-3 and abs(joined[place + pause]) < 1e-3


def test_control_a_join_without_fades_is_heard() -> None:
    tone = np.sin(2 * np.pi * 200 * np.arange(40 * FRAME_SAMPLES) / 24000).astype(np.float32)
    before, after = tone[: 30 * FRAME_SAMPLES - 30], -tone[90:]
    assert join_db(before, after, 0) > 10
    assert join_db(finished(before)[0], finished(after)[0], 0) <= 0
    assert join_db(finished(before)[0], finished(after)[0], 2400) <= 0


@given(waveforms)
@settings(max_examples=40, deadline=None)
def test_never_beyond_full_scale_and_only_then_turned_down(waveform: np.ndarray) -> None:
    samples, gain = finished(waveform)
    assert np.abs(samples).max() <= CEILING and len(samples) == len(waveform)
    inside = waveform[FADE_SAMPLES:-FADE_SAMPLES]
    assert np.allclose(samples[FADE_SAMPLES:-FADE_SAMPLES], inside * gain, atol=1e-6)
    assert (gain == 1.0) == (np.abs(waveform * np.r_[fade(), np.ones(len(inside)), fade()[::-1]]).max() <= CEILING)


def test_shorter_than_two_fades() -> None:
    samples, gain = finished(np.ones(7, np.float32))
    assert len(samples) == 7 and gain == 1.0 and samples[0] < 0.1 and samples[3] == 1.0


def test_pcm_rounds_half_to_even_and_holds_full_scale() -> None:
    assert to_pcm(np.array([1.0, -1.0, 0.5 / 32767, 1.5 / 32767, 0.0])).tolist() == [32767, -32767, 0, 2, 0]


def test_join_of_silence() -> None:
    silent = np.zeros(1200, np.float32)
    assert join_db(silent, silent, 100) == float("-inf") and own_step(silent) == 0
