"""Japanese: words by the cheapest path with kinds, kana to symbols, numbers with counters by rows,
furigana, marks, Latin words, offsets; the builder of its list.
"""

import gzip
import re
import struct
import sys
import types

import numpy as np
import pytest

from kokoro_g2p import G2P
from kokoro_g2p.alphabet import KNOWN
from kokoro_g2p.languages.japanese import FORM, FREE, KANA, read_counted, read_kana
from kokoro_g2p.languages.lattice import FIRST_KIND, Lattice
from kokoro_g2p.training import japanese_words as builder
from reader_tests.japanese import (
    compare_kanji,
    compare_numbers,
    compare_sentences,
    kana_of,
    rows_of,
)

G2P_JA = G2P.load("ja")


def read(text):
    return G2P_JA.phonemize(text).phonemes


def said(text):
    return kana_of(G2P_JA, text)


def entry(*readings):
    return "".join(
        chr(ord(FREE) + cost) + chr(FIRST_KIND + kind) + kana for cost, kind, kana in readings
    )


def test_the_cost_of_neighbours_decides_between_readings():
    listed = {"上": entry((1, 1, "ウエ"), (2, 2, "ジョー")), "地": entry((1, 1, "チ"))}
    # kind 1 costs 5 behind kind 1, and kind 2 nothing
    joints = [FREE * 3, f"{FREE}{chr(ord(FREE) + 5)}{FREE}", FREE * 3]
    lattice = Lattice(listed, {}, 9, FORM, FREE, joints, 1)
    assert lattice.find_path("上") == [("上", 1, "ウエ")]
    assert lattice.find_path("地上") == [("地", 1, "チ"), ("上", 2, "ジョー")]
    assert lattice.find_path("地上", {0: (2, 0, 1, "チジョー")}) == [("地上", 1, "チジョー")]
    assert lattice.find_path("") == []
    with_user = Lattice(listed, {"地上": "x"}, 9, FORM, FREE, joints, 1)
    assert with_user.cut("地上") == ["地上"]


def test_sentences_kanji_and_numbers_are_read_as_well_as_before():
    assert compare_sentences(G2P_JA)["equal"] >= 99.3
    assert compare_kanji(G2P_JA)["right"] >= 99
    assert compare_numbers(G2P_JA)["right"] >= 98
    assert compare_sentences(G2P_JA, "_second")["equal"] >= 99.5
    assert compare_kanji(G2P_JA, "_second")["right"] >= 94.5
    assert compare_numbers(G2P_JA, "_second")["right"] >= 97
    assert compare_sentences(G2P_JA, "_third")["equal"] >= 99.9
    assert compare_kanji(G2P_JA, "_third")["right"] >= 99


def test_every_kana_has_symbols_of_the_vocabulary():
    assert all(set(sound) <= KNOWN for sound in KANA.values())
    assert all(read_kana(word) == symbols for word, symbols in pairs_of(SOUNDS))


COUNTED = """1本 イッポン|3本 サンボン|10分 ジュップン|14日 ジューヨッカ
2人 フタリ|24人 ニジューヨニン
19時 ジュークジ|800円 ハッピャクエン|1000万円 イッセンマンエン|13,600個 イチマンサンゼンロッピャッコ
1.5億円 イッテンゴオクエン|二〇二四年 ニセンニジューヨネン|千三百匹 センサンビャッピキ
8兆ドル ハッチョードル|$0.5 レーテンゴドル|0番 ゼロバン"""
TYPED = """ｶﾞｷﾞｸﾞとﾊﾟﾝ ガギグとパン|か\u3099ら がら|１０％のＡＩ 10%のAI|いすゞ いすず|こゝろ こころ
すご〜い すごーい|《北京》 (北京)|｢はい｣ 「はい」"""
SOUNDS = """シンブン ɕimbɯɴ|サンカイ saŋkai|ホンニャ hoɲɲa|パン paɴ|ラーメン ɾaːmeɴ|マッチャ maʔʨa
フォーク ɸoːkɯ|グヮ ɡβa"""


