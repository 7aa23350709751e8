"""The generated part of docs/forecast.md: what the engine of every chip would take of four forms of the vocoder, at five lengths.

    python -m bench.forecast_table --write docs/forecast.md [--workers 2]     # minutes; without --write the tables are printed

Forms: bench.forecast_forms. Shares, segments, crossings and times are mlprogram's forecast, summed over the programs of a form.
The last line of stdout is one JSON object; exit 2 for bad input.
"""

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import EXIT_GOOD, InputError, run_cli
from pipeline.staging import staged

if TYPE_CHECKING:
    from bench.forecast_forms import Sample
    from mlprogram.examine.forecast import Forecast
    from mlprogram.examine.latency import Band
    from mlprogram.examine.rules import Rules

COMMAND = "python -m bench.forecast_table --write docs/forecast.md"
READINGS = ("optimistic", "pessimistic")


@dataclass(frozen=True)
class Reading:
    """One reading, over all programs of a form: shares 0 to 1 on the engine, counts, and a latency band."""

    ops: float
    macs: float
    trunk_macs: float
    moved: float
    segments: int
    crossings: int
    crossing_mb: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True)
class Row:
    """A form on a chip at a length; `risks` are rules by which a whole graph may stay off the engine, `cpu_fallback_ms` the time then."""

    form: str
    chip: str
    seconds: int
    held_s: float
    operations: int
    gmac: float
    moved_mb: float
    optimistic: Reading
    pessimistic: Reading
    risks: tuple[str, ...]
    cpu_fallback_ms: tuple[float, float] | None


def rows_of(sample: "Sample", rules: "Rules") -> list[Row]:
    """One row for each chip of the sample."""
    from mlprogram.examine.forecast import forecast_residency
    from mlprogram.examine.latency import latency_bands

    rows = []
    ops = [op for part in sample.parts for op in part.profile.ops]
    sums = (len(ops), sum(op.macs for op in ops) / 1e9, sum(op.bytes_moved for op in ops) / 1e6)
    for chip in sample.chips:
        forecasts = [forecast_residency(part.profile, rules, chip) for part in sample.parts]
        bands = [latency_bands(forecast, rules.chips[chip]) for forecast in forecasts]
        read = [_reading(sample, forecasts, [getattr(band, name) for band in bands], name) for name in READINGS]
        risks = tuple(dict.fromkeys(found.rule.id for forecast in forecasts for found in forecast.graph_findings))
        cpu_fallback = [band.cpu_fallback or band.pessimistic for band in bands]
        cpu_fallback_ms = (sum(band.low_ms for band in cpu_fallback), sum(band.high_ms for band in cpu_fallback)) if risks else None
        rows.append(Row(sample.form, chip, sample.seconds, sample.held_s, *sums, *read, risks, cpu_fallback_ms))
    return rows


def _reading(sample: "Sample", forecasts: "list[Forecast]", bands: "list[Band]", name: str) -> Reading:
    """Weighted by what each operation counts, so that a program with few MACs weighs little."""
    totals, on = [0.0] * 4, [0.0] * 4
    readings = [getattr(forecast, name) for forecast in forecasts]
    for part, reading in zip(sample.parts, readings, strict=True):
        for i, op in enumerate(part.profile.ops):
            for k, amount in enumerate((1, op.macs, op.macs * (i not in part.tail), op.bytes_moved)):
                totals[k] += amount
                on[k] += amount * (i not in reading.off)
    cuts = [reading.cut for reading in readings]
    return Reading(
        *(share / total if total else 0.0 for share, total in zip(on, totals, strict=True)),
        sum(cut.engine_segments for cut in cuts),
        sum(cut.crossings for cut in cuts),
        sum(cut.crossing_bytes for cut in cuts) / 1e6,
        sum(band.low_ms for band in bands),
        sum(band.high_ms for band in bands),
    )


def job_rows(job: str) -> list[Row]:
    """Build one job in a temporary folder and forecast it."""
    from bench.forecast_forms import build_samples
    from mlprogram.examine.rules import load_rules

    rules = load_rules()
    with tempfile.TemporaryDirectory() as folder:
        return [row for sample in build_samples(job, Path(folder)) for row in rows_of(sample, rules)]


def all_rows(workers: int) -> list[Row]:
    """Every job, `workers` at a time; ordered by form, chip and length."""
    from rich.console import Console
    from rich.progress import track

    from bench.forecast_forms import FORMS, JOBS
    from mlprogram.examine.rules import load_rules

    chips = list(load_rules().chips)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        found = track(pool.map(job_rows, JOBS), "forms", total=len(JOBS), console=Console(stderr=True))
        rows = [row for job in found for row in job]
    return sorted(rows, key=lambda row: (FORMS.index(row.form), chips.index(row.chip), row.seconds))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.forecast_table", description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="a document whose generated part is renewed")
    parser.add_argument(
        "--workers", type=int, choices=range(1, 9), default=2, metavar="1..8", help="processes that convert at the same time"
    )
    arguments = parser.parse_args(argv)
    from bench.forecast_page import render
    from mlprogram.errors import ProgramError
    from mlprogram.examine.report import with_generated_part
    from mlprogram.examine.rules import load_rules

    try:
        place = partial(with_generated_part, arguments.write, COMMAND) if arguments.write else str
        place("")  # a document without the marks is refused before the work
        rows = all_rows(arguments.workers)
        text = place(render(rows, load_rules()))
    except (ProgramError, FileNotFoundError, ValueError) as problem:
        raise InputError(str(problem)) from problem
    if arguments.write:
        with staged(arguments.write) as aside:
            aside.write_text(text, encoding="utf-8")
    else:
        print(text)
    print(json.dumps({"label": "forecast, not a measurement", "rows": [asdict(row) for row in rows]}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
