"""The neural model in PyTorch, to train and to export: letters to sounds in one pass, by CTC over
two frames a letter, no recurrence.

    model = LetterToSound.load()     # the bundled weights
    # ids [B, S] int32, 0 is padding -> [B, S, 2 * sounds]: both frames of a letter side by side
    logits = model(ids)

Everything is [B, S, C] with Linear layers: the model runs on the CPU, where a product of [B S, C]
is what the hardware is built for. Heads, frames and taps are split with literal sizes, so the
exported graph has no shape arithmetic. The mask comes from the ids: padding changes nothing.
Sources: Graves et al. 2006 (CTC); Nozaki and Komatsu, arXiv 2104.02724 (self-conditioning: the
second half of the network reads what the first half would have answered); Ren et al., arXiv
1905.09263 (a convolution as the first of the two layers after attention).
"""

import dataclasses
import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_g2p.alphabet import FRAMES, PADDING, Alphabet
from kokoro_g2p.files import open_aside, write_json
from kokoro_g2p.neural import (
    EXCLUDED,
    LARGEST,
    SCALE,
    WEIGHTS,
    Config,
    describe_mismatch,
    load_arrays,
)


class LetterAttention(nn.Module):
    """Self-attention over the unpadded symbols."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.scale = config.heads, 1 / math.sqrt(config.width // config.heads)
        self.query, self.key, self.value, self.out = (
            nn.Linear(config.width, config.width) for _ in range(4)
        )

    def forward(self, x: Tensor, excluded: Tensor) -> Tensor:
        """x [B, S, C], excluded [B, 1, S] (0, or -EXCLUDED in the padding) -> [B, S, C]."""
        parts = (layer(x).chunk(self.heads, dim=2) for layer in (self.query, self.key, self.value))
        # One head after the other, each [B, S, C / heads]: no axis for heads is ever made.
        mixed = [
            self._compute_head(query, key, value, excluded)
            for query, key, value in zip(*parts, strict=True)
        ]
        return self.out(torch.cat(mixed, dim=2))  # heads of [B, S, C / heads] -> [B, S, C]

    def _compute_head(self, query: Tensor, key: Tensor, value: Tensor, excluded: Tensor) -> Tensor:
        # A padded key is so far below that its weight is exactly 0.
        scores = query @ key.transpose(1, 2) * self.scale + excluded  # [B, S, S]
        return torch.softmax(scores, dim=2) @ value


class TransformerBlock(nn.Module):
    """Attention, then a convolution over three symbols and a linear layer; each normalized before
    and added.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(2))
        self.attention = LetterAttention(config)
        self.taps, self.narrow = (
            nn.Linear(3 * config.width, config.inner),
            nn.Linear(config.inner, config.width),
        )
        self.dropout = SharedDropout(config.dropout)

    def forward(self, x: Tensor, inside: Tensor, excluded: Tensor) -> Tensor:
        """[B, S, C] -> [B, S, C]."""
        x = x + self.dropout(self.attention(self.norms[0](x), excluded))
        # Zeros in the padding too, so that a word's end looks alike in every batch.
        padded = F.pad(self.norms[1](x) * inside, (0, 0, 1, 1))  # [B, S + 2, C]
        near = torch.cat([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]], dim=2)  # [B, S, 3C]
        return x + self.dropout(self.narrow(F.relu(self.taps(near))))


class SharedDropout(nn.Module):
    """Dropout of whole channels of a word: one random number for all its symbols."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, C] -> [B, S, C]; unchanged out of training."""
        if not self.training or not self.rate:
            return x
        # [B, 1, C]: a channel is kept or dropped for a whole word, and what is kept makes up for it
        mask = torch.rand(x.shape[0], 1, x.shape[2]) >= self.rate
        return x * (mask / (1 - self.rate)).to(x.dtype)


