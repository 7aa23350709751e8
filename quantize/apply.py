"""Compress a built package: float weights in, a smaller checked package out.

    python -m quantize.apply --method w8a8 [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--build build] [--set exponent=0.5]
    python -m quantize.apply --method mixed --recipe my_recipe.json
    python -m quantize.apply --method w8a8 --reconstruction FOLDER     # with what `python -m quantize.reconstruct` has learned
    python -m quantize.apply --method w8 --runtime onnx        # of ONNX Runtime's file
    python -m quantize.apply --method w8a8 --form windowed     # of the package that `pipeline.build vocoder --form windowed` built

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

from core.arguments import checkpoint_argument, form_argument, settings_argument
from core.config import not_releasable
from core.contract import LITERAL
from core.errors import EXIT_GOOD, InputError, run_cli
from quantize.methods import METHODS, Method, method_named, with_settings

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint
    from core.manifest import Manifest
    from quantize.learned_folder import Learned
    from quantize.recipe import Recipe


PACKAGES = "coreml"


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    choices = tuple(name for name, method in METHODS.items() if method.parent)
    parser = argparse.ArgumentParser(prog="quantize.apply", description=__doc__.splitlines()[0])
    parser.add_argument("--method", required=True, choices=choices, help="compression method")
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the parent package (default: %(default)s)")
    form_argument(parser)
    parser.add_argument("--runtime", choices=(PACKAGES, "onnx"), default=PACKAGES, help="whose file (default: %(default)s)")
    parser.add_argument("--recipe", type=Path, help="for method mixed (default: the bundled recipe of the checkpoint)")
    parser.add_argument("--reconstruction", type=Path, metavar="FOLDER", help="what quantize.reconstruct has learned (default: nothing)")
    settings_argument(parser)
    return parser.parse_args(argv)


def print_report(manifest: "Manifest", parent_bytes: int) -> None:
    """Human table, then one JSON line."""
    from rich.console import Console
    from rich.table import Table

    compression, share = manifest.compression, manifest.package_bytes / parent_bytes
    table = Table(title=f"{manifest.package}  {manifest.package_bytes / 1e6:.2f} MB, {share:.3f} of its parent", title_justify="left")
    for heading in ("check on the executed package", "figure", "limit", ""):
        table.add_column(heading)
    counts = f"{compression['compressed_ops']} compressed, {compression['kept_ops']} kept"
    table.add_row("weights of convolutions", counts, "as planned", "holds")
    table.add_row("int8 inputs", f"{compression['int8_inputs']}", "as planned", "holds")
    table.add_row("share of MACs in int8", f"{compression['int8_macs_share']:.2%}", "", "")
    for figure in manifest.checks["figures"]:
        table.add_row(figure["name"], f"{figure['value']:.1f} {figure['unit']}", f">= {figure['limit']:g} {figure['unit']}", "holds")
    Console().print(table)
    if compression["unfit_for_engine"]:
        print(f"not for the Neural Engine: {compression['unfit_for_engine']}")
    if not manifest.releasable:
        print(not_releasable(manifest.checkpoint["name"]))
    fields = {"manifest": str(manifest.path), "package_bytes": manifest.package_bytes, "share_of_parent": round(share, 4)}
    print(json.dumps(fields | {"releasable": manifest.releasable, "compression": manifest.compression, "checks": manifest.checks}))


def learned_for(method: Method, checkpoint: "Checkpoint", recipe: "Recipe | None", folder: Path | None) -> "Learned | None":
    """What was learned for this checkpoint and level, or None without a folder. InputError for another's."""
    if folder is None:
        return None
    from quantize.learned_folder import identity_of, read_learned

    return read_learned(folder, identity_of(checkpoint, method, recipe))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from core.checkpoint import open_checkpoint
    from core.export import quiet_coremltools
    from core.output import check_output
    from quantize.recipe import recipe_for

    check_output(arguments.build / "x.json")
    method, checkpoint = with_settings(method_named(arguments.method), arguments.settings), open_checkpoint(arguments.checkpoint)
    recipe = recipe_for(method, checkpoint, arguments.recipe)
    if arguments.runtime != PACKAGES:
        if arguments.form != LITERAL:
            raise InputError(f"--form {arguments.form} belongs to a package: files for {arguments.runtime} have one form")
        if arguments.reconstruction:
            raise InputError(f"--reconstruction is built into a package: files for {arguments.runtime} take none")
        from quantize.onnx_weights import build_file

        parent, manifest = build_file(method, checkpoint, arguments.build)
        print_report(manifest, parent.package_bytes)
        return EXIT_GOOD
    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from quantize.build import build_compressed

    learned = learned_for(method.in_form(arguments.form), checkpoint, recipe, arguments.reconstruction)
    parent, manifest = build_compressed(method, checkpoint, arguments.build, recipe, arguments.form, learned)
    print_report(manifest, parent.package_bytes)
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from quantize.apply import main  # one module identity, however it was started

    raise SystemExit(main())
