"""The bundled checkpoint: it loads strictly, keeps to its limits, and two held-out sentences reproduce figures.json.

pytest tests/test_demo_judge.py
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from core.checkpoint import DEMO_FOLDER, PARTS, Checkpoint
from core.corpus import VOICES, heldout
from core.errors import EXIT_BAD_INPUT
from core.layers import Snake
from demo.judge import FIGURES_NAME, TARGETS, main, picture, rendered, score, summary
from demo.losses import LARGEST_PHASE_ARGUMENT, LOUDEST_LOG_MAGNITUDE
from demo.model import PACK_ROWS, WEIGHTS, DemoVoice
from demo.prosody_error import prosody_errors
from vocoder.istft import BINS

STOI_TOLERANCE, PESQ_TOLERANCE = 0.002, 0.03  # other CPUs round convolutions otherwise
LARGEST_FOLDER_BYTES = 12e6


@pytest.fixture(scope="module")
def voice() -> DemoVoice:
    return DemoVoice.load(DEMO_FOLDER)


@pytest.fixture(scope="module")
def figures() -> dict:
    return json.loads((DEMO_FOLDER / FIGURES_NAME).read_text(encoding="utf-8"))


def test_the_folder_is_small_and_in_float16() -> None:
    assert sum(path.stat().st_size for path in DEMO_FOLDER.rglob("*") if path.is_file()) <= LARGEST_FOLDER_BYTES
    state = torch.load(DEMO_FOLDER / WEIGHTS, weights_only=True)
    assert set(state) == set(PARTS)
    assert all(key.startswith("module.") for part in state.values() for key in part)
    assert {tensor.dtype for part in state.values() for tensor in part.values()} == {torch.float16}


@pytest.mark.parametrize("name", VOICES)
def test_voice_packs_have_upstreams_shape(name: str) -> None:
    pack = torch.load(DEMO_FOLDER / "voices" / f"{name}.pt", weights_only=True)
    assert pack.shape == (PACK_ROWS, 1, 256)
    assert (pack == pack[:1]).all()
    assert all(half.float().square().mean() > 0.01 for half in pack.split(128, dim=2)), "decoder style, prosody style"


def test_snake_stays_bounded(voice: DemoVoice) -> None:
    alphas = torch.cat([m.alpha.flatten() for m in voice.modules() if isinstance(m, Snake)])
    assert 0.049 < alphas.min() < alphas.max() < 20.1


@pytest.mark.parametrize("index", [0, 4])
def test_a_sentence_reproduces_the_figures(voice: DemoVoice, figures: dict, index: int) -> None:
    utterance, seen = heldout()[index], []
    hook = voice.decoder.generator.conv_post.register_forward_hook(lambda _m, _i, output: seen.append(output))
    wave = rendered(voice, utterance, seed=0)
    hook.remove()
    got, expected = score(utterance, wave), figures["sentences"][index]
    assert (got.id, got.voice) == (expected["id"], expected["voice"])
    assert got.stoi == pytest.approx(expected["stoi"], abs=STOI_TOLERANCE)
    assert got.pesq_wb == pytest.approx(expected["pesq_wb"], abs=PESQ_TOLERANCE)
    assert np.abs(wave).max() < 1.0
    assert seen[0][:, :BINS].max() < LOUDEST_LOG_MAGNITUDE + 0.5
    assert seen[0][:, BINS:].abs().max() < 2 * LARGEST_PHASE_ARGUMENT


def test_the_summary_is_that_of_its_sentences(figures: dict) -> None:
    assert len(figures["sentences"]) == 24
    for name in TARGETS:
        values = [sentence[name] for sentence in figures["sentences"]]
        assert figures["all"][name]["mean"] == pytest.approx(np.mean(values), abs=1e-4)
        assert figures["all"][name]["worst"] == pytest.approx(min(values), abs=1e-4)


def test_a_recording_against_itself_is_perfect_and_against_noise_is_not(tmp_path) -> None:
    utterance = heldout()[0]
    hiss = np.random.default_rng(0).standard_normal(len(utterance.recording))
    same, noise = score(utterance, utterance.recording), score(utterance, hiss)
    assert same.stoi > 0.999
    assert same.pesq_wb > 4.5
    assert noise.stoi < 0.5
    assert noise.pesq_wb < 1.3
    assert summary([same, noise])["all"]["stoi"]["worst"] == round(noise.stoi, 4)
    picture(utterance, utterance.recording, tmp_path)
    assert (tmp_path / f"{utterance.id}.png").stat().st_size > 10_000


def test_a_folder_without_a_checkpoint_is_one_line_and_exit_2(tmp_path, capsys: pytest.CaptureFixture) -> None:
    assert main(["--checkpoint", str(tmp_path)]) == EXIT_BAD_INPUT
    assert "config.json" in capsys.readouterr().err


def test_the_encoder_is_as_near_to_flite_as_the_figures_say(figures: dict) -> None:
    few = prosody_errors(Checkpoint.from_folder(DEMO_FOLDER), heldout()[:6])
    assert few.duration_frames < 0.6 and few.length < 0.06 and few.f0_rmse_hz < 20 and few.voicing < 0.12
    assert figures["prosody"]["duration_frames"] == pytest.approx(few.duration_frames, rel=0.3)


def test_another_voices_style_moves_the_pitch() -> None:
    """Negative control: the errors grow when the sentences are spoken in another voice's style."""
    swapped = [replace(utterance, voice="rms" if utterance.voice == "slt" else "slt") for utterance in heldout()[:3]]
    checkpoint = Checkpoint.from_folder(DEMO_FOLDER)
    assert prosody_errors(checkpoint, swapped).f0_rmse_hz > 2 * prosody_errors(checkpoint, heldout()[:3]).f0_rmse_hz
