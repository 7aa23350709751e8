"""Nested data with one place changed: for files that somebody edits.

for at in places(data): reader(changed(data, at, None))
"""

import copy
from collections.abc import Iterator
from typing import Any


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested data."""
    if at:
        yield at
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*at, key))


def changed(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    """A copy with `value` there."""
    data = copy.deepcopy(data)
    inner = data
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = copy.deepcopy(value)
    return data
