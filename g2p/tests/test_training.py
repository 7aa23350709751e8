"""Training of g2p: a split without leaks, loops that learn and resume, NumPy that answers as
PyTorch does; the tagger and its file.
"""

import math
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kokoro_g2p import word_lists
from kokoro_g2p.alphabet import (
    ALPHABETS,
    PADDING,
    SOUNDS,
    TAGS,
    encode,
    fold_word,
)
from kokoro_g2p.commands import EXIT_BAD_INPUT
from kokoro_g2p.errors import InputError
from kokoro_g2p.network import LetterToSound
from kokoro_g2p.neural import WEIGHTS_OF, Config, NeuralG2P, load_arrays, make_network
from kokoro_g2p.part_of_speech import (
    PATH,
    Classes,
    Tagger,
    find_nth,
    hash_features,
    infer_class,
    list_tags,
    name_features,
    split_words,
)
from kokoro_g2p.part_of_speech import TAGS as PARTS
from kokoro_g2p.training.error_rates import compute_error_rates
from kokoro_g2p.training.g2p_network import main
from kokoro_g2p.training.g2p_words import Relatives, Split, read_pronunciations, strip_suffixes
from kokoro_g2p.training.loop import (
    Example,
    Trainer,
    TrainingPlan,
    can_align,
    collect_batch,
    compute_ctc,
    draw_batches,
    make_examples,
)
from kokoro_g2p.training.misaki_lists import pack, to_json
from kokoro_g2p.training.tagger import Items, TaggerRecipe, classify_readings, train
from kokoro_g2p.training.tagger import main as train_tagger
from kokoro_g2p.training.tagger_sources import Silver, TagModel, list_lemmas
from kokoro_g2p.word_lists import MISAKI_SHA256, parse_pairs, read

TINY = Config(width=32, heads=2, inner=48, blocks=2, answers=(1,), dropout=0.0)
WORDS = {
    "us_gold": {"kokoro": "kəkˈɔɹO", "banana": "bənˈænə", "butter": "bˈʌTəɹ", "axe": "ˈæks"},
    "us_silver": {"tomatoes": "təmˈATOz"},
}
PLAN = TrainingPlan(
    steps=90, seed=3, rate=1e-2, matrix_rate=1e-2, warmup_steps=5, symbols=32, average=0.8
)


def trained(plan, state):
    trainer = Trainer(plan, make_examples(WORDS), TINY)
    assert trainer.run(state, report=lambda entry: None)
    return trainer


