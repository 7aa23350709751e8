"""The executed package in the place of PyTorch: words are padded to the nearest enumerated shape, padding cut off the logits.

reader = NeuralG2P(run=package_run(Program("build/G2P.mlpackage")))
reader.predict(["Kokoro"])
"""

import numpy as np

from core.errors import InputError
from g2p.alphabet import MAX_LETTERS, PADDING
from g2p.neural import Run
from mlprogram import Program

IDS, LOGITS = "ids", "logits"
WORDS, SYMBOLS = (1, 8, 64), (8, 12, 16, 24, MAX_LETTERS + 1)  # words in one call; letters of the longest and the tag
SHAPES = tuple((words, symbols) for words in WORDS for symbols in SYMBOLS)


def shape_for(words: int, symbols: int, shapes: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
    """The smallest of `shapes` (words, symbols) that holds so many. Raises InputError when none does."""
    fitting = [(w, s) for w, s in shapes if w >= words and s >= symbols]
    if not fitting:
        raise InputError(f"{words} words of {symbols} symbols: the package takes at most {max(shapes)}")
    return min(fitting, key=lambda shape: (shape[0] * shape[1], shape))


def package_run(program: Program) -> Run:
    """ids [B, S] -> logits [B, S, 2 * sounds] by the package."""
    shapes = tuple(tuple(shape) for shape in program.inputs[IDS].shapes)

    def run(ids: np.ndarray) -> np.ndarray:
        words, symbols = ids.shape
        wide = shape_for(words, symbols, shapes)
        padded = np.full(wide, PADDING, dtype=np.int32)
        padded[:words, :symbols] = ids
        padded[words:, 0] = 1  # a row of nothing but padding would attend to nothing
        return program({IDS: padded})[LOGITS].numpy()[:words, :symbols]

    return run
