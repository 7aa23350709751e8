"""Where a text rests, and for how long: paragraphs, headings, scene breaks.

    find_opening("It was late.\\n\\n* * *\\n\\nMorning came.", 22)   # "scene"
    is_paragraph_end("One.\\n\\nTwo.", 4)                          # True
    parse_pauses("paragraph=0.6,chapter=1.5")

A heading is a line of Markdown (# to ######), or a paragraph of one line: "Chapter 3: The storm",
"PART TWO", "Prologue", "XIV.", a line in capitals. A scene break is a line of three or more *, -, _
or ~, perhaps with spaces, or of ⁂. A port runs both functions.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from kokoro_g2p.errors import InputError

Ending = Literal["paragraph", "sentence", "clause", "none"]
Opening = Literal["chapter", "scene", ""]
# Silence behind a chunk by its ending, or before one that opens a chapter or a scene; at pace 1 and
# beside what `raw` speech has at both ends. A pace of 2 halves it.
PAUSES_S: Mapping[str, float] = MappingProxyType(
    {
        "chapter": 1.5,
        "scene": 1.0,
        "paragraph": 0.5,
        "sentence": 0.2,
        "clause": 0.08,
        "none": 0.0,
    }
)
NAMED_PAUSES = tuple(PAUSES_S)[:-1]
LONGEST_PAUSE_S = 60.0
# a blank line, or the end of an element <p>, perhaps behind ends of others
PARAGRAPH_BREAK = re.compile(
    r"[^\S\n]*\n[^\S\n]*\n|(?:\s*</(?!p\s*>)[\w:-]{1,40}\s*>){0,9}\s*</p\s*>", re.IGNORECASE
)
LOOKED_BACK = 200  # characters
# what may stand between a line's begin and its first word: a voice's mark, tags, marks
_OPENED = r"(?:\[voice:[^\]\n]{1,130}\]\s*|<[^<>\n]{1,90}>\s*){0,3}[\"“‘'*_(\[]{0,4}"
_SCENE = re.compile(
    r"\n[^\S\n]*(?:⁂|(?:\*[^\S\n]*){3,40}|(?:-[^\S\n]*){3,80}|(?:_[^\S\n]*){3,80}"
    rf"|(?:~[^\S\n]*){{3,40}})\n\s*{_OPENED}\Z"
)
_MARKDOWN = re.compile(rf"(?:\A|\n) {{0,3}}#{{1,6}}[^\S\n]+{_OPENED}\Z")
_ALONE = re.compile(rf"(?:\A|\n[^\S\n]*\n)\s*{_OPENED}\Z")
_UNITS = "one|two|three|four|five|six|seven|eight|nine"
_NUMBER = (
    rf"(?:\d{{1,4}}|[IVXLC]{{1,8}}|(?:(?:twenty|thirty|forty|fifty)[ -])?(?:{_UNITS})"
    r"|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|twenty|thirty|forty|fifty"
    r"|the\s(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last))"
)
_END = r"[\"”’'*_)\]]{0,4}[^\S\n]*(?:\n|\Z)"
_TITLE = re.compile(
    r"(?:(?:chapter|part|book|volume|canto|act|cap[ií]tulo|capitolo|chapitre|parte|partie|livre"
    rf"|libro|livro)\s{_NUMBER}(?:[^\S\n]*[.:—–-]{{1,2}}[^\n]{{0,80}}(?:\n|\Z)|{_END})"
    r"|(?:prologue|epilogue|preface|foreword|afterword|introduction|interlude|conclusion|appendix"
    rf"|pr[oó]logo|ep[ií]logo|pr[ée]face|[ée]pilogue|prefazione|pref[aá]cio)\.?{_END})",
    re.IGNORECASE,
)
# in capitals: a number, or words without a mark at their end
_CAPITALS = re.compile(
    rf"(?:[IVXLC]{{1,8}}\.?|(?=[^\n]{{0,60}}[A-ZÀ-Þ]{{3}})[^a-zß-ÿ\n]{{2,60}}[A-ZÀ-Þ\d]){_END}"
)
_NEXT_LINE = re.compile(r"\s*\n|\s*\Z")


def is_paragraph_end(text: str, place: int) -> bool:
    """Whether a paragraph of the whole text ends at character `place`."""
    return PARAGRAPH_BREAK.match(text, place) is not None


def find_opening(text: str, place: int) -> Opening:
    """What the word at `place` of the whole text opens: a heading's first word a chapter, the first
    behind a scene break a scene; "" for all others.
    """
    since = max(0, place - LOOKED_BACK)
    if _MARKDOWN.search(text, since, place):
        return "chapter"
    if _ALONE.search(text, since, place):
        if _TITLE.match(text, place):
            return "chapter"
        # one line in capitals, with a blank one behind it
        capitals = _CAPITALS.match(text, place)
        if capitals and _NEXT_LINE.match(text, capitals.end()):
            return "chapter"
    return "scene" if _SCENE.search(text, since, place) else ""


def parse_pauses(text: str) -> dict[str, float]:
    """Seconds by name, of "sentence=0.25,paragraph=0.6". Raises InputError as `check_pauses`."""
    pauses: dict[str, float] = {}
    for part in text.split(","):
        name, _, seconds = (word.strip() for word in part.partition("="))
        try:
            pauses[name] = float(seconds.removesuffix("s"))
        except ValueError:
            raise InputError(
                f"pauses {text!r}: {part.strip()!r} is not NAME=SECONDS, as in paragraph=0.6"
            ) from None
    return dict(check_pauses(pauses))


def check_pauses(pauses: Mapping[str, float]) -> Mapping[str, float]:
    """Return pauses in seconds by NAMED_PAUSES. Raises InputError for another name, and for seconds
    outside 0 to LONGEST_PAUSE_S.
    """
    for name, seconds in pauses.items():
        if name not in NAMED_PAUSES:
            raise InputError(f"no pause {name!r}. There are: {', '.join(NAMED_PAUSES)}")
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (is_number and 0 <= seconds <= LONGEST_PAUSE_S):
            raise InputError(
                f"pause {name}={seconds!r}: give seconds from 0 to {LONGEST_PAUSE_S:g}"
            )
    return pauses
