"""Sizes of the neural model, known without PyTorch: Config(width=160, heads=2, ...)."""

from dataclasses import dataclass

from g2p.alphabet import SOUNDS

EXCLUDED = 1e4  # taken off the score of a padded key: its weight is then exactly 0 in fp16 and fp32


@dataclass(frozen=True)
class Config:
    """Sizes; `answers` are the blocks after which the model answers and reads its own answer, the last one always."""

    width: int = 160
    heads: int = 2
    inner: int = 256
    blocks: int = 5
    answers: tuple[int, ...] = (3,)
    dropout: float = 0.1
    sounds: int = len(SOUNDS)  # of the dialect's alphabet
