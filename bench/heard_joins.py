"""Measure what is heard between chunks and of very short sentences: silence at joins, word times,
one-word replies that a recognizer of 64 words knows.

    python -m bench.heard_joins --checkpoint kokoro-int8 [--rows silence,times,replies] [--raw]
        [--voices af_heart,bm_george]

Samples below -40 dBFS are silence. --raw leaves every chunk as the models made it, without cutting
joins. The PyTorch runtime speaks. A pipe's last line is one JSON object.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.figures import print_figures
from kokoro_ane.core import (
    EXIT_GOOD,
    PADDED,
    SAMPLE_RATE_HZ,
    CommandOptions,
    checkpoint_option,
    command,
    conclude,
    open_checkpoint,
    option,
    parse,
)
from kokoro_ane.eval import MODEL_RATE_HZ, at_16_khz
from kokoro_ane.pipeline import STEP, Loudness

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint
    from kokoro_ane.pipeline import Speech

Speaks = Callable[[str, str], "list[Speech]"]  # text and voice to chunks
_REPLIES = (
    "yes no okay sure maybe never always thanks hello goodbye please sorry absolutely exactly"
    " perfect wonderful nothing everything somebody nobody tomorrow today yesterday tonight later"
    " sometimes often twice once again almost enough probably possibly certainly definitely"
    " obviously indeed correct wrong left seven eleven twenty hundred monday friday sunday london"
    " paris coffee water apples oranges finished ready welcome congratulations good black outside"
    " upstairs nowhere together"
)
REPLIES = tuple(_REPLIES.split())
# of more than 300 phonemes without a mark: cut in two
LONG = (
    "she walked along the river past the old mill and over the wooden bridge that her father had"
    " built when she was a child and she thought about the summer evenings they had spent there"
    " with a basket of bread and cheese and a book that neither of them ever finished while the"
    " boats went by and the men on the boats called out the names of towns that she had never seen"
)
SENTENCES = (
    "The harbour was quiet that morning. Two boats had left before the sun came up. Nobody saw them"
    " go, except the man who kept the lamp.\n\nHe wrote it down in a blue notebook."
)
CUTS = {
    "inside a sentence": LONG,
    "around a pace": 'Please read <prosody rate="slow">these three words</prosody> again for me.',
    "a pause of 20 ms": "We waited for them [pause 20ms] until the morning came.",
    "a pause of 100 ms": "We waited for them [pause 100ms] until the morning came.",
    "a pause of 1 s": "We waited for them [pause 1s] until the morning came.",
    "sentence and paragraph": SENTENCES,
    "one word each": "Tea. Milk. Sugar. Honey. Lemon. Bread. Butter.",
}


def make_speaker(checkpoint: "Checkpoint", raw: bool) -> Speaks:
    """Return a function that speaks a text in a voice, by PyTorch."""
    from kokoro_ane.pipeline import Pipeline, SpeechOptions
    from kokoro_ane.quantize import PackageRequest
    from kokoro_ane.runtimes import open_runtime
    from kokoro_g2p import text_reader, voice_language

    opened = open_runtime("torch", PackageRequest(checkpoint, Path("build"), "fp32", PADDED))
    reader = cache(text_reader)

    # Tables ask for the same texts and voices: each pair is spoken once.
    @cache
    def speaks(text: str, voice: str) -> "list[Speech]":
        pipeline = Pipeline(
            reader(voice_language(voice)), opened.encoder, opened.vocoder, checkpoint.config.vocab
        )
        options = SpeechOptions(raw=raw)
        return list(pipeline.speak(text, checkpoint.voice(voice), options))

    return speaks


def measure_silences(speeches: "list[Speech]") -> Iterator[float]:
    """Yield the seconds from the last sound before each join to the first after it."""
    for before, after in zip(speeches, speeches[1:], strict=False):
        # A chunk without samples is a pause, and has no edges.
        if len(before.samples) and len(after.samples):
            # In steps: the last loud one ends a step behind its place.
            tail = len(before.samples) - STEP * (int(Loudness(before.samples).loud[-1]) + 1)
            lead = STEP * int(Loudness(after.samples).loud[0])
            yield (tail + after.pause + lead) / SAMPLE_RATE_HZ


def make_silence_rows(speaks: Speaks, voices: list[str]) -> list[dict[str, Any]]:
    """Return one row for each kind of join, over all voices."""
    rows = []
    for kind, text in CUTS.items():
        gaps = [gap for voice in voices for gap in measure_silences(speaks(text, voice))]
        spread = {"least_s": min(gaps), "median_s": float(np.median(gaps)), "most_s": max(gaps)}
        rows.append({"join": kind, "joins": len(gaps)} | spread)
    return rows


def make_time_rows(speaks: Speaks, voices: list[str]) -> list[dict[str, Any]]:
    """Return how late words begin after a silence of 0.1 s or more, and end before one, in ms."""
    from kokoro_ane.pipeline import time_words

    late: dict[str, list[float]] = {"begin": [], "end": []}
    for voice in voices:
        offset = 0
        for speech in speaks(SENTENCES, voice):
            # samples at which loud steps begin, from the start of the text [n]
            loud = STEP * Loudness(speech.audio).loud + offset
            # Marks are timed like words, but make no sound.
            words = [one for one in time_words(speech, offset) if one[0].source != "punctuation"]
            # in samples, as `loud` is
            begins, ends = (
                np.array([word[place] for word in words]) * SAMPLE_RATE_HZ for place in (1, 2)
            )
            # what is quiet inside a word, such as a plosive's closure, is no silence beside it
            silences = [
                place + 1
                for place in np.flatnonzero(np.diff(loud) > SAMPLE_RATE_HZ // 10)
                if not ((begins < loud[place]) & (ends > loud[place + 1])).any()
            ]
            # Sound between two silences begins and ends with a word.
            for run in np.split(loud, silences):
                for name, gaps in (("begin", begins - run[0]), ("end", ends - run[-1] - STEP)):
                    # Of a run's words only the nearest one begins or ends it.
                    late[name].append(float(min(gaps, key=abs)) / SAMPLE_RATE_HZ * 1000)
            offset += len(speech.audio)
    return [
        {"times": name, "silences": len(values)}
        | {"median_ms": float(np.median(values)), "worst_ms": float(max(values, key=abs))}
        for name, values in late.items()
    ]


def make_reply_rows(speaks: Speaks, voices: list[str]) -> list[dict[str, Any]]:
    """Return how many of 64 replies are recognized, in texts of eight and each alone."""
    import pocketsphinx

    from kokoro_ane.eval import recognized

    # Without a language model, so that the grammar of 64 words is all that it knows.
    decoder = pocketsphinx.Decoder(samprate=MODEL_RATE_HZ, loglevel="FATAL", lm=None)
    grammar = f"#JSGF V1.0; grammar closed; public <word> = {' | '.join(REPLIES)};"
    decoder.add_jsgf_string("closed", grammar)
    decoder.activate_search("closed")
    rows = []
    for together in (8, 1):
        missed: list[str] = []
        for voice in voices:
            for start in range(0, len(REPLIES), together):
                replies = REPLIES[start : start + together]
                text = " ".join(f"{reply.capitalize()}." for reply in replies)
                # Every reply ends with a full stop, and is a chunk of its own.
                for reply, speech in zip(replies, speaks(text, voice), strict=True):
                    # a recognizer wants silence beside a sentence
                    padded = np.pad(speech.samples, SAMPLE_RATE_HZ // 5)
                    # A word more is a miss, too.
                    if recognized(at_16_khz(padded), decoder) != (reply,):
                        missed.append(f"{reply} ({voice})")
        count = len(REPLIES) * len(voices)
        row = {"replies in a text": together, "of": count, "recognized": count - len(missed)}
        rows.append(row | {"missed": " ".join(missed)})
    return rows


ROWS = {"silence": make_silence_rows, "times": make_time_rows, "replies": make_reply_rows}


@dataclass(frozen=True)
class HeardOptions(CommandOptions):
    """What is heard."""

    checkpoint: str | None = checkpoint_option()
    rows: str = option("tables, with commas", ",".join(ROWS))
    voices: str | None = option("default: all of the checkpoint")
    raw: bool = option("joins as the model gives them, not levelled", False)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(HeardOptions, "bench.heard_joins", __doc__, argv)
    checkpoint = open_checkpoint(options.checkpoint)
    voices = (options.voices or ",".join(checkpoint.voices)).split(",")
    speaks = make_speaker(checkpoint, options.raw)
    results = {}
    for name in options.rows.split(","):
        rows = ROWS[name](speaks, voices)
        print_figures(name, rows)
        results[name] = rows
    report = {"voices": voices, "raw": options.raw} | results
    return conclude(options, report, EXIT_GOOD, "what is heard was measured")


if __name__ == "__main__":
    raise SystemExit(main())
