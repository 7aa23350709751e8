"""A JSON file that carries its own digest, over what it says and what it is about: an edit, a cut or a copy under another name is found.

    write_json(path, sealed({"pesq": 4.6}, about={"clip": "a"}))
    data = read_sealed(path, {"clip": "a"}, missing="nothing was measured", again="; delete it and it is measured again")

The digest keeps no secret: it finds what was changed, not who would take the trouble to forge it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.identity import sha256_of_json
from core.staging import read_json

SEAL = "sealed_sha256"


def sealed(data: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with its digest. `about`: what it belongs to; not stored, asked for again when it is read."""
    return dict(data) | {SEAL: _digest(data, about)}


def read_sealed(path: Path, about: Mapping[str, Any], missing: str, again: str) -> dict[str, Any]:
    """The data without its digest. Raises InputError for a file that is missing, no object, changed since, or about something else."""
    found = read_json(path, missing, again)
    if not isinstance(found, dict) or SEAL not in found:
        raise InputError(f"{path} is no object with a {SEAL}{again}")
    told = found.pop(SEAL)
    if told != _digest(found, about):
        raise InputError(f"{path} is not as it was written (its {SEAL} does not fit): it was edited or copied here{again}")
    return found


def _digest(data: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    return sha256_of_json([dict(data), dict(about)])
