"""First stage: characters. Quotes, dashes, widths and accents into one form; emoji, controls and
other scripts out, by name.

    cleaned = clean("“naïve” 😀 Привет")
    cleaned.text          # the text the scan reads
    cleaned.find_span(0, 5)    # the same span in the original

Every character of the original is in `text`, is white space, or is in `drops`. Line breaks that are
heard are marked afterwards (`mark_breaks`).
"""

import re
import unicodedata
from dataclasses import dataclass, field
from html.entities import name2codepoint

from kokoro_g2p.result import Drop
from kokoro_g2p.word_lists import parse_pairs

LATIN = "A-Za-zÀ-ÖØ-öø-ſ"  # letters a word may hold: ASCII, Latin-1 and Latin Extended-A
GREEK = frozenset("αβγδεζηθλπρστφχψωΓΔΘΛΠΣΦΨΩ")  # that have a name alone
OVERRIDES = "\ue000-\uf8ff"  # private use: a caller's placeholders
SPOKEN = "ªº•⌘⌥⇧⌃⋆∛∜№°½⅓⅔¼¾⅛⅜⅝⅞⅕⅖⅗⅘⅙⅚±×÷−≈≠≤≥√∞€£¥¢₹₩₽₿©§µ–—…“”→←↑↓▲▼"  # the scan knows them
ONE_FOR_ONE = parse_pairs(
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
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb\ufffe"
)
EMOJI = (
    "\u2139\u231a\u231b\u23e9-\u23fa\u25b6\u25c0\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001fbff"
)
MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\u3099\u309a\ufe20-\ufe2f"
NFKC = (
    "\u2100-\u211f\u2123-\u2188\u2460-\u24ff\u3371-\u33df\ufb00-\ufb06\uff01-\uff5e\uffe0"
    "-\uffe6\U0001d400-\U0001d7ff\u2080-\u209c"
)
LIGATURES = frozenset("ﬀﬁﬂﬃﬄﬅﬆ")
COMPATIBLE = re.compile(f"[{NFKC}]")


def compile_special(kept: str) -> "re.Pattern[str]":
    """The pattern of what needs a look, longest cluster first; everything else stays as it is.
    `kept`: ranges of a script that the language reads.
    """
    return re.compile(
        f"(?P<keycap>[0-9]\ufe0f?\u20e3)|(?P<emoji>(?:[{EMOJI}\U000e0020-\U000e007f]"
        f"|[0-9#*]\ufe0f?\u20e3)(?:[{EMOJI}\ufe0f\u200d\u20e3\U000e0020-\U000e007f])*+)"
        f"|(?P<power>[⁺⁻⁰¹²³⁴-⁹]++)|(?P<entity>&(?:#[0-9]{{1,7}}|#[xX][0-9a-fA-F]{{1,6}}"
        f"|[a-zA-Z]{{2,8}});)|(?P<accent>[{LATIN}{kept}]?[{MARKS}]++)|"
        # a soft hyphen at a line's end joins what it cut
        f"(?P<invisible>[\u00ad\ufffe][ \r]*\n[ \t]*|[{INVISIBLE}]++)|"
        f"(?P<control>[\x00-\x08\x0e-\x1d\x7f-\x84\x86-\x9f]++)|(?P<quote> *+\x1f[\x1f ]*+)"
        f"|(?P<spaces> {{2,}}+)|(?P<surrogate>[\ud800-\udfff]++)"
        f"|(?P<other>[^\x00-\x7f{LATIN}{SPOKEN}{OVERRIDES}{kept}])"
    )


SPECIAL = compile_special("")
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

    def find_span(self, start: int, end: int) -> tuple[int, int]:
        """start:end of the cleaned text as offsets of the original."""
        if self.starts is None or self.ends is None:
            return start, end
        return self.starts[start], self.ends[end - 1]

    def find_span_behind(self, before: tuple[int, int], start: int, end: int) -> tuple[int, int]:
        """The span behind that of the token before. Where both began inside one character (¹¼) the
        later one takes what is left, or the same span.
        """
        first, last = self.find_span(start, end)
        if self.starts is None or first >= before[1]:
            return first, last
        return (before[1], last) if last > before[1] else before


def find_script(character: str) -> str:
    """Cyrillic, Greek, CJK ...: the first word of the character's Unicode name."""
    return (
        unicodedata.name(character, "Unknown")
        .split()[0]
        .split("-")[0]
        .capitalize()
        .replace("Cjk", "CJK")
    )


def find_category(character: str) -> str:
    """The category under which a character is left out."""
    kind = unicodedata.category(character)
    if kind[0] in "LMN":
        return f"script {find_script(character)}"
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


