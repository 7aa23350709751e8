"""Functions of g2p on written cases (g2p/tests/data/functions.tsv), and sentences, each for one
rule or convention (rules.tsv).
"""

import json
import re
from functools import cache, partial

import pytest

from kokoro_g2p import G2P
from kokoro_g2p.alphabet import (
    AMERICAN,
    BRITISH,
    dialect_of,
    edit_distance,
    fold_word,
    is_pronounceable,
    is_readable,
    restress,
    voice_language,
    weight,
)
from kokoro_g2p.heteronyms import Heteronyms
from kokoro_g2p.languages.language import LANGUAGES
from kokoro_g2p.lexicon import Lexicon
from kokoro_g2p.morphology import (
    fold,
    is_clitic,
    list_stems,
    spell,
    with_clitic,
    with_ed,
    with_ing,
    with_s,
)
from kokoro_g2p.normalizer import normalize
from kokoro_g2p.number_words import plural
from kokoro_g2p.reading import Reader, can_guess
from kokoro_g2p.result import Guess
from kokoro_g2p.splitting import cut_sentences, cut_words, join_phonemes
from kokoro_g2p.training.g2p_words import Relatives, is_alike, list_parts, strip_suffixes
from kokoro_g2p.training.normalizer_cases import read_expected, read_spoken
from kokoro_g2p.word_lists import convert_to_british
from kokoro_g2p.word_parts import read_by_origin, split_halves, with_accent
from reader_tests import names
from reader_tests.names import rows
from test_phonemize import words_of

load, lexicon, chooser = cache(G2P.load), cache(Lexicon.load), cache(Heteronyms.load)


class Blorf:
    """A neural model that answers every word alike."""

    def predict(self, words):
        return [Guess("blˈɔɹf", 0.5) for _ in words]


def entry_of(word, dialect="us"):
    entry = lexicon(dialect).find(word)
    return entry and f"{entry.phonemes} {entry.source}"


def read(word):
    """Phonemes and source, with a model for what nobody knows."""
    reader = Reader(lexicon("us"), Blorf())
    reader.prepare([word])
    reading = reader.read(word)
    return f"{reading.phonemes} {reading.source}"


def plain(text, dialect="us"):
    """Phonemes by rules and lists alone; no word covers the markup of an override."""
    result = G2P(normalize, lexicon(dialect)).phonemize(text)
    assert not result.dropped
    assert all(
        text[word.start : word.end] == word.text and "(" not in word.text for word in result.words
    )
    return result.phonemes


def words_and_drops(text):
    """Words at their places, and what was dropped, of text that looks like an override."""
    result = G2P(normalize, lexicon("us")).phonemize(text)
    assert all(text[word.start : word.end] == word.text for word in result.words)
    return " ".join(word.text for word in result.words) + " | " + counted(result.dropped)


def tokens(text):
    """Of each token what is said, the text at its place, its kind, and `_` for a space."""
    token_list = normalize(text).tokens
    return " | ".join(
        f"{token.text}:{text[token.start : token.end]}:{token.kind}{'_' * token.space}"
        for token in token_list
    )


def counted(dropped):
    return ", ".join(f"{count} {name}" for name, count in sorted(dropped.items()))


def token_texts(language, text, kinds=("word", "letters", "punctuation")):
    tokens = LANGUAGES[language].normalize(text).tokens
    return " ".join(token.text for token in tokens if token.kind in kinds)


def say(language, text):
    return load(language).phonemize(text).phonemes


def sense(word, sentence):
    words, senses = sentence.split(), lexicon("us").find(word).senses
    place = sentence.lower().split().index(word)
    return senses[chooser().choose(words, place, tuple(senses))]


def choose(keys, word, sentence):
    words = sentence.split()
    return chooser().choose(words, words.index(word), keys.split())


def cut(alphabet, sounds):
    pieces = alphabet.cut(sounds)
    return pieces and " ".join(pieces)


def related(one, other, vocabulary):
    family = Relatives({one, other, *vocabulary.split()})
    assert (other in family.find(one)) is (one in family.find(other))
    return other in family.find(one)


