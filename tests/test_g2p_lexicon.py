"""Spelling to reading: lists, case, accents, endings, compounds, letters, a user's own words."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from core.errors import InputError
from g2p.lexicon import SILVER_CONFIDENCE, Found, Lexicon
from g2p.lexicon_user import read_user_lexicon
from g2p.reading import Reader, pronounceable
from g2p.result import Guess
from g2p.spell import GROUP, fold, spell
from g2p.symbols import KNOWN, SYMBOLS, restress, unknown_symbol, weight

ROOT = Path(__file__).resolve().parents[1]


@cache
def lexicon(dialect: str = "us") -> Lexicon:
    return Lexicon.load(dialect)


class Counted:
    """A neural model that answers the word itself, framed, and counts its calls."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def predict(self, words: Sequence[str]) -> list[Guess]:
        self.asked.append(list(words))
        return [Guess("blˈɔɹf", 0.5) for _ in words]


def test_symbols_are_kokoros() -> None:
    config = json.loads((ROOT / "demo" / "checkpoint" / "config.json").read_text(encoding="utf-8"))
    assert list(SYMBOLS) == list(config["vocab"])
    assert unknown_symbol("həlˈO") is None
    assert unknown_symbol("həl#O") == "#"


@pytest.mark.parametrize("dialect", ["us", "gb"])
def test_every_entry_is_in_the_vocabulary(dialect: str) -> None:
    """The output map takes misaki's flap and glottal stop; nothing else is outside."""
    for entries, _, _ in lexicon(dialect)._all:
        for word in entries:
            found = lexicon(dialect).find(word)
            said = [found.phonemes, *(phonemes for phonemes in (found.senses or {}).values() if phonemes)]
            assert all(phonemes and KNOWN.issuperset(phonemes) for phonemes in said), word
            assert "ɾ" not in found.phonemes
            assert "ʔ" not in found.phonemes


@pytest.mark.parametrize(
    ("phonemes", "level", "expected"),
    [
        ("wˈɔtˌɛɹ", -2, "wɔtɛɹ"),
        ("wˈɔtˌɛɹ", -1, "wˌɔtɛɹ"),
        ("wˈɔtˌɛɹ", 0, "wˌɔtɛɹ"),
        ("wˌɔtɛɹ", 0, "wˌɔtɛɹ"),
        ("fɔɹ", 0.5, "fˌɔɹ"),
        ("fɔɹ", 1, "fˌɔɹ"),
        ("fɔɹ", 2, "fˈɔɹ"),
        ("fˌɔɹ", 1, "fˈɔɹ"),
        ("fˌɔɹ", 0.5, "fˌɔɹ"),
        ("fˈɔɹ", 2, "fˈɔɹ"),
        ("s", 2, "s"),
        ("fɔɹ", None, "fɔɹ"),
    ],
)
def test_stress_levels(phonemes: str, level: float | None, expected: str) -> None:
    assert restress(phonemes, level) == expected


def test_weight_counts_diphthongs_and_affricates_twice() -> None:
    assert weight("nˈOʤ") == 6


@pytest.mark.parametrize(
    ("word", "phonemes", "source"),
    [
        ("hello", "həlˈO", "gold"),
        ("Hello", "həlˈO", "gold"),
        ("london", "lˈʌndən", "gold"),  # listed with a capital only
        ("café", "kæfˈA", "gold"),
        ("Zürich", "zˈuɹɪk", "gold"),
        ("cafés", "kæfˈAz", "morphology"),
        ("dogs'", "dˈɔɡz", "morphology"),
        ("John's", "ʤˈɑnz", "morphology"),
        ("John’s", "ʤˈɑnz", "morphology"),
        ("WHO'S", "hˌuz", "gold"),  # listed in lower case
        ("walked", "wˈɔkt", "morphology"),  # silver has it too: the edited stem goes first
        ("WALKED", "wˈɔkt", "morphology"),
        ("NASA", "nˈæsə", "gold"),
        ("better", "bˈɛTəɹ", "gold"),  # the flap as Kokoro v1.0 knows it
    ],
)
def test_find(word: str, phonemes: str, source: str) -> None:
    found = lexicon().find(word)
    assert (found.phonemes, found.source) == (phonemes, source)


@pytest.mark.parametrize("word", ["blorfing", "x'y", "APIs", "", "'", "-", "ʘ"])
def test_not_listed(word: str) -> None:
    assert lexicon().find(word) is None


def test_a_name_with_s_is_the_name() -> None:
    name, owned = lexicon().find("Scorsese"), lexicon().find("Scorsese's")  # CMUdict lists both, and otherwise
    assert name is not None and owned is not None and owned.phonemes == name.phonemes + "z"


@pytest.mark.parametrize(
    ("word", "spoken"),
    [("hasnt", "hasn't"), ("Youve", "you've"), ("youll", "you'll"), ("rockin", None), ("Calvin", None)],
)
def test_as_people_type(word: str, spoken: str | None) -> None:
    found = lexicon().find(word)
    assert found is not None
    if spoken:
        listed = lexicon().find(spoken)
        assert listed is not None and found.phonemes == listed.phonemes and found.source == "morphology"
    else:
        assert found.phonemes == {"rockin": "ɹˈɑkɪn", "Calvin": "kˈælvən"}[word]  # a name stays what it is


