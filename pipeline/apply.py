"""Compress a built package: float weights in, a smaller checked package out.

    kokoro-ane quantize --method w8a8 [--checkpoint FOLDER|demo|hexgrad/Kokoro-82M] [--build build] [--set exponent=0.5]
    kokoro-ane quantize --method mixed --recipe my_recipe.json
    kokoro-ane quantize --method w8 --runtime onnx        # of ONNX Runtime's file
    kokoro-ane quantize --method w8a8 --layout tiled     # of the package that `pipeline.build vocoder --layout tiled` built

Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. The last line of stdout is one JSON object.
How good the result sounds is decided by eval/quality.py.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.commands import checkpoint_argument, layout_argument, print_table, settings_argument
from kokoro_ane.core.config import not_releasable
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, run_cli
from kokoro_ane.quantize.methods import METHODS, method_named, with_settings

if TYPE_CHECKING:
    from kokoro_ane.core.manifest import Manifest


PACKAGES = "coreml"


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    choices = tuple(name for name, method in METHODS.items() if method.parent)
    parser = Parser("kokoro-ane quantize", __doc__)
    parser.add_argument("--method", required=True, choices=choices, help="compression method")
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the parent package (default: %(default)s)")
    layout_argument(parser)
    parser.add_argument("--runtime", choices=(PACKAGES, "onnx"), default=PACKAGES, help="whose file (default: %(default)s)")
    parser.add_argument("--recipe", type=Path, help="for method mixed (default: the bundled recipe of the checkpoint)")
    settings_argument(parser)
    return parser.parse_args(argv)


def print_report(manifest: "Manifest", parent_bytes: int) -> None:
    """Human table, then one JSON line."""
    compression, share = manifest.compression, manifest.package_bytes / parent_bytes
    counts = f"{compression['compressed_ops']} compressed, {compression['kept_ops']} kept"
    rows = [
        ("weights of convolutions", counts, "as planned", "holds"),
        ("int8 inputs", f"{compression['int8_inputs']}", "as planned", "holds"),
        ("share of MACs in int8", f"{compression['int8_macs_share']:.2%}", "", ""),
    ]
    for figure in manifest.checks["figures"]:
        rows.append((figure["name"], f"{figure['value']:.1f} {figure['unit']}", f">= {figure['limit']:g} {figure['unit']}", "holds"))
    title = f"{manifest.package}  {manifest.package_bytes / 1e6:.2f} MB, {share:.3f} of its parent"
    print_table(title, ("check on the executed package", "figure", "limit", ""), rows)
    if compression["unfit_for_engine"]:
        print(f"not for the Neural Engine: {compression['unfit_for_engine']}")
    if not manifest.releasable:
        print(not_releasable(manifest.checkpoint["name"]))
    fields = {"manifest": str(manifest.path), "package_bytes": manifest.package_bytes, "share_of_parent": round(share, 4)}
    print(json.dumps(fields | {"releasable": manifest.releasable, "compression": manifest.compression, "checks": manifest.checks}))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.export import quiet_coremltools
    from kokoro_ane.core.staging import check_output
    from kokoro_ane.quantize.recipe import recipe_for

    check_output(arguments.build / "x.json")
    method, checkpoint = with_settings(method_named(arguments.method), arguments.settings), open_checkpoint(arguments.checkpoint)
    recipe = recipe_for(method, checkpoint, arguments.recipe)
    if arguments.runtime != PACKAGES:
        if arguments.layout != PADDED:
            raise InputError(f"--layout {arguments.layout} belongs to a package: files for {arguments.runtime} have one layout")
        from kokoro_ane.runtimes.onnx.onnx_levels import build_file

        parent, manifest = build_file(method, checkpoint, arguments.build)
        print_report(manifest, parent.package_bytes)
        return EXIT_GOOD
    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.quantize.compress import build_compressed

    parent, manifest = build_compressed(method, checkpoint, arguments.build, recipe, arguments.layout)
    print_report(manifest, parent.package_bytes)
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
