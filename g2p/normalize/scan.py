"""Second stage: one pass over the cleaned text. Plain words take one regex and one set look-up; anything else goes to the handlers.

state = Scan("Dr. Smith, 42.", "us")
scan(state)
state.tokens
"""

import re

from g2p.normalize.characters import LATIN, OVERRIDES
from g2p.normalize.number_words import decimal
from g2p.normalize.state import Scan

# White space, then a word, then what cannot change how the word is read.
PLAIN = re.compile(rf"\s*+([{LATIN}][a-zß-öø-ÿ]*+(?:'[a-z]{{1,2}}(?![{LATIN}]))?)(?=[\s,;!?)”]|[.:](?:\s|$)|$)")
SPACES = re.compile(r"\s*+")
WORD = re.compile(rf"[{LATIN}]++(?:'[{LATIN}]++)*+")
NUMBER = re.compile(r"\d{1,3}(?:,\d{3})++(?:\.\d++)?+|\d++(?:\.\d++)?+|\.\d++")
MARKS = {"[": "(", "]": ")", "{": "(", "}": ")", "–": "—", "--": "—", "...": "…"}


def mark(scan: Scan, position: int) -> int:
    """One mark, a run of the same as one."""
    text, end = scan.text, position + 1
    while end < len(text) and text[end] == text[position]:
        end += 1
    run = text[position:end]
    found = MARKS.get(run[:3], MARKS.get(run[0], run[0]))
    if found in ';:,.!?—…"()“”':
        scan.mark(found, position, end)
    else:
        scan.drop(position, end, "symbol")
    return end


def special(scan: Scan, position: int) -> int:
    """What is no plain word."""
    for pattern in (WORD, NUMBER):
        match = pattern.match(scan.text, position)
        if match and pattern is WORD:
            scan.word(match[0], position, match.end())
            return match.end()
        if match:
            scan.say(decimal(match[0], scan.dialect), position, match.end())
            return match.end()
    if re.match(f"[{OVERRIDES}]", scan.text[position]):
        scan.tokens.append((scan.text[position], position, position + 1, "override", None))
        return position + 1
    return mark(scan, position)


def scan(state: Scan) -> None:
    """Fill `state` with the tokens and drops of its text."""
    text, position, append = state.text, 0, state.tokens.append
    length, plain, spaces = len(text), PLAIN.match, SPACES.match
    while position < length:
        match = plain(text, position)
        if match:
            start, position = match.span(1)
            append((match[1], start, position, "word", None))
            continue
        position = spaces(text, position).end()
        if position < length:
            position = special(state, position)
