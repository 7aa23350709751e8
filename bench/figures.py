"""Measured rows as a table for people, and the memory of this process.

print_figures("joins", [{"join": "a pause", "least_s": 0.0213}])
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kokoro_ane.core import print_table


def print_figures(title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> None:
    """Print a column for each of `names`, or for each key of the rows; floats in four digits."""
    # All rows have the keys of the first.
    names = names or tuple(rows[0])
    cells = []
    for row in rows:
        values = [row.get(name, "") for name in names]
        cells.append([f"{x:.4g}" if isinstance(x, float) else str(x) for x in values])
    print_table(title, [name.replace("_", " ") for name in names], cells)


def read_resident_kib(field: str) -> int:
    """Return VmRSS, VmHWM, RssFile or RssAnon of this process in KiB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    # One field a line, as in `VmRSS:  1234 kB`.
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])
