"""The whole path of g2p: sentences judged by hand, random lines, chunks, the command: nothing
foreign, empty, lost or cut wrongly.
"""

import json
import random
import re
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_g2p import G2P, phonemize
from kokoro_g2p.__main__ import main
from kokoro_g2p.alphabet import MAX_PHONEMES
from kokoro_g2p.errors import InputError
from kokoro_g2p.lexicon import Lexicon
from kokoro_g2p.normalizer import normalize
from kokoro_g2p.phonemizer import LateHeteronyms
from kokoro_g2p.result import PUNCTUATION, Guess, Normalized, Result, Word, timed
from kokoro_g2p.splitting import (
    MAX_SEGMENT,
    cut_result,
    cut_sentences,
    cut_words,
    find_sentence_ends,
    join_phonemes,
)
from reader_tests.lines import lines, pieces_of, problems
from reader_tests.names import rows


class Verbs:
    """Takes every heteronym for a verb, and remembers what it was asked."""

    def __init__(self):
        self.questions = []

    def choose(self, words, index, keys):
        self.questions.append((words[index], tuple(keys)))
        return "VERB" if "VERB" in keys else "VBD" if "VBD" in keys else "DEFAULT"


@cache
def plain(dialect="us"):
    return G2P(normalize, Lexicon.load(dialect))


def sources(result):
    return [word.source for word in result.words]


@pytest.mark.parametrize(("text", "phonemes"), rows("sentences"))
def test_sentences(text, phonemes):
    result = plain().phonemize(text)
    assert result.phonemes == phonemes
    assert join_phonemes(result.words) == phonemes
    assert not result.dropped


def test_every_source():
    result = plain().phonemize('The apple, "walked" FBI blorf [hey](/hˈA/).')
    assert " ".join(sources(result)) == (
        "rule gold punctuation punctuation morphology punctuation spelled spelled override"
        " punctuation"
    )
    # asked for letters; nothing else known
    assert [word.confidence for word in result.words if word.source == "spelled"] == [1.0, 0.0]


def test_heteronyms_are_asked_once_each_and_only_where_a_sense_hangs_on_it():
    verbs = Verbs()
    g2p = G2P(normalize, Lexicon.load("us"), verbs)
    assert g2p.phonemize("They live here.").phonemes == "ðˌA lˈɪv hˈɪɹ."
    assert g2p.phonemize("I used to.").phonemes == "ˌI jˈust tu."
    assert [word for word, _ in verbs.questions] == ["live", "used"]
    assert all("None" not in keys and "DEFAULT" in keys for _, keys in verbs.questions)


def test_the_whole_text_is_its_sentences():
    text = "He left. Dr. Smith did not!\n\nA title\n\nAnd the end…"
    whole, parts = plain().phonemize(text), list(plain().sentences(text))
    assert [part.text for part in parts] == [
        "He left.",
        "Dr. Smith did not!",
        "A title",
        "And the end…",
    ]
    assert whole.phonemes == " ".join(part.phonemes for part in parts)
    assert [(word.start, word.text) for word in whole.words] == [
        (word.start, word.text) for part in parts for word in part.words
    ]


def test_what_was_dropped_is_told_once():
    text = "☃ ☃\n\nHello.\n\n☃"
    assert [dict(result.dropped) for result in plain().sentences(text)] == [{"emoji": 2}]
    assert [
        (result.phonemes, dict(result.dropped))
        for result in plain().sentences(text, keep_empty=True)
    ] == [
        ("", {"emoji": 2}),
        ("həlˈO.", {}),
        ("", {"emoji": 1}),
    ]
    assert plain().phonemize(text).dropped == {"emoji": 3}


@pytest.mark.parametrize("text", ["", " \n", "☃", "привет", "\ud800", "\x00"])
def test_nothing_to_say(text):
    assert plain().phonemize(text).phonemes == ""
    assert list(plain().sentences(text)) == []


def test_the_function_of_the_package():
    assert phonemize("Hello, world.").phonemes == "həlˈO, wˈɜɹld."


class Unruly:
    """Guesses with foreign symbols, without phonemes, and good ones."""

    def predict(self, words):
        return [Guess(("blˈɔɹf", "", "g#", "\ue000")[len(word) % 4], 0.5) for word in words]


@cache
def g2p(dialect):
    return G2P(normalize, Lexicon.load(dialect), LateHeteronyms(), Unruly())


