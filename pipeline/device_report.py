"""Measure packages on a Mac, in one file without anything personal; and, anywhere, show its times
beside what the packages compute and move.

    # on a Mac
    kokoro-ane device-report build/KokoroVocoder-fp16.mlpackage --out device.json
    # anywhere
    kokoro-ane device-report --read device.json --build build

Each package is opened by a process of its own, because Core ML was reported to abort one at load.
Every enumerated shape of a package: nearness in dB of each output to the package as
mlprogram executes it, on seeded noise; Core ML's placement; load time, 3 warm-ups and 10
predictions for each choice of compute units; or Core ML's refusal. --read finds the packages by
hash, and prints operations, multiply-accumulates and bytes moved beside the times of CPU and Neural
Engine, and the share that the rules of placement forecast beside the measured one. Exit 0: every
shape was measured. Exit 1: one was refused. Exit 2: no Mac, or a file that is not such a report.
A pipe's last line is one JSON object.
"""

import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from kokoro_ane.core import (
    EXIT_GOOD,
    EXIT_REJECTED,
    CommandOptions,
    InputError,
    build_option,
    command,
    conclude,
    conform,
    option,
    parse,
    print_table,
)
from mlprogram import ProgramError

if TYPE_CHECKING:
    from mlprogram import OpenProgram

FORMAT, LARGEST_DB = 2, 200.0  # 2: rows name their function
PLACED = "CPU_AND_NE"  # the compute units that a placement is forecast for


class Timed(TypedDict):
    """Times of one shape with one choice of compute units."""

    load_ms: float
    predict_ms: list[float]


class ShapeMeasurement(TypedDict):
    """Measurements of one shape of a function; only `refused`, the reason, where Core ML refused
    it.
    """

    function: str
    shapes: dict[str, list[int]]
    refused: str | None
    near_db: dict[str, float]
    placement: dict[str, str]
    timings: dict[str, Timed]


class Measured(TypedDict):
    """Measurements of one package."""

    package: str
    sha256: str
    rows: list[ShapeMeasurement]


class Report(TypedDict):
    """The file. peak_mib: resident memory of the largest process that measured."""

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


def empty_row(program: "OpenProgram", shapes: dict[str, tuple[int, ...]]) -> ShapeMeasurement:
    """A row without any measurement."""
    return ShapeMeasurement(
        function=program.function.name,
        shapes={tensor: list(shape) for tensor, shape in shapes.items()},
        refused=None,
        near_db={},
        placement={},
        timings={},
    )


def measure_package(package: Path) -> Measured:
    """Measure a package by Core ML in this process: one row for each enumerated shape."""
    import numpy as np

    from kokoro_ane.core import MAIN, hash_package, open_functions, snr_db
    from mlprogram import MLModel, load_core_ml, measure

    core_ml = load_core_ml()
    rows = []
    assert core_ml is not None  # the command asked for it
    for program in open_functions(package):
        name = program.function.name
        # Core ML plans and times each enumerated shape by itself
        for shapes in program.all_shapes():
            row = empty_row(program, shapes)
            # The row stands before it is measured, so that a refusal is kept in it.
            rows.append(row)
            try:
                facts = measure(core_ml, program, shapes)
            except ProgramError as problem:
                row["refused"] = str(problem.__cause__ or problem)[:300]
                continue
            # Core ML wants no name where a package has one function.
            model = MLModel(str(package), function_name=None if name == MAIN else name)
            executed: Any = model.predict(dict(facts.inputs))
            for tensor, output in facts.outputs.items():
                # JSON has no infinity
                db = np.nan_to_num(snr_db(executed[tensor], output), nan=-LARGEST_DB)
                row["near_db"][tensor] = float(db.clip(-LARGEST_DB, LARGEST_DB))
            row["placement"] |= facts.placement
            for units, timing in facts.timings.items():
                row["timings"][units] = Timed(
                    load_ms=timing.load_ms, predict_ms=list(timing.predict_ms)
                )
    return Measured(package=package.name, sha256=hash_package(package), rows=rows)


