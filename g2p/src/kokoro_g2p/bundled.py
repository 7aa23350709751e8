"""Files of g2p/data, read only where their SHA-256 stands in g2p/data/SHA256SUMS, so that a cut or
damaged file is one clear line and never other words.

    read_json("senses.json")
    read_data(DATA / "tagger.npz")

`make hashes` writes the list after a file was changed.
"""

import gzip
import io
import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from kokoro_g2p.errors import InputError

DATA = Path(__file__).parent / "data"
AGAIN = "`git checkout g2p` or a new installation brings it back"


@cache
def read_hashes() -> dict[str, str]:
    """SHA-256 by the file's path in the folder."""
    lines = _read(DATA / "SHA256SUMS").decode("ascii", "replace").splitlines()
    return {name: hashed for hashed, _, name in (line.partition("  ") for line in lines)}


def read_data(path: Path) -> bytes:
    """The bytes of a file; one of the folder must have the hash that SHA256SUMS lists. Raises
    InputError.
    """
    found = _read(path)
    if path.is_relative_to(DATA):
        name = path.relative_to(DATA).as_posix()
        if sha256(found).hexdigest() != read_hashes().get(name):
            raise InputError(
                f"{path} is damaged or changed: its SHA-256 is not that of SHA256SUMS; {AGAIN}"
            )
    return found


def read_data_text(path: Path) -> str:
    """The text of a file, unpacked where its name ends in .gz. Raises InputError."""
    found = read_data(path)
    return (gzip.decompress(found) if path.suffix == ".gz" else found).decode("utf-8")


def read_json(name: str) -> Any:
    """The content of a JSON file of the folder. Raises InputError."""
    return json.loads(read_data_text(DATA / name))


def read_arrays(path: Path, form: int, command: str) -> tuple[Any, Any]:
    """The head of a file of arrays, JSON as bytes, and the arrays. Raises InputError for a file
    that is missing, damaged or of another format, and names the command that writes one.
    """
    # NumPy is not there before the first word that asks for it
    from kokoro_g2p.files import read_npz

    try:
        stored = read_npz(io.BytesIO(read_data(path)), str(path))
        head = json.loads(stored["head"].tobytes().decode("utf-8"))
        if head["format"] != form:
            raise ValueError(f"its format is {head['format']}")
        if len({len(array) for name, array in stored.items() if name != "head"}) > 1:
            raise ValueError("its arrays differ in length")
    except (ValueError, KeyError) as problem:
        raise InputError(
            f"{path} is no file of format {form} ({problem}): `{command}` writes one"
        ) from None
    return head, stored


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise InputError(f"{path} cannot be read ({problem.strerror}): {AGAIN}") from None
