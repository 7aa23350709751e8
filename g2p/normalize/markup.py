"""Markup, dropped and counted: HTML tags and comments, Markdown headings, emphasis, bullets, quotes, rules, code marks, links.

scan = Scan("**bold** <b>x</b> [link](https://a.com)", "us")
markup(scan, 0)
"""

import re

from g2p.normalize.state import Scan
from g2p.normalize.tables import NUMERIC

TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9:-]{0,30}(?:\s[^<>]{0,500})?/?>|<!(?:--[^>]{0,500}--|[A-Za-z][^<>]{0,200})>")
LINE_MARK = re.compile(r"(?:#{1,6}(?=\s)|[-*+•](?=\s)|>{1,3}(?=\s)|[-*_=]{3,200}(?=\s*(?:\n|$)))")
LINK = re.compile(r"!?\[(?=[^\[\]\n]{0,500}\]\([^()\s]{0,2000}(?:\s\"[^\"\n]{0,200}\")?\))")
LINK_END = re.compile(r"\]\(([^()\s]{0,2000})(?:\s\"[^\"\n]{0,200}\")?\)")
ADDRESS_LIKE = re.compile(r"[./#:]|^$")
TABLE_RULE = re.compile(r"\|(?: ?:?-{2,100}:? ?\|){1,40}")
EMPHASIS = re.compile(r"\*{1,3}|_{1,3}|~~|`{1,3}|\|")
EMOTICON = re.compile(r"(?:[:;]['-]?[()DPp|*]{1,3}|:-?/|<3)(?=\s|$|[.!?,])")
NUMBER_AFTER = re.compile(r"\s*[\w(]")


def line_start(scan: Scan, position: int) -> bool:
    """Whether only white space stands before on the line."""
    back = position - 1
    while back >= 0 and scan.text[back] in " \t" and position - back < 32:
        back -= 1
    return back < 0 or scan.text[back] == "\n"


def drop(scan: Scan, start: int, end: int) -> int:
    """text[start:end] is markup."""
    scan.drop(start, end, "markup")
    return end


def is_emphasis(scan: Scan, start: int, end: int) -> bool:
    """Whether a run of marks is no operator: not with white space on both sides, and * not between two numbers."""
    text = scan.text
    before, after = text[start - 1 : start], text[end : end + 1]
    if text.startswith("**", start) and before.isalnum() and after.isdigit():
        return False
    if text[start] in "`|~" or end - start > 1:
        return True
    if before.isdigit() and after.isdigit():
        return False
    return not (before.isspace() and after.isspace())


def emoticon(scan: Scan, position: int) -> int:
    """:-), ;) and <3 behind white space are faces, as emoji are."""
    match = EMOTICON.match(scan.text, position)
    less = match is not None and match[0][0] == "<" and (len(scan.previous_word()) < 2 or scan.previous_word() in NUMERIC)
    if not match or less or not scan.space_before(position):
        return position
    scan.drop(position, match.end(), "emoji")
    return match.end()


def markup(scan: Scan, position: int) -> int:
    """Whatever of this file stands at `position`."""
    text, character = scan.text, scan.text[position]
    if character == "<":
        match = TAG.match(text, position)
        return drop(scan, position, match.end()) if match else position
    if character in "#-*+•>_=" and line_start(scan, position):
        match = LINE_MARK.match(text, position)
        if match:
            return drop(scan, position, match.end())
    if character == "|" and line_start(scan, position):
        match = TABLE_RULE.match(text, position)
        if match:
            return drop(scan, position, match.end())
    if character in "![":
        match = LINK.match(text, position)
        return drop(scan, position, match.end()) if match else position
    if character == "]":
        match = LINK_END.match(text, position)
        return drop(scan, position, match.end()) if match and ADDRESS_LIKE.search(match[1]) else position
    match = EMPHASIS.match(text, position)
    return drop(scan, position, match.end()) if match and is_emphasis(scan, position, match.end()) else position
