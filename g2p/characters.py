"""First stage: characters. Quotes, dashes, widths and accents into one form; emoji, controls and
other scripts out, by name.

    cleaned = clean("“naïve” 😀 Привет")
    cleaned.text          # the text the scan reads
    cleaned.span(0, 5)    # the same span in the original

Every character of the original is in `text`, is white space, or is in `drops`. Line breaks that are
heard are marked afterwards (`with_breaks`).
"""

import html
import re
import unicodedata
from dataclasses import dataclass, field

from kokoro_ane.g2p.result import Drop
from kokoro_ane.g2p.word_lists import pairs

LATIN = "A-Za-zÀ-ÖØ-öø-ſ"  # letters a word may hold: ASCII, Latin-1 and Latin Extended-A
GREEK = frozenset("αβγδεζηθλπρστφχψωΓΔΘΛΠΣΦΨΩ")  # that have a name alone
OVERRIDES = "\ue000-\uf8ff"  # private use: a caller's placeholders
SPOKEN = "•⌘⌥⇧⌃⋆∛∜№°½⅓⅔¼¾⅛⅜⅝⅞⅕⅖⅗⅘⅙⅚±×÷−≈≠≤≥√∞€£¥¢₹₩₽₿©§µ–—…“”→←↑↓▲▼"  # the scan knows them
ONE_FOR_ONE = pairs(
    "':‘’‚‛ʼʹʻ′＇´‹› \":″＂〃 “:„«‟ ”:» -:‐‑⁃﹣ →:⇒⟶⟹➔➜➝➞➡↔⇔⟷ Δ:∆ Σ:∑ –:‒ —:―⸺⸻ …:⋯ µ:μ"
    " ×:⋅✕✖ −:➖ /:⁄∕ .:。．｡ ,:，、､ ⋆:★⭐ (:【〔 ):】〕 ~:∼〜 n:ŉ s:ſ"
) | {
    ":": "∶",
    " ": (
        "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
        "\u202f\u205f\u3000"
    ),
    "\n": "\u2028\u2029\u0085\v\f",
}
TABLE = {ord(old): new for new, group in ONE_FOR_ONE.items() for old in group}
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb"
)
EMOJI = (
    "\u2139\u231a\u231b\u23e9-\u23fa\u25b6\u25c0\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001fbff"
)
MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
NFKC = (
    "\u2100-\u211f\u2123-\u2188\u2460-\u24ff\u3371-\u33df\ufb00-\ufb06\uff01-\uff5e\uffe0"
    "-\uffe6\U0001d400-\U0001d7ffªº\u2080-\u209c"
)
LIGATURES = frozenset("ﬀﬁﬂﬃﬄﬅﬆ")
COMPATIBLE = re.compile(f"[{NFKC}]")
# What needs a look, longest cluster first; everything else stays as it is.
SPECIAL = re.compile(
    f"(?P<keycap>[0-9]\ufe0f?\u20e3)|(?P<emoji>(?:[{EMOJI}\U000e0020-\U000e007f]"
    f"|[0-9#*]\ufe0f?\u20e3)(?:[{EMOJI}\ufe0f\u200d\u20e3\U000e0020-\U000e007f])*+)"
    f"|(?P<power>[⁺⁻⁰¹²³⁴-⁹]++)|(?P<entity>&(?:#[0-9]{{1,7}}|#[xX][0-9a-fA-F]{{1,6}}"
    f"|[a-zA-Z]{{2,8}});)|(?P<accent>[{LATIN}]?[{MARKS}]++)|"
    f"(?P<invisible>[{INVISIBLE}]++)|(?P<control>[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
    f"]++)"
    f"|(?P<surrogate>[\ud800-\udfff]++)|(?P<other>[^\x00-\x7f{LATIN}{SPOKEN}{OVERRIDES}])"
)


IS_FOREIGN = re.compile(rf"[^\W\d_{LATIN}]")
# don`t; not `code`s
TICK = re.compile(rf"((?:^|[^`\w])[{LATIN}]{{1,20}})`(?=(?:t|s|re|ve|ll|d|m)(?!\w))")


@dataclass
class Cleaned:
    """The text to scan, and for each of its characters where it came from (None: nothing moved)."""

    text: str
    starts: list[int] | None = None
    ends: list[int] | None = None
    drops: list[Drop] = field(default_factory=list)  # offsets of the original

    def span(self, start: int, end: int) -> tuple[int, int]:
        """start:end of the cleaned text as offsets of the original."""
        if self.starts is None or self.ends is None:
            return start, end
        return self.starts[start], self.ends[end - 1]

    def span_behind(self, before: tuple[int, int], start: int, end: int) -> tuple[int, int]:
        """The span behind that of the token before. Where both began inside one character (¹¼) the
        later one takes what is left, or the same span.
        """
        first, last = self.span(start, end)
        if self.starts is None or first >= before[1]:
            return first, last
        return (before[1], last) if last > before[1] else before


