"""Tags: those of HTML and SSML are markup; every other <x> keeps its words (press <Enter>).

    find_markup_end("a <b>bold</b> word", 2)      # (5, 0): dropped
    find_markup_end("press <Enter>", 6)           # (7, 12): both brackets are dropped
    find_markup_end("if a<b", 4)                  # (4, 0): less than

A name that is a word too (<title>, <code>) is a tag where it has an attribute, ends in a slash, or
is closed later on.
"""

import re

from kokoro_g2p.bundled import read_json

_NAMES = read_json("tags.json")
WORDS, BARE = frozenset(_NAMES["words"].split()), frozenset(_NAMES["bare"].split())
NAMES = WORDS | frozenset(_NAMES["markup"].split())
ATTRIBUTES = (
    r"(?:\s{1,9}[\w:.-]{1,40}(?:\s?=\s?(?:\"[^\"<]{0,500}\"|'[^'<]{0,500}'"
    r"|[^\s\"'<>=]{1,300}))?){0,20}+"
)
TAG = re.compile(
    rf"<(?P<closes>/?)(?P<name>[A-Za-z_][\w:.-]{{0,40}})"
    rf"(?P<attributes>{ATTRIBUTES})\s{{0,9}}(?P<empty>/?)>"
)
PREFIXED = re.compile(r"[a-z]{2,12}:[a-z][\w-]*")
BARE_ATTRIBUTE = re.compile(r"\s([\w:.-]+)(?=\s+[\w:.-]|\s*$)")
BRACKET = re.compile(r"</?(?=[A-Za-z][^<>\n]{0,80}(?<!\s)(>)(?!\w))")
CLOSED_WITHIN = 2000  # characters behind a doubtful tag


def is_tag(text: str, match: "re.Match[str]") -> bool:
    """Whether a match of TAG is HTML's or SSML's, and no words in angle brackets."""
    name = match["name"].lower()
    attributes = match["attributes"]
    is_prefixed = PREFIXED.fullmatch(name) is not None  # mstts:silence
    if (name not in NAMES and not is_prefixed) or any(
        attribute[1] not in BARE
        for attribute in BARE_ATTRIBUTE.finditer(attributes)
        if "=" not in attribute[0]
    ):
        return False
    is_word = name in WORDS or is_prefixed
    if not is_word or match["closes"] or match["empty"] or "=" in attributes:
        return True
    return f"</{match['name']}>" in text[match.end() : match.end() + CLOSED_WITHIN]


def find_markup_end(text: str, place: int) -> tuple[int, int]:
    """Where a tag, or the bracket that opens a placeholder, ends, and where that bracket's partner
    stands (0: it is a tag). The end is `place` where there is neither.
    """
    whole = TAG.match(text, place)
    if whole and is_tag(text, whole):
        return whole.end(), 0
    match = BRACKET.match(text, place)
    if match is None or text[place - 1 : place].isalnum() and place:
        return place, 0
    return match.end(), match.start(1)
