"""Names: the lists behind them, their order, and that few are wrong (bench.g2p_names has the figures)."""

from pathlib import Path

import pytest

from bench.g2p_names import alike, heard, read_words, wrong
from core.errors import InputError
from g2p import G2P
from g2p.lexicon import Lexicon
from g2p.lists import CMUDICT, OURS, ListFile
from g2p.symbols import unknown_symbol


@pytest.fixture(scope="module")
def us() -> G2P:
    return G2P.load("us")


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.load("us")


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


@pytest.mark.parametrize(
    ("word", "source", "phonemes"),
    [
        ("Thompson", "cmudict", "tˈɑmpsᵊn"),
        ("Kevin", "cmudict", "kˈɛvən"),
        ("KEVIN", "cmudict", "kˈɛvən"),
        ("Nguyen", "ours", "nəwˈɪn"),
        ("Beth", "ours", "bˈɛθ"),
        ("water", "gold", "wˈɔTəɹ"),
        ("having", "morphology", "hˈævɪŋ"),
        ("should've", "gold", "ʃʊdəv"),
    ],
)
def test_which_list_answers(lexicon: Lexicon, word: str, source: str, phonemes: str) -> None:
    found = lexicon.find(word)
    assert found is not None and (found.source, found.phonemes) == (source, phonemes)


def test_a_capitalised_name_goes_before_a_stem_and_a_small_word_does_not(lexicon: Lexicon) -> None:
    assert lexicon.find("Torres").source == "cmudict"
    assert lexicon.find("walked").source == "morphology"


@pytest.mark.parametrize(
    ("word", "phonemes"), [("rosé", "ɹˌOzˈA"), ("piñata", "pɪnjˈɑTə"), ("Beyoncé", "biˈɑnsA"), ("café", "kæfˈA"), ("resumé", "ɹəzˌumˈA")]
)
def test_accents_that_are_heard(us: G2P, word: str, phonemes: str) -> None:
    assert us.phonemize(word).phonemes == phonemes


@pytest.mark.parametrize("part", ["surname", "first"])
def test_few_names_are_wrong(us: G2P, part: str) -> None:
    words = dict(list(read_words("names")[part].items())[:250])
    assert len(wrong(lambda word: us.phonemize(word).phonemes, words)) <= 0.03 * len(words)


def test_the_comparison_forgives_what_nobody_hears_and_nothing_else() -> None:
    assert alike("bˈʌTəɹ", "bˈʌtɚ".replace("ɚ", "əɹ")) and alike("mˈɔɹəs", "mˈɔɹɪs") and alike("sˈɑləmən", "sˈɑlɑmən".replace("lɑ", "lə"))
    assert not alike("pˈɛɹɛz", "pəɹˈɛz") and not alike("tˈɑmsən", "θˈɑmsən") and not alike("kˈAvən", "kˈɛvən")
    assert heard("ˌæbɪ", "ə") == "æbə"
