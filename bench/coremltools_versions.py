"""Compare two versions of coremltools on one checkpoint: the tests of mlprogram, the vocoder
package of every level, and the verdict on each level whose packages differ.

    python -m bench.coremltools_versions OTHER/bin/python kokoro-int8 build/versions

OTHER is the Python of an environment like this one with another coremltools; both run this
checkout. Where program and weights are the same bytes, so is every rendition, and nothing is
judged. Exit 0: tests pass and packages are equal; 1: something differs, or a command of one version
failed. The last line of stdout is one JSON object: exit codes by this version and by the other.
"""

import subprocess
import sys
from pathlib import Path

from kokoro_ane.core import EXIT_GOOD, EXIT_REJECTED, Parser, command, conclude

# {0}: level, {1}: checkpoint, {2}: folder of the packages
QUANTIZE = "kokoro_ane quantize --method {0} --checkpoint {1} --build {2}"
JUDGE = "kokoro_ane quality --method {0} --checkpoint {1} --build {2}"
COMMANDS = {
    "tests": "pytest -q mlprogram/tests",
    "fp16": "kokoro_ane build vocoder --checkpoint {1} --out {2}",
    **dict.fromkeys(("w8a8", "p6", "mixed18"), QUANTIZE),
}


def read_content(build: Path, level: str) -> list[bytes]:
    """Return program and weights of a level's package, without the version that wrote it."""
    from mlprogram import open_package

    parts = []
    for path in build.glob(f"*-{level}.mlpackage"):
        package = open_package(path)
        package.spec.mlProgram.attributes.clear()  # buildInfo
        weights = package.weights_dir / "weight.bin"
        # Deterministic, because the order of a map's keys is no part of a program.
        parts.append(package.spec.mlProgram.SerializeToString(deterministic=True))
        parts.append(weights.read_bytes())
    return parts


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.coremltools_versions", __doc__)
    parser.add_argument("other")
    parser.add_argument("checkpoint")
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args(argv)
    builds = {arguments.out / "this": sys.executable, arguments.out / "other": arguments.other}

    def run_both(line: str, level: str) -> list:
        """Return the exit codes of a command by both versions."""
        done = []
        for build, python in builds.items():
            words = [w.format(level, arguments.checkpoint, build) for w in line.split()]
            # Each version's own Python runs this checkout.
            done.append(subprocess.run([python, "-m", *words]).returncode)
        return done

    rows = {}
    for level, line in COMMANDS.items():
        rows[level] = run_both(line, level)
        # Tests leave no package: two empty lists are equal.
        first, second = (read_content(build, level) for build in builds)
        if first != second:
            rows[level].append("differs")
            rows[f"verdict of {level}"] = run_both(JUDGE, level)
    # Any exit code but 0, or the word that packages differ.
    code = EXIT_REJECTED if any(map(any, rows.values())) else EXIT_GOOD
    return conclude(arguments, rows, code, f"{len(rows)} commands by both versions")


if __name__ == "__main__":
    raise SystemExit(main())
