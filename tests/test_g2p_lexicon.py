"""Spelling to reading: lists and their order, endings, letters, a user's own words; and that few names and frequent words are wrong."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.alphabet import KNOWN, SYMBOLS, to_kokoro, unknown_symbol
from kokoro_ane.g2p.lexicon import SILVER_CONFIDENCE, Found, Lexicon, read_user_lexicon
from kokoro_ane.g2p.morphology import SUFFIXES, stems
from kokoro_ane.g2p.reading import Reader
from kokoro_ane.g2p.result import Guess
from kokoro_ane.g2p.word_lists import CMUDICT, OURS, BritishList, ListFile, read
from tests.g2p_names import alike, heard, read_words, wrong

ROOT = Path(__file__).resolve().parents[1]


@cache
def lexicon(dialect: str = "us") -> Lexicon:
    return Lexicon.load(dialect)


@cache
def g2p(dialect: str) -> G2P:
    return G2P.load(dialect)


class Counted:
    """A neural model that answers the word itself, framed, and counts its calls."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def predict(self, words: Sequence[str]) -> list[Guess]:
        self.asked.append(list(words))
        return [Guess("blˈɔɹf", 0.5) for _ in words]


def test_symbols_are_kokoros() -> None:
    config = json.loads((ROOT / "core" / "data" / "demo" / "config.json").read_text(encoding="utf-8"))
    assert list(SYMBOLS) == list(config["vocab"])
    assert unknown_symbol("həlˈO") is None
    assert unknown_symbol("həl#O") == "#"


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dialect", ["us", "gb"])
def test_every_entry_is_in_the_vocabulary(dialect: str, every: int) -> None:
    """The output map takes misaki's flap and glottal stop; nothing else is outside."""
    for word in sorted(lexicon(dialect).words)[::every]:
        found = lexicon(dialect).find(word)
        said = [found.phonemes, *(phonemes for phonemes in (found.senses or {}).values() if phonemes)]
        assert all(phonemes and KNOWN.issuperset(phonemes) for phonemes in said), word
        assert not {"ɾ", "ʔ"} & set(found.phonemes)


def test_senses_and_confidence() -> None:
    read = lexicon().find("read")
    assert read.senses["VBD"] == "ɹˈɛd" != read.phonemes
    silver = next(word for word in lexicon()._all[-1][0] if lexicon().find(word).source == "silver")
    assert lexicon().find(silver).confidence == SILVER_CONFIDENCE
    assert isinstance(lexicon().find("reads"), Found)


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
        ("a.tsv", "good\tɡˈʊd\nbad\tb#d\n", "line 2: '#' (U+0023)"), ("a.tsv", "good ɡˈʊd\n", "line 1: no tab"),
        ("a.tsv", "good\t\n", "line 1: 'good' has no phonemes"),
        ("a.tsv", "two words!\tɡˈʊd\n", "line 1: the phrase 'two words!' never matches"),
        ("a.tsv", "a\tˈA\na\tə\n", "line 2: 'a' stands there a second time"), ("a.tsv", "", "holds no words"),
        ("a.json", "{", "is not JSON"), ("a.json", "[1]", "one object"), ("a.json", '{"a": 3}', "entry 1"),
        ("a.json", '{"a": "ˈA", "b": "~"}', "entry 2: '~' (U+007E)"), ("a.tsv", b"\xff\xfe", "not UTF-8"),
        ("missing/a.tsv", None, "cannot read"),
    ],
)  # fmt: skip
def test_a_bad_user_lexicon_is_one_clear_line(tmp_path: Path, name: str, content: str | bytes | None, wanted: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as problem:
        read_user_lexicon(path)
    assert wanted in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(("dialect", "suffix", "share"), [("us", "ed", 0.89), ("us", "ing", 0.92), ("gb", "ed", 0.88), ("gb", "ing", 0.86)])
def test_rules_reproduce_the_edited_list(dialect: str, suffix: str, share: float) -> None:
    """Inflected words of gold, from their gold stems. Gold lists mostly the irregular ones, so this is a floor."""
    gold = {word: phonemes for word, phonemes in read(f"{dialect}_gold").items() if isinstance(phonemes, str) and word.islower()}
    right = total = 0
    for word, phonemes in gold.items():
        found = next(((ending, stem) for ending, stem in stems(word) if stem in gold and len(stem) > 2), None)
        if word.isalpha() and found is not None and found[0] == suffix:
            total += 1
            right += SUFFIXES[suffix](to_kokoro(gold[found[1]]), dialect) == to_kokoro(phonemes)
    assert total > 1500
    assert right / total > share


@pytest.mark.parametrize("path", [CMUDICT, *OURS.values()], ids=lambda path: path.name)
def test_every_entry_is_a_lower_case_word_in_the_vocabulary(path: Path) -> None:
    entries = ListFile(path)
    assert len(entries) > 3
    assert not [(word, phonemes) for word, phonemes in entries.items() if word != word.lower() or not phonemes or unknown_symbol(phonemes)]


def test_a_damaged_list_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "list.txt.gz").write_bytes(b"no archive")
    for path in (tmp_path / "list.txt.gz", tmp_path / "missing.tsv"):
        with pytest.raises(InputError, match="is no list of words"):
            len(ListFile(path))


def test_a_name_of_american_lists_is_not_spelled() -> None:
    words = g2p("gb").phonemize("Kevin and Paul Blorfkin").words
    assert [word.source for word in words][:1] == ["cmudict"] and all(word.source != "spelled" for word in words)
    assert "kevin" in BritishList() and BritishList()["kevin"] == "kˈɛvən"


def test_the_comparison_forgives_what_nobody_hears_and_nothing_else() -> None:
    assert alike("bˈʌTəɹ", "bˈʌtɚ".replace("ɚ", "əɹ")) and alike("mˈɔɹəs", "mˈɔɹɪs") and alike("sˈɑləmən", "sˈɑlɑmən".replace("lɑ", "lə"))
    assert not alike("pˈɛɹɛz", "pəɹˈɛz") and not alike("tˈɑmsən", "θˈɑmsən") and not alike("kˈAvən", "kˈɛvən")
    assert heard("ˌæbɪ", "ə") == "æbə"


@pytest.mark.parametrize(
    ("dialect", "name", "part", "share"),
    [
        ("us", "names", "surname", 0.03),
        ("us", "names", "first", 0.03),
        ("us", "frequent_later", "frequent_later", 0.03),
        ("gb", "british_words", "british_words", 0.1),
        ("gb", "british_later", "british_later", 0.05),
    ],
)
def test_few_words_of_no_list_are_wrong(dialect: str, name: str, part: str, share: float) -> None:
    words = dict(list(read_words(name)[part].items())[: 250 if name == "names" else None])
    assert len(wrong(lambda word: g2p(dialect).phonemize(word).phonemes, words)) <= share * len(words)
