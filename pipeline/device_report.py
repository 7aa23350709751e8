"""What one Mac says of packages, in one file without anything personal; and, anywhere, its times
beside what the packages compute and move.

    # on a Mac
    kokoro-ane device-report build/KokoroVocoder-fp16.mlpackage --out device.json
    # anywhere
    kokoro-ane device-report --read device.json --build build

Each of several packages is opened by a process of its own, because Core ML was reported to abort
one at load. Every enumerated shape of a package: nearness in dB of each output to the package as
mlprogram executes it, on seeded noise; Core ML's placement; load time, 3 warm-ups and 10
predictions for each choice of compute units; or Core ML's refusal. --read finds the packages by
hash, and prints operations, multiply-accumulates and bytes moved beside the times of CPU and Neural
Engine, and the share that the rules of placement forecast beside the measured one. Exit 0: every
shape was measured. Exit 1: one was refused. Exit 2: no Mac, or a file that is not such a report.
A pipe's last line is one JSON object.
"""

import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from kokoro_ane.core.commands import (
    CommandOptions,
    build_option,
    conclude,
    option,
    parse,
    print_table,
)
from kokoro_ane.core.data_files import conform
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, command
from mlprogram.errors import ProgramError

if TYPE_CHECKING:
    from mlprogram.examine.device import CoreML
    from mlprogram.examine.profile import OpenProgram

FORMAT, LARGEST_DB = 2, 200.0  # 2: rows name their function
PLACED = "CPU_AND_NE"  # the compute units that a placement is forecast for
COMMAND = (sys.executable, "-m", "kokoro_ane.pipeline.device_report")


class Timed(TypedDict):
    """For one choice of compute units."""

    load_ms: float
    predict_ms: list[float]


class Row(TypedDict):
    """One shape of a function. Where Core ML `refused` it, nothing else was measured."""

    function: str
    shapes: dict[str, list[int]]
    refused: str | None
    near_db: dict[str, float]
    placement: dict[str, str]
    timings: dict[str, Timed]


class Measured(TypedDict):
    """One package."""

    package: str
    sha256: str
    rows: list[Row]


class Report(TypedDict):
    """The file. `peak_mib`: resident memory of the process that measured."""

    format: int
    chip: str
    system: str
    coremltools: str
    peak_mib: float
    packages: list[Measured]


@dataclass(frozen=True)
class DeviceOptions(CommandOptions):
    """Packages to measure, or a file of measurements to read."""

    packages: tuple[Path, ...] = option(
        "packages to measure on this Mac", (), "packages", nargs="*"
    )
    out: Path = option("file to write", Path("device.json"))
    read: Path | None = option("set a file beside counts instead", metavar="FILE")
    build: Path = build_option("--read: folder with the packages")


def refused_row(
    program: "OpenProgram", shapes: dict[str, tuple[int, ...]], refused: str | None = None
) -> Row:
    """Nothing but why; a row to be filled in where it was not refused."""
    return Row(
        function=program.function.name,
        shapes={tensor: list(shape) for tensor, shape in shapes.items()},
        refused=refused,
        near_db={},
        placement={},
        timings={},
    )


def measured_row(
    core_ml: "CoreML", program: "OpenProgram", shapes: dict[str, tuple[int, ...]]
) -> Row:
    """What Core ML says of one shape."""
    import numpy as np

    from kokoro_ane.core.checks import snr_db
    from kokoro_ane.core.contract import MAIN
    from mlprogram import MLModel
    from mlprogram.examine.device import measure

    name, row = program.function.name, refused_row(program, shapes)
    try:
        facts = measure(core_ml, program, shapes)
    except ProgramError as problem:
        row["refused"] = str(problem.__cause__ or problem)[:300]
        return row
    model = MLModel(str(program.package.path), function_name=None if name == MAIN else name)
    executed: Any = model.predict(dict(facts.inputs))
    for tensor, measured in facts.outputs.items():
        # JSON has no infinity
        db = np.nan_to_num(snr_db(executed[tensor], measured), nan=-LARGEST_DB)
        row["near_db"][tensor] = float(db.clip(-LARGEST_DB, LARGEST_DB))
    row["placement"] |= facts.placement
    for units, timing in facts.timings.items():
        row["timings"][units] = Timed(load_ms=timing.load_ms, predict_ms=list(timing.predict_ms))
    return row