def replace_cluster(kind: str, characters: str, alone: bool) -> tuple[str, str | None]:
    """What stands for a special cluster, and the category of what is lost (None: nothing)."""
    if kind == "emoji":
        return " ", "emoji"
    if kind == "keycap":
        return f"{characters[0]} ", None
    if kind == "accent":
        composed = unicodedata.normalize("NFC", characters)
        # A letter that Unicode has with this accent is that letter; kana with their voicing too.
        if len(composed) == 1 and re.fullmatch(f"[{LATIN}ぁ-ヿ]", composed):
            return composed, None
        return re.sub(f"[{MARKS}]", "", characters), "combining mark"
    if kind == "power":
        # m² is read as m^2, which rows know.
        return "^" + unicodedata.normalize("NFKC", characters).replace("−", "-"), None
    if kind == "entity":
        return replace_entity(characters)
    if kind == "spaces":
        return " ", None
    if kind != "other":
        names = {
            "invisible": "invisible character",
            "control": "control character",
            "surrogate": "lone surrogate",
            "quote": "markup",
        }
        return "" if kind == "invisible" else " ", names[kind]
    if characters.isspace():
        return " ", None
    if alone and characters in GREEK:
        return characters, None
    # Digits of any script are Western ones from here on.
    if unicodedata.category(characters) == "Nd":
        return str(unicodedata.decimal(characters)), None
    # ㎏ or Ⅷ are what they abbreviate, if that is all readable.
    if COMPATIBLE.match(characters):
        plain = unicodedata.normalize("NFKC", characters).translate(TABLE)
        if re.fullmatch(f"[\x20-\x7e{LATIN}{SPOKEN}]+", plain):
            return plain, None
    letters = fold(characters) if unicodedata.category(characters)[0] == "L" else ""
    return (letters, None) if letters else (" ", find_category(characters))


ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z0-9]{2,8});")
# HTML 4's names and XML's: all of HTML 5's 2,231 would be a sixth of what a port reads
ENTITIES = {name: chr(point) for name, point in name2codepoint.items()} | {"apos": "'"}
# what browsers make of numbers that are control characters
WINDOWS = {
    point: bytes([point]).decode("cp1252")
    for point in range(0x80, 0xA0)
    if point not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
HIGHEST, FIRST_SURROGATE, LAST_SURROGATE = 0x10FFFF, 0xD800, 0xDFFF


def decode_entity(characters: str) -> str:
    """The character that an entity with its mark and semicolon stands for; itself where it is
    none.
    """
    name = characters[1:-1]
    if name[:1] != "#":
        return ENTITIES.get(name, characters)
    point = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    if point in WINDOWS:
        return WINDOWS[point]
    is_character = 0 < point <= HIGHEST and not FIRST_SURROGATE <= point <= LAST_SURROGATE
    # NUL stands for a number that names no character.
    return chr(point) if is_character else "\0"


def decode_entities(text: str) -> str:
    """`text` with the characters that its entities stand for."""
    return ENTITY.sub(lambda match: decode_entity(match[0]), text)


def replace_entity(characters: str) -> tuple[str, str | None]:
    """The character that an entity names (&amp; -> &); an entity of another character is markup."""
    plain = decode_entity(characters).translate(TABLE)
    if len(plain) != 1 or plain == "\0":
        return (characters, None) if plain == characters else (" ", "markup")
    match = SPECIAL.match(plain)
    return replace_cluster(match.lastgroup or "other", plain, True) if match else (plain, None)


def clean(text: str, special: "re.Pattern[str]" = SPECIAL) -> Cleaned:
    """Return the text in the form that the scan reads. Time is linear; ASCII without control
    characters comes back as it is. `special`: what needs a look in this language.
    """
    # The table is one for one, so that offsets hold.
    plain = text if text.isascii() else text.translate(TABLE)
    if "`" in plain:
        plain = TICK.sub(r"\1'", plain)
    if special.search(plain) is None:
        return Cleaned(plain)
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    drops: list[Drop] = []
    position = 0
    for match in special.finditer(plain):
        start, end = match.span()
        # What stands between clusters maps onto itself.
        pieces.append(plain[position:start])
        starts.extend(range(position, start))
        ends.extend(range(position + 1, start + 1))
        # Δx is delta x; a letter of a Greek word has no name
        beside = plain[max(0, start - 1) : start] + plain[end : end + 1]
        alone = not IS_FOREIGN.search(beside)
        new, lost = replace_cluster(match.lastgroup or "other", match.group(), alone)
        if lost:
            drops.append((start, end, lost))
        # ², ㎏ or Ⅷ beside a letter or digit: no token may begin inside
        if len(new) > 1 and match.group() not in LIGATURES:
            new = " " * new[0].isalnum() + new
            new += " " * (re.match(r"\w|[^\x00-\x7f]", plain[end : end + 1]) is not None)
        # Each character of a replacement comes from the whole cluster.
        pieces.append(new)
        starts.extend([start] * len(new))
        ends.extend([end] * len(new))
        position = end
    pieces.append(plain[position:])
    starts.extend(range(position, len(plain)))
    ends.extend(range(position + 1, len(plain) + 1))
    return Cleaned("".join(pieces), starts, ends, drops)


# White space to every pattern; those of the text itself are read alike.
BREAK, QUOTED = "\x1e", "\x1f"
ITEM = re.compile(
    r"[ \t]*(?:[-*+•▪◦–—>☐☑✓✔·]\s|\[["
    r" xX]?\]\s|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)]\s|#{1,6}\s|\d[ \t]{2,})"
)
# What begins an item may also stand where a wrapped line begins: a dash, an initial, a number.
DOUBTFUL = re.compile(r"[ \t]*(?:[-–—+]|\(?\w{1,4}[.)])\s")
ENDED = re.compile(r"[.,;:!?…—–-][\"”’')\]*_`]*\s*$")
SHORTENED = re.compile(
    r"\b(?:Inc|Ltd|Co|Corp|St|Ave|Rd|Blvd|Dr|Ln|Ct|Pl|Jr|Sr|Esq|[ap]\.m|lbs?|oz|gal|pkgs?"
    r"|pcs|doz|tsp|tbsp|hrs?|mins?|ea|pgs?)\.\s*$"
)
SHORT, FEW = 40, 3  # characters of a line, words of one
LOWER = re.compile(r"[ \t]*[\"“'(]?[a-zß-öø-ÿ]")
LINE_ENDS = {ord(mark): "\n" for mark in "\u2028\u2029\u0085"}
LINE_END = re.compile("[\n\u2028\u2029\u0085]")
BLANK = re.compile(r"\n[ \t\r>]*\n")
QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+(?![ \t]*[\d=<>-])", re.MULTILINE)
CUT_WORD = re.compile(r"[^\W\d_][-\u00ad\ufffe][ \t]*$")
LINES_BEFORE, VERSE = 400, 5  # characters looked back at; lines that all begin with capitals


def is_break(line: str, following: str, longest: int, few: bool, verse: bool) -> bool:
    """Whether the voice rests between two lines of a block whose longest line has `longest`
    characters; `few`: every line has FEW words at most; `verse`: none begins with a small letter.
    """
    if (
        not line.strip()
        or not following.strip()
        or (ENDED.search(line) and not SHORTENED.search(line))
    ):
        return False
    # the next word had no room
    first = following.split(None, 1)[0]
    is_full = longest > SHORT and len(line.rstrip()) + 1 + len(first) > longest - FEW
    if ITEM.match(following) and (ITEM.match(line) or not is_full or not DOUBTFUL.match(following)):
        return not LOWER.match(following)
    if line.isupper() and not following.isupper() and not is_full:
        return True  # a heading in capitals, as man pages have them
    if LOWER.match(following):
        return few and not ITEM.match(line)  # the second line of an item goes on
    return verse or not is_full


def mark_breaks(text: str, before: str = "", after: str = "") -> str:
    """`text` with every line break as it is heard: BREAK behind the items of a list, titles, labels
    and the lines of an address, a space where a paragraph was wrapped, and a line break where the
    line ends in a mark or in half a word. The length stays, so offsets do. `before` and `after`:
    what stands around `text`, a part of a longer one.

        mark_breaks("Eggs\\nMilk")  # "Eggs" BREAK "Milk": the scan says a full stop there
    """
    if not LINE_END.search(text) and text[:1] != ">":
        return text
    # A carriage return becomes a space, so that the length stays.
    text = text.translate(LINE_ENDS).replace("\r\n", " \n")
    # Only the block around the text counts, up to the nearest blank lines.
    before = BLANK.split(before.translate(LINE_ENDS))[-1]
    after = BLANK.split(after.translate(LINE_ENDS))[0]
    # the marks of quoted mail are no words
    is_inside = before[-1:] not in ("", "\n")
    text = QUOTE.sub(
        lambda match: (
            match[0] if is_inside and match.start() == 0 else match[0].replace(">", QUOTED)
        ),
        text,
    )
    lines = (QUOTE.sub("", before) + text + QUOTE.sub("", after)).split("\n")
    longest = max([len(line.strip()) for line in lines])
    few = len(lines) > 2 and all(len(line.split()) <= FEW for line in lines)
    verse = len(lines) >= VERSE and not any(LOWER.match(line) for line in lines)
    pieces = text.split("\n")
    # The line of the block in which the text begins
    place = before.count("\n")
    shown = pieces[0]
    for piece in pieces[1:]:
        line, following = lines[place], lines[place + 1]
        place += 1
        if is_break(line.strip(), following.strip(), longest, few, verse):
            shown += BREAK + piece
        elif (
            longest <= SHORT
            or CUT_WORD.search(line)
            or (ENDED.search(line) and ITEM.match(following))
        ):
            shown += "\n" + piece
        else:
            shown += " " + piece.replace("\t", " ")
    return shown
