"""Spanish, Italian, French, Portuguese: words, numbers, sentences, overrides and lexicons as in
English, offsets; bad input in one line.
"""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p import G2P
from kokoro_ane.g2p.alphabet import KNOWN, dialect_of, spoken_by, voice_language
from kokoro_ane.g2p.languages import french, grammar, portuguese
from kokoro_ane.g2p.languages.language_normalizer import NORMALIZERS
from kokoro_ane.g2p.languages.letter_reader import letter_stages
from kokoro_ane.g2p.languages.letter_trees import LetterTrees
from kokoro_ane.pipeline.text_tables import languages_for, write_text_tables
from tests.g2p.espeak import of_sentences
from training.grow_trees import Alignment, grown, held_out


@given(st.integers(0, 999_999))
def test_numbers_as_num2words_says_them(number):
    theirs = num2words(number, lang="es").replace("veintiuno mil", "veintiún mil")
    assert grammar.spanish(number) == re.sub(r"\buno mil", "un mil", theirs)
    plain = (
        num2words(number, lang="it")
        .replace(" ", "")
        .replace("dicotto", "diciotto")
        .replace("centoo", "cento")
    )
    assert grammar.italian(number).replace("tré", "tre") == plain.replace("tré", "tre")
    assert french.french(number).replace(" ", "-") == num2words(number, lang="fr").replace(" ", "-")
    assert portuguese.portuguese(number) == num2words(number, lang="pt_BR").replace(
        ",", ""
    ).replace("catorze", "quatorze")


def test_french_words_meet_as_in_espeak():
    said = G2P.load("fr").phonemize
    assert said("Les enfants de Paris.").phonemes == "lez ɑ̃fˈɑ̃ də paʁˈi."
    assert said("les héros").phonemes == "le eʁˈo"
    assert said("les hommes").phonemes == "lez ˈɔm"
    assert said("l'ami d'Antoine, un petit homme.").phonemes == "lamˈi dɑ̃twˈan, œ̃ pətˈit ˈɔm."
    assert said("La SNCF").words[-1].phonemes == "ˌɛsˌɛnsˌeˈɛf"


def test_portuguese_words_meet_as_in_espeak():
    said = G2P.load("pt-BR").phonemize
    assert (
        said("Os amigos de João estão em casa.").phonemes
        == "ʊz ˌæmˈiɡʊz ʤy ʒoˈɐ̃ʊ̃ estˌɐ̃ʊ̃ ˈAŋ kˈazæ."
    )
    assert said("Isso antes, dizer onde.").phonemes == "ˈisw ˈɐ̃ŋʧys, ʤizˈeɾ ˌoŋʤy."
    assert (
        portuguese.stressed("sustAŋtabilidˈaʤy") + portuguese.stressed("ɡradwˈow")
        == "sˌustAŋtˌabilidˈaʤyɡradwˈow"
    )
    assert (
        said("R$ 2,50 às 14h30").phonemes
        == said("dois reais e cinquenta centavos às quatorze horas e trinta minutos").phonemes
    )
    assert [
        portuguese.PLURAL.sub("", word) for word in ("guetos", "famosos", "falamos", "mês")
    ] == ["gueto", "famosos", "falamos", "mês"]
    assert (
        said("a 2ª vez, D. Pedro II").phonemes == said("a segunda vez, dona Pedro segundo").phonemes
    )


@pytest.mark.parametrize(
    ("code", "least"), [("es", 99.8), ("it", 97.0), ("fr", 98.9), ("pt", 98.8)]
)
def test_sentences_as_espeak_says_them(code, least):
    assert all(figures["equal"] >= least for figures in of_sentences(code, "_sealed").values())


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("à 14h30, le 1er mai", "à quatorze heures trente , le premier mai"),
        (
            "au XXe siècle, Louis XIV et François Ier",
            "au vingtième siècle , Louis quatorze et François premier",
        ),
        ("2,50 € et 21 personnes", "deux euros et cinquante centimes et vingt et une personnes"),
        ("06 12 34 56 78", "zéro six , douze , trente quatre , cinquante six , soixante dix huit"),
        ("Mme Durand, la 2e fois, n° 5", "madame Durand , la deuxième fois , numéro cinq"),
        ("Le 3/5/2026, Ce fut 20 %", "Le trois mai deux mille vingt six , Ce fut vingt pour cent"),
    ],
)
def test_french_numbers_and_signs(text, spoken):
    normalize, _, _ = letter_stages("fr", {})
    assert " ".join(token.text for token in normalize(text, dialect="fr").tokens) == spoken