def measured(core_ml: "CoreML", packages: Sequence[Path], system: str) -> Report:
    """The report of this machine."""
    import resource
    from importlib.metadata import version

    from kokoro_ane.core.checks import open_functions
    from kokoro_ane.core.manifest import package_sha256

    entries: list[Measured] = []
    for package in packages:
        rows = []
        for program in open_functions(package):
            # one row for each enumerated shape: Core ML plans and times each by itself
            enumerated = any(len(spec.shapes) > 1 for spec in program.inputs.values())
            for shapes in program.all_shapes() if enumerated else [program.shapes({})]:
                rows.append(measured_row(core_ml, program, shapes))
        entries.append({"package": package.name, "sha256": package_sha256(package), "rows": rows})
    return Report(
        format=FORMAT,
        chip=core_ml.chip,
        system=system,
        coremltools=version("coremltools"),
        # bytes on macOS
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        packages=entries,
    )


def measured_apart(packages: Sequence[Path], command: Sequence[str] = COMMAND) -> Report:
    """The reports of `command`, run for one package after the other, as one. A package that ends
    its process has one row, which says so. Raises InputError as the command does.
    """
    from kokoro_ane.core.checks import open_functions
    from kokoro_ane.core.manifest import package_sha256

    parts: list[Report] = []
    entries: list[Measured] = []
    with tempfile.TemporaryDirectory() as folder:
        for package in packages:
            out = Path(folder) / "device.json"
            arguments = [*command, str(package), "--out", str(out)]
            run = subprocess.run(arguments, capture_output=True, text=True)
            if run.returncode == EXIT_GOOD:
                parts.append(read_report(out))
                entries += parts[-1]["packages"]
                continue
            if run.returncode > 0:
                raise InputError(f"{package}: {(run.stderr.splitlines() or ['no reason'])[-1]}")
            program = open_functions(package)[0]
            reason = f"the process that opened it ended by signal {-run.returncode}"
            row = refused_row(program, program.shapes({}), reason)
            sha256 = package_sha256(package)
            entries.append({"package": package.name, "sha256": sha256, "rows": [row]})
    if not parts:
        raise InputError(f"Core ML ended the process of every package, {packages[0]} first")
    peak_mib = max(part["peak_mib"] for part in parts)
    return parts[0] | {"packages": entries, "peak_mib": peak_mib}


def read_report(path: Path) -> Report:
    """A report that is whole. InputError names the place of what is not."""
    from kokoro_ane.core.data_files import read_json
    from mlprogram.examine.device import UNITS

    report: Any = read_json(path, "kokoro-ane device-report writes it on a Mac")
    if not (isinstance(report, dict) and report.get("format") == FORMAT):
        raise InputError(f"{path} is no device report of format {FORMAT}")
    conform(report, Report, str(path))
    for package in report["packages"]:
        for row in package["rows"]:
            # a row is whole with positive times for each choice of compute units
            whole = set(row["timings"]) == set(UNITS)
            for timed in row["timings"].values():
                whole &= min([timed["load_ms"], *(timed["predict_ms"] or [0])]) > 0
            if row["refused"] is None and not whole:
                raise InputError(
                    f"{path}: {package['package']}: a row has no positive times for each of"
                    f" {', '.join(UNITS)}"
                )
    return cast("Report", report)


def chip_of(report: Report) -> str:
    """m4 of "Apple M4 Pro": the rules know no variants."""
    from mlprogram.examine.rules import load_rules

    chips = load_rules().chips
    for word in report["chip"].lower().split():
        if word in chips:
            return word
    raise InputError(
        f"the chip {report['chip'][:60]!r} is none that the rules know: {', '.join(chips)}"
    )


