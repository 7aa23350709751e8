"""Where text is cut, the one place: text into sentences, sentences into pieces of so many phonemes,
never inside a word.

    for offset, sentence in cut_sentences(open("book.txt")): ...     # memory bounded
    for piece in cut_result(phonemize(text), limit=510): ...
    list(find_sentence_ends("Dr. Smith left. He is back."))          # [15]

A cut is at a sentence's end, else a clause's, else a space. A single word beyond the limit (an
override, a string spelled out) is the one exception: it is cut at a space or before a stress mark
of its phonemes, and each part keeps the word's offsets. `cut_in_halves` cuts what a model refuses
near its middle.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from kokoro_g2p.alphabet import MAX_PHONEMES, PRIMARY, SECONDARY
from kokoro_g2p.bundled import read_json
from kokoro_g2p.characters import LINES_BEFORE
from kokoro_g2p.errors import InputError, UtteranceTooLong
from kokoro_g2p.overrides import LINK, MAX_TARGET, MAX_TEXT
from kokoro_g2p.result import PUNCTUATION, Result, Word
from kokoro_g2p.short_forms import MONTH_FORMS, WEEKDAYS, WORDS, is_signed
from kokoro_g2p.ssml import MARKUP, VOICE_MARK
from kokoro_g2p.word_lists import read_word_sets

BLOCK = 4096  # characters looked at together: small, so that the first sentence is there early
MAX_SEGMENT = 4000  # characters: a sentence without an end is cut at a clause, a space, or here
AHEAD = 64  # characters that must be there behind a sentence end to judge it
_CUTS = (re.compile(r"[;:—,](?=\s)"), re.compile(r"\s"))
STOPS = ".!?…。！？"
SENTENCE_MARKS, CLAUSE_MARKS, CLOSING = ".!?…", ";:—", '")”'
# a sentence's end, perhaps with the mark of a footnote; a heading of Markdown and a scene
# break end with their lines
_END = re.compile(
    r"""(?<![.!?…。！？])[.!?…。！？]++["'”’)\]»]*+"""
    r"""(?:\[(?:\d{1,3}|[a-z])\]|[¹²³⁰⁴-⁹]{1,3}|[*†‡]{1,3}(?![\w*])"""
    r"""|(?<=[A-Za-z][a-z]{2}[.!?])\d{1,2}(?=\s+["“]?[A-Z])|(?<=[.!?]["”])\d{1,2}(?=\s))*+(?=\s)"""
    # no white space stands behind the marks of Chinese, Japanese and Hindi
    r"""|[。！？｡।॥][.!?…。！？｡।॥]*+["'”’）」』》)\]»]*+"""
    r"""|\n[ \t\r]*\n|\x1d++"""
    r"""|\n(?=\#{1,6}[ \t]|[ \t]*(?:⁂|[*_~-][ \t*_~-]{2,80})\n)"""
    r"""|(?:\A|(?<=\n))(?:\#{1,6}[ \t][^\n]*|[ \t]*(?:⁂|[*_~-][ \t*_~-]{2,80}))\n"""
)
_WORD_BEFORE = re.compile(r"[^\s(\[\"'“‘]*$")
# Pat. No. 5, App. B, sec. XV
LABEL_NEXT = re.compile(r"\s+(?:Nos?\.\s?\d|[B-HJ-Z](?![\w'.])|[IVXLC]{2,}(?!\w))")
_ELIDED = re.compile(r"^(?:(?:d|[dns]?[aeu]l)?l|d|un)'")  # l'avv., dell'art.
_ANSWERED = re.compile(r"\b(?:said|says?|answered|replied|told|vote[sd]?|shouted)\W+no$")
_SECONDS = re.compile(r"\d\s?sec$")
_CHRIST = re.compile(r"\s*J\.[ -]*C\.")
_ROMAN = re.compile("[IVXLC]{2,}")
_FULL_LINE = re.compile(r"[^\n]{50}[\w,]\s*\n$")  # a number behind it begins no item
_NEXT = re.compile(r"\s*[\"'“‘(\[«]*(\S?)([\w'-]*)")


