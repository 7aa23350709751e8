"""Run and examine any Core ML program on any machine.

    from mlprogram import Program
    Program("model.mlpackage")({"x": array})
"""
from mlprogram.errors import NonFiniteInput, ProgramError
from mlprogram.interface import TensorSpec
from mlprogram.precision import PRECISIONS
from mlprogram.program import Program

__all__ = ["PRECISIONS", "NonFiniteInput", "Program", "ProgramError", "TensorSpec"]
