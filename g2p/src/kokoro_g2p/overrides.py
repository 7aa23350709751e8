"""Inline overrides as misaki's users write them, taken out of the text before it is normalized, and
offsets mapped back.

    marked = extract("[Kokoro](/kˈOkəɹO/) is [not](2) slow.")
    marked.text                   # "\ue000 is not slow."
    marked.find_original(0, 1)      # (1, 7): the word inside the brackets

    [word](/phonemes/)   these phonemes          [word](-1)   stress level, g2p/alphabet.py
    [FBI](characters)    letter by letter        [2026](digits)   digit by digit
    [pause 300ms], [pause 1.5s]   silence
    [voice:am_adam 0.9]  another voice from there on, and its pace
    [text](anything else)   a link: the text is said, the target is not

Elements of SSML beside them (<break time="300ms"/>, <sub alias="...">) and other tools' tags
([pause:1.5s], <|im_start|>): g2p/ssml.py. An element may hold several sentences: what is open at
one's end is given to the next. What does not parse stays text and is counted: unclosed or nested
brackets, phonemes outside Kokoro's vocabulary, empty phonemes.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kokoro_g2p.alphabet import find_language, find_unknown_symbol, to_kokoro
from kokoro_g2p.result import GB, US, Drop, Language, Source
from kokoro_g2p.ssml import (
    BLOCKS,
    DEEPEST,
    MARK,
    NAMES,
    PATTERN,
    TOOLS,
    StartTag,
    clip_markup,
    find_voice,
    name_of,
    parse_request,
    parse_tag,
    parse_tool_pause_s,
)
from kokoro_g2p.tags import is_tag

PLACEHOLDER = "\ue000"  # overrides are told apart by where they stand
MAX_TEXT, MAX_TARGET = 200, 400  # characters: what is longer is not an override
LINK = re.compile(rf"\[(?!voice:)([^\[\]]{{1,{MAX_TEXT}}})\]\(([^()]{{0,{MAX_TARGET}}})\)")
MAX_PAUSE_S = 10.0
SLOWEST, FASTEST = 0.5, 2.0  # of the pace, all open elements together
SAY_AS = ("characters", "spell-out", "digits")
_LINKED = (
    rf"{LINK.pattern}(['’](?:s|d|ll|ve|re|m)\b)?|(?P<private>[\ue000-\uf8ff])|{TOOLS}|{PATTERN}"
)
_ANY = re.compile(_LINKED, re.IGNORECASE)
_FIRST = re.compile(r"[\[{<\\\ue000-\uf8ff]")
_TAGS = re.compile(r"<[^<>]*>")
_STRESS = re.compile(r"[+-]?(?:[0-9]{1,3}|0\.5)")
_UNCLOSED = re.compile(r"\]\([/#+\-0-9]")


@dataclass(frozen=True)
class Override:
    """A request for start:end of the cleaned text: phonemes, or a stress level."""

    start: int = 0
    end: int = 0
    phonemes: str | None = None
    stress: float | None = None
    clitic: str = ""  # the s of `[Kokoro](/kˈOkəɹO/)'s`
    user: bool = False  # a phrase of the user's lexicon
    pause_s: float = 0.0
    say_as: str = ""  # the characters to be said one by one
    tag: str = ""  # of the element that asks for the stress

    @property
    def sound(self) -> tuple[str, Source]:
        """The phonemes that are asked for, or the mark that comes nearest to a silence: a comma's,
        a full stop's, or a longer one's; and where they come from.
        """
        if self.pause_s:
            return "," if self.pause_s < 0.25 else "." if self.pause_s < 0.7 else "…", "pause"
        return self.phonemes or "", "user" if self.user else "override"


Foreign = tuple[int, int, str, bool]  # a word's place, phonemes, and whether a space follows


# Reads a text in a language: its words and what is left out; None where that is not read.
ReadsOthers = Callable[[str, str], tuple[Sequence[Foreign], Sequence[Drop]] | None]


class Phrases:
    """Phrases of a user's lexicon as one pattern beside the markup, the longest first. A phrase in
    lower case holds for any capitals.
    """

    def __init__(self, phrases: Mapping[str, str]) -> None:
        self._exact = dict(phrases)
        self._lower = {text: spoken for text, spoken in phrases.items() if text == text.lower()}
        longest = sorted(phrases, key=lambda text: (-len(text), text))
        either = "|".join(
            (
                f"(?i:{_build_phrase(text)})"
                if text in self._lower
                else f"(?-i:{_build_phrase(text)})"
            )
            for text in longest
        )
        self.pattern = re.compile(
            rf"{_LINKED}|(?P<phrase>(?<!\w)(?:{either})(?!\w))", re.IGNORECASE
        )

    def find_phonemes(self, text: str) -> str:
        """What a phrase found in a text is said as."""
        plain = " ".join(text.split())
        return self._exact.get(plain) or self._lower[plain.lower()]


def _build_phrase(text: str) -> str:
    return r"\s+".join(re.escape(piece) for piece in text.split(" "))


@dataclass(frozen=True)
class Marked:
    """The text without override markup, the overrides, what was dropped, and the way back to the
    text the user gave.
    """

    text: str
    overrides: tuple[Override, ...] = ()
    starts: tuple[int, ...] = (0,)  # where each piece begins in `text`
    # what was dropped, by characters of the text as given
    drops: tuple[tuple[int, int, str], ...] = ()
    # and where it stood; a piece of phonemes stands for more than one character
    sources: tuple[tuple[int, int], ...] = ((0, 0),)
    paces: tuple[tuple[int, int, float], ...] = ()  # by characters of the text as given
    open: tuple[str, ...] = ()  # start tags of elements that go on behind the text
    voice: str = ""  # that an element around the text asks for
    # by where their run begins in the text as given, words of another language
    foreign: Mapping[int, Sequence[Foreign]] | None = None

    def find_pace(self, place: int) -> float:
        """The share of the usual pace at a character of the text as given."""
        return next((pace for start, end, pace in self.paces if start <= place < end), 1.0)

    @property
    def is_plain(self) -> bool:
        """Nothing was taken out: offsets are those of the text as given."""
        return self.sources == ((0, 0),)

    def find_original(self, start: int, end: int) -> tuple[int, int]:
        """Half-open offsets in the user's text for start:end of `text`."""
        if self.is_plain:
            return start, end
        first, last = (
            bisect_right(self.starts, start) - 1,
            bisect_right(self.starts, max(end - 1, start)) - 1,
        )
        begin, finish = self.sources[first], self.sources[last]
        left = begin[0] if self._is_stand_in(first) else begin[0] + start - self.starts[first]
        return left, finish[1] if self._is_stand_in(last) else finish[0] + end - self.starts[last]

    def _is_stand_in(self, piece: int) -> bool:
        """Whether a piece is not the text's own: a placeholder, or the words of an alias."""
        after = self.starts[piece + 1] if piece + 1 < len(self.starts) else len(self.text)
        piece_length = after - self.starts[piece]
        length = self.sources[piece][1] - self.sources[piece][0]
        return self.text[self.starts[piece] : after] == PLACEHOLDER or piece_length != length


