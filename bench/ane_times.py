"""The cost model of the Neural Engine against times that others published: fit it, and show how
wrong it is on what it was not fitted to.

    # every family of networks left out in turn, every chip, ratios, intervals and their coverage
    python -m bench.ane_times
    python -m bench.ane_times --rows         # every published row beside its forecast
    # LAI's vocoder, a test row that no fit has seen: rebuilt, converted, forecast
    python -m bench.ane_times --peers
    python -m bench.ane_times --fit          # write mlprogram/data/ane_cost.json

Rows and sources are in mlprogram/data/published_times.json, networks in bench/ane_networks.py. It
takes a minute and a half. Exit 1 where the written numbers are not those that the fit gives. The
last line of stdout is one JSON object.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

from bench.ane_networks import networks
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, command
from mlprogram.benches.shared import markdown
from mlprogram.examine.cost import Costs, Steps, engine_parts, load_costs, steps_of
from mlprogram.examine.rules import Rules, load_rules

DATA = Path(__file__).resolve().parents[1] / "mlprogram" / "data"
TABLE = json.loads((DATA / "published_times.json").read_text(encoding="utf-8"))
NETWORKS = networks(TABLE)
START = {
    "efficiency": 0.6,
    "narrow": 8,
    "engine_gb_s_per_tflops": 8,
    "memory_share": 0.8,
    "passes": 4,
    "int8_gain": 1.8,
    "segment_ms": 0.07,
    "step_us": 1,
    "direct_ms": 0.12,
    "direct_gb_s": 10,
}
ABOUT = """Written by python -m bench.ane_times --fit: numbers fitted to mlprogram/data/published_times.json, and natural logarithms of
forecast over published (10th and 90th percentile, largest) with each network's family left out.""".replace(
    "\n", " "
)
INSIDE = (0.1, 0.9)  # an 80 % interval
TIE = 0.15  # pull of the starting numbers, as one row's error
REFITTED = 0.02  # how far numbers may lie from the written ones before --fit is due


@dataclass(frozen=True)
class Row:
    """A published time with the steps of its network. `direct`: dispatched without Core ML, inputs
    and outputs copied by the tool.
    """

    network: str
    family: str
    chip: str
    level: str
    source: str
    device: str
    ms: float
    direct: bool
    steps: Steps
    io_bytes: int


@cache
def _steps(network: str, level: str) -> tuple[Steps, int]:
    profile = NETWORKS[network].build(level)
    return steps_of(profile), sum(t.bytes for t in (*profile.inputs, *profile.outputs))


def published() -> list[dict[str, Any]]:
    """Every row of the table, whatever its use."""
    return [dict(zip(TABLE["columns"], row, strict=True)) for row in TABLE["rows"]]


def training_rows() -> list[Row]:
    """Those that the model is fitted to."""
    found = []
    for r in (row for row in published() if row["use"] == "train"):
        family, direct = NETWORKS[r["network"]].family, r["units"] == "engine only"
        named = (
            r["network"],
            family,
            r["chip"],
            r["level"],
            r["source"],
            f"{r['device']} {r['system']}",
            r["ms"],
            direct,
        )
        found.append(Row(*named, *_steps(r["network"], r["level"])))
    return found


def shares(rows: Sequence[Row]) -> np.ndarray:
    """One over the rows of its family: a family counts once, however often it was timed."""
    count = Counter(row.family for row in rows)
    return np.array([1 / count[row.family] for row in rows])


def costs_of(numbers: dict[str, float]) -> Costs:
    """The numbers as the model takes them, errors still unknown."""
    model = {key: value for key, value in numbers.items() if not key.startswith("direct")}
    return Costs(**model, single=(0, 0), levels=(0, 0), graphs=(0, 0), largest={})


def forecast_ms(row: Row, numbers: dict[str, float], rules: Rules) -> float:
    """One segment on the engine, everything in it."""
    ms, _ = engine_parts(row.steps, rules.chips[row.chip], costs_of(numbers))
    return ms + (
        numbers["direct_ms"] + row.io_bytes / (numbers["direct_gb_s"] * 1e6)
        if row.direct
        else numbers["segment_ms"]
    )