def pairs_of(table):
    return [pair.split(" ") for pair in re.split(r"[|\n]", table)]


@pytest.mark.parametrize(("written", "kana"), pairs_of(COUNTED))
def test_what_is_counted(written, kana):
    assert read_counted(written) == kana


@pytest.mark.parametrize(("written", "kana"), rows_of("readings"))
def test_readings_that_hang_on_their_neighbours(written, kana):
    assert said(written) == kana


def test_numerals_give_way_to_listed_words():
    assert said("三日月と二日前と一口と八百屋") == "ミカズキトフツカマエトヒトクチトヤオヤ"
    assert said("三分の一") == "サンブンノイチ"


def test_words_have_spaces_and_endings_have_none():
    assert read("今日は本を読みました。") == "kʲoː βa hoɴ o jomʲimaɕita."
    assert read("「行った！」と思う") == "“iʔta!” to omoɯ"


@pytest.mark.parametrize(("written", "alike"), pairs_of(TYPED))
def test_text_as_it_is_typed(written, alike):
    assert read(written) == read(alike)


def test_furigana_is_the_reading_of_its_kanji():
    assert said("東京（とうきょう）へ") == "トーキョーエ"
    assert said("本気《マジ》だ") == "マジダ"
    assert said("毎年東京（とうきょう）") == said("毎年東京")
    result = G2P_JA.phonemize("本気《マジ》だ")
    assert [word.text for word in result.words] == ["本気《マジ》", "だ"]


def test_the_list_holds_common_words_and_those_that_their_parts_would_not_read(
    monkeypatch, tmp_path
):
    noun = f"{builder.NOUN},*,*,*,*,*"
    words = [
        (2, 900, "接尾辞,名詞的,助数詞,*,*,*,*,*,円,エン"),
        (1, 900, f"{noun},本,ホン"),
        (1, 900, f"{noun},山,ヤマ"),
        (2, 9000, "接尾辞,名詞的,助数詞,*,*,*,*,*,山,サン"),
        (1, 900, f"{noun},山本,ヤマモト"),
        (1, 900, f"{noun},本山,ホンヤマ"),
        (3, 100, "助動詞,*,*,*,*,*,*,*,ます,マス"),
        (1, 900, f"{noun},AA,エーエー"),
    ]
    # a dictionary as MeCab compiles it, without its index: tokens, then texts
    tokens = texts = b""
    for kind, cost, features in words:
        tokens += struct.pack("<HHHhII", kind, kind, 0, cost, len(texts), 0)
        texts += features.encode() + b"\0"
    head = struct.pack("<10I", *6 * [0], 0, len(tokens), len(texts), 0) + bytes(32)
    (tmp_path / "sys.dic").write_bytes(head + tokens + texts)
    (tmp_path / "matrix.bin").write_bytes(struct.pack("<HH", 4, 4) + bytes(32))
    monkeypatch.setattr(
        builder, "find_data_file", lambda package, name: tmp_path / name.split("/")[-1]
    )
    wordfreq = types.SimpleNamespace(get_frequency_dict=lambda *_: {"本": 0.1})
    monkeypatch.setitem(sys.modules, "wordfreq", wordfreq)
    monkeypatch.setattr(builder, "find_classes", lambda costs, weights, parts, count: np.arange(4))
    assert builder.main(["--out", str(tmp_path), "--classes", "4"]) == 0
    listed = dict(line.split("\t") for line in packed_lines(tmp_path / "japanese.txt.gz"))
    assert sorted(listed) == sorted(["円", "山", "本", "山本", "ます"])
    assert listed["山"] == entry((7, 1, "ヤマ"))
    assert packed_lines(tmp_path / "japanese_kinds.txt.gz") == ["nunx", *4 * [4 * FREE]]


def packed_lines(path):
    return gzip.decompress(path.read_bytes()).decode().split("\n")
