"""Tie the packages of a build together: build/manifest.json, with every path, shape, bucket and hash an app needs.

    python -m pipeline.assemble [--method fp16] [--checkpoint demo] [--build build] [--vectors build/vectors]
    python -m pipeline.assemble --check build/manifest.json

Exit 0: written, or everything is as it says. Exit 2: something is missing, was changed, or comes from another checkpoint. The last line
of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not pipeline/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.arguments import checkpoint_argument, form_argument
from core.config import not_releasable
from core.errors import EXIT_GOOD, run_cli

if TYPE_CHECKING:
    from pipeline.assembly import Assembly


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="pipeline.assemble", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--method", default="fp16", help="level of the vocoder package (default: %(default)s)")
    form_argument(parser)
    parser.add_argument("--vectors", type=Path, help="folder of test vectors (default: BUILD/vectors where it exists)")
    parser.add_argument("--check", type=Path, metavar="MANIFEST", help="verify this one instead")
    return parser.parse_args(argv)


def print_report(assembly: "Assembly", checked: int) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    data = assembly.data
    table = Table(title=f"{assembly.path}  {data['checkpoint']['name']} {data['method']}", title_justify="left")
    for heading in ("part", "file", "MB", "SHA-256"):
        table.add_column(heading)
    g2p = [data["g2p"]] if "package" in data["g2p"] else []
    for stage, entries in (("g2p", g2p), ("encoder", data["encoder"]), ("vocoder", [data["vocoder"]])):
        for entry in entries:
            table.add_row(stage, entry["package"], f"{entry['package_bytes'] / 1e6:.2f}", entry["package_sha256"][:12])
    if not g2p:
        table.add_row("g2p", data["g2p"]["absent"], "", "")
    others = {"vocabulary": data["vocabulary"]} | ({"vectors": data["vectors"]} if data["vectors"] else {})
    for name, entry in (*others.items(), *(("voice", voice) for voice in data["voices"]["files"])):
        table.add_row(name, entry["file"], f"{entry['bytes'] / 1e6:.2f}", entry["sha256"][:12])
    if not data["vectors"]:
        table.add_row("vectors", "none: `python -m pipeline.vectors` writes them", "", "")
    Console().print(table)
    if not data["releasable"]:
        print(not_releasable(data["checkpoint"]["name"]))
    print(json.dumps({"manifest": str(assembly.path), "checked": checked, "releasable": data["releasable"], "method": data["method"]}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint
    from core.output import check_output
    from pipeline.assembly import NAME, Assembly, Parts

    if arguments.check:
        assembly = Assembly.load(arguments.check)
    else:
        check_output(arguments.build / NAME)
        checkpoint = open_checkpoint(arguments.checkpoint)
        vectors = arguments.vectors or (arguments.build / "vectors" if (arguments.build / "vectors").is_dir() else None)
        parts = Parts.found(checkpoint, arguments.build, arguments.method, arguments.form)
        made_from = checkpoint.as_source
        assembly = Assembly.of(parts, arguments.build, made_from, vectors).save(arguments.build / NAME)
    print_report(assembly, assembly.verify())
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from pipeline.assemble import main  # one module identity, however it was started

    raise SystemExit(main())