def counted_rows(report: Report, build: Path) -> Iterator[dict[str, Any]]:
    """Each row beside the counts of its program and the forecast of its placement."""
    from kokoro_ane.core.contract import MAIN
    from kokoro_ane.core.manifest import package_sha256
    from mlprogram.examine.placement import forecast_placement
    from mlprogram.examine.profile import open_program, profile_program
    from mlprogram.examine.rules import load_rules

    rules, chip = load_rules(), chip_of(report)
    # a report names packages by hash, for file names change from machine to machine
    paths = {package_sha256(path): path for path in sorted(build.rglob("*.mlpackage"))}
    for package in report["packages"]:
        if package["sha256"] not in paths:
            raise InputError(
                f"no package in {build} has the hash {package['sha256'][:12]} of"
                f" {package['package']}: --build names its folder"
            )
        for row in package["rows"]:
            program = open_program(paths[package["sha256"]], row["function"])
            shapes = {name: tuple(shape) for name, shape in sorted(row["shapes"].items())}
            text = " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in shapes.items())
            profile = profile_program(program, program.shapes(shapes))
            forecast = forecast_placement(profile, rules, chip)
            counts: dict[str, Any] = {
                "package": package["package"],
                "shapes": text if row["function"] == MAIN else f"{row['function']}: {text}",
                "chip": chip,
                "operations": len(profile.ops),
                "macs": sum(op.macs for op in profile.ops),
                "bytes_moved": sum(op.bytes_moved for op in profile.ops),
                "forecast_on_engine": [
                    forecast.lowest_share("ops"),
                    forecast.optimistic.share("ops"),
                ],
                "refused": row["refused"],
            }
            if row["refused"] is None:
                devices = list(row["placement"].values())
                counts["ms"] = statistics.median(row["timings"][PLACED]["predict_ms"])
                counts["on_engine"] = devices.count("engine") / (len(devices) or 1)
                # the worst output
                counts["near_db"] = min(row["near_db"].values(), default=None)
            yield counts


HEADINGS = (
    *("package", "shapes", "operations", "MMAC", "MB moved"),
    *("ms", "on the engine", "forecast", "dB"),
)


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """One row for people."""
    low, high = row["forecast_on_engine"]
    ms, engine, near = "refused", "-", "-"
    if row["refused"] is None:
        ms, engine = f"{row['ms']:.3g}", f"{100 * row['on_engine']:.0f} %"
        near = "-" if row["near_db"] is None else f"{row['near_db']:.1f}"
    return (
        *(row["package"], row["shapes"], str(row["operations"])),
        *(f"{row['macs'] / 1e6:.3g}", f"{row['bytes_moved'] / 1e6:.3g}"),
        *(ms, engine, f"{100 * low:.0f} to {100 * high:.0f} %", near),
    )


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(DeviceOptions, "kokoro-ane device-report", __doc__, argv)
    try:
        if options.read:
            report = read_report(options.read)
            rows = list(counted_rows(report, options.build))
            title = f"{report['chip']}, {report['system']}: counted, and measured"
            print_table(title, HEADINGS, map(cells, rows))
            refused = any(row["refused"] for row in rows)
            short = {"chip": report["chip"], "refused": refused, "rows": rows}
            meaning = "a package was refused" if refused else "every package ran"
            return conclude(options, short, EXIT_REJECTED * refused, meaning)
        from kokoro_ane.core.staging import json_of, write_json
        from mlprogram.examine.device import load_core_ml

        core_ml = load_core_ml()
        if core_ml is None or not options.packages:
            raise InputError(
                "device-report measures packages on a Mac: name them there, or --read a file that"
                " it wrote"
            )
        if len(options.packages) > 1:
            report = measured_apart(options.packages)
        else:
            report = measured(core_ml, options.packages, f"macOS {platform.mac_ver()[0]}")
    except ProgramError as problem:
        raise InputError(str(problem)) from None
    write_json(options.out, report, json_of("chip", "packages"))
    count = sum(len(package["rows"]) for package in report["packages"])
    meaning = f"measured; send {options.out}, or --read it beside the same packages"
    return conclude(options, {"wrote": str(options.out), "rows": count}, EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
