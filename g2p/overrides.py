"""Inline overrides as misaki's users write them, taken out of the text before it is normalized, and
offsets mapped back.

    marked = extract("[Kokoro](/kˈOkəɹO/) is [not](2) slow.")
    marked.text                   # "\ue000 is not slow."
    marked.original(0, 1)         # (1, 7): the word inside the brackets

    [word](/phonemes/)   these phonemes          [word](-1)   stress level, g2p/alphabet.py
    [1,001](#&#)         number flags            [2026](digits)   digit by digit
    [FBI](characters)    letter by letter        [pause 300ms], [pause 1.5s]   silence
    [text](anything else)   a link: the text is said, the target is not

Elements of SSML beside them (<break time="300ms"/>, <sub alias="...">): g2p/ssml.py. What does not
parse stays text and is counted: unclosed or nested brackets, phonemes outside Kokoro's vocabulary,
empty phonemes.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kokoro_ane.g2p.alphabet import to_kokoro, unknown_symbol
from kokoro_ane.g2p.normalize.number_words import ONES, SCALES, TENS
from kokoro_ane.g2p.result import Kind, Token
from kokoro_ane.g2p.ssml import PATTERN, Rates, request_of, shortened

PLACEHOLDER = "\ue000"  # overrides are told apart by where they stand
MAX_TEXT, MAX_TARGET = 200, 400  # characters: what is longer is not an override
LINK = re.compile(rf"\[([^\[\]]{{1,{MAX_TEXT}}})\]\(([^()]{{0,{MAX_TARGET}}})\)")
PAUSE = r"\[pause (?P<pause>\d{1,5}(?:\.\d{1,3})?)\s?(?P<of>ms|s)\]"
MAX_PAUSE_S = 10.0
SAY_AS = ("characters", "spell-out", "digits")
_LINKED = rf"{LINK.pattern}(['’](?:s|d|ll|ve|re|m)\b)?|{PAUSE}|[\ue000-\uf8ff]|{PATTERN}"
_FIRST = re.compile(_LINKED, re.IGNORECASE)
_STRESS = re.compile(r"[+-]?(?:[0-9]{1,3}|0\.5)")
_UNCLOSED = re.compile(r"\]\([/#+\-0-9]")


@dataclass(frozen=True)
class Override:
    """What was asked for start:end of the cleaned text: phonemes, or a stress level, or number
    flags.
    """

    start: int
    end: int
    phonemes: str | None = None
    stress: float | None = None
    flags: str = ""
    clitic: str = ""  # the s of `[Kokoro](/kˈOkəɹO/)'s`
    user: bool = False  # a phrase of the user's lexicon
    pause_s: float = 0.0
    say_as: str = ""  # the characters to be said one by one


class Phrases:
    """Phrases of a user's lexicon as one pattern beside the markup, the longest first. A phrase in
    lower case holds for any capitals.
    """

    def __init__(self, phrases: Mapping[str, str]) -> None:
        self._exact, self._lower = (
            dict(phrases),
            {text: spoken for text, spoken in phrases.items() if text == text.lower()},
        )
        longest = sorted(phrases, key=lambda text: (-len(text), text))
        either = "|".join(
            (f"(?i:{_spaced(text)})" if text in self._lower else f"(?-i:{_spaced(text)})")
            for text in longest
        )
        self.pattern = re.compile(
            rf"{_LINKED}|(?P<phrase>(?<!\w)(?:{either})(?!\w))", re.IGNORECASE
        )

    def phonemes(self, text: str) -> str:
        """What a phrase found in a text is said as."""
        plain = " ".join(text.split())
        return self._exact.get(plain) or self._lower[plain.lower()]


def _spaced(text: str) -> str:
    return r"\s+".join(re.escape(piece) for piece in text.split(" "))


@dataclass(frozen=True)
class Marked:
    """The text without override markup, the overrides, what was dropped, and the way back to the
    text the user gave.
    """

    text: str
    overrides: tuple[Override, ...] = ()
    dropped: Mapping[str, int] | None = None
    starts: tuple[int, ...] = (0,)  # where each piece begins in `text`
    # what was dropped, by characters of the text as given
    drops: tuple[tuple[int, int, str], ...] = ()
    # and where it stood; a piece of phonemes stands for more than one character
    sources: tuple[tuple[int, int], ...] = ((0, 0),)
    rates: Rates | None = None  # paces, by characters of the text as given

    @property
    def plain(self) -> bool:
        """Nothing was taken out: offsets are those of the text as given."""
        return self.sources == ((0, 0),)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Half-open offsets in the user's text for start:end of `text`."""
        if self.plain:
            return start, end
        first, last = (
            bisect_right(self.starts, start) - 1,
            bisect_right(self.starts, max(end - 1, start)) - 1,
        )
        begin, finish = self.sources[first], self.sources[last]
        left = begin[0] if self._stands_for(first) else begin[0] + start - self.starts[first]
        return left, finish[1] if self._stands_for(last) else finish[0] + end - self.starts[last]

    def _stands_for(self, piece: int) -> bool:
        """Whether a piece is not the text's own: a placeholder, or the words of an alias."""
        after = self.starts[piece + 1] if piece + 1 < len(self.starts) else len(self.text)
        piece_length, length = (
            after - self.starts[piece],
            self.sources[piece][1] - self.sources[piece][0],
        )
        return self.text[self.starts[piece] : after] == PLACEHOLDER or piece_length != length


