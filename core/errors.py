"""The one exception a user may cause, and the one place that turns it into a clear line and exit code 2.

def main(argv: list[str] | None = None) -> int:
    return run_cli(run, argv)
"""

import errno
import sys
from collections.abc import Callable

ROOMS = ("core", "demo", "g2p", "encoder", "vocoder", "pipeline", "mlprogram", "quantize", "eval", "bench")  # one that is missing is a bug
EXIT_GOOD, EXIT_REJECTED, EXIT_UNDECIDED = 0, 1, 2


class InputError(ValueError):
    """Bad input: the message says what was wrong, where, and what would be right."""


class UtteranceTooLong(InputError):
    """More phonemes or frames than one call of a model takes: what was asked for is good and has to be split."""


class CheckFailed(RuntimeError):
    """An artifact was built, executed, and missed a limit: it is thrown away, exit code 1."""


def run_cli(main: Callable[[list[str] | None], int], argv: list[str] | None) -> int:
    """Call `main(argv)`; a user's mistake becomes one line on stderr and exit 2, a missed limit exit 1.

    A full disk and a Python without the dependencies are a user's mistake too. Anything else is a bug and keeps its traceback.
    """
    try:
        return main(argv)
    except InputError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return EXIT_UNDECIDED
    except CheckFailed as problem:
        print(f"rejected: {problem}", file=sys.stderr)
        return EXIT_REJECTED
    except ModuleNotFoundError as problem:
        if (problem.name or "").split(".")[0] in ROOMS:
            raise
        print(f"error: {problem} in {sys.executable}: run `make venv`, then `. .venv/bin/activate`", file=sys.stderr)
        return EXIT_UNDECIDED
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS):
            raise
        print(f"error: cannot write {problem.filename or 'output'}: {problem.strerror}; nothing was left half-written", file=sys.stderr)
        return EXIT_UNDECIDED
    except KeyboardInterrupt:
        print("error: interrupted; nothing was left half-written", file=sys.stderr)
        return EXIT_UNDECIDED
