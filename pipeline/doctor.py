"""List installed versions, checkpoints and built packages, and the use of each that is missing.

    kokoro-ane doctor [--build build]

Nothing is downloaded. Exit 0: everything that a build needs is there. Exit 2: something is missing.
A pipe's last line is one JSON object.
"""

import platform
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kokoro_ane.core.commands import (
    CommandOptions,
    build_option,
    conclude,
    parse,
    print_table,
)
from kokoro_ane.core.errors import EXIT_BAD_INPUT, EXIT_GOOD, InputError, command

NEEDED = (
    "torch",
    "coremltools",
    "numpy",
    "scipy",
    "misaki",
    "pesq",
    "pystoi",
    "rich",
    "soundfile",
    "safetensors",
)
WHOLE = "whole"
EXTRAS = {
    "onnx": "kokoro-int8: real Kokoro from registry packages",
    "matplotlib": "plot: curves of a report and of validate",
    "kokoro": "upstream, for validate (make venv)",
    "transformers": "upstream's ALBERT, for validate (test)",
    "pocketsphinx": "bench: words of a recognizer",
}


@dataclass(frozen=True)
class DoctorOptions(CommandOptions):
    """Where packages are looked for."""

    build: Path = build_option()


def checkpoints() -> dict[str, bool]:
    """Return the places of a checkpoint, and whether each can be read without a network."""
    from huggingface_hub import try_to_load_from_cache

    from kokoro_ane.core.checkpoint import KOKORO_INT8
    from kokoro_ane.core.hub import HUB_FILES, HUB_REPOSITORY, HUB_REVISION
    from kokoro_ane.core.kokoro_int8.cache import available

    # a path, None, or a mark of what the hub does not have
    cached = [
        try_to_load_from_cache(HUB_REPOSITORY, name, revision=HUB_REVISION)
        for name in HUB_FILES[:2]
    ]
    is_cached = all(isinstance(path, str) for path in cached)
    return {HUB_REPOSITORY: is_cached, KOKORO_INT8: available()}


def packages(build: Path) -> dict[str, str]:
    """Return the state of each built package: WHOLE, or what is wrong with it."""
    from kokoro_ane.core.manifest import Manifest

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
    versions: dict[str, str | None] = dict.fromkeys((*NEEDED, *EXTRAS))
    for name in versions:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    homes, built = checkpoints(), packages(options.build)
    needed = ", ".join(f"{name} {versions[name] or 'MISSING'}" for name in NEEDED)
    rows = [("every build", needed)]
    # what is missing is named with what it is for
    rows += [(name, versions[name] or f"missing; for {use}") for name, use in EXTRAS.items()]
    for name, is_available in homes.items():
        rows.append((f"checkpoint {name}", "available" if is_available else "not available"))
    intact = ", ".join(name for name, state in built.items() if state == WHOLE)
    rows.append((f"packages in {options.build}", intact or "none"))
    rows += [(name, state) for name, state in built.items() if state != WHOLE]
    title = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    print_table(title, ("what", "state"), rows)
    missing = [name for name in NEEDED if versions[name] is None]
    report = {"missing": missing, "versions": versions, "checkpoints": homes, "packages": built}
    code = EXIT_BAD_INPUT if missing else EXIT_GOOD
    meaning = f"missing: {', '.join(missing) or 'nothing that a build needs'}"
    return conclude(options, report, code, f"{meaning} (`make venv` installs all)")


if __name__ == "__main__":
    raise SystemExit(main())
