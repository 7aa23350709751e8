"""The whole path: sentences judged by hand, sources, offsets, overrides, what is dropped."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from g2p import G2P, phonemize
from g2p.chunks import joined
from g2p.lexicon import Lexicon
from g2p.normalize import normalize
from g2p.overrides import extract
from g2p.result import Result

SENTENCES = [
    line.split("\t")
    for line in (Path(__file__).parent / "data" / "g2p" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


class Verbs:
    """Takes every heteronym for a verb, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def choose(self, words: Sequence[str], index: int, keys: Sequence[str]) -> str:
        self.asked.append((words[index], tuple(keys)))
        return "VERB" if "VERB" in keys else "VBD" if "VBD" in keys else "DEFAULT"


@cache
def plain(dialect: str = "us") -> G2P:
    """Rules and lists only: nothing trained."""
    return G2P(normalize, Lexicon.load(dialect))


def sources(result: Result) -> list[str]:
    return [word.source for word in result.words]


@pytest.mark.parametrize(("text", "phonemes"), SENTENCES, ids=[text for text, _ in SENTENCES])
def test_sentences(text: str, phonemes: str) -> None:
    result = plain().phonemize(text)
    assert result.phonemes == phonemes
    assert joined(result.words) == phonemes
    assert not result.dropped


def test_there_are_sixty() -> None:
    assert len(SENTENCES) >= 60


def test_british() -> None:
    assert plain("gb").phonemize("The path to the water.").phonemes == "ðə pˈɑːθ tə ðə wˈɔːtə."


def test_every_source() -> None:
    result = plain().phonemize('The apple, "walked" FBI blorf [hey](/hˈA/).')
    assert sources(result) == [
        "rule", "gold", "punctuation", "punctuation", "morphology", "punctuation", "spelled", "spelled", "override", "punctuation",
    ]  # fmt: skip
    assert [word.confidence for word in result.words if word.source == "spelled"] == [1.0, 0.0]  # asked for letters; nothing else known


def test_heteronyms_are_asked_once_each_and_only_where_a_sense_hangs_on_it() -> None:
    verbs = Verbs()
    g2p = G2P(normalize, Lexicon.load("us"), verbs)
    assert g2p.phonemize("They live here.").phonemes == "ðˌA lˈɪv hˈɪɹ."
    assert g2p.phonemize("I used it.").phonemes == "ˌI jˈuzd ɪt."  # `used` is a question only before `to`
    assert g2p.phonemize("I used to.").phonemes == "ˌI jˈust tu."
    assert [word for word, _ in verbs.asked] == ["live", "used"]
    assert all("None" not in keys and "DEFAULT" in keys for _, keys in verbs.asked)


def test_loud_words_are_not_letters() -> None:
    said = plain().phonemize
    assert said("It IS true, OR else.").phonemes == "ˌɪt ˈɪz tɹˈu, ˈɔɹ ˈɛls."
    assert said("DO NOT TOUCH ME").phonemes == "dˈu nˈɑt tˈʌʧ mˈi"
    assert said("The I.T. man in IT.").phonemes == "ði ˌItˈi mˈæn ɪn ˌItˈi."


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("[Kokoro](/kˈOkəɹO/) is it.", "kˈOkəɹO ɪz ɪt."),
        ("the [apple](/ˈæpl/)", "ði ˈæpl"),  # an override is what follows, too
        ("[Kokoro](/kˈOkəɹO/)'s and [Blorf](/blˈɔɹf/)’s", "kˈOkəɹOz ænd blˈɔɹfs"),
        ("[New York](/nu jˈɔɹk/) it is", "nu jˈɔɹk ɪt ɪz"),
        ("[slow](-1) [for](1) [for](2) [for](+1) [slow](-2) [slow](0)", "slˌO fˌɔɹ fˈɔɹ fˌɔɹ slO slˌO"),
        ("[for](0.5) [slow](-0.5)", "fˌɔɹ slˌO"),
        ("[very slow](-1) dog", "vˌɛɹi slˌO dˈɔɡ"),
        ("[1,001](#&#)", "wˈʌn θˈWzᵊnd ænd wˈʌn"),
        ("[1,001](#n#)", "wˈʌn θˈWzᵊndən wˈʌn"),
        ("[100](#a#) dogs", "ɐ hˈʌndɹəd dˈɔɡz"),
        ("[2,345](#&#)", "tˈu θˈWzᵊnd θɹˈi hˈʌndɹəd ænd fˈɔɹTi fˈIv"),
        ("[2,300](#&#)", "tˈu θˈWzᵊnd θɹˈi hˈʌndɹəd"),
    ],
)
def test_overrides(text: str, phonemes: str) -> None:
    result = plain().phonemize(text)
    assert result.phonemes == phonemes
    assert not result.dropped
    assert all(text[word.start : word.end] == word.text for word in result.words)
    assert "(" not in "".join(word.text for word in result.words)


