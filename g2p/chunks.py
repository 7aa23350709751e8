"""Long text in pieces a model can take: sentence ends first, then clause ends, then spaces, never inside a word.

    for piece in chunks(phonemize(text), limit=510): ...
    list(sentence_ends("Dr. Smith left. He is back."))     # [15]

A single word beyond the limit (an override, a string spelled out) is the one exception: it is cut at a space or before a stress mark of
its phonemes, and each part keeps the word's offsets.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from core.contract import MAX_PHONEMES
from core.errors import InputError
from g2p.alphabet import PRIMARY, SECONDARY
from g2p.result import Result, Word

SENTENCE_MARKS, CLAUSE_MARKS, CLOSING = ".!?…", ";:—", '")”'
_END = re.compile(r"""[.!?…。！？]+["'”’)\]»]*(?=\s)|\n[ \t\r]*\n""")
_WORD_BEFORE = re.compile(r"[^\s(\[\"'“‘]*$")
_NEXT = re.compile(r"\s*[\"'“‘(\[«]*(\S?)([\w']*)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# An abbreviation that a name or number follows: its point ends no sentence. (How each is said: g2p/data/normalize/abbreviations.json.)
TITLES = _words(
    "mr mrs ms mx messrs dr prof rev fr hon gen col maj capt cpt cmdr lt sgt cpl pvt adm gov sen rep pres supt insp det mt "
    "sra srta sres dra dña dott sig sigg avv uds vds excmo sto sta ee jj "  # Spanish, Italian
    "vs v cf eg ie e.g i.e viz ca approx art ch chap ed eds eq eqs fig figs fn ln op p pp pt pts ref refs sec sect tab vol vols ver"
)
BEFORE_NUMBER = _words("no nos jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri")
# A point behind these may end a sentence or not: it does when one of STARTERS follows.
OPEN = _words("st ft jr sr etc inc ltd co corp bros dept est al ave blvd rd a.m p.m am pm ph.d m.d b.a m.a")
STARTERS = _words(
    "a after all although an and another as at because before but by did do for from he her here his how however i if in is it its "
    "many my no not now of on one our she since so some such that the their then there these they this those to under was we what when "
    "where which while who why with yet you your"
)


def sentence_ends(text: str) -> Iterator[int]:
    """Offsets behind each sentence of `text`, the end of `text` not among them; a blank line ends a sentence too."""
    last = 0
    for match in _END.finditer(text):
        if text[match.start()] == "\n" or _ends(text, match, last):
            last = match.end()
            yield last


def _ends(text: str, match: re.Match[str], last: int) -> bool:
    following = _NEXT.match(text, match.end())
    assert following  # a pattern that nothing is needed for
    first, rest = following.group(1), following.group(2)
    if not first or first.islower():
        return False
    if match.group()[0] != "." or match.group().startswith(".."):
        return True
    window = text[max(match.start() - 24, 0) : match.start()]
    found = _WORD_BEFORE.search(window)
    word = found.group() if found else ""
    key = word.lower()
    if key in TITLES:
        return False
    if key in BEFORE_NUMBER:
        return not first.isdigit()
    if key in OPEN or (len(word) == 1 and word.isalpha() and word != "I") or re.fullmatch(r"(?:\w\.)+\w", word):
        return (first + rest).lower() in STARTERS
    if key.isdigit():  # the number of a list item
        before = text[last : match.start() - len(word)].rstrip(" \t")
        return bool(before) and before[-1] != "\n"
    return True


def chunks(result: Result, limit: int = MAX_PHONEMES) -> Iterator[Result]:
    """`result` of a whole text in pieces of at most `limit` symbols; `dropped` stays with the first. Raises InputError: limit below 16."""
    dropped = result.dropped
    for words in word_groups(result.words, limit):
        text = result.text[words[0].start : words[-1].end]
        yield Result(text, joined(words), words, dropped)
        dropped = {}


def joined(words: Sequence[Word]) -> str:
    """The phonemes of `words` with the spaces between them."""
    return "".join([word.phonemes + " " if word.space else word.phonemes for word in words]).strip()


def word_groups(words: Sequence[Word], limit: int) -> Iterator[tuple[Word, ...]]:
    """`words` in groups whose phonemes take at most `limit` symbols each."""
    if limit < 16:
        raise InputError(f"a limit of {limit} phonemes: at least 16 are needed to hold a word")
    words = [part for word in words for part in (_parts(word, limit) if len(word.phonemes) > limit else (word,))]
    start = 0
    while start < len(words):
        end = _fitting(words, start, limit)
        if end < len(words):
            end = max(range(start + 1, end + 1), key=lambda place: (_rank(words, place - 1), place))
        yield tuple(words[start:end])
        start = end


def _fitting(words: Sequence[Word], start: int, limit: int) -> int:
    """The end of the longest group from `start` that fits; at least one word."""
    length = 0
    for place in range(start, len(words)):
        if length + len(words[place].phonemes) > limit:
            return place
        length += len(words[place].phonemes) + words[place].space
    return len(words)


def _rank(words: Sequence[Word], place: int) -> int:
    """How good a group's end the word at `place` is: 3 sentence, 2 clause, 1 comma, 0 space, -1 no space follows."""
    last = words[place]
    if not last.space and place + 1 < len(words):
        return -1
    while place and words[place].phonemes in CLOSING:
        place -= 1
    mark = words[place].phonemes[-1]
    return 3 if mark in SENTENCE_MARKS else 2 if mark in CLAUSE_MARKS else int(mark == ",")


def _parts(word: Word, limit: int) -> Iterator[Word]:
    """A word that alone is beyond the limit, cut at a space, before a stress mark, or where the limit falls."""
    rest = word.phonemes
    while len(rest) > limit:
        space, stress = rest.rfind(" ", 1, limit + 1), max(rest.rfind(mark, 1, limit) for mark in (PRIMARY, SECONDARY))
        cut = space if space > 0 else stress if stress > 0 else limit
        yield replace(word, phonemes=rest[:cut].strip(), space=True)
        rest = rest[cut:].lstrip()
    if rest:
        yield replace(word, phonemes=rest)
