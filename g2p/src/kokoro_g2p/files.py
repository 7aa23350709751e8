"""Files that the reader reads and writes: JSON and arrays that nobody vouches for, and files that
appear under their name only when they are whole.

    with open_aside(Path("tagger.npz")) as aside:
        numpy.savez_compressed(aside, weights=weights)
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kokoro_g2p.errors import InputError

if TYPE_CHECKING:
    import numpy as np

MAX_INTEGER_DIGITS = 30  # of a number in JSON: converting a longer one takes quadratic time


def parse_json(
    text: str, where: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Return what JSON says; `where` names it in the InputError. `pairs` makes something else than
    a dict of an object's pairs.
    """
    try:
        return json.loads(text, parse_int=_parse_integer, object_pairs_hook=pairs)
    except RecursionError:
        raise InputError(f"{where} is not JSON that can be read: nested too deep") from None
    except ValueError as problem:
        raise InputError(f"{where} is not JSON: {str(problem)[:200]}") from None


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def json_text(data: Any) -> str:
    """Return data as JSON the way every file of the reader holds it: sorted and indented."""
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_npz(file: IO[bytes], where: str) -> "dict[str, np.ndarray]":
    """Return the arrays of an .npz. Raises InputError, which names `where`, for a damaged file and
    for one that holds objects.
    """
    # NumPy is not there before the first word that asks for it
    import numpy as np

    try:
        with np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except MemoryError:
        raise
    except Exception as problem:  # noqa: BLE001
        # a damaged header is evaluated as a literal, a dtype is looked up by name: any class
        reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise InputError(f"{where} cannot be read as arrays: {reason[:120]}") from None


@contextmanager
def open_aside(target: Path) -> Iterator[Path]:
    """Yield a path beside `target`, which is renamed over it on success and removed on failure."""
    aside = target.with_name(f".part-{target.name}")
    try:
        yield aside
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def write_json(target: Path, data: Any) -> None:
    """Write data as JSON, aside and renamed."""
    with open_aside(target) as aside:
        aside.write_text(json_text(data), encoding="utf-8")