def fit(rows: Sequence[Row], rules: Rules, start: dict[str, float] = START) -> dict[str, float]:
    """Least squares of log errors, families weighted alike, outliers damped."""
    from scipy.optimize import least_squares

    weight, told, names = shares(rows) ** 0.5, np.log([row.ms for row in rows]), list(START)
    prior = np.log([START[name] for name in names])

    def errors(values: np.ndarray) -> np.ndarray:
        numbers = dict(zip(names, np.exp(values), strict=True))
        found = np.log([forecast_ms(row, numbers, rules) for row in rows])
        return np.concatenate([(found - told) * weight, TIE * (values - prior)])

    first = np.log([start[name] for name in names])
    solved = least_squares(errors, first, loss="soft_l1", f_scale=0.3, diff_step=1e-3, max_nfev=40)
    return {name: float(value) for name, value in zip(names, np.exp(solved.x), strict=True)}


def left_out(
    rows: Sequence[Row], rules: Rules, key: Callable[[Row], str], start: dict[str, float]
) -> np.ndarray:
    """Log of forecast over published, each row forecast by a fit that saw nothing of its group."""
    errors = np.zeros(len(rows))
    for group in sorted({key(row) for row in rows}):
        numbers = fit([row for row in rows if key(row) != group], rules, start)
        for i, row in enumerate(rows):
            if key(row) == group:
                errors[i] = log(forecast_ms(row, numbers, rules) / row.ms)
    return errors


