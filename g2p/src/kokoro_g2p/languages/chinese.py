"""Mandarin: numbers, the words of a run of characters, a syllable for each character, and Kokoro's
symbols for a syllable.

    g2p = G2P.load("zh")
    g2p.phonemize("我有2只猫。").phonemes    # "wo↓ jou↓ lja↓ŋ ꭧɨ→ mau→."

The voices were trained on misaki's `zh` (0.9.4): words of jieba with a space between, readings of
pypinyin word by word, no sandhi beyond what its list of phrases has, a tone's arrow behind the
vowel. training/mandarin_words.py builds the data.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kokoro_g2p.bundled import DATA, read_data_text, read_json
from kokoro_g2p.characters import clean, compile_special, mark_breaks
from kokoro_g2p.grammar.tokens import build_normalized
from kokoro_g2p.languages.lattice import Lattice
from kokoro_g2p.languages.rows import Numerals, PatternRows, ReadingRow, choose_reading
from kokoro_g2p.languages.scan import Scan, start_scan
from kokoro_g2p.languages.script_normalizer import ScriptNormalizer, compile_pieces
from kokoro_g2p.result import Normalized
from kokoro_g2p.word_lists import parse_pairs

TABLES: Mapping[str, Any] = read_json("chinese.json")
# the names of the syllables, the syllable of each character from FIRST on, and traditional
# characters with the simplified ones that word lists have
SYLLABLES, READINGS, TRADITIONAL, SIMPLIFIED = read_data_text(
    DATA / "chinese_characters.txt.gz"
).split("\n")
# The block of characters that READINGS covers; a syllable is stored as the character whose code is
# FIRST_SYLLABLE and its index.
FIRST, LAST, FIRST_SYLLABLE = 0x4E00, 0x9FFF, 0x100
UNREAD = "-"  # the syllable of a character that has no reading

ZERO = "〇"
HAN = f"\u4e00-\u9fff{ZERO}"
KEPT = compile_special(f"{HAN}‰")
MARKS = str.maketrans(
    {old: new for new, group in parse_pairs(TABLES["marks"]).items() for old in group}
)
INITIALS, FINALS, WHOLE, GLIDES = (
    parse_pairs(TABLES[name]) for name in ("initials", "finals", "whole", "glides")
)
TONES, SIGNS, UNITS, MONEY = (TABLES[name] for name in ("tones", "signs", "units", "money"))
# In telephone numbers 1 is 幺 (yāo), which nobody mistakes for 七 (qī).
DIGITS, PHONE_DIGITS = "零一二三四五六七八九", "零幺二三四五六七八九"
SCALES = ("", "万", "亿", "万亿")
LONGEST_NUMBER = 16  # digits


@cache
def list_syllables() -> list[str]:
    """The syllables in the order of the characters that stand for them."""
    return SYLLABLES.split()


@cache
def load_simplified() -> dict[int, str]:
    """Traditional characters with the simplified ones by which words are looked up."""
    return {ord(old): new for old, new in zip(TRADITIONAL, SIMPLIFIED, strict=True)}


def cardinal(number: str) -> str:
    """A number as it is written, commas and decimals in it, in characters."""
    whole, _, fraction = number.replace(",", "").partition(".")
    said = whole_number(whole)
    return f"{said}点{NUMERALS.read_digits(fraction)}" if fraction else said


def whole_number(digits: str) -> str:
    """Digits in characters: groups of four by 万 and 亿, 零 for zeros between."""
    plain = digits.lstrip("0")
    if len(plain) > LONGEST_NUMBER:
        return NUMERALS.read_digits(digits)
    if not plain:
        return "零"
    said, is_gap = "", False
    # Groups of four digits, the highest first; `place` is a power of 10,000.
    for place in range((len(plain) - 1) // 4, -1, -1):
        end = len(plain) - 4 * place
        group = plain[max(0, end - 4) : end].lstrip("0")
        # 10005 is 一万零五: a group behind another one has a 零 for its missing thousands.
        is_short = len(group) < 4 and said != ""
        if group:
            # A first 2 is 两 before 千, 万 and 亿 (两千, 两万), but 二 in 二百 and 二十.
            two = (
                "两" if group[0] == "2" and (len(group) == 4 or (len(group) == 1 and place)) else ""
            )
            said += ("零" if is_short or is_gap else "") + thousands(group, two) + SCALES[place]
        # A whole group of zeros is 零 before the next digits.
        is_gap = not group and said != ""
    # ten at the beginning is said without its one
    return said[1:] if said.startswith("一十") else said


def thousands(group: str, two: str) -> str:
    """One to four digits, of which the first is no zero. `two`: what a first 2 is said as."""
    said, zeros = "", False
    for place, digit in enumerate(group):
        # Zeros between digits are said once, those at the end not at all.
        if digit == "0":
            zeros = True
            continue
        name = two if two and place == 0 and said == "" else DIGITS[int(digit)]
        said += ("零" if zeros else "") + name + ("", "十", "百", "千")[len(group) - 1 - place]
        zeros = False
    return said


def counted(number: str) -> str:
    """A number before what it counts: 2 is 两."""
    said = cardinal(number)
    return "两" if said == "二" else said


def price(number: str) -> str:
    """A number before a currency, without zeros at the end of its decimals."""
    # 3.50 is 3.5 before a currency.
    return counted(number.rstrip("0").rstrip(".") if "." in number else number)


def minute(number: str) -> str:
    """Minutes behind 点: nothing at the full hour, 零 before one digit."""
    value = int(number)
    return f"{'零' if 0 < value < 10 else ''}{whole_number(number)}分" if value else ""


def second(number: str) -> str:
    """Seconds behind minutes."""
    return f"{'零' if 0 < int(number) < 10 else ''}{whole_number(number)}秒"


NUMERALS = Numerals(cardinal, DIGITS, "点", SIGNS)
VERBALIZERS = NUMERALS.list_verbalizers() | {
    "phone": Numerals(cardinal, PHONE_DIGITS, "", SIGNS).read_digits,
    "liang": counted,
    "price": price,
    "minute": minute,
    "second": second,
    "unit": lambda unit: UNITS[unit.strip()],
    "money": lambda sign: MONEY[sign.strip()],
    "sign": lambda sign: "负" if sign in "-−" else "正",
    "symbol": lambda sign: SIGNS[sign],
}
PIECES = compile_pieces(rf"(?P<han>[{HAN}])")


ROW_BEGINS = r"[-−+\d$¥€£₩₹₽'(=≈≠%×÷RCUEHN]"


class ChineseNormalizer(ScriptNormalizer):
    """The function normalize(text) -> Normalized: words of characters, runs of Latin letters, and
    marks.
    """

    def __init__(self, lattice: Lattice, rows: PatternRows) -> None:
        self.lattice, self.rows = lattice, rows

    def __call__(self, text: str, *, dialect: str = "") -> Normalized:
        """Spoken tokens of `text` in order, and what was left out. Never raises on any text."""
        # Marks of full width become those that the alphabet has.
        cleaned = clean(mark_breaks(text).translate(MARKS), KEPT)
        scan = start_scan(cleaned.text)
        # the characters of a run, each with its place: a number's all have the number's
        run: list[tuple[str, int, int]] = []
        place = 0
        while place < len(scan.text):
            row = self.rows.read(scan.text, place)
            if row is not None:
                # A number's characters are cut into words together with those around them.
                run.extend([(character, place, row[0]) for character in row[1]])
                place = row[0]
                continue
            match = PIECES.match(scan.text, place)
            assert match is not None  # `other` takes any character, `space` a line break
            if match["han"] is not None:
                run.append((match["han"], place, match.end()))
                place = match.end()
                continue
            # Signs that have a name are characters of the run too.
            sign = SIGNS.get(match[0], "") if match["other"] is not None else ""
            if sign:
                run.extend([(character, place, match.end()) for character in sign])
                place = match.end()
                continue
            self._cut_run(scan, run)
            run = []
            place = self.read_common(scan, match)
        self._cut_run(scan, run)
        return build_normalized(scan.pieces, cleaned)

    def _cut_run(self, scan: Scan, run: Sequence[tuple[str, int, int]]) -> None:
        """Cut a run into words."""
        said = "".join([character for character, _, _ in run])
        place = 0
        # Simplified characters stand one for one, so that places hold in both texts.
        for word in self.lattice.cut(said.translate(load_simplified())):
            end = place + len(word)
            # The text's own characters are kept; from the first one's start to the last one's end.
            scan.say(said[place:end], run[place][1], run[end - 1][2], "")
            place = end


@cache
def read_syllable(syllable: str) -> str:
    """Kokoro's symbols for a syllable of pypinyin: `hang2` is xa↗ŋ. None for UNREAD."""
    if syllable == UNREAD:
        return ""
    name = syllable[:-1]
    tone = TONES[syllable[-1]]
    return read_toneless(name).replace("0", tone)