def test_trees_say_again_what_they_were_grown_on():
    said = {
        "chat": "ʃa",
        "eau": "o",
        "beau": "bo",
        "chou": "ʃu",
        "thé": "te",
        "cool": "kul",
        "look": "luk",
    }
    align = Alignment(said)
    aligned = {word: align(word, tuple(sounds)) for word, sounds in said.items()}
    assert all("".join(map("".join, aligned[word])) == sounds for word, sounds in said.items())
    arrays, again = (grown(aligned, frozenset({"cool", "look"}), 18) for _ in range(2))
    trees = LetterTrees(
        *(arrays[name].tolist() for name in ("where", "what", "no", "roots")),
        bytes(arrays["chunks"]).decode().split("\n"),
    )
    assert {word: trees(word) for word in said} == said
    assert trees("ж") == ""
    assert np.array_equal(arrays["no"], again["no"])
    assert held_out(["a", *said], 0) == held_out(["a", *said], 0)
    assert "a" not in held_out(["a", *said], 0)


def test_a_port_has_no_text_data_for_french(tmp_path):
    assert languages_for(["ff_siwis", "if_sara", "af_heart"]) == ("it", "us")
    with pytest.raises(InputError, match="a port has no text data for fr"):
        write_text_tables(tmp_path / "text", "fr")
    assert not (tmp_path / "text").exists()


@pytest.mark.parametrize(("language", "acronym"), [("es", "ONU"), ("it", "NATO")])
def test_acronyms_are_words_or_letters(language, acronym):
    tokens = {
        token.text: token.kind
        for token in NORMALIZERS[language](f"la {acronym} y el FBI de la UE").tokens
    }
    assert (tokens[acronym], tokens["FBI"], tokens["UE"]) == ("word", "letters", "letters")


def test_overrides_lexicons_and_pauses_work_as_in_english():
    g2p = G2P.load("es", {"kokoro": "kˈokoɾo", "buen día": "bwˈɛn dˈia"})
    result = g2p.phonemize("Kokoro: [Madrid](/maðɾˈi/) [pause 300ms] [FBI](characters), Buen Día.")
    assert result.phonemes == "kˈokoɾo: maðɾˈi . ˌefeβˌeˈi, bwˈɛn dˈia."
    assert {word.source for word in result.words} == {
        "user",
        "override",
        "pause",
        "spelled",
        "punctuation",
    }
    assert [word.pause_s for word in result.words if word.pause_s] == [0.3]
    phonemes, tokens = g2p("Hola, kokoro.")
    assert "".join(token.phonemes + token.whitespace for token in tokens).strip() == phonemes


TEXT = st.text(
    alphabet=st.one_of(
        st.characters(), st.sampled_from("aeiouáñüçœéZT0123456789 .,;:¿?¡!€$%/-'°ºªIVX[]()")
    ),
    max_size=60,
)


@pytest.mark.parametrize("language", ["es", "it", "fr", "pt"])
@given(text=TEXT)
def test_any_text_is_said_in_known_symbols_with_its_offsets(language, text):
    result = G2P.load(language).phonemize(text)
    assert KNOWN.issuperset(result.phonemes)
    for word in result.words:
        assert text[word.start : word.end] == word.text


def test_bad_input_is_one_line():
    with pytest.raises(InputError, match="'hi': one of us, a, .*es, e, .*it") as told:
        G2P.load("hi")
    assert "\n" not in str(told.value)
    pytest.raises(InputError, G2P.load, "es", fallback=lambda word: None).match(
        "es is read by rule"
    )
    pytest.raises(InputError, G2P.load, "it", {"x": "ж"}).match("entry 1: 'ж'")
    with pytest.raises(InputError, match="the text is None"):
        G2P.load("it").phonemize(None)  # type: ignore[arg-type]


def test_a_voice_of_a_language_that_nobody_reads_is_an_error():
    assert voice_language("ff_siwis") == "fr"
    assert voice_language("pm_alex") == "pt"
    unread = {"hm_omega": "Hindi", "jf_alpha": "Japanese", "zf_xiaoni": "Mandarin"}
    for voice, language in unread.items():
        with pytest.raises(InputError, match=rf"{voice} speaks .*{language}.*--dialect") as told:
            voice_language(voice)
        assert "\n" not in str(told.value)
        assert spoken_by(voice) is None
    assert [dialect_of(tag) for tag in ("es-MX", "es-419", "it-CH", "en-AU", "en_US", "en-CA")] == [
        "es",
        "es",
        "it",
        "gb",
        "us",
        "us",
    ]
