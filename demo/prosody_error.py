"""How far the demo voice's durations, F0 and energy are from flite's on the held-out sentences.

    errors = prosody_errors(Checkpoint.from_folder(DEMO_FOLDER), heldout())

Durations are what the encoder says from the symbols; F0 and energy come from the true alignment, so that frame meets frame.
"""

from dataclasses import dataclass

import numpy as np
import torch

from core.checkpoint import Checkpoint
from core.contract import DEFAULT_BUCKETS
from core.corpus import Utterance
from core.voices import style_row
from encoder.alignment import AlignmentLimits
from encoder.functions import torch_functions
from encoder.model import Encoder, pack_frames
from encoder.steps import EncoderBackend, encode
from encoder.text_encoder import aligned

VOICED_ABOVE_HZ = 10.0  # upstream's SineGen, voiced_threshold


@dataclass(frozen=True)
class ProsodyErrors:
    """Over all tokens and half frames of all sentences."""

    duration_frames: float  # mean absolute
    duration_exact: float  # share of tokens
    length: float  # mean absolute, share of a sentence
    f0_rmse_hz: float  # where both are voiced
    voicing: float  # share of half frames where only one is voiced
    energy: float  # mean absolute, natural logarithm


@torch.no_grad()
def prosody_errors(checkpoint: Checkpoint, utterances: list[Utterance]) -> ProsodyErrors:
    """Errors of the PyTorch encoder against the utterances."""
    functions = torch_functions(Encoder.of(checkpoint))
    backend = EncoderBackend(functions, AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1]))
    frames, lengths, f0_hz, energy = [], [], [], []
    for utterance in utterances:
        style = style_row(checkpoint.voice(utterance.voice), len(utterance.phonemes))[:, checkpoint.config.style_dim :]
        encoded = encode(backend, tuple(utterance.input_ids.tolist()), style, 1.0)
        frames.append(encoded.durations.numpy() - utterance.durations)
        lengths.append(abs(frames[-1].sum()) / utterance.frames)
        en = aligned(encoded.hidden.unsqueeze(2), torch.from_numpy(utterance.durations).long())  # [1, C, 1, F]
        curves = functions.prosody(pack_frames(en, utterance.frames), style)
        f0_hz.append(np.stack([curves[0][0].numpy(), utterance.f0_hz]))  # [2, 2F]
        energy.append(np.abs(curves[1][0].numpy() - utterance.energy))
    off, pitch = np.concatenate(frames), np.concatenate(f0_hz, axis=1)
    voiced = pitch > VOICED_ABOVE_HZ
    both = voiced.all(axis=0)
    return ProsodyErrors(
        duration_frames=float(np.abs(off).mean()),
        duration_exact=float((off == 0).mean()),
        length=float(np.mean(lengths)),
        f0_rmse_hz=float(np.sqrt(np.mean((pitch[0] - pitch[1])[both] ** 2))),
        voicing=float((voiced[0] != voiced[1]).mean()),
        energy=float(np.concatenate(energy).mean()),
    )
