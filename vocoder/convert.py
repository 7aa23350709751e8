"""Build the vocoder package: checkpoint to .mlpackage, executed and compared before it gets its name.

    python -m vocoder.convert [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--precision fp16|fp32] [--buckets 40,80,160] [--out build]
    python -m vocoder.convert --variant engine [--chips m1,m2]     # for the Neural Engine, docs/neural-engine.md

Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not vocoder/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.arguments import buckets_argument
from pipeline.config import not_releasable
from pipeline.errors import EXIT_GOOD, run_cli

if TYPE_CHECKING:
    from pipeline.manifest import Manifest


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="vocoder.convert", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--checkpoint",
        help="a folder with config.json, weights and voices/, or by name (default: hexgrad/Kokoro-82M, else kokoro-int8, else demo)",
    )
    parser.add_argument(
        "--precision", choices=("fp16", "fp32"), default="fp16", help="fp16: fp16 trunk and fp32 tail; fp32: a reference package"
    )
    parser.add_argument(
        "--buckets",
        type=buckets_argument,
        help="enumerated lengths in frames (40 a second), comma-separated and rising; engine: rows * pitch + 2",
    )
    parser.add_argument("--variant", choices=("literal", "engine"), default="literal", help="engine: time in rows, fewer passes")
    parser.add_argument(
        "--chips", type=lambda text: tuple(text.split(",")), help="engine: chips it must suit, m1,m2 and so on; default all"
    )
    parser.add_argument("--target", choices=("iOS17", "iOS18"), default="iOS17", help="minimum deployment target")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the package and its manifest")
    return parser.parse_args(argv)


def print_report(manifest: "Manifest") -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"{manifest.package}  {manifest.package_bytes / 1e6:.1f} MB, {len(manifest.buckets)} lengths, {manifest.target}",
        title_justify="left",
    )
    for heading in ("check on the executed package", "figure", "limit", ""):
        table.add_column(heading)
    for figure in manifest.checks["figures"]:
        relation = ">=" if figure["at_least"] else "<="
        table.add_row(figure["name"], f"{figure['value']:.1f} dB", f"{relation} {figure['limit']:g} dB", "holds")
    structure = manifest.checks["structure"]
    table.add_row(
        "matmul, transpose, gather, random, crop ...; tensors not of rank 4",
        f"{sum(structure['forbidden'].values())}, {structure['not_rank_4']}",
        "0, 0",
        "holds",
    )
    Console().print(table)
    if not manifest.releasable:
        print(not_releasable(manifest.checkpoint["name"]))
    print(
        json.dumps(
            {
                "manifest": str(manifest.path),
                "package_bytes": manifest.package_bytes,
                "releasable": manifest.releasable,
                "checks": manifest.checks,
            }
        )
    )


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from pipeline.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(arguments.checkpoint)
    from vocoder.engine.options import EngineOptions
    from vocoder.export import build

    options = EngineOptions.chosen(arguments.variant, arguments.chips)
    print_report(build(checkpoint, arguments.buckets, arguments.precision, arguments.target, arguments.out, options))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from vocoder.convert import main  # one module identity, however it was started

    raise SystemExit(main())