def test_senses_and_confidence() -> None:
    read = lexicon().find("read")
    assert read.senses["VBD"] == "ɹˈɛd" != read.phonemes
    silver = next(word for word in lexicon()._all[-1][0] if lexicon().find(word).source == "silver")
    assert lexicon().find(silver).confidence == SILVER_CONFIDENCE
    assert isinstance(lexicon().find("reads"), Found)


def test_british() -> None:
    assert lexicon("gb").find("waited").phonemes == "wˈAtɪd"
    assert lexicon("gb").find("bath").phonemes == "bˈɑːθ"


def test_spelling_out() -> None:
    names = lexicon().letter_names
    assert spell("FBI", names) == "ˌɛfbˌiˈI"
    assert spell("é", names) == spell("E", names) == "ˈi"
    assert spell("ʘ", names) == ""
    assert spell("a" * (GROUP + 1), names).count(" ") == 1
    assert "θɹˌi" in spell("w3c", names)
    assert fold("Æsir’s straße, café") == "AEsir's strasse, cafe"


@pytest.mark.parametrize(
    ("word", "phonemes", "source"),
    [
        ("well-read", "wˌɛlɹˈid", "morphology"),
        ("e-mail", "ˈimˌAl", "morphology"),
        ("x-blorf", "ˈɛksblˌɔɹf", "spelled"),  # as good as its worst part
        ("blorf's", "blˈɔɹfs", "neural"),
        ("blorf", "blˈɔɹf", "neural"),
        ("CEO's", "sˌiˌiˈOz", "spelled"),
        ("APIs", "ˌApˌiˈIz", "cmudict"),
        ("xkcd", "ˌɛkskˌAsˌidˈi", "spelled"),
        ("For", "fˌɔɹ", "gold"),  # a capital gives a function word a secondary stress, capitals a primary one
        ("FOR", "fˈɔɹ", "gold"),
    ],
)
def test_reading(word: str, phonemes: str, source: str) -> None:
    reader = Reader(lexicon(), Counted())
    reader.prepare([word])
    reading = reader.read(word)
    assert (reading.phonemes, reading.source) == (phonemes, source)


def test_the_model_is_asked_once_for_what_nobody_knows() -> None:
    neural = Counted()
    reader = Reader(lexicon(), neural)
    reader.prepare(["hello", "blorf", "blorf", "well-blorf", "Blorf's", "xkcd", "NATO", "grault"])
    assert neural.asked == [["blorf", "Blorf", "grault"]]
    reader.read("blorf")
    reader.prepare(["blorf"])
    assert len(neural.asked) == 1


def test_without_a_model_unknown_words_are_spelled() -> None:
    reading = Reader(lexicon(), None).read("blorf")
    assert reading.source == "spelled"
    assert reading.confidence == 0
    assert Reader(lexicon(), None).read("ʘʘ").unsaid == 2


@pytest.mark.parametrize(
    ("word", "may"), [("blorf", True), ("xkcd", False), ("BBC", False), ("SHOUTED", True), ("b", False), ("a" * 40, False)]
)
def test_pronounceable(word: str, may: bool) -> None:
    assert pronounceable(word) == may


def test_user_words(tmp_path: Path) -> None:
    for name, content in (("my.tsv", "# mine\nKokoro\tkˈOkəɹO\n\nhello\thˈA\n"), ("my.json", '{"Kokoro": "kˈOkəɹO", "hello": "hˈA"}')):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        mine = Lexicon.load("us", read_user_lexicon(path))
        assert mine.find("Hello") == Found("hˈA", "user")
        assert mine.find("Kokoro's").phonemes == "kˈOkəɹOz"
        assert Reader(mine, None).read("KOKORO").source == "user"


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.tsv", "good\tɡˈʊd\nbad\tb#d\n", "line 2: '#' (U+0023)"),
        ("a.tsv", "good ɡˈʊd\n", "line 1: no tab"),
        ("a.tsv", "good\t\n", "line 1: 'good' has no phonemes"),
        ("a.tsv", "two words!\tɡˈʊd\n", "line 1: the phrase 'two words!' never matches"),
        ("a.tsv", "a\tˈA\na\tə\n", "line 2: 'a' stands there a second time"),
        ("a.tsv", "", "holds no words"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "[1]", "one object"),
        ("a.json", '{"a": 3}', "entry 1"),
        ("a.json", '{"a": "ˈA", "b": "~"}', "entry 2: '~' (U+007E)"),
        ("a.tsv", b"\xff\xfe", "not UTF-8"),
        ("missing/a.tsv", None, "cannot read"),
    ],
)
def test_a_bad_user_lexicon_is_one_clear_line(tmp_path: Path, name: str, content: str | bytes | None, wanted: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as problem:
        read_user_lexicon(path)
    assert wanted in str(problem.value)
    assert "\n" not in str(problem.value)
