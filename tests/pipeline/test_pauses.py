"""A book rests where a reader would: before a chapter, between scenes, behind a paragraph; for as
long as was asked for.
"""

import json

import pytest

import kokoro_ane
from kokoro_ane.pipeline.speak import main as speak
from kokoro_ane.pipeline.synthesis import SpeechOptions
from kokoro_g2p import Chunk, TextParts, chunks, text_reader
from kokoro_g2p.pauses import find_opening, parse_pauses
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE

BOOK = """# The Ferry

It was late. Rain fell.

* * *

Morning came.

CHAPTER TWO

Home at last.
"""
PAUSES = "sentence=0.25,paragraph=0.6,chapter=1.7,scene=0.9"
EXPECTED = [0.0, 0.6, 0.25, 0.9, 1.7, 0.6]


@pytest.mark.parametrize("speed", [1.0, 1.5])
def test_a_book_has_the_pauses_that_were_asked_for(speed, tmp_path, capsys):
    """At any speed: 0.25 s stays 0.25 s."""
    times = tmp_path / "times.json"
    flags = f"--pauses {PAUSES} --runtime torch --speed {speed} --timestamps {times}"
    words = [BOOK, *flags.split(), "--checkpoint", str(DEMO_VOICE), "-o", str(tmp_path / "a.wav")]
    assert speak(words) == 0
    stamps = json.loads(times.read_text(encoding="utf-8"))
    assert [chunk["pause_s"] for chunk in stamps["chunks"]] == EXPECTED
    if speed == 1.0:
        samples, rate_hz = kokoro_ane.speak(
            BOOK, checkpoint=str(DEMO_VOICE), runtime="torch", pauses=parse_pauses(PAUSES)
        )
        assert len(samples) / rate_hz == pytest.approx(stamps["seconds"], abs=1e-5)


class Spoken:
    """What stands before a chunk."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk


def pauses_s(text, options):
    before, seconds = None, []
    for chunk in chunks(text_reader("us")(text), text):
        seconds.append(options.silence(before, chunk) / 24_000)
        before = Spoken(chunk)
    return seconds


def test_the_usual_pauses_follow_the_pace():
    assert pauses_s(BOOK, SpeechOptions()) == [0, 0.5, 0.2, 1.0, 1.5, 0.5]
    assert pauses_s(BOOK, SpeechOptions(speed=2.0)) == [0, 0.25, 0.1, 0.5, 0.75, 0.25]


@pytest.mark.parametrize("line", ["***", "* * *", "⁂", "---", "- - -", "_____", "  * * *  "])
def test_a_scene_break(line):
    for gap in ("\n", "\n\n"):
        text = f"He left.{gap}{line}{gap}“She stayed.”"
        assert find_opening(text, text.index("She")) == "scene"
        *_, last = chunks(text_reader("us")(text), text)
        assert (last.opening, last.phonemes) == ("scene", "“ʃˌi stˈAd.”")


@pytest.mark.parametrize(
    "line",
    [
        "## The storm",
        "CHAPTER I. Down the Rabbit-Hole",
        "Chapter Twenty-One",
        "**Chapter 4**",
        "Part 2: The return",
        "Chapitre IV — La nuit",
        "Capítulo 3",
        "XIV.",
        "Prologue",
        "DOWN THE RABBIT-HOLE",
    ],
)
def test_a_heading(line):
    text = f"He left.\n\n{line}\n\nShe stayed."
    first, heading, *_ = chunks(text_reader("us")(text), text)
    assert (first.opening, heading.opening) == ("", "chapter")


@pytest.mark.parametrize(
    "line",
    [
        "Part 2 of the plan was easy.",
        "Chapter 3 was long.",
        "HELP!",
        "1984",
        "I went.",
        "NASA said no.",
        "A",
        "- one",
        "x --- y",
    ],
)
def test_no_heading(line):
    text = f"He left.\n\n{line}\n\nShe stayed."
    assert [chunk.opening for chunk in chunks(text_reader("us")(text), text)] == [""] * 3


def test_a_heading_of_markdown_needs_no_blank_line():
    text = "He left.\n## Two\nShe stayed."
    spoken = [(chunk.opening, chunk.ending) for chunk in chunks(text_reader("us")(text), text)]
    assert spoken == [("", "sentence"), ("chapter", "paragraph"), ("", "sentence")]


def test_of_headings_behind_one_another_the_first_has_the_pause():
    text = "Ab.\n\nCHAPTER I\n\nTHE STORM\n\nCd."
    options = SpeechOptions(pauses={"chapter": 3.0, "paragraph": 0.5})
    assert pauses_s(text, options) == [0, 3.0, 0.5, 0.5]


def test_what_is_still_being_written_rests_at_the_same_places():
    def openings(text):
        options = {"checkpoint": str(DEMO_VOICE), "runtime": "torch", "pauses": {"scene": 2.0}}
        pieces = kokoro_ane.stream(text, **options)
        return [round(len(piece.samples) / 24_000, 2) for piece in pieces]

    tokens = [BOOK[place : place + 3] for place in range(0, len(BOOK), 3)]
    assert "".join(TextParts(tokens)) == BOOK
    assert openings(tokens) == openings(BOOK)


@pytest.mark.parametrize(
    "pauses, message",
    [
        ("chaptr=1", "no pause 'chaptr'. There are: chapter, scene, paragraph, sentence, clause"),
        ("chapter", "'chapter' is not NAME=SECONDS"),
        ("chapter=-1", "give seconds from 0 to 60"),
        ("chapter=nan", "give seconds from 0 to 60"),
    ],
)
def test_a_pause_that_there_is_not(pauses, message):
    with refused(message):
        parse_pauses(pauses)
    with refused("no pause 'end'"):
        kokoro_ane.stream("Hi.", checkpoint=str(DEMO_VOICE), pauses={"end": 1})
