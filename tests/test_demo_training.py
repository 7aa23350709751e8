"""Training on a tiny model: it learns, repeats itself, resumes, and its checkpoint is what a strict loader expects.

pytest tests/test_demo_training.py
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core.checkpoint import DEMO_FOLDER
from core.config import DecoderConfig, KokoroConfig
from core.corpus import heldout
from core.errors import EXIT_BAD_INPUT, InputError
from core.training.muon import orthogonalized
from demo.batches import Batches
from demo.losses import FLOOR, SpectralLoss, range_penalty
from demo.model import PREFIX, WEIGHTS, DemoVoice
from demo.train import main
from demo.training import Plan, Trainer

STEPS = 14
PLAN = Plan(steps=STEPS, seed=0, warmup_steps=4, rate=4e-3, kernel_rate=1e-2, crop_count=1, crop_frames=24)


def tiny_config() -> KokoroConfig:
    """The bundled config, 16 channels wide."""
    config = KokoroConfig.load(DEMO_FOLDER / "config.json")
    net = replace(config.istftnet, upsample_initial_channel=16, resblock_kernel_sizes=(3,), resblock_dilation_sizes=((1, 3, 5),))
    return replace(config, hidden_dim=16, style_dim=8, n_layer=1, istftnet=net, decoder=DecoderConfig(16, 8))


def trainer(plan: Plan = PLAN) -> Trainer:
    return Trainer(plan, heldout()[:3], "cpu", compiled=False, config=tiny_config())


def test_a_few_steps_lower_the_loss() -> None:
    run = trainer()
    losses = [run.train_step()["loss"] for _ in range(STEPS)]
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])


def test_a_resumed_run_repeats_the_uninterrupted_one(tmp_path: Path) -> None:
    whole = trainer()
    expected = [whole.train_step()["loss"] for _ in range(5)]
    first = trainer()
    for _ in range(3):
        first.train_step()
    first.save(tmp_path / "state.pt")
    second = trainer()
    second.resume(tmp_path / "state.pt")
    assert [second.train_step()["loss"] for _ in range(2)] == expected[3:]
    for mean, other in zip(whole.average.parameters(), second.average.parameters(), strict=True):
        assert torch.equal(mean, other)


def test_resuming_another_seed_or_nothing_is_an_error(tmp_path: Path) -> None:
    run = trainer()
    run.save(tmp_path / "state.pt")
    with pytest.raises(InputError, match="--seed 0"):
        trainer(replace(PLAN, seed=1)).resume(tmp_path / "state.pt")
    with pytest.raises(InputError, match="no such file"):
        run.resume(tmp_path / "other.pt")


def test_the_exported_checkpoint_loads_strictly_and_equals_the_rounded_weights(tmp_path: Path) -> None:
    run = trainer()
    run.train_step()
    run.average.save(tmp_path)
    shutil.copy(DEMO_FOLDER / "config.json", tmp_path)
    state = torch.load(tmp_path / WEIGHTS, weights_only=True)
    again = DemoVoice(tiny_config())
    for name in ("decoder", "text_encoder"):
        getattr(again, name).load_state_dict({key.removeprefix(PREFIX): value.float() for key, value in state[name].items()}, strict=True)
    for (key, rounded), exact in zip(again.decoder.named_parameters(), run.average.decoder.parameters(), strict=True):
        assert torch.allclose(rounded, exact, rtol=2e-3, atol=1e-3), key


def test_crops_line_up_with_the_recording() -> None:
    utterances = heldout()[:1]
    batch = Batches(utterances, seed=0).draw(step=3, count=2, frames=40)
    assert batch.audio.shape == (2, 24_000)
    assert batch.f0_hz.shape == batch.energy.shape == batch.noise.shape[:1] + (80,)
    assert (batch.token_of_frame.diff(dim=1) >= 0).all()
    quiet, loud = batch.energy < batch.energy.quantile(0.3), batch.energy > batch.energy.quantile(0.7)
    power = batch.audio.square().reshape(2, 80, 300).mean(2)
    assert power[loud].mean() > 20 * power[quiet].mean()


def test_the_loss_is_nothing_for_equals_and_ignores_what_lies_under_the_floor() -> None:
    loss, audio = SpectralLoss(), torch.randn(1, 12_000) * 0.1
    assert sum(loss(audio, audio).values()) == 0
    silence = torch.zeros(1, 12_000)
    assert loss(silence + 1e-6, silence)["log_magnitude"] < FLOOR


def test_the_range_penalty_starts_beyond_what_fp16_carries() -> None:
    inside = torch.full((1, 22, 1, 8), 4.5)
    assert range_penalty(inside) == 0
    assert range_penalty(inside * 2) > 1


def test_orthogonalized_evens_out_singular_values() -> None:
    values = torch.linalg.svdvals(orthogonalized(torch.randn(16, 48, generator=torch.Generator().manual_seed(0))))
    assert values.max() / values.min() < 2


def test_the_schedule_warms_up_stays_and_falls() -> None:
    plan = Plan(steps=1000, seed=0)
    assert plan.pace(0) < plan.pace(300) == plan.pace(600) > plan.pace(900) > plan.pace(999) > 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--stage", "encoder", "--steps", "0"], "--steps 0"),
        (["--minutes", "-1"], "--minutes -1"),
        (["--steps", "5"], "--stage vocoder"),
        (["--resume", "state.pt"], "--stage vocoder"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(argv: list[str], said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(argv) == EXIT_BAD_INPUT
    message = capsys.readouterr().err
    assert message.startswith("error: --") and said in message and message.count("\n") == 1


def test_a_folder_without_weights_is_an_error(tmp_path: Path) -> None:
    shutil.copy(DEMO_FOLDER / "config.json", tmp_path)
    with pytest.raises(InputError, match="exactly one .pth"):
        DemoVoice.load(tmp_path)


def test_the_bundled_config_is_a_demo() -> None:
    config = json.loads((DEMO_FOLDER / "config.json").read_text(encoding="utf-8"))
    assert (config["name"], config["releasable"]) == ("demo", False)
