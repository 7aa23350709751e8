"""SSML 1.1 (w3.org/TR/speech-synthesis11) and the tags of other tools: what stands for markup in a
text, and what an element asks for in the terms of g2p/overrides.py.

    # ElementRequest("alias", "World Wide Web")
    parse_request("sub", 'alias="World Wide Web"', "WWW", "us")
    parse_tag('<prosody rate="slow">').pace                   # 0.8

MARKUP finds what XML can hold: tags, comments, CDATA, instructions, a document type. Entities of a
document type are never expanded. The rules run in Swift too, where no XML reader tells offsets;
g2p/tests/test_markup.py compares MARKUP with expat.

Understood are `break`, `phoneme`, `sub`, `say-as`, `emphasis`, `prosody rate`, `voice name` and
`lang`, and beside them `[voice:am_adam 0.9]`, a voice and its pace from there on; `p`, `s` and
another voice end a sentence; `desc` and `metadata` are not said. `xml:lang` of any element is that
of `lang`. Pitch, volume and audio files are not Kokoro's: such
a tag is counted, its words are said. So is what is malformed.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kokoro_g2p.alphabet import (
    LANGUAGES,
    PRIMARY,
    SECONDARY,
    VOWELS,
    find_language,
    find_unknown_symbol,
    to_kokoro,
)
from kokoro_g2p.characters import decode_entities
from kokoro_g2p.errors import InputError
from kokoro_g2p.number_words import MONTHS, decimal, ordinal
from kokoro_g2p.result import GB, US, Language
from kokoro_g2p.tags import ATTRIBUTES, TAG
from kokoro_g2p.word_lists import parse_pairs, parse_set

# Elements that other words or sounds stand for. Inside them no sentence ends.
ELEMENT = (
    rf"<(?P<element>phoneme|sub(?=\s[^<>]{{0,300}}alias)|say-as)(?P<values>{ATTRIBUTES})\s{{0,9}}>"
    r"(?P<content>(?:[^<]|<(?!/(?P=element)[\s>])){1,400}+)</(?P=element)\s*>"
)
OTHERS = (
    r"<!--(?:[^-]++|-(?!->)){0,2000}+-->|<!\[CDATA\[(?P<cdata>(?:[^\]]++|\](?!\]>)){0,2000}+)\]\]>"
    r"|<\?[A-Za-z][^<>]{0,300}\?>|<!DOCTYPE\b[^<>\[]{0,500}(?:\[[^\]]{0,4000}\]\s{0,9})?>"
)
PATTERN = f"{ELEMENT}|{OTHERS}|{TAG.pattern}"
MARKUP = re.compile(PATTERN, re.IGNORECASE)
# Pauses as several tools write them; Apple's commands, chat templates, Vocalizer's codes, and the
# sounds that Bark, Orpheus and ElevenLabs make.
_SECONDS = r"(?P<pause>\d{1,5}(?:\.\d{1,3})?)\s?(?P<of>ms|milliseconds?|s|secs?|seconds?)?"
_SOUNDS = (
    r"laugh(?:s|ing|ter)?|chuckles?|chuckling|giggles?|sighs?|sighing|gasps?|coughs?|sniffles?"
    r"|sniffs?|groans?|yawns?|whispers?|whispering|shouts?|shouting|crying|sobs?|clears? throat"
    r"|applause|music|excited|sad|angry|happy|sarcastic|inhales?|exhales?"
)
VOICE = r"\[voice:\s?(?P<voice>[\w.:,+()-]{1,100})(?:\s(?P<pace>\d(?:\.\d{1,2})?|\.\d{1,2}))?\s?\]"
VOICE_MARK = re.compile(VOICE, re.IGNORECASE)
TOOLS = (
    rf"(?P<tool>{VOICE}|(?:\[|\{{|<(?=\w{{4,7}}(?:[ :=]\s?\d|\s?/>)))(?:pause|break|silence|wait)"
    rf"(?:[ :=]\s?{_SECONDS})?\s?(?:\]|\}}|/?>)"
    r"|\[\[\s?(?:slnc\s(?P<slnc>\d{1,5})|(?:rate|volm|pbas|pmod|emph|inpt|char|nmbr|rset|ctxt|cmnt"
    r"|sync)\b[^\[\]]{0,100})\s?\]\]"
    r"|<#(?P<hash>\d{1,3}(?:\.\d{1,3})?)#>|\\(?:pau|pause)=(?P<code>\d{1,5})\\"
    r"|\\(?:rst|spd|rate|vol|vct|pitch|emph|tn|lang|voice|mrk)(?:=[\w+.-]{1,20})?\\"
    r"|<\|[\w-]{1,40}\|>(?:(?<=start\|>|er_id\|>)(?:user|assistant|system|tool)\b)?"
    r"|\[/?INST\]|<</?SYS>>|\[S\d\]"
    rf"|\[(?:{_SOUNDS})\]|<(?:{_SOUNDS})>)"
)
# Elements without an effect here that lose nothing by it; those whose words are not said; those
# that stand alone.
KNOWN = parse_set("speak p s paragraph sentence w token mark meta metadata desc lang")
SILENT = parse_set("desc metadata")
# Where the tags of these stood, words are apart.
BLOCKS = parse_set("speak p s paragraph sentence break audio media par seq desc metadata")
NAMES = (
    KNOWN
    | BLOCKS
    | parse_set(
        "phoneme sub say-as emphasis prosody voice lexicon lookup silence rate pitch"
        " volume spell pron emph partofsp context bookmark express-as"
    )
)
MARK = "[voice]"  # what stands for an element's name; another such mark takes its place
DEEPEST = 64  # elements within one another that have an effect
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>]+))")
_TIME = re.compile(r"\+?(\d{1,5}(?:\.\d{1,3})?|\.\d{1,3})\s?(ms|s)")
_RATE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)|([+-]?)(\d{1,3}(?:\.\d{1,3})?)%")
# Pauses in seconds, shares of the usual pace, stress levels
STRENGTHS_S, RATES, STRESSES = (
    {name: float(value) for name, value in parse_pairs(levels).items()}
    for levels in (
        "none:0 x-weak:0.1 weak:0.2 medium:0.4 strong:0.8 x-strong:1.2",
        "x-slow:0.6 slow:0.8 medium:1 default:1 fast:1.25 x-fast:1.6",
        "strong:2 moderate:1 none:0 reduced:-1",
    )
)
_MARK = re.compile(f"([{PRIMARY}{SECONDARY}])([^{''.join(sorted(VOWELS))} ]+)")
# IPA and Kokoro's symbols for it, in this order
IPA = parse_pairs(
    "\u0325: ei:A ou:O ɾ:T eɪ:A aɪ:I oʊ:O əʊ:Q aʊ:W ɔɪ:Y t͡ʃ:ʧ d͡ʒ:ʤ tʃ:ʧ dʒ:ʤ ɚ:əɹ ɝ:ɜɹ r:ɹ g:ɡ ':ˈ"
    " .: l̩:ᵊl n̩:ᵊn"
)
# how the normalizers know an ordinal
ORDINALS = {"es": "#º", "it": "#º", "pt": "#º", "fr": "#e", "zh": "第#", "hi": "#वाँ", "ja": "第#"}
SAID_AS_WRITTEN = parse_set(
    "time duration unit address currency money fraction number name net vxml:currency"
)


@dataclass(frozen=True)
class ElementRequest:
    """The request of an element: a pause in seconds, phonemes, characters one by one, or
    other words.
    """

    kind: Literal["pause", "phonemes", "say_as", "alias"]
    value: float | str


@dataclass(frozen=True)
class StartTag:
    """A start tag, and what holds until its element ends. `counted`: something of it has no effect
    here.
    """

    tag: str
    name: str
    pace: float = 1.0
    stress: float | None = None
    counted: bool = False
    voice: str = ""
    language: str = ""  # a BCP 47 tag

    @property
    def is_silent(self) -> bool:
        """Whether the words of the element are not spoken."""
        return self.name in SILENT

    @property
    def has_effect(self) -> bool:
        """Whether the element holds until its end tag."""
        names = ("speak", "prosody", "emphasis", "voice", "lang")
        return self.is_silent or self.language != "" or self.name in names


def parse_tag(tag: str) -> StartTag:
    """A start tag, one that TAG matches, or a voice's mark."""
    mark = VOICE_MARK.match(tag)
    if mark:
        return StartTag(tag, MARK, float(mark["pace"] or 1), voice=mark["voice"])
    match = TAG.match(tag)
    assert match
    name = name_of(match["name"])
    values = parse_attributes(match["attributes"])
    language = values.get("xml:lang", "")
    if name == "prosody":
        rate = _parse_rate(values.get("rate", "medium"))
        is_counted = rate is None or any(key != "rate" for key in values)
        return StartTag(tag, name, rate or 1.0, None, is_counted)
    if name == "emphasis":
        stress = STRESSES.get(values.get("level", "moderate"))
        return StartTag(tag, name, 1.0, stress, stress is None)
    if name == "voice":
        # several names are a choice: the first one
        voice = values.get("name", "").strip().split(" ")[0]
        return StartTag(tag, name, counted=not voice, voice=voice, language=language)
    is_known = name in KNOWN and not (name in ("w", "token") and values)
    return StartTag(tag, name, counted=not is_known, language=language)


