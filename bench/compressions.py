"""coremltools' weight compressions as bench.models applies them, and the PyTorch module with the weights they leave.

model = COMPRESSIONS["int4, blocks of 32"](model, 32)
module = twin(module, model, Path("plain.mlpackage"))
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import coremltools.optimize.coreml as cto
import numpy as np

from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct
    from torch import nn

_ENDING = re.compile("(_to_fp16)?_(quantized|palettized|sparsified)$")  # how coremltools names what it compressed

Compress = Callable[["ct.models.MLModel", int], "ct.models.MLModel"]


def _linear(model: ct.models.MLModel, dtype: str = "int8", joint: bool = False, **more: object) -> ct.models.MLModel:
    config = cto.OpLinearQuantizerConfig(mode="linear_symmetric", dtype=dtype, weight_threshold=0, **more)
    return cto.linear_quantize_weights(model, cto.OptimizationConfig(config), joint_compression=joint)


def _palette(model: ct.models.MLModel, nbits: int, joint: bool = False, **more: object) -> ct.models.MLModel:
    config = cto.OpPalettizerConfig(mode="uniform", nbits=nbits, weight_threshold=0, **more)
    return cto.palettize_weights(model, cto.OptimizationConfig(config), joint_compression=joint)


def _sparse(model: ct.models.MLModel) -> ct.models.MLModel:
    config = cto.OpMagnitudePrunerConfig(target_sparsity=0.6, weight_threshold=0)
    return cto.prune_weights(model, cto.OptimizationConfig(config))


COMPRESSIONS: Mapping[str, Compress] = {
    "int8 weights": lambda model, block: _linear(model),
    "int4 weights in blocks": lambda model, block: _linear(model, "int4", granularity="per_block", block_size=block // 2),
    "palette of 6 bits": lambda model, block: _palette(model, 6),
    "palettes of 4 bits, groups of channels": lambda model, block: _palette(
        model, 4, granularity="per_grouped_channel", group_size=block // 2
    ),
    "sparse, 60 %": lambda model, block: _sparse(model),
    "sparse and palette of 4 bits": lambda model, block: _palette(_sparse(model), 4, joint=True),
    "sparse and int8": lambda model, block: _linear(_sparse(model), joint=True),
}


def twin(module: nn.Module, compressed: ct.models.MLModel, path: Path) -> nn.Module:
    """A copy of `module` with the weights of `compressed` as coremltools decompresses them (written to `path`).

    Raises ValueError where a compressed weight belongs to no parameter of the module.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cto.decompress_weights(compressed).save(str(path))
    plain, copied = Program(path), copy.deepcopy(module)
    owners = {name.replace(".", "_"): p for name, p in copied.named_parameters()}
    changed = 0
    for op in plain.operations:
        name = _ENDING.sub("", op.name) if op.op_type == "const" else op.name
        if name == op.name:
            continue
        if name not in owners:
            raise ValueError(f"compressed weight '{op.name}' belongs to no parameter of the module")
        owners[name].data = torch.from_numpy(np.asarray(plain.constant(op.name), np.float32))
        changed += 1
    if not changed:
        raise ValueError("nothing was compressed")
    return copied
