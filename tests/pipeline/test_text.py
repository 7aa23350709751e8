"""Text on its way through synthesis: phonemes and offsets, the bundle's lexicon, chunks and their
joins, silence, subtitles, times.
"""

import io
import itertools
import random
import re
import wave
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import FRAME_SAMPLES
from kokoro_ane.core.errors import UtteranceTooLong
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend
from kokoro_ane.g2p.alphabet import KNOWN
from kokoro_ane.g2p.lexicon import Lexicon
from kokoro_ane.g2p.phonemizer import G2P
from kokoro_ane.g2p.reading import Reader
from kokoro_ane.g2p.result import Result, Word
from kokoro_ane.pipeline.audio import CEILING, FADE_SAMPLES, fade, finished
from kokoro_ane.pipeline.lexicon_file import dialects_for, lexicon_lines, said_alone
from kokoro_ane.pipeline.speak import main as synthesize
from kokoro_ane.pipeline.synthesis import Pipeline, SpeechOptions, SynthesisStats
from kokoro_ane.pipeline.text import Chunk, chunks, cut, halves, phoneme_sentences
from kokoro_ane.pipeline.timestamps import LINE, TimesFile, stamp
from kokoro_ane.pipeline.validate import main as validate
from tests.commands import parsed, printed, refused, table
from tests.demo_voice import DEMO_VOICE
from tests.pipeline.test_synthesis import VOICE, FakeFunctions, FakeVocoder
from tests.random_checkpoint import tiny_config, write_checkpoint

