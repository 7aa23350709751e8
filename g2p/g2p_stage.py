"""The neural model of g2p as a Stage: ids in, logits out, for several numbers of words at several
lengths.

    (manifest,) = build(G2PStage(weights, method="w8"), Path("build"))

w8: the bundled 8-bit values, computed in float32: the same numbers as the bundled model. fp16: the
same values in 16 bits.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kokoro_ane.core.builder import Part
from kokoro_ane.core.checks import Check, ProgramFacts, require
from kokoro_ane.core.contract import G2P_NAME, MAIN
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.export import Function, TensorType, full_disk_is_an_oserror, quiet_coremltools
from kokoro_ane.g2p.alphabet import (
    AMERICAN,
    BLANK,
    FRAMES,
    LETTERS,
    MAX_LETTERS,
    PADDING,
    SOUNDS,
    TAGS,
    encode,
)
from kokoro_ane.g2p.network import LetterToSound, load_model, torch_run
from kokoro_ane.g2p.neural import Config, NeuralG2P, Run, read_manifest
from kokoro_ane.g2p.word_lists import MISAKI_VERSION, SHA256
from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct

IDS, LOGITS = "ids", "logits"
# words in one call, never enumerated (core/export.py); letters of the longest and the tag
WORDS, SYMBOLS = 16, (8, 12, 16, 24, MAX_LETTERS + 1)
SHAPES = tuple((WORDS, symbols) for symbols in SYMBOLS)


def package_run(program: Program) -> Run:
    """ids [B, S] -> logits [B, S, 2 * sounds] by the package, in calls of as many words as it
    takes.
    """
    rows, lengths = program.inputs[IDS].shape[0], [s for _, s in program.inputs[IDS].shapes]

    def run(ids: np.ndarray) -> np.ndarray:
        words, symbols = ids.shape
        fitting = [length for length in lengths if length >= symbols]
        if not fitting:
            raise InputError(f"{symbols} symbols: the package takes at most {max(lengths)}")
        # whole calls
        padded = np.full((words + -words % rows, min(fitting)), PADDING, dtype=np.int32)
        padded[:words, :symbols] = ids
        padded[words:, 0] = 1  # a row of nothing but padding would attend to nothing
        calls = padded.reshape(-1, rows, padded.shape[1])  # [calls, rows, S]
        logits = [program({IDS: call})[LOGITS].numpy() for call in calls]
        return np.concatenate(logits)[:words, :symbols]

    return run


LIMIT_LOGITS = {"w8": 1e-3, "fp16": 0.5}  # largest difference; the logits span about 40
# percent of random words answered alike; fp16 turns near-ties
LIMIT_SAME = {"w8": 100.0, "fp16": 98.0}
WORDS_OF_A_LENGTH = 8


def check_words(seed: int = 0) -> list[str]:
    """Random words of every length the model reads."""
    drawn = random.Random(seed)
    return [
        "".join(drawn.choices(LETTERS, k=length))
        for length in range(1, MAX_LETTERS + 1)
        for _ in range(WORDS_OF_A_LENGTH)
    ]


def figures_of(package: Run, reference: Run, method: str) -> list[Check]:
    """Worst logits over the enumerated shapes, and the share of equal answers."""
    words = check_words()
    worst = max(_difference(package, reference, words, shape) for shape in SHAPES)
    pair = (NeuralG2P(run=run).predict(words) for run in (package, reference))
    same = [one.phonemes == other.phonemes for one, other in zip(*pair, strict=True)]
    return [
        Check(
            "largest difference of a logit from PyTorch",
            worst,
            LIMIT_LOGITS[method],
            at_least=False,
            unit="",
        ),
        Check(
            "random words answered alike",
            100 * sum(same) / len(same),
            LIMIT_SAME[method],
            at_least=True,
            unit="%",
        ),
    ]


def _difference(package: Run, reference: Run, words: list[str], shape: tuple[int, int]) -> float:
    """One full call at an enumerated shape; the padding does not count."""
    rows, symbols = shape
    fitting = [encode(word) for word in words if len(word) < symbols][-rows:]
    ids = np.full((len(fitting), symbols), PADDING, dtype=np.int32)
    for row, row_symbols in zip(ids, fitting, strict=True):
        row[: len(row_symbols)] = row_symbols
    return float(np.abs(reference(ids) - package(ids))[ids != PADDING].max())


METHODS = ("w8", "fp16")
FORBIDDEN = (
    "lstm",
    "gru",
    "rnn",
    "while_loop",
    "cond",
    "shape",
    "reshape",
    "scatter",
    "scatter_nd",
    "scatter_along_axis",
    "gather_along_axis",
    "gather_nd",
    "non_zero",
    "random_normal",
    "random_uniform",
    "random_bernoulli",
)
MAX_OPERATIONS = 400
COMPUTE_UNITS = {
    "default": "CPU_ONLY",
    "reason": "1.4 million weights: a call ends before another unit would have started",
}


@dataclass(frozen=True, eq=False)
class G2PStage:
    """See core.builder.Stage."""

    weights: Path
    method: str = "w8"
    target: str = "iOS17"

    @property
    def precision(self) -> str:
        """Of the arithmetic."""
        return "fp16" if self.method == "fp16" else "fp32"

    @cached_property
    def model(self) -> LetterToSound:
        """In PyTorch."""
        return load_model(self.weights)

    def parts(self) -> tuple[Part, ...]:
        """w8 is the package that everything else looks for."""
        return (Part(G2P_NAME, G2P_NAME if self.method == "w8" else f"{G2P_NAME}-{self.method}"),)

    def function(self, name: str = MAIN) -> Function:
        """ids int32 [words, symbols] in, logits float32 [words, symbols, 2 * sounds] out."""
        example = (torch.ones(SHAPES[0], dtype=torch.int32),)
        return Function(
            self.model,
            example,
            (TensorType(IDS, np.int32, shapes=SHAPES),),
            (TensorType(LOGITS, np.float32),),
        )

    def finish(self, model: "ct.models.MLModel") -> "ct.models.MLModel":
        """w8: matrices as int8 with one scale a row, the grid that the weights already stand on, so
        nothing is lost.
        """
        if self.method != "w8":
            return model
        with quiet_coremltools(), full_disk_is_an_oserror():
            from coremltools.optimize.coreml import (
                OpLinearQuantizerConfig,
                OptimizationConfig,
                linear_quantize_weights,
            )

            linear = OpLinearQuantizerConfig(
                mode="linear_symmetric", dtype="int8", granularity="per_channel", weight_threshold=0
            )
            return linear_quantize_weights(
                model, config=OptimizationConfig(op_type_configs={"linear": linear})
            )

    def facts(self, name: str, program: Program) -> ProgramFacts:
        """No recurrence, no shapes, one gather (the embedding), every matrix in int8."""
        facts = ProgramFacts.of(program, IDS, FORBIDDEN)
        gathers, matrices = (
            facts.operations.get("gather", 0),
            matrix_count(self.model.config) if self.method == "w8" else 0,
        )
        stage_promises = {
            f"{gathers} gathers, expected 1: the embedding": gathers == 1,
            f"{facts.count} operations, limit {MAX_OPERATIONS}": facts.count <= MAX_OPERATIONS,
            f"{facts.int8_weights} weights in int8, expected {matrices}": facts.int8_weights
            == matrices,
        }
        require(facts.promises(self.precision, len(SHAPES)) | stage_promises, "the program")
        return facts

    def figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """Logits and answers."""
        return figures_of(package_run(programs[MAIN]), torch_run(self.model), self.method)

    def contract(self, part: Part) -> dict[str, Any]:
        """Its alphabets, its shapes, how to read the logits, and the weights it came from."""
        trained, config = read_manifest(self.weights), self.model.config
        ids = {
            "shape": ["words", "symbols"],
            "dtype": "int32",
            "padding": PADDING,
            "shapes": [list(shape) for shape in SHAPES],
            "first": {tag: 1 + place for place, tag in enumerate(TAGS)},
            "letters": AMERICAN.letter_ids,
        }
        logits = {
            "shape": ["words", "symbols", f"{FRAMES} * {len(SOUNDS)}"],
            "dtype": "float32",
            "frames": FRAMES,
            "sounds": list(SOUNDS),
            "blank": BLANK,
            "read": "CTC over frames * symbols, one primary stress a word",
        }
        return {
            "method": self.method,
            "checkpoint": {"name": self.weights.stem, "sha256": trained["sha256"]},
            "releasable": True,
            "buckets": SYMBOLS,
            "hidden_dim": config.width,
            "inputs": {IDS: ids},
            "outputs": {LOGITS: logits},
            "source": {
                "data": f"misaki {MISAKI_VERSION}, Apache-2.0",
                "sha256": {tag: SHA256[tag] for tag in TAGS},
                "training": trained["training"],
            },
            "compute_units": COMPUTE_UNITS,
        }


def matrix_count(config: Config) -> int:
    """Linear layers: six in a block, the answer (a second time for each answer midway when it is
    not shared), the condition.
    """
    return 6 * config.blocks + 2
