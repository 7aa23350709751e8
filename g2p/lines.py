"""Line breaks that are heard: behind the items of a list, titles, labels, the lines of an address;
not where a paragraph was wrapped.

    # "Eggs" BREAK "Milk": the scan says a full stop there
    with_breaks("Eggs\\nMilk")
    with_breaks("a long line that goes\\non here")  # unchanged

Same length, so offsets stay.
"""

import re

BREAK = "\x1e"  # white space to every pattern, and in no cleaned text: controls are left out before
ITEM = re.compile(
    r"[ \t]*(?:[-*+•▪◦–—>☐☑✓✔·]\s|\[["
    r" xX]?\]\s|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]\s|#{1,6}\s|\d[ \t]{2,})"
)
ENDED = re.compile(r"[.,;:!?…—–-][\"”’')\]*_`]*\s*$")
SHORTENED = re.compile(
    r"\b(?:Inc|Ltd|Co|Corp|St|Ave|Rd|Blvd|Dr|Ln|Ct|Pl|Jr|Sr|Esq|[ap]\.m|lbs?|oz|gal|pkgs?"
    r"|pcs|doz|tsp|tbsp|hrs?|mins?|ea|pgs?)\.\s*$"
)
SHORT, FEW = 40, 3  # characters of a line, words of one
LOWER = re.compile(r"[ \t]*[\"“'(]?[a-zß-öø-ÿ]")


def is_break(line: str, following: str, longest: int, few: bool) -> bool:
    """Whether the voice rests between two lines of a block whose longest line has `longest`
    characters.
    """
    if (
        not line.strip()
        or not following.strip()
        or (ENDED.search(line) and not SHORTENED.search(line))
    ):
        return False
    if ITEM.match(line) or ITEM.match(following):
        return not LOWER.match(following)  # the second line of an item goes on
    if LOWER.match(following):
        return few
    first = following.split(None, 1)[0]
    return longest <= SHORT or len(line.rstrip()) + 1 + len(first) <= longest - FEW


def with_breaks(text: str) -> str:
    """`text` with BREAK in the place of every line break that is heard."""
    if "\n" not in text:
        return text
    lines = text.split("\n")
    longest = max(map(len, lines))
    few = len(lines) > 2 and all(len(line.split()) <= FEW for line in lines)
    joints = [
        BREAK if is_break(line, after, longest, few) else "\n"
        for line, after in zip(lines, lines[1:], strict=False)
    ]
    return "".join(line + joint for line, joint in zip(lines, [*joints, ""], strict=True))
