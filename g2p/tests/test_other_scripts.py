"""Mandarin, Hindi, Japanese: what their readers share. Latin words, overrides, lexicons, pauses,
the ends of sentences, offsets.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_g2p import G2P
from kokoro_g2p.alphabet import KNOWN

WRITTEN = {
    "zh": "我2只猫.,%-:/年月日¥$的得了 aZ“”。，！\n<>[]()行長鿆😀+=~万亿点",
    "hi": "कखषजञरमहयअआएउािीुेो्ंँः़0२5%₹$.,:/- aZ।\n<>😀ऑॐ",
    "ja": "私2人は三十分ッーンゞ々゛ﾞ\u3099.,%-:/年月日¥$（）《》を aZ“」。！\n<>[]~〒鿃😀+=万",
}
READERS = {language: G2P.load(language) for language in WRITTEN}


@pytest.mark.parametrize("language", WRITTEN)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_text_raises_and_every_word_has_its_place(language, data):
    text = data.draw(st.text(st.sampled_from(WRITTEN[language])))
    result = READERS[language].phonemize(text)
    assert set(result.phonemes) <= KNOWN
    for word in result.words:
        assert text[word.start : word.end] == word.text


@pytest.mark.parametrize(
    ("language", "text", "alone", "end"),
    [
        ("zh", "我用iPhone和New York地图拍照", "iPhone", " pʰai→ ꭧau↘"),
        ("ja", "「Python」とNew Yorkを学ぶ", "Python", " o manabɯ"),
    ],
)
def test_latin_words_are_read_in_english_at_their_places(language, text, alone, end):
    result = READERS[language].phonemize(text)
    english = G2P.load("us").phonemize("New York").words
    words = {word.text: word for word in result.words}
    assert words["New"].phonemes == english[0].phonemes
    assert [words["York"].start, words["York"].end] == [13, 17]
    assert words[alone].phonemes in READERS[language].phonemize(alone).phonemes
    assert result.phonemes.endswith(end)


@pytest.mark.parametrize(
    ("language", "word", "text", "said"),
    [
        ("zh", "行行", "好 行行😀 é鿆", "ˈɛf bˈi ˈI ɚ↘ li↗ŋ"),
        ("ja", "心", "猫 心は😀 鿃", "ˈɛf bˈi ˈI ɲi ʣeɾo"),
    ],
)
def test_overrides_pauses_lexicons_and_what_is_left_out(language, word, text, said):
    first, second, third = text.split()
    marked = f"[{first}](/nˈeko/)[pause 300ms]{second}[FBI](characters)[20](digits){third}"
    result = G2P.load(language, {word: "kˈOkəɹO"}).phonemize(marked)
    by_source = {word.source: word.phonemes for word in result.words}
    assert by_source["override"] == "nˈeko"
    assert by_source["user"] == "kˈOkəɹO"
    assert [word.pause_s for word in result.words if word.pause_s] == [0.3]
    assert said in result.phonemes
    assert result.dropped == {"emoji": 1, "unpronounceable": 1}


@pytest.mark.parametrize(
    ("language", "sentences", "clause"),
    [
        ("zh", "走！” 他说。 真的？！ 好", "我们一起去北京看看"),
        ("ja", "行け！」 彼は言った。 本当？！ はい", "私たちは一緒に京都へ行って"),
    ],
)
def test_a_sentence_ends_without_white_space_and_long_ones_are_cut_between_words(
    language, sentences, clause
):
    texts, reader = sentences.split(), READERS[language]
    assert [one.text for one in reader.sentences("".join(texts))] == texts
    long = [one.phonemes for one in reader.sentences(clause * 60)]
    assert len(long) > 3
    assert max(map(len, long)) <= 510
    assert all(one[-1] != " " and "  " not in one for one in long)