def unescaped(text):
    return re.sub(r"\\u[0-9a-f]{4}", lambda match: json.loads(f'"{match.group()}"'), text)


FUNCTIONS = {
    "alike": is_alike,
    "parts": lambda word, vocabulary: " ".join(sorted(list_parts(word, set(vocabulary.split())))),
    "folded": fold_word,
    "fold": fold,
    "spell": lambda word: spell(word, lexicon("us").letter_names),
    "cut": lambda sounds: cut(AMERICAN, sounds),
    "cut gb": lambda sounds: cut(BRITISH, sounds),
    "weight": weight,
    "restress": lambda phonemes, level: restress(
        phonemes, None if level == "None" else float(level)
    ),
    "find": entry_of,
    "find in gb": lambda word: entry_of(word, "gb"),
    "read": read,
    "pronounceable": can_guess,
    "speakable, readable": lambda word: f"{is_pronounceable(word)} {is_readable(word)}",
    "british": convert_to_british,
    "with_s": with_s,
    "with_ed": with_ed,
    "with_ing": with_ing,
    "with_clitic": lambda phonemes, clitic: (
        with_clitic(phonemes, clitic, "us") if is_clitic(clitic) else None
    ),
    "stems": lambda word: " ".join(f"{stem}+{ending}" for ending, stem in list_stems(word)),
    "dropped": lambda text: counted(normalize(text).dropped),
    "kept": words_and_drops,
    "plural": plural,
    "tokens": tokens,
    "normalize gb": lambda text: " ".join(
        token.text for token in normalize(text, dialect="gb").tokens
    ),
    "voice_language": voice_language,
    "dialect_of": dialect_of,
    "plain": plain,
    "plain gb": lambda text: plain(text, "gb"),
    "halves": lambda word: " ".join(split_halves(word, lexicon("us").is_edited) or ()),
    "by_origin": read_by_origin,
    "with_accent": with_accent,
    "heard": names.heard,
    "heard alike": names.alike,
    "segments": lambda text: "|".join(sentence for _, sentence in cut_sentences(text)),
    "word_groups": lambda limit, phonemes: "|".join(
        join_phonemes(group) for group in cut_words(words_of(phonemes), int(limit))
    ),
    "sense": sense,
    "choose": choose,
    "stem": strip_suffixes,
    "relatives": related,
    "edit_distance": edit_distance,
}
for language in LANGUAGES:
    FUNCTIONS |= {
        f"normalize {language}": partial(token_texts, language),
        f"letters {language}": partial(token_texts, language, kinds=("letters",)),
        f"say {language}": partial(say, language),
    }


@pytest.mark.parametrize(("function", "arguments", "answer"), rows("functions"))
def test_functions(function, arguments, answer):
    text, expected = unescaped(arguments), unescaped(answer)
    if function == "normalize":
        assert read_spoken(normalize(text)) == read_expected(expected)
    elif function in ("kept", "plain", "segments", "tokens"):
        assert FUNCTIONS[function](text) == expected
    else:
        assert (str(FUNCTIONS[function](*text.split("|"))) or "nothing") == expected


def test_every_case_has_a_function_and_every_function_cases():
    named = {function for function, _, _ in rows("functions")}
    without = {f"letters {language}" for language in ("fr", "pt")}
    assert named == {*FUNCTIONS, "normalize"} - without


@pytest.mark.parametrize(("text", "looked_at", "phonemes"), rows("rules"))
def test_rules(text, looked_at, phonemes):
    result = load("us").phonemize(text)
    if looked_at == "is":
        assert result.phonemes == phonemes
    elif looked_at == "holds":
        assert phonemes in result.phonemes
    elif looked_at == "that":
        assert ("ðˈæt" in result.phonemes) is (phonemes == "stressed")
    elif looked_at == "spoken":
        assert " ".join(word.spoken for word in result.words) == phonemes
    else:
        assert [word.phonemes for word in result.words if word.source != "punctuation"][
            int(looked_at)
        ] == phonemes