TEXT = (
    "Hello world. It's five o'clock (nearly), isn't it?\n\nShe said “go home!” and left; nobody, it"
    " seems, minded."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = tiny_config() | {"vocab": KokoroConfig.load(DEMO_VOICE / "config.json").vocab}
    return str(write_checkpoint(tmp_path_factory.mktemp("checkpoint"), config, encoder=True))


def test_chunks_hold_g2ps_own_phonemes_and_offsets():
    results = list(G2P.load("us").sentences(TEXT))
    pieces = list(chunks(iter(results), TEXT))
    assert [chunk.phonemes for chunk in pieces] == [result.phonemes for result in results]
    assert [chunk.ending for chunk in pieces][1] == "paragraph"
    for chunk in pieces:
        for word, place in zip(chunk.words, chunk.places, strict=True):
            assert TEXT[word.start : word.end] == word.text
            assert chunk.phonemes[place:].startswith(word.phonemes)


def speak_flags(folder, times):
    """Flags that speak into a.wav beside the file of times."""
    out = f"-o {times.parent}/a.wav --timestamps {times}"
    return f"--runtime torch --checkpoint {folder} {out}".split()


def test_speaks_text_and_says_what_was_left_out(folder, tmp_path, capsys):
    flags = speak_flags(folder, tmp_path / "a.json")
    assert synthesize([f"{TEXT} 😀", *flags]) == 0
    report = printed(capsys)
    assert sum(report["dropped"].values()) == 1
    assert report["chunks"] >= 3
    words = [word for chunk in parsed(tmp_path / "a.json")["chunks"] for word in chunk["words"]]
    assert [word["text"] for word in words][:3] == ["Hello", "world", "."]
    assert all(TEXT[word["start"] : word["end"]] == word["text"] for word in words)
    assert synthesize(["😀", *flags]) == 2
    assert "nothing to say: the text holds no word (left out: 1" in capsys.readouterr().err


@pytest.mark.parametrize("times", ["a.json", "a.srt"])
def test_a_pause_at_the_end_is_silence(folder, tmp_path, times, capsys):
    flags = speak_flags(folder, tmp_path / times)
    assert synthesize(["Hello. [pause 1.5s]", *flags]) == 0
    report = printed(capsys)
    with wave.open(str(tmp_path / "a.wav")) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert report["chunks"] == 2
    assert len(samples) / 24000 == report["seconds_of_audio"]
    assert not samples[-36000:].any()
    assert samples[-36600:-36000].any()


def test_validator_takes_text(folder, capsys):
    assert validate(["--checkpoint", folder, "--text", "Hello world."]) == 0
    by_text = printed(capsys)
    phonemes = G2P.load("us").phonemize("Hello world.").phonemes
    assert validate(["--checkpoint", folder, "--phonemes", phonemes]) == 0
    by_phonemes = printed(capsys)
    assert by_text["intermediates"] == by_phonemes["intermediates"]
    assert by_text["tokens"] == by_phonemes["tokens"]


SAMPLE = 600


def rows(dialect):
    """Read back as an app would: word to list and phonemes by part of speech; "" where the sentence
    does not decide.
    """
    words = {}
    for line in lexicon_lines(dialect):
        word, source, *columns = line.split("\t")
        words[word] = (
            source,
            dict(column.split("=") if "=" in column else ("", column) for column in columns),
        )
    return words


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dialect", ["us", "gb"])
def test_every_word_is_as_g2p_says_it(dialect, every):
    lexicon, written, g2p = Lexicon.load(dialect), rows(dialect), G2P.load(dialect)
    reader = Reader(lexicon, None)
    assert written.keys() == lexicon.words
    symbols = set("".join(sound for _, sounds in written.values() for sound in sounds.values()))
    # Kokoro v1.0 reads T and t
    assert not symbols - (KNOWN | {" "})
    assert not symbols & set("ɾʔ")
    for word, (source, sounds) in itertools.islice(written.items(), 0, None, every):  # the look-up
        if source != "r":
            reading = reader.read(word)
            assert sounds == (
                {
                    key: sound or ""
                    for key, sound in (reading.senses or {"": reading.phonemes}).items()
                }
            ), word
    by_rule = [word for word, (source, _) in written.items() if source == "r" or not word.islower()]
    sample = SAMPLE if every == 1 else SAMPLE // 4
    for word in {
        *random.Random(29).sample(sorted(written), sample),
        *random.Random(29).sample(sorted(by_rule), sample // 4),
        "the",
        "AM",
    }:
        sounds = {sound or reader.letters(word).phonemes for sound in written[word][1].values()}
        assert said_alone(g2p, word) in sounds, word


def test_lines_are_sorted_by_bytes_and_words_are_right():
    lines, us, gb = lexicon_lines("us"), rows("us"), rows("gb")
    assert list(lines) == sorted(lines, key=str.encode)
    assert us["water"] == ("g", {"": "wˈɔTəɹ"})
    assert us["beth"][1] == {"": "bˈɛθ"}
    assert us["the"] == ("r", {"": "ðə"})
    assert gb["water"] == ("g", {"": "wˈɔːtə"})
    assert gb["Z"] == ("r", {"": "zˈɛd"})
    assert us["AM"][1] == {"DEFAULT": "ˈæm", "NOUN": ""}
    assert us["Dr."][1] == {"": "dˈɑktəɹ"}


@pytest.mark.parametrize(
    "voices, dialects",
    [
        (["af_heart", "am_adam"], ("us",)),
        (["bm_george"], ("gb",)),
        (["bf_emma", "af_heart", "ef_dora"], ("us", "gb")),
        (["slt"], ("us",)),
        (["ef_dora", "im_nicola"], ()),
    ],
)
def test_dialects_follow_the_voices(voices, dialects):
    assert dialects_for(voices) == dialects


SYMBOLS = "abdefhijklmnopstuvwz"


def sentence(text):
    return next(phoneme_sentences(text))


@st.composite
def sentences(draw):
    words = draw(st.lists(st.text(SYMBOLS, min_size=1, max_size=9), min_size=1, max_size=80))
    marks = draw(
        st.lists(
            st.sampled_from(["", "", "", ",", ";", " —"]), min_size=len(words), max_size=len(words)
        )
    )
    return " ".join(word + mark for word, mark in zip(words, marks, strict=True)) + "."


@given(sentences(), st.integers(1, 120))
@settings(max_examples=60, deadline=None)
def test_cutting_loses_nothing_and_keeps_the_limit(text, longest):
    whole = Chunk.of(sentence(text).words)
    parts = list(cut(whole, longest)) if longest > 9 else [whole]
    assert all(len(part.phonemes) <= longest for part in parts) or longest <= 9
    assert "".join(part.phonemes for part in parts).replace(" ", "") == whole.phonemes.replace(
        " ", ""
    )
    assert [word.start for part in parts for word in part.words] == sorted(
        word.start for part in parts for word in part.words
    )
    assert parts[-1].ending == whole.ending == "sentence"
    for part in parts:
        assert all(
            part.phonemes[place:].startswith(word.phonemes)
            for word, place in zip(part.words, part.places, strict=True)
        )


def test_cuts_at_a_mark_between_words_then_inside_one():
    left, right = halves(Chunk.of(sentence("aa bb cc dd, ee ff gg hh ii jj.").words))
    assert left.phonemes == "aa bb cc dd,"
    assert left.ending == "clause"
    assert right.phonemes == "ee ff gg hh ii jj."
    assert right.ending == "sentence"
    left, right = halves(Chunk.of(sentence("aaaa bbbb cccc dddd").words))
    assert (left.phonemes, right.phonemes, left.ending) == ("aaaa bbbb", "cccc dddd", "none")
    left, right = halves(Chunk.of(sentence("aaaabbbb").words))
    assert (left.phonemes, right.phonemes) == ("aaaa", "bbbb")
    assert left.words[0].start == right.words[0].start == 0
    assert left.words[0].end == 8
    with pytest.raises(UtteranceTooLong, match="'a' at 0 does not fit"):
        halves(Chunk.of(sentence("a").words))


def test_paragraphs_silent_words_and_pauses():
    text = "aa bb.\n\nkk. ... !\ncc dd.\n  \nee."
    pieces = list(chunks(phoneme_sentences(text), text))
    assert [(chunk.phonemes, chunk.ending) for chunk in pieces] == [
        ("aa bb.", "paragraph"), ("kk.", "sentence"), ("cc dd.", "paragraph"), ("ee.", "sentence")
    ]  # fmt: skip
    assert all(text[word.start : word.end] == word.text for chunk in pieces for word in chunk.words)
    words = (
        Word("a", 0, 1, "a", "a", "gold"),
        Word("-", 2, 3, "", "", "rule"),
        Word("b", 4, 5, "b", "b", "gold", space=False),
    )
    chunk = next(chunks(iter([Result("a - b", "a b", words)]), "a - b"))
    assert chunk.phonemes == "a b"
    assert chunk.places == (0, 2)


def largest_step(samples):
    return float(np.abs(np.diff(samples.astype(np.float64))).max(initial=0.0))


waveforms = st.builds(
    lambda seed, frames, level: (
        level
        * np.random.default_rng(seed).uniform(-1, 1, frames * FRAME_SAMPLES).astype(np.float32)
    ),
    st.integers(0, 9999),
    st.integers(1, 12),
    st.floats(0.01, 4.0),
)


@given(waveforms, waveforms, st.integers(0, 5000))
@settings(max_examples=60, deadline=None)
def test_no_join_is_louder_than_the_voice(one, other, pause):
    """Even noise at any level, joined anywhere, moves less at the join than inside."""
    before, after = finished(one)[0], finished(other)[0]
    joined, place = np.concatenate([before, np.zeros(pause, np.float32), after]), len(before)
    around = joined[max(0, place - FADE_SAMPLES // 8) : place + pause + FADE_SAMPLES // 8]
    slope = np.pi / (4 * FADE_SAMPLES) * 2
    assert largest_step(around) <= 0.1 * max(
        largest_step(before), largest_step(after)
    ) + slope * max(np.abs(before).max(), np.abs(after).max())
    assert abs(joined[place - 1]) < 1e-3
    assert abs(joined[place + pause]) < 1e-3


def test_control_a_join_without_fades_is_heard():
    tone = np.sin(2 * np.pi * 200 * np.arange(40 * FRAME_SAMPLES) / 24000).astype(np.float32)
    before, after = tone[: 30 * FRAME_SAMPLES - 30], -tone[90:]
    assert largest_step(np.concatenate([before, after])) > 10 * largest_step(tone)


@given(waveforms)
@settings(max_examples=40, deadline=None)
def test_never_beyond_full_scale_and_only_then_turned_down(waveform):
    samples, gain = finished(waveform)
    assert np.abs(samples).max() <= CEILING
    assert len(samples) == len(waveform)
    inside = waveform[FADE_SAMPLES:-FADE_SAMPLES]
    assert np.allclose(samples[FADE_SAMPLES:-FADE_SAMPLES], inside * gain, atol=1e-6)
    assert (gain == 1.0) == (
        np.abs(waveform * np.r_[fade(), np.ones(len(inside)), fade()[::-1]]).max() <= CEILING
    )


LONG = (
    "The ferry crossed the harbour in the morning, and nobody on board saw the storm; in 2026 it is"
    " [Kokoro](/kˈOkəɹO/)'s turn. " * 2
)


@pytest.fixture(scope="module")
def g2p():
    return G2P.load("a")


def spoken(g2p, text, speed=1.0, longest=300):
    vocab = {
        symbol: number + 1
        for number, symbol in enumerate(sorted(set(g2p.phonemize(text).phonemes)))
    }
    pipeline = Pipeline(
        partial(g2p.sentences, keep_empty=True),
        EncoderBackend(FakeFunctions(), AlignmentLimits(100, 1200)),
        FakeVocoder(),
        vocab,
        longest=longest,
    )
    return list(pipeline.speak(text, VOICE, SpeechOptions(speed=speed)))


@table(
    "text chunks pauses",
    """
    Wait [pause 300ms] now. | 2 | [0, 7200]
    Wait. [pause 1.5s] Now. | 2 | [0, 36000]
    [pause 2s] Hello. | 1 | [48000]
    One [pause 100ms] [pause 0.2s] two. | 2 | [0, 7200]
    One. Two [pause 1s]. | 3 | [0, 4800, 24000]
    One. [pause 300ms] | 2 | [0, 7200]
    One [pause 300ms] [pause 0.1s] | 2 | [0, 9600]
    One [pause 50ms] two. Three. | 3 | [0, 1200, 4800]
""",
)
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_pause_is_as_long_as_the_text_asks_at_any_pace(g2p, text, chunks, pauses, speed):
    speeches = spoken(g2p, text, speed)
    # the silence behind a sentence follows the pace
    pauses_at_speed = [pause if pause != 4800 else int(4800 / speed) for pause in pauses]
    assert len(speeches) == chunks
    assert [speech.pause for speech in speeches] == pauses_at_speed
    assert all(not speech.audio[: speech.pause].any() for speech in speeches)
    assert all(
        speech.chunk.phonemes or (speech is speeches[-1] and len(speech.audio) == speech.pause)
        for speech in speeches
    )
    assert not any(
        " ." in speech.chunk.phonemes or " ," in speech.chunk.phonemes for speech in speeches
    )


def test_a_change_of_pace_begins_a_chunk(g2p):
    text = 'hello <prosody rate="slow">hello hello</prosody>, hello'
    pieces = list(chunks(g2p.sentences(text), text))
    assert [
        (len([word for word in chunk.words if word.text.isalpha()]), chunk.rate) for chunk in pieces
    ] == [(1, 1.0), (2, 0.8), (1, 1.0)]


def test_pauses_at_the_end_alone_and_before_a_cut_sentence(g2p):
    speeches = spoken(g2p, "One [pause 2s]")
    last = stamp(speeches[-1], len(speeches[0].audio))
    assert (last["pause_s"], last["words"], last["phonemes"]) == (2.0, [], [])
    assert last["end_s"] == last["start_s"]
    assert last["end_s"] == (len(speeches[0].audio) + 48000) / 24000
    stats = SynthesisStats()
    for speech in speeches:
        stats.add(speech)
    assert stats.report()["seconds_of_audio"] == pytest.approx(last["end_s"])
    refused("nothing to say", spoken, g2p, "[pause 1s]")
    cut_speeches = spoken(g2p, "Yes. [pause 1s] " + LONG, longest=60)
    assert len(cut_speeches) > 3
    assert [speech.pause for speech in cut_speeches].count(24000) == 1
    assert cut_speeches[1].pause == 24000


@pytest.mark.parametrize("suffix", [".srt", ".vtt"])
def test_subtitles_hold_the_text_in_order_in_lines_that_fit(g2p, suffix):
    text = f"“R&D costs $3.50,” said Dr. Smith [pause 1s] loudly. {LONG}"
    file, speeches = io.StringIO(), spoken(g2p, text)
    subtitles = TimesFile(file, text, suffix)
    for speech in speeches:
        subtitles.add(speech)
    content = file.getvalue()
    assert content.startswith("WEBVTT\n\n1\n" if suffix == ".vtt" else "1\n")
    blocks = [
        block.split("\n") for block in content.removeprefix("WEBVTT\n\n").strip().split("\n\n")
    ]
    assert [int(block[0]) for block in blocks] == list(range(1, len(blocks) + 1))
    assert len(blocks) > 3
    # &amp; is one character
    assert all(2 < len(block) <= 4 and max(map(len, block[2:])) <= LINE + 4 for block in blocks)
    times = [re.split(r" --> ", block[1]) for block in blocks]
    assert all(start < end for start, end in times)
    assert all(one[1] <= other[0] for one, other in zip(times, times[1:], strict=False))
    subtitle_text = " ".join(" ".join(block[2:]) for block in blocks).replace("&amp;", "&")
    plain = re.sub(r"\[pause 1s\] ", "", text).replace("[Kokoro](/kˈOkəɹO/)", "Kokoro").strip()
    assert subtitle_text == plain