def extract(text: str, phrases: "Phrases | None" = None) -> Marked:
    """Take the overrides out of `text`, and the phrases of a lexicon. Private-use characters of the
    user are dropped and counted.
    """
    if phrases is None and "[" not in text and _FIRST.search(text) is None:
        return Marked(text)
    work, place = _Work(), 0
    for match in (phrases.pattern if phrases else _FIRST).finditer(text):
        work.keep(text, place, match.start())
        place = match.end()
        if phrases and match["phrase"]:
            work.placeholder(
                Override(
                    work.length,
                    work.length + 1,
                    phonemes=phrases.phonemes(match["phrase"]),
                    user=True,
                ),
                *match.span(),
            )
        elif match["pause"]:
            seconds = float(match["pause"]) * (0.001 if match["of"] == "ms" else 1.0)
            work.placeholder(
                Override(work.length, work.length + 1, pause_s=min(seconds, MAX_PAUSE_S)),
                *match.span(),
            )
        elif match["element"] or match["break"] is not None or match["stray"]:
            work.ssml(match)
        elif match.group(1) is None:
            work.drop(*match.span(), "private use")
        else:
            work.override(text, match)
    work.keep(text, place, len(text))
    clean = "".join(work.pieces)
    marked = Marked(
        clean,
        tuple(work.overrides),
        None,
        tuple(work.starts) or (0,),
        (),
        tuple(work.sources) or ((0, 0),),
    )
    for match in _UNCLOSED.finditer(clean):
        work.drop(*marked.original(*match.span()), "unclosed override")
    return replace(
        marked,
        dropped=dict(Counter(why for _, _, why in work.drops)),
        drops=tuple(sorted(work.drops)),
    )


