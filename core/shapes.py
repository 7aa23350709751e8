"""Dimensions as a contract writes them: a number, a length, or a multiple of one and a rest, such as "600 * bucket + 1".

sizes((1, 1, 1, "600 * bucket"), {"bucket": 40})        # (1, 1, 1, 24000)
solved("bucket + 1", 41)                                # {"bucket": 40}
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from core.errors import InputError

Dimension = int | str
_LENGTH = re.compile(r"(?:(\d+) \* )?([a-z_]+)(?: \+ (\d+))?")


def _parsed(dimension: str) -> tuple[int, str, int] | None:
    found = _LENGTH.fullmatch(dimension)
    return (int(found[1] or 1), found[2], int(found[3] or 0)) if found else None


def sizes(shape: Sequence[Dimension], lengths: Mapping[str, Any]) -> tuple[Any, ...]:
    """The shape with its lengths put in, which may be symbols. InputError where one is not known."""
    found: list[Any] = []
    for dimension in shape:
        parts = (0, "", int(dimension)) if str(dimension).isdecimal() else _parsed(str(dimension))
        if parts is None or (parts[0] and parts[1] not in lengths):
            raise InputError(f"no input says how long {str(dimension)!r} is")
        found.append(_value(*parts, lengths))
    return tuple(found)


def _value(times: int, name: str, rest: int, lengths: Mapping[str, Any]) -> Any:
    """Without products by one or sums with nothing: symbols take either for another length."""
    if not times:
        return rest
    value = lengths[name] if times == 1 else times * lengths[name]
    return value + rest if rest else value


def solved(dimension: Dimension, size: Any) -> dict[str, Any]:
    """What a length is where the dimension has that size; nothing for a number."""
    parts = None if isinstance(dimension, int) else _parsed(dimension)
    if parts is None:
        return {}
    times, name, rest = parts
    value = size - rest if rest else size
    return {name: value if times == 1 else value // times}


def lengths_of(dimensions: Mapping[str, Sequence[Dimension]], shapes: Mapping[str, Sequence[Sequence[int]]]) -> dict[str, tuple[int, int]]:
    """Smallest and largest of each length, from the shapes that a package takes of each tensor."""
    seen: dict[str, list[int]] = {}
    for tensor, dims in dimensions.items():
        for shape in shapes[tensor]:
            for dimension, size in zip(dims, shape, strict=True):
                for name, value in solved(dimension, size).items():
                    seen.setdefault(name, []).append(value)
    return {name: (min(values), max(values)) for name, values in seen.items()}
