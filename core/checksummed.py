"""A file that carries its own digest, over what it says and what it is about: an edit, a cut or a
copy under another name is found.

    write_json(path, checksummed({"pesq": 4.6}, about={"clip": "a"}))
    data = read_checksummed(path, {"clip": "a"}, missing="nothing was measured", again="; delete it and it is measured again")

The digest keeps no secret: it finds what was changed, not who would take the trouble to forge it.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.errors import InputError
from kokoro_ane.core.identity import sha256_of_json
from kokoro_ane.core.staging import read_json
from kokoro_ane.core.tensor_files import read_npz

if TYPE_CHECKING:
    import numpy as np

CHECKSUM = "checksum_sha256"
EDITED = f"is not as it was written (its {CHECKSUM} does not fit): it was edited or copied here"


def checksummed(data: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with its digest. `about`: what it belongs to; not stored, asked for again when it is
    read.
    """
    return dict(data) | {CHECKSUM: _digest(data, about)}


def read_checksummed(
    path: Path, about: Mapping[str, Any], missing: str, again: str
) -> dict[str, Any]:
    """The data without its digest. Raises InputError for a file that is missing, no object, changed
    since, or about something else.
    """
    found = read_json(path, missing, again)
    if not isinstance(found, dict) or CHECKSUM not in found:
        raise InputError(f"{path} is no object with a {CHECKSUM}{again}")
    told = found.pop(CHECKSUM)
    if told != _digest(found, about):
        raise InputError(f"{path} {EDITED}{again}")
    return found


def _digest(data: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    return sha256_of_json([dict(data), dict(about)])


def checksummed_arrays(
    arrays: "Mapping[str, np.ndarray]", about: Mapping[str, Any]
) -> "dict[str, np.ndarray]":
    """Arrays for np.savez, with their digest beside them."""
    import numpy as np

    return dict(arrays) | {CHECKSUM: np.asarray(digest_of_arrays(arrays, about))}


def read_checksummed_arrays(
    path: Path, about: Mapping[str, Any], again: str
) -> "dict[str, np.ndarray]":
    """The arrays of an .npz without their digest. Raises InputError as read_checksummed does."""
    found = read_npz(path, again)
    told = found.pop(CHECKSUM, None)
    if told is None or str(told) != digest_of_arrays(found, about):
        raise InputError(f"{path} {EDITED}{again}")
    return found


def digest_of_arrays(arrays: "Mapping[str, np.ndarray]", about: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(
            f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode()
            + arrays[name].tobytes()
        )
    return digest.hexdigest()
