"""What one Mac says of packages, in one file without anything personal; and, anywhere, how that
file compares with the forecast.

    # on a Mac
    kokoro-ane device-report build/KokoroVocoder-fp16.mlpackage build/KokoroVocoder-w8a8.mlpackage --out device.json
    # anywhere
    kokoro-ane device-report --read device.json --build build

Every enumerated shape of a package: nearness in dB of each output to the package as mlprogram
executes it, on seeded noise; Core ML's placement; load time, 3 warm-ups and 10 predictions for each
choice of compute units; or Core ML's refusal. --read finds the packages by hash. Exit 0: each time
of CPU and Neural Engine lies in the forecast's 80 % interval. Exit 1: one does not, or a shape was
refused. Exit 2: no Mac, or a file that is not such a report. The last line of stdout is one JSON
object.
"""

import argparse
import json
import platform
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from kokoro_ane.core.commands import print_table
from kokoro_ane.core.data_files import conform
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command
from mlprogram.errors import ProgramError

if TYPE_CHECKING:
    from mlprogram.examine.cost import Time
    from mlprogram.examine.device import CoreML
    from mlprogram.examine.profile import OpenProgram

FORMAT, LARGEST_DB = 2, 200.0  # 2: rows name their function
JUDGED = "CPU_AND_NE"  # the compute units that the forecast is of


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


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("kokoro-ane device-report", __doc__)
    parser.add_argument("packages", nargs="*", type=Path, help="packages to measure on this Mac")
    parser.add_argument(
        "--out", type=Path, default=Path("device.json"), help="file to write (default: %(default)s)"
    )
    parser.add_argument(
        "--read", type=Path, metavar="FILE", help="compare a file with the forecast instead"
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=Path("build"),
        help="--read: folder with the packages (default: %(default)s)",
    )
    return parser.parse_args(argv)


def shapes_of(program: "OpenProgram") -> list[dict[str, tuple[int, ...]]]:
    """The enumerated shapes, or the only ones."""
    return (
        program.all_shapes()
        if any(len(spec.shapes) > 1 for spec in program.inputs.values())
        else [program.shapes({})]
    )


def measured_row(
    core_ml: "CoreML", program: "OpenProgram", shapes: dict[str, tuple[int, ...]]
) -> Row:
    """What Core ML says of one shape."""
    import numpy as np

    from kokoro_ane.core.builder import MAIN
    from kokoro_ane.core.checks import snr_db
    from mlprogram import MLModel
    from mlprogram.examine.device import measure

    name = program.function.name
    told = {tensor: list(shape) for tensor, shape in shapes.items()}
    try:
        facts = measure(core_ml, program, shapes)
    except ProgramError as problem:
        refused = str(problem.__cause__ or problem)[:300]
        return {
            "function": name,
            "shapes": told,
            "refused": refused,
            "near_db": {},
            "placement": {},
            "timings": {},
        }
    wanted: Any = MLModel(
        str(program.package.path), function_name=None if name == MAIN else name
    ).predict(dict(facts.inputs))
    near = {name: snr_db(wanted[name], got) for name, got in facts.outputs.items()}
    near = {
        name: float(np.nan_to_num(db, nan=-LARGEST_DB).clip(-LARGEST_DB, LARGEST_DB))
        for name, db in near.items()
    }
    timings: dict[str, Timed] = {
        u: {"load_ms": t.load_ms, "predict_ms": list(t.predict_ms)}
        for u, t in facts.timings.items()
    }
    placed = dict(facts.placement)
    return {
        "function": name,
        "shapes": told,
        "refused": None,
        "near_db": near,
        "placement": placed,
        "timings": timings,
    }


