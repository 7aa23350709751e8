"""What spoils a file: other values in JSON, other bytes, other things in its place.

for at in places(data): reader(changed(data, at, None))
"""

import copy
import json
import os
import pickle
import shutil

from kokoro_ane.core.manifest import count_package_bytes, hash_package
from tests.commands import parsed


def places(value, at=()):
    """Every place in nested data."""
    if at:
        yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def one_of_a_list(data):
    """Every place, the like ones in a list once."""
    kinds = {tuple(0 if isinstance(key, int) else key for key in at): at for at in places(data)}
    return kinds.values()


def changed(data, at, value):
    """A copy with `value` there."""
    data = inner = copy.deepcopy(data)
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = copy.deepcopy(value)
    return data


class Runs:
    """A pickle that would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkfifo, (str(self.path),)


# Of every kind of value that JSON has, and what is wrong with it.
OTHERS = (None, True, 5, -1, 0, 1.5, 10**25, float("nan"), "x", "../../x", "", [], [[]], ["x"], {})
OTHERS += ({"x": {}}, [None])
RARER = (float("inf"), 1e308, "/etc/passwd", "a\0b", "x" * 300, "\ud800", [1] * 1000, -(2**63))
NO_DOCUMENTS = (
    "",
    f'{{"format": {"9" * 5_000}}}',
    "[" * 200_000,
    '{"a":' * 100_000,
    "9" * 5_000,
    '{"format": 1e999}',
)
NO_DOCUMENTS += tuple(
    'null [] 5 "x" { {"format":1} {"format":2} \ufeff{} \0 {"format":NaN}'.split()
)


def bits(path, draw):
    """One to eight bytes are others."""
    data = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 8) if data else 0):
        data[draw.randrange(len(data))] = draw.randrange(256)
    path.write_bytes(data)


def field(path, draw):
    """A field of JSON has another value; other files get bits."""
    try:
        data = parsed(path)
    except ValueError:
        bits(path, draw)
        return
    at, value = draw.choice(list(places(data)) or [()]), draw.choice(OTHERS + RARER)
    path.write_text(json.dumps(changed(data, at, value) if at else value))


def rehashed(path, draw):
    """Bits of a package, and a manifest beside it that agrees with them."""
    bits(path, draw)
    for package in (parent for parent in path.parents if parent.suffix == ".mlpackage"):
        manifest = package.with_suffix(".json")
        if manifest.is_file():
            hashes = {"package_sha256": hash_package(package)}
            hashes |= {"package_bytes": count_package_bytes(package)}
            manifest.write_text(json.dumps(parsed(manifest) | hashes))


def instead(make):
    """Something else in its place."""

    def kind(path, draw):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        make(path)

    return kind


KINDS = {
    "bits": bits,
    "field": field,
    "rehashed": rehashed,
    "cut": lambda path, draw: os.truncate(path, draw.randrange(max(path.stat().st_size, 1))),
    "deep": lambda path, draw: path.write_text(draw.choice(NO_DOCUMENTS), encoding="utf-8"),
    "pickle": lambda path, _: path.write_bytes(pickle.dumps({"decoder": Runs(f"{path}.ran")})),
    "gone": instead(lambda _: None),
    "folder": instead(lambda path: path.mkdir()),
    "pipe": instead(os.mkfifo),
    "loop": instead(lambda path: path.symlink_to(path)),
    "zero": instead(lambda path: path.symlink_to("/dev/zero")),
}