def find_voice(tags: Iterable[str]) -> str:
    """The voice of the innermost open tag that names one; empty where none does."""
    voices = [one.voice for one in map(parse_tag, tags) if one.voice]
    return voices[-1] if voices else ""


def list_marks(text: str) -> list[StartTag]:
    """The elements of a text, and the marks of voices."""
    tags = [match for match in TAG.finditer(text) if name_of(match["name"]) in NAMES]
    return [parse_tag(match[0]) for match in (*tags, *VOICE_MARK.finditer(text))]


def voices_in(text: str) -> list[str]:
    """Every voice that a text names, in order."""
    return [voice for voice in dict.fromkeys(one.voice for one in list_marks(text)) if voice]


def check_languages(text: str) -> None:
    """Raises InputError for a language that a text names and nobody reads."""
    for one in list_marks(text):
        if one.language and find_language(one.language) is None:
            raise InputError(f"{one.tag}: this language is not read; {', '.join(LANGUAGES)} are")


# What stands between words and is not shown: what is not said, tags, the brackets of overrides. A
# text, because only subtitles need it compiled.
_HIDDEN = (
    rf"<(?P<unsaid>desc|metadata)\b[^<>]*>.*?</(?P=unsaid)\s*>|\]\([^()]*\)|{TOOLS}|{PATTERN}|\["
)


