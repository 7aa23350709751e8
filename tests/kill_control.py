"""A writer with every fault that tests.kill looks for, to prove that it sees them: writes in place, loses the old one, leaves files.

main(["FILE", "in place" | "careful"])
"""

import json
import os
from pathlib import Path


def main(argv: list[str]) -> int:
    """Write FILE; exit code 0."""
    target = Path(argv[0])
    if argv[1] == "careful":
        from core.staging import write_json

        write_json(target, {"a": [1] * 1000})
        return 0
    left = target.with_name(f".staged-{os.getpid()}")
    left.write_text("x")
    target.unlink(missing_ok=True)
    with target.open("w", encoding="utf-8") as stream:
        stream.write(json.dumps({"a": [1] * 1000})[:50])
        stream.flush()
        target.with_name("other").open("w").close()
        stream.write(json.dumps({"a": [1] * 1000})[50:])
    left.rename(target.with_name("gone"))
    return 0
