"""Execute a G2P package and compare it with PyTorch, in logits and in answers, before it gets its name.

figures = check_figures(Program(path), model, "w8")

The words are random letters of every length: less certain than real ones, so an answer turns sooner. Real ones: bench/g2p_words.py.
"""

import random
from typing import TYPE_CHECKING

import numpy as np

from core.figures import Figure
from g2p.alphabet import LETTERS, MAX_LETTERS, PADDING, encode
from g2p.neural import NeuralG2P, Run, torch_run
from g2p.package import SHAPES, package_run
from mlprogram import Program

if TYPE_CHECKING:
    from g2p.model import LetterToSound

LIMIT_LOGITS = {"w8": 1e-3, "fp16": 0.5}  # largest difference; the logits span about 40
LIMIT_SAME = {"w8": 100.0, "fp16": 98.0}  # percent of random words answered alike; fp16 turns near-ties
WORDS_OF_A_LENGTH = 8


def check_words(seed: int = 0) -> list[str]:
    """Random words of every length the model reads."""
    drawn = random.Random(seed)
    return ["".join(drawn.choices(LETTERS, k=length)) for length in range(1, MAX_LETTERS + 1) for _ in range(WORDS_OF_A_LENGTH)]


def check_figures(program: Program, model: "LetterToSound", method: str) -> list[Figure]:
    """The logits of every enumerated shape, then answers."""
    return figures_of(package_run(program), torch_run(model), method)


def figures_of(package: Run, reference: Run, method: str) -> list[Figure]:
    """Worst logits over the enumerated shapes, and the share of equal answers."""
    words = check_words()
    worst = max(_difference(package, reference, words, shape) for shape in SHAPES)
    pair = (NeuralG2P(run=run).predict(words) for run in (package, reference))
    same = [one.phonemes == other.phonemes for one, other in zip(*pair, strict=True)]
    return [
        Figure("largest difference of a logit from PyTorch", worst, LIMIT_LOGITS[method], at_least=False, unit=""),
        Figure("random words answered alike", 100 * sum(same) / len(same), LIMIT_SAME[method], at_least=True, unit="%"),
    ]


def _difference(package: Run, reference: Run, words: list[str], shape: tuple[int, int]) -> float:
    """One full call at an enumerated shape; the padding does not count."""
    rows, symbols = shape
    fitting = [encode(word) for word in words if len(word) < symbols][-rows:]
    ids = np.full((len(fitting), symbols), PADDING, dtype=np.int32)
    for row, own in zip(ids, fitting, strict=True):
        row[: len(own)] = own
    return float(np.abs(reference(ids) - package(ids))[ids != PADDING].max())
