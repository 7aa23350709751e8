"""Pack misaki's four English word lists into data/, where kokoro_g2p.word_lists reads them.

    pip install --no-deps misaki==0.9.4
    python -m kokoro_g2p.training.misaki_lists && make hashes

The entries and their order stay as they are, so that the JSON files of misaki can be written again
to the byte; a test does so. A pipe's last line is one JSON object.
"""

import gzip
import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path

from kokoro_g2p.bundled import DATA
from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.errors import InputError
from kokoro_g2p.files import open_aside
from kokoro_g2p.word_lists import MISAKI_SHA256, Entry


def pack(entries: Mapping[str, Entry]) -> bytes:
    """Return the file of a list as `kokoro_g2p.word_lists.read` describes it."""
    phonemes = ["" if isinstance(entry, dict) else entry for entry in entries.values()]
    heteronyms = {word: entry for word, entry in entries.items() if isinstance(entry, dict)}
    packed = json.dumps(heteronyms, ensure_ascii=False, separators=(",", ":"))
    content = "\t".join(("\n".join(entries), "\n".join(phonemes), packed))
    # gzip, because xz is 16 % smaller and takes 14 ms longer to open each list. No time stands in
    # the header, so that the same entries are the same bytes.
    return gzip.compress(content.encode(), compresslevel=9, mtime=0)


def to_json(entries: Mapping[str, Entry]) -> bytes:
    """Return misaki's own file of these entries."""
    return json.dumps(entries, ensure_ascii=False, indent=2).encode()


@command
def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = CommandParser("kokoro_g2p.training.misaki_lists", __doc__)
    parser.add_argument("--out", type=Path, default=DATA, help="the folder of the lists")
    arguments = parser.parse_args(argv)
    bytes_by_name = {}
    for name, sha256 in MISAKI_SHA256.items():
        path = Path(str(distribution("misaki").locate_file(f"misaki/data/{name}.json")))
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise InputError(f"{path} is not the file of misaki that SHA-256 {sha256[:12]} names")
        target = arguments.out / f"{name}.txt.gz"
        with open_aside(target) as aside:
            aside.write_bytes(pack(json.loads(content)))
        bytes_by_name[name] = target.stat().st_size
        print(f"{target}  {bytes_by_name[name]:,} bytes")
    return conclude(arguments, {"bytes": bytes_by_name}, EXIT_GOOD, f"packed: {arguments.out}")


if __name__ == "__main__":
    raise SystemExit(main())
