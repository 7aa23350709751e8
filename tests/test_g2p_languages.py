"""Spanish and Italian: words, numbers, sentences, overrides and lexicons as in English, offsets, and bad input in one line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from num2words import num2words

from core.errors import InputError
from g2p import G2P
from g2p.dialects import voice_language
from g2p.languages import italian, numerals, spanish
from g2p.languages.normalize import NORMALIZERS
from g2p.symbols import KNOWN
from g2p.training.italian import aligned, learned


@pytest.fixture(scope="module")
def es() -> G2P:
    return G2P.load("es")


@pytest.fixture(scope="module")
def it() -> G2P:
    return G2P.load("it-IT")


@pytest.mark.parametrize(
    ("word", "phonemes"),
    [
        ("pingüino", "pˌiŋɡuˈino"), ("guerra", "ɡˈera"), ("zapato", "θapˈato"), ("verdad", "beɾðˈad"), ("gente", "xˈɛnte"),
        ("construir", "kˌonstɾuˈiɾ"), ("rápidamente", "rˈapiðamˈente"), ("país", "paˈis"), ("muy", "mˈuj"), ("ley", "lˈA"),
        ("aceptar", "ˌaθepːtˈaɾ"), ("enviar", "embjˈaɾ"), ("alrededor", "ˌalreðeðˈoɾ"), ("cm", "θˌeˈɛme"), ("huevo", "wˈeβo"),
    ],
)  # fmt: skip
def test_spanish_words_as_the_voices_heard_them(word: str, phonemes: str) -> None:
    assert spanish.sounds(word) == phonemes


@pytest.mark.parametrize(
    ("word", "phonemes"),
    [
        ("formaggio", "formˈaʤːo"), ("famiglia", "famˈiʎa"), ("zucchero", "ʣˈukːeɾo"), ("città", "ʧitːˈa"), ("perché", "perkˈe"),
        ("l'amico", "lamˈiko"), ("dell'arte", "dellˈarte"), ("c'è", "ʧˈɛ"), ("bisogno", "bizˈoɲɲo"), ("fsl", "ˌɛffeˌɛSeˈɛlle"),
    ],
)  # fmt: skip
def test_italian_words_as_the_voices_heard_them(word: str, phonemes: str) -> None:
    assert italian.sounds(word) == phonemes


@given(st.integers(0, 999_999))
def test_numbers_as_num2words_says_them(number: int) -> None:
    theirs = num2words(number, lang="es").replace("veintiuno mil", "veintiún mil")
    assert numerals.spanish(number) == re.sub(r"\buno mil", "un mil", theirs)
    plain = num2words(number, lang="it").replace(" ", "").replace("dicotto", "diciotto").replace("centoo", "cento")
    assert numerals.italian(number).replace("tré", "tre") == plain.replace("tré", "tre")


def said(language: str, text: str) -> str:
    return " ".join(token.text for token in NORMALIZERS[language](text).tokens)


@pytest.mark.parametrize(
    ("language", "text", "spoken"),
    [
        ("es", "Tengo 21 años y 21 libras.", "Tengo veintiún años y veintiuna libras ."),
        ("es", "El 3/5/2026 pagó 2,50 €.", "El tres de mayo de dos mil veintiséis pagó dos euros con cincuenta céntimos ."),
        ("es", "1.234.567 personas; 3,14; -5 °C", "un millón doscientas treinta y cuatro mil quinientas sesenta y siete personas ; "
         "tres coma catorce ; menos cinco grados Celsius"),
        ("es", "2.000.000 € a las 14:30", "dos millones de euros a las catorce treinta"),
        ("es", "Felipe VI, siglo XXI", "Felipe sexto , siglo veintiuno"),
        ("es", "El Sr. López, etc.", "El señor López , etcétera ."),
        ("es", "25 % de 200 km/h, 1/2 y 3.er", "veinticinco por ciento de doscientos kilómetros por hora , medio y tercer"),
        ("es", "a@b.com", "a arroba b punto com"),
        ("it", "L'8 marzo alle 14.30", "L'otto marzo alle quattordici e trenta"),
        ("it", "Il 1 gennaio costa 3,50 €", "Il primo gennaio costa tre euro e cinquanta centesimi"),
        ("it", "il XX secolo, Luigi XIV", "il ventesimo secolo , Luigi quattordicesimo"),
        ("it", "Dott.ssa Bianchi, 28 kg", "dottoressa Bianchi , ventotto chili"),
    ],
)  # fmt: skip
def test_written_to_spoken(language: str, text: str, spoken: str) -> None:
    assert said(language, text) == spoken


def test_small_words_lose_their_stress_but_before_a_pause(es: G2P, it: G2P) -> None:
    assert es.phonemize("La verdad es que un buen día no lo sé.").phonemes == "la βeɾðˈað ˈes ke ˈum bwˈen dˈia nˈo lo sˈe."
    assert es.phonemize("para mí, para").phonemes == "pˌaɾa mˈi, pˈaɾa"
    assert it.phonemize("Di una casa nel bosco.").phonemes.startswith("dɪ ˌʊna kˈaza nel ")


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


@pytest.mark.parametrize(("voice", "language"), [("ef_dora", "es"), ("im_nicola", "it"), ("bf_emma", "gb"), ("af_heart", "us")])
def test_voices_name_their_language(voice: str, language: str) -> None:
    assert voice_language(voice) == language


def test_bad_input_is_one_line() -> None:
    with pytest.raises(InputError, match="'pt': one of us, a, .*es, e, .*it") as told:
        G2P.load("pt")
    assert "\n" not in str(told.value)
    with pytest.raises(InputError, match="es is read by rule"):
        G2P.load("es", fallback=lambda word: None)
    with pytest.raises(InputError, match="entry 1: 'ж'"):
        G2P.load("it", {"x": "ж"})
    with pytest.raises(InputError, match="the text is None"):
        G2P.load("it").phonemize(None)  # type: ignore[arg-type]


def test_italian_learns_stress_and_open_vowels_from_examples() -> None:
    said = {"bello": "bˈɛllo", "cello": "ʧˈɛllo", "anello": "anˈɛllo", "tavolo": "tˈavolo", "cavolo": "kˈavolo", "libro": "lˈibro"}
    table = learned(said)
    assert italian.sounds("martello", table) == "martˈɛllo" and italian.sounds("diavolo", table).endswith("ˈavolo")
    assert aligned("foto", "ˈɛks") is None and aligned("zona", "ʣˈɔna") is not None
