"""Abbreviations: titles, street names, e.g., etc., No. 5, U.S., initials; a dot that also ends the sentence is said as one.

scan = Scan("Dr. Smith lives on Elm Dr.", "us")
abbreviation(scan, 0)
"""

import re

from g2p.normalize.state import Scan
from g2p.normalize.tables import ABBREVIATIONS, MONTHS, STARTERS, WEEKDAYS, alternation

TITLES, PLACES, ENDINGS, NUMBERS, OTHERS = (ABBREVIATIONS[key] for key in ("title", "place", "ending", "number", "plain"))
DOTTED, SLASHED = ABBREVIATIONS["dotted"], ABBREVIATIONS["slashed"]
DOTLESS_TITLES, DOTLESS = frozenset(ABBREVIATIONS["title_without_dot"]), frozenset(ABBREVIATIONS["without_dot"])
LEADING = frozenset(form.split(".")[0] for form in DOTTED if ". " in form)  # of forms of two words: rev. ed.
LOWER_COUNTED = frozenset(["p", "pp", "vol", "ch", "sc"])  # before small roman numerals: pp. xi-xv
KNOWN = frozenset({"v", *LEADING, *TITLES, *PLACES, *ENDINGS, *NUMBERS, *OTHERS})

WORD = re.compile(r"([A-Za-z]{1,8})(\.?)(?![\w'@])")
DOTTED_FORM = re.compile(rf"(?:{alternation(tuple(DOTTED))})(?!\w)")
SLASHED_FORM = re.compile(rf"(?:{alternation(tuple(SLASHED))})(?!\w)")
ACRONYM = re.compile(r"(?:[A-Za-z]\.){2,12}(?:[A-Z](?!\w))?(?!\w)('s)?")
NAME_NEXT = re.compile(r"\s+[\"“(]?(?!(?:NE|NW|SE|SW|[NSEW])(?![\w.']))[A-ZÀ-Þ]")
NUMBER_NEXT = re.compile(r"\s*\(?(?:\d|[IVXLC]{2,}\b|[VX]\b|I(?=[,;]))")
SMALL_ROMAN_NEXT = re.compile(r"\s*[ivx]{1,6}(?![\w'])")
STARTER_NEXT = re.compile(r"\s+[\"“(]?([A-Z][a-z]*)")
SENTENCE_END = re.compile(r"[\"”')]*(?:\s*$|\s*\n\s*\n|\s+[\"“(]?[A-Z])")
STOP = re.compile(r"[\"”')]*(?:\s*$|\s*\n\s*\n)")


def starts_sentence(scan: Scan, position: int) -> bool:
    """Whether a word that begins sentences (The, It, He) follows."""
    match = STARTER_NEXT.match(scan.text, position)
    return match is not None and match[1] in STARTERS


def finish(scan: Scan, spoken: str, start: int, dot: int, certain: bool) -> int:
    """Say it; the dot at `dot` - 1 is a full stop too where the text ends there, or (`certain`) where a capital follows."""
    ends = (SENTENCE_END if certain else STOP).match(scan.text, dot)
    if ends and scan.text[dot - 1] == ".":
        scan.say(spoken, start, dot - 1, False)
        scan.mark(".", dot - 1, dot)
    else:
        scan.say(spoken, start, dot)
    return dot


def place_or_title(scan: Scan, text: str, end: int) -> str:
    """St, Dr, Ft ...: the street after a name and before no name, else the title."""
    before = scan.previous()
    named = before[:1].isupper() or before.endswith(("st", "nd", "rd", "th", "first", "second", "third"))
    title = "saint" if text == "St" else TITLES.get(text, "")
    if text in PLACES and named and (not title or not NAME_NEXT.match(scan.text, end) or scan.previous() in TITLES.values()):
        return PLACES[text]
    if NAME_NEXT.match(scan.text, end) and title:
        return title
    return PLACES[text] if named and text in PLACES else title


def single_word(scan: Scan, position: int) -> int:
    """One word with or without its dot."""
    match = WORD.match(scan.text, position)
    if not match or match[1] not in KNOWN:
        return position
    text, dot, end = match[1], match[2], match.end()
    if text == "v" and scan.previous()[:1].isupper() and NAME_NEXT.match(scan.text, end):
        scan.say("versus", position, end)
        return end
    if text in NUMBERS and dot and NUMBER_NEXT.match(scan.text, end):
        scan.say(NUMBERS[text], position, end)
        return end
    if (text in ("p", "pp") and NUMBER_NEXT.match(scan.text, end)) or (
        text in LOWER_COUNTED and dot and SMALL_ROMAN_NEXT.match(scan.text, end)
    ):
        scan.say(NUMBERS[text], position, end)
        return end
    if text in ("Apt", "Bldg", "Ste", "Hwy", "Rte") and re.match(r"\s+#?\d", scan.text[end : end + 4]):
        scan.say(PLACES[text], position, end)
        return end
    if text in TITLES or text in PLACES:
        spoken = place_or_title(scan, text, end) if dot or text in DOTLESS_TITLES or text in DOTLESS else ""
        return finish(scan, spoken, position, end, spoken == PLACES.get(text) and starts_sentence(scan, end)) if spoken else position
    if not dot and text not in DOTLESS:
        return position
    if text in ENDINGS:
        return finish(scan, ENDINGS[text], position, end, text == "etc" or (text != "al" and starts_sentence(scan, end)))
    if text in OTHERS and not (OTHERS[text] in MONTHS or OTHERS[text] in WEEKDAYS or NUMBERS.get(text)):
        return finish(scan, OTHERS[text], position, end, False)
    return position


def acronym(scan: Scan, position: int) -> int:
    """U.S., D.C., J.K.: capitals with dots."""
    match = ACRONYM.match(scan.text, position)
    if not match:
        return position
    letters, ending = match[0].removesuffix(match[1] or "").replace(".", "").upper(), match[1] or ""
    return finish(scan, f"~{letters}{ending}", position, match.end(), scan.text[position].islower() or starts_sentence(scan, match.end()))


def abbreviation(scan: Scan, position: int) -> int:
    """Whatever of this file stands at `position`."""
    for pattern, table in ((DOTTED_FORM, DOTTED), (SLASHED_FORM, SLASHED)):
        match = pattern.match(scan.text, position)
        if match:
            return finish(scan, table[match[0]], position, match.end(), match[0] not in ("e.g.", "i.e.", "eg.", "ie.", "a.k.a.", "w.r.t."))
    return (
        acronym(scan, position)
        if scan.text[position + 1 : position + 2] == "." and acronym_here(scan, position)
        else single_word(scan, position)
    )


def acronym_here(scan: Scan, position: int) -> bool:
    """Whether at least two letters with dots stand there."""
    return ACRONYM.match(scan.text, position) is not None
