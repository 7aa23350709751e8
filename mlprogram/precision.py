"""What a declared type means when a program runs: the seven precisions.

    from mlprogram.precision import precision_named
    precision_named("declared").working(BY_NAME["fp16"])  # torch.float16

| name | fp16 tensors | arithmetic |
| --- | --- | --- |
| declared | stored as fp16, so rounded after every operation | fp32 inside an operation, one rounding at its end |
| exact | fp32 | fp32 |
| exact64 | fp64 (fp32 tensors too) | fp64 |
| declared64 | as declared | as declared, but sums of products in fp64: mlprogram/wide_sums.py |
| ane_numerics | as declared | as mlprogram/ane_numerics.py models the Neural Engine |
| core_ai | as declared | rounded where Apple's Core AI runtime rounds on a CPU: mlprogram/core_ai_numerics.py |
| core_ai64 | as declared | as core_ai, but sums of products in fp64 |
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mlprogram.dtypes import DType
from mlprogram.errors import ProgramError

MODELS = ("declared64", "ane_numerics", "core_ai", "core_ai64")
PRECISIONS = ("declared", "exact", "exact64", *MODELS)


@dataclass(frozen=True)
class Precision:
    """One precision: `wide` replaces every declared float type if set; `model` names kernels for fp16 results (KERNELS_OF in plan.py)."""

    name: str
    wide: torch.dtype | None
    model: str | None

    def working(self, dtype: DType) -> torch.dtype:
        """The PyTorch type that holds a value of a declared type."""
        return self.wide if dtype.is_float and self.wide is not None else dtype.torch  # type: ignore[return-value]  # None for a string: plan.Output


def precision_named(name: str) -> Precision:
    """The precision of a name in PRECISIONS. Raises ProgramError for another name."""
    if name not in PRECISIONS:
        raise ProgramError(f"precision '{name}' is unknown; one of {', '.join(PRECISIONS)}")
    return Precision(name, {"exact": torch.float32, "exact64": torch.float64}.get(name), name if name in MODELS else None)
