"""The whole path: sentences judged by hand, as people use it, and random lines: no foreign symbol, no empty word, no lost word."""

import random
from collections.abc import Sequence
from functools import cache

import pytest

from kokoro_ane.core.contract import MAX_PHONEMES
from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p import G2P, phonemize
from kokoro_ane.g2p.chunks import joined
from kokoro_ane.g2p.lexicon import Lexicon
from kokoro_ane.g2p.normalize import normalize
from kokoro_ane.g2p.overrides import extract
from kokoro_ane.g2p.phonemizer import LateHeteronyms
from kokoro_ane.g2p.result import Dialect, Guess, Normalized, Result, timed
from tests.g2p_lines import character, lines, problems
from tests.g2p_names import rows


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


@pytest.mark.parametrize(("text", "phonemes"), rows("sentences"))
def test_sentences(text: str, phonemes: str) -> None:
    result = plain().phonemize(text)
    assert result.phonemes == phonemes
    assert joined(result.words) == phonemes
    assert not result.dropped


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


def test_offsets_across_overrides() -> None:
    text = "x [a b](/A bˈi/) y [c](2) z"
    marked = extract(text)
    assert marked.text == "x \ue000 y c z"
    assert marked.original(0, 1) == (0, 1)
    assert marked.original(2, 3) == (3, 6)
    assert marked.original(4, 5) == (17, 18)
    assert marked.original(6, 7) == (20, 21)
    assert marked.original(0, 9) == (0, len(text))


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


class Unruly:
    """Guesses with foreign symbols, without phonemes, and good ones."""

    def predict(self, words: Sequence[str]) -> list[Guess]:
        return [Guess(("blˈɔɹf", "", "g#", "\ue000")[len(word) % 4], 0.5) for word in words]


@cache
def g2p(dialect: Dialect) -> G2P:
    return G2P(normalize, Lexicon.load(dialect), LateHeteronyms(), Unruly())


@pytest.mark.parametrize(
    ("dialect", "count", "seed"), [("us", 1000, 7), ("gb", 500, 8), pytest.param("us", 5000, 9, marks=pytest.mark.slow)]
)
def test_lines(dialect: Dialect, count: int, seed: int) -> None:
    wrong = [(found, line) for line in lines(count, seed) if (found := problems(g2p(dialect), line))]
    assert not wrong, [(found, ascii(line)) for found, line in wrong[:5]]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_word_of_any_length(seed: int) -> None:
    """Nothing is too long: letters, digits, marks, one override, each thousands of characters long."""
    generator = random.Random(seed)
    letters = "".join(generator.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6000))
    for line in (
        letters,
        letters.upper(),
        "7" * 5000,
        "a." * 3000,
        "!?" * 3000,
        "[" * 5000,
        "[a](/" + "h" * 390 + "/)" * 9,
        "-" * 5000 + "a",
        "a'" * 2000,
    ):
        assert not problems(g2p("us"), line), line[:20]
        assert all(len(part.phonemes) <= MAX_PHONEMES for part in g2p("us").sentences(line))


def test_the_check_can_fail() -> None:
    """A normalizer that loses words, one that lies about offsets, and phonemes nobody knows are all caught."""
    whole = Lexicon.load("us")

    def losing(text: str, dialect: Dialect) -> Normalized:
        return Normalized(normalize(text, dialect=dialect).tokens[1:])

    def lying(text: str, dialect: Dialect) -> Normalized:
        return Normalized(tuple(reversed(normalize(text, dialect=dialect).tokens)))

    assert problems(G2P(losing, whole), "one two three") == ["lost ['one']"]
    assert "order" in problems(G2P(lying, whole), "one two three")
    assert "symbols ['#']" in problems(G2P(normalize, Lexicon.load("us", {"two": "t#"})), "one two three")
    assert problems(G2P(normalize, whole), "one two three") == []


def test_the_lines_are_those_of_the_seed() -> None:
    assert list(lines(50, 3)) == list(lines(50, 3)) != list(lines(50, 4))
    assert character(random.Random(1)) == character(random.Random(1))


@pytest.fixture(scope="module")
def us() -> G2P:
    return G2P.load("a")


