"""E-mail addresses, web addresses, paths, file names, hashtags and handles, part by part.

    scan = Scan("john.doe@example.com", "us")
    address(scan, 0)      # john dot doe at example dot com

In addresses the marks are said (dot, slash, underscore, dash); in file names hyphen and underscore
part words and are silent. The scheme (https://) is left out and counted.
"""

import re

from kokoro_ane.g2p.morphology import stems
from kokoro_ane.g2p.normalize.characters import LATIN
from kokoro_ane.g2p.normalize.number_words import digits
from kokoro_ane.g2p.normalize.short_forms import LOWER, UPPER, acronym, lower_piece, number_piece
from kokoro_ane.g2p.normalize.state import (
    BARE_DOMAINS,
    DOMAINS,
    EXTENSIONS,
    KEEP,
    RESPELLED,
    SHORT,
    WEB,
    WEB_LETTERS,
    WEB_WORDS,
    Scan,
    alternation,
)

MARKS: dict[str, str] = WEB["marks"]
NAMES: dict[str, str] = WEB["respelled"]
TAIL = r"(?:[:/?#][^\s<>\"“”\ue000-\uf8ff]{0,2000}+)?"
EMAIL = re.compile(
    r"(?:mailto:)?[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9-]{1,63}"
    r"(?:\.[A-Za-z0-9-]{1,63}){1,8}(?![\w@])"
)
SCHEME = re.compile(r"(?:https?|ftp|file|wss?)://", re.IGNORECASE)
URL = re.compile(r"[^\s<>\"“”\ue000-\uf8ff]{1,2000}")
HOST = re.compile(
    rf"(?:[A-Za-z0-9-]{{1,63}}\.){{1,6}}({alternation(DOMAINS)})(?![A-Za-z0-9@-]|\.[A-Za-z]){TAIL}",
    re.IGNORECASE,
)
LOCAL = re.compile(rf"localhost(?=[:/]\w){TAIL}")
TRAILING = re.compile(r"[.,;:!?)\]'*_~…]+$")
SCHEME_MARK = re.compile(r"(?:mailto:|[a-z]{2,5}://)", re.IGNORECASE)
PART = re.compile(rf"[{UPPER}]+(?![{LOWER}])|[{UPPER}]?[{LOWER}]+|\d+|[^\w\s]|_|[^\W\d_]", re.ASCII)
UNIX = re.compile(
    r"(?:~|\.{1,2})?(?:/[\w.@+-]{1,100}){2,40}/?|(?:~|\.{1,2})(?:/[\w.@+-]{1,100}){1,40}/?",
    re.ASCII,
)
WINDOWS = re.compile(
    r"[A-Za-z]:\\(?:[\w.()-]{1,64}(?: [\w.()-]{1,64}){0,3}\\){0,20}[^\s\"<>|]{0,100}"
)
_ENDINGS = alternation(EXTENSIONS | {name.upper() for name in EXTENSIONS if len(name) > 2})
FILE = re.compile(
    rf"(?:[\w-]{{1,64}}/){{0,20}}[A-Za-z0-9][\w-]{{0,100}}(?:\.[\w-]{{1,20}}){{0,3}}\."
    rf"({_ENDINGS})(?![\w@]|\.\w)",
    re.ASCII,
)
EXTENSION = re.compile(rf"\.({alternation(EXTENSIONS)})(?!\w)")
HASHTAG = re.compile(rf"#([{LATIN}_][{LATIN}0-9_]{{0,139}})")
IS_LATIN = re.compile(f"[{LATIN}]")
HANDLE = re.compile(r"@([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})")
NUMBER_SIGN = re.compile(r"#(?=\d|[A-Z]{1,4}-?\d{2}|[A-Z]{1,4}\d[A-Z])")
AFTER_WORD = re.compile(r"#(?=:?\s?[A-Z]*-?\d)")  # Conf# QX7T2L, Acct#: 4482


def word_of(text: str, scan: Scan) -> str:
    """One piece of letters or digits as it is said."""
    low = text.lower()
    if text.isdigit():
        return number_piece(text, scan.dialect) if len(text) < 5 else digits(text)
    if low in NAMES:
        return NAMES[low]
    if low in WEB_WORDS:
        return text
    if text in RESPELLED or (text.isupper() and len(text) > 1):
        return acronym(text, False)
    return f"~{text.upper()}" if low in WEB_LETTERS or len(low) < 3 else lower_piece(text)


def words_in(text: str, scan: Scan) -> list[str]:
    """Three listed words or more, the fewest, that a run of letters is written from
    (photooftheday); else the run itself.
    """
    is_listed = scan.known
    if (
        is_listed is None
        or len(text) <= 5
        or not (text.isascii() and text.isalpha())
        or any(is_listed(stem) for _, stem in stems(text))
    ):
        return [text]
    best: list[list[str]] = [[] for _ in range(len(text) + 1)]
    for end in range(2, len(text) + 1):
        for start in range(max(0, end - 14), end - 1):
            piece, before = text[start:end], best[start]
            listed = piece.lower() in SHORT if end - start < 4 else is_listed(piece)
            if (
                (before or not start)
                and listed
                and (not best[end] or len(before) + 1 < len(best[end]))
            ):
                best[end] = [*before, piece]
    return best[-1] if len(best[-1]) > 2 else [text]


