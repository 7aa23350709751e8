"""Endings and their sounds, against the hand-edited list."""

import pytest

from g2p.alphabet import to_kokoro
from g2p.misaki_data import read
from g2p.morphology import SUFFIXES, is_clitic, stems, with_clitic, with_ed, with_ing, with_s


@pytest.mark.parametrize(
    ("stem", "us", "gb"),
    [("kˈæt", "kˈæts", "kˈæts"), ("dˈɔɡ", "dˈɔɡz", "dˈɔɡz"), ("bˈʌs", "bˈʌsᵻz", "bˈʌsɪz"), ("ʤˈʌʤ", "ʤˈʌʤᵻz", "ʤˈʌʤɪz")],
)
def test_plural(stem: str, us: str, gb: str) -> None:
    assert (with_s(stem, "us"), with_s(stem, "gb")) == (us, gb)


@pytest.mark.parametrize(
    ("stem", "us", "gb"),
    [
        ("wˈɔk", "wˈɔkt", "wˈɔkt"),
        ("bˈɛɡ", "bˈɛɡd", "bˈɛɡd"),
        ("nˈid", "nˈidᵻd", "nˈidɪd"),
        ("wˈAt", "wˈATᵻd", "wˈAtɪd"),  # the American flap behind a vowel
        ("wˈɑnt", "wˈɑntᵻd", "wˈɑntɪd"),  # but not behind n
        ("plˈA", "plˈAd", "plˈAd"),
    ],
)
def test_past(stem: str, us: str, gb: str) -> None:
    assert (with_ed(stem, "us"), with_ed(stem, "gb")) == (us, gb)


def test_ing() -> None:
    assert with_ing("wˈAt", "us") == "wˈATɪŋ"
    assert with_ing("wˈAt", "gb") == "wˈAtɪŋ"
    assert with_ing("stˈɜː", "gb") == "stˈɜːɹɪŋ"  # linking r
    assert with_ing("sˈiː", "gb") == "sˈiːɪŋ"


@pytest.mark.parametrize(
    ("clitic", "expected"),
    [("s", "ʤˈɑnz"), ("d", "ʤˈɑnd"), ("ll", "ʤˈɑnəl"), ("ve", "ʤˈɑnəv"), ("RE", "ʤˈɑnəɹ")],
)
def test_clitics(clitic: str, expected: str) -> None:
    assert is_clitic(clitic)
    assert with_clitic("ʤˈɑn", clitic, "us") == expected


def test_no_clitic() -> None:
    assert not is_clitic("x")
    assert with_clitic("fˈOɹd", "d", "us") == "fˈOɹdᵻd"


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("tries", ("s", "try")),
        ("cats", ("s", "cat")),
        ("hoping", ("ing", "hope")),  # not hop
        ("breathing", ("ing", "breathe")),
        ("walking", ("ing", "walk")),
        ("bombed", ("ed", "bomb")),  # not bombe
        ("hoped", ("ed", "hope")),
        ("tried", ("ed", "try")),
    ],
)
def test_spelling_says_which_stem(word: str, first: tuple[str, str]) -> None:
    assert next(iter(stems(word))) == first


@pytest.mark.parametrize(("word", "stem"), [("stopped", "stop"), ("running", "run"), ("mimicking", "mimic"), ("boxes", "box")])
def test_restored_stems(word: str, stem: str) -> None:
    assert stem in [found for _, found in stems(word)]


@pytest.mark.parametrize("word", ["glass", "bus", "red", "sing", "bed", "is", ""])
def test_short_words_have_no_stem_of_one_letter(word: str) -> None:
    assert all(len(stem) > 1 for _, stem in stems(word))


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
