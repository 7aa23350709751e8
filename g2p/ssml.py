"""The common part of SSML 1.1 (w3.org/TR/speech-synthesis11): what each element asks for, in the
terms of g2p/overrides.py.

    request_of("break", 'time="300ms"', "")                             # Asked("pause", 0.3)
    # Asked("alias", "World Wide Web")
    request_of("sub", 'alias="World Wide Web"', "WWW")
    rate_spans('a <prosody rate="slow">b</prosody>', (), 0)        # b is said at 0.8 of the pace

`break`, `phoneme`, `sub`, `say-as` (characters, digits, date, time, telephone), `emphasis` and
`prosody rate`. Voice, pitch, volume and audio files are not Kokoro's: such tags are dropped, their
words are said. What is malformed is None, and its words are said too.
"""

import re
from dataclasses import dataclass
from typing import Literal

from kokoro_ane.g2p.alphabet import PRIMARY, SECONDARY, VOWELS, to_kokoro, unknown_symbol

MAX_CONTENT = 200  # characters
ELEMENT = (
    r"<(?P<element>phoneme|sub(?=\s[^<>]{0,80}alias)|say-as|emphasis)(?P<attributes>"
    r"(?:\s[^<>]{0,300})?)>"
    rf"(?P<content>[^<>\[\]]{{1,{MAX_CONTENT}}})</(?P=element)\s*>"
)
BREAK = r"<break(?P<break>(?:\s[^<>]{0,100}?)?)\s*/?>(?:</break>)?"
# never closed, or with another tag inside
STRAY = r"<(?P<stray>phoneme|say-as|sub\s[^<>]{0,80}alias)[^<>]{0,300}>"
PATTERN = f"{ELEMENT}|{BREAK}|{STRAY}"
_ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_PROSODY = re.compile(r"<(/?)prosody\b([^<>]{0,300})>", re.IGNORECASE)
_TIME = re.compile(r"\+?(\d{1,5}(?:\.\d{1,3})?)\s?(ms|s)")
_RATE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)|([+-]?)(\d{1,3}(?:\.\d{1,3})?)%")
# seconds
STRENGTHS_S = {
    "none": 0.0,
    "x-weak": 0.1,
    "weak": 0.2,
    "medium": 0.4,
    "strong": 0.8,
    "x-strong": 1.2,
}
RATES = {"x-slow": 0.6, "slow": 0.8, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.6}
SLOWEST, FASTEST = 0.5, 2.0  # of the pace, together with the outer elements
STRESSES = {"strong": 2.0, "moderate": 1.0, "none": 0.0, "reduced": -1.0}
_MARK = re.compile(f"([{PRIMARY}{SECONDARY}])([^{''.join(sorted(VOWELS))} ]+)")
IPA = (
    ("eɪ", "A"),
    ("aɪ", "I"),
    ("oʊ", "O"),
    ("əʊ", "Q"),
    ("aʊ", "W"),
    ("ɔɪ", "Y"),
    ("t͡ʃ", "ʧ"),
    ("d͡ʒ", "ʤ"),
    ("tʃ", "ʧ"),
    ("dʒ", "ʤ"),
    ("ɚ", "əɹ"),
    ("ɝ", "ɜɹ"),
    ("r", "ɹ"),
    ("g", "ɡ"),
    ("'", "ˈ"),
    (".", ""),
    ("l̩", "ᵊl"),
    ("n̩", "ᵊn"),
)


@dataclass(frozen=True)
class Asked:
    """What an element asks of its words: a pause in seconds, phonemes, characters one by one, a
    stress level, or other words.
    """

    kind: Literal["pause", "phonemes", "say_as", "stress", "alias"]
    value: float | str


def _attributes(text: str) -> dict[str, str]:
    return {
        match[1].lower(): match[2] if match[2] is not None else match[3]
        for match in _ATTRIBUTE.finditer(text)
    }


def request_of(element: str, attributes: str, content: str) -> Asked | None:
    """What `<element attributes>content</element>` asks for; None where it cannot be understood."""
    values = _attributes(attributes)
    if element == "break":
        return _break(values)
    if element == "phoneme":
        return _phoneme(values)
    if element == "sub":
        return Asked("alias", values["alias"]) if values.get("alias", "").strip() else None
    if element == "emphasis":
        stress = STRESSES.get(values.get("level", "moderate"))
        return None if stress is None else Asked("stress", stress)
    return _say_as(values.get("interpret-as", ""), values.get("format", ""), content)