@pytest.mark.parametrize(
    ("dialect", "count", "seed"),
    [("us", 1000, 7), ("gb", 500, 8), pytest.param("us", 5000, 9, marks=pytest.mark.slow)],
)
def test_lines(dialect, count, seed):
    wrong = [
        (faults, line) for line in lines(count, seed) if (faults := problems(g2p(dialect), line))
    ]
    assert not wrong, [(faults, ascii(line)) for faults, line in wrong[:5]]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_word_of_any_length(seed):
    """Nothing is too long: letters, digits, marks, one override, each thousands of characters
    long.
    """
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


def test_the_check_can_fail():
    """A normalizer that loses words, one that lies about offsets, and phonemes nobody knows are all
    caught.
    """
    whole = Lexicon.load("us")

    def losing(text, dialect):
        return Normalized(normalize(text, dialect=dialect).tokens[1:])

    def lying(text, dialect):
        return Normalized(tuple(reversed(normalize(text, dialect=dialect).tokens)))

    assert problems(G2P(losing, whole), "one two three") == ["lost ['one']"]
    assert "order" in problems(G2P(lying, whole), "one two three")
    assert "symbols ['#']" in problems(
        G2P(normalize, Lexicon.load("us", {"two": "t#"})), "one two three"
    )
    assert problems(G2P(normalize, whole), "one two three") == []


@pytest.fixture(scope="module")
def us():
    return G2P.load("a")


def test_the_call_gives_phonemes_and_tokens(us):
    text = "Dr. Smith's dog barked, loudly."
    phonemes, tokens = us(text)
    assert "".join(token.phonemes + token.whitespace for token in tokens).strip() == phonemes
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert [token.tag for token in tokens if token.text in (",", ".")] == [",", "."]
    assert {token.text: token.tag for token in tokens}["dog"] == "NN"
    assert all(token.start_ts is None for token in tokens)
    assert us("") == ("", [])


def test_tokens_get_times_from_durations(us):
    phonemes, tokens = us("Hello, world.")
    spoken = timed(tokens, [2.0] * (len(phonemes) + 2), seconds_per_frame=0.025)
    assert spoken[0].start_ts == pytest.approx(0.05)
    assert spoken[-1].end_ts == pytest.approx(0.05 * (len(phonemes) + 1))
    assert all(one.end_ts <= other.start_ts for one, other in zip(spoken, spoken[1:], strict=False))
    pytest.raises(InputError, timed, tokens, [1.0], 0.025).match("durations")


@pytest.mark.parametrize("text", [None, b"bytes", 5, 1.5, ["a"]])
def test_what_is_no_text_is_one_line(us, text):
    for call in (us, us.phonemize):
        with pytest.raises(InputError, match="the text is") as error:
            call(text)  # type: ignore[operator]
        assert "\n" not in str(error.value)


def test_a_mapping_with_phrases_and_camel_case():
    g2p = G2P.load(
        "us", {"new york": "nˈu jˈɔɹk", "zorb": "zˈɔɹb", "camelCase": "kˈæməlkˌAs", "Q&A": "kjˈu"}
    )
    result = g2p.phonemize("New  York has zorbs and camelCase.")
    assert result.phonemes == "nˈu jˈɔɹk hæz zˈɔɹbz ænd kˈæməlkˌAs."
    assert [word.source for word in result.words[:1]] == ["user"]
    assert result.words[0].text == "New  York"
    assert "user" not in [word.source for word in g2p.phonemize("a new yorker").words]


def test_a_word_that_is_no_text_is_one_line():
    pytest.raises(InputError, G2P.load, "us", {1: "x"}).match("the lexicon, entry 1: 1 to 'x'")


def test_fallback_and_unk():
    assert (
        G2P.load("us", fallback=lambda word: "blˈɔɹ").phonemize("A blorfkin.").words[1].source
        == "fallback"
    )
    assert (
        G2P.load("us", fallback=lambda word: None, unk="❓").phonemize("A blorfkin.").phonemes
        == "ɐ ❓."
    )
    with pytest.raises(InputError, match="the fallback says 'blorfkin'"):
        G2P.load("us", fallback=lambda word: "ж").phonemize("A blorfkin.")
    pytest.raises(InputError, G2P.load, "us", unk="ж").match("unk")


