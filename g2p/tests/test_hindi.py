"""Hindi: syllables, stress, short a's that are left out, nasals; numbers; Latin words, marks,
offsets; the builder of its list.
"""

import gzip
import unicodedata

import pytest

from kokoro_g2p import G2P
from kokoro_g2p.languages import hindi
from kokoro_g2p.languages.hindi import LETTERS, NUMBERS, cardinal, price, read_word, year
from kokoro_g2p.training import hindi_words as builder
from reader_tests.hindi import compare_numbers, compare_sentences

G2P_HI = G2P.load("hi")


def test_sentences_and_numbers_are_read_as_well_as_before():
    assert compare_sentences(G2P_HI)["equal"] >= 99.7
    assert compare_numbers(G2P_HI)["right"] == 50


# a word, its symbols, and what they show
WORDS = """भारतीय bʰˌaːɾtˈiːj the last heaviest before the final
अधिक ˈʌdʰɪk all light: the first
चमकती cˈʌməkti a short a is left out once
पहली pˈʌhəlˌi but not behind h
राज्य ɾˈaːɟjə nor at the end behind some clusters
विद्यालय ʋɪdjˈaːlˌɛj
संसार sənsˈaːɾ
संबंध səmbˈʌndʰ
सिंह sˈĩh
चाँद cˈãnd
शाखाओं ʃaːkʰˈaːw
ज्ञान ɡjˈaːn
क्षमा kʃˈʌmaː
ज़रूरत zəɾˈuːɾət
पढ़ना pˈʌr.hənˌaː
प\u095dना pˈʌr.hənˌaː one code for letter and dot
उत्तर ˈʊtːəɾ
धर्म dʰˈʌrm
ऋषि ɾˈɪʂɪ
दुःख dˈʊhkʰ"""


@pytest.mark.parametrize("row", WORDS.splitlines())
def test_words_by_rule(row):
    word, said = row.split()[:2]
    assert read_word(word) == unicodedata.normalize("NFD", said)


def test_a_sign_without_a_letter_is_silent():
    assert not read_word("्")


def test_the_hundred_numbers_and_indian_groups():
    assert len(set(NUMBERS)) == 100
    assert cardinal("12,34,567") == "बारह लाख चौंतीस हज़ार पाँच सौ सड़सठ"
    assert cardinal("100") == "सौ"
    assert cardinal("20000000000000") == hindi.NUMERALS.read_digits("20000000000000")
    assert year("1947") == "उन्नीस सौ सैंतालीस"
    assert price("₹1,250.50") == "एक हज़ार दो सौ पचास रुपये पचास पैसे"


def test_latin_words_marks_and_what_is_left_out():
    result = G2P_HI.phonemize("हिंदी में WhatsApp चलाओ। ठीक है?😀 ॥")
    english = G2P.load("us").phonemize("WhatsApp").phonemes
    assert {word.text: word.phonemes for word in result.words}["WhatsApp"] == english
    assert result.phonemes.endswith("hɛː?.")
    assert result.dropped == {"emoji": 1}
    assert [one.text for one in G2P_HI.sentences("मैं ठीक हूँ।तुम?")] == ["मैं ठीक हूँ।", "तुम?"]


def test_overrides_and_lexicons():
    g2p = G2P.load("hi", {"कोकोरो": "kˈokoɾo"})
    result = g2p.phonemize("[नाम](/nˈam/) कोकोरो [20](digits) [FBI](characters)")
    assert [word.source for word in result.words[:3]] == ["override", "user", "spelled"]
    assert result.words[2].phonemes == f"{g2p._reader.read('दो')} {g2p._reader.read('शून्य')}"


def test_the_list_holds_what_the_rules_read_otherwise(monkeypatch, tmp_path, capsys):
    said = {"घर नाम घर": "ɡʰˈʌɾ nˌam ɡʰˈʌɾ", "कमल": "kˈʌməl", "अाज": "ʌʰχˈaːɟ"}
    monkeypatch.setattr(builder, "read_frequent_words", lambda code, form: ["नाम", "कमल", "अाज"])
    monkeypatch.setattr(builder, "open_espeak", lambda code: said.__getitem__)
    monkeypatch.setattr(builder, "COMMON", 1)
    assert builder.main(["--out", str(tmp_path)]) == 0
    content = gzip.decompress((tmp_path / "hindi.txt.gz").read_bytes()).decode()
    assert content == "नाम\tnˌam"
    assert all(LETTERS[0] <= one <= LETTERS[-1] for one in "नाम")
    assert capsys.readouterr().out
