"""The part of a cache key that stands for the code, texts and libraries that made a figure. With
other sources the key is another one, and the figure is measured again.

    key = source_sha256("core", "encoder", "vocoder", "speech")
"""

import hashlib
from functools import cache
from pathlib import Path

import kokoro_g2p
import mlprogram

ROOT = Path(__file__).resolve().parents[1]
LOCK_FILE = "constraints.txt"  # absent where kokoro-ane is installed
TEXTS = ("core/data/speech/*.tsv",)
# These files judge and show figures and make none: where a limit moves, the figures stay.
NOT_MEASURING = (
    *("*gates.py", "judge.py", "report*.py", "listening.py", "terminal.py", "progress.py"),
    *("tests/*.py", "training/*.py", "port/*.py"),
)


@cache
def source_sha256(*rooms: str) -> str:
    """The hash of the names and bytes of the rooms' and mlprogram's sources, of the frozen texts
    and of the lock file, as they are at the first call.
    """
    # the reader and the executor are distributions of their own
    reader = Path(kokoro_g2p.__file__).parent
    homes = {"g2p": reader}
    places = [homes.get(room, ROOT / room) for room in rooms] + [Path(mlprogram.__file__).parent]
    files = [path for place in places for path in place.rglob("*.py")]
    files = [path for path in files if not any(map(path.match, NOT_MEASURING))]
    files += [path for pattern in (*TEXTS, LOCK_FILE) for path in ROOT.glob(pattern)]
    files += reader.glob("data/grammar/*.tsv")
    digest = hashlib.sha256()
    for path in sorted(files):
        # the checkout's own folder may have any name
        folder = "" if path.parent == ROOT else path.parent.name
        # The folder's own name, not its path, which differs from machine to machine.
        digest.update(f"{folder}/{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()
