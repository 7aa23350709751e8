"""What a program builds on: pieces as they are computed, from a text or from what is still being
written, in threads and in asyncio, by a model that is loaded once.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import numpy as np
import pytest

import kokoro_ane
from kokoro_ane.runtimes.registry import open_runtime
from tests.commands import refused
from tests.demo_voice import DEMO_VOICE

DEMO = {"checkpoint": str(DEMO_VOICE), "runtime": "torch"}
TEXT = "Hello there, my friend. How are you today?\n\nIt is getting late."
TOKENS = [
    "Hel",
    "lo there, my fri",
    "end. ",
    "How are",
    " you today?\n",
    "\nIt is",
    " getting late.",
]


def joined(pieces):
    return np.concatenate([piece.samples for piece in pieces])


@pytest.fixture(scope="module")
def whole():
    return kokoro_ane.speak(TEXT, "slt", **DEMO)[0]


@pytest.fixture
def openings(monkeypatch):
    """The runtimes that were opened, from here on."""
    names = []

    def opening(name, request):
        names.append((name, request.method))
        return open_runtime(name, request)

    monkeypatch.setattr("kokoro_ane.runtimes.open_runtime", opening)
    return names


def test_pieces_are_the_sentences_with_their_words_and_times(whole):
    pieces = list(kokoro_ane.stream(TEXT, voice="slt", **DEMO))
    assert [piece.text for piece in pieces] == [
        "Hello there, my friend.",
        "How are you today?",
        "It is getting late.",
    ]
    assert np.array_equal(joined(pieces), whole)
    assert pieces[0].samples.dtype == np.float32
    end_s = 0.0
    for piece in pieces:
        assert piece.start_s == pytest.approx(end_s, abs=1e-6)
        end_s += len(piece.samples) / 24_000
        for word in piece.words:
            assert TEXT[word.start : word.end] == word.text
            assert piece.start_s < word.start_s < word.end_s <= end_s


def test_a_text_that_is_still_being_written_is_spoken_as_its_sentences_complete(whole):
    written = []

    def answer():
        for token in TOKENS:
            written.append(token)
            yield token

    pieces = kokoro_ane.stream(answer(), "slt", **DEMO)
    first = next(pieces)
    assert first.text == "Hello there, my friend."
    assert written == TOKENS[:4]
    assert np.array_equal(joined([first, *pieces]), whole)
    with refused("a part of the text is of type bytes"):
        next(kokoro_ane.stream([b"Hello."], "slt", **DEMO))


def test_closed_early_nothing_is_lost(whole):
    is_closed = []

    def answer():
        try:
            yield from TOKENS
        finally:
            is_closed.append(True)

    parts = answer()
    pieces = kokoro_ane.stream(parts, "slt", **DEMO)
    next(pieces)
    pieces.close()
    # the writer's own text goes on where it was
    assert not is_closed
    assert next(parts) == TOKENS[4]
    assert np.array_equal(joined(kokoro_ane.stream(TEXT, "slt", **DEMO)), whole)


def test_cold_threads_load_one_model_and_speak_as_one_does(openings, tmp_path, whole):
    """The folder of packages is new to the process, so no model of it is open."""
    begin = threading.Barrier(4)

    def speak(number):
        begin.wait()
        pieces = kokoro_ane.stream(TEXT, "slt", seed=number % 2, build=tmp_path, **DEMO)
        return joined(pieces)

    with ThreadPoolExecutor(4) as threads:
        spoken = list(threads.map(speak, range(4)))
    assert openings == [("torch", "fp32")]
    assert np.array_equal(spoken[0], whole)
    assert np.array_equal(spoken[2], whole)
    assert np.array_equal(spoken[1], spoken[3])
    assert not np.array_equal(spoken[1], whole)


def test_two_models_that_alternate_are_loaded_once_each(openings, tmp_path):
    other = tmp_path / "other"
    for build in (tmp_path, other) * 3:
        kokoro_ane.speak("Hello.", "slt", build=build, **DEMO)
    assert len(openings) == 2
    assert kokoro_ane.load(build=other, **DEMO) is kokoro_ane.load(build=str(other), **DEMO)


class TestAsync:
    def test_the_loop_goes_on_while_a_piece_is_computed(self, whole):
        async def answer():
            for token in TOKENS:
                await asyncio.sleep(0)
                yield token

        async def listen():
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.002)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            pieces = [piece async for piece in kokoro_ane.stream_async(answer(), "slt", **DEMO)]
            ticking.cancel()
            return pieces, ticks

        pieces, ticks = asyncio.run(listen())
        assert np.array_equal(joined(pieces), whole)
        assert ticks > 5

    def test_a_listener_who_leaves_while_the_writer_thinks(self):
        """The thread that waits for the writer's next word ends too: the loop can close."""

        async def answer():
            yield "Hello there, my friend. How "
            await asyncio.sleep(3600)
            yield "are you?"

        async def listen():
            pieces = kokoro_ane.stream_async(answer(), "slt", **DEMO)
            async with aclosing(pieces), asyncio.timeout(60):
                return await anext(pieces)

        assert asyncio.run(listen()).text == "Hello there, my friend."


@pytest.mark.parametrize("call", [kokoro_ane.speak, kokoro_ane.stream])
@pytest.mark.parametrize(
    "option, message",
    [
        ({"voice": 3}, "voice 3 is of type int: give"),
        ({"speed": "1.5"}, "speed '1.5' is of type str: give"),
        ({"speed": True}, "speed True is of type bool: give"),
        ({"seed": -1}, "seed -1 is not a whole number from 0 to"),
        ({"method": 8}, "method 8 is of type int: give str"),
    ],
)
def test_a_value_of_another_type_is_one_line(call, option, message):
    with refused(message):
        call("Hello.", **(DEMO | option))


def test_a_misspelt_option_is_one_line():
    pytest.raises(TypeError, kokoro_ane.stream, "Hello.", voise="slt").match("voise")
    with refused("no option .bucket.; did you mean buckets"):
        kokoro_ane.build("vocoder", bucket=(40,))