class TestNetwork:
    def test_it_learns_what_it_reads(self, tmp_path):
        trainer, gold = trained(PLAN, tmp_path / "state.pt"), WORDS["us_gold"]
        assert [
            guess.phonemes for guess in NeuralG2P(trainer.average.run).predict(list(gold))
        ] == list(gold.values())
        assert trainer.log[-1]["step"] == PLAN.steps

    def test_a_resumed_run_is_an_unbroken_one(self, tmp_path):
        plan = TrainingPlan(steps=12, seed=1, symbols=32)
        whole, first = (
            trained(plan, tmp_path / "whole.pt"),
            Trainer(plan, make_examples(WORDS), TINY),
        )
        assert first.run(tmp_path / "part.pt", report=lambda entry: None, until=5)
        second = Trainer(plan, make_examples(WORDS), TINY)
        second.resume(tmp_path / "part.pt")
        assert second.step == 5
        second.run(tmp_path / "part.pt", report=lambda entry: None)
        for one, other in zip(whole.average.parameters(), second.average.parameters(), strict=True):
            assert torch.equal(one, other)

    def test_another_seed_is_another_run(self, tmp_path):
        first = Trainer(TrainingPlan(steps=3, seed=1), make_examples(WORDS), TINY)
        first.save(tmp_path / "state.pt")
        with pytest.raises(InputError, match="--seed 1, not 2"):
            Trainer(TrainingPlan(steps=3, seed=2), make_examples(WORDS), TINY).resume(
                tmp_path / "state.pt"
            )
        pytest.raises(InputError, first.resume, tmp_path / "nowhere.pt").match("no such file")

    def test_examples_are_counted_and_too_short_words_left_out(self):
        examples = make_examples(WORDS)
        assert len(examples) == 2 * len(WORDS["us_gold"]) + len(WORDS["us_silver"])
        rows = [
            tuple(row[row != PADDING].tolist())
            for batch in draw_batches(examples, 0, 0, 20)
            for row in batch.symbols
        ]
        assert sorted(rows) == sorted(example.symbols for example in examples)
        orders = [
            [batch.symbols.tolist() for batch in draw_batches(examples, seed, epoch, 20)]
            for seed, epoch in ((0, 0), (0, 0), (0, 1))
        ]
        assert orders[0] == orders[1] != orders[2]
        assert can_align(Example((1, 6), (3, 4, 3, 4)))
        assert not can_align(
            Example((1, 6), (3, 4, 4, 4))
        )  # a blank is needed between two equal ones
        assert not can_align(Example((1, 6), (3, 4, 3, 4, 3)))
        assert make_examples({"us_gold": {"w": "dˈʌbᵊljudˈʌbᵊlju"}, "us_silver": {}}) == []
        pytest.raises(ValueError, make_examples, {"us_gold": {"a": "?"}, "us_silver": {}}).match(
            "outside the model's alphabet"
        )

    def test_the_loss_sees_no_padding_and_error_rates_count_edits(self):
        batch = collect_batch(
            [Example(encode("cat"), (3, 4, 5)), Example(encode("tomato"), (5, 4, 3))]
        )
        logits = torch.randn(2, 7, 2 * len(SOUNDS), generator=torch.Generator().manual_seed(0))
        other = logits.clone()
        other[0, 4:] = 9.0
        assert float(compute_ctc(logits, batch)) == pytest.approx(float(compute_ctc(other, batch)))
        other[0, 1] = 9.0
        assert float(compute_ctc(logits, batch)) != pytest.approx(float(compute_ctc(other, batch)))
        rates = compute_error_rates(["kˈæt", "dɔɡ"], ["kˈæt", "dˈɔɡ"])
        assert (rates.per, rates.wer, rates.words, rates.stressed_wer) == (0, 0, 2, 50)
        assert rates.stressed_per == pytest.approx(100 / 8)
        assert compute_error_rates([""], ["ab"]).per == 100
        pytest.raises(ValueError, compute_error_rates, [], []).match("the same number")

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--steps", "0"], "at least 1"),
            (["--minutes", "0"], "more than 0"),
            (["--until", "999999"], "a step of the plan"),
        ],
    )
    def test_bad_flags_are_one_line(self, flags, message, capsys):
        assert main(flags) == EXIT_BAD_INPUT
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert message in error


ABSENT = (
    "import sys; from kokoro_g2p import phonemize; found = phonemize({!r}, {!r}).words[0];"
    " print(found.source, 'torch' in sys.modules)"
)


@pytest.mark.parametrize("dialect", ALPHABETS)
def test_logits_agree_with_pytorchs_and_padding_changes_nothing(dialect):
    arrays, config = load_arrays(WEIGHTS_OF[dialect])
    run, reference = make_network(arrays, config), LetterToSound.load(WEIGHTS_OF[dialect]).run
    ids = np.random.default_rng(0).integers(1, 30, size=(5, 9)).astype(np.int32)
    ids[2, 6:] = PADDING
    assert np.abs(run(ids) - reference(ids))[ids != PADDING].max() < 1e-3
    assert np.abs(run(ids)[2, :6] - run(ids[2:3, :6])[0]).max() < 1e-4
    with pytest.raises(KeyError):
        make_network(
            {name: array for name, array in arrays.items() if name != "answer.bias"}, config
        )