class _Work:
    """Pieces of the cleaned text as they are found."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.starts: list[int] = []
        self.sources: list[tuple[int, int]] = []
        self.overrides: list[Override] = []
        self.drops: list[tuple[int, int, str]] = []
        self.length = 0

    def drop(self, start: int, end: int, why: str) -> None:
        self.drops.append((start, end, why))

    def keep(self, text: str, start: int, end: int) -> None:
        if start < end:
            self.add(text[start:end], start, end)

    def add(self, piece: str, start: int, end: int) -> None:
        self.pieces.append(piece)
        self.starts.append(self.length)
        self.sources.append((start, end))
        self.length += len(piece)

    def placeholder(self, override: Override, start: int, end: int) -> None:
        self.overrides.append(override)
        self.add(PLACEHOLDER, start, end)

    def ssml(self, match: re.Match[str]) -> None:
        """An element as the override that it is; malformed, its words stay and its tags are
        named.
        """
        element, content = (match["element"] or "break").lower(), match["content"] or ""
        override = (
            None
            if match["stray"]
            else request_of(element, match["attributes"] or match["break"] or "", content)
        )
        start, end = match.span("content") if content else match.span()
        if override is None:
            self.drop(
                match.start(),
                start if content else end,
                shortened(match.string[match.start() : start if content else end]),
            )
            self.keep(match.string, start, end if content else start)
        elif override.kind == "alias":
            self.add(str(override.value), start, end)
        elif override.kind == "stress":
            begin = self.length
            self.keep(match.string, start, end)
            self.overrides.append(Override(begin, self.length, stress=float(override.value)))
        elif override.kind == "pause" and override.value:
            self.placeholder(
                Override(
                    self.length, self.length + 1, pause_s=min(float(override.value), MAX_PAUSE_S)
                ),
                start,
                end,
            )
        elif override.kind == "phonemes":
            self.placeholder(
                Override(self.length, self.length + 1, phonemes=str(override.value)), start, end
            )
        elif override.kind == "say_as":
            self.placeholder(
                Override(self.length, self.length + 1, say_as=str(override.value)), start, end
            )

    def override(self, text: str, match: re.Match[str]) -> None:
        """`[word](target)`: a placeholder for phonemes, a mark for a stress or flags; any other
        target is counted as dropped.
        """
        start, end, target = match.start(1), match.end(1), match.group(2)
        begin, phonemes = self.length, _phonemes(target)
        if phonemes and unknown_symbol(phonemes) is None and match.group(1).strip():
            self.overrides.append(Override(begin, begin + 1, phonemes=phonemes))
            self.add(PLACEHOLDER, start, end)
            if match.group(3):
                self.overrides.append(Override(begin + 1, begin + 2, clitic=match.group(3)[1:]))
                self.add(PLACEHOLDER, match.start(3), match.end(3))
            return
        if target.lower().removeprefix("say-as ") in SAY_AS and any(
            map(str.isalnum, match.group(1))
        ):
            self.placeholder(Override(begin, begin + 1, say_as=match.group(1)), start, end)
            return
        self.keep(text, start, end)
        if match.group(3):
            self.keep(text, match.start(3), match.end(3))
        if phonemes is not None:
            self.drop(
                *match.span(2),
                f"override {'with unknown symbol' if phonemes else 'without phonemes'}",
            )
        elif _STRESS.fullmatch(target):
            self.overrides.append(Override(begin, self.length, stress=float(target)))
        elif len(target) > 1 and target[0] == target[-1] == "#":
            self.overrides.append(Override(begin, self.length, flags=target.strip("#")))
        else:
            self.drop(*match.span(2), "link target")


def _phonemes(target: str) -> str | None:
    """What stands between slashes, or None for another kind of target."""
    return (
        to_kokoro(target[1:].rstrip("/").strip())
        if len(target) > 1 and target[0] == target[-1] == "/"
        else None
    )


_SMALL = frozenset((*ONES[1:], *TENS[2:]))
_SCALES = frozenset(("hundred", *SCALES[1:]))
REDUCED_AND = "ən"


def with_flags(tokens: Sequence[Token], overrides: Sequence[Override]) -> tuple[Token, ...]:
    """`tokens` with the flags of each override applied to the number words of its span."""
    for override in overrides:
        if override.flags:
            inside = [token for token in tokens if override.start <= token.start < override.end]
            if inside:
                first = tokens.index(inside[0])
                tokens = (
                    *tokens[:first],
                    *_flagged(inside, override.flags),
                    *tokens[first + len(inside) :],
                )
    return tuple(tokens)


def _flagged(tokens: list[Token], flags: str) -> list[Token]:
    if "a" in flags and len(tokens) > 1 and tokens[0].text == "one" and tokens[1].text in _SCALES:
        tokens = [replace(tokens[0], text="a"), *tokens[1:]]
    place = _and_place(tokens) if "&" in flags or "n" in flags else None
    if place is None:
        return tokens
    kind: Kind = "word" if "&" in flags else "override"
    before = tokens[place - 1]
    return [
        *tokens[: place - 1],
        replace(before, space=kind == "word"),
        replace(before, text="and", kind=kind, space=True),
        *tokens[place:],
    ]


def _and_place(tokens: list[Token]) -> int | None:
    """Where "and" belongs: behind the last hundred, thousand ... when one or two words below a
    hundred end the number.
    """
    scales = [place for place, token in enumerate(tokens) if token.text in _SCALES]
    tail = tokens[scales[-1] + 1 :] if scales else []
    return (
        scales[-1] + 1
        if 0 < len(tail) <= 2 and all(token.text in _SMALL for token in tail)
        else None
    )