def extract(
    text: str,
    phrases: "Phrases | None" = None,
    outer: tuple[str, ...] = (),
    language: Language = US,
    others: ReadsOthers = lambda *_: None,
) -> Marked:
    """Take the overrides out of `text`, and the phrases of a lexicon. Private-use characters of the
    user are dropped and counted. `outer`: start tags of elements that are open where it begins.
    `others` read what an element says is of another language.
    """
    if phrases is None and not outer and _FIRST.search(text) is None:
        return Marked(text)
    work = _Work(text, language, outer, others)
    place = 0
    pattern = phrases.pattern if phrases else _ANY
    match = pattern.search(text)
    while match:
        work.keep(place, match.start())
        place = match.end()
        if match["name"]:
            work.read_tag(match)
        elif work.is_silent:
            work.drop(*match.span(), "markup")
        elif phrases and match["phrase"]:
            spoken = phrases.find_phonemes(match["phrase"])
            work.add_placeholder(Override(phonemes=spoken, user=True), *match.span())
        elif match["element"]:
            place = work.read_element(match)
        elif match["tool"]:
            seconds = parse_tool_pause_s(match)
            if match["voice"]:
                work.read_voice(match)
            elif seconds is None:
                work.drop(*match.span(), f"tag not understood: {match[0][:60]}")
            else:
                work.add_pause(seconds, *match.span())
        elif match["private"]:
            work.drop(*match.span(), "private use")
        elif match["cdata"]:
            work.keep(*match.span("cdata"))
        elif match[1] is None:  # a comment, an instruction, a document type
            is_type = match[0][:3].upper() == "<!D" and "speak" in match[0]
            work.drop(*match.span(), clip_markup(match[0]) if is_type else "markup")
        else:
            work.read_override(match)
        match = pattern.search(text, place)
    work.keep(place, len(text))
    return work.build_marked()