@pytest.mark.parametrize(
    ("text", "said", "dropped"),
    [
        ("[dog](https://a.b/c)", ["dog"], {"link target": 1}),
        ("[dog](/#/)", ["dog"], {"override with unknown symbol": 1}),
        ("[dog](//)", ["dog"], {"override without phonemes": 1}),
        ("a\ue000b", ["a\ue000b"], {"private use": 1}),
        ("[dog](/dˈɔɡ cat", ["dog", "cat"], {"unclosed override": 1}),
        ("[[dog](/dˈɔɡ/)](/kˈæt/) cat", ["dog", "cat"], {"unclosed override": 1}),
    ],
)
def test_what_is_no_override_stays_text_and_is_counted(text: str, said: list[str], dropped: dict[str, int]) -> None:
    result = plain().phonemize(text)
    assert [word.text for word in result.words if word.text in said] == said
    assert dropped.items() <= result.dropped.items()
    assert all(text[word.start : word.end] == word.text for word in result.words)


def test_offsets_across_overrides() -> None:
    text = "x [a b](/A bˈi/) y [c](2) z"
    marked = extract(text)
    assert marked.text == "x \ue000 y c z"
    assert marked.original(0, 1) == (0, 1)
    assert marked.original(2, 3) == (3, 6)
    assert marked.original(4, 5) == (17, 18)
    assert marked.original(6, 7) == (20, 21)
    assert marked.original(0, 9) == (0, len(text))


def test_words_of_one_number_share_its_offsets() -> None:
    text = "In 2026, yes."
    words = [word for word in plain().phonemize(text).words if word.text == "2026"]
    assert len(words) > 1
    assert {(word.start, word.end) for word in words} == {(3, 7)}


def test_the_whole_text_is_its_sentences() -> None:
    text = "He left. Dr. Smith did not!\n\nA title\n\nAnd the end…"
    whole, parts = plain().phonemize(text), list(plain().sentences(text))
    assert [part.text for part in parts] == ["He left.", "Dr. Smith did not!", "A title", "And the end…"]
    assert whole.phonemes == " ".join(part.phonemes for part in parts)
    assert [(word.start, word.text) for word in whole.words] == [(word.start, word.text) for part in parts for word in part.words]


def test_what_was_dropped_is_told_once() -> None:
    text = "☃ ☃\n\nHello.\n\n☃"
    assert [dict(result.dropped) for result in plain().sentences(text)] == [{"emoji": 2}]
    assert [(result.phonemes, dict(result.dropped)) for result in plain().sentences(text, keep_empty=True)] == [
        ("", {"emoji": 2}), ("həlˈO.", {}), ("", {"emoji": 1}),
    ]  # fmt: skip
    assert plain().phonemize(text).dropped == {"emoji": 3}


@pytest.mark.parametrize("text", ["", " \n", "☃", "привет", "\ud800", "\x00"])
def test_nothing_to_say(text: str) -> None:
    assert plain().phonemize(text).phonemes == ""
    assert list(plain().sentences(text)) == []


def test_the_function_of_the_package() -> None:
    assert phonemize("Hello, world.").phonemes == "həlˈO, wˈɜɹld."
