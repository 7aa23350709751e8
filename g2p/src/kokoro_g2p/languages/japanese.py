"""Japanese: kana to Kokoro's symbols, and numbers with what they count in kana as they are said.

    read_kana("トーキョー")     # "toːkʲoː"
    read_counted("3本")          # "サンボン"

The voices were trained on misaki's `ja` (0.9.4): UniDic's pronunciations, a space between words, no
pitch. training/japanese_words.py builds the list of words.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kokoro_g2p.bundled import read_json
from kokoro_g2p.languages.lattice import Lattice
from kokoro_g2p.languages.rows import Numerals
from kokoro_g2p.word_lists import parse_pairs

TABLES: Mapping[str, Any] = read_json("japanese.json")
KANA, NASALS, VOICED, HALF = (
    parse_pairs(TABLES[name]) for name in ("kana", "nasals", "voiced", "half")
)
SIGNS, UNITS, MONEY = (TABLES[name] for name in ("signs", "units", "money"))
# Numbers with a counter that follow no rule: 20歳 is ハタチ, 14日 ジューヨッカ.
EXACT: Mapping[str, Mapping[str, str]] = {
    name: parse_pairs(forms) for name, forms in TABLES["exact"].items()
}
# how a number ends before a counter of a kind: its ending, the new one, what the counter begins by
ENDINGS: Mapping[str, list[list[str]]] = {
    kind: [form.split(":") for form in forms.split()] for kind, forms in TABLES["endings"].items()
}
# a counter with its kana and its kind
COUNTERS: Mapping[str, list[str]] = {
    name: [kana, kind]
    for kind, counters in TABLES["counters"].items()
    for name, kana in parse_pairs(counters).items()
}

# the word list
LONGEST, UNLISTED, FREE = 12, 30, "\u0150"
STAND_IN = "0"  # for a number and for a word of another script in a run
USUAL = "u"  # the letter of the kind of words that are not listed
# A reading: its cost, its kind, its kana, each in code points of its own
FORM = re.compile("([\u0100-\u024f])([\u1400-\u167f])([ァ-ー]*)")
# Katakana that no list has is one foreign word; other characters stand alone.
UNLISTED_RUN = re.compile("[ァ-ヺー]+|.", re.DOTALL)

DIGITS = "ゼロ", "イチ", "ニ", "サン", "ヨン", "ゴ", "ロク", "ナナ", "ハチ", "キュー"
FIGURES = "〇一二三四五六七八九"
TENS, SCALES = "十百千", "万億兆"
POWERS = [10**power for power in range(17)]
MOST = POWERS[16]  # from here on a number is read digit by digit
A_NUMBER = re.compile(rf"[\d{FIGURES}{TENS}{SCALES}][\d,.{FIGURES}{TENS}{SCALES}]*")


def build_lattice(
    listed: Mapping[str, str], user: Mapping[str, str], letters: str, joints: Sequence[str]
) -> Lattice:
    """The lattice of Japanese words. `letters`: what the reader knows of each kind."""
    usual = letters.index(USUAL)
    return Lattice(listed, user, UNLISTED, FORM, FREE, joints, usual, UNLISTED_RUN, LONGEST)


def to_katakana(text: str) -> str:
    """Hiragana as katakana; other characters as they are."""
    return "".join([chr(ord(one) + 96) if "ぁ" <= one <= "ゖ" else one for one in text])


def read_kana(kana: str) -> str:
    """Kokoro's symbols for katakana. ン is said at the place of what follows."""
    said, place = "", 0
    while place < len(kana):
        one, both = kana[place], kana[place : place + 2]
        # ン is m in シンブン, n in ホンヤ, and ɴ before a pause.
        if one == "ン":
            said += NASALS.get(KANA.get(both[1:], "")[:1], "ɴ")
        # Two kana first: キョ is one sound, and not キ with ョ.
        elif both in KANA:
            said += KANA[both]
            place += len(both) - 1
        else:
            said += KANA.get(one, "")
        place += 1
    return said


