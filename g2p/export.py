"""The neural model as a Core ML model: ids in, logits out, for several numbers of words at several lengths.

    save_package(exported(model, "w8", "iOS17"), Path("aside.mlpackage"))

w8: the bundled 8-bit values, computed in float32. fp16: the same values in 16 bits, computed in float16.
"""

from typing import TYPE_CHECKING

import numpy as np

from core.export import TensorType, convert, full_disk_is_an_oserror, quiet_coremltools
from g2p.alphabet import MAX_LETTERS
from g2p.facts import IDS, LOGITS

if TYPE_CHECKING:
    import coremltools as ct

    from g2p.model import LetterToSound

METHODS = ("w8", "fp16")
WORDS, SYMBOLS = (1, 8, 64), (8, 12, 16, 24, MAX_LETTERS + 1)  # words in one call; letters of the longest and the tag
SHAPES = tuple((words, symbols) for words in WORDS for symbols in SYMBOLS)


def exported(model: "LetterToSound", method: str, target: str) -> "ct.models.MLModel":
    """Trace and convert; ids int32 [words, symbols] in, logits float32 [words, symbols, 2 * sounds] out."""
    import torch

    example = (torch.ones(SHAPES[0], dtype=torch.int32),)
    inputs, outputs = [TensorType(IDS, np.int32, shapes=SHAPES)], [TensorType(LOGITS, np.float32)]
    precision = "fp16" if method == "fp16" else "fp32"
    converted = convert(model, example, inputs=inputs, outputs=outputs, precision=precision, keep_fp32=(), target=target)
    return in_int8(converted) if method == "w8" else converted


def in_int8(model: "ct.models.MLModel") -> "ct.models.MLModel":
    """Every linear layer's matrix as int8 with one scale a row: the grid the weights already stand on, so nothing is lost."""
    with quiet_coremltools(), full_disk_is_an_oserror():
        from coremltools.optimize.coreml import OpLinearQuantizerConfig, OptimizationConfig, linear_quantize_weights

        linear = OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8", granularity="per_channel", weight_threshold=0)
        return linear_quantize_weights(model, config=OptimizationConfig(op_type_configs={"linear": linear}))
