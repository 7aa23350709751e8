"""Compress a built package: float weights in, a smaller checked package out.

    kokoro-ane quantize --method w8a8 [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M] \\
        [--build build] [--set exponent=0.5]
    kokoro-ane quantize --method mixed --recipe my_recipe.json
    # weights of the encoder; `lossless` where they stand on an 8-bit grid
    kokoro-ane quantize --method w8g --stage encoder
    kokoro-ane quantize --method w8 --runtime onnx        # of ONNX Runtime's file
    # of the package that `build vocoder --layout padded` built
    kokoro-ane quantize --method w8a8 --layout padded

Exit 0: built and checked. Exit 1: built, missed a limit, thrown away. Exit 2: bad input. A pipe's
last line is one JSON object. How good the result sounds is decided by eval/quality.py.
"""

from typing import TYPE_CHECKING, Any

from kokoro_ane.core import (
    EXIT_GOOD,
    VOCODER_NAME,
    QuantizeOptions,
    command,
    conclude,
    not_releasable,
    parse,
    print_table,
)
from kokoro_ane.pipeline.package_builds import quantize_stage
from kokoro_ane.quantize import STAGE_METHODS

if TYPE_CHECKING:
    from kokoro_ane.core import Manifest


def print_report(manifest: "Manifest", parent_bytes: int) -> dict[str, Any]:
    """Print the checks as a table; returns the report."""
    from kokoro_ane.core import Check

    compression = manifest.compression
    share = manifest.package_bytes / parent_bytes
    rows = [("compressed weights", f"{compression['compressed_ops']}", "as planned", "holds")]
    if manifest.stage == VOCODER_NAME:
        rows.append(("int8 inputs", f"{compression['int8_inputs']}", "as planned", "holds"))
        rows.append(("share of MACs in int8", f"{compression['int8_macs_share']:.2%}", "", ""))
    for figure in manifest.checks["figures"]:
        rows.append((figure["name"], *Check(**figure).text(), "holds"))
    title = f"{manifest.package}  {manifest.package_bytes / 1e6:.2f} MB, {share:.3f} of its parent"
    print_table(title, ("check on the executed package", "figure", "limit", ""), rows)
    if compression.get("unfit_for_engine"):
        print(f"not for the Neural Engine: {compression['unfit_for_engine']}")
    if not manifest.releasable:
        print(not_releasable(manifest.checkpoint["name"]))
    return {
        "manifest": str(manifest.path),
        "package_bytes": manifest.package_bytes,
        "share_of_parent": round(share, 4),
        "releasable": manifest.releasable,
        "compression": compression,
        "checks": manifest.checks,
    }


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    levels = [level for methods in STAGE_METHODS.values() for level in methods.items()]
    # A name of both stages stands once in the help.
    compressed = tuple(dict.fromkeys(name for name, method in levels if method.parent))
    options = parse(QuantizeOptions, "kokoro-ane quantize", __doc__, argv, method=compressed)
    # An encoder of iOS 17 has two packages, and the report is the last one's.
    for parent, manifest in quantize_stage(options):
        report = print_report(manifest, parent.package_bytes)
    stage = "" if options.stage == "vocoder" else f" --stage {options.stage}"
    meaning = f"built, and every check holds; `kokoro-ane quality --method {options.method}{stage}`"
    return conclude(options, report, EXIT_GOOD, f"{meaning} judges its sound")


if __name__ == "__main__":
    raise SystemExit(main())