def parse_value(number: str) -> int:
    """The value of digits and figures: 2万3千 and 二〇二四 too; at most MOST."""
    # The figures just read, the group below 10,000, and the whole groups before
    total = section = digits = 0
    for one in number:
        if one in TENS:
            # A bare 十 counts one; bounds keep endless digits from growing a huge integer.
            section += min(digits or 1, POWERS[6]) * POWERS[TENS.index(one) + 1]
            digits = 0
        elif one in SCALES:
            # 万, 億 and 兆 are 10^4, 10^8 and 10^12
            scale = POWERS[4 * SCALES.index(one) + 4]
            total = min(total + min((section + digits) or 1, POWERS[6]) * scale, MOST)
            section = digits = 0
        elif one in FIGURES or one.isdecimal():
            digit = FIGURES.index(one) if one in FIGURES else int(one)
            digits = min(10 * digits + digit, MOST)
    return min(total + section + digits, MOST)


def join_counter(head: str, counter: str) -> str:
    """The kana of a number and of a counter, both as they are said together."""
    kana, kind = COUNTERS.get(counter, [counter, ""])
    for ending, form, sound in ENDINGS.get(kind, []):
        # Both meet: イチ and ホン are イッポン, サン and ホン are サンボン.
        if head.endswith(ending):
            begins = VOICED if sound == "v" else HALF if sound == "p" else {}
            return head[: -len(ending)] + form + begins.get(kana[0], kana[0]) + kana[1:]
    return head + kana


def whole_number(value: int) -> str:
    """A whole number in kana, by groups of four digits."""
    if value == 0:
        return DIGITS[0]
    said = ""
    # Groups of four digits, the highest first; `place` 0 has no name behind it.
    for place in range(len(SCALES), -1, -1):
        group = value // POWERS[4 * place] % POWERS[4]
        part = ""
        for power in range(3, -1, -1):
            digit = group // POWERS[power] % 10
            if digit and power:
                # ten, a hundred and a thousand are said without their one
                # Before 万 and above a thousand keeps its one: 1000万 is イッセンマン.
                one = "イッ" if (power, digit) == (3, 1) and place else ""
                head = one if digit == 1 else DIGITS[digit]
                part += join_counter(head, TENS[power - 1])
            elif digit:
                part += DIGITS[digit]
        if part:
            said += join_counter(part, SCALES[place - 1]) if place else part
    return said


def cardinal(number: str) -> str:
    """A number as it is written, with commas, decimals and scales, in kana."""
    whole, point, fraction = number.replace(",", "").partition(".")
    if not point:
        value = parse_value(whole)
        # A number beyond the scales is read digit by digit.
        return NUMERALS.read_digits(whole) if value >= MOST else whole_number(value)
    value = parse_value(whole)
    # 点 joins its number like a counter: 1.5 is イッテンゴ, and 0.5 begins レーテン.
    head = join_counter(whole_number(value) if value else "レー", "点")
    # 1.5億
    scales = [COUNTERS[scale][0] for scale in fraction if scale in COUNTERS]
    return head + NUMERALS.read_digits(fraction) + "".join(scales)


def read_counted(text: str) -> str:
    """A number and a counter, a unit or money, in either order."""
    match = A_NUMBER.search(text)
    if match is None:
        return text
    # Whatever is not the number is what it counts, before or behind it: ¥300, 300円.
    name = (text[: match.start()] + text[match.end() :]).strip()
    name = MONEY.get(name, UNITS.get(name, name))
    number = match[0].strip(",.")
    # Forms of their own belong to whole numbers only.
    if "." not in number:
        exact = EXACT.get(name, {}).get(str(parse_value(number)), "")
        if exact:
            return exact
    return join_counter(cardinal(number), name)


NUMERALS = Numerals(cardinal, DIGITS, "テン", SIGNS)
VERBALIZERS: Mapping[str, Callable[[str], str]] = NUMERALS.list_verbalizers() | {
    # The hyphen of a telephone number is said ノ.
    "parts": lambda number: "ノ".join([NUMERALS.read_digits(part) for part in number.split("-")]),
    "counted": read_counted,
    "year": lambda number: read_counted(f"{number}年"),
    "month": lambda number: read_counted(f"{number}月"),
    # The first of a month is ツイタチ; イチニチ is one day's time.
    "day": lambda number: "ツイタチ" if parse_value(number) == 1 else read_counted(f"{number}日"),
    "hour": lambda number: "レージ" if parse_value(number) == 0 else read_counted(f"{number}時"),
    "minute": lambda number: read_counted(f"{number}分") if parse_value(number) else "",
    "second": lambda number: read_counted(f"{number}秒"),
    "sign": lambda sign: "マイナス" if sign in "-−" else "プラス",
}
ROW_BEGINS = rf"[-−+\d$¥€£₩(〒~–#{FIGURES}{TENS}{SCALES}]"
