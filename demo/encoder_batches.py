"""Batches of whole utterances for the encoder's training: one spelling to learn from, flite's own phones to imitate.

    batch = EncoderBatches(load_pairs(Path("build/demo/lessons")), seed=0).draw(step=17, count=16)

Drawn from (seed, step) alone. A batch holds utterances of similar length, so little of it is padding.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from core.contract import PROSODY_PER_FRAME
from core.corpus import VOICES, Utterance, load
from core.errors import InputError
from demo.batches import STEP_SEEDS
from demo.lessons import SPELLED, SPOKEN

POOL = 6  # batches whose utterances are sorted by length together


@dataclass(frozen=True)
class Pair:
    """One utterance in g2p's symbols and in flite's phones; both have F frames."""

    spelled: Utterance
    spoken: Utterance


@dataclass(frozen=True)
class Rows:
    """One spelling of B utterances."""

    input_ids: Tensor  # [B, T] int64, zeros behind each end
    lengths: Tensor  # [B] tokens
    durations: Tensor  # [B, T] frames, 0 behind each end
    token_of_frame: Tensor  # [B, F] the gather that aligns, 0 behind each end

    @classmethod
    def of(cls, utterances: list[Utterance]) -> "Rows":
        tokens = [torch.from_numpy(np.repeat(np.arange(len(u.durations)), u.durations)) for u in utterances]
        return cls(
            input_ids=_padded([torch.from_numpy(u.input_ids).long() for u in utterances]),
            lengths=torch.tensor([len(u.input_ids) for u in utterances]),
            durations=_padded([torch.from_numpy(u.durations).float() for u in utterances]),
            token_of_frame=_padded(tokens),
        )

    def inside(self) -> Tensor:
        """[B, T, 1]: 1 on the utterance, 0 in the padding."""
        return (torch.arange(self.input_ids.shape[1]) < self.lengths[:, None]).float().unsqueeze(2)

    def per_frame(self, columns: Tensor) -> Tensor:
        """columns [B, C, 1, T] -> [B, C, 1, F]."""
        index = self.token_of_frame[:, None, None].expand(-1, columns.shape[1], 1, -1)
        return columns.gather(3, index)


@dataclass(frozen=True)
class EncoderBatch:
    """B utterances, padded to the longest."""

    spelled: Rows
    spoken: Rows
    voices: Tensor  # [B] index into VOICES
    inside: Tensor  # [B, 1, 1, F]: 1 on the utterance
    f0_hz: Tensor  # [B, 2F]
    energy: Tensor  # [B, 2F]

    @property
    def inside_prosody(self) -> Tensor:
        """[B, 2F]."""
        return self.inside[:, 0, 0].repeat_interleave(PROSODY_PER_FRAME, dim=1)


class EncoderBatches:
    """Responsibilities: 1. choose utterances of similar length; 2. stack them."""

    def __init__(self, pairs: list[Pair], seed: int) -> None:
        if not pairs:
            raise InputError("the corpus is empty: python -m demo.lessons makes it")
        self.pairs, self.seed = pairs, seed

    def draw(self, step: int, count: int) -> EncoderBatch:
        """`count` utterances, neighbours in length within a pool drawn for this step."""
        draw = np.random.default_rng(self.seed * STEP_SEEDS + step)
        pool = sorted(draw.integers(len(self.pairs), size=POOL * count), key=lambda i: self.pairs[i].spelled.frames)
        first = int(draw.integers(POOL)) * count
        return stacked([self.pairs[i] for i in pool[first : first + count]])


def stacked(pairs: list[Pair]) -> EncoderBatch:
    """One batch of the given utterances, in this order."""
    spelled = [pair.spelled for pair in pairs]
    return EncoderBatch(
        spelled=Rows.of(spelled),
        spoken=Rows.of([pair.spoken for pair in pairs]),
        voices=torch.tensor([VOICES.index(u.voice) for u in spelled]),
        inside=_padded([torch.ones(u.frames) for u in spelled])[:, None, None],
        f0_hz=_padded([torch.from_numpy(u.f0_hz) for u in spelled]),
        energy=_padded([torch.from_numpy(u.energy) for u in spelled]),
    )


def load_pairs(folder: Path) -> list[Pair]:
    """Every utterance that `demo.lessons` kept, by name; InputError where there is none."""
    files = sorted((folder / SPELLED).glob("*.npz"))
    if not files:
        raise InputError(f"{folder / SPELLED} holds no .npz utterances: python -m demo.lessons makes them")
    return [Pair(load(file), load(folder / SPOKEN / file.name)) for file in files]


def load_recorded(folder: Path) -> list[Utterance]:
    """The same utterances in g2p's symbols, with their recordings."""
    return [replace(pair.spelled, recording=pair.spoken.recording) for pair in load_pairs(folder)]


def _padded(rows: list[Tensor]) -> Tensor:
    return pad_sequence(rows, batch_first=True)
