"""Spanish, Italian, French, Portuguese: words, numbers, sentences, overrides and lexicons as in
English, offsets; bad input in one line.
"""

import dataclasses
import re
from argparse import Namespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from kokoro_g2p import G2P
from kokoro_g2p.alphabet import dialect_of, voice_language
from kokoro_g2p.errors import InputError
from kokoro_g2p.languages import french, italian, portuguese, spanish
from kokoro_g2p.languages.language import LANGUAGES
from kokoro_g2p.languages.reader import LanguageReader, clean_sounds
from kokoro_g2p.neural import NeuralG2P
from kokoro_g2p.port.text_tables import languages_for
from kokoro_g2p.result import Guess
from kokoro_g2p.training import languages
from kokoro_g2p.training.languages import (
    build_alphabet,
    draw_held_out,
    list_sounds,
    main,
    make_examples,
    train,
    write_list,
)
from kokoro_g2p.word_lists import ListFile
from reader_tests.espeak import compare_sentences


@given(st.integers(0, 999_999))
def test_numbers_as_num2words_says_them(number):
    theirs = num2words(number, lang="es").replace("veintiuno mil", "veintiún mil")
    assert spanish.spanish(number) == re.sub(r"\buno mil", "un mil", theirs)
    plain = (
        num2words(number, lang="it")
        .replace(" ", "")
        .replace("dicotto", "diciotto")
        .replace("centoo", "cento")
    )
    assert italian.italian(number).replace("tré", "tre") == plain.replace("tré", "tre")
    assert french.french(number).replace(" ", "-") == num2words(number, lang="fr").replace(" ", "-")
    assert portuguese.portuguese(number) == num2words(number, lang="pt_BR").replace(
        ",", ""
    ).replace("catorze", "quatorze")


@given(st.integers(1, 99_999))
def test_italian_ordinals_as_num2words_says_them(number):
    theirs = num2words(number, lang="it", to="ordinal").replace("dicott", "diciott")
    assert italian.italian_ordinal(number) == theirs


@pytest.mark.parametrize(
    ("code", "least"), [("es", 99.8), ("it", 99.2), ("fr", 98.9), ("pt", 98.5)]
)
def test_sentences_as_espeak_says_them(code, least):
    assert all(figures["equal"] >= least for figures in compare_sentences(code, "_sealed").values())


def test_words_become_examples_with_their_language_and_what_only_a_vowel_brings_out():
    by_word = {"les": "lˈe/leZ", "ici": "isˈi", "de": "dˈø/də", "b": "bˈe", "un": "ˈœ̃/œ̃N"}
    sounds = list_sounds(by_word | {"œ": "", "ж": "ʒˈe"})
    assert sounds["les"] == ("l", "ˈe", "Z")
    assert sounds.keys() == {"les", "ici", "de", "un"}
    alphabet = build_alphabet([*sounds.values()] * 60)
    assert alphabet.vowels == ("e", "i", "ø", "œ̃")
    made = make_examples(alphabet, 2, {"ici": sounds["ici"], "été": ("x",)}, frozenset(["ici"]))
    assert len(made) == 3
    assert made[0].symbols == (3, *alphabet.encode("ici")[1:])
    assert draw_held_out(["eau", "a", "thé"], 0) == draw_held_out(["thé", "eau"], 0)


def test_a_network_is_trained_and_its_list_holds_what_it_reads_otherwise(tmp_path, monkeypatch):
    small = {"WEIGHTS": tmp_path / "weights.npz", "DATA": tmp_path, "RARE": 1, "HELD_OUT": 0}
    for name, value in (small | {"SIZES": dataclasses.replace(languages.SIZES, width=16)}).items():
        monkeypatch.setattr(languages, name, value)
    by_word = {"ana": "ˈana", "nada": "nˈada", "b": "bˈe", "ala alba": "ˈala ˈalba"}
    arguments = Namespace(seed=0, steps=2, state=tmp_path / "state.pt", resume=None)
    train(arguments, dict.fromkeys(LANGUAGES, [*by_word]), dict.fromkeys(LANGUAGES, by_word))
    network = NeuralG2P.load(small["WEIGHTS"], "pt")
    assert network.encoded("ana") == network.alphabet.encode("ana", 3)
    assert not network.reads("жар")
    monkeypatch.setattr(NeuralG2P, "load", lambda dialect: network)
    write_list("pt", by_word)
    listed = ListFile(tmp_path / "portuguese.txt.gz")
    assert listed["b"] == "bˈe"
    assert ("nada" in listed) is (network.predict(["nada"])[0].phonemes != "nˈada")
    assert "ala alba" not in listed
    assert main(["--steps", "0"]) == 2


class Asked:
    """A network that answers with the word, and remembers what it was asked for."""

    def predict(self, words):
        self.words = words
        return [Guess(word, 1.0) for word in words]


def test_the_network_is_asked_once_for_what_no_list_has():
    network = Asked()
    reader = LanguageReader(LANGUAGES["es"], {}, network)
    reader.listed = {"de": "dˈe/de"}
    reader.prepare(["De", "Ola", "ola-ala", "xbz", "amablemente", "b"])
    pronunciations = [reader.read_word(word) for word in ("de", "ola", "amablemente")]
    assert pronunciations == ["dˈe/de", "ola", "amablemˈente"]
    assert network.words == ["ala", "amable", "ola"]
    assert clean_sounds("-aZ-bZ") == "-abZ"


def test_a_bundle_reads_the_languages_of_its_voices():
    assert languages_for(["ff_siwis", "if_sara", "af_heart"]) == ("fr", "it", "us")
    assert languages_for(["zf_xiaobei"]) == ("us", "zh")
    assert languages_for(["jm_kumo"]) == ("ja", "us")


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


def test_bad_input_is_one_line():
    with pytest.raises(InputError, match="'ko': one of us, a, .*es, e, .*it") as error:
        G2P.load("ko")
    assert "\n" not in str(error.value)
    pytest.raises(InputError, G2P.load, "es", fallback=lambda word: None).match(
        "es leaves no word unknown"
    )
    pytest.raises(InputError, G2P.load, "it", {"x": "ж"}).match("entry 1: 'ж'")
    with pytest.raises(InputError, match="the text is None"):
        G2P.load("it").phonemize(None)  # type: ignore[arg-type]


def test_a_voice_or_a_tag_decides_the_language():
    assert voice_language("ff_siwis") == "fr"
    assert voice_language("pm_alex") == "pt"
    assert voice_language("zf_xiaobei") == "zh"
    assert voice_language("jf_alpha") == voice_language("jm_kumo") == "ja"
    assert [dialect_of(tag) for tag in ("es-MX", "es-419", "it-CH", "en-AU", "en_US", "en-CA")] == [
        "es",
        "es",
        "it",
        "gb",
        "us",
        "us",
    ]