def measured(core_ml: "CoreML", packages: list[Path], system: str) -> Report:
    """The report of this machine."""
    import resource
    from importlib.metadata import version

    from kokoro_ane.core.checks import open_functions
    from kokoro_ane.core.export import package_sha256

    found: list[Measured] = []
    for package in packages:
        rows = [
            measured_row(core_ml, program, shapes)
            for program in open_functions(package)
            for shapes in shapes_of(program)
        ]
        found.append({"package": package.name, "sha256": package_sha256(package), "rows": rows})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # bytes on macOS
    return Report(
        format=FORMAT,
        chip=core_ml.chip,
        system=system,
        coremltools=version("coremltools"),
        peak_mib=peak,
        packages=found,
    )


def read_report(path: Path) -> Report:
    """A report that is whole. InputError names the place of what is not."""
    from kokoro_ane.core.staging import read_json
    from mlprogram.examine.device import UNITS

    report: Any = read_json(path, "kokoro-ane device-report writes it on a Mac")
    if not (isinstance(report, dict) and report.get("format") == FORMAT):
        raise InputError(f"{path} is no device report of format {FORMAT}")
    conform(report, Report, str(path))
    for package in report["packages"]:
        for row in package["rows"]:
            times = [
                ms
                for timed in row["timings"].values()
                for ms in (timed["load_ms"], *timed["predict_ms"])
            ]
            whole = set(row["timings"]) == set(UNITS) and all(
                timed["predict_ms"] for timed in row["timings"].values()
            )
            if row["refused"] is None and not (whole and min(times) > 0):
                raise InputError(
                    f"{path}: {package['package']}: a row has no positive times for each of"
                    f" {', '.join(UNITS)}"
                )
    return cast("Report", report)


def chip_of(report: Report) -> str:
    """m4 of "Apple M4 Pro": the rules know no variants."""
    from mlprogram.examine.rules import load_rules

    words, chips = report["chip"].lower().split(), load_rules().chips
    found = next((word for word in words if word in chips), None)
    if found is None:
        raise InputError(
            f"the chip {report['chip'][:60]!r} is none that the forecast knows: {', '.join(chips)}"
        )
    return found


def compared_rows(report: Report, build: Path) -> Iterator[dict[str, Any]]:
    """Each row beside its forecast; `ratio` is to the first package that has these shapes."""
    from kokoro_ane.core.builder import MAIN
    from kokoro_ane.core.export import package_sha256
    from mlprogram.examine.cost import compared, load_costs, times_of
    from mlprogram.examine.forecast import forecast_residency
    from mlprogram.examine.profile import open_program, profile_program
    from mlprogram.examine.rules import load_rules

    rules, costs, chip = load_rules(), load_costs(), chip_of(report)
    at_hand = {package_sha256(path): path for path in sorted(build.rglob("*.mlpackage"))}
    first: dict[str, dict[str, Any]] = {}
    for package in report["packages"]:
        if package["sha256"] not in at_hand:
            raise InputError(
                f"no package in {build} has the hash {package['sha256'][:12]} of"
                f" {package['package']}: --build names its folder"
            )
        for row in package["rows"]:
            program = open_program(at_hand[package["sha256"]], row["function"])
            told = " ".join(
                f"{name}={'x'.join(map(str, shape))}"
                for name, shape in sorted(row["shapes"].items())
            )
            told = told if row["function"] == MAIN else f"{row['function']}: {told}"
            found: dict[str, Any] = {
                "package": package["package"],
                "shapes": told,
                "chip": chip,
                "verdict": "refused",
            }
            if row["refused"] is None:
                shapes = program.shapes(
                    {name: tuple(shape) for name, shape in row["shapes"].items()}
                )
                forecast = forecast_residency(profile_program(program, shapes), rules, chip)
                time = times_of(forecast, rules.chips[chip], costs).optimistic
                found |= beside(row, time) | {
                    "forecast_on_engine": [
                        forecast.lowest_share("ops"),
                        forecast.optimistic.share("ops"),
                    ]
                }
                base = first.setdefault(told, found)
                if base is not found:
                    ratio = compared(time.ms, base["forecast_ms"], costs, "levels", time.fitted)
                    measured_ratio = {"of": base["package"], "measured": found["ms"] / base["ms"]}
                    found["ratio"] = measured_ratio | {
                        "forecast": ratio.value,
                        "verdict": ratio.verdict,
                    }
            yield found


