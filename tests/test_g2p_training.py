"""The training loop on a handful of words: it learns them, a resumed run is an unbroken one, and bad input is one clear line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from core.errors import EXIT_BAD_INPUT, InputError
from g2p.alphabet import PADDING, SOUNDS, encode
from g2p.neural import NeuralG2P
from g2p.rates import edit_distance, error_rates
from g2p.sizes import Config
from g2p.training.batches import Example, batches, collated, examples_of, fits
from g2p.training.train import main
from g2p.training.trainer import Plan, Trainer, ctc, matrices_and_others

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
    assert [guess.phonemes for guess in NeuralG2P(trainer.average).predict(list(gold))] == list(gold.values())
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


@pytest.mark.parametrize(("one", "other", "edits"), [("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("abcd", "bcd", 1)])
def test_edit_distance(one: str, other: str, edits: int) -> None:
    assert edit_distance(one, other) == edits == edit_distance(other, one)


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
    code = "import sys; from g2p.training.train import main\ntry: main(['--help'])\nexcept SystemExit: print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "80"})
    assert found.stdout.endswith("False\n")
    assert json.dumps("--resume").strip('"') in found.stdout
