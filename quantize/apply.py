"""Compress a built package: float weights in, a smaller checked package out.

    python -m quantize.apply --method w8 [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--build build]

Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. The last line of stdout is one JSON object.
How good the result sounds is decided by eval/quality.py.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not quantize/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import EXIT_GOOD, run_cli
from quantize.methods import METHODS, method_named

if TYPE_CHECKING:
    from pipeline.manifest import Manifest


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    choices = tuple(name for name, method in METHODS.items() if method.parent)
    parser = argparse.ArgumentParser(prog="quantize.apply", description=__doc__.splitlines()[0])
    parser.add_argument("--method", required=True, choices=choices, help="compression method")
    parser.add_argument("--checkpoint", help="the checkpoint the parent was built from (default: Kokoro if it can be had, else demo)")
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the parent package (default: %(default)s)")
    return parser.parse_args(argv)


def print_report(manifest: "Manifest", parent_bytes: int) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    share = manifest.package_bytes / parent_bytes
    table = Table(title=f"{manifest.package}  {manifest.package_bytes / 1e6:.2f} MB, {share:.2f} of its parent", title_justify="left")
    for heading in ("check on the executed package", "figure", "limit", ""):
        table.add_column(heading)
    table.add_row("weights compressed", f"{manifest.compression['compressed_ops']}", "all above the size limit", "holds")
    for figure in manifest.checks["figures"]:
        table.add_row(figure["name"], f"{figure['value']:.1f} dB", f">= {figure['limit']:g} dB", "holds")
    Console().print(table)
    if not manifest.releasable:
        print("demo voice: not releasable")
    fields = {"manifest": str(manifest.path), "package_bytes": manifest.package_bytes, "share_of_parent": round(share, 4)}
    print(json.dumps(fields | {"releasable": manifest.releasable, "compression": manifest.compression, "checks": manifest.checks}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from pipeline.checkpoint import open_checkpoint
    from pipeline.export import quiet_coremltools

    method, checkpoint = method_named(arguments.method), open_checkpoint(arguments.checkpoint)
    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from quantize.build import build_compressed

    parent, manifest = build_compressed(method, checkpoint, arguments.build)
    print_report(manifest, parent.package_bytes)
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from quantize.apply import main  # one module identity, however it was started

    raise SystemExit(main())