def _break(values: dict[str, str]) -> Asked | None:
    time = _TIME.fullmatch(values["time"].strip()) if "time" in values else None
    if time:
        return Asked("pause", float(time[1]) * (0.001 if time[2] == "ms" else 1.0))
    seconds = STRENGTHS_S.get(values.get("strength", "medium"))
    return None if "time" in values or seconds is None else Asked("pause", seconds)


def _phoneme(values: dict[str, str]) -> Asked | None:
    """IPA, or Kokoro's own symbols (alphabet="x-kokoro")."""
    phonemes, alphabet = values.get("ph", "").strip(), values.get("alphabet", "ipa")
    if alphabet == "ipa":
        for theirs, ours in IPA:
            phonemes = phonemes.replace(theirs, ours)
        phonemes = _MARK.sub(r"\2\1", phonemes)  # Kokoro marks the vowel, IPA the syllable
    phonemes = to_kokoro(phonemes)
    is_known_alphabet = (
        alphabet in ("ipa", "x-kokoro") and phonemes and unknown_symbol(phonemes) is None
    )
    return Asked("phonemes", phonemes) if is_known_alphabet else None


def _say_as(kind: str, form: str, content: str) -> Asked | None:
    if kind in ("characters", "spell-out", "verbatim", "digits") and any(map(str.isalnum, content)):
        return Asked("say_as", content)
    if kind == "telephone" and any(map(str.isdigit, content)):
        groups = re.findall(r"\+|\d+|[A-Za-z]+", content)
        return Asked(
            "alias",
            ", ".join(" ".join(group) if group.isdigit() else group for group in groups).replace(
                "+, ", "+"
            ),
        )
    if kind == "date":
        return _date(form, re.findall(r"\d+", content), content)
    return (
        Asked("alias", content)
        if kind in ("time", "cardinal", "ordinal", "unit", "address")
        else None
    )


def _date(form: str, numbers: list[str], content: str) -> Asked | None:
    """Three numbers in the order of the format (mdy, dmy, ymd) as an ISO date, which every
    normalizer knows; other words as they are.
    """
    if len(numbers) != 3 or not form:
        return Asked("alias", content)
    if sorted(form) != ["d", "m", "y"]:
        return None
    day, month, year = (int(numbers[form.index(part)]) for part in "dmy")
    year += 0 if year > 99 else 1900 if year > 39 else 2000
    return (
        Asked("alias", f"{year:04}-{month:02}-{day:02}")
        if 1 <= month <= 12 and 1 <= day <= 31
        else None
    )


def rate_spans(text: str, outer: tuple[float, ...], offset: int) -> "Rates":
    """What of `text` is said at another pace. `outer`: the elements that are open where it begins;
    it stands at `offset`.
    """
    spans: list[tuple[int, int, float]] = []
    wrong: list[tuple[int, int, str]] = []
    stack, start = list(outer), 0
    for match in [*_PROSODY.finditer(text), None]:
        end = match.start() if match else len(text)
        pace = min(max(_product(stack), SLOWEST), FASTEST)
        spans += [(start + offset, end + offset, pace)] if pace != 1 and start < end else []
        if match is None:
            break
        start = match.end()
        rate = None if match[1] else _rate(_attributes(match[2]).get("rate", "medium"))
        if match[1] and stack:
            stack.pop()
        elif match[1] or rate is None:
            wrong.append((match.start() + offset, match.end() + offset, shortened(match[0])))
        stack += [] if match[1] else [rate or 1.0]
    return Rates(tuple(spans), tuple(stack), tuple(wrong))


@dataclass(frozen=True)
class Rates:
    """Spans of characters with their pace, the elements still open at the end, and what was
    malformed.
    """

    spans: tuple[tuple[int, int, float], ...]
    open: tuple[float, ...]
    wrong: tuple[tuple[int, int, str], ...]

    def at(self, place: int) -> float:
        """The pace of what stands at a character."""
        return next((pace for start, end, pace in self.spans if start <= place < end), 1.0)


def _product(rates: list[float]) -> float:
    matches = 1.0
    for rate in rates:
        matches *= rate
    return matches


def _rate(text: str) -> float | None:
    """A word, a factor, a share (80%) or a change (+10%)."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        return RATES.get(text.strip())
    number = float(match[1] or match[3])
    rate = (
        number
        if match[1]
        else number / 100
        if not match[2]
        else 1 + number / 100 * (1 if match[2] == "+" else -1)
    )
    return rate if rate > 0 else None


def shortened(markup: str) -> str:
    """The name under which malformed markup is counted and shown."""
    return f"SSML not understood: {markup[:60]}"
