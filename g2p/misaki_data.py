"""The four word lists of the installed misaki package, read only when they are the ones this repository was built with.

    .venv/bin/python -c 'from g2p.misaki_data import read; print(len(read("us_gold")))'

Source: misaki 0.9.4 (Apache-2.0), misaki/data/*.json. `gold` is edited by hand, `silver` comes from espeak-ng. A value is the phonemes,
or for a heteronym a mapping of part of speech (with `DEFAULT`) to phonemes or None.
"""

import hashlib
import json
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from core.errors import InputError

MISAKI_VERSION = "0.9.4"
SHA256 = {
    "us_gold": "dc414872a49a28ae6c141463d502fd945f3b2fde040484fdc47d00cc4612686f",
    "us_silver": "de8f67be911bb6c659187b4a65fd966b6a30e56350e0f790d763210b053ac475",
    "gb_gold": "29e62f4b60261c88f7f3c2c7811ca3825978948090b72d2b27d565b729282f71",
    "gb_silver": "48131e2d92ccc41655f4543e87e0f938e71463eb5a54be7f0693bb712ebb6bce",
}
Entry = str | dict[str, str | None]


def data_folder() -> Path:
    """`misaki/data` of this Python, misaki itself not imported. Raises InputError when misaki is missing or of another version."""
    try:
        found = version("misaki")
    except PackageNotFoundError:
        raise InputError(f"misaki {MISAKI_VERSION} is not installed: the lexicon comes from it; run `make venv`") from None
    if found != MISAKI_VERSION:
        raise InputError(f"misaki {found} is installed, the lexicon was built with {MISAKI_VERSION}: run `make venv`")
    spec = find_spec("misaki")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("misaki is installed without its files: run `make venv`")
    return Path(spec.submodule_search_locations[0]) / "data"


def read(name: str, folder: Path | None = None) -> dict[str, Entry]:
    """Entries of `us_gold`, `us_silver`, `gb_gold` or `gb_silver`. Raises InputError when the file is missing or has another SHA-256."""
    if name not in SHA256:
        raise InputError(f"there is no word list {name!r}: one of {', '.join(SHA256)}")
    path = (folder or data_folder()) / f"{name}.json"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: misaki {MISAKI_VERSION} brings it; run `make venv`") from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise InputError(f"{path} has SHA-256 {found[:12]}, this repository was built with {SHA256[name][:12]}: run `make venv`")
    return json.loads(content)
