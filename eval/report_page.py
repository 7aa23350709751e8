"""The release report as one HTML page without a single outside reference: what a person decides
from.

    html = page(record, auditions)

Order: the recommendation, what else is best, the table, size against quality, why not, the player,
sentence by sentence, every figure, provenance. This file turns a decision into values;
eval/page/report.html.jinja places and escapes them. Colours are the reader's, light or dark; a
phone shows the table as cards (eval/page/report.css).
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.config import not_releasable
from kokoro_ane.eval.judge import BROKEN, HOLDS, MISSING, SHIP, STRADDLES
from kokoro_ane.eval.listening import Audition, order, packed, player_json
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_figures import (
    Record,
    all_clips,
    digits_of,
    figure,
    gated,
    interval_of,
    judged_levels,
    limit_of,
    metric_of,
    shown,
    statistic_of,
    tightest,
    used,
    whole_of,
)
from kokoro_ane.eval.report_plots import size_plot, strip_plot
from kokoro_ane.pipeline.decision_file import short

if TYPE_CHECKING:
    from jinja2 import Template

PAGE = Path(__file__).resolve().parent / "page"
UNFOLDED = ("pesq", "mcd_db")  # metrics whose strips are shown unfolded
WORDED = ("tightest gate", "Neural Engine")  # columns whose cells may break
COLUMNS = {
    "mean": "mean",
    "worst": "worst",
    "variation_mean": "another seed, mean",
    "variation_worst": "another seed, worst",
}
LEGEND = (
    "Below a mean: its 95 % interval, the worst sentence. The tightest gate is the one nearest to"
    " its limit, or furthest beyond.",
    "Neural Engine: the share of the work that the rules of {chip} place there, in two readings;"
    " nothing was measured on a device.",
    "Another noise seed: what the fp32 model does to itself. A level below that is nearer to fp32"
    " than fp32 is to itself.",
)


def page(
    record: Record,
    auditions: Sequence[Audition],
    product: Record | None = None,
) -> str:
    """The whole page. `product` is report.product_of, where that can be said."""
    levels, sounds = packed(record, auditions)
    strips = [
        plot | {"unfolded": metric in UNFOLDED}
        for metric in gated(record)
        if (plot := strip_plot(record, metric)) is not None
    ]
    return template().render(
        css=asset("report.css"),
        script=asset("report.js"),
        may_be_released=record["may_be_released"],
        decision=decision(record),
        bests=record["bests"],
        headings=headings(record, product),
        worded=WORDED,
        levels=[level_row(level, record, product) for level in record["levels"]],
        spread=[spread_row(name, spread, product) for name, spread in record["spread"].items()],
        notes=notes(record),
        legend=legend(record, product),
        sizes=size_plot(record),
        why_not=reasons(record),
        left_out=[name for name in order(record, auditions) if name not in levels],
        sounds=player_json(record, levels, sounds),
        strips=strips,
        figures=[every_figure(level) for level in judged_levels(record)],
        provenance=provenance(record),
    )


@cache
def template() -> "Template":
    """Load the page, in which every value is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined
    ).get_template("report.html.jinja")


def asset(name: str) -> str:
    """Read the style sheet or the script."""
    return (PAGE / name).read_text(encoding="utf-8")


def decision(record: Record) -> dict[str, Any]:
    """The recommendation in a sentence with what it costs and saves, what stands in its way, and
    when, of what and by what it was made.
    """
    source, level = record["provenance"], record["level"]
    clips = all_clips(record)
    voices = len({clip["voice"] for clip in clips})
    made = (
        f"{source['date']}, commit {short(source['commit'])}. {source['checkpoint']}, {len(clips)}"
        f" sentences of the {source['set']} set, {voices} voices, noise seed"
        f" {source['seed']} (others from {source['seed_variation_seed']} on), {source['precision']}"
        f" precision, features by {source['features']} (the player's by PyTorch)."
    )
    headline, sentence = "Release none", record["reason"] + _nearest(record)
    if level:
        headline = f"{'Release' if record['may_be_released'] else 'Would release'} {level}"
        title = next(row["title"] for row in record["levels"] if row["method"] == level)
        # Nothing is saved or lost where the uncompressed level was not judged.
        costs = f": {record['costs']}. It" if record["costs"] else ""
        sentence = f"{level} ({title}){costs} is {record['reason'].removeprefix(f'{level} is ')}"
    elif sentence.startswith("n"):
        sentence = "N" + sentence[1:]
    warning = "" if record["releasable"] else _withheld(record)
    return {
        "verdict": record["verdict"],
        "held": record["verdict"] == SHIP and not record["may_be_released"],
        "ships": bool(level),
        "headline": headline,
        "sentence": f"{sentence}.",
        "warning": f"{warning[:1].upper()}{warning[1:]}." if warning else "",
        "made": made,
    }


