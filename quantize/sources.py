"""The part of a cache key that stands for the code, texts and libraries that made a figure. With
other sources the key is another one, and the figure is measured again.

    key = source_sha256("core", "encoder", "vocoder", "quantize/speech.py")
"""

import hashlib
from functools import cache
from pathlib import Path

import mlprogram

ROOT = Path(__file__).resolve().parents[1]
LOCK_FILE = "constraints.txt"  # absent where kokoro-ane is installed
TEXTS = ("core/data/speech/*.tsv", "g2p/data/grammar/*.tsv")
# These files judge and show figures and make none: where a limit moves, the figures stay.
NOT_MEASURING = (
    *("*gates.py", "judge.py", "report*.py", "listening.py", "terminal.py", "progress.py"),
    *("benches/*.py", "tests/*.py"),
)


@cache
def source_sha256(*rooms: str) -> str:
    """The hash of the names and bytes of the rooms' and mlprogram's sources, of the frozen texts
    and of the lock file, as they are at the first call. A room may also be a single file.
    """
    places = [*(ROOT / room for room in rooms), Path(mlprogram.__file__).parent]
    files = [
        path for place in places for path in ([place] if place.suffix else place.rglob("*.py"))
    ]
    files = [path for path in files if not any(map(path.match, NOT_MEASURING))]
    files += [path for pattern in (*TEXTS, LOCK_FILE) for path in ROOT.glob(pattern)]
    digest = hashlib.sha256()
    for path in sorted(files):
        # the checkout's own folder may have any name
        folder = "" if path.parent == ROOT else path.parent.name
        digest.update(f"{folder}/{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()
