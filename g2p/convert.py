"""Build the G2P package: bundled weights to .mlpackage, executed and compared before it gets its name.

    python -m g2p.convert [--method w8|fp16] [--weights FILE.npz] [--target iOS17|iOS18] [--out build]

w8 (8-bit weights, float32 arithmetic) is G2P.mlpackage: the same numbers as the bundled model. fp16 is G2P-fp16.mlpackage.
Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. The last line of stdout is one JSON object.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not g2p/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from core.contract import G2P_NAME
from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    from core.manifest import Manifest


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="g2p.convert", description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=("w8", "fp16"), default="w8", help="w8: 8-bit weights in float32 arithmetic; fp16: all 16 bits")
    parser.add_argument("--weights", type=Path, help="a .npz of g2p.training.train with its .json; default: the bundled one")
    parser.add_argument("--target", choices=("iOS17", "iOS18"), default="iOS17", help="minimum deployment target")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the package and its manifest")
    return parser.parse_args(argv)


def build(weights: Path, method: str, target: str, out: Path) -> "Manifest":
    """Export aside, execute, compare, rename, write the manifest. Raises CheckFailed when a limit is missed; nothing is left then."""
    from core.export import save_package
    from core.staging import staged
    from g2p.check import check_package
    from g2p.describe import g2p_manifest
    from g2p.export import exported
    from g2p.weights import load_model
    from mlprogram import Program

    model = load_model(weights)
    name = G2P_NAME if method == "w8" else f"{G2P_NAME}-{method}"
    package, manifest = out / f"{name}.mlpackage", out / f"{name}.json"
    with staged(package) as aside:
        save_package(exported(model, method, target), aside)
        figures, facts = check_package(Program(aside), model, method)
        manifest.unlink(missing_ok=True)  # from here until it is written again there is no package
    return g2p_manifest(package, weights, method, target, model.config, figures, facts).save(manifest)


def print_report(manifest: "Manifest") -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    from core.figures import Figure

    shapes = manifest.checks["structure"]["enumerated_shapes"]
    title = f"{manifest.package} {manifest.package_bytes / 1e6:.2f} MB, {shapes} shapes, {manifest.target}, CPU only"
    table = Table(title=title, title_justify="left")
    for heading in ("check on the executed package", "figure", "limit", ""):
        table.add_column(heading)
    for figure in manifest.checks["figures"]:
        table.add_row(figure["name"], *Figure(**figure).text(), "holds")
    table.add_row("operations", str(manifest.checks["structure"]["count"]), "<= 400", "holds")
    Console().print(table)
    figures = {"manifest": str(manifest.path), "package_bytes": manifest.package_bytes, "checks": manifest.checks}
    print(json.dumps(figures | {"releasable": manifest.releasable}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.weights is not None and arguments.weights.suffix != ".npz":
        raise InputError(f"--weights {arguments.weights}: a .npz file that `python -m g2p.training.train` wrote")
    from g2p.weights import WEIGHTS

    print_report(build(arguments.weights or WEIGHTS, arguments.method, arguments.target, arguments.out))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from g2p.convert import main  # one module identity, however it was started

    raise SystemExit(main())
