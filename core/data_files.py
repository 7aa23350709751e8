"""Data that nobody vouches for: JSON from a file, checked against type hints; names that become
file names; the hash of a file.

    data = read_json(Path("build/x.json"), missing="`kokoro-ane build` writes it")
    # a dataclass or a TypedDict: its keys and their kinds
    conform(data, Manifest, "build/x.json")
    conform(data["buckets"], tuple[int, ...], "buckets")

Raises InputError naming the place. A whole number is no bool, a float may be written as a whole
number, Any is not looked into.
"""

import dataclasses
import hashlib
import json
import os
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kokoro_g2p
from kokoro_ane.core.errors import CheckFailed, InputError

# of any file that a checkpoint, a package or a bundle holds: more is not read to be hashed
LARGEST_BYTES = 1 << 32
MAX_TEXT_BYTES = 100_000_000
NAME = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,64}")
Record = typing.TypeVar("Record")
KINDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def read_json(path: Path, missing: str, again: str = "") -> Any:
    """Parsed JSON. InputError says `missing` when there is no such file, and `again` after what is
    wrong with one that is not JSON.

    Limits: MAX_TEXT_BYTES, and those of parse_json.
    """
    try:
        # A pipe or a device would be read without end.
        if path.is_file():
            return parse_json(read_text(path, again), str(path), again)
        state = "is not a file" if path.exists() else "does not exist"
    except OSError as problem:
        raise InputError(f"cannot read {path}: {problem.strerror}") from None
    raise InputError(f"{path} {state}: {missing}")


def read_text(path: Path, again: str = "") -> str:
    """UTF-8 of a file. Raises InputError for MAX_TEXT_BYTES and for other bytes."""
    size = path.stat().st_size
    if size > MAX_TEXT_BYTES:
        raise InputError(f"{path}: {size} bytes, more than {MAX_TEXT_BYTES}{again}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise InputError(f"{path}: not UTF-8 ({problem.reason}){again}") from None


def parse_json(
    text: str,
    where: str,
    again: str = "",
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """JSON from text that nobody vouches for; `where` names it in the InputError. `pairs`: instead
    of a dict, from its pairs.
    """
    try:
        return kokoro_g2p.parse_json(text, where, pairs)
    except InputError as problem:
        raise InputError(f"{problem}{again}") from None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. Raises InputError for anything that is not one, a pipe for
    one, and for more than LARGEST_BYTES.
    """
    # A pipe would be read without end.
    if not path.is_file():
        raise InputError(f"{path} {'is not a file' if os.path.lexists(path) else 'does not exist'}")
    if (size := path.stat().st_size) > LARGEST_BYTES:
        raise InputError(
            f"{path} has {size} bytes: no file of a checkpoint, package or bundle has more than"
            f" {LARGEST_BYTES}"
        )
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_json(data: object) -> str:
    """SHA-256 of plain data, however its keys are ordered."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def check_name(name: str, where: str) -> str:
    """`name`, if a file may be called after it: letters, digits, dot, dash, underscore, 64 at most,
    no dot first.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            f"{where} is {str(name)[:80]!r}: a name has letters, digits, dot, dash and underscore,"
            " 64 at most, no dot first"
        )
    return name


def check_inside(file: str, where: str) -> str:
    """`file`, if it is a relative path of such names that stays where it is."""
    for part in file.split("/"):
        check_name(part, where)
    return file


@contextmanager
def readable(path: Path, again: str, *others: type[Exception]) -> Iterator[None]:
    """What is read in the block stands in the file `path`: a key or a kind that is wrong there
    becomes an InputError, which ends with `again`.
    """
    damage: tuple[type[Exception], ...] = (
        AttributeError,
        LookupError,
        OverflowError,
        RuntimeError,
        StopIteration,
        TypeError,
        ValueError,
        *others,
    )
    try:
        yield
    # These say already what is wrong; InputError is a ValueError too.
    except (InputError, CheckFailed):
        raise
    except damage as problem:
        what = f"{type(problem).__name__}: {str(problem)[:120]}".splitlines()[0]
        raise InputError(f"{path} does not hold what it should ({what}): {again}") from None


def conform(value: Any, hint: Any, where: str) -> None:
    """Raise InputError unless `value` (parsed JSON; a list may stand for a tuple) is what `hint`
    says: numbers are finite, a dataclass's keys are all known, beside a TypedDict's others may
    stand. `where` names the value.
    """
    origin = typing.get_origin(hint)
    inner = typing.get_args(hint)
    if hint is Any:
        return
    if origin in (typing.Union, types.UnionType):
        problems = []
        for each in inner:
            try:
                conform(value, each, where)
                return
            except InputError as problem:
                problems.append(problem)
        # Where none fits, the complaint of the first alternative is shown.
        raise problems[0]
    if origin in (tuple, list, typing.Sequence):
        if not isinstance(value, list | tuple):
            raise InputError(f"{where} is {_describe(value)}, not a list")
        for index, item in enumerate(value):
            conform(item, inner[0], f"{where}[{index}]")
        return
    is_record = dataclasses.is_dataclass(hint) or typing.is_typeddict(hint)
    kind = dict if is_record or origin in (dict, Mapping) else hint
    # JSON writes 1.0 as 1, and Python takes True for 1.
    allowed: Any = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{where} is {_describe(value)}, not {KINDS.get(kind, 'an object')}")
    # Not below infinity: this is true of NaN, too.
    if kind is float and not abs(value) < float("inf"):
        raise InputError(f"{where} is {value}, not a finite number")
    if is_record:
        _require_fields(value, hint, where)
    elif kind is dict:
        for key, item in value.items():
            conform(item, inner[1], f"{where}.{key[:80]}")


def _require_fields(value: dict[str, Any], hint: Any, where: str) -> None:
    hints = typing.get_type_hints(hint)
    if dataclasses.is_dataclass(hint):
        needed = {
            each.name
            for each in dataclasses.fields(hint)
            # A field with neither a default nor a factory has to be given.
            if each.default is each.default_factory is dataclasses.MISSING
        }
        unknown = sorted(set(value) - set(hints))
        if unknown:
            known = ", ".join(sorted(hints))
            raise InputError(f"{where} has the unknown key {unknown[0][:80]!r}; known: {known}")
    else:
        needed = hint.__required_keys__
    missing = sorted(needed - set(value))
    if missing:
        raise InputError(f"{where} has no key {missing[0]!r}")
    for name in set(hints) & set(value):
        conform(value[name], hints[name], f"{where}.{name}")


def fill_defaults(kind: type[Record], data: Any, where: str) -> Record:
    """Return the dataclass `kind`, and those in it, from parsed JSON that conforms to it; its lists
    are tuples.
    """
    conform(data, kind, where)
    values = {}
    for each in dataclasses.fields(kind):  # type: ignore[arg-type]
        if each.name in data:
            value = data[each.name]
            # A dataclass within it has defaults of its own to fill in.
            is_section = dataclasses.is_dataclass(each.type)
            values[each.name] = (
                fill_defaults(each.type, value, where)  # type: ignore[arg-type]
                if is_section
                else _freeze(value)
            )
    return kind(**values)


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value


def _describe(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}..."
