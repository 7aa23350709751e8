"""What the voice was trained on, and classes of prose that misaki with spaCy showed: weak vowels, points, capitals, that, small verbs.

python -m pytest tests/test_g2p_conventions.py
"""

from functools import cache

import pytest

from g2p import G2P


@cache
def american() -> G2P:
    return G2P.load("us")


@pytest.mark.parametrize(
    ("text", "sounds"),
    [
        ("He replied.", "ɹᵻplˈId"),  # silver's weak vowel, gold's sounds
        ("Severing it hurts.", "sˈɛvəɹɪŋ"),
        ("It costs 3.1 euros.", "θɹˈi pYnt wˈʌn"),
        ("That is the point.", "pˈYnt"),
        ("We went to a lake.", "tə ɐ lˈAk"),
        ("They re-wrote it.", "ɹˌiɹˈOt"),
        ("I don't like MID-WEEK trips.", "mˌɪdwˈik"),
        ("We sell NON-GMO corn.", "nˈɑn ʤˌiˌɛmˈO"),
        ("Look in the BIN now.", "bˈɪn"),
        ("Trust the FDA now.", "ˌɛfdˌiˈA"),  # control: letters stay letters
        ("The book I didn't read is here.", "bˈʊk ˌI"),
        ("I got used to never being late.", "jˈust"),
        ("We fix hvac units.", "ˈAʧvˌæk"),
    ],
)
def test_as_the_voice_heard_it(text: str, sounds: str) -> None:
    assert sounds in american().phonemize(text).phonemes


@pytest.mark.parametrize(
    ("text", "stressed"),
    [
        ("I believe that, if he comes, we win.", False),
        ("They noticed that, this year, nobody came.", False),
        ("It is an object that enables us to act.", False),
        ("Is that your nose?", True),
        ("I never did it that way.", True),
        ("After that you can go.", True),
        ("Now that should be enough.", True),
    ],
)
def test_that(text: str, stressed: bool) -> None:
    assert ("ðˈæt" in american().phonemize(text).phonemes) is stressed


@pytest.mark.parametrize(
    ("text", "sounds"),
    [
        ("Live with a person to know him.", "lˈɪv"),
        ("Live from New York.", "lˈIv"),
        ("To win, first increase it.", "ɪnkɹˈis"),
        ("They are transforms of one another.", "tɹˈænsfˌɔɹmz"),
        ("The class consists of boys.", "kənsˈɪsts"),  # control: no noun
        ("Content: wool.", "kˈɑntɛnt"),
    ],
)
def test_heads(text: str, sounds: str) -> None:
    assert sounds in american().phonemize(text).phonemes
