"""The one exception of this package: every message says what was wrong, where, and what would be
right.

    from mlprogram import Program, ProgramError
    try:
        Program("missing.mlpackage")
    except ProgramError as error:
        print(error)
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_LINE = 1500  # of a message: a name of 100,000 characters is not said back
EXIT_GOOD, EXIT_MISSED, EXIT_BAD_INPUT = 0, 1, 2


class ProgramError(ValueError, RuntimeError):
    """A package, a program or an input that cannot be used as it is.

    A ValueError, and a RuntimeError too: coremltools raises that one for whatever Core ML refuses.
    """


class NonFiniteInput(UserWarning):
    """An input holds NaN or infinity; that is allowed, counted and reported."""


class OpenShape(UserWarning):
    """A program leaves an axis of an input open, and its file does not say which sizes it allows:
    Core ML may refuse the one that was executed.
    """


def one_line(text: str) -> str:
    """`text` without characters that break a line or steer a terminal (they are written as
    escapes), LONGEST_LINE at most.
    """
    # The text is cut before the escapes, so that a huge message costs no time.
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: 2 * LONGEST_LINE])
    return text if len(text) <= LONGEST_LINE else f"{text[: LONGEST_LINE - 300]} ... {text[-290:]}"


def run_command(command: Callable[[], int]) -> int:
    """What a command returns; a user's mistake is one line on stderr and EXIT_BAD_INPUT."""
    try:
        return command()
    # Anything else is a mistake of this package, and its traceback is worth more than one line.
    except (ProgramError, OSError, MemoryError) as problem:
        print(f"error: {one_line(str(problem))}", file=sys.stderr)
        return EXIT_BAD_INPUT


def conclude(report: Mapping[str, Any], code: int, meaning: str, as_json: bool = False) -> int:
    """End a command and return its exit code. A person at a terminal reads the code and what it
    means; a pipe, or whoever asked for JSON, reads the report as one JSON object.
    """
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        print(f"exit {code}: {meaning}")
    if as_json or not is_terminal:
        # What another encoding lacks is escaped by JSON's rules, not by Python's.
        is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
        print(json.dumps(report, ensure_ascii=not is_unicode, allow_nan=False))
    return code
