"""Where text is cut: sentences, clauses, spaces, never words; the same however the text is handed over."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.chunks import MAX_SEGMENT, chunks, joined, segments, sentence_ends, word_groups
from kokoro_ane.g2p.result import PUNCTUATION, Result, Word


def split(text: str) -> list[str]:
    return [sentence for _, sentence in segments(text)]


def test_sentence_ends_are_offsets() -> None:
    text = "Dr. Smith left. He is back."
    assert [text[:end] for end in sentence_ends(text)] == ["Dr. Smith left."]


@pytest.mark.parametrize("text", ["[Dr. A. B. Then](/dˈɑk/) left. So", "see [Stop. Go. Then](/stˈɑp. ɡˈO/) yes", "[a](/b/). Then [c](/d/)"])
def test_an_override_is_never_cut(text: str) -> None:
    assert all(part.count("[") == part.count("]") == part.count("(") == part.count(")") for part in split(text))


@given(
    st.lists(
        st.sampled_from(["He left. ", "[A. B](/bˈi/) ", "Dr. X. ", "\n\n", "1. It ", "word " * 300, "x" * 900, "no; ", "[", "U.S. The "])
    ),
    st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_the_cuts_do_not_hang_on_how_the_text_arrives(parts: list[str], seed: int) -> None:
    text, generator = "".join(parts), random.Random(seed)
    pieces, place = [], 0
    while place < len(text):
        step = generator.choice((1, 7, 100, 5000))
        pieces.append(text[place : place + step])
        place += step
    whole = list(segments(text))
    assert whole == list(segments(iter(pieces)))
    assert all(text[offset : offset + len(part)] == part for offset, part in whole)
    assert "".join("".join(part for _, part in whole).split()) == "".join(text.split())
    assert all(len(part) <= MAX_SEGMENT for _, part in whole)


def words_of(phonemes: str) -> tuple[Word, ...]:
    """One Word for each item of a phoneme string; marks stick to what is before them."""
    found, place = [], 0
    for item in phonemes.split(" "):
        body = item.rstrip(PUNCTUATION)
        pieces = [piece for piece in (body, *item[len(body) :]) if piece]
        for index, piece in enumerate(pieces):
            found.append(Word(piece, place, place + len(piece), piece, piece, "gold", 1.0, index == len(pieces) - 1))
            place += len(piece)
        place += 1
    return tuple(found)


def cut(phonemes: str, limit: int) -> list[str]:
    return [joined(group) for group in word_groups(words_of(phonemes), limit)]


def test_a_limit_that_holds_no_word() -> None:
    with pytest.raises(InputError, match="at least 16"):
        list(word_groups((), 15))


@given(st.lists(st.text("abˈi", min_size=1, max_size=24), min_size=1, max_size=60), st.integers(16, 60), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_nothing_is_lost_and_nothing_is_too_long(items: list[str], limit: int, generator: random.Random) -> None:
    items = [item + generator.choice(("", "", ",", ".", "?”")) for item in items]
    phonemes = " ".join(items)
    pieces = cut(phonemes, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert "".join(pieces).replace(" ", "") == phonemes.replace(" ", "")
    if all(len(item) <= limit for item in items):
        assert " ".join(pieces) == phonemes


def test_chunks_of_a_result() -> None:
    words = words_of("aaa bbb. ccc ddd eee fff")
    text = "aaa bbb. ccc ddd eee fff"
    result = Result(text, joined(words), words, {"emoji": 1})
    parts = list(chunks(result, 16))
    assert [part.text for part in parts] == ["aaa bbb.", "ccc ddd eee fff"]
    assert [dict(part.dropped) for part in parts] == [{"emoji": 1}, {}]
    assert list(chunks(result))[0].words == words