def test_the_call_gives_phonemes_and_tokens(us: G2P) -> None:
    text = "Dr. Smith's dog barked, loudly."
    phonemes, tokens = us(text)
    assert "".join(token.phonemes + token.whitespace for token in tokens).strip() == phonemes
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert [token.tag for token in tokens if token.text in (",", ".")] == [",", "."]
    assert {token.text: token.tag for token in tokens}["dog"] == "NN"
    assert all(token.start_ts is None for token in tokens) and us("") == ("", [])


def test_tokens_get_times_from_durations(us: G2P) -> None:
    phonemes, tokens = us("Hello, world.")
    spoken = timed(tokens, [2.0] * (len(phonemes) + 2), seconds_per_frame=0.025)
    assert spoken[0].start_ts == pytest.approx(0.05) and spoken[-1].end_ts == pytest.approx(0.05 * (len(phonemes) + 1))
    assert all(one.end_ts <= other.start_ts for one, other in zip(spoken, spoken[1:], strict=False))
    with pytest.raises(InputError, match="durations"):
        timed(tokens, [1.0], 0.025)


@pytest.mark.parametrize("text", [None, b"bytes", 5, 1.5, ["a"]])
def test_what_is_no_text_is_one_line(us: G2P, text: object) -> None:
    for call in (us, us.phonemize):
        with pytest.raises(InputError, match="the text is") as told:
            call(text)  # type: ignore[operator]
        assert "\n" not in str(told.value)


def test_a_mapping_with_phrases_and_camel_case() -> None:
    g2p = G2P.load("us", {"new york": "nˈu jˈɔɹk", "zorb": "zˈɔɹb", "camelCase": "kˈæməlkˌAs", "Q&A": "kjˈu"})
    result = g2p.phonemize("New  York has zorbs and camelCase.")
    assert result.phonemes == "nˈu jˈɔɹk hæz zˈɔɹbz ænd kˈæməlkˌAs."
    assert [word.source for word in result.words[:1]] == ["user"] and result.words[0].text == "New  York"
    assert "user" not in [word.source for word in g2p.phonemize("a new yorker").words]


@pytest.mark.parametrize(
    ("lexicon", "told"),
    [
        ({"x": "ж"}, "entry 1: 'ж'"), ({"a b!": "x"}, "never matches"), ({1: "x"}, "entry 1"), ({"x": ""}, "no phonemes"),
        ({"5": "x"}, "letters"),
    ],
)  # fmt: skip
def test_bad_lexicons_are_one_line(lexicon: dict, told: str) -> None:
    with pytest.raises(InputError, match=told):
        G2P.load("us", lexicon)


def test_fallback_and_unk() -> None:
    assert G2P.load("us", fallback=lambda word: "blˈɔɹ").phonemize("A blorfkin.").words[1].source == "fallback"
    assert G2P.load("us", fallback=lambda word: None, unk="❓").phonemize("A blorfkin.").phonemes == "ɐ ❓."
    with pytest.raises(InputError, match="the fallback says 'blorfkin'"):
        G2P.load("us", fallback=lambda word: "ж").phonemize("A blorfkin.")
    with pytest.raises(InputError, match="unk"):
        G2P.load("us", unk="ж")


def test_pauses_and_say_as(us: G2P) -> None:
    result = us.phonemize("Wait [pause 300ms] now [pause 1.5s] [NASA](characters) [2026](say-as digits).")
    assert [word.pause_s for word in result.words if word.source == "pause"] == [0.3, 1.5]
    said = {word.text: word.phonemes for word in result.words}
    assert said["NASA"] == "ˌɛnˌAˌɛsˈA" and said["2026"].startswith("tˌuzˌɪɹO")
    assert us.phonemize("[pause soon] and [pause 3").dropped == {} or us.phonemize("[pause 3").words


def test_a_lexicon_keeps_mixed_case_whole() -> None:
    assert [token.text for token in normalize("a fooBar", known={"fooBar"}.__contains__).tokens] == ["a", "fooBar"]
    assert [token.text for token in normalize("a fooBar").tokens] == ["a", "foo", "Bar"]