BLOCK_END = "\x1d"  # white space to every pattern
PARAGRAPHS = ("p", "paragraph", "sentence", "speak", "voice")
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)]*\s*$")
_NEXT_S = re.compile(r"\s*<(?:s|/p|/speak)\b", re.IGNORECASE)
# Markup that may end in what has not arrived
_OPENED = re.compile(
    r"<(?:(phoneme|sub|say-as)\b|[/?A-Za-z][^<>]{0,600}$|!--|!\[CDATA|!DOCTYPE)", re.IGNORECASE
)


# An abbreviation that a name or number follows: its point ends no sentence. (How each is said:
# g2p/data/grammar.)
TITLES, BEFORE_NUMBER, OPEN, STARTERS = read_word_sets(
    "sentence_ends", "titles before_number open starters"
)
CUT = f" {read_json('sentence_ends.json')['cut']} "  # words that people cut short, as emerg.
DAYS = frozenset((*MONTH_FORMS, *WEEKDAYS, "Eastern", "Central", "Mountain", "Pacific"))
# A point behind these may end a sentence or not: it does when one of STARTERS follows.


def find_sentence_ends(text: str) -> Iterator[int]:
    """Offsets behind each sentence of `text`, the end of `text` not among them; a blank line ends a
    sentence too.
    """
    last = 0
    for match in _END.finditer(text):
        if text[match.start()] not in STOPS or _is_end(text, match, last):
            last = match.end()
            yield last


def _is_end(text: str, match: re.Match[str], last: int) -> bool:
    following = _NEXT.match(text, match.end())
    assert following  # a pattern that nothing is needed for
    first, rest = following.group(1), following.group(2)
    if not first or first.islower() or first in "&–.…":
        return False
    if match.group()[0] != "." or match.group().startswith(".."):
        return True
    window = text[max(match.start() - 24, 0) : match.start()]
    before = _WORD_BEFORE.search(window)
    word = before.group() if before else ""
    form = re.split("[-–/]", _ELIDED.sub("", word))[-1]
    if form in WORDS:
        if LABEL_NEXT.match(text, match.start() + 1):
            return False
        if not is_signed(text, match.start() - len(form), match.start() + 1):
            return True
    key = form.lower()
    if _CHRIST.match(text, match.end()):  # 44 av. J.-C.
        return False
    if key in TITLES and not _SECONDS.search(window):
        return False
    if key == "no" and _ANSWERED.search(window):
        return True
    # 9 p.m. Grace left; not 9 p.m. Monday, 9 p.m. ET
    if key == "etc" or (
        key in ("a.m", "p.m", "am", "pm") and rest.islower() and first + rest not in DAYS
    ):
        return True
    if key in BEFORE_NUMBER or (
        first.isdigit() and len(key) > 2 and f" {key}" in CUT and f" {key} " not in CUT
    ):
        is_number = first.isdigit() or first == "#" or _ROMAN.fullmatch(first + rest)
        return not is_number and not (key in ("no", "nos") and any(map(str.isdigit, rest)))
    if (
        key in OPEN
        or (len(word) == 1 and word.isalpha() and word != "I")
        or re.fullmatch(r"(?:\w\.)+\w|[b-df-hj-np-tv-xz]{2,6}|\d{1,2}[sd]", form)
    ):
        return (first + rest).lower() in STARTERS
    if key.isdigit():  # the number of a list item
        item = text[last : match.start() - len(word)].rstrip(" \t")
        return bool(item) and (item[-1] != "\n" or _FULL_LINE.search(item) is not None)
    return True


def cut_result(result: Result, limit: int = MAX_PHONEMES, offset: int = 0) -> Iterator[Result]:
    """Cut `result` into pieces of at most `limit` symbols; `dropped` stays with the first. Its text
    stands at `offset`, where words count from 0.

    Raises InputError: limit below 16.
    """
    dropped, drops = result.dropped, result.drops
    for words in cut_words(result.words, limit):
        yield Result(
            result.text[words[0].start - offset : words[-1].end - offset],
            join_phonemes(words),
            words,
            dropped,
            drops,
        )
        dropped = {}
        drops = ()


