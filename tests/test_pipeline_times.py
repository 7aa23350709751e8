"""Silence that a text asks for, subtitles, and misaki's tokens with times: synthesis with stages of its own."""

import io
import re
from collections.abc import Iterator

import pytest

from kokoro_ane.core.errors import InputError
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend
from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.result import Result
from kokoro_ane.pipeline.synthesis import Pipeline, Speech, SpeechOptions, SynthesisStats
from kokoro_ane.pipeline.timestamps import LINE, Subtitles, stamp, with_times
from tests.test_pipeline_synthesis import VOICE, FakeFunctions, FakeVocoder

LONG = "The ferry crossed the harbour in the morning, and nobody on board saw the storm; in 2026 it is [Kokoro](/kˈOkəɹO/)'s turn. " * 2


@pytest.fixture(scope="module")
def g2p() -> G2P:
    return G2P.load("a")


class Reads:
    def __init__(self, g2p: G2P) -> None:
        self.g2p = g2p

    def sentences(self, text: str) -> Iterator[Result]:
        return self.g2p.sentences(text, keep_empty=True)


def spoken(g2p: G2P, text: str, speed: float = 1.0, longest: int = 300) -> list[Speech]:
    vocab = {symbol: number + 1 for number, symbol in enumerate(sorted(set(g2p.phonemize(text).phonemes)))}
    pipeline = Pipeline(Reads(g2p), EncoderBackend(FakeFunctions(), AlignmentLimits(100, 1200)), FakeVocoder(), vocab, longest=longest)
    return list(pipeline.speak(text, VOICE, SpeechOptions(speed=speed)))


@pytest.mark.parametrize(
    ("text", "chunks", "pauses"),
    [
        ("Wait [pause 300ms] now.", 2, [0, 7200]),
        ("Wait. [pause 1.5s] Now.", 2, [0, 36000]),
        ("[pause 2s] Hello.", 1, [48000]),
        ("One [pause 100ms] [pause 0.2s] two.", 2, [0, 7200]),
        ("One. Two [pause 1s].", 3, [0, 4800, 24000]),
        ("One. [pause 300ms]", 2, [0, 7200]),
        ("One [pause 300ms] [pause 0.1s]", 2, [0, 9600]),
        ("One [pause 50ms] two. Three.", 3, [0, 1200, 4800]),
    ],
)
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_pause_is_as_long_as_the_text_asks_at_any_pace(g2p: G2P, text: str, chunks: int, pauses: list[int], speed: float) -> None:
    found = spoken(g2p, text, speed)
    wanted = [pause if pause != 4800 else int(4800 / speed) for pause in pauses]  # the silence behind a sentence follows the pace
    assert len(found) == chunks and [speech.pause for speech in found] == wanted
    assert all(not speech.audio[: speech.pause].any() for speech in found)
    assert all(speech.chunk.phonemes or (speech is found[-1] and len(speech.audio) == speech.pause) for speech in found)
    assert not any(" ." in speech.chunk.phonemes or " ," in speech.chunk.phonemes for speech in found)


def test_the_silence_at_the_end_has_its_time_stamp(g2p: G2P) -> None:
    speeches = spoken(g2p, "One [pause 2s]")
    last = stamp(speeches[-1], len(speeches[0].audio))
    assert (last["pause_s"], last["words"], last["phonemes"]) == (2.0, [], []) and last["end_s"] == last["start_s"]
    assert last["end_s"] == (len(speeches[0].audio) + 48000) / 24000
    stats = SynthesisStats()
    for speech in speeches:
        stats.add(speech)
    assert stats.report()["seconds_of_audio"] == pytest.approx(last["end_s"])


def test_a_text_of_pauses_alone_says_nothing(g2p: G2P) -> None:
    with pytest.raises(InputError, match="nothing to say"):
        spoken(g2p, "[pause 1s]")


def test_a_pause_goes_in_front_of_the_first_part_of_a_cut_sentence(g2p: G2P) -> None:
    found = spoken(g2p, "Yes. [pause 1s] " + LONG, longest=60)
    assert len(found) > 3 and [speech.pause for speech in found].count(24000) == 1 and found[1].pause == 24000


@pytest.mark.parametrize("longest", [300, 40, 8])
def test_tokens_carry_the_times_of_the_stamps(g2p: G2P, longest: int) -> None:
    text = f"Dr. Smith [pause 300ms] paid $3.50. {LONG}"
    speeches = spoken(g2p, text, longest=longest)
    tokens = [token for token in with_times(g2p(text)[1], speeches) if token.source != "pause"]
    assert all(token.start_ts is not None and token.end_ts > token.start_ts for token in tokens)
    assert all(one.end_ts <= other.start_ts for one, other in zip(tokens, tokens[1:], strict=False))
    offset, words = 0, []
    for speech in speeches:
        words += stamp(speech, offset)["words"]
        offset += len(speech.audio)
    assert {(w["text"], w["start_s"]) for w in words} >= {(t.text, t.start_ts) for t in tokens}
    assert tokens[-1].end_ts == max(word["end_s"] for word in words)
    with pytest.raises(InputError, match="no token says"):
        with_times(g2p("Another text.")[1], speeches)


@pytest.mark.parametrize("suffix", [".srt", ".vtt"])
def test_subtitles_hold_the_text_in_order_in_lines_that_fit(g2p: G2P, suffix: str) -> None:
    text = f"“R&D costs $3.50,” said Dr. Smith [pause 1s] loudly. {LONG}"
    file, speeches = io.StringIO(), spoken(g2p, text)
    subtitles = Subtitles(file, text, suffix)
    for speech in speeches:
        subtitles.add(speech)
    content = file.getvalue()
    assert content.startswith("WEBVTT\n\n1\n" if suffix == ".vtt" else "1\n")
    blocks = [block.split("\n") for block in content.removeprefix("WEBVTT\n\n").strip().split("\n\n")]
    assert [int(block[0]) for block in blocks] == list(range(1, len(blocks) + 1)) and len(blocks) > 3
    assert all(2 < len(block) <= 4 and max(map(len, block[2:])) <= LINE + 4 for block in blocks)  # &amp; is one character
    times = [re.split(r" --> ", block[1]) for block in blocks]
    assert all(start < end for start, end in times) and all(one[1] <= other[0] for one, other in zip(times, times[1:], strict=False))
    said = " ".join(" ".join(block[2:]) for block in blocks).replace("&amp;", "&")
    plain = re.sub(r"\[pause 1s\] ", "", text).replace("[Kokoro](/kˈOkəɹO/)", "Kokoro").strip()
    assert said == plain
