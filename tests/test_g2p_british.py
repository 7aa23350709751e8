"""British: readings derived from American lists, zed, names of no British list."""

import pytest

from bench.g2p_names import read_words, wrong
from g2p import G2P
from g2p.british import BritishList, british


@pytest.fixture(scope="module")
def gb() -> G2P:
    return G2P.load("b")


@pytest.mark.parametrize(
    ("word", "american", "expected"),
    [
        ("carson", "kˈɑɹsᵊn", "kˈɑːsᵊn"),
        ("water", "wˈɔTəɹ", "wˈɒtə"),
        ("kevin", "kˈɛvən", "kˈɛvən"),
        ("walker", "wˈɔkəɹ", "wˈɔːkə"),
        ("murphy", "mˈɜɹfi", "mˈɜːfi"),
        ("owen", "ˈOən", "ˈQən"),
        ("matthew", "mˈæθju", "mˈaθjuː"),
        ("torres", "tˈɔɹəs", "tˈɒɹəs"),
        ("robin", "ɹˈɑbən", "ɹˈɒbən"),
    ],
)
def test_rules(word: str, american: str, expected: str) -> None:
    assert british(american, word) == expected


def test_a_name_of_american_lists_is_not_spelled(gb: G2P) -> None:
    words = gb.phonemize("Kevin and Paul Blorfkin").words
    assert [word.source for word in words][:1] == ["cmudict"] and all(word.source != "spelled" for word in words)
    assert "kevin" in BritishList() and BritishList()["kevin"] == "kˈɛvən"


def test_zed(gb: G2P) -> None:
    assert gb.phonemize("XYZ").phonemes.endswith("zˈɛd")
    assert G2P.load("us").phonemize("XYZ").phonemes.endswith("zˈi")


def test_few_british_names_are_wrong(gb: G2P) -> None:
    words = read_words("british_words")["british_words"]
    assert len(wrong(lambda word: gb.phonemize(word).phonemes, words)) <= 0.1 * len(words)
