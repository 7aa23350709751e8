"""Files spoilt as hostile and careless hands do: bits, cuts, sizes, kinds, links, rights, fields of another type, claims that are false.

damage = draw_damage(random.Random(0), argv)
damage.done(Path("/tmp/sweep"))                 # the file it was done to
"""

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.changes import places

OTHERS: tuple[Any, ...] = (
    None, True, False, 5, -1, 0, 1.5, 10**25, float("nan"), float("inf"), 1e308, "", "x", "../../x", "/etc/passwd", "a\0b", "x" * 300,
    "\ud800", [], [[]], [0],
    ["x"], [None], {}, {"x": {}}, {"": 1}, [1] * 1000, 2**31, 2**63, -(2**63),
)  # fmt: skip
READ_BY = {  # what a flag's command reads, as patterns below ROOT
    "--checkpoint": ("user/checkpoint/config.json", "user/checkpoint/random.pth", "user/checkpoint/voices/*", "user/checkpoint/voices"),
    "--build": ("user/build/*.json", "user/build/*.mlpackage/**/*", "user/build/*.mlpackage", "user/build/release/*.json"),
    "--check": ("user/build/vectors/**/*", "user/build/manifest.json"),
    "--verify": ("user/build/bundle-tiny-fp16/**/*",),
    "--lexicon": ("user/lexicon.tsv",),
    "--file": ("user/text.txt",),
    "--recipe": ("user/recipe.json",),
    "--workers": ("user/build/release/cache/**/*.json", "cache/speech/*.npz"),
    "--out": ("user/build/*", "user/build/release/*"),
    "--rules": ("user/ane_rules.json",),
}


@dataclass(frozen=True)
class Damage:
    """One kind, done to one of the files that some patterns find."""

    kind: str
    pattern: str
    seed: int

    def done(self, root: Path) -> Path | None:
        """Spoil it; None where there is no such file (an earlier damage took it)."""
        draw = random.Random(self.seed)
        found = sorted(path for path in root.glob(self.pattern) if path.is_file() or ("*" not in self.pattern and path.is_dir()))  # no pipe
        found = [path for path in found if "mine" not in path.parts and "other" not in path.as_posix()]
        if not found:
            return None
        path = draw.choice(found)
        with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
            KINDS[self.kind](path, draw)
            return path
        return None


def draw_damage(draw: random.Random, argv: list[str]) -> Damage | None:
    """Of something that these arguments make the command read; None where they name nothing."""
    read = [pattern for flag in argv for pattern in READ_BY.get(flag, ())]
    read += ["user/build/" + arg.rpartition("/")[2] + "/**/*" for arg in argv if arg.endswith(".mlpackage")]
    return Damage(draw.choice(sorted(KINDS)), draw.choice(read), draw.randrange(1 << 30)) if read else None


def bits(path: Path, draw: random.Random) -> None:
    """One to eight bytes are others."""
    data = bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 8) if data else 0):
        data[draw.randrange(len(data))] = draw.randrange(256)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random) -> None:
    """It ends too early."""
    os.truncate(path, draw.randrange(max(path.stat().st_size, 1)))


def gone(path: Path, _draw: random.Random) -> None:
    """Nothing is there."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _instead(make: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def kind(path: Path, draw: random.Random) -> None:
        gone(path, draw)
        make(path)

    return kind


def field(path: Path, draw: random.Random) -> None:
    """A field of JSON has another value, is missing, or another stands beside it; other files get bits."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return bits(path, draw)
    at = draw.choice(list(places(data)) or [()])
    inner = data
    for key in at[:-1]:
        inner = inner[key]
    if not at:
        data = draw.choice(OTHERS)
    elif (change := draw.random()) < 0.75:
        inner[at[-1]] = draw.choice(OTHERS)
    elif change < 0.9:
        del inner[at[-1]]
    elif isinstance(inner, dict):
        inner[draw.choice(["x", "", "../x", "format"])] = draw.choice(OTHERS)
    if isinstance(data, dict) and "checksum_sha256" in data:
        from kokoro_ane.core.checksummed import checksummed
        from kokoro_ane.pipeline.decision_file import ABOUT

        del data["checksum_sha256"]
        data = checksummed(data, ABOUT)  # what is wrong with it beside its digest
    path.write_text(json.dumps(data), encoding="utf-8")
    return None


def deep(path: Path, draw: random.Random) -> None:
    """JSON that is all brackets, or all digits."""
    path.write_text(
        draw.choice(["[" * 200_000, '{"a":' * 100_000, "9" * 5_000, '{"format": 1e999}', "null", "[]", '"x"', "\0", "\ufeff{}"])
    )


class Runs:
    """A pickle that would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkfifo, (str(self.path),)


def pickled(path: Path, _draw: random.Random) -> None:
    """A pickle that runs code when it is read."""
    path.write_bytes(pickle.dumps({"decoder": Runs(path.parent / "ran")}))


def rehashed(path: Path, draw: random.Random) -> None:
    """Bits of a package, and a manifest beside it that agrees with them."""
    bits(path, draw)
    package = next((parent for parent in path.parents if parent.suffix == ".mlpackage"), None)
    if package is not None and package.with_suffix(".json").is_file():
        from kokoro_ane.core.export import package_bytes, package_sha256

        beside = package.with_suffix(".json")
        data = json.loads(beside.read_text(encoding="utf-8"))
        data |= {"package_sha256": package_sha256(package), "package_bytes": package_bytes(package)}
        beside.write_text(json.dumps(data), encoding="utf-8")


KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "bits": bits, "cut": cut, "gone": gone, "field": field, "field 2": field, "deep": deep, "pickle": pickled, "rehashed": rehashed,
    "folder": _instead(lambda path: path.mkdir()),
    "pipe": _instead(lambda path: os.mkfifo(path)),
    "loop": _instead(lambda path: path.symlink_to(path)),
    "zero": _instead(lambda path: path.symlink_to("/dev/zero")),
}  # fmt: skip