def test_pauses_and_say_as(us):
    result = us.phonemize(
        "Wait [pause 300ms] now [pause 1.5s] [NASA](characters) [2026](say-as digits)."
    )
    assert [word.pause_s for word in result.words if word.source == "pause"] == [0.3, 1.5]
    pronunciations = {word.text: word.phonemes for word in result.words}
    assert pronunciations["NASA"] == "ˌɛnˌAˌɛsˈA"
    assert pronunciations["2026"].startswith("tˌuzˌɪɹO")
    assert us.phonemize("[pause soon] and [pause 3").dropped == {} or us.phonemize("[pause 3").words


def test_a_lexicon_keeps_mixed_case_whole():
    assert [
        token.text for token in normalize("a fooBar", known={"fooBar"}.__contains__).tokens
    ] == ["a", "fooBar"]
    assert [token.text for token in normalize("a fooBar").tokens] == ["a", "foo", "Bar"]


def split(text):
    return [sentence for _, sentence in cut_sentences(text)]


def test_sentence_ends_are_offsets():
    text = "Dr. Smith left. He is back."
    assert [text[:end] for end in find_sentence_ends(text)] == ["Dr. Smith left."]


@pytest.mark.parametrize(
    "text",
    [
        "[Dr. A. B. Then](/dˈɑk/) left. So",
        "see [Stop. Go. Then](/stˈɑp. ɡˈO/) yes",
        "[a](/b/). Then [c](/d/)",
    ],
)
def test_an_override_is_never_cut(text):
    assert all(
        part.count("[") == part.count("]") == part.count("(") == part.count(")")
        for part in split(text)
    )


@given(
    st.lists(
        st.sampled_from(
            [
                "He left. ",
                "[A. B](/bˈi/) ",
                "Dr. X. ",
                "\n\n",
                "1. It ",
                "word " * 300,
                "x" * 900,
                "no; ",
                "[",
                "U.S. The ",
            ]
        )
    ),
    st.sampled_from((1, 7, 100, 5000)),
)
@settings(max_examples=60, deadline=None)
def test_cuts_do_not_depend_on_how_the_text_arrives(parts, step):
    text = "".join(parts)
    whole = pieces_of(text, step)
    assert "".join("".join(part for _, part in whole).split()) == "".join(text.split())
    assert all(len(part) <= MAX_SEGMENT for _, part in whole)


def words_of(phonemes):
    """One Word for each item of a phoneme string; marks stick to what is before them."""
    words, place = [], 0
    for item in phonemes.split(" "):
        body = item.rstrip(PUNCTUATION)
        pieces = [piece for piece in (body, *item[len(body) :]) if piece]
        for index, piece in enumerate(pieces):
            words.append(
                Word(
                    piece,
                    place,
                    place + len(piece),
                    piece,
                    piece,
                    "gold",
                    1.0,
                    index == len(pieces) - 1,
                )
            )
            place += len(piece)
        place += 1
    return tuple(words)


def cut(phonemes, limit):
    return [join_phonemes(group) for group in cut_words(words_of(phonemes), limit)]


def test_a_limit_that_holds_no_word():
    with pytest.raises(InputError, match="at least 16"):
        list(cut_words((), 15))


@given(
    st.lists(st.text("abˈi", min_size=1, max_size=24), min_size=1, max_size=60),
    st.integers(16, 60),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100, deadline=None)
def test_nothing_is_lost_and_nothing_is_too_long(items, limit, generator):
    items = [item + generator.choice(("", "", ",", ".", "?”")) for item in items]
    phonemes = " ".join(items)
    pieces = cut(phonemes, limit)
    assert all(0 < len(piece) <= limit for piece in pieces)
    assert "".join(pieces).replace(" ", "") == phonemes.replace(" ", "")
    if all(len(item) <= limit for item in items):
        assert " ".join(pieces) == phonemes


def test_chunks_of_a_result():
    words, text = words_of("aaa bbb. ccc ddd eee fff"), "aaa bbb. ccc ddd eee fff"
    result = Result(text, join_phonemes(words), words, {"emoji": 1})
    parts = list(cut_result(result, 16))
    assert [part.text for part in parts] == ["aaa bbb.", "ccc ddd eee fff"]
    assert [dict(part.dropped) for part in parts] == [{"emoji": 1}, {}]
    assert list(cut_result(result))[0].words == words


def spoken(capsys, *arguments):
    assert main(list(arguments)) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    return lines, json.loads(last)