def beside(row: Row, time: "Time") -> dict[str, Any]:
    """The median of the warm predictions and where it lies in the interval; what Core ML placed;
    the worst output.
    """
    ms = statistics.median(row["timings"][JUDGED]["predict_ms"])
    verdict = "faster" if ms < time.low_ms else "slower" if ms > time.high_ms else "inside"
    on_engine = sum(where == "engine" for where in row["placement"].values()) / (
        len(row["placement"]) or 1
    )
    told = {
        "ms": ms,
        "forecast_ms": time.ms,
        "low_ms": time.low_ms,
        "high_ms": time.high_ms,
        "verdict": verdict,
        "on_engine": on_engine,
    }
    return told | {"near_db": min(row["near_db"].values(), default=None)}


def compare(report: Report, build: Path) -> int:
    """The table, rows for mlprogram/data/published_times.json, and the exit code."""
    try:
        rows = list(compared_rows(report, build))
    except ProgramError as problem:
        raise InputError(str(problem)) from None
    headings = (
        "package",
        "shapes",
        "ms",
        "forecast, 80 %",
        "verdict",
        "on the engine",
        "forecast",
        "dB",
        "to the first",
    )
    print_table(
        f"{report['chip']}, {report['system']}: measured and forecast", headings, map(cells, rows)
    )
    table = [
        [
            package["package"].removesuffix(".mlpackage"),
            " ".join("x".join(map(str, s)) for s in row["shapes"].values()),
            found["chip"],
            report["chip"],
            report["system"],
            "as named",
            units,
            statistics.median(timed["predict_ms"]),
            "device-report",
            "test",
        ]
        for (package, row), found in zip(
            ((p, r) for p in report["packages"] for r in p["rows"]), rows, strict=True
        )
        for units, timed in sorted(row["timings"].items())
    ]
    good = all(row["verdict"] == "inside" for row in rows)
    print(
        json.dumps({"chip": report["chip"], "inside": good, "rows": rows, "published_times": table})
    )
    return EXIT_GOOD if good else EXIT_REJECTED


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """One row for people."""
    if row["verdict"] == "refused":
        return (row["package"], row["shapes"], "-", "-", "refused", "-", "-", "-", "-")
    low, high = row["forecast_on_engine"]
    shares = (f"{100 * row['on_engine']:.0f} %", f"{100 * low:.0f} to {100 * high:.0f} %")
    span = f"{row['forecast_ms']:.3g} ({row['low_ms']:.3g} to {row['high_ms']:.3g})"
    near = "-" if row["near_db"] is None else f"{row['near_db']:.1f}"
    told = (
        f"{r['measured']:.2f}; forecast {r['forecast']:.2f}, {r['verdict']}"
        if (r := row.get("ratio"))
        else "-"
    )
    return (
        row["package"],
        row["shapes"],
        f"{row['ms']:.3g}",
        span,
        row["verdict"],
        *shares,
        near,
        told,
    )


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.read:
        return compare(read_report(arguments.read), arguments.build)
    from kokoro_ane.core.staging import json_of, write_json
    from mlprogram.examine.device import load_core_ml

    core_ml = load_core_ml()
    if core_ml is None or not arguments.packages:
        raise InputError(
            "device-report measures packages on a Mac: name them there, or --read a file that it"
            " wrote"
        )
    try:
        report = measured(core_ml, arguments.packages, f"macOS {platform.mac_ver()[0]}")
    except ProgramError as problem:
        raise InputError(str(problem)) from None
    write_json(arguments.out, report, json_of("chip", "packages"))
    print(
        json.dumps(
            {
                "wrote": str(arguments.out),
                "rows": sum(len(package["rows"]) for package in report["packages"]),
            }
        )
    )
    return EXIT_GOOD


if __name__ == "__main__":
    raise SystemExit(main())