@pytest.mark.parametrize(("word", "dialect"), [("blorfkin", "us"), ("blorfkin", "gb")])
def test_an_unknown_word_needs_no_pytorch(word, dialect):
    done = subprocess.run(
        [sys.executable, "-c", ABSENT.format(word, dialect)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["neural", "False"]


EVERY, COUNT = 24, 80


@pytest.fixture(scope="module")
# every twelfth stem of both lists with all its words, so that families stay whole
def lists():
    return {
        tag: {
            w: e
            for w, e in read(tag).items()
            if sum(map(ord, strip_suffixes(fold_word(w)))) % EVERY == 0
        }
        for tag in TAGS
    }


@pytest.fixture(scope="module")
def split(lists):
    return Split.from_lists(lists, seed=0, count=COUNT)


def leaks(split):
    relatives = Relatives(split.trained | set(split.word) | set(split.family))
    return [
        (word, other) for word in split.family for other in relatives.find(word) & split.trained
    ]


def test_nothing_held_out_nor_its_relatives_is_trained_on_and_a_leak_is_seen(split):
    assert len(split.word) == COUNT
    assert len(split.family) > COUNT / 3
    assert not (set(split.word) | set(split.family)) & split.trained
    assert not set(split.word) & set(split.family)
    assert leaks(split) == []
    assert split.neither > 0
    word = next(word for word in split.family if len(word) > 6 and word[-1] not in "s")
    leaky = Split(split.word, split.family, split.training | {"us_silver": {"re" + word: "x"}}, 0)
    assert (word, "re" + word) in leaks(leaky)


def test_the_split_depends_on_the_seed_alone(lists, split):
    backwards = {tag: dict(reversed(entries.items())) for tag, entries in lists.items()}
    assert Split.from_lists(backwards, seed=0, count=COUNT) == split
    assert Split.from_lists(lists, seed=1, count=COUNT).word != split.word


def test_acronyms_and_foreign_symbols_are_left_out_and_lower_case_wins():
    entries = {
        "NASA": "nˈæsə",
        "Polish": "pˈOlɪʃ",
        "polish": "pˈɑlɪʃ",
        "a.m.": "ˌAˈɛm",
        "record": {"DEFAULT": "ɹˈɛkəɹd"},
        "odd": "ɒd",
        "none": {"DEFAULT": None},
        "butter": "bˈʌɾəɹ",
    }
    assert read_pronunciations(entries) == {
        "polish": "pˈɑlɪʃ",
        "record": "ɹˈɛkəɹd",
        "butter": "bˈʌTəɹ",
    }


@pytest.mark.parametrize("name", MISAKI_SHA256)
def test_a_packed_list_is_misakis_file_to_the_byte(name):
    assert sha256(to_json(read(name))).hexdigest() == MISAKI_SHA256[name]


def test_a_list_is_packed_as_it_is_read(tmp_path, monkeypatch):
    entries = {"lead": {"DEFAULT": "lˈɛd", "NOUN": None}, "apple": "ˈæpᵊl", "Ab": "ˈæb"}
    monkeypatch.setattr(word_lists, "DATA", tmp_path)
    (tmp_path / "us_gold.txt.gz").write_bytes(pack(entries))
    assert list(read("us_gold").items()) == list(entries.items())


def test_a_list_that_nobody_has_is_refused():
    pytest.raises(InputError, read, "fr_gold").match("no word list 'fr_gold'")


@pytest.fixture(scope="module")
def tagger():
    return Tagger.load()


class TestTagger:
    def test_the_bundled_file_is_small_and_gives_probabilities(self, tagger):
        assert PATH.stat().st_size < 400_000
        shares = tagger.compute_probabilities(split_words("They record a song ."), 1)
        assert math.isclose(sum(shares.values()), 1.0)
        assert max(shares, key=lambda tag: shares[tag]) == "vbp"
        assert tagger.choose_tag(split_words("The record is old ."), 1) == "nn"
        assert tagger.choose_tag(split_words("The record is old ."), 1, ("vb", "jj")) in (
            "vb",
            "jj",
        )

    def test_saved_and_read_again(self, tagger, tmp_path):
        tagger.save(tmp_path / "again.npz")
        assert (tmp_path / "again.npz").read_bytes() == PATH.read_bytes()

    @pytest.mark.parametrize("damage", ["missing", "cut", "format", "shape"])
    def test_a_damaged_file_is_one_clear_line(self, damage, tagger, tmp_path):
        path, content, arrays = tmp_path / "tagger.npz", PATH.read_bytes(), tagger.to_arrays()
        if damage == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif damage == "format":
            head = arrays["head"].tobytes().replace(b'"format":1', b'"format":9')
            np.savez_compressed(path, **arrays | {"head": np.frombuffer(head, np.uint8)})
        elif damage == "shape":
            np.savez_compressed(path, **arrays | {"weights": arrays["weights"][:-1]})
        pytest.raises(InputError, Tagger.load, path).match(
            r"python -m kokoro_g2p\.training\.tagger"
        )

    @given(st.lists(st.text(max_size=6), min_size=1, max_size=12), st.data())
    @settings(deadline=None, max_examples=100)
    def test_any_words_have_features_and_tags(self, words, data):
        at = data.draw(st.integers(0, len(words) - 1))
        assert (
            len(hash_features(words, at, infer_class))
            == len(name_features(words, at, infer_class))
            <= 40
        )
        assert set(list_tags(words[at])) <= set(PARTS)

    def test_the_word_itself_is_seen_only_when_asked(self):
        one, other = (
            split_words("the old record was broken"),
            split_words("the old estimate was broken"),
        )
        assert [name for name in name_features(one, 2, infer_class) if name[0] not in "BC"] == [
            name for name in name_features(other, 2, infer_class) if name[0] not in "BC"
        ]
        assert set(name_features(one, 2, infer_class, is_heteronym=True)) - set(
            name_features(one, 2, infer_class)
        ) == {
            name
            for name in name_features(one, 2, infer_class, is_heteronym=True)
            if name[0] in "DEFGHI"
        }

    def test_classes(self):
        classes = Classes({"record": "nv"})
        by_word = parse_pairs(
            "record:nv Record:nv quickly:r walked:ed they:P my:S 7:0 ,:, Zork:n don't:M"
        )
        assert {word: classes(word) for word in by_word} == by_word
        assert classes("") == ""
        assert (
            classify_readings(
                {"nn": -5.0, "vb": -5.0, "jj": -12.0}, {"nn": -2.0, "vb": -3.0, "jj": -2.0}
            )
            == "nv"
        )


def silver():  # two tags that follow one another, and a word that may be either
    tags = ("punc", "nn", "vbp")
    trigrams = np.log(
        np.array([[[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.1, 0.8, 0.1]]] * 3)
    )  # [3, 3, 3]: noun after a mark or verb, verb after a noun
    emit = {
        "dogs": {"nn": -1.0},
        "they": {"nn": -1.0},
        "my": {"vbp": -1.0},
        "fish": {"nn": -1.0, "vbp": -1.0},
        ".": {"punc": -1.0},
    }
    return Silver(TagModel(tags, emit, trigrams, np.log(np.full(3, 1 / 3))), {})


def test_viterbi_and_its_constraint():
    assert silver().find_tags(("fish", "fish", "fish"), {}) == ["nn", "vbp", "nn"]
    assert silver().find_tags(("dogs", "fish"), {1: ("nn",)}) == ["nn", "nn"]
    assert silver().find_tags(("they", "fish"), {})[1] == "vbp", "no noun after they"
    assert silver().find_tags(("my", "fish"), {})[1] == "nn", "no verb after my"
    assert "make" in [form for form, _ in list_lemmas("making")]


def toy_items():
    sentences = [(("the", "x"), "nn"), (("to", "x"), "vb")] * 60
    features = [hash_features(words, 1, infer_class) for words, _ in sentences]
    return Items(
        features=np.array([key for item in features for key in item], np.uint32),
        lengths=np.array([len(item) for item in features]),
        labels=np.array([PARTS.index(tag) for _, tag in sentences]),
        allowed=np.array([[tag in ("nn", "vb") for tag in PARTS]] * len(sentences)),
        origins=np.zeros(len(sentences), int),
        held_out=np.arange(len(sentences)) % 20 < 2,
        classes=Classes({}),
        heteronyms={},
    )


def test_training_learns_and_the_seed_decides(tmp_path):
    recipe = TaggerRecipe(features=50, batch=16, epochs=(2, 4))
    first, figures = train(toy_items(), recipe)
    assert figures["known"] == 1.0
    assert (
        first.choose_tag(("the", "y"), 1, ("nn", "vb")),
        first.choose_tag(("to", "y"), 1, ("nn", "vb")),
    ) == ("nn", "vb")
    again, _ = train(toy_items(), recipe)
    first.save(tmp_path / "first.npz")
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "first.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_bad_arguments_end_with_2(capsys):
    assert train_tagger(["--features", "0"]) == 2
    assert "--features must be 1 or more" in capsys.readouterr().err


def test_words_of_a_text():
    words = split_words("They live, don't they? We live.")
    assert words == ("They", "live", ",", "don't", "they", "?", "We", "live", ".")
    assert find_nth(words, "live", 1) == 7
    pytest.raises(ValueError, find_nth, words, "live", 2).match("live")