def without_markup(text: str) -> str:
    """Return the text as subtitles show it: white space in the place of a tag that parts words."""

    def fill_gap(match: re.Match[str]) -> str:
        return " " if (match["name"] or "").lower() in BLOCKS else ""

    return re.sub(_HIDDEN, fill_gap, text, flags=re.IGNORECASE | re.DOTALL)


def name_of(name: str) -> str:
    """An element's name without the prefix that some documents give to all of SSML."""
    return name.lower().removeprefix("ssml:")


def parse_attributes(text: str) -> dict[str, str]:
    """Attributes by their name in lower case, entities resolved."""
    values = {}
    for match in _ATTRIBUTE.finditer(text):
        bare = (match[4] or "").strip("“”‘’/")
        values[match[1].lower()] = decode_entities(match[2] or match[3] or bare)
    return values


def parse_request(
    element: str, attributes: str, content: str, language: Language
) -> ElementRequest | None:
    """The request of `<element attributes>content</element>`; None where it has no meaning."""
    values = parse_attributes(attributes)
    if element in ("break", "silence"):
        return _parse_break(values)
    if element == "phoneme":
        return _parse_phoneme(values)
    if element == "sub":
        return ElementRequest("alias", values["alias"]) if values.get("alias", "").strip() else None
    kind = values.get("interpret-as", values.get("type", ""))
    return _parse_say_as(kind, values.get("format", ""), content.strip(), language)


def _parse_break(values: dict[str, str]) -> ElementRequest | None:
    if "msec" in values:  # SAPI's
        return (
            ElementRequest("pause", int(values["msec"]) / 1000)
            if values["msec"].isdecimal()
            else None
        )
    time = _TIME.fullmatch(values["time"].strip()) if "time" in values else None
    if time:
        return ElementRequest("pause", float(time[1]) * (0.001 if time[2] == "ms" else 1.0))
    seconds = STRENGTHS_S.get(values.get("strength", "medium"))
    return None if "time" in values or seconds is None else ElementRequest("pause", seconds)


def _parse_phoneme(values: dict[str, str]) -> ElementRequest | None:
    """IPA, or Kokoro's own symbols (alphabet="x-kokoro")."""
    phonemes = values.get("ph", "").strip()
    alphabet = values.get("alphabet", "ipa")
    if alphabet == "ipa":
        for theirs, ours in IPA.items():
            phonemes = phonemes.replace(theirs, ours)
        phonemes = _MARK.sub(r"\2\1", phonemes)  # Kokoro marks the vowel, IPA the syllable
    phonemes = to_kokoro(phonemes)
    is_known_alphabet = (
        alphabet in ("ipa", "x-kokoro") and phonemes and find_unknown_symbol(phonemes) is None
    )
    return ElementRequest("phonemes", phonemes) if is_known_alphabet else None