def read_toneless(name: str) -> str:
    """The symbols of a syllable, 0 in the place of its tone."""
    # Syllables that no initial and final make: er, yo, and interjections such as hng.
    if name in WHOLE:
        return WHOLE[name]
    # Without an initial, pinyin writes a final with y or w: yi is i, wu is u, yu is ü.
    if name in GLIDES:
        return FINALS[GLIDES[name]]
    # Two letters first, since zh, ch and sh begin like z, c and s.
    size = 2 if name[:2] in INITIALS else 1 if name[:1] in INITIALS else 0
    initial, final = name[:size], name[size:]
    # The i of shi and si is no i, but a vowel at the place of the consonant.
    if final == "i" and initial in ("zh", "ch", "sh", "r", "z", "c", "s"):
        return INITIALS[initial] + "ɨ0"
    # pinyin leaves out the dots of ü where no u can stand
    if initial in ("j", "q", "x") and final[:1] == "u":
        final = "ü" + final[1:]
    return (INITIALS[initial] if initial else "") + FINALS[final]


class Readings:
    """Syllables of the words of a run. `polyphones`: rows by character, the first that fits
    counts.
    """

    def __init__(
        self, listed: Mapping[str, str], polyphones: Mapping[str, Sequence[ReadingRow]]
    ) -> None:
        self.listed, self.polyphones = listed, polyphones

    def find_syllables(self, word: str, before: str, after: str) -> list[str]:
        """The syllables of a word between what stands before and after it: words, simplified, with
        spaces between.
        """
        plain = word.translate(load_simplified())
        # Only a character alone hangs on its neighbours; a word has one reading.
        if len(plain) == 1:
            reading = choose_reading(self.polyphones.get(plain, ()), before, after)
            if reading:
                return [reading]
        entry = self.listed.get(plain, "")
        # An entry is its cost, then a character for each syllable if the usual ones are wrong.
        if len(entry) > 1:
            return [list_syllables()[ord(syllable) - FIRST_SYLLABLE] for syllable in entry[1:]]
        # A character alone may have a reading that its simplified form lacks.
        return [self.find_usual(character) for character in (word if len(word) == 1 else plain)]

    @staticmethod
    def find_usual(character: str) -> str:
        """The usual syllable of one character."""
        if character == ZERO:
            return "ling2"
        return list_syllables()[ord(READINGS[ord(character) - FIRST]) - FIRST_SYLLABLE]
