"""The neural model of g2p as a Stage: ids in, logits out, for several numbers of words at several
lengths.

    (manifest,) = build(G2PStage(weights, method="w8"), Path("build"))

w8: the bundled 8-bit values, computed in float32: the same numbers as the bundled model. fp16: the
same values in 16 bits.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kokoro_ane.core import (
    G2P_NAME,
    MAIN,
    Artifact,
    Check,
    FunctionSpec,
    InputError,
    ProgramFacts,
    TensorType,
    full_disk_is_an_oserror,
    quiet_coremltools,
    require,
)
from kokoro_g2p import AMERICAN, LetterToSound, NeuralG2P, describe_weights
from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct

IDS, LOGITS = "ids", "logits"
# words in one call, never enumerated (core/export.py); letters of the longest and the tag
WORDS = 16
SYMBOLS = (8, 12, 16, 24, AMERICAN.max_letters + 1)
Run = Callable[[np.ndarray], np.ndarray]  # ids [B, S] -> logits [B, S, 2 * sounds]
SHAPES = tuple((WORDS, symbols) for symbols in SYMBOLS)


def make_package_run(program: Program) -> Run:
    """ids [B, S] -> logits [B, S, 2 * sounds] by the package, in calls of as many words as it
    takes.
    """
    rows = program.inputs[IDS].shape[0]
    lengths = [s for _, s in program.inputs[IDS].shapes]

    def run(ids: np.ndarray) -> np.ndarray:
        words, symbols = ids.shape
        fitting = [length for length in lengths if length >= symbols]
        if not fitting:
            raise InputError(f"{symbols} symbols: the package takes at most {max(lengths)}")
        # whole calls
        padded = np.full((words + -words % rows, min(fitting)), AMERICAN.padding, dtype=np.int32)
        padded[:words, :symbols] = ids
        padded[words:, 0] = 1  # a row of nothing but padding would attend to nothing
        calls = padded.reshape(-1, rows, padded.shape[1])  # [calls, rows, S]
        logits = [program({IDS: call})[LOGITS].numpy() for call in calls]
        # Words and symbols that only fill a call are cut off.
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
        "".join(drawn.choices(AMERICAN.letters, k=length))
        for length in range(1, AMERICAN.max_letters + 1)
        for _ in range(WORDS_OF_A_LENGTH)
    ]


def measure_logits(package: Run, reference: Run, method: str) -> list[Check]:
    """Worst logits over the enumerated shapes, and the share of equal answers."""
    words = check_words()
    worst = max(_measure_difference(package, reference, words, shape) for shape in SHAPES)
    pair = (NeuralG2P(run=run).predict(words) for run in (package, reference))
    # Both read the same words, so that answers are compared in order.
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


def _measure_difference(
    package: Run, reference: Run, words: list[str], shape: tuple[int, int]
) -> float:
    """One full call at an enumerated shape; the padding does not count."""
    rows, symbols = shape
    # The longest that fit: a tag stands before the letters of a word.
    fitting = [AMERICAN.encode(word) for word in words if len(word) < symbols][-rows:]
    ids = np.full((len(fitting), symbols), AMERICAN.padding, dtype=np.int32)
    for row, row_symbols in zip(ids, fitting, strict=True):
        row[: len(row_symbols)] = row_symbols
    # Logits in the padding mean nothing.
    return float(np.abs(reference(ids) - package(ids))[ids != AMERICAN.padding].max())


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
        return LetterToSound.load(self.weights)

    def list_artifacts(self) -> tuple[Artifact, ...]:
        """w8 is the package that everything else looks for."""
        return (
            Artifact(G2P_NAME, G2P_NAME if self.method == "w8" else f"{G2P_NAME}-{self.method}"),
        )

    def make_function(self, name: str = MAIN) -> FunctionSpec:
        """ids int32 [words, symbols] in, logits float32 [words, symbols, 2 * sounds] out."""
        example = (torch.ones(SHAPES[0], dtype=torch.int32),)
        return FunctionSpec(
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

            # Threshold 0, because the default would leave small matrices in float.
            linear = OpLinearQuantizerConfig(
                mode="linear_symmetric", dtype="int8", granularity="per_channel", weight_threshold=0
            )
            return linear_quantize_weights(
                model, config=OptimizationConfig(op_type_configs={"linear": linear})
            )

    def check_program(self, name: str, program: Program) -> ProgramFacts:
        """No recurrence, no shapes, one gather (the embedding), every matrix in int8."""
        facts = ProgramFacts.from_program(program, IDS, FORBIDDEN)
        gathers = facts.operations.get("gather", 0)
        # Linear layers: six in a block, the answer and the condition, which the answers share.
        matrices = 6 * self.model.config.blocks + 2 if self.method == "w8" else 0
        stage_promises = {
            f"{gathers} gathers, expected 1: the embedding": gathers == 1,
            f"{facts.count} operations, limit {MAX_OPERATIONS}": facts.count <= MAX_OPERATIONS,
            f"{facts.int8_weights} weights in int8, expected {matrices}": facts.int8_weights
            == matrices,
        }
        require(facts.promises(self.precision, len(SHAPES)) | stage_promises, "the program")
        return facts

    def measure_figures(self, programs: Mapping[str, Program]) -> list[Check]:
        """Logits and answers."""
        return measure_logits(make_package_run(programs[MAIN]), self.model.run, self.method)

    def describe_artifact(self, artifact: Artifact) -> dict[str, Any]:
        """Its alphabets, its shapes, how to read the logits, and the weights it came from."""
        ids = {
            "shape": ["words", "symbols"],
            "dtype": "int32",
            "padding": AMERICAN.padding,
            "shapes": [list(shape) for shape in SHAPES],
            "first": {tag: 1 + place for place, tag in enumerate(AMERICAN.tags)},
            "letters": AMERICAN.letter_ids,
        }
        logits = {
            "shape": ["words", "symbols", f"{AMERICAN.frames} * {len(AMERICAN.sounds)}"],
            "dtype": "float32",
            "frames": AMERICAN.frames,
            "sounds": list(AMERICAN.sounds),
            "blank": AMERICAN.blank,
            "read": "CTC over frames * symbols, one primary stress a word",
        }
        return {
            "method": self.method,
            "releasable": True,
            "buckets": SYMBOLS,
            "hidden_dim": self.model.config.width,
            "inputs": {IDS: ids},
            "outputs": {LOGITS: logits},
            "compute_units": COMPUTE_UNITS,
            **describe_weights(self.weights),
        }
