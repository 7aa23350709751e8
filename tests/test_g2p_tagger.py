"""The tagger: its file, features that see what they say, its training on a small corpus, and damage that is told in one line."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_ane.core.errors import InputError
from kokoro_ane.g2p.heteronyms import SENSES, sense
from kokoro_ane.g2p.part_of_speech import PATH, TAGS, Classes, Tagger, guess, keys, names, nth, of_readings, possible, split_words
from training.tagger import GIVEN, RULES, Items, Recipe, main, read_block, train
from training.tagger_sources import Silver, TagModel, emissions, expand, forms, of_synset, read_bytes, shows


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger.load()


def test_the_bundled_file_is_small_and_gives_probabilities(tagger: Tagger) -> None:
    assert PATH.stat().st_size < 400_000
    shares = tagger.probabilities(split_words("They record a song ."), 1)
    assert math.isclose(sum(shares.values()), 1.0)
    assert max(shares, key=lambda tag: shares[tag]) == "vbp"
    assert tagger.tag(split_words("The record is old ."), 1) == "nn"
    assert tagger.tag(split_words("The record is old ."), 1, ("vb", "jj")) in ("vb", "jj")


def test_saved_and_read_again(tagger: Tagger, tmp_path: Path) -> None:
    tagger.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == PATH.read_bytes()


@pytest.mark.parametrize("damage", ["missing", "folder", "empty", "cut", "text", "format", "shape"])
def test_a_damaged_file_is_one_clear_line(damage: str, tagger: Tagger, tmp_path: Path) -> None:
    path, content = tmp_path / "tagger.npz", PATH.read_bytes()
    if damage == "folder":
        path.mkdir()
    elif damage in ("format", "shape"):
        arrays = tagger.to_arrays()
        arrays["head"] = (
            np.frombuffer(arrays["head"].tobytes().replace(b'"format":1', b'"format":9'), np.uint8)
            if damage == "format"
            else arrays["head"]
        )
        arrays["weights"] = arrays["weights"][:-1] if damage == "shape" else arrays["weights"]
        np.savez_compressed(path, **arrays)
    elif damage != "missing":
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "text": b"no archive"}[damage])
    with pytest.raises(InputError, match=r"python -m training\.tagger"):
        Tagger.load(path)


@given(st.lists(st.text(max_size=6), min_size=1, max_size=12), st.data())
@settings(deadline=None, max_examples=100)
def test_any_words_have_features_and_tags(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words) - 1))
    assert len(keys(words, at, guess)) == len(names(words, at, guess)) <= 40
    assert set(possible(words[at])) <= set(TAGS)


def test_the_word_itself_is_seen_only_when_asked() -> None:
    one, other = (split_words("the old record was broken"), split_words("the old estimate was broken"))
    assert [name for name in names(one, 2, guess) if name[0] not in "BC"] == [
        name for name in names(other, 2, guess) if name[0] not in "BC"
    ]
    assert set(names(one, 2, guess, known=True)) - set(names(one, 2, guess)) == {
        name for name in names(one, 2, guess, known=True) if name[0] in "DEFGHI"
    }


def test_classes() -> None:
    classes = Classes({"record": "nv"})
    assert [classes(word) for word in ("record", "Record", "quickly", "walked", "they", "my", "7", ",", "Zork", "don't", "")] == [
        "nv", "nv", "r", "ed", "P", "S", "0", ",", "n", "M", "",
    ]  # fmt: skip
    assert of_readings({"nn": -5.0, "vb": -5.0, "jj": -12.0}, {"nn": -2.0, "vb": -3.0, "jj": -2.0}) == "nv"


def test_festivals_formats() -> None:
    assert emissions('MNCL\n("bow" ((nn -9.1) (vb -10.2) ) () )\n("!" ((punc -7.515) ) () )') == {
        "bow": {"nn": -9.1, "vb": -10.2},
        "!": {"punc": -7.515},
    }
    assert expand(np.array([3.0, 0.5, -6.0, 2.0]), 2).tolist() == [[[3.0, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 2.0]]]


def test_wordnets_format() -> None:
    line = '00060063 29 v 02 abort 1 stop_off 0 001 @ 00358431 v 0000 01 + 01 00 | cease, die; "an aborting fetus"; "no such word"  '
    assert [(example.words, example.target) for example in of_synset(line, "v")] == [
        (("cease", ",", "die"), None),
        (("an", "aborting", "fetus"), 1),
    ]
    assert shows("making", {"make"}, "v")
    assert shows("running", {"run"}, "v")
    assert not shows("making", {"make"}, "n")


def test_sources_that_are_missing_or_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="festlex-poslex"):
        read_bytes(tmp_path, "data.adj")
    (tmp_path / "data.adj").write_text("x")
    with pytest.raises(InputError, match="SHA-256"):
        read_bytes(tmp_path, "data.adj")


def silver() -> Silver:
    """Two tags that follow one another, and a word that may be either."""
    tags = ("punc", "nn", "vbp")
    trigrams = np.log(
        np.array([[[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]]] * 3)
    )  # [3, 3, 3]: noun after a mark or verb, verb after a noun
    emit = {"dogs": {"nn": -1.0}, "they": {"nn": -1.0}, "my": {"vbp": -1.0}, "fish": {"nn": -1.0, "vbp": -1.0}, ".": {"punc": -1.0}}
    return Silver(TagModel(tags, emit, trigrams, np.log(np.full(3, 1 / 3))), {})


def test_viterbi_and_its_constraint() -> None:
    assert silver().tags(("fish", "fish", "fish"), {}) == ["nn", "vbp", "nn"]
    assert silver().tags(("dogs", "fish"), {1: ("nn",)}) == ["nn", "nn"]
    assert silver().tags(("they", "fish"), {})[1] == "vbp", "no noun after they"
    assert silver().tags(("my", "fish"), {})[1] == "nn", "no verb after my"
    assert "make" in [form for form, _ in forms("making")]


def toy_items() -> Items:
    """`the x` is a noun, `to x` a verb, 60 times each."""
    sentences = [(("the", "x"), "nn"), (("to", "x"), "vb")] * 60
    found = [keys(words, 1, guess) for words, _ in sentences]
    return Items(
        features=np.array([key for item in found for key in item], np.uint32),
        lengths=np.array([len(item) for item in found]),
        labels=np.array([TAGS.index(tag) for _, tag in sentences]),
        allowed=np.array([[tag in ("nn", "vb") for tag in TAGS]] * len(sentences)),
        origins=np.zeros(len(sentences), int),
        held_out=np.arange(len(sentences)) % 20 < 2,
        classes=Classes({}),
        heteronyms={},
    )


def test_training_learns_and_the_seed_decides(tmp_path: Path) -> None:
    recipe = Recipe(features=50, batch=16, epochs=(2, 4))
    first, figures = train(toy_items(), recipe)
    assert figures["known"] == 1.0
    assert (first.tag(("the", "y"), 1, ("nn", "vb")), first.tag(("to", "y"), 1, ("nn", "vb"))) == ("nn", "vb")
    again, _ = train(toy_items(), recipe)
    first.save(tmp_path / "first.npz")
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_the_grammar_is_closed() -> None:
    rules, given = read_block(RULES), read_block(GIVEN)
    for part in (part for choices in rules.values() for choice in choices for part in choice.split()):
        assert part in rules or part in given or part in TAGS or part.islower(), part


def test_bad_arguments_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--features", "0"]) == 2
    assert "--features must be 1 or more" in capsys.readouterr().err


def test_senses_by_cue_words() -> None:
    assert sense("bass", split_words("He caught a bass in the lake"), 3) == "DEFAULT"
    assert sense("bass", split_words("He sings bass"), 2) == "ADJ"
    assert sense("lead", split_words("a lead pipe"), 1) == "METAL"
    for word, senses in SENSES.items():
        assert sense(word, (word,), 0) == next(iter(senses.cues)), "the first key without a cue"


def test_words() -> None:
    words = split_words("They live, don't they? We live.")
    assert words == ("They", "live", ",", "don't", "they", "?", "We", "live", ".")
    assert nth(words, "live", 1) == 7
    with pytest.raises(ValueError, match="live"):
        nth(words, "live", 2)
