"""What happens to a value between two operations: rounding to the declared type, the check of the declared shape, the way to Python.

finish(step, step.outputs[0], value)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mlprogram.errors import ProgramError

if TYPE_CHECKING:
    from mlprogram.steps import Output, Step


def to_host(value: Any) -> Any:
    """A tensor as Python numbers; anything else as it is."""
    return value.tolist() if isinstance(value, torch.Tensor) else value


def widen(value: Any, dtype: torch.dtype | None) -> Any:
    """An fp16 tensor in a wider type, if one is given; anything else as it is."""
    if dtype is not None and isinstance(value, torch.Tensor) and value.dtype == torch.float16:
        return value.to(dtype)
    return value


def finish(step: Step, output: Output, value: Any) -> Any:
    """Round a result to its declared type, and hold it against its declared shape. Raises ProgramError for another shape."""
    if value.dtype is output.dtype and value.shape == output.fixed:
        return value
    if value.dtype != output.dtype:
        value = value.to(output.dtype)
    declared = output.shape
    if declared is None:
        return value
    if len(declared) != value.dim() or any(want is not None and want != got for want, got in zip(declared, value.shape, strict=True)):
        raise ProgramError(
            f"{step.op.where()} gave shape {list(value.shape)}, the program declares "
            f"{['any' if n is None else n for n in declared]} for '{output.name}'"
        )
    return value


def finish_all(step: Step, result: Any) -> tuple:
    """Every result of an operation."""
    results = result if isinstance(result, tuple) else (result,)
    return tuple(finish(step, o, r) if o.dtype is not None else r for o, r in zip(step.outputs, results, strict=True))
