"""Forms that the sentence decides: weak forms of small words, the form before a pause, heteronyms,
letters or word for US and IT.

    find_weak_form("the", Ahead(vowel=True), first=False, shouted=False)     # "ði"

Facts as misaki's users hear them (misaki/en.py: get_special_case, token_context); differences are
listed in docs/g2p.md. A pause is a punctuation mark or the end; quotes and brackets part no words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kokoro_g2p.lexicon import BEFORE_PAUSE, DEFAULT
from kokoro_g2p.result import Token
from kokoro_g2p.word_lists import parse_pairs, parse_set, read_word_sets

Choose = Callable[[tuple[str, ...]], str]  # one of the keys of a heteronym's senses


@dataclass(frozen=True)
class Ahead:
    """The word that follows: `vowel` True or False for its first sound, None for a pause or the
    end; `word` in lower case.
    """

    vowel: bool | None = None
    word: str = ""


END = Ahead()
# lower-case word to its form (before a pause, before a consonant, before a vowel); None: what the
# lexicon says
WEAK: Mapping[str, tuple[str | None, ...]] = {
    word: tuple(form or None for form in forms.split("/"))
    for word, forms in parse_pairs(
        "the:ðə/ðə/ði a:ˈA/ɐ/ɐ an:ɐn/ɐn/ɐn to:/tə/tʊ in:ˈɪn/ɪn/ɪn am:/ɐm/ɐm i:ˌI/ˌI/ˌI"
    ).items()
}


# Behind these `in` is an adverb (came in and sat down), not a preposition.
AFTER_PARTICLE = parse_set(
    "and or but to with from on for when then again because if through as at"
)
# Capitals that are more often a word said loudly (it IS true; IN NO EVENT) than letters. IT only in
# a shouted sentence; for WHO the tagger decides.
LOUD, BEFORE_LOUD_IT, BEFORE_LETTER, AFTER_LETTER, JOINED_LETTER = read_word_sets(
    "words", "loud before_loud_it before_letter after_letter joined_letter"
)


def is_loud(token: Token, shouted: bool, before: str = "") -> bool:
    """Whether a token meant for letters is an everyday word in capitals (AM only behind I); with
    points between (I.T.) it is not.
    """
    it = token.text == "IT" and (shouted or before in BEFORE_LOUD_IT)
    loud = token.text.lower() in LOUD or it or (token.text == "AM" and before == "I")
    return loud and token.kind == "letters" and token.end - token.start == len(token.text)


# A capital A is the letter behind these (an A, plan A) and before those (A and B, A minor); else A
# Crowded Fire is a title's article.


def is_article(tokens: Sequence[Token], place: int, ahead: Ahead) -> bool:
    """Whether a capital A is the article: it opens a clause, or stands in a title before a word
    that begins with a consonant.
    """
    # nothing or a mark stands before a word that opens a sentence or a clause
    if place == 0 or tokens[place - 1].kind == "punctuation":
        return ahead.word not in JOINED_LETTER
    return (
        ahead.vowel is False
        and ahead.word not in AFTER_LETTER
        and tokens[place - 1].text.lower() not in BEFORE_LETTER
    )


def find_weak_form(word: str, ahead: Ahead, article: bool, shouted: bool) -> str | None:
    """The form of a small word for what follows it, or None where the lexicon's holds.

    A capital A that is no `article` is the letter (vitamin A), Am and AM keep the full form, `i`
    alone is the letter.
    """
    lower = word.lower()
    forms = WEAK.get(lower)
    if word == "in" and ahead.word in AFTER_PARTICLE:
        return "ˈɪn"
    if lower == "to" and ahead.word in ("a", "an"):
        return "tə"  # as misaki says it
    if (
        forms is None
        or (word == "A" and not article and not shouted)
        or (lower == "am" and word != "am")
        or word == "i"
    ):
        return None
    # False and True count as 0 and 1: the form before a consonant, and before a vowel.
    return forms[0 if ahead.vowel is None else 1 + ahead.vowel]


def choose_sense(
    senses: Mapping[str, str | None], ahead: Ahead, shouted: bool, choose: Choose
) -> str | None:
    """The phonemes of a heteronym here; None: an acronym among words (US, IT, WHO), to be said
    letter by letter.
    """
    if ahead.vowel is None and BEFORE_PAUSE in senses:
        return senses[BEFORE_PAUSE]
    # Where all is in capitals they make no acronym: GIVE IT TO US.
    if None in senses.values() and shouted:
        return senses[DEFAULT]
    keys = tuple(key for key in senses if key != BEFORE_PAUSE)
    return senses[choose(keys) if len(keys) > 1 else DEFAULT]


def find_weak_parts(parts: Sequence[str], vowels: Sequence[bool]) -> list[str | None]:
    """Weak forms inside a compound (out-of-the-box), None for the others; `vowels`: which parts
    begin with one. The last is full.
    """
    # The last part has nothing behind it, and zip leaves it out.
    ahead = [Ahead(vowel) for vowel in vowels[1:]]
    return [
        *(
            find_weak_form(part, follows, False, False)
            for part, follows in zip(parts, ahead, strict=False)
        ),
        None,
    ]


def is_shouted(tokens: Sequence[Token]) -> bool:
    """Whether the sentence has words of two letters and more, and all in capitals."""
    words = [token.text for token in tokens if token.kind == "word" and len(token.text) > 1]
    return len(words) > 1 and all(word.isupper() for word in words)
