"""Any text at all: the normalizer never raises, offsets are exact, nothing that is not white space is lost in silence, time is linear."""

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from g2p.normalize import analyse, normalize
from g2p.result import PUNCTUATION, Dialect, Token

WORD = re.compile(r"[A-Za-zÀ-ÖØ-öø-ſ]+(?:['-]+[A-Za-zÀ-ÖØ-öø-ſ]+)*'?|'[A-Za-z]+'?")
LETTERS = re.compile(r"[A-ZÀ-ÖØ-ÞĀ-ſ]+(?:'?s)?")
ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
PARTS = (Path(__file__).parent / "data" / "g2p" / "normalize_pieces.txt").read_text(encoding="utf-8").split()
PARTS += ["\u200b", "\ud800", "\ue000", "\x00", "\xa0"]
# Pieces the handlers look for, in any order and glued or apart.
PIECES = st.lists(st.sampled_from(PARTS), max_size=14).flatmap(
    lambda pieces: st.sampled_from(["", " "]).map(lambda joint: joint.join(pieces))
)
SAID = ["the", "quick", "it's", "well-known", "7", "21", "1,234", "1999", "3.5", "$5", "5kg", "50%", "1st", "10:30", "March", "May", "café"]
DIALECTS = st.sampled_from(["us", "gb"])


def assert_tokens(text: str, tokens: tuple[Token, ...]) -> None:
    """Spans in the text, not empty, in order, equal or apart; each kind with its own characters."""
    previous = (0, 0)
    for token in tokens:
        span = (token.start, token.end)
        assert 0 <= token.start < token.end <= len(text)
        assert span == previous or token.start >= previous[1]
        previous = span
        if token.kind == "word":
            assert WORD.fullmatch(token.text), token
        elif token.kind == "letters":
            assert LETTERS.fullmatch(token.text), token
        elif token.kind == "punctuation":
            assert token.text in PUNCTUATION and len(token.text) == 1, token
        else:
            assert token.kind == "override" and token.text == text[token.start], token


def uncovered(text: str, dialect: Dialect) -> list[int]:
    """Places of `text` in no token and in no drop, white space aside."""
    tokens, drops = analyse(text, dialect=dialect)
    covered = [character.isspace() for character in text]
    for start, end in [(token.start, token.end) for token in tokens] + [(start, end) for start, end, _ in drops]:
        covered[start:end] = [True] * (end - start)
    return [place for place, is_covered in enumerate(covered) if not is_covered]


@settings(max_examples=400, deadline=None)
@given(st.one_of(ANYTHING, PIECES), DIALECTS)
@example("", "us")
@example("\ud800", "gb")
def test_any_text_is_accounted_for(text: str, dialect: Dialect) -> None:
    normalized = normalize(text, dialect=dialect)
    assert_tokens(text, normalized.tokens)
    assert uncovered(text, dialect) == []
    assert all(count > 0 for count in normalized.dropped.values())


@settings(max_examples=100, deadline=None)
@given(st.text("\u0300\u0301\u0308\u200b\u200d\ufe0f abcé½ﬁ２Ⅷ😀", max_size=30))
def test_characters_that_change_length_keep_their_offsets(text: str) -> None:
    tokens, _ = analyse(text)
    assert_tokens(text, tokens)
    for token in tokens:
        if (
            token.kind == "word"
            and token.text.isascii()
            and len(token.text) == token.end - token.start
            and text[token.start : token.end].isascii()
        ):
            assert token.text == text[token.start : token.end]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(SAID), max_size=8),
    DIALECTS,
)
def test_spoken_text_stays_as_it_is(pieces: list[str], dialect: Dialect) -> None:
    spoken = " ".join(token.text for token in normalize(" ".join(pieces), dialect=dialect).tokens)
    assert " ".join(token.text for token in normalize(spoken, dialect=dialect).tokens) == spoken


@settings(max_examples=100, deadline=None)
@given(st.text("абвгд", min_size=1, max_size=10), st.text("日本語", min_size=1, max_size=10))
def test_other_scripts_are_named_and_counted(cyrillic: str, han: str) -> None:
    normalized = normalize(f"one {cyrillic} two {han} three")
    assert [token.text for token in normalized.tokens] == ["one", "two", "three"]
    assert normalized.dropped == {"script Cyrillic": len(cyrillic), "script CJK": len(han)}


@given(st.text(st.characters(min_codepoint=0xE000, max_codepoint=0xF8FF), min_size=1, max_size=5))
def test_private_use_characters_are_overrides(text: str) -> None:
    tokens = normalize(f"say {' '.join(text)} now").tokens
    assert [token.text for token in tokens[1:-1]] == list(text)
    assert {token.kind for token in tokens[1:-1]} == {"override"}


def test_the_form_of_an_accent_does_not_matter() -> None:
    text = "Zoë’s naïve café"
    composed, decomposed = normalize(text).tokens, normalize(unicodedata.normalize("NFD", text)).tokens
    assert [token.text for token in composed] == [token.text for token in decomposed] == ["Zoë's", "naïve", "café"]


HOSTILE = [
    "1",
    "1.",
    "1,",
    "1/",
    "1-",
    "1:",
    "(",
    "[",
    "[a",
    "<",
    "<a ",
    "<!--",
    "/",
    "/a",
    "./",
    "a.",
    "a@",
    "a-",
    "a'",
    "a_",
    "A",
    "A.",
    "$1-",
    "-",
    "'",
    '"',
    "`",
]
HOSTILE += [
    "*",
    "_",
    "#",
    "@a",
    "&",
    "^",
    "°",
    "\u0301",
    "😀",
    "\u200b",
    "п",
    "1e",
    "+1-",
    "1'",
    "a:\\",
    "](",
    "1st ",
    ".",
    "U.S.",
    "I ",
    "http://",
    "www.",
    "½",
    "\n- ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_long_hostile_runs_are_accounted_for(piece: str) -> None:
    """Time on 100,000 characters of each is bench/g2p_normalize.py's; here only that nothing raises, nests or gets lost."""
    text = (piece * 2000)[:2000]
    assert_tokens(text, normalize(text).tokens)
    assert uncovered(text, "us") == []