def piped(content, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "kokoro_g2p", *arguments],
        input=content,
        capture_output=True,
        check=False,
    )


def refused(done):
    assert done.returncode == 2
    lines = done.stderr.decode().strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    return lines[0]


def test_text(capsys):
    lines, summary = spoken(capsys, "Hello, world. The end.")
    assert lines == ["həlˈO, wˈɜɹld.", "ði ˈɛnd."]
    assert summary["phonemes"] == "həlˈO, wˈɜɹld. ði ˈɛnd."
    assert summary["words"] == 7
    assert summary["sources"] == {"gold": 3, "punctuation": 3, "rule": 1}
    assert summary["dropped"] == {}


def test_dialect_and_lexicon(capsys, tmp_path):
    assert spoken(capsys, "Water.", "--dialect", "gb")[0] == ["wˈɔːtə."]
    mine = tmp_path / "my.tsv"
    mine.write_text("Kokoro\tkˈOkəɹO\n", encoding="utf-8")
    assert spoken(capsys, "Kokoro's", "--lexicon", str(mine))[0] == ["kˈOkəɹOz"]


def test_explain_has_a_row_for_every_word(capsys):
    lines, _ = spoken(capsys, "The [Kokoro](/kˈOkəɹO/) 20", "--explain")
    table = [" ".join(line.split()) for line in lines[1:5]]
    assert table == [
        "text spoken phonemes source confidence place",
        "The ðə rule 1.00 0:3",
        "Kokoro kˈOkəɹO override 1.00 5:11",
        "20 twenty twˈɛnti gold 1.00 24:26",
    ]
    assert re.fullmatch(r"'20' -> 'twenty': us\.tsv:\d+, cardinal", lines[5])


def test_file_stdin_and_argument_say_the_same(capsys, tmp_path):
    text, path = "Dr. Smith left. He is back!\n\nThe end\n\n" * 300, tmp_path / "text.txt"
    path.write_text("\ufeff" + text, encoding="utf-8")
    lines, summary = spoken(capsys, text)
    assert spoken(capsys, "--file", str(path))[0] == lines
    done = piped(text.encode(), "-")
    assert done.returncode == 0
    assert done.stdout.decode().splitlines()[:-1] == lines
    assert summary["sentences"] == len(lines) == 900


def test_other_scripts_and_surrogates_are_counted(capsys):
    lines, summary = spoken(capsys, "Hi привет \udc80 ☃ there")
    assert lines == ["hˈI ðˈɛɹ"]
    assert {"script Cyrillic": 6, "emoji": 1}.items() <= summary["dropped"].items()
    assert sum(summary["dropped"].values()) == 8


def test_long_text_is_not_repeated_in_the_last_line(capsys):
    _, summary = spoken(capsys, "Hello there. " * 10_000)
    assert summary["phonemes"] is None
    assert summary["sentences"] == 10_000


def test_text_and_file_together(capsys):
    assert main(["a", "--file", "b"]) == 2
    assert "not both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (b"", [], "the text is empty"),
        (b" \n ", [], "the text is empty"),
        ("привет".encode(), [], "only 6 script Cyrillic"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", [], "not UTF-8"),
        (b"caf\xe9 au lait", [], "not UTF-8"),
        ("héllo".encode("utf-16"), [], "not UTF-8"),
        (b"ELF\x00\x01", [], "binary"),
        (b"", ["--file", "missing.txt"], "missing.txt"),
        (b"", ["--file", "docs"], "docs is no file"),
        (b"", ["a", "--lexicon", "missing.tsv"], "cannot read the lexicon"),
        (b"", [""], "the text is empty"),
    ],
)
def test_bad_input_is_one_line(content, arguments, message):
    assert message in refused(piped(content, *arguments))


def test_a_pace_holds_to_its_end_across_sentences(us):
    text = (
        'One <prosody rate="slow">two. <prosody rate="+25%">Three</prosody> four.</prosody> Five'
        ' <break strength="strong"/> six.'
    )
    words = us.phonemize(text).words
    assert {word.text: round(word.rate, 3) for word in words if word.text.isalpha()} == {
        "One": 1, "two": 0.8, "Three": 1, "four": 0.8, "Five": 1, "six": 1
    }  # fmt: skip
    assert [word.pause_s for word in words if word.pause_s] == [0.8]
