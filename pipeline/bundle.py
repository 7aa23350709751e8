"""The release bundle: one folder to drop into an app or to upload.

    python -m pipeline.bundle --method p6 [--checkpoint demo] [--build build] [--out build/bundle-demo-p6]
    python -m pipeline.bundle --runtime onnx             # the files of ONNX Runtime instead of packages: build/bundle-demo-onnx-fp32
    python -m pipeline.bundle --verify build/bundle-demo-p6

Packages with their manifests, manifest.json, voices (.pt, and .bin: raw float32), vocabulary, lexicon, test vectors, model card with the
decision table, licences, SHA256SUMS. A bundle that may not be released carries its checkpoint's name in its own. Exit 0: written and
verified. Exit 1: the level was judged and rejected. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not pipeline/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument, form_argument
from core.config import not_releasable
from core.errors import EXIT_GOOD, InputError, run_cli
from pipeline.runtimes import DEFAULT_RUNTIME, RUNTIMES, check_runtime, level_for

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from g2p.result import Dialect


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="pipeline.bundle", description=__doc__.splitlines()[0])
    parser.add_argument("--runtime", default=DEFAULT_RUNTIME, help="who will run it: packages, or onnx (default: %(default)s)")
    parser.add_argument("--method", default="", help="level of the vocoder (default: the runtime's own; fp16 of packages)")
    form_argument(parser)
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="folder to write (default: BUILD/bundle-METHOD, BUILD/bundle-demo-windowed-METHOD)")
    parser.add_argument("--dialects", default="us", help="lexicons to include: us, gb, or us,gb (default: %(default)s)")
    parser.add_argument("--verify", type=Path, metavar="FOLDER", help="check this bundle instead")
    return parser.parse_args(argv)


def folder_for(arguments: argparse.Namespace, checkpoint: "Checkpoint") -> Path:
    """Where the bundle goes. InputError for a name that hides that it is not releasable."""
    from core.manifest import level_name, package_name

    packages = RUNTIMES[arguments.runtime].packages
    releasable = checkpoint.releasable and not (packages and arguments.method == "fp32")  # a reference package
    level = level_name(arguments.method, arguments.form)
    name = package_name("bundle", checkpoint.name, releasable, level if packages else f"{arguments.runtime}-{level}")
    out = arguments.out or arguments.build / name
    if not releasable and checkpoint.name not in out.name:
        raise InputError(f"{checkpoint.name} is not releasable and its bundle has to say so: --out {out.parent / name}")
    return out


def dialects_of(text: str) -> "tuple[Dialect, ...]":
    """'us,gb' -> both."""
    known: dict[str, Dialect] = {"us": "us", "gb": "gb"}
    found = tuple(part.strip() for part in text.split(","))
    unknown = next((part for part in found if part not in known), None)
    if unknown is not None:
        raise InputError(f"--dialects {text}: {unknown!r} is neither us nor gb")
    return tuple(known[part] for part in found)


def print_report(folder: Path, data: dict[str, Any], checked: dict[str, int]) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{folder}", title_justify="left")
    for heading in ("part", "files", "MB"):
        table.add_column(heading, justify="left" if heading == "part" else "right")
    sizes: dict[str, list[int]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        sizes.setdefault(path.relative_to(folder).parts[0], []).append(path.stat().st_size)
    for part, found in sizes.items():
        table.add_row(part, str(len(found)), f"{sum(found) / 1e6:.2f}")
    total = sum(sum(found) for found in sizes.values())
    table.add_row("all", str(sum(map(len, sizes.values()))), f"{total / 1e6:.2f}")
    console = Console()
    console.print(table)
    console.print(", ".join(f"{count} {what}" for what, count in checked.items()), highlight=False)
    if not data["releasable"]:
        console.print(f"{not_releasable(data['checkpoint']['name'])}; the model card says so", highlight=False)
    print(json.dumps({"bundle": str(folder), "bytes": total, "releasable": data["releasable"], "method": data["method"], **checked}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint

    if arguments.verify:
        from pipeline.bundle_files import verify_bundle

        data, checked = verify_bundle(arguments.verify)
        print_report(arguments.verify, data, checked)
        return EXIT_GOOD
    dialects, checkpoint = dialects_of(arguments.dialects), open_checkpoint(arguments.checkpoint)
    arguments.method = level_for(arguments.runtime, arguments.method)
    check_runtime(arguments.runtime, arguments.method, form=arguments.form)
    out = folder_for(arguments, checkpoint)
    from core.output import check_output
    from pipeline.bundle_files import bundle_of_ours, verify_bundle, write_bundle

    check_output(out, bundle_of_ours)
    write_bundle(out, checkpoint, arguments.build, arguments.method, dialects, arguments.form, arguments.runtime)
    data, checked = verify_bundle(out)
    print_report(out, data, checked)
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from pipeline.bundle import main  # one module identity, however it was started

    raise SystemExit(main())