def say_words(scan: Scan, text: str, start: int, space: bool | None) -> None:
    """A run of letters word by word."""
    pieces = words_in(text, scan)
    for number, piece in enumerate(pieces):
        start = scan.word(
            piece, start, start + len(piece), space if number == len(pieces) - 1 else True
        )


def say_parts(scan: Scan, start: int, end: int, silent: str = "") -> None:
    """text[start:end] piece by piece; marks in `silent` only part words."""
    position = start
    scheme = SCHEME_MARK.match(scan.text, start, end)
    if scheme:
        scan.drop(start, scheme.end(), "url scheme")
        position = scheme.end()
    while position < end:
        part = PART.match(scan.text, position, end)
        if not part:
            scan.drop(position, position + 1, "symbol")
            position += 1
            continue
        text, last = part[0], part.end()
        space = None if last == end else True
        if text in silent:
            scan.silent(position, last)
        elif text.isdecimal() or IS_LATIN.match(text):
            if text in ("v", "V") and scan.text[last : last + 1].isdigit():
                scan.say("version", position, last, space)
            elif word_of(text, scan) == text:
                say_words(scan, text, position, space)
            else:
                scan.say(word_of(text, scan), position, last, space)
        elif text in MARKS:
            scan.say(MARKS[text], position, last, space)
        else:
            scan.drop(position, last, "symbol")
        position = last


def trimmed(scan: Scan, start: int, end: int) -> int:
    """The end without the sentence's own marks."""
    trailing = TRAILING.search(scan.text, max(start, end - 32), end)
    if trailing and scan.text[end - 1] == ")" and "(" in scan.text[start:end]:
        return end
    return trailing.start() if trailing and trailing.start() > start else end


def host_end(scan: Scan, position: int) -> int:
    """Where an address without scheme ends; the same position where there is none."""
    match = LOCAL.match(scan.text, position)
    if match:
        return trimmed(scan, position, match.end())
    match = HOST.match(scan.text, position)
    if not match:
        return position
    name = match[0]
    plain = name.rstrip(".,;:!?)").lower().endswith("." + match[1].lower())
    if (
        plain
        and match[1].lower() not in BARE_DOMAINS
        and not name.lower().startswith("www.")
        and name.count(".") < 2
    ):
        return position
    return trimmed(scan, position, match.end())


INITIALS = re.compile(r"(?:[A-Za-z]\.){3,12}(?![\w/@])")


def address(scan: Scan, position: int) -> int:
    """An e-mail or web address at `position`."""
    if INITIALS.match(scan.text, position):  # m.p.h. is no address in the Philippines
        return position
    match = EMAIL.match(scan.text, position)
    if match:
        say_parts(scan, position, match.end())
        return match.end()
    scheme = SCHEME.match(scan.text, position)
    if scheme:
        rest = URL.match(scan.text, scheme.end())
        end = trimmed(scan, scheme.end(), rest.end()) if rest else scheme.end()
    else:
        end = host_end(scan, position)
    if end > position:
        say_parts(scan, position, end)
    return end


def path(scan: Scan, position: int) -> int:
    """A path or a file name at `position`."""
    before = scan.text[position - 1] if position else " "
    if before.isalnum() or before in "/\\" or INITIALS.match(scan.text, position):
        return position
    match = UNIX.match(scan.text, position) or WINDOWS.match(scan.text, position)
    end = trimmed(scan, position, match.end()) if match else position
    if end == position:
        match = FILE.match(scan.text, position)
        end = match.end() if match else position
    if end > position:
        say_parts(scan, position, end, silent="_-")
    return end


def say_name(scan: Scan, start: int, end: int) -> None:
    """The words of a hashtag or handle."""
    for part in PART.finditer(scan.text, start, end):
        text = part[0]
        space = None if part.end() == end else True
        if (
            text.isdigit()
            or (text.isupper() and text not in KEEP and (len(text) > 1 or text not in "AI"))
            or len(text) == 1
            and text not in "aAI_.-"
        ):
            scan.say(
                word_of(text, scan) if len(text) > 1 or text.isdigit() else f"~{text.upper()}",
                part.start(),
                part.end(),
                space,
            )
        elif text in "_.-":
            scan.silent(part.start(), part.end())
        else:
            say_words(scan, text, part.start(), space)


def hashtag(scan: Scan, position: int) -> int:
    """#ThrowbackThursday, #1, @JaneDoe."""
    text = scan.text
    if position > 1 and text[position - 2].isalpha() and AFTER_WORD.match(text, position):
        return scan.say("number", position, position + 1)
    if position and text[position - 1].isalnum():
        return position
    if NUMBER_SIGN.match(text, position):
        return scan.say("number", position, position + 1, True)
    for pattern, name in ((HASHTAG, "hashtag"), (HANDLE, "at")):
        match = pattern.match(text, position)
        if match:
            end = trimmed(scan, position, match.end()) if name == "at" else match.end()
            scan.say(name, position, position + 1, True)
            say_name(scan, position + 1, end)
            return end
    return position


def extension(scan: Scan, position: int) -> int:
    """.pdf alone."""
    match = EXTENSION.match(scan.text, position)
    if not match or (position and scan.text[position - 1].isalnum()):
        return position
    say_parts(scan, position, match.end())
    return match.end()
