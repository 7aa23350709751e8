"""The one exception of this package: every message says what was wrong, where, and what would be right.

from mlprogram import Program, ProgramError
try:
    Program("missing.mlpackage")
except ProgramError as error:
    print(error)
"""


class ProgramError(ValueError, RuntimeError):
    """A package, a program or an input that cannot be used as it is.

    A ValueError, and a RuntimeError too: coremltools raises that one for whatever Core ML refuses.
    """


class NonFiniteInput(UserWarning):
    """An input holds NaN or infinity; that is allowed, counted and reported."""
