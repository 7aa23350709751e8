"""What this installation can do, its versions, checkpoints and built packages.

    kokoro-ane doctor [--build build]

A use that something is missing for is named with the line that installs it. Nothing is downloaded.
Exit 0: everything that speaking by ONNX Runtime needs is there. Exit 2: something of it is missing.
A pipe's last line is one JSON object.
"""

import platform
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from kokoro_ane.core import (
    BASE,
    EXIT_BAD_INPUT,
    EXIT_GOOD,
    CommandOptions,
    InputError,
    build_option,
    command,
    conclude,
    find_missing,
    format_install_line,
    parse,
    print_table,
)

WHOLE = "whole"
# what an installation is for: its extra (core/extras.py)
USES = {
    "speak by ONNX Runtime": BASE,
    "build, bundle, speak by PyTorch": "build",
    "judge": "judge",
    "write ONNX files": "onnx",
    "speak --loudness": "loudness",
    "draw curves": "plot",
}


@dataclass(frozen=True)
class DoctorOptions(CommandOptions):
    """Where packages are looked for."""

    build: Path = build_option()


def read_versions() -> dict[str, str]:
    """Return the version of every installed distribution that this one or an extra asks for."""
    lines: list[str] = []
    # a tree that was only unpacked has no metadata
    with suppress(PackageNotFoundError):
        lines = requires("kokoro-ane") or []
    # A requirement begins with the name, before versions, extras and markers.
    asked = {re.split(r"[^\w.-]", line)[0] for line in lines}
    found = {}
    for name in sorted(asked):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def find_checkpoints() -> dict[str, bool]:
    """Return the places of a checkpoint, and whether each can be read without a network."""
    from huggingface_hub import try_to_load_from_cache

    from kokoro_ane.core import HUB_FILES, HUB_REPOSITORY, HUB_REVISION, KOKORO_INT8, is_available

    # a path, None, or a mark of what the hub does not have
    cached = [
        try_to_load_from_cache(HUB_REPOSITORY, name, revision=HUB_REVISION)
        for name in HUB_FILES[:2]
    ]
    is_cached = all(isinstance(path, str) for path in cached)
    return {HUB_REPOSITORY: is_cached, KOKORO_INT8: is_available()}


def check_packages(build: Path) -> dict[str, str]:
    """Return the state of each built package: WHOLE, or what is wrong with it."""
    from kokoro_ane.core import Manifest

    states = {}
    for path in sorted(build.glob("*.json")):
        if path.with_suffix(".mlpackage").is_dir():
            try:
                Manifest.load(path).verify()
                states[path.stem] = WHOLE
            except InputError as problem:
                states[path.stem] = str(problem)
    return states


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(DoctorOptions, "kokoro-ane doctor", __doc__, argv)
    homes = find_checkpoints()
    built = check_packages(options.build)
    missing = {use: find_missing(extra) for use, extra in USES.items()}
    rows = [
        (
            use,
            f"missing: {', '.join(names)}; run `{format_install_line(names)}`"
            if names
            else "ready",
        )
        for use, names in missing.items()
    ]
    for name, is_available in homes.items():
        rows.append((f"checkpoint {name}", "available" if is_available else "not available"))
    intact = ", ".join(name for name, state in built.items() if state == WHOLE)
    rows.append((f"packages in {options.build}", intact or "none"))
    rows += [(name, state) for name, state in built.items() if state != WHOLE]
    title = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    print_table(title, ("what", "state"), rows)
    # The first use, speaking, decides about the exit code.
    needed, *_ = missing.values()
    report = {
        "missing": missing,
        "versions": read_versions(),
        "checkpoints": homes,
        "packages": built,
    }
    code = EXIT_BAD_INPUT if needed else EXIT_GOOD
    meaning = (
        f"missing: {', '.join(needed)}" if needed else "nothing that speaking needs is missing"
    )
    return conclude(options, report, code, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