def measure_apart(package: Path, measure: Callable[[Path], Measured] = measure_package) -> Measured:
    """Measure a package in a process of its own. One that ends its process has one row, which says
    so.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    from kokoro_ane.core import hash_package, open_functions

    # Spawned, because a forked process would share what is open here.
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return process.submit(measure, package).result()
        except BrokenProcessPool:
            # Which shape ended it is not known: the first function's usual one stands for all.
            program = open_functions(package)[0]
            row = empty_row(program, program.shapes({}))
            row["refused"] = "the process that opened it was ended"
            return Measured(package=package.name, sha256=hash_package(package), rows=[row])


def report_of(packages: Sequence[Path]) -> Report:
    """Measure packages on this machine. Raises InputError off a Mac."""
    import resource
    from importlib.metadata import version

    from mlprogram import load_core_ml

    core_ml = load_core_ml()
    if core_ml is None or not packages:
        raise InputError(
            "device-report measures packages on a Mac: name them there, or --read a file that it"
            " wrote"
        )
    return Report(
        format=FORMAT,
        chip=core_ml.chip,
        system=f"macOS {platform.mac_ver()[0]}",
        coremltools=version("coremltools"),
        # Before peak_mib, which counts the processes that are started here.
        packages=[measure_apart(package) for package in packages],
        # of the largest process that measured, in bytes on macOS
        peak_mib=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20,
    )


def read_report(path: Path) -> Report:
    """Read a report. Raises InputError that names the place of what is missing or wrong."""
    from kokoro_ane.core import read_json
    from mlprogram import UNITS

    report: Any = read_json(path, "kokoro-ane device-report writes it on a Mac")
    if not (isinstance(report, dict) and report.get("format") == FORMAT):
        raise InputError(f"{path} is no device report of format {FORMAT}")
    conform(report, Report, str(path))
    for package in report["packages"]:
        for row in package["rows"]:
            # a complete row has positive times for each choice of compute units
            is_complete = set(row["timings"]) == set(UNITS)
            for timed in row["timings"].values():
                # A list without times counts as 0 ms, which is not positive.
                is_complete &= min([timed["load_ms"], *(timed["predict_ms"] or [0])]) > 0
            if row["refused"] is None and not is_complete:
                raise InputError(
                    f"{path}: {package['package']}: a row has no positive times for each of"
                    f" {', '.join(UNITS)}"
                )
    return cast("Report", report)


def parse_chip(report: Report) -> str:
    """Return the chip's name in the rules: m4 of "Apple M4 Pro", for they have no variants."""
    from mlprogram import load_rules

    chips = load_rules().chips
    for word in report["chip"].lower().split():
        if word in chips:
            return word
    raise InputError(
        f"the chip {report['chip'][:60]!r} is none that the rules know: {', '.join(chips)}"
    )


def count_rows(report: Report, build: Path) -> Iterator[dict[str, Any]]:
    """Return each row with the counts of its program and the forecast of its placement."""
    from kokoro_ane.core import MAIN, hash_package
    from mlprogram import forecast_placement, load_rules, open_program, profile_program

    rules = load_rules()
    chip = parse_chip(report)
    # a report names packages by hash, for file names change from machine to machine
    paths = {hash_package(path): path for path in sorted(build.rglob("*.mlpackage"))}
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
                # the pessimistic and the optimistic reading of the rules
                "forecast_on_engine": [
                    forecast.lowest_share("ops"),
                    forecast.optimistic.share("ops"),
                ],
                "refused": row["refused"],
            }
            if row["refused"] is None:
                devices = list(row["placement"].values())
                counts["ms"] = statistics.median(row["timings"][PLACED]["predict_ms"])
                # A package without placed operations has a share of 0.
                counts["on_engine"] = devices.count("engine") / (len(devices) or 1)
                # the worst output
                counts["near_db"] = min(row["near_db"].values(), default=None)
            yield counts


HEADINGS = (
    *("package", "shapes", "operations", "MMAC", "MB moved"),
    *("ms", "on the engine", "forecast", "dB"),
)


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table."""
    low, high = row["forecast_on_engine"]
    ms, engine, near = "refused", "-", "-"
    if row["refused"] is None:
        ms = f"{row['ms']:.3g}"
        engine = f"{100 * row['on_engine']:.0f} %"
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
            rows = list(count_rows(report, options.build))
            title = f"{report['chip']}, {report['system']}: counted, and measured"
            print_table(title, HEADINGS, map(cells, rows))
            refused = any(row["refused"] for row in rows)
            short = {"chip": report["chip"], "refused": refused, "rows": rows}
            meaning = "a package was refused" if refused else "every package ran"
            # Without a refusal the product is 0, which is EXIT_GOOD.
            return conclude(options, short, EXIT_REJECTED * refused, meaning)
        report = report_of(options.packages)
    except ProgramError as problem:
        raise InputError(str(problem)) from None
    from kokoro_ane.core import json_of, write_json

    write_json(options.out, report, json_of("chip", "packages"))
    count = sum(len(package["rows"]) for package in report["packages"])
    meaning = f"measured; send {options.out}, or --read it beside the same packages"
    return conclude(options, {"wrote": str(options.out), "rows": count}, EXIT_GOOD, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