def _nearest(record: Record) -> str:
    """Where no level ships: the one that came nearest, and the gate that it is furthest beyond."""
    checks = [
        (used(check) or 0.0, level["method"], check)
        for level in judged_levels(record)
        if (check := tightest(level))
    ]
    if record["level"] or not checks:
        return ""
    _, method, check = min(checks, key=lambda row: row[0])
    misses = "misses" if check["state"] == BROKEN else "is not sure to keep"
    return (
        f"; nearest is {method}, which {misses} a gate: {METRICS[metric_of(check)].title},"
        f" {statistic_of(check)}: {check['value']:.4g}, limit {check['rule']}"
    )


def _withheld(record: Record) -> str:
    """Return why what ships may not be released."""
    for note in record["notes"]:
        if "releas" in note:
            return str(note)
    return not_releasable(record["provenance"]["checkpoint"])


def notes(record: Record) -> list[str]:
    """List the notes that are not said elsewhere on the page."""
    warning = _withheld(record) if not record["releasable"] else None
    return [note for note in record["notes"] if note != warning and " would be " not in note]


def legend(record: Record, product: Record | None) -> list[str]:
    """Explain the table's columns, a line each."""
    lines = [line.format(chip=record["chip"].upper()) for line in LEGEND]
    if product is None:
        return lines
    parts = sorted(product["bytes"].items())
    listed = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in parts)
    lacking = ", ".join(product["lacking"])
    lacks = f"; not built, so not in it: {lacking}" if lacking else ""
    whole = (
        f"The product is the vocoder and {listed}{lacks}. It runs from the newer system of vocoder"
        " and encoder."
    )
    return [whole, *lines]


def headings(record: Record, product: Record | None) -> list[str]:
    """Name the table's columns, with units."""
    metrics = [
        f"{METRICS[name].title.removesuffix(' wide band')}, {METRICS[name].unit}"
        for name in shown()
    ]
    sizes = ["vocoder, MB", *(["product, MB"] if product else [])]
    return ["level", "verdict", *sizes, *metrics, "tightest gate", "Neural Engine", "runs from"]


def level_row(level: Record, record: Record, product: Record | None) -> dict[str, Any]:
    """One level of the table. Each of `cells` is a list of lines, the first in full size."""
    row = {name: level[name] for name in ("method", "title", "verdict", "failed")}
    row |= {"chosen": level["method"] == record["level"], "cells": []}
    if level["failed"]:
        return row
    sizes = [_size(level, record)]
    if product:
        sizes.append([f"{(level['bytes'] + sum(product['bytes'].values())) / 1e6:.1f}"])
    metrics = []
    for metric in shown():
        mean, worst = level["summary"][metric]["mean"], level["summary"][metric]["worst"]
        digits, interval = digits_of(metric), interval_of(level, metric)
        ends = [figure(end, digits) for end in interval or ()]
        metrics.append(
            [figure(mean, digits), *(["–".join(ends)] if ends else []), figure(worst, digits)]
        )
    row["cells"] = [
        *sizes,
        *metrics,
        _tightest(level),
        _engine(level, record),
        _system(level, product),
    ]
    return row


def spread_row(
    name: str, spread: Mapping[str, float | None], product: Record | None
) -> dict[str, Any]:
    """What the model does to itself: metrics, and empty cells for what only a package has."""
    metrics = [
        [figure(spread.get(name), digits_of(metric)) for name in (metric, f"{metric}_worst")]
        for metric in shown()
    ]
    sizes: list[list[str]] = [[]] * (2 if product else 1)
    return {"name": name, "cells": [*sizes, *metrics, [], [], []]}


def _size(level: Record, record: Record) -> list[str]:
    """Megabytes, and what the level saves of the uncompressed one in the same layout."""
    sizes = {other["method"]: other["bytes"] for other in record["levels"]}
    whole = sizes.get(whole_of(level["method"]))
    size = f"{level['bytes'] / 1e6:.1f}"
    if not whole or whole == level["bytes"]:
        return [size]
    saved = f"{level['bytes'] / whole - 1:+.0%}".replace("-", "−").replace("%", " %")
    return [size, saved]


def _tightest(level: Record) -> list[str]:
    check = tightest(level)
    if check is None:
        return ["–"]
    digits, broken = digits_of(metric_of(check)), len(level["broken"])
    return [
        METRICS[metric_of(check)].title,
        f"{figure(check['value'], digits)}, limit {figure(limit_of(check), digits)}",
        *([f"{broken} gate{'s' if broken > 1 else ''} broken"] if broken else []),
    ]


