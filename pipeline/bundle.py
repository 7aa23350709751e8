"""The release bundle: one folder to drop into an app or to upload.

    kokoro-ane bundle --method p6 [--checkpoint FOLDER] [--build build] [--out build/bundle-p6]
    # the levels that `kokoro-ane release --product` named
    kokoro-ane bundle --product
    # the files of ONNX Runtime instead of packages: build/bundle-onnx-fp32
    kokoro-ane bundle --runtime onnx
    # a lexicon in the place of the rules that the Swift package reads text by
    kokoro-ane bundle --text words
    kokoro-ane bundle --verify build/bundle-p6

Packages with their manifests, manifest.json, voices, vocabulary, what reads text, vectors, model
card with the decision table, licences, SHA256SUMS. Encoder and vocoder are built where they are
missing. A bundle of a checkpoint that may not be released carries its name in its own. Exit 0:
written, verified, and BUILD/release/decision.json says SHIP for this very package, from a commit
(with --verify: intact). Exit 1: the level was judged and rejected. Exit 2: bad input. Exit 3:
written and verified, not releasable. The last line of stdout is one JSON object.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import checkpoint_argument, layout_argument, print_table
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, command, exit_of
from kokoro_ane.runtimes.registry import (
    DEFAULT_RUNTIME,
    RUNTIMES,
    build_missing,
    check_runtime,
    level_for,
)

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.g2p.result import Dialect


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane bundle", __doc__)
    parser.add_argument(
        "--runtime",
        default=DEFAULT_RUNTIME,
        help="who will run it: packages, or onnx (default: %(default)s)",
    )
    parser.add_argument(
        "--method",
        default="",
        help="level of the vocoder (default: the runtime's own; fp16 of packages)",
    )
    parser.add_argument(
        "--product", action="store_true", help="the levels that BUILD/release/product.json names"
    )
    layout_argument(parser)
    checkpoint_argument(parser)
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        help="folder with the packages (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="folder to write (default: BUILD/bundle-METHOD, BUILD/bundle-streaming-METHOD)",
    )
    what = (
        "g2p's rules with their word lists, or only a lexicon and the G2P package (default:"
        " %(default)s)"
    )
    parser.add_argument(
        "--text", choices=("rules", "words"), default="rules", help=f"what reads text: {what}"
    )
    parser.add_argument(
        "--dialects",
        help="languages of that: us, gb, or us,gb (default: those that the voices speak)",
    )
    parser.add_argument("--verify", type=Path, metavar="FOLDER", help="check this bundle instead")
    return parser.parse_args(argv)


def folder_for(arguments: argparse.Namespace, checkpoint: "Checkpoint") -> Path:
    """Where the bundle goes. InputError for a name that hides that it is not releasable."""
    from kokoro_ane.core.manifest import level_name, package_name

    packages = RUNTIMES[arguments.runtime].packages
    # a reference package
    releasable = checkpoint.releasable and not (packages and arguments.method == "fp32")
    level = level_name(arguments.method, arguments.layout)
    name = package_name(
        "bundle", checkpoint.name, releasable, level if packages else f"{arguments.runtime}-{level}"
    )
    out = arguments.out or arguments.build / name
    if not releasable and checkpoint.name not in out.name:
        raise InputError(
            f"{checkpoint.name} is not releasable and its bundle has to say so: --out"
            f" {out.parent / name}"
        )
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
    sizes: dict[str, list[int]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        sizes.setdefault(path.relative_to(folder).parts[0], []).append(path.stat().st_size)
    sizes["all"] = [size for found in sizes.values() for size in found]
    total = sum(sizes["all"])
    rows = ((part, str(len(found)), f"{sum(found) / 1e6:.2f}") for part, found in sizes.items())
    print_table(str(folder), ("part", "files", "MB"), rows, right=True)
    print(", ".join(f"{count} {what}" for what, count in checked.items()))
    if not data["releasable"]:
        print(f"{data['withheld']}; the model card says so")
    print(
        json.dumps(
            {
                "bundle": str(folder),
                "bytes": total,
                "releasable": data["releasable"],
                "method": data["method"],
                **checked,
            }
        )
    )


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.pipeline.decision_file import read_product
    from kokoro_ane.quantize.locator import parse_level

    if arguments.verify:
        from kokoro_ane.pipeline.bundle_files import verify_bundle

        data, checked = verify_bundle(arguments.verify)
        print_report(arguments.verify, data, checked)
        return EXIT_GOOD
    product = None
    if arguments.product:
        if arguments.method or arguments.runtime != DEFAULT_RUNTIME or arguments.text == "words":
            raise InputError(
                "--product takes what was judged: --method, --runtime and --text words belong to a"
                " bundle without it"
            )
        decision, chosen = read_product(arguments.build)
        if chosen is None:
            print(f"{decision['verdict']}  nothing was bundled: {decision['reason']}")
            print(
                json.dumps(
                    {"bundle": None, "verdict": decision["verdict"], "reason": decision["reason"]}
                )
            )
            return exit_of(decision["verdict"], releasable=False)
        product, (method, arguments.layout) = (
            (decision, chosen),
            parse_level(chosen["stages"]["vocoder"]),
        )
        arguments.method = method.name
    dialects = None if arguments.dialects is None else dialects_of(arguments.dialects)
    checkpoint = open_checkpoint(arguments.checkpoint, thorough=True)
    arguments.method = level_for(arguments.runtime, arguments.method)
    check_runtime(arguments.runtime, arguments.method, layout=arguments.layout)
    out = folder_for(arguments, checkpoint)
    from kokoro_ane.core.staging import check_output
    from kokoro_ane.pipeline.bundle_files import bundle_of_ours, verify_bundle, write_bundle
    from kokoro_ane.quantize.locator import Request

    out = check_output(out, bundle_of_ours)
    encoder, where = (
        product[1]["stages"]["encoder"] if product else "",
        (arguments.build, arguments.method, arguments.layout),
    )
    build_missing(
        arguments.runtime, Request(checkpoint, *where, source=arguments.checkpoint, encoder=encoder)
    )
    made = (arguments.layout, arguments.runtime, arguments.text == "words", product)
    write_bundle(out, checkpoint, arguments.build, arguments.method, dialects, *made)
    data, checked = verify_bundle(out)
    print_report(out, data, checked)
    return exit_of("SHIP", data["releasable"])


if __name__ == "__main__":
    raise SystemExit(main())
