"""Mandarin: words by the cheapest path, syllables, numbers by rows, Latin words, marks, offsets;
the builder of its list.
"""

import re
import sys
import types

import pytest

from kokoro_g2p import G2P
from kokoro_g2p.alphabet import KNOWN
from kokoro_g2p.languages.chinese import cardinal, list_syllables, read_syllable
from kokoro_g2p.languages.lattice import Lattice
from kokoro_g2p.languages.rows import PatternRows
from kokoro_g2p.training import mandarin_words as builder
from reader_tests.mandarin import compare_numbers, compare_polyphones, compare_sentences

G2P_ZH = G2P.load("zh")


def read(text):
    return G2P_ZH.phonemize(text).phonemes


def test_the_cheapest_path_wins_and_of_equal_ones_that_of_longer_words():
    listed = {"一个": "5", "个人": "9", "人": "3", "一": "9"}
    assert Lattice(listed, {}).cut("一个人") == ["一个", "人"]
    assert Lattice({"甲": "#", "乙": "#", "甲乙": "%"}, {}).cut("甲乙") == ["甲乙"]
    assert Lattice(listed, {"个人": "x"}).cut("一个人") == ["一", "个人"]
    assert Lattice(listed, {}).cut("") == []


def test_sentences_polyphones_and_numbers_are_read_as_well_as_before():
    assert compare_sentences(G2P_ZH)["equal"] >= 99.3
    assert compare_polyphones(G2P_ZH)["right"] >= 98.5
    assert compare_numbers(G2P_ZH)["right"] == 100


def test_every_syllable_has_symbols_of_the_vocabulary():
    assert all(set(read_syllable(name)) <= KNOWN for name in list_syllables())
    assert [
        read_syllable(name) for name in ("hang2", "zhi1", "jue2", "er2", "yuan4", "lü4", "-")
    ] == [
        "xa↗ŋ",
        "ꭧɨ→",
        "ʨɥe↗",
        "ɚ↗",
        "ɥɛ↘n",
        "ly↘",
        "",
    ]


NUMBERS = """0 零|10 十|110 一百一十|1001 一千零一|2222 两千二百二十二|10000 一万|20,000 两万
100010 十万零一十|120000000 一亿两千万|100000001 一亿零一|3.50 三点五零
12345678901234567 一二三四五六七八九零一二三四五六七"""


@pytest.mark.parametrize(("number", "said"), [row.split() for row in re.split(r"[|\n]", NUMBERS)])
def test_numbers(number, said):
    assert cardinal(number) == said


def test_words_have_spaces_and_marks_are_kokoros():
    assert read("你好，世界！") == "ni↓xau↓, ʂɨ↘ʨje↘!"
    assert read("「走」，他说……《北京》") == "“ʦou↓”, tʰa→ ʂwo→… “pei↓ʨi→ŋ”"
    assert read("他是列奥纳多·达芬奇。") == read("他是列奥纳多 达芬奇。")


def test_traditional_characters_are_read_as_simplified_words():
    assert read("銀行行長來了") == read("银行行长来了")
    assert read("音樂") == "in→ɥe↘".replace("in→", "i→n")


def test_rows_have_slots_contexts_and_verbalizers():
    lines = "# a comment\nslot\tn\t\\d+\na\tx\t{n}b\t{all}!\nb\t\t(?P<a>{n})\t{a:twice}"
    says = {"number": str, "twice": lambda text: 2 * text}
    rows = PatternRows.from_text(lines, says, r"\d")
    assert rows.read("x1b", 1) == (3, "1b!")
    assert rows.read("y1b", 1) == (2, "11")
    assert rows.read("y1b", 0) is None
    with pytest.raises(KeyError):
        PatternRows.from_text("a\t\t(?P<a>x)\t{a:unknown}", says, "x")


def test_the_list_holds_common_words_and_those_that_their_parts_would_not_read(
    monkeypatch, tmp_path
):
    readings = {
        "银行": ["yin2", "hang2"],
        "行": ["xing2"],
        "银": ["yin2"],
        "大行": ["da4", "xing2"],
    }

    def lazy_pinyin(word, **options):
        return readings.get(word) or ["da4" if one == "大" else one for one in word]

    module = types.SimpleNamespace(lazy_pinyin=lazy_pinyin, Style=types.SimpleNamespace(TONE3=8))
    monkeypatch.setitem(sys.modules, "pypinyin", module)
    lines = "银 9000 n\n行 9000 v\n大 9000 a\n银行 900 n\n大行 800 n\n大大 700 n\nAA制 9 n\n"
    (tmp_path / "jieba").write_text(lines, encoding="utf-8")
    (tmp_path / "pypinyin").write_text('{"银行行": [["yin2"]], "大大大": []}', encoding="utf-8")
    (tmp_path / "opencc-python-reimplemented").write_text("銀\t银 艮\n㑮\t𫝈\n", encoding="utf-8")
    monkeypatch.setattr(builder, "find_data_file", lambda package, name: tmp_path / package)
    built = builder.build(1)
    words = built["words"]
    assert {word for word in words if len(word) > 1} >= {"银行"}
    assert "大大" not in words
    names = [built["names"][ord(one) - builder.FIRST_SYLLABLE] for one in words["银行"][1:]]
    assert names == ["yin2", "hang2"]
    assert builder.read_simplified() == {"銀": "银"}
    assert builder.main(["--out", str(tmp_path), "--commonest", "1"]) == 0
