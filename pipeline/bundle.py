"""Write the release bundle: one folder to drop into an app or to upload.

    kokoro-ane bundle --method p6 [--checkpoint FOLDER] [--build build] [--out build/bundle-p6]
    # the levels that `kokoro-ane release --product` named
    kokoro-ane bundle --product
    # the files of ONNX Runtime instead of packages: build/bundle-onnx-fp32
    kokoro-ane bundle --runtime onnx
    kokoro-ane bundle --verify build/bundle-p6
    # its model card once more as README.md, the page that the hub shows
    kokoro-ane bundle --card build/bundle-p6

Packages with their manifests, manifest.json, voices, vocabulary, what reads text, vectors, model
card with the decision table, licences, SHA256SUMS. Encoder and vocoder are built where they are
missing. A bundle of a checkpoint that may not be released has that checkpoint's name in its own.
Exit 0: written, verified, and BUILD/release/decision.json says SHIP for this very package, from a
commit (with --verify: intact; with --card: it may be released). Exit 1: the level was judged and
rejected. Exit 2: bad input. Exit 3: written and verified, not releasable. A pipe's last line is one
JSON object.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import (
    EXIT_GOOD,
    CommandOptions,
    InputError,
    build_option,
    checkpoint_option,
    command,
    conclude,
    exit_of,
    layout_option,
    option,
    parse,
    print_table,
)
from kokoro_ane.runtimes import (
    DEFAULT_RUNTIME,
    RUNTIMES,
    build_missing,
    check_runtime,
    require_writable,
    resolve,
)

if TYPE_CHECKING:
    from kokoro_ane.quantize import PackageRequest
    from kokoro_g2p import Language


@dataclass(frozen=True)
class BundleOptions(CommandOptions):
    """What is bundled, and where to."""

    runtime: str = option("who will run it: packages, or onnx", DEFAULT_RUNTIME)
    method: str = option("level of the vocoder (default: the runtime's own; fp16 of packages)", "")
    product: bool = option("the levels that BUILD/release/product.json names", False)
    layout: str = layout_option()
    checkpoint: str | None = checkpoint_option()
    build: Path = build_option()
    out: Path | None = option(
        "folder to write (default: BUILD/bundle-METHOD, BUILD/bundle-padded-METHOD)"
    )
    dialects: str | None = option(
        "languages of the text, such as us,fr (default: those that the voices speak)"
    )
    without_domain: str = option(
        "one-off forms that the rules leave out, as chat,letters: domains of"
        " g2p/data/grammar/whitelist.tsv",
        "",
        metavar="DOMAINS",
    )
    verify: Path | None = option("check this bundle instead", metavar="FOLDER")
    card: Path | None = option(
        "check this bundle and write its README.md, the page for the hub", metavar="FOLDER"
    )


@dataclass(frozen=True)
class Bundle:
    """A bundle that was written and verified. folder: None where the product decision names nothing
    to bundle. data: its manifest.json, else that decision. checked: how many files, voices and
    tensors were verified.
    """

    folder: Path | None
    verdict: str
    data: Mapping[str, Any]
    checked: Mapping[str, int] = field(default_factory=dict)


def choose_folder(options: BundleOptions, request: "PackageRequest") -> Path:
    """Return the folder to write. Raises InputError for a name that hides that the bundle is not
    releasable.
    """
    from kokoro_ane.core import package_name

    checkpoint = request.checkpoint
    packages = RUNTIMES[options.runtime].is_for_packages
    # a package of fp32 is a reference
    releasable = checkpoint.releasable and not (packages and request.method == "fp32")
    level = request.level if packages else f"{options.runtime}-{request.level}"
    name = package_name("bundle", checkpoint.name, releasable, level)
    out = options.out or options.build / name
    if not releasable and checkpoint.name not in out.name:
        raise InputError(
            f"{checkpoint.name} is not releasable and its bundle has to say so: --out"
            f" {out.parent / name}"
        )
    return out


def parse_dialects(text: str) -> "tuple[Language, ...]":
    """Parse 'us,fr'. Raises InputError for a language that is not read."""
    from kokoro_g2p import dialect_of, languages_with

    return languages_with(dialect_of(name.strip()) for name in text.split(","))


def parse_domains(options: BundleOptions) -> tuple[str, ...]:
    """Parse 'chat,letters'. Raises InputError for a domain that the whitelist does not have."""
    from kokoro_g2p import grammar_of

    names = tuple(options.without_domain.replace(",", " ").split())
    # Asked so that an unknown domain is refused here.
    grammar_of("us", names)
    return names


def make_bundle(options: BundleOptions) -> Bundle:
    """Build what is missing, write the bundle and verify it; or only verify the folder `verify`; or
    verify the folder `card` and write its page for the hub.

    Raises InputError: an unknown name, parts of several checkpoints or other ones than were judged;
    CheckFailed: a level that was rejected, or a package that cannot be built.
    """
    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.pipeline.bundle_files import (
        bundle_of_ours,
        verify_bundle,
        write_bundle,
        write_page,
    )
    from kokoro_ane.pipeline.decision_file import read_product
    from kokoro_ane.quantize import PackageRequest, parse_level

    if options.card and options.verify:
        raise InputError("--card verifies the bundle too: leave --verify out")
    if options.card:
        # Writing the page has verified the bundle already.
        return Bundle(options.card, "SHIP", *write_page(options.card))
    if options.verify:
        return Bundle(options.verify, "", *verify_bundle(options.verify))
    product = None
    method = options.method
    layout = options.layout
    encoder = ""
    if options.product:
        if method or options.runtime != DEFAULT_RUNTIME:
            raise InputError(
                "--product takes what was judged: --method and --runtime belong to a bundle without"
                " it"
            )
        decision, chosen = read_product(options.build)
        if chosen is None:
            # The decision names no product: there is nothing to bundle.
            return Bundle(None, decision["verdict"], decision)
        level, layout = parse_level(chosen["stages"]["vocoder"])
        product = (decision, chosen)
        method = level.name
        encoder = chosen["stages"]["encoder"]
    dialects = None if options.dialects is None else parse_dialects(options.dialects)
    without = parse_domains(options)
    checkpoint = open_checkpoint(options.checkpoint, thorough=True)
    request = resolve(
        options.runtime,
        PackageRequest(checkpoint, options.build, method, layout, "", options.checkpoint, encoder),
    )
    check_runtime(options.runtime, request.method)
    require_writable(options.runtime)
    folder = choose_folder(options, request)
    from kokoro_ane.core import check_output
    from kokoro_ane.pipeline.package_builds import build_package

    folder = check_output(folder, bundle_of_ours)
    build_missing(options.runtime, request, build_package)
    write_bundle(folder, request, options.runtime, dialects, product, without)
    return Bundle(folder, "SHIP", *verify_bundle(folder))


def print_report(folder: Path, bundle: Bundle) -> dict[str, Any]:
    """Print the parts of a bundle as a table; return the report."""
    sizes: dict[str, list[int]] = {}
    # By the first part of the path: a folder, or a file at the top.
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        sizes.setdefault(path.relative_to(folder).parts[0], []).append(path.stat().st_size)
    sizes["all"] = [size for part in sizes.values() for size in part]
    rows = ((part, str(len(files)), f"{sum(files) / 1e6:.2f}") for part, files in sizes.items())
    print_table(str(folder), ("part", "files", "MB"), rows, right=True)
    print(", ".join(f"{count} {what}" for what, count in bundle.checked.items()))
    report = {
        "bundle": str(folder),
        "bytes": sum(sizes["all"]),
        "releasable": bundle.data["releasable"],
        "method": bundle.data["method"],
    }
    return report | dict(bundle.checked)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(BundleOptions, "kokoro-ane bundle", __doc__, argv)
    result = make_bundle(options)
    if result.folder is None:
        report = {"bundle": None, "verdict": result.verdict, "reason": result.data["reason"]}
        print(f"{result.verdict}  nothing was bundled: {result.data['reason']}")
        return conclude(options, report, exit_of(result.verdict, False), "nothing was bundled")
    report = print_report(result.folder, result)
    if options.verify:
        return conclude(options, report, EXIT_GOOD, "intact: every hash and vector agrees")
    code = exit_of(result.verdict, result.data["releasable"])
    reason = result.data["withheld"] or "it may be released"
    what = "README.md written, the bundle verified" if options.card else "written and verified"
    return conclude(options, report, code, f"{what}; {reason}")


if __name__ == "__main__":
    raise SystemExit(main())
