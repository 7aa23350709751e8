"""Run and examine any Core ML program on any machine.

from mlprogram import MLModel, Program
Program("model.mlpackage")({"x": array})  # tensors
MLModel("model.mlpackage").predict({"x": array})  # as coremltools' MLModel does on a Mac
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlprogram.dtypes import PRECISIONS
    from mlprogram.errors import NonFiniteInput, OpenShape, ProgramError
    from mlprogram.interface import TensorSpec
    from mlprogram.mlmodel import MLModel, MLState
    from mlprogram.program import Program

__all__ = [
    "PRECISIONS",
    "MLModel",
    "MLState",
    "NonFiniteInput",
    "OpenShape",
    "Program",
    "ProgramError",
    "TensorSpec",
]


def __getattr__(name: str) -> Any:
    """Import on first use: `python -m mlprogram --help` must not wait for torch and coremltools."""
    homes = {
        "dtypes": ("PRECISIONS",),
        "errors": ("NonFiniteInput", "OpenShape", "ProgramError"),
        "interface": ("TensorSpec",),
        "mlmodel": ("MLModel", "MLState"),
        "program": ("Program",),
    }
    for module, names in homes.items():
        if name in names:
            return getattr(import_module(f"mlprogram.{module}"), name)
    raise AttributeError(f"module 'mlprogram' has no attribute {name!r}")