class LetterToSound(nn.Module):
    """Responsibilities: 1. letters to features; 2. logits, and the same midway, fed back and for
    training.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        # Both frames of a symbol are answered side by side.
        answers = FRAMES * config.sounds
        self.embedding = nn.Embedding(config.symbols, width)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(width)
        self.answer, self.condition = nn.Linear(width, answers), nn.Linear(answers, width)

    @classmethod
    def load(cls, path: Path | None = None) -> "LetterToSound":
        """The bundled model or that of `path`, in float32, ready to answer. Raises InputError as
        `load_arrays` does.
        """
        arrays, config = load_arrays(path)
        try:
            model = cls(config).eval()
            model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        except (TypeError, ValueError, RuntimeError) as problem:
            raise describe_mismatch(path or WEIGHTS, problem) from None
        return model.requires_grad_(False)

    def run(self, ids: np.ndarray) -> np.ndarray:
        """Return logits [B, S, 2 * sounds] of ids [B, S], as NeuralG2P asks for them."""
        with torch.inference_mode():
            return self(torch.from_numpy(ids)).numpy()

    def forward(self, ids: Tensor) -> Tensor:
        """ids [B, S] -> logits [B, S, 2 * sounds]; what stands in the padding means nothing."""
        return self.stages(ids)[-1]

    def stages(self, ids: Tensor) -> list[Tensor]:
        """Logits after the blocks of `answers` and after the last, [B, S, 2 * sounds] each."""
        inside = (ids != PADDING).to(self.norm.weight.dtype)  # [B, S]
        excluded = ((inside - 1) * EXCLUDED).unsqueeze(1)  # [B, 1, S]
        x = self.embedding(ids)  # [B, S, C]
        inside = inside.unsqueeze(2)  # [B, S, 1]
        layers_out = []
        for number, block in enumerate(self.blocks, start=1):
            x = block(x, inside, excluded)
            if number in self.config.answers:
                layers_out.append(self.answer(self.norm(x)))
                # Each frame has a softmax of its own.
                guess = torch.cat(
                    [torch.softmax(frame, dim=2) for frame in layers_out[-1].chunk(FRAMES, dim=2)],
                    dim=2,
                )
                # The rest of the network reads what the first part would have answered.
                x = x + self.condition(guess)
        return [*layers_out, self.answer(self.norm(x))]


def split_frames(logits: Tensor) -> Tensor:
    """The two frames of every letter one after the other: [B, S, 2 * sounds] -> [B, 2S, sounds]."""
    batch, symbols, both = logits.shape
    return logits.reshape(batch, FRAMES * symbols, both // FRAMES)  # [B, 2S, sounds]


def quantize_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A matrix [out, in] as int8 [out, in] and float32 scales [out, 1]: the largest magnitude of a
    row becomes 127.
    """
    scale = (np.abs(matrix).max(axis=1, keepdims=True) / LARGEST).astype(np.float32)
    # A row of zeros has no magnitude to divide by.
    scale[scale == 0] = 1
    return np.rint(matrix / scale).astype(np.int8), scale


def save_weights(
    model: LetterToSound, path: Path, training: dict[str, Any], alphabet: Alphabet | None = None
) -> None:
    """Write the parameters as `path` (.npz), matrices in 8 bits, and beside it a .json with their
    SHA-256, the sizes, `training` and an alphabet that is no dialect's of English.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, parameter in model.state_dict().items():
        arrays[name] = parameter.detach().numpy().astype(np.float32)
        # Only matrices get 8 bits; embedding, gains and biases are small and stay exact.
        if parameter.dim() == 2 and name != "embedding.weight":
            arrays[name], arrays[name + SCALE] = quantize_rows(arrays[name])
    with open_aside(path) as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)
    # The hash is that of the file as it stands, which readers check before they parse it.
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest = {"sha256": digest, "config": dataclasses.asdict(model.config), "training": training}
    if alphabet is not None:
        manifest["alphabet"] = dataclasses.asdict(alphabet)
    write_json(path.with_suffix(".json"), manifest)
