"""The encoder's training on a tiny model: batches, learning, resuming, and a checkpoint that the encoder loads strictly.

pytest tests/test_demo_encoder_training.py
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from core.checkpoint import DEMO_FOLDER, PARTS, Checkpoint
from core.config import KokoroConfig
from core.corpus import VOICES, Utterance, heldout
from core.errors import InputError
from core.tensor_files import read_tensors
from demo.encoder_batches import EncoderBatches, Pair, load_pairs, stacked
from demo.encoder_training import EncoderPlan, EncoderTrainer, losses
from demo.finish import Finish
from demo.model import DemoVoice
from encoder.alignment import AlignmentLimits
from encoder.functions import torch_functions
from encoder.model import Encoder
from encoder.steps import EncoderBackend, encode
from tests.test_demo_training import tiny_config

PLAN = EncoderPlan(steps=30, seed=0, warmup_steps=4, rate=1e-2, count=2)


def pairs() -> list[Pair]:
    """Held-out utterances as their own spoken form: the sums of frames agree, and that is all a batch asks."""
    return [Pair(utterance, utterance) for utterance in heldout()[:4]]


@pytest.fixture
def start(tmp_path: Path) -> Path:
    """A tiny checkpoint as stage vocoder leaves it: two parts."""
    config = replace(tiny_config(), style_dim=128)  # as wide as a voice pack has it
    voice = DemoVoice(config)
    voice.initialize()
    voice.save(tmp_path)
    data = json.loads((DEMO_FOLDER / "config.json").read_text(encoding="utf-8"))
    data |= {"hidden_dim": 16, "style_dim": 128, "n_layer": 1, "decoder": {"hidden_dim": 16, "asr_res_dim": 8}}
    data["istftnet"] |= {"upsample_initial_channel": 16, "resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1, 3, 5]]}
    (tmp_path / "config.json").write_text(json.dumps(data), encoding="utf-8")
    assert KokoroConfig.load(tmp_path / "config.json").hidden_dim == config.hidden_dim
    return tmp_path


def test_a_batch_repeats_each_token_for_its_frames_and_marks_the_padding() -> None:
    chosen = pairs()[:3]
    batch = stacked(chosen)
    for row, pair in enumerate(chosen):
        frames = pair.spelled.frames
        counted = np.bincount(batch.spelled.token_of_frame[row, :frames].numpy(), minlength=len(pair.spelled.durations))
        assert counted.tolist() == pair.spelled.durations.tolist()
        assert batch.inside[row].sum() == frames and batch.inside_prosody[row].sum() == 2 * frames
        assert batch.spelled.inside()[row].sum() == len(pair.spelled.input_ids)


def test_batches_follow_from_seed_and_step() -> None:
    drawn = [EncoderBatches(pairs(), seed).draw(step, 2).spelled.input_ids for seed, step in ((0, 3), (0, 3), (1, 3), (0, 4))]
    assert torch.equal(drawn[0], drawn[1])
    assert not all(torch.equal(drawn[0], other) for other in drawn[2:])


def test_an_empty_corpus_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"demo\.lessons"):
        load_pairs(tmp_path)
    with pytest.raises(InputError, match=r"demo\.lessons"):
        EncoderBatches([], 0)


def test_steps_lower_the_loss_and_a_resumed_run_repeats(start: Path, tmp_path: Path) -> None:
    whole = EncoderTrainer(PLAN, pairs(), start)
    history = [whole.train_step()["loss"] for _ in range(12)]
    assert sum(history[-3:]) < 0.9 * sum(history[:3])
    first = EncoderTrainer(PLAN, pairs(), start)
    for _ in range(3):
        first.train_step()
    first.save(tmp_path / "state.pt")
    second = EncoderTrainer(PLAN, pairs(), start)
    second.resume(tmp_path / "state.pt")
    assert [second.train_step()["loss"] for _ in range(2)] == history[3:5]
    with pytest.raises(InputError, match="--seed 0"):
        EncoderTrainer(replace(PLAN, seed=1), pairs(), start).resume(tmp_path / "state.pt")


def test_padding_changes_no_loss(start: Path) -> None:
    trainer = EncoderTrainer(PLAN, pairs(), start)
    trainer.learner.encoder.text_encoder.embedding.weight.data.mul_(1.5)  # it starts as what it imitates
    short, long = sorted(pairs(), key=lambda pair: pair.spelled.frames)[:: len(pairs()) - 1]

    def of(chosen: list[Pair]) -> dict[str, torch.Tensor]:
        batch = stacked(chosen)
        return {name: value.detach() for name, value in losses(trainer.learner(batch), trainer.wanted(batch), batch).items()}

    alone, other, both = of([short]), of([long]), of([short, long])
    frames, tokens = (np.array([f(p.spelled) for p in (short, long)]) for f in (lambda u: u.frames, lambda u: len(u.input_ids)))
    for name, value in both.items():
        weights = tokens if name in ("bins", "durations") else frames
        assert value.item() == pytest.approx(np.average([alone[name].item(), other[name].item()], weights=weights), rel=1e-3), name


def test_the_export_is_a_whole_checkpoint_and_speaks_as_it_was_trained(start: Path, tmp_path: Path) -> None:
    trainer = EncoderTrainer(PLAN, pairs(), start)
    trainer.train_step()
    folder = tmp_path / "whole"
    shutil.copytree(start, folder)
    trainer.export(folder)
    checkpoint = Checkpoint.from_folder(folder)
    assert set(checkpoint.part_names) == set(PARTS)
    before = Checkpoint.from_folder(start)
    assert all(torch.equal(value, before.part("decoder")[key]) for key, value in checkpoint.part("decoder").items())
    utterance: Utterance = heldout()[0]
    style = checkpoint.voice(utterance.voice)[0, :, checkpoint.config.style_dim :]
    limits = _limits(checkpoint)
    encoded = encode(EncoderBackend(torch_functions(Encoder.of(checkpoint)), limits), tuple(utterance.input_ids.tolist()), style, 1.0)
    with torch.no_grad():
        rows, at = stacked([Pair(utterance, utterance)]).spelled, torch.tensor([VOICES.index(utterance.voice)])
        bins, hidden = trainer.average.timing(rows.input_ids, rows.inside(), trainer.average.styles[at])
        frames = torch.sigmoid(bins).sum(2).round().clamp(min=1)[0].long()
        aligned = torch.repeat_interleave(hidden.transpose(1, 2).unsqueeze(2), frames, dim=3)
        f0, energy = trainer.average.melody(aligned, trainer.average.styles[at], torch.ones(1, 1, 1, int(frames.sum())))
    assert encoded.durations.tolist() == frames.tolist()
    assert torch.allclose(encoded.f0_hz, f0 * 100, atol=1.0), "Hz; the weights were rounded to fp16"
    assert torch.allclose(encoded.energy, energy, atol=0.02)


def test_a_checkpoint_with_an_encoder_is_no_start(start: Path, tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    shutil.copytree(start, folder)
    EncoderTrainer(PLAN, pairs(), start).export(folder)
    with pytest.raises(InputError, match="--stage vocoder"):
        EncoderTrainer(PLAN, pairs(), folder)


def _limits(checkpoint: Checkpoint) -> AlignmentLimits:
    return AlignmentLimits.of(checkpoint.config, 1200)


def test_the_finish_changes_the_vocoder_and_leaves_prosody_alone(start: Path, tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    shutil.copytree(start, folder)
    EncoderTrainer(PLAN, pairs(), start).export(folder)
    parts = {name: Checkpoint.from_folder(folder).part(name) for name in ("decoder", "predictor")}  # read now: export overwrites the file
    packs = {voice: read_tensors(folder / "voices" / f"{voice}.pt") for voice in VOICES}
    finish = Finish(4, 0, heldout()[:2], "cpu", folder, compiled=False)
    for own, given in zip(finish.voice.decoder.parameters(), DemoVoice.load(folder).decoder.parameters(), strict=True):
        assert torch.equal(own, given), "it starts where the checkpoint stands"
    for _ in range(4):
        finish.train_step()
    finish.export(folder)
    after = Checkpoint.from_folder(folder)
    assert all(torch.equal(value, parts["predictor"][key]) for key, value in after.part("predictor").items())
    assert not all(torch.equal(value, parts["decoder"][key]) for key, value in after.part("decoder").items())
    found = {voice: read_tensors(folder / "voices" / f"{voice}.pt") for voice in VOICES}
    assert all(torch.equal(found[voice][..., 128:], pack[..., 128:]) for voice, pack in packs.items())
    assert not torch.equal(found["slt"][..., :128], packs["slt"][..., :128])