def _parse_say_as(kind: str, form: str, content: str, language: Language) -> ElementRequest | None:
    if kind in ("characters", "spell-out", "verbatim", "digits", "number_digit"):
        return ElementRequest("say_as", content) if any(map(str.isalnum, content)) else None
    if kind == "telephone" and any(map(str.isdigit, content)):
        groups = re.findall(r"\+|\d+|[A-Za-z]+", content)
        said = ", ".join(" ".join(group) if group.isdigit() else group for group in groups)
        return ElementRequest("alias", said.replace("+, ", "+"))
    if kind == "date":
        parts = "".join(dict.fromkeys(form))  # yyyymmdd is ymd
        return _parse_date(parts, re.findall(r"\d+", content), content, language)
    if kind in ("cardinal", "ordinal"):
        return _parse_number(kind, content.replace(",", ""), language)
    if kind in ("expletive", "bleep"):
        return ElementRequest("alias", "bleep")
    return ElementRequest("alias", content) if kind in SAID_AS_WRITTEN and content else None


def _parse_number(kind: str, digits: str, language: Language) -> ElementRequest | None:
    """A count or a rank, which is no year and no code."""
    match = re.fullmatch(r"([-−]?)\+?(\d{1,15})(\.\d{1,9})?", digits)
    if match is None or (kind == "ordinal" and (match[1] or match[3])):
        return None
    if language not in (US, GB):
        return ElementRequest(
            "alias", (ORDINALS[language] if kind == "ordinal" else "#").replace("#", digits)
        )
    if kind == "ordinal":
        return ElementRequest("alias", ordinal(int(match[2]), language))
    said = decimal(match[2] + (match[3] or ""), language)
    return ElementRequest("alias", f"minus {said}" if match[1] else said)


def _parse_date(
    form: str, numbers: list[str], content: str, language: Language
) -> ElementRequest | None:
    """Three numbers in the order of the format (mdy, dmy, ymd) as an ISO date, which every
    normalizer knows; in English also a month and a day; other words as they are.
    """
    if form in ("md", "dm") and len(numbers) == 2 and language in (US, GB):
        month, day = (int(numbers[form.index(part)]) for part in "md")
        return ElementRequest("alias", f"{MONTHS[month - 1]} {day}") if 1 <= month <= 12 else None
    if len(numbers) != 3 or not form:
        return ElementRequest("alias", content)
    # A format that repeats or lacks a part cannot say which number is which.
    if sorted(form) != ["d", "m", "y"]:
        return None
    day, month, year = (int(numbers[form.index(part)]) for part in "dmy")
    # Two digits up to 39 are of this century.
    year += 0 if year > 99 else 1900 if year > 39 else 2000
    # A one in front keeps the zeros and is cut off again.
    iso = "-".join((str(10000 + year)[1:], str(100 + month)[1:], str(100 + day)[1:]))
    return ElementRequest("alias", iso) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _parse_rate(text: str) -> float | None:
    """A word, a factor, a share (80%) or a change (+10%)."""
    match = _RATE.fullmatch(text.strip())
    if match is None:
        return RATES.get(text.strip())
    number = float(match[1] or match[3])
    # 1.5 is a factor, 80% a share of the usual pace, +10% a change of it.
    rate = (
        number
        if match[1]
        else number / 100
        if not match[2]
        else 1 + number / 100 * (1 if match[2] == "+" else -1)
    )
    return rate if rate > 0 else None


def parse_tool_pause_s(match: "re.Match[str]") -> float | None:
    """Seconds of a pause that TOOLS matches, 0.4 where it names none; None where it is no pause."""
    for group, scale in (("slnc", 0.001), ("code", 0.001), ("hash", 1.0)):
        if match[group]:
            return float(match[group]) * scale
    if match[0][1:].lower().startswith(("pause", "break", "silence", "wait")):
        number, unit = match["pause"], match["of"]
        if not number:
            return STRENGTHS_S["medium"]
        # {pause 500}: nobody rests for 20 s
        is_ms = unit.lower().startswith("m") if unit else float(number) >= 20
        return float(number) * (0.001 if is_ms else 1.0)
    return None


def clip_markup(markup: str) -> str:
    """The name under which markup without effect is counted and shown."""
    return f"SSML not understood: {markup[:60]}"
