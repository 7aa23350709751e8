"""The one exception of this package: every message says what was wrong, where, and what would be right.

from mlprogram import Program, ProgramError
try:
    Program("missing.mlpackage")
except ProgramError as error:
    print(error)
"""


class ProgramError(ValueError):
    """A package, a program or an input that cannot be used as it is."""


class NonFiniteInput(UserWarning):
    """An input holds NaN or infinity; that is allowed, counted and reported."""
