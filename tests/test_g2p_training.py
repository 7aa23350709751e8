"""Training: the split leaves no relative of a held-out family, the loop learns and resumes, NumPy answers as PyTorch does."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.errors import EXIT_BAD_INPUT, InputError
from kokoro_ane.g2p.alphabet import ALPHABETS, BRITISH, LETTERS, PADDING, SOUNDS, TAGS, encode, error_rates, folded
from kokoro_ane.g2p.network import load_model, torch_run
from kokoro_ane.g2p.neural import WEIGHTS_OF, Config, NeuralG2P, load_arrays, numpy_run
from kokoro_ane.g2p.word_lists import SHA256, Entry, read
from tests.g2p_names import rows
from training.g2p_network import main
from training.g2p_words import Relatives, Split, pronunciations, stem
from training.loop import Example, Plan, Trainer, batches, begun, collated, counterpart, ctc, examples_of, fits, matrices_and_others

ROOT = Path(__file__).resolve().parents[1]
TINY = Config(width=32, heads=2, inner=48, blocks=2, answers=(1,), dropout=0.0)
WORDS = {"us_gold": {"kokoro": "kəkˈɔɹO", "banana": "bənˈænə", "butter": "bˈʌTəɹ", "axe": "ˈæks"}, "us_silver": {"tomatoes": "təmˈATOz"}}
PLAN = Plan(steps=90, seed=3, rate=1e-2, matrix_rate=1e-2, warmup_steps=5, symbols=32, average=0.8)


def trained(plan: Plan, state: Path) -> Trainer:
    trainer = Trainer(plan, examples_of(WORDS), TINY)
    assert trainer.run(state, report=lambda entry: None)
    return trainer


def test_it_learns_what_it_reads(tmp_path: Path) -> None:
    trainer = trained(PLAN, tmp_path / "state.pt")
    gold = WORDS["us_gold"]
    assert [guess.phonemes for guess in NeuralG2P(torch_run(trainer.average)).predict(list(gold))] == list(gold.values())
    assert trainer.log[-1]["step"] == PLAN.steps


def test_a_resumed_run_is_an_unbroken_one(tmp_path: Path) -> None:
    plan = Plan(steps=12, seed=1, symbols=32)
    whole = trained(plan, tmp_path / "whole.pt")
    first = Trainer(plan, examples_of(WORDS), TINY)
    assert first.run(tmp_path / "part.pt", report=lambda entry: None, until=5)
    second = Trainer(plan, examples_of(WORDS), TINY)
    second.resume(tmp_path / "part.pt")
    assert second.step == 5
    second.run(tmp_path / "part.pt", report=lambda entry: None)
    for one, other in zip(whole.average.parameters(), second.average.parameters(), strict=True):
        assert torch.equal(one, other)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    first = Trainer(Plan(steps=3, seed=1), examples_of(WORDS), TINY)
    first.save(tmp_path / "state.pt")
    with pytest.raises(InputError, match="--seed 1, not 2"):
        Trainer(Plan(steps=3, seed=2), examples_of(WORDS), TINY).resume(tmp_path / "state.pt")
    with pytest.raises(InputError, match="no such file"):
        first.resume(tmp_path / "nowhere.pt")


def test_the_schedule_rises_stays_and_falls() -> None:
    plan = Plan(steps=1000, seed=0, warmup_steps=100)
    paces = [plan.pace(step) for step in range(plan.steps)]
    assert paces[0] == pytest.approx(0.01) and paces[99] == 1 == paces[500] and paces[-1] < 0.03
    assert all(before >= after for before, after in zip(paces[100:], paces[101:], strict=False))


def test_an_epoch_holds_every_example_as_often_as_it_counts() -> None:
    examples = examples_of(WORDS)
    assert len(examples) == 2 * len(WORDS["us_gold"]) + len(WORDS["us_silver"])
    rows = [tuple(row[row != PADDING].tolist()) for batch in batches(examples, 0, 0, 20) for row in batch.symbols]
    assert sorted(rows) == sorted(example.symbols for example in examples)
    orders = [[batch.symbols.tolist() for batch in batches(examples, seed, epoch, 20)] for seed, epoch in ((0, 0), (0, 0), (0, 1))]
    assert orders[0] == orders[1] != orders[2]


def test_words_too_short_for_their_sounds_are_left_out() -> None:
    assert fits(Example((1, 6), (3, 4, 3, 4)))
    assert not fits(Example((1, 6), (3, 4, 4, 4)))  # a blank is needed between two equal ones
    assert not fits(Example((1, 6), (3, 4, 3, 4, 3)))
    assert examples_of({"us_gold": {"w": "dˈʌbᵊljudˈʌbᵊlju"}, "us_silver": {}}) == []
    with pytest.raises(ValueError, match="outside the model's alphabet"):
        examples_of({"us_gold": {"a": "?"}, "us_silver": {}})


def test_the_loss_does_not_see_padding() -> None:
    batch = collated([Example(encode("cat"), (3, 4, 5)), Example(encode("tomato"), (5, 4, 3))])
    logits = torch.randn(2, 7, 2 * len(SOUNDS), generator=torch.Generator().manual_seed(0))
    other = logits.clone()
    other[0, 4:] = 9.0
    assert float(ctc(logits, batch)) == pytest.approx(float(ctc(other, batch)))
    other[0, 1] = 9.0
    assert float(ctc(logits, batch)) != pytest.approx(float(ctc(other, batch)))


def test_muon_gets_the_matrices_of_the_blocks() -> None:
    matrices, others = matrices_and_others(Trainer(PLAN, [], TINY).master)
    assert len(matrices) == 6 * TINY.blocks and all(matrix.dim() == 2 for matrix in matrices)
    assert not {id(one) for one in matrices} & {id(one) for one in others}


def test_error_rates_count_edits_and_words_with_and_without_stress() -> None:
    rates = error_rates(["kˈæt", "dɔɡ"], ["kˈæt", "dˈɔɡ"])
    assert (rates.per, rates.wer, rates.words) == (0, 0, 2)
    assert rates.stressed_wer == 50 and rates.stressed_per == pytest.approx(100 / 8)
    assert error_rates([""], ["ab"]).per == 100
    with pytest.raises(ValueError, match="the same number"):
        error_rates([], [])


@pytest.mark.parametrize(
    ("flags", "message"),
    [(["--steps", "0"], "at least 1"), (["--minutes", "0"], "more than 0"), (["--until", "99999999"], "a step of the plan")],
)
def test_bad_flags_are_one_line(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags) == EXIT_BAD_INPUT
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from training.g2p_network import main\ntry: main(['--help'])\nexcept SystemExit: print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "80"})
    assert found.stdout.endswith("False\n")
    assert json.dumps("--resume").strip('"') in found.stdout


def test_nobody_imports_what_trains() -> None:
    """Only its own commands and tests do."""
    files = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    runs = [file for file in files if not file.startswith(("training/", "tests/")) and (ROOT / file).is_file()]
    assert len(runs) > 100
    assert [file for file in runs if re.search(r"^\s*(?:from|import) training\b", (ROOT / file).read_text(encoding="utf-8"), re.M)] == []


ABSENT = "import sys; from g2p import phonemize; found = phonemize({!r}, {!r}).words[0]; print(found.source, 'torch' in sys.modules)"


@pytest.mark.parametrize("dialect", ALPHABETS)
def test_numpy_answers_as_pytorch_does(dialect: str) -> None:
    alphabet, model = ALPHABETS[dialect], load_model(WEIGHTS_OF[dialect])
    drawn = random.Random(0)
    words = [word for _, word, _ in rows("held_out_words")]
    words += ["".join(drawn.choices(LETTERS, k=length)) for length in range(1, 32) for _ in range(4)]
    loaded = NeuralG2P.load(dialect=dialect)
    theirs = NeuralG2P(torch_run(model), alphabet, confidence=loaded.confidence).predict(words)
    ours = loaded.predict(words)
    assert [guess.phonemes for guess in ours] == [guess.phonemes for guess in theirs]
    assert np.allclose([guess.confidence for guess in ours], [guess.confidence for guess in theirs], atol=1e-3)


def test_logits_agree_and_padding_changes_nothing() -> None:
    arrays, config = load_arrays()
    run, reference = numpy_run(arrays, config), torch_run(load_model())
    ids = np.random.default_rng(0).integers(1, 30, size=(5, 9)).astype(np.int32)
    ids[2, 6:] = PADDING
    assert np.abs(run(ids) - reference(ids))[ids != PADDING].max() < 1e-3
    assert np.abs(run(ids)[2, :6] - run(ids[2:3, :6])[0]).max() < 1e-4
    with pytest.raises(KeyError):
        numpy_run({name: array for name, array in arrays.items() if name != "answer.bias"}, config)


@pytest.mark.parametrize(("word", "dialect"), [("blorfkin", "us"), ("blorfkin", "gb")])
def test_an_unknown_word_needs_no_pytorch(word: str, dialect: str) -> None:
    done = subprocess.run([sys.executable, "-c", ABSENT.format(word, dialect)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["neural", "False"]


def test_british_sounds_are_cut_with_their_length() -> None:
    cut = sum(BRITISH.cut(entry) is not None for entry in read("gb_gold").values() if isinstance(entry, str))
    assert cut > 0.98 * sum(isinstance(entry, str) for entry in read("gb_gold").values())


def test_the_british_model_reads_names_of_no_list() -> None:
    words = {"Blorf": "blˈɔːf", "Starmer": "stˈɑːmə", "Corbyn": "kˈɔːbɪn"}
    guesses = NeuralG2P.load(dialect="gb").predict(list(words))
    assert error_rates([guess.phonemes for guess in guesses], list(words.values())).per < 20


def test_a_model_begun_with_anothers_weights_copies_like_sounds() -> None:
    source = load_model()
    from kokoro_ane.g2p.network import LetterToSound

    model = begun(LetterToSound(Config(sounds=len(BRITISH.sounds))), source, ALPHABETS["us"], BRITISH)
    here, there = BRITISH.ids["ˈɜː"], SOUNDS.index("ˈɜ")
    assert torch.equal(model.answer.weight[here], source.answer.weight[there])
    assert torch.equal(model.blocks[0].taps.weight, source.blocks[0].taps.weight)
    assert counterpart("T", {"t": 3}) is None and counterpart("ˌQ", {"ˌO": 5}) == 5


EVERY, COUNT = 24, 80


@pytest.fixture(scope="module")
def lists() -> dict[str, dict[str, Entry]]:
    """Every twelfth stem of both lists with all its words, so that families stay whole."""
    return {tag: {w: e for w, e in read(tag).items() if sum(map(ord, stem(folded(w)))) % EVERY == 0} for tag in TAGS}


@pytest.fixture(scope="module")
def split(lists: dict[str, dict[str, Entry]]) -> Split:
    return Split.of(lists, seed=0, count=COUNT)


def leaks(split: Split) -> list[tuple[str, str]]:
    """Held-out word and a training word related to it."""
    relatives = Relatives(split.trained | set(split.word) | set(split.family))
    return [(word, other) for word in split.family for other in relatives.of(word) & split.trained]


def test_nothing_held_out_is_trained_on(split: Split) -> None:
    assert len(split.word) == COUNT and len(split.family) > COUNT / 3
    assert not (set(split.word) | set(split.family)) & split.trained
    assert not set(split.word) & set(split.family)


def test_no_relative_of_a_family_is_left(split: Split) -> None:
    assert leaks(split) == []
    assert split.neither > 0


def test_no_stem_of_a_family_stands_in_a_training_word(split: Split) -> None:
    """The same, by another definition than that of relatives: it sees what the list of affixes lacks."""
    stems = {stem(word) for word in split.family}
    assert min(map(len, stems)) >= 4
    text = "\n" + "\n".join(split.trained) + "\n"
    assert [own for own in stems if "\n" + own in text or own + "\n" in text or (len(own) >= 5 and own in text)] == []


def test_a_leak_is_seen(split: Split) -> None:
    word = next(word for word in split.family if len(word) > 6 and word[-1] not in "s")
    leaky = Split(split.word, split.family, split.training | {"us_silver": {"re" + word: "x"}}, 0)
    assert (word, "re" + word) in leaks(leaky)


def test_the_split_hangs_on_the_seed_alone(lists: dict[str, dict[str, Entry]], split: Split) -> None:
    backwards = {tag: dict(reversed(entries.items())) for tag, entries in lists.items()}
    assert Split.of(backwards, seed=0, count=COUNT) == split
    assert Split.of(lists, seed=1, count=COUNT).word != split.word


def test_acronyms_and_foreign_symbols_are_left_out_and_lower_case_wins() -> None:
    entries: dict[str, Entry] = {"NASA": "nˈæsə", "Polish": "pˈOlɪʃ", "polish": "pˈɑlɪʃ", "a.m.": "ˌAˈɛm", "record": {"DEFAULT": "ɹˈɛkəɹd"},
                                 "odd": "ɒd", "none": {"DEFAULT": None}, "butter": "bˈʌɾəɹ"}  # fmt: skip
    assert pronunciations(entries) == {"polish": "pˈɑlɪʃ", "record": "ɹˈɛkəɹd", "butter": "bˈʌTəɹ"}


def test_lists_other_than_pinned_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read("us_gold", tmp_path)
    (tmp_path / "us_gold.json").write_text("{}")
    with pytest.raises(InputError, match=SHA256["us_gold"][:12]):
        read("us_gold", tmp_path)
    with pytest.raises(InputError, match="no word list 'fr_gold'"):
        read("fr_gold")


@pytest.mark.slow
def test_the_whole_split_has_no_leak() -> None:
    split = Split.draw(seed=0)
    assert len(split.word) == 2500 and len(split.family) > 1400
    assert leaks(split) == []
