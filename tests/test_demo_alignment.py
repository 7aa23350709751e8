"""Spelling, alignment and text of the encoder's lessons.

pytest tests/test_demo_alignment.py
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.corpus import calibration, frozen_sentences, heldout
from core.errors import InputError
from demo import prose as text
from demo.alignment import PAUSE, Sound, align, fitted_edges, least_cost_path, match_cost, sounds
from demo.phones import PAD_SYMBOL, parse_psdur, vocabulary
from demo.prose import prose, rare_words, reserved_words, spoken_text
from demo.sentences import words_of
from demo.spelling import Speller

OWL = "pau:0.2 dh:0.25 iy:0.35 aw:0.6 l:0.7 pau:0.9 s:1.0 ae:1.2 t:1.3 pau:1.5"  # "the owl, sat." as flite prints it
FUNCTION_WORDS = {
    word.lower()
    for words in (text.ADVERBS, text.AUXILIARIES, text.CONJUNCTIONS, text.DETERMINERS, text.OBJECTS, text.PREPOSITIONS, text.QUESTIONS)
    for word in (*words, *text.SUBJECTS)
}
LEXICON = {"owl": "ˈWl", "sat": "sˈæt", "dog": "dˈɔɡ", "of": {"DEFAULT": "ʌv", "None": "ˈʌv"}, "saw": "sˈɔ"}


def test_every_symbol_gets_time_and_the_sum_is_kept() -> None:
    phonemes = "ði ˈWl, sˈæt."
    found = align(phonemes, parse_psdur(OWL), frames=60)
    assert len(found.durations) == len(phonemes) + 2 and sum(found.durations) == 60 and min(found.durations) >= 1
    assert found.cost < 0.05
    start = np.cumsum([0, *found.durations])[1 + phonemes.index("s")] / 40
    assert start == pytest.approx(0.9, abs=0.05), "the s starts where flite's s starts"


def test_other_words_cost_more() -> None:
    right, wrong = (align(phonemes, parse_psdur(OWL), 60).cost for phonemes in ("ði ˈWl, sˈæt.", "mˈʌŋki bɹˈɪʤ."))
    assert wrong > 10 * max(right, 0.02)


def test_too_many_tokens_or_no_speech_is_an_error() -> None:
    with pytest.raises(InputError, match="do not fit"):
        align("ði ˈWl, sˈæt.", parse_psdur(OWL), frames=10)
    with pytest.raises(InputError, match="flite spoke 1 phones"):
        sounds(parse_psdur("pau:0.2"))


def test_the_path_pairs_a_comma_with_its_pause() -> None:
    spoken = [Sound(symbol, i / 10, (i + 1) / 10) for i, symbol in enumerate((PAD_SYMBOL, "æ", PAUSE, "b", PAD_SYMBOL))]
    partner, cost = least_cost_path([PAD_SYMBOL, "ˈ", "æ", ",", " ", "b", PAD_SYMBOL], spoken)
    assert (partner, cost) == ([0, None, 1, 2, None, 3, 4], 0.0)


def test_near_sounds_cost_less_than_strangers() -> None:
    assert match_cost("ə", "ə") < match_cost("ə", "ʌ") < match_cost("ə", "i") < match_cost("ə", "k")


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30), st.integers(0, 40))
def test_fitted_edges_rise_end_right_and_stay_near(steps: list[float], room: int) -> None:
    wanted = np.cumsum(steps)
    frames = len(steps) + room
    wanted = wanted * frames / max(wanted[-1], 1e-9)
    edges = fitted_edges(wanted, frames)
    assert edges[-1] == frames and np.diff(edges, prepend=0).min() >= 1
    comfortable = np.diff(wanted, prepend=0).min() >= 1
    assert not comfortable or np.abs(edges - wanted).max() <= 1


def test_spelling_has_stress_spaces_weak_forms_and_refuses_unknown_words() -> None:
    spell = Speller(LEXICON)
    assert spell("the owl saw a dog.") == "ði ˈWl sˈɔ ɐ dˈɔɡ."
    assert spell("the dog of an owl") == "ðə dˈɔɡ ʌv ɐn ˈWl"
    assert spell("owl of.") == "ˈWl ˈʌv.", "before a pause the strong form"
    assert spell("the walrus.") is None


def test_prose_repeats_itself_and_keeps_frozen_words_out() -> None:
    words = rare_words(["yacht", "zebra", "Xy", *list(reserved_words())[:5]])
    assert words == ["yacht", "zebra"]
    texts = prose(200, seed=3, words=words)
    assert texts == prose(200, seed=3, words=words) != prose(200, seed=4, words=words)
    assert not {word for line in texts for word in words_of(line)} & reserved_words() - FUNCTION_WORDS
    assert {line[-1] for line in texts} >= {".", "?", "!"}


def test_flite_is_given_marks_it_knows() -> None:
    assert spoken_text("“Well — yes…”") == "Well, yes."


def test_frozen_utterances_are_in_the_spelling_of_g2p() -> None:
    vocab = vocabulary()
    for utterance in heldout() + calibration():
        assert " " in utterance.phonemes and "ˈ" in utterance.phonemes
        assert [0, *(vocab[symbol] for symbol in utterance.phonemes), 0] == utterance.input_ids.tolist()
        assert utterance.durations.min() >= 1


def test_unseen_sentences_are_a_hundred_of_their_own() -> None:
    texts = frozen_sentences("unseen")
    assert len(set(texts)) == len(texts) >= 100
    assert not set(texts) & {*frozen_sentences("heldout"), *frozen_sentences("calibration")}
