"""What is at hand: versions, checkpoints, built packages, and what each missing thing needs.

    kokoro-ane doctor [--build build]

Nothing is downloaded. Exit 0: everything that a build needs is there. Exit 2: something is missing.
The last line of stdout is one JSON object.
"""

import argparse
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from kokoro_ane.core.commands import print_table
from kokoro_ane.core.errors import EXIT_BAD_INPUT, EXIT_GOOD, Parser, command

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
EXTRAS = {
    "onnx": "kokoro-int8: real Kokoro from registry packages",
    "matplotlib": "plot: curves of a report and of validate",
    "kokoro": "upstream, for validate (make venv)",
    "transformers": "upstream's ALBERT, for validate (test)",
    "pocketsphinx": "bench: words of a recognizer",
}


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane doctor", __doc__)
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        help="folder with the packages (default: %(default)s)",
    )
    return parser.parse_args(argv)


def installed(name: str) -> str | None:
    """A distribution's version, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def checkpoints() -> dict[str, bool]:
    """Homes of a checkpoint and whether each answers without a network."""
    from kokoro_ane.core.checkpoint import HUB_REPOSITORY, KOKORO_INT8
    from kokoro_ane.core.kokoro_int8.cache import available

    return {HUB_REPOSITORY: hub_is_cached(), KOKORO_INT8: available()}


def hub_is_cached() -> bool:
    """Whether the hub's weights at the pinned revision are in its cache."""
    from huggingface_hub import try_to_load_from_cache

    from kokoro_ane.core.checkpoint import HUB_FILES, HUB_REPOSITORY, HUB_REVISION

    return all(
        isinstance(try_to_load_from_cache(HUB_REPOSITORY, name, revision=HUB_REVISION), str)
        for name in HUB_FILES[:2]
    )


def packages(build: Path) -> dict[str, str]:
    """Built packages by manifest: "whole", or what is wrong with it."""
    from kokoro_ane.core.errors import InputError
    from kokoro_ane.core.manifest import Manifest

    found = {}
    for path in sorted(build.glob("*.json")) if build.is_dir() else ():
        if path.with_suffix(".mlpackage").is_dir():
            try:
                Manifest.load(path).verify()
                found[path.stem] = "whole"
            except InputError as problem:
                found[path.stem] = str(problem)
    return found


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    versions = {name: installed(name) for name in (*NEEDED, *EXTRAS)}
    homes, built = checkpoints(), packages(arguments.build)
    rows = [
        (name, found or "missing", EXTRAS.get(name, "every build"))
        for name, found in versions.items()
    ]
    rows += [
        (f"checkpoint {name}", "at hand" if there else "not at hand", "--checkpoint")
        for name, there in homes.items()
    ]
    rows += [(name, state, f"package in {arguments.build}") for name, state in built.items()]
    print_table(
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        ("what", "found", "for"),
        rows,
    )
    missing = [name for name in NEEDED if versions[name] is None]
    print(
        json.dumps(
            {"missing": missing, "versions": versions, "checkpoints": homes, "packages": built}
        )
    )
    return EXIT_BAD_INPUT if missing else EXIT_GOOD


if __name__ == "__main__":
    raise SystemExit(main())
