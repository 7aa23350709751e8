"""Dimensions that are a number or a length in words, "120 * frames + 1": put in, and solved for.

sizes((1, "120 * frames + 1"), {"frames": 40})     # (1, 4801)
solved("120 * frames + 1", 4801)                   # {"frames": 40}
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kokoro_ane.core.errors import InputError

Dimension = int | str
_LENGTH = re.compile(r"(?:(\d+) \* )?([a-z_]+)(?: \+ (\d+))?")


def _parsed(dimension: str) -> tuple[int, str, int] | None:
    match = _LENGTH.fullmatch(dimension)
    return (int(match[1] or 1), match[2], int(match[3] or 0)) if match else None


def sizes(shape: Sequence[Dimension], lengths: Mapping[str, Any]) -> tuple[Any, ...]:
    """The shape with its lengths put in, which may be symbols. InputError where one is not
    known.
    """
    values: list[Any] = []
    for dimension in shape:
        parts = (0, "", int(dimension)) if str(dimension).isdecimal() else _parsed(str(dimension))
        if parts is None or (parts[0] and parts[1] not in lengths):
            raise InputError(f"no input says how long {str(dimension)!r} is")
        values.append(_value(*parts, lengths))
    return tuple(values)


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


def lengths_of(
    dimensions: Mapping[str, Sequence[Dimension]], shapes: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, tuple[int, int]]:
    """Smallest and largest of each length, from the shapes that a package takes of each tensor."""
    seen: dict[str, list[int]] = {}
    for tensor, dims in dimensions.items():
        for shape in shapes[tensor]:
            for dimension, size in zip(dims, shape, strict=True):
                for name, value in solved(dimension, size).items():
                    seen.setdefault(name, []).append(value)
    return {name: (min(values), max(values)) for name, values in seen.items()}