def join_phonemes(words: Sequence[Word]) -> str:
    """The phonemes of `words` with the spaces between them."""
    return "".join([word.phonemes + " " if word.space else word.phonemes for word in words]).strip()


def cut_words(words: Sequence[Word], limit: int) -> Iterator[tuple[Word, ...]]:
    """Group `words` so that the phonemes of a group take at most `limit` symbols."""
    if limit < 16:
        raise InputError(f"a limit of {limit} phonemes: at least 16 are needed to hold a word")
    words = [
        part
        for word in words
        for part in (_cut_word(word, limit) if len(word.phonemes) > limit else (word,))
    ]
    start = 0
    while start < len(words):
        end = _find_fitting(words, start, limit)
        if end < len(words):
            end = _find_best_end(words, start, end, limit)
        yield tuple(words[start:end])
        start = end


def _find_best_end(words: Sequence[Word], start: int, fitting: int, limit: int) -> int:
    """Where to end a group from `start` that holds words up to `fitting` at most: at the strongest
    mark, the last of equals; without one, where two phrases meet, near an even share of the rest.
    """
    best = max(range(start + 1, fitting + 1), key=lambda place: (_rank(words, place - 1), place))
    if _rank(words, best - 1) != 0:
        return best
    lengths = [len(word.phonemes) + word.space for word in words[start:]]
    rest = sum(lengths)
    share = rest / (rest // limit + 1)
    cheapest, length = 2.0, 0
    for place in range(start + 1, fitting + 1):
        length += lengths[place - 1 - start]
        cost = max(length - share, share - length) / share + compute_joint_cost(
            words[place - 1], words[place]
        )
        if words[place - 1].space and cost < cheapest:
            cheapest, best = cost, place
    return best


def compute_joint_cost(before: Word, behind: Word) -> float:
    """What a cut between two words costs: nothing where a phrase begins, which an unstressed word
    does behind a stressed one (depths | of human credulity).
    """
    if PRIMARY not in before.phonemes:
        return 0.3
    return 0.1 if PRIMARY in behind.phonemes else 0.0


def _find_fitting(words: Sequence[Word], start: int, limit: int) -> int:
    """The end of the longest group from `start` that fits; at least one word."""
    length = 0
    for place in range(start, len(words)):
        if length + len(words[place].phonemes) > limit:
            return place
        length += len(words[place].phonemes) + words[place].space
    return len(words)


def _rank(words: Sequence[Word], place: int) -> int:
    """Rank the word at `place` as the end of a group: 3 sentence, 2 clause, 1 comma, 0 space, -1 no
    space follows.
    """
    last = words[place]
    if not last.space and place + 1 < len(words):
        return -1
    while place and words[place].phonemes in CLOSING:
        place -= 1
    mark = words[place].phonemes[-1]
    return 3 if mark in SENTENCE_MARKS else 2 if mark in CLAUSE_MARKS else int(mark == ",")


def _cut_word(word: Word, limit: int) -> Iterator[Word]:
    """A word that alone is beyond the limit, cut at a space, before a stress mark, or where the
    limit falls.
    """
    rest = word.phonemes
    while len(rest) > limit:
        space = len(rest[: limit + 1].rpartition(" ")[0])
        stress = max(len(rest[:limit].rpartition(mark)[0]) for mark in (PRIMARY, SECONDARY))
        cut = space or stress or limit
        yield replace(word, phonemes=rest[:cut].strip(), space=True)
        rest = rest[cut:].lstrip()
    if rest:
        yield replace(word, phonemes=rest)


def cut_sentences(text: str | Iterable[str]) -> Iterator[tuple[int, str]]:
    """(offset, sentence) in order, white space around it stripped; empty ones left out. An override
    is never cut.
    """
    for offset, sentence, _, _ in cut_placed_sentences(text):
        yield offset, sentence


def cut_placed_sentences(text: str | Iterable[str]) -> Iterator[tuple[int, str, str, str]]:
    """(offset, sentence, before, after): the same with what stands around the sentence, by which
    its lines are judged (`characters.mark_breaks`).
    """
    pieces = (
        (text[at : at + BLOCK] for at in range(0, len(text), BLOCK))
        if isinstance(text, str)
        else _gather_blocks(text)
    )
    before, buffer, offset = "", "", 0
    for piece in pieces:
        buffer += piece
        used = 0
        for start, end in _find_whole_sentences(buffer, final=False):
            yield from _place_sentence(before, buffer, offset, start, end)
            used = end
        before = (before + buffer[:used])[-LINES_BEFORE:]
        buffer = buffer[used:]
        offset += used
    for start, end in _find_whole_sentences(buffer, final=True):
        yield from _place_sentence(before, buffer, offset, start, end)


def _gather_blocks(pieces: Iterable[str]) -> Iterator[str]:
    """Short pieces (lines) gathered to about BLOCK characters, long ones cut."""
    gathered: list[str] = []
    size = 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= BLOCK:
            whole = "".join(gathered)
            yield from (whole[at : at + BLOCK] for at in range(0, size, BLOCK))
            gathered = []
            size = 0
    yield "".join(gathered)


def _place_sentence(
    before: str, buffer: str, offset: int, start: int, end: int
) -> Iterator[tuple[int, str, str, str]]:
    sentence = buffer[start:end]
    bare = sentence.strip()
    if bare:
        start += len(sentence) - len(sentence.lstrip())
        end = start + len(bare)
        around = (before + buffer[:start])[-LINES_BEFORE:]
        yield offset + start, bare, around, buffer[end : end + AHEAD]


def _find_whole_sentences(buffer: str, final: bool) -> Iterator[tuple[int, int]]:
    """Spans of `buffer` that are whole sentences whatever comes next; with `final` all of it."""
    links = [match.span() for match in LINK.finditer(buffer)] if "[" in buffer else []
    shown = mask_markup(buffer)
    safe = len(buffer) if final else _find_settled(buffer, shown, links)
    buffer, start = shown, 0
    for end in (
        *(end for end in find_sentence_ends(buffer) if end <= safe and not _is_inside(end, links)),
        *((len(buffer),) if final else ()),
    ):
        for cut in _cut_pieces(buffer, start, end, links):
            yield start, cut
            start = cut
    while not final and safe - start > MAX_SEGMENT:
        cut = _cut(buffer, start, links)
        yield start, cut
        start = cut


def mask_markup(text: str) -> str:
    """`text` with markup in marks of the same length, by which sentences are cut: a tag at either
    end of a paragraph or a sentence, or another voice, as BLOCK_END, others as brackets.
    """
    if "[" in text:
        text = VOICE_MARK.sub(lambda match: BLOCK_END * len(match[0]), text)
    return MARKUP.sub(lambda match: _mask(text, match), text) if "<" in text else text


def _mask(text: str, match: re.Match[str]) -> str:
    length = len(match[0])
    name = (match["name"] or "").lower()
    if match["element"]:
        return "x" * length
    is_end = (
        match["closes"]
        and name == "s"
        and _SENTENCE_END.search(text, max(0, match.start() - 40), match.start())
    )
    if name in PARAGRAPHS or is_end or (name == "s" and _NEXT_S.match(text, match.end())):
        return BLOCK_END * length
    if name == "s":
        return " " * length
    return (")" if match["closes"] or match["empty"] else "(") * length


def _find_settled(buffer: str, shown: str, links: list[tuple[int, int]]) -> int:
    """Up to where nothing that arrives later changes a decision: not into an override that may
    still be open, nor into markup. `shown`: the buffer, masked.
    """
    safe = len(buffer) - AHEAD
    for opener in _OPENED.finditer(buffer, max(0, len(buffer) - MAX_SEGMENT)):
        # what MARKUP matched is masked
        if shown[opener.start()] == "<" or (opener[1] and shown[opener.start()] != "x"):
            safe = min(safe, opener.start())
            break
    tail = max(len(buffer) - MAX_TEXT - MAX_TARGET - AHEAD, 0)
    opened = shown.find("[", tail)
    while opened >= 0 and _is_inside(opened + 1, links):
        opened = shown.find("[", opened + 1)
    return min(safe, opened) if opened >= 0 else safe


def _cut_pieces(buffer: str, start: int, end: int, links: list[tuple[int, int]]) -> Iterator[int]:
    """Ends of the pieces of one sentence: itself, or cuts where it is longer than MAX_SEGMENT."""
    while end - start > MAX_SEGMENT:
        start = _cut(buffer, start, links)
        yield start
    if start < end:
        yield end


def _cut(buffer: str, start: int, links: list[tuple[int, int]]) -> int:
    """Where to cut a run of more than MAX_SEGMENT characters: the last clause mark, else space,
    else the limit, outside overrides.
    """
    limit = start + MAX_SEGMENT
    for pattern in _CUTS:
        ends = [
            match.end()
            for match in pattern.finditer(buffer, start + 1, limit)
            if not _is_inside(match.end(), links)
        ]
        if ends:
            return ends[-1]
    return next((begin for begin, end in links if start < begin < limit < end), limit)


def _is_inside(place: int, links: list[tuple[int, int]]) -> bool:
    return any(begin < place < end for begin, end in links)


def find_ending(phonemes: str) -> Literal["sentence", "clause", "none"]:
    """The kind of ending that the last mark makes, a comma included; a closing quote or bracket is
    looked through.
    """
    last = phonemes.rstrip(" " + CLOSING)[-1:]
    return (
        "sentence"
        if last and last in SENTENCE_MARKS
        else "clause"
        if last and last in CLAUSE_MARKS + ","
        else "none"
    )


def has_sound(phonemes: str) -> bool:
    """Whether the phonemes hold more than marks and white space."""
    return any(symbol not in PUNCTUATION and not symbol.isspace() for symbol in phonemes)


def cut_in_halves(words: tuple[Word, ...]) -> tuple[tuple[Word, ...], tuple[Word, ...]]:
    """Two parts of about half the phonemes each, both with something to say: at a mark near the
    middle, else between words, else in one.

    Raises UtteranceTooLong for a single phoneme.
    """
    phonemes = join_phonemes(words)
    places = tuple(accumulate((len(word.phonemes) + word.space for word in words), initial=0))
    apart = [
        index
        for index in range(1, len(words))
        if words[index - 1].space
        and has_sound(phonemes[: places[index]])
        and has_sound(phonemes[places[index] :])
    ]
    if apart:
        index = min(apart, key=lambda index: _compute_cost(words, index, phonemes, places[index]))
        return words[:index], words[index:]
    index = max(range(len(words)), key=lambda place: len(words[place].phonemes))
    word = words[index]
    middle = len(words[index].phonemes) // 2
    if not middle:
        raise UtteranceTooLong(
            f"{word.text!r} at {word.start} does not fit one utterance: speak faster"
        )
    # a number's words have spaces between them
    left, right = word.phonemes[:middle].rstrip(), word.phonemes[middle:].lstrip()
    return (*words[:index], replace(word, phonemes=left, space=False)), (
        replace(word, phonemes=right),
        *words[index + 1 :],
    )


def _compute_cost(words: Sequence[Word], index: int, phonemes: str, place: int) -> float:
    """Distance from the middle, 0 to 1; a cut that is not at a mark costs half more, and that of
    the joint.
    """
    cost = abs(2 * place - len(phonemes)) / len(phonemes)
    if find_ending(phonemes[:place]) != "none":
        return cost
    return cost + 0.5 + compute_joint_cost(words[index - 1], words[index])
