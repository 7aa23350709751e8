"""Text on its way through synthesis: phonemes and offsets, chunks and their
joins, silence, subtitles, times.
"""

import io
import re
from functools import partial

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import FRAME_SAMPLES, SAMPLE_RATE_HZ
from kokoro_ane.core.errors import UtteranceTooLong
from kokoro_ane.pipeline.audio import CEILING, FADE_SAMPLES, finished
from kokoro_ane.pipeline.speak import main as synthesize
from kokoro_ane.pipeline.synthesis import SpeechOptions
from kokoro_ane.pipeline.timestamps import LINE, TimesFile, stamp
from kokoro_g2p.alphabet import KNOWN, SYMBOLS
from kokoro_g2p.phonemizer import G2P
from kokoro_g2p.port.text_tables import languages_for
from kokoro_g2p.result import Result, Word
from kokoro_g2p.text import Chunk, chunks, cut, phoneme_sentences, text_reader
from tests.commands import parsed, printed, refused, table
from tests.demo_voice import DEMO_VOICE
from tests.pipeline.test_synthesis import VOICE, pipeline
from tests.pipeline.test_synthesis import spoken as spoken_phonemes
from tests.random_checkpoint import tiny_config, write_checkpoint

TEXT = (
    "Hello world. It's five o'clock (nearly), isn't it?\n\nShe said “go home!” and left; nobody, it"
    " seems, minded."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = tiny_config() | {"vocab": KokoroConfig.load(DEMO_VOICE / "config.json").vocab}
    return str(write_checkpoint(tmp_path_factory.mktemp("checkpoint"), config, encoder=True))


@pytest.fixture(scope="module")
def g2p():
    return G2P.load("us")


def test_chunks_hold_g2ps_own_phonemes_and_offsets(g2p):
    results = list(g2p.sentences(TEXT))
    pieces = list(chunks(iter(results), TEXT))
    assert [chunk.phonemes for chunk in pieces] == [result.phonemes for result in results]
    for chunk in pieces:
        for word, place in zip(chunk.words, chunk.places, strict=True):
            assert TEXT[word.start : word.end] == word.text
            assert chunk.phonemes[place:].startswith(word.phonemes)


@pytest.mark.parametrize("times", ["a.json", "a.srt"])
def test_speaks_text_its_pause_at_the_end_and_says_what_was_left_out(
    folder, tmp_path, times, capsys
):
    out, stamps = tmp_path / "a.wav", tmp_path / times
    flags = f"--runtime torch --checkpoint {folder} -o {out} --timestamps {stamps}".split()
    assert synthesize(["Hello, world 😀. [pause 1.5s]", *flags]) == 0
    report = printed(capsys)
    samples, _ = soundfile.read(out, dtype="int16")
    assert sum(report["dropped"].values()) == 1
    assert report["chunks"] == 2
    assert len(samples) / SAMPLE_RATE_HZ == report["seconds_of_audio"]
    assert not samples[-36000:].any()
    assert samples[-36600:-36000].any()
    if times == "a.json":
        words = [word["text"] for chunk in parsed(stamps)["chunks"] for word in chunk["words"]]
        assert words == ["Hello", ",", "world", "."]
    assert synthesize(["😀", *flags]) == 2
    assert "nothing to say: the text holds no word (left out: 1" in capsys.readouterr().err


def test_symbols_are_kokoros():
    assert list(SYMBOLS) == list(KokoroConfig.load(DEMO_VOICE / "config.json").vocab)


@table(
    "voices languages",
    """
    af_heart am_adam          | ["us"]
    bm_george                 | ["gb"]
    bf_emma af_heart ef_dora  | ["es", "gb", "us"]
    slt                       | ["us"]
    ef_dora im_nicola         | ["es", "it"]
    zf_xiaobei                | ["us", "zh"]
    hf_alpha                  | ["hi", "us"]
    jf_alpha                  | ["ja", "us"]
""",
)
def test_languages_follow_the_voices(voices, languages):
    assert sorted(languages_for(voices.split())) == languages


def sentence(text):
    return Chunk.from_words(next(phoneme_sentences(text)).words)


@st.composite
def sentences(draw):
    words = st.text("abdefhijklmnopstuvwz", min_size=1, max_size=9)
    marked = st.tuples(words, st.sampled_from(["", "", "", ",", ";", " —"])).map("".join)
    return " ".join(draw(st.lists(marked, min_size=1, max_size=80))) + "."


@given(sentences(), st.integers(10, 120))
@settings(max_examples=60, deadline=None)
def test_cutting_loses_nothing_and_keeps_the_limit(text, longest):
    whole = sentence(text)
    parts = list(cut(whole, longest))
    phonemes = "".join(part.phonemes for part in parts)
    places = [word.start for part in parts for word in part.words]
    assert max(len(part.phonemes) for part in parts) <= longest
    assert phonemes.replace(" ", "") == whole.phonemes.replace(" ", "")
    assert places == sorted(places)
    assert parts[-1].ending == whole.ending == "sentence"
    for part in parts:
        for word, place in zip(part.words, part.places, strict=True):
            assert part.phonemes[place:].startswith(word.phonemes)


@table(
    "text left right endings",
    """
    aa bb cc dd, ee ff gg hh ii jj. | aa bb cc dd, | ee ff gg hh ii jj. | clause sentence
    aaaa bbbb cccc dddd             | aaaa bbbb    | cccc dddd          | none none
    aaaabbbb                        | aaaa         | bbbb               | none none
""",
)
def test_cuts_at_a_mark_between_words_then_inside_one(text, left, right, endings):
    whole = sentence(text)
    parts = whole.halves()
    assert [part.phonemes for part in parts] == [left, right]
    assert [part.ending for part in parts] == endings.split()
    assert parts[0].words[0].start == 0
    assert parts[1].words[-1].end == len(text)
    with pytest.raises(UtteranceTooLong, match="'a' at 0 does not fit"):
        sentence("a").halves()


def test_paragraphs_and_silent_words():
    text = "aa bb.\n\nkk. ... !\ncc dd.\n  \nee."
    pieces = list(chunks(phoneme_sentences(text), text))
    assert [(chunk.phonemes, chunk.ending) for chunk in pieces] == [
        ("aa bb.", "paragraph"), ("kk.", "sentence"), ("cc dd.", "paragraph"), ("ee.", "sentence")
    ]  # fmt: skip
    words = (
        Word("a", 0, 1, "a", "a", "gold"),
        Word("-", 2, 3, "", "", "rule"),
        Word("b", 4, 5, "b", "b", "gold", space=False),
    )
    chunk = next(chunks(iter([Result("a - b", "a b", words)]), "a - b"))
    assert chunk.phonemes == "a b"
    assert chunk.places == (0, 2)


def noise(seed, frames, level):
    samples = np.random.default_rng(seed).uniform(-1, 1, frames * FRAME_SAMPLES)
    return level * samples.astype(np.float32)


waveforms = st.builds(noise, st.integers(0, 9999), st.integers(1, 12), st.floats(0.01, 4.0))


def abs_max(samples):
    return np.abs(samples).max()


def largest_step(samples):
    return float(np.abs(np.diff(samples.astype(np.float64))).max(initial=0.0))


@given(waveforms, waveforms, st.integers(0, 5000))
@settings(max_examples=60, deadline=None)
def test_no_join_is_louder_than_the_voice(one, other, pause):
    """Even noise at any level, joined anywhere, moves less at the join than inside."""
    before, after = finished(one)[0], finished(other)[0]
    joined, place = np.concatenate([before, np.zeros(pause, np.float32), after]), len(before)
    around = joined[max(0, place - FADE_SAMPLES // 8) : place + pause + FADE_SAMPLES // 8]
    slope = np.pi / (4 * FADE_SAMPLES) * 2
    loudest = max(abs_max(before), abs_max(after))
    steepest = max(largest_step(before), largest_step(after))
    assert largest_step(around) <= 0.1 * steepest + slope * loudest
    assert abs(joined[place - 1]) < 1e-3
    assert abs(joined[place + pause]) < 1e-3


def test_control_a_join_without_fades_is_heard():
    tone = np.sin(2 * np.pi * 200 * np.arange(40 * FRAME_SAMPLES) / SAMPLE_RATE_HZ)
    before, after = tone[: 30 * FRAME_SAMPLES - 30], -tone[90:]
    assert largest_step(np.concatenate([before, after])) > 10 * largest_step(tone)


@given(waveforms)
@settings(max_examples=40, deadline=None)
def test_never_beyond_full_scale_and_only_then_turned_down(waveform):
    samples, gain = finished(waveform)
    fade = np.sin(np.pi * (2 * np.arange(FADE_SAMPLES) + 1) / (4 * FADE_SAMPLES)) ** 2
    slopes = np.concatenate([fade, np.ones(len(waveform) - 2 * FADE_SAMPLES), fade[::-1]])
    assert abs_max(samples) <= CEILING
    assert np.allclose(samples, waveform * slopes * gain, atol=1e-6)
    assert (gain == 1.0) == (abs_max(waveform * slopes) <= CEILING)


LONG = (
    "The ferry crossed the harbour in the morning, and nobody on board saw the storm; in 2026 it is"
    " [Kokoro](/kˈOkəɹO/)'s turn. " * 2
)


def chain_of(g2p):
    vocab = {symbol: number + 1 for number, symbol in enumerate(sorted(KNOWN | {" "}))}
    return pipeline(g2p=partial(g2p.sentences, keep_empty=True), vocab=vocab)


def spoken(g2p, text, speed=1.0, longest=300):
    chain = chain_of(g2p)
    chain.longest = longest
    return list(chain.speak(text, VOICE, SpeechOptions(speed=speed)))


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
    phonemes = [speech.chunk.phonemes for speech in speeches]
    # the silence behind a sentence follows the pace
    pauses_at_speed = [pause if pause != 4800 else int(4800 / speed) for pause in pauses]
    assert len(speeches) == chunks
    assert [speech.pause for speech in speeches] == pauses_at_speed
    assert all(not speech.audio[: speech.pause].any() for speech in speeches)
    assert all(phonemes[:-1])
    assert phonemes[-1] or len(speeches[-1].audio) == speeches[-1].pause
    assert not re.search(r" [.,]", "|".join(phonemes))


def test_a_change_of_pace_begins_a_chunk_and_goes_to_the_encoder(g2p):
    chain, text = chain_of(g2p), 'hi <prosody rate="slow">hi hi</prosody>, hi'
    speeches = list(chain.speak(text, VOICE, SpeechOptions(speed=2.0)))
    words = [[word for word in speech.chunk.words if word.text.isalpha()] for speech in speeches]
    assert [*map(len, words)] == [1, 2, 1]
    assert chain.encoder.functions.speeds == pytest.approx([2.0, 1.6, 2.0])


def test_pauses_at_the_end_alone_and_before_a_cut_sentence(g2p):
    speeches = spoken(g2p, "One [pause 2s]")
    last = stamp(speeches[-1], len(speeches[0].audio))
    assert (last["pause_s"], last["words"], last["phonemes"]) == (2.0, [], [])
    assert last["end_s"] == last["start_s"]
    assert last["end_s"] == (len(speeches[0].audio) + 48000) / SAMPLE_RATE_HZ
    refused("nothing to say", spoken, g2p, "[pause 1s]")
    cut_speeches = spoken(g2p, "Yes. [pause 1s] " + LONG, longest=60)
    assert len(cut_speeches) > 3
    assert [speech.pause for speech in cut_speeches].count(24000) == 1
    assert cut_speeches[1].pause == 24000


@pytest.mark.parametrize("suffix", [".srt", ".vtt"])
def test_subtitles_hold_the_text_in_order_in_lines_that_fit(g2p, suffix):
    text = f"“R&D costs $3.50,” said Dr. Smith [pause 1s] loudly. {LONG}"
    file = io.StringIO()
    subtitles = TimesFile(file, text, suffix)
    for speech in spoken(g2p, text):
        subtitles.add(speech)
    head = "WEBVTT\n\n" if suffix == ".vtt" else ""
    assert file.getvalue().startswith(f"{head}1\n")
    cues = file.getvalue().removeprefix(head).strip().split("\n\n")
    numbers, times, lines = zip(*(cue.split("\n", 2) for cue in cues), strict=True)
    assert [*map(int, numbers)] == list(range(1, len(cues) + 1))
    assert len(cues) > 3
    assert all(line.count("\n") < 2 for line in lines)
    # &amp; is one character
    assert max(map(len, "\n".join(lines).split("\n"))) <= LINE + 4
    edges = re.split(r" --> |\n", "\n".join(times))
    assert edges == sorted(edges)
    assert all(start < end for start, end in zip(edges[::2], edges[1::2], strict=True))
    subtitle_text = " ".join(lines).replace("\n", " ").replace("&amp;", "&")
    plain = re.sub(r"\[pause 1s\] ", "", text).replace("[Kokoro](/kˈOkəɹO/)", "Kokoro").strip()
    assert subtitle_text == plain


def test_a_mark_that_fits_no_more_stays_in_the_cue_of_its_word():
    text, file = f"{'a' * 20} {'b' * 20} {'c' * 20} {'d' * 21}.", io.StringIO()
    (speech,) = spoken_phonemes(text)
    TimesFile(file, text, ".srt").add(speech)
    assert file.getvalue().count(" --> ") == 1


def test_a_long_sentence_without_a_mark_is_cut_where_phrases_meet():
    """Before, at the last word that fitted: "depths of | human credulity"."""
    text = (
        "It was a tale that had been told in every village from the mountains to the sea by old men"
        " who had heard it from their fathers and by women who had sung it to their children until"
        " nobody alive could say where it had begun or who had first dared to plumb the depths of"
        " human credulity with a story so plainly false and yet so warmly loved that even the"
        " priest who preached against it every winter was known to hum the refrain as he walked"
        " home through the snow"
    )
    parts = [
        text[chunk.words[0].start : chunk.words[-1].end]
        for chunk in chunks(text_reader("us")(text), text)
    ]
    assert len(parts) == 2
    assert " ".join(parts) == text
    assert parts[1].startswith("or who had first dared to plumb the depths of human credulity")
    assert all(len(part) > len(text) / 3 for part in parts)