def _engine(level: Record, record: Record) -> list[str]:
    """The share of the work that the chip's rules place on the engine, and how much is in int8."""
    if level["unfit_for_engine"]:
        return ["not fit", level["unfit_for_engine"].partition(";")[0]]
    band = level["facts"]["forecast"].get(record["chip"])
    if not band:
        return ["–"]
    share = level["facts"]["int8_macs_share"]
    work = f"{100 * band['engine_low']:.0f}–{100 * band['engine_high']:.0f} % of work"
    return [work, *([f"{100 * share:.0f} % in int8"] if share else [])]


def _system(level: Record, product: Record | None) -> list[str]:
    """Name the newer system of vocoder and encoder, and whose that is."""
    system, whose = level["facts"]["minimum_ios"], ["the vocoder"]
    if product and product["encoder_ios"]:
        systems = system, product["encoder_ios"]
        newer = max(systems, key=lambda name: int("0" + "".join(filter(str.isdigit, name))))
        system, whose = newer, ["the encoder"] if newer != system else []
    return [system.replace("iOS", "iOS "), *whose]


def reasons(record: Record) -> dict[str, Any]:
    """Who keeps every gate; each reason that some level does not satisfy, once, below the gates
    that have it; then what else speaks against levels.
    """
    judged = judged_levels(record)
    cases: dict[str, dict[str, list[dict[str, Any]]]] = {}  # by reason, by gate
    clean = []
    for level in judged:
        missed = [check for check in level["checks"] if check["state"] != HOLDS]
        if not missed:
            clean.append(level["method"])
        for check in missed:
            by_gate = cases.setdefault(check["reason"], {})
            by_gate.setdefault(check["gate"], []).append(_case(level, check))
    # What most levels miss stands first.
    listed = []
    for reason, by_gate in sorted(cases.items(), key=lambda item: -max(map(len, item[1].values()))):
        gates = [
            {
                "title": METRICS[gate.split()[0]].title,
                "statistic": "worst sentence" if gate.split()[1] == "worst" else gate.split()[1],
                "cases": rows,
            }
            for gate, rows in by_gate.items()
        ]
        listed.append({"text": reason, "gates": gates})
    open_gates = {gate for by_gate in cases.values() for gate in by_gate}
    return {"clean": clean, "reasons": listed, "others": _other_reasons(judged, open_gates)}


def _case(level: Record, check: Record) -> dict[str, Any]:
    """Describe how one level stands at one gate."""
    digits, low, high = digits_of(metric_of(check)), check["low"], check["high"]
    spans = low is not None and low != high
    return {
        "level": level["method"],
        "missing": check["state"] == MISSING,
        "open": check["state"] == STRADDLES,
        "value": figure(check["value"], digits),
        "unit": METRICS[metric_of(check)].unit,
        "interval": f"{figure(low, digits)} to {figure(high, digits)}" if spans else "",
        "limit": figure(limit_of(check), digits),
        "limit_moves": any(
            reason.startswith(check["gate"]) and "the limit moves too" in reason
            for reason in level["reasons"]
        ),
    }


def _other_reasons(judged: Sequence[Record], gates: set[str]) -> list[dict[str, Any]]:
    """List reasons that no gate gave, each once: defects, too few clips, doubts."""
    levels: dict[str, list[str]] = {}
    for level in judged:
        for reason in level["reasons"]:
            if reason != "every gate holds" and not any(reason.startswith(gate) for gate in gates):
                levels.setdefault(reason, []).append(level["method"])
    return [{"text": reason, "levels": names} for reason, names in levels.items()]


def every_figure(level: Record) -> dict[str, Any]:
    """List every metric of a level beside its seed variation, with its gates."""
    rows = []
    for metric, row in level["summary"].items():
        gates = [
            f"{statistic_of(check)} {check['rule']}: {check['state']}"
            for check in level["checks"]
            if metric_of(check) == metric
        ]
        cells = [figure(row[column], digits_of(metric)) for column in COLUMNS]
        described = METRICS[metric]
        rows.append(
            {"title": described.title, "unit": described.unit, "cells": cells, "gates": gates}
        )
    return {"method": level["method"], "columns": list(COLUMNS.values()), "rows": rows}


def provenance(record: Record) -> str:
    """Write everything that is needed to decide again, as JSON."""
    source = record["provenance"]
    packages = {
        level["method"]: level["provenance"]["package_sha256"] for level in judged_levels(record)
    }
    libraries = " ".join(f"{name}=={version}" for name, version in source["libraries"].items())
    facts = source | {"clips": " ".join(source["clips"]), "packages_sha256": packages}
    facts |= {"libraries": libraries, "claim": record["claim"]}
    return json.dumps(facts, indent=1)