class _Work:
    """Pieces of the cleaned text as they are found, and the elements that are open."""

    def __init__(
        self,
        text: str,
        language: Language,
        outer: tuple[str, ...],
        others: ReadsOthers,
    ) -> None:
        self.text, self.language, self.others = text, language, others
        self.voice = find_voice(outer)
        self.open: list[StartTag] = []
        # of each open element where it begins in the cleaned text, and the language inside
        self.places: list[tuple[int, Language]] = []
        self.foreign: dict[int, Sequence[Foreign]] = {}
        self.pieces: list[str] = []
        self.starts: list[int] = []
        self.sources: list[tuple[int, int]] = []
        self.paces: list[tuple[int, int, float]] = []
        self.overrides: list[Override] = []
        self.drops: list[tuple[int, int, str]] = []
        self.length = 0
        for tag in outer:
            self.push(parse_tag(tag))

    @property
    def is_silent(self) -> bool:
        return any(one.is_silent for one in self.open)

    def drop(self, start: int, end: int, why: str) -> None:
        self.drops.append((start, end, why))

    def keep(self, start: int, end: int) -> None:
        if start < end and self.is_silent:
            self.drop(start, end, "markup")
        elif start < end:
            self.say(self.text[start:end], start, end)

    def say(self, piece: str, start: int, end: int) -> None:
        """Words for start:end, in the language that holds here."""
        is_other = self.spoken != self.language
        words, drops = (is_other and self.others(self.spoken, piece)) or ((), ())
        if not words:
            self.add(piece, start, end)
            return
        if len(piece) == end - start:  # each word has its place
            self.foreign[start] = words
            self.drops += [(start + a, start + b, why) for a, b, why in drops]
        if piece[0].isspace():
            self.add(" ", start, start)
        self.add_placeholder(Override(phonemes=" ".join([word[2] for word in words])), start, end)
        if piece[-1].isspace():
            self.add(" ", end, end)

    def add(self, piece: str, start: int, end: int) -> None:
        self.pieces.append(piece)
        self.starts.append(self.length)
        self.sources.append((start, end))
        self.length += len(piece)
        pace = 1.0
        for one in self.open:
            pace *= one.pace
        if pace != 1:
            self.paces.append((start, end, min(max(pace, SLOWEST), FASTEST)))

    def add_placeholder(self, override: Override, start: int, end: int) -> None:
        place = self.length
        self.overrides.append(replace(override, start=place, end=place + 1))
        self.add(PLACEHOLDER, start, end)

    def add_pause(self, seconds: float, start: int, end: int) -> None:
        """A pause, or words apart where it has no length."""
        if seconds:
            self.add_placeholder(Override(pause_s=min(seconds, MAX_PAUSE_S)), start, end)
        else:
            self.drop(start, end, "markup")
            self.add(" ", start, end)

    def read_element(self, match: re.Match[str]) -> int:
        """An element that something else is said for. Answers where the text goes on; its words are
        read where it is malformed.
        """
        content = _TAGS.sub("", match["content"])
        name = match["element"].lower()
        span = match.span("content")
        request = parse_request(name, match["values"], content, self.spoken)
        if request is None:
            self.drop(match.start(), span[0], clip_markup(self.text[match.start() : span[0]]))
            return span[0]
        if request.kind == "alias":
            self.say(str(request.value), *span)
        elif request.kind == "phonemes":
            self.add_placeholder(Override(phonemes=str(request.value)), *span)
        else:
            self.add_placeholder(Override(say_as=str(request.value)), *span)
        return match.end()

    def read_tag(self, match: re.Match[str]) -> None:
        """A tag of SSML; inside <speak> every tag is."""
        name = name_of(match["name"])
        span = match.span()
        is_speech = name in NAMES and (name != "sub" or "alias" in match["attributes"])
        if not any(one.name == "speak" for one in self.open) and not (
            (name == "speak" and not self.length)
            or ((is_speech or ":" in name) and is_tag(self.text, match))
        ):
            self.keep(*span)
            return
        if name in ("break", "silence"):
            request = None if match["closes"] else parse_request(name, match["attributes"], "", US)
            if request is not None and not self.is_silent:
                self.add_pause(float(request.value), *span)
                return
            self.drop(*span, "markup" if match["closes"] else clip_markup(match[0]))
        elif match["closes"]:
            self.close(name, span)
        else:
            self.open_tag(match)
        before = self.text[: span[0]][-1:]
        if not self.is_silent and (name in BLOCKS or before in (*".!?…,;:",)):
            self.add(" ", *span)

    def read_voice(self, match: re.Match[str]) -> None:
        """[voice:am_adam 0.9]: it holds until the next one, or the end of the element around it."""
        self.drop(*match.span(), "markup")
        if self.open and self.open[-1].name == MARK:
            self.open.pop()
            self.places.pop()
        self.push(parse_tag(match[0]))

    def open_tag(self, match: re.Match[str]) -> None:
        """A start tag, or an element that holds nothing."""
        one = parse_tag(match[0])
        is_full = len(self.open) >= DEEPEST
        is_lost = (one.language or one.name == "lang") and not self.find_language(one.language)
        is_counted = one.counted or is_full or is_lost
        self.drop(*match.span(), clip_markup(match[0]) if is_counted else "markup")
        if one.has_effect and not match["empty"] and not is_full:
            self.push(one)

    def push(self, one: StartTag) -> None:
        """Open an element. A voice speaks its own language unless it names another."""
        language = self.find_language(one.language) or (self.language if one.voice else self.spoken)
        self.open.append(one)
        self.places.append((self.length, language))

    @property
    def spoken(self) -> Language:
        """The language that holds here."""
        return self.places[-1][1] if self.places else self.language

    def find_language(self, tag: str) -> Language | None:
        """The language that a BCP 47 tag names, of whatever region; None where nobody reads it."""
        name = find_language(tag)
        if name == self.language or (name, self.language) == (US, GB):
            return self.language
        return name if name is not None and self.others(name, "") is not None else None

    def close(self, name: str, span: tuple[int, int]) -> None:
        """An end tag: its element ends, and what it holds. One of no element is counted."""
        names = [one.name for one in self.open]
        is_lost = StartTag("", name).has_effect and name not in names
        self.drop(*span, clip_markup(self.text[span[0] : span[1]]) if is_lost else "markup")
        while name in names:
            one, (begin, _) = self.open.pop(), self.places.pop()
            self.add_stress(one, begin)
            if one.name == name:
                break

    def add_stress(self, one: StartTag, begin: int) -> None:
        """The words since `begin` are as loud as the element asks."""
        if one.stress is not None:
            self.overrides.append(Override(begin, self.length, stress=one.stress, tag=one.tag))

    def build_marked(self) -> Marked:
        """The whole text's."""
        for one, (begin, _) in reversed([*zip(self.open, self.places, strict=True)]):
            self.add_stress(one, begin)
        marked = Marked(
            "".join(self.pieces),
            tuple(self.overrides),
            tuple(self.starts) or (0,),
            (),
            tuple(self.sources) or ((0, 0),),
            tuple(self.paces),
            tuple(one.tag for one in self.open),
            self.voice,
            self.foreign,
        )
        for match in _UNCLOSED.finditer(marked.text):
            self.drop(*marked.find_original(*match.span()), "unclosed override")
        return replace(marked, drops=tuple(sorted(self.drops)))

    def read_override(self, match: re.Match[str]) -> None:
        """`[word](target)`: a placeholder for phonemes, a mark for a stress; any other
        target is counted as dropped.
        """
        start = match.start(1)
        end = match.end(1)
        target = match.group(2)
        begin = self.length
        phonemes = _parse_phonemes(target)
        if phonemes and find_unknown_symbol(phonemes) is None and match.group(1).strip():
            self.add_placeholder(Override(phonemes=phonemes), start, end)
            if match.group(3):
                self.add_placeholder(Override(clitic=match.group(3)[1:]), *match.span(3))
            return
        if target.lower().removeprefix("say-as ") in SAY_AS and any(
            map(str.isalnum, match.group(1))
        ):
            self.add_placeholder(Override(say_as=match.group(1)), start, end)
            return
        self.keep(start, end)
        if match.group(3):
            self.keep(match.start(3), match.end(3))
        if phonemes is not None:
            self.drop(
                *match.span(2),
                f"override {'with unknown symbol' if phonemes else 'without phonemes'}",
            )
        elif _STRESS.fullmatch(target):
            self.overrides.append(Override(begin, self.length, stress=float(target)))
        else:
            self.drop(*match.span(2), "link target")


def _parse_phonemes(target: str) -> str | None:
    """The phonemes between slashes, or None for another kind of target."""
    return (
        to_kokoro(target[1:].rstrip("/").strip())
        if len(target) > 1 and target[0] == target[-1] == "/"
        else None
    )
