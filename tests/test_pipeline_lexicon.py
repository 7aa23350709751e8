"""The bundle's lexicon: every word is said as g2p says it, in the dialects that the voices speak."""

import random

import pytest

from kokoro_ane.g2p.alphabet import KNOWN
from kokoro_ane.g2p.lexicon import Lexicon
from kokoro_ane.g2p.phonemizer import G2P
from kokoro_ane.g2p.reading import Reader
from kokoro_ane.g2p.result import Dialect
from kokoro_ane.pipeline.lexicon_file import dialects_for, lexicon_lines, said_alone

SAMPLE = 2000


def rows(dialect: Dialect) -> dict[str, tuple[str, dict[str, str]]]:
    """Read back as an app would: word to list and phonemes by part of speech; "" where the sentence does not decide."""
    found = {}
    for line in lexicon_lines(dialect):
        word, source, *columns = line.split("\t")
        found[word] = source, dict(column.split("=") if "=" in column else ("", column) for column in columns)
    return found


@pytest.mark.parametrize("dialect", ["us", "gb"])
def test_every_word_is_as_g2p_says_it(dialect: Dialect) -> None:
    lexicon, written, g2p = Lexicon.load(dialect), rows(dialect), G2P.load(dialect)
    reader = Reader(lexicon, None)
    assert written.keys() == lexicon.words
    symbols = set("".join(sound for _, said in written.values() for sound in said.values()))
    assert not symbols - (KNOWN | {" "}) and not symbols & set("ɾʔ")  # Kokoro v1.0 reads T and t
    for word, (source, said) in written.items():  # the look-up
        if source != "r":
            reading = reader.read(word)
            assert said == ({key: sound or "" for key, sound in (reading.senses or {"": reading.phonemes}).items()}), word
    by_rule = [word for word, (source, _) in written.items() if source == "r" or not word.islower()]
    for word in {*random.Random(29).sample(sorted(written), SAMPLE), *random.Random(29).sample(sorted(by_rule), SAMPLE // 4), "the", "AM"}:
        said = {sound or reader.letters(word).phonemes for sound in written[word][1].values()}
        assert said_alone(g2p, word) in said, word


def test_lines_are_sorted_by_bytes_and_words_are_right() -> None:
    lines, us, gb = lexicon_lines("us"), rows("us"), rows("gb")
    assert list(lines) == sorted(lines, key=str.encode)
    assert us["water"] == ("g", {"": "wˈɔTəɹ"}) and us["beth"][1] == {"": "bˈɛθ"} and us["the"] == ("r", {"": "ðə"})
    assert gb["water"] == ("g", {"": "wˈɔːtə"}) and gb["Z"] == ("r", {"": "zˈɛd"})
    assert us["AM"][1] == {"DEFAULT": "ˈæm", "NOUN": ""} and us["Dr."][1] == {"": "dˈɑktəɹ"}


@pytest.mark.parametrize(
    ("voices", "dialects"),
    [
        (["af_heart", "am_adam"], ("us",)),
        (["bm_george"], ("gb",)),
        (["bf_emma", "af_heart", "ef_dora"], ("us", "gb")),
        (["slt"], ("us",)),
        (["ef_dora", "im_nicola"], ()),
    ],
)
def test_dialects_follow_the_voices(voices: list[str], dialects: tuple[Dialect, ...]) -> None:
    assert dialects_for(voices) == dialects
