"""Training batches: crops of whole sentences, drawn from (seed, step) alone, so a resumed run continues as if never stopped.

batch = Batches(load_folder(corpus), seed=0).draw(step=17, count=2, frames=80)
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from core.contract import FRAME_SAMPLES, HARMONICS, PROSODY_PER_FRAME
from core.corpus import RECORDING_RATE_HZ, VOICES, Utterance
from core.errors import InputError
from demo.features import resampled, to_frames

STEP_SEEDS = 1_000_003  # a prime apart, so that seeds and steps never meet


@dataclass(frozen=True)
class Batch:
    """B sentences, all tokens of each, and one crop of F frames from each."""

    input_ids: Tensor  # [B, T] int64, zeros behind each end
    lengths: Tensor  # [B] tokens
    token_of_frame: Tensor  # [B, F] the gather that aligns
    voices: Tensor  # [B] index into VOICES
    f0_hz: Tensor  # [B, 2F]
    energy: Tensor  # [B, 2F]
    audio: Tensor  # [B, 600F] at 24 kHz
    noise: Tensor  # [B, 600F, 9]

    def to(self, device: torch.device) -> "Batch":
        return Batch(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


class Batches:
    """Responsibilities: 1. choose sentences and crops; 2. stack them. Audio is resampled when it is drawn, so memory stays small."""

    def __init__(self, utterances: list[Utterance], seed: int) -> None:
        if not utterances:
            raise InputError("the corpus is empty: python -m demo.corpus makes it")
        self.utterances, self.seed = utterances, seed

    def draw(self, step: int, count: int, frames: int) -> Batch:
        """`count` crops of `frames`; sentences shorter than that are passed over."""
        draw = np.random.default_rng(self.seed * STEP_SEEDS + step)
        chosen = [self._sentence(draw, frames) for _ in range(count)]
        starts = [int(draw.integers(0, u.frames - frames + 1)) for u in chosen]
        rows = [_crop(u, start, frames) for u, start in zip(chosen, starts, strict=True)]
        noise = draw.standard_normal((count, frames * FRAME_SAMPLES, HARMONICS), dtype=np.float32)
        ids = [torch.from_numpy(u.input_ids).long() for u in chosen]
        token_of_frame, f0_hz, energy, audio = (torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True))
        return Batch(
            input_ids=torch.nn.utils.rnn.pad_sequence(ids, batch_first=True),
            lengths=torch.tensor([len(i) for i in ids]),
            token_of_frame=token_of_frame,
            voices=torch.tensor([VOICES.index(u.voice) for u in chosen]),
            f0_hz=f0_hz,
            energy=energy,
            audio=audio,
            noise=torch.from_numpy(noise),
        )

    def _sentence(self, draw: np.random.Generator, frames: int) -> Utterance:
        for _ in range(1000):
            utterance = self.utterances[int(draw.integers(len(self.utterances)))]
            if utterance.frames >= frames:
                return utterance
        raise InputError(f"the corpus has hardly a sentence of {frames} frames: use shorter crops")


def _crop(u: Utterance, start: int, frames: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Frame -> token, F0, energy and 24 kHz audio of one crop."""
    tokens = np.repeat(np.arange(len(u.durations)), u.durations)[start : start + frames]
    steps = slice(start * PROSODY_PER_FRAME, (start + frames) * PROSODY_PER_FRAME)
    audio = to_frames(resampled(u.recording, RECORDING_RATE_HZ), u.frames).astype(np.float32)
    return tokens, u.f0_hz[steps], u.energy[steps], audio[start * FRAME_SAMPLES : (start + frames) * FRAME_SAMPLES]
