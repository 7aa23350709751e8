"""Write the packages of a bundle into one .pte, for apps that run ExecuTorch: its Core ML delegate
gets the judged packages byte for byte.

    python -m kokoro_ane.pipeline.delegate build/bundle-p6 [--out build/bundle-p6.pte]

Methods duration, prosody and vocoder, at any of the lengths that the packages have; what lies
between them is the host's (docs/synthesis.md). The bundle is verified first; the packages are taken
out of the written file again and compared. The delegate itself runs on Apple's systems only. Exit
0: written. Exit 1: the file does not hold what the bundle holds. Exit 2: bad input. A pipe's last
line is one JSON object.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core import (
    EXIT_GOOD,
    REQUIRED,
    CheckFailed,
    CommandOptions,
    InputError,
    command,
    conclude,
    option,
    parse,
    print_table,
)
from kokoro_ane.runtimes import PACKAGE, check_runtime

if TYPE_CHECKING:
    from kokoro_ane.core import Manifest

RUNTIME, SUFFIX = "executorch", ".pte"


@dataclass(frozen=True)
class DelegateOptions(CommandOptions):
    """A bundle, and the file that is made of it."""

    bundle: Path = option("folder that kokoro_ane.pipeline.bundle wrote", REQUIRED, "bundle")
    out: Path | None = option("file to write (default: BUNDLE.pte)")


def choose_file(options: DelegateOptions, data: dict[str, Any]) -> Path:
    """Return the file to write. Raises InputError for a name that hides the checkpoint's."""
    bundle = options.bundle.resolve()
    name = data["checkpoint"]["name"]
    # A name that does not yet say so gets the checkpoint's in front.
    stem = bundle.name if data["releasable"] or name in bundle.name else f"{name}-{bundle.name}"
    out: Path = options.out or bundle.with_name(f"{stem}{SUFFIX}")
    if not data["releasable"] and name not in out.name:
        raise InputError(
            f"{name} is not releasable and its file has to say so: --out"
            f" {out.with_name(f'{name}-{out.name}')}"
        )
    return out


def load_manifests(bundle: Path, data: dict[str, Any]) -> "list[Manifest]":
    """Load the manifests of encoder and vocoder. Raises InputError for another runtime's files."""
    from kokoro_ane.core import Manifest

    entries = (*data["encoder"], data["vocoder"])
    manifests = [Manifest.load(bundle / entry["file"]) for entry in entries]
    for manifest in manifests:
        if not manifest.package.endswith(PACKAGE):
            raise InputError(
                f"{bundle} holds {manifest.package}: only Core ML packages can be delegated to"
                " Core ML"
            )
    return manifests


def compare(path: Path, manifests: "list[Manifest]") -> list[dict[str, Any]]:
    """Return the table's rows. Raises CheckFailed where a package is not the bundle's."""
    from kokoro_ane.core import hash_package
    from kokoro_ane.runtimes import read_signatures, take_packages

    rows = []
    # Beside the file, because packages may not fit where temporary files lie.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        # the packages are taken out of the written file again: no writer is trusted
        packages = take_packages(path, Path(folder))
        for manifest in manifests:
            for function, signature in read_signatures(manifest):
                name = signature.name
                # By the name that an app calls it by.
                package = packages.get(signature.name)
                if (
                    package is None
                    or hash_package(package.package) != manifest.package_sha256
                    or package.function != function
                ):
                    raise CheckFailed(
                        f"method {name} does not hold {manifest.package}; nothing was kept"
                    )
                rows.append(
                    {
                        "method": name,
                        "package": manifest.package,
                        "package_sha256": manifest.package_sha256,
                        "function": function,
                        "inputs": list(signature.program.inputs),
                        "outputs": list(signature.program.outputs),
                        "lengths": {key: list(ends) for key, ends in signature.lengths.items()},
                    }
                )
    return rows


def print_report(path: Path, rows: list[dict[str, Any]], data: dict[str, Any]) -> dict[str, Any]:
    """Print the methods as a table; return the report."""
    size = path.stat().st_size
    cells = []
    for row in rows:
        ends = ", ".join(f"{name} {low} to {high}" for name, (low, high) in row["lengths"].items())
        cells.append((row["method"], ", ".join(row["inputs"]), ends, row["package"]))
    headings = ("method", "inputs, in this order", "lengths", "package, byte for byte")
    print_table(f"{path}  {size / 1e6:.1f} MB", headings, cells)
    if not data["releasable"]:
        print(data["withheld"])
    return {"file": str(path), "bytes": size, "releasable": data["releasable"], "methods": rows}


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(DelegateOptions, "kokoro_ane.pipeline.delegate", __doc__, argv)
    check_runtime(RUNTIME)
    from kokoro_ane.core import bytes_of, check_implied, check_output, staged
    from kokoro_ane.pipeline.bundle_files import verify_bundle
    from kokoro_ane.runtimes import BACKEND, write

    data, _ = verify_bundle(options.bundle)
    out = choose_file(options, data)
    # A file is ours where it names the backend.
    own_file = bytes_of(BACKEND.encode())
    if options.out:
        out = check_output(out, own_file, (SUFFIX,), options)
    else:
        out = check_implied(out, own_file)
    manifests = load_manifests(options.bundle, data)
    # compared before the file gets its name
    with staged(out, own_file) as aside:
        write(manifests, aside)
        rows = compare(aside, manifests)
    report = print_report(out, rows, data)
    return conclude(options, report, EXIT_GOOD, "written; it holds what the bundle holds")


if __name__ == "__main__":
    raise SystemExit(main())