def script(character: str) -> str:
    """Cyrillic, Greek, CJK ...: the first word of the character's Unicode name."""
    return (
        unicodedata.name(character, "Unknown")
        .split()[0]
        .split("-")[0]
        .capitalize()
        .replace("Cjk", "CJK")
    )


def category(character: str) -> str:
    """The category under which a character is left out."""
    kind = unicodedata.category(character)
    if kind[0] in "LMN":
        return f"script {script(character)}"
    return {
        "Cn": "unassigned character",
        "Co": "private character",
        "Cc": "control character",
        "Cf": "invisible character",
    }.get(kind, "symbol")


def fold(character: str) -> str:
    """The letters of LATIN nearest to one Latin letter beyond it (ế -> e), empty where there is
    none.
    """
    composed = unicodedata.normalize("NFD", character)
    return "".join(letter for letter in composed if re.fullmatch(f"[{LATIN}]", letter))


def replacement(kind: str, characters: str, alone: bool) -> tuple[str, str | None]:
    """What stands for a special cluster, and the category of what is lost (None: nothing)."""
    if kind == "emoji":
        return " ", "emoji"
    if kind == "keycap":
        return f"{characters[0]} ", None
    if kind == "accent":
        composed = unicodedata.normalize("NFC", characters)
        if len(composed) == 1 and re.fullmatch(f"[{LATIN}]", composed):
            return composed, None
        return characters[0] if re.match(f"[{LATIN}]", characters) else "", "combining mark"
    if kind == "power":
        return "^" + unicodedata.normalize("NFKC", characters).replace("−", "-"), None
    if kind == "entity":
        return entity(characters)
    if kind != "other":
        names = {
            "invisible": "invisible character",
            "control": "control character",
            "surrogate": "lone surrogate",
        }
        return "" if kind == "invisible" else " ", names[kind]
    if characters.isspace():
        return " ", None
    if alone and characters in GREEK:
        return characters, None
    if unicodedata.category(characters) == "Nd":
        return str(unicodedata.decimal(characters)), None
    if COMPATIBLE.match(characters):
        plain = unicodedata.normalize("NFKC", characters).translate(TABLE)
        if re.fullmatch(f"[\x20-\x7e{LATIN}{SPOKEN}]+", plain):
            return plain, None
    letters = fold(characters) if unicodedata.category(characters)[0] == "L" else ""
    return (letters, None) if letters else (" ", category(characters))


def entity(characters: str) -> tuple[str, str | None]:
    """The character that an entity names (&amp; -> &); an entity of another character is markup."""
    plain = html.unescape(characters).translate(TABLE)
    if len(plain) != 1 or plain == "\0":
        return (characters, None) if plain == characters else (" ", "markup")
    match = SPECIAL.match(plain)
    return replacement(match.lastgroup or "other", plain, True) if match else (plain, None)


def clean(text: str) -> Cleaned:
    """Return the text in the form that the scan reads. Time is linear; ASCII without control
    characters comes back as it is.
    """
    plain = text if text.isascii() else text.translate(TABLE)
    if "`" in plain:
        plain = TICK.sub(r"\1'", plain)
    if SPECIAL.search(plain) is None:
        return Cleaned(plain)
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    drops: list[Drop] = []
    position = 0
    for match in SPECIAL.finditer(plain):
        start, end = match.span()
        pieces.append(plain[position:start])
        starts.extend(range(position, start))
        ends.extend(range(position + 1, start + 1))
        # Δx is delta x; a letter of a Greek word has no name
        beside = plain[max(0, start - 1) : start] + plain[end : end + 1]
        alone = not IS_FOREIGN.search(beside)
        new, lost = replacement(match.lastgroup or "other", match.group(), alone)
        if lost:
            drops.append((start, end, lost))
        # ², ㎏ or Ⅷ beside a letter or digit: no token may begin inside
        if len(new) > 1 and match.group() not in LIGATURES:
            new = " " * new[0].isalnum() + new
            new += " " * (re.match(r"\w|[^\x00-\x7f]", plain[end : end + 1]) is not None)
        pieces.append(new)
        starts.extend([start] * len(new))
        ends.extend([end] * len(new))
        position = end
    pieces.append(plain[position:])
    starts.extend(range(position, len(plain)))
    ends.extend(range(position + 1, len(plain) + 1))
    return Cleaned("".join(pieces), starts, ends, drops)


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
    characters; `few`: every line has FEW words at most.
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
    """`text` with BREAK in the place of every line break that is heard: behind the items of a list,
    titles, labels and the lines of an address, but not where a paragraph was wrapped. The length
    stays, so offsets do.

        with_breaks("Eggs\\nMilk")  # "Eggs" BREAK "Milk": the scan says a full stop there
        with_breaks("a long line that goes\\non here")  # unchanged
    """
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
