"""Spanish and Italian: words, numbers, sentences, overrides and lexicons as in English, offsets, and bad input in one line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.alphabet import KNOWN, dialect_of, spoken_by, voice_language
from kokoro_ane.g2p.languages import grammar
from kokoro_ane.g2p.languages.language_normalizer import NORMALIZERS


@given(st.integers(0, 999_999))
def test_numbers_as_num2words_says_them(number: int) -> None:
    theirs = num2words(number, lang="es").replace("veintiuno mil", "veintiún mil")
    assert grammar.spanish(number) == re.sub(r"\buno mil", "un mil", theirs)
    plain = num2words(number, lang="it").replace(" ", "").replace("dicotto", "diciotto").replace("centoo", "cento")
    assert grammar.italian(number).replace("tré", "tre") == plain.replace("tré", "tre")


@pytest.mark.parametrize(("language", "acronym"), [("es", "ONU"), ("it", "NATO")])
def test_acronyms_are_words_or_letters(language: str, acronym: str) -> None:
    tokens = {token.text: token.kind for token in NORMALIZERS[language](f"la {acronym} y el FBI de la UE").tokens}
    assert (tokens[acronym], tokens["FBI"], tokens["UE"]) == ("word", "letters", "letters")


def test_overrides_lexicons_and_pauses_work_as_in_english() -> None:
    g2p = G2P.load("es", {"kokoro": "kˈokoɾo", "buen día": "bwˈɛn dˈia"})
    result = g2p.phonemize("Kokoro: [Madrid](/maðɾˈi/) [pause 300ms] [FBI](characters), Buen Día.")
    assert result.phonemes == "kˈokoɾo: maðɾˈi . ˌefeβˌeˈi, bwˈɛn dˈia."
    assert {word.source for word in result.words} == {"user", "override", "pause", "spelled", "punctuation"}
    assert [word.pause_s for word in result.words if word.pause_s] == [0.3]
    phonemes, tokens = g2p("Hola, kokoro.")
    assert "".join(token.phonemes + token.whitespace for token in tokens).strip() == phonemes


TEXT = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("aeiouáñüç0123456789 .,;:¿?¡!€$%/-'°ºªIVX[]()")), max_size=60)


@pytest.mark.parametrize("language", ["es", "it"])
@given(text=TEXT)
def test_any_text_is_said_in_known_symbols_with_its_offsets(language: str, text: str) -> None:
    result = G2P.load(language).phonemize(text)
    assert KNOWN.issuperset(result.phonemes)
    for word in result.words:
        assert text[word.start : word.end] == word.text


def test_bad_input_is_one_line() -> None:
    with pytest.raises(InputError, match="'pt': one of us, a, .*es, e, .*it") as told:
        G2P.load("pt")
    assert "\n" not in str(told.value)
    pytest.raises(InputError, G2P.load, "es", fallback=lambda word: None).match("es is read by rule")
    pytest.raises(InputError, G2P.load, "it", {"x": "ж"}).match("entry 1: 'ж'")
    with pytest.raises(InputError, match="the text is None"):
        G2P.load("it").phonemize(None)  # type: ignore[arg-type]


def test_a_voice_of_a_language_that_nobody_reads_is_an_error() -> None:
    unread = {"ff_siwis": "French", "hm_omega": "Hindi", "jf_alpha": "Japanese", "pm_alex": "Portuguese", "zf_xiaoni": "Mandarin"}
    for voice, language in unread.items():
        with pytest.raises(InputError, match=rf"{voice} speaks .*{language}.*--dialect") as told:
            voice_language(voice)
        assert "\n" not in str(told.value) and spoken_by(voice) is None
    assert [dialect_of(tag) for tag in ("es-MX", "es-419", "it-CH", "en-AU", "en_US", "en-CA")] == ["es", "es", "it", "gb", "us", "us"]