def quantile(values: np.ndarray, weights: np.ndarray, at: float) -> float:
    """Of weighted values, the middle of each counted."""
    order = np.argsort(values)
    return float(
        np.interp(
            at, (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum(), values[order]
        )
    )


def spread(errors: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The 10th and 90th percentile."""
    return quantile(errors, weights, INSIDE[0]), quantile(errors, weights, INSIDE[1])


def factors(errors: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Median and 90th percentile of the error as a factor of 1 or more, every family alike; and of
    the rows.
    """
    off, even = np.abs(errors), np.ones(len(errors))
    told = {
        "median": (weights, 0.5),
        "p90": (weights, INSIDE[1]),
        "rows_median": (even, 0.5),
        "rows_p90": (even, INSIDE[1]),
    }
    return {name: round(exp(quantile(off, w, at)), 2) for name, (w, at) in told.items()}


def coverage(rows: Sequence[Row], errors: np.ndarray) -> float:
    """Share of rows inside an interval that the other families' errors give."""
    inside = []
    for row, error in zip(rows, errors, strict=True):
        others = np.array([other.family != row.family for other in rows])
        low, high = spread(errors[others], shares([r for r in rows if r.family != row.family]))
        inside.append(low <= error <= high)
    return float(np.average(inside, weights=shares(rows)))


def level_pairs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Rows of one network on one device that differ in the level: (a level, the first one named
    there).
    """
    first: dict[tuple[str, ...], int] = {}
    keys = [(row.network, row.chip, row.device) for row in rows]
    return [(i, first[key]) for i, key in enumerate(keys) if first.setdefault(key, i) != i]


def graph_pairs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Neighbours in time among networks of one family at one level on one device."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault((row.family, row.level, row.source, row.device), []).append(i)
    return [
        pair
        for found in groups.values()
        for pair in pairwise(sorted(found, key=lambda i: -rows[i].ms))
    ]


def ratio_errors(
    rows: Sequence[Row], errors: np.ndarray, pairs: list[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Log error of each ratio, and its family's share."""
    return np.array([errors[i] - errors[j] for i, j in pairs]), shares([rows[i] for i, _ in pairs])


def summary(
    rows: Sequence[Row], rules: Rules
) -> tuple[dict[str, Any], dict[str, float], np.ndarray]:
    """Everything the fit tells, its numbers, and each row's error with its family left out."""
    numbers = fit(rows, rules)
    errors, by_chip = (
        left_out(rows, rules, key, numbers) for key in (lambda r: r.family, lambda r: r.chip)
    )
    kinds = {"single": (errors, shares(rows))}
    kinds |= {
        name: ratio_errors(rows, errors, pairs(rows))
        for name, pairs in (("levels", level_pairs), ("graphs", graph_pairs))
    }
    told: dict[str, Any] = {
        name: len({getattr(row, name) for row in rows}) for name in ("network", "family", "chip")
    } | {"rows": len(rows)}
    told |= {
        "errors": (
            {name: factors(*found) for name, found in kinds.items()}
            | {"chip_left_out": factors(by_chip, shares(rows))}
        )
    }
    told |= {"coverage": round(coverage(rows, errors), 2), "single": spread(*kinds["single"])}
    for name in ("levels", "graphs"):  # which of two stands first is chance: as wide either way
        off = quantile(np.abs(kinds[name][0]), kinds[name][1], INSIDE[1] - INSIDE[0])
        told[name] = (-off, off)
    return (
        told
        | {"largest": {name: float(np.abs(found).max()) for name, (found, _) in kinds.items()}},
        numbers,
        errors,
    )


def write(told: dict[str, Any], numbers: dict[str, float]) -> None:
    """The numbers and errors that the forecast reads."""
    kept = json.loads(
        json.dumps({key: told[key] for key in ("single", "levels", "graphs", "largest")}),
        parse_float=lambda t: round(float(t), 4),
    )
    content = {
        "about": ABOUT,
        "rows": told["rows"],
        **{key: float(f"{value:.4g}") for key, value in numbers.items()},
        **kept,
    }
    (DATA / "ane_cost.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def show_rows(
    rows: Sequence[Row], rules: Rules, numbers: dict[str, float], errors: np.ndarray
) -> None:
    """Every row: published, forecast, and the factor with its family left out."""
    head = (
        "network",
        "chip",
        "level",
        "published ms",
        "forecast ms",
        "factor, family left out",
        "GMAC here",
        "published",
    )
    table = []
    for row, error in zip(rows, errors, strict=True):
        net = NETWORKS[row.network]
        gmacs = sum(op.macs for op in net.build().ops) / 1e9
        ms = forecast_ms(row, numbers, rules)
        table.append(
            (
                row.network,
                row.chip,
                row.level,
                f"{row.ms:g}",
                f"{ms:.3g}",
                f"{exp(error):.2f}",
                f"{gmacs:.3g}",
                f"{net.gmacs or '-'}",
            )
        )
    print(markdown(head, table))


def peers(rules: Rules, costs: Costs) -> list[dict[str, float]]:
    """LAI's vocoder at its six published lengths on an M4, by a converted package; weights in 8
    bits count half their bytes.
    """
    import tempfile

    from mlprogram.benches.residency import build, cases, lai_shapes
    from mlprogram.examine.cost import times_of
    from mlprogram.examine.describe import span
    from mlprogram.examine.forecast import forecast_residency
    from mlprogram.examine.profile import open_program, profile_program

    found = []
    with tempfile.TemporaryDirectory() as folder:
        program = open_program(build(cases()["lai-vocoder"], Path(folder), "lai-vocoder"))
        for row in (r for r in published() if r["use"] == "test"):
            frames = int(row["network"].rpartition("_")[2])
            profile = profile_program(program, program.shapes(lai_shapes(frames)["lai-vocoder"]))
            time = times_of(
                forecast_residency(profile, rules, row["chip"]), rules.chips[row["chip"]], costs
            ).optimistic
            found.append(
                {
                    "frames": frames,
                    "published_ms": row["ms"],
                    "ms": time.ms,
                    "low_ms": time.low_ms,
                    "high_ms": time.high_ms,
                }
            )
    head = ("frames", "published ms", "forecast ms", "80 % interval")
    print(
        markdown(
            head,
            [
                tuple(f"{f[key]:.3g}" for key in ("frames", "published_ms", "ms"))
                + (span(f["low_ms"], f["high_ms"]),)
                for f in found
            ],
        )
    )
    return found


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.ane_times", description=__doc__.splitlines()[0]
    )
    for flag, says in (
        ("rows", "every row"),
        ("peers", "LAI's vocoder, converted (a minute)"),
        ("fit", "write the numbers"),
    ):
        parser.add_argument(f"--{flag}", action="store_true", help=says)
    asked = parser.parse_args(argv)
    rules = load_rules()
    if asked.peers:
        print(
            json.dumps(
                {"label": "forecast, not a measurement", "peers": peers(rules, load_costs())}
            )
        )
        return EXIT_GOOD
    rows = training_rows()
    told, numbers, errors = summary(rows, rules)
    if asked.rows:
        show_rows(rows, rules, numbers, errors)
    if asked.fit:
        write(told, numbers)
    pairs = [
        (rows[i], rows[j], errors[i] - errors[j])
        for i, j in level_pairs(rows)
        if rows[i].level == "w8a8"
    ]
    table = [
        (a.network, a.chip, b.level, f"{a.ms / b.ms:.2f}", f"{a.ms / b.ms * exp(e):.2f}")
        for a, b, e in pairs
    ]
    print(
        markdown(("w8a8 of", "chip", "over level", "published", "forecast, family left out"), table)
    )
    written = load_costs()
    same = all(
        abs(log(getattr(written, key) / value)) < REFITTED
        for key, value in numbers.items()
        if not key.startswith("direct")
    )
    print(json.dumps(told | {"numbers": numbers, "written": same}))
    return EXIT_GOOD if same else EXIT_REJECTED


if __name__ == "__main__":
    raise SystemExit(main())
