"""The release report as one HTML page without a single outside reference: what a person decides
from.

    html = render_page(record, auditions)

Order: the recommendation, what else is best, the table, size against quality, why not, the player,
sentence by sentence, every figure, provenance. eval/page/report.html.jinja holds the page and
escapes what it places; here are the values that it does not find in the decision itself. Colours
are the reader's, light or dark; a phone shows the table as cards (eval/page/report.css).
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kokoro_ane.core import not_releasable
from kokoro_ane.eval import report_figures as figures
from kokoro_ane.eval.judge import HOLDS
from kokoro_ane.eval.listening import Audition, build_player
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_figures import (
    Record,
    compute_used_share,
    find_tightest,
    list_judged_levels,
    name_uncompressed,
)
from kokoro_ane.pipeline import short

PAGE = Path(__file__).resolve().parent / "page"


def render_page(
    record: Record, auditions: Sequence[Audition], product: Record | None = None
) -> str:
    """Return the whole page. `product`: of report.describe_product, where it is known."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined
    )
    sounds, left_out = build_player(record, auditions)
    return environment.get_template("report.html.jinja").render(
        css=read_asset("report.css"),
        script=read_asset("report.js"),
        record=record,
        product=product,
        figures=figures,
        format_saving=format_saving,
        find_system=find_system,
        short=short,
        metrics=METRICS,
        nearest=find_nearest_level(record),
        warning="" if record["releasable"] else explain_warning(record),
        left_out=left_out,
        sounds=sounds,
        provenance=format_provenance(record),
        **collect_reasons(record),
    )


def read_asset(name: str) -> str:
    """Read the style sheet or the script."""
    return (PAGE / name).read_text(encoding="utf-8")


def find_nearest_level(record: Record) -> tuple[str, Record] | None:
    """Where no level ships: the one that came nearest, and the gate that it is furthest beyond."""
    checks = [
        (compute_used_share(check) or 0.0, level["method"], check)
        for level in list_judged_levels(record)
        if (check := find_tightest(level))
    ]
    if record["level"] or not checks:
        return None
    # The level whose worst gate is the least bad.
    return min(checks, key=lambda row: row[0])[1:]


def explain_warning(record: Record) -> str:
    """Return why what ships may not be released."""
    notes = (str(note) for note in record["notes"] if "releas" in note)
    return next(notes, not_releasable(record["provenance"]["checkpoint"]))


def format_saving(level: Record, record: Record) -> str:
    """What the level saves of the uncompressed one in the same layout, in percent."""
    sizes = {other["method"]: other["bytes"] for other in record["levels"]}
    whole = sizes.get(name_uncompressed(level["method"]))
    if not whole or whole == level["bytes"]:
        return ""
    return f"{level['bytes'] / whole - 1:+.0%}".replace("-", "−").replace("%", " %")


def find_system(level: Record, product: Record | None) -> tuple[str, str]:
    """Return the newer system of vocoder and encoder, and which of the two needs it."""
    system = level["facts"]["minimum_ios"]
    encoder = product["encoder_ios"] if product else ""
    whose = "" if encoder else "the vocoder"

    def parse_version(name: str) -> int:
        return int("0" + "".join(filter(str.isdigit, name)))

    if encoder and parse_version(encoder) > parse_version(system):
        system = encoder
        whose = "the encoder"
    return system.replace("iOS", "iOS "), whose


def collect_reasons(record: Record) -> dict[str, Any]:
    """clean: who keeps every gate; missed: for each reason that some level does not satisfy, once,
    the gates that have it, and for each gate level and check, what most levels miss first; others:
    reasons that no gate gave (defects, too few clips, doubts), each with its levels.
    """
    judged = list_judged_levels(record)
    missed: dict[str, dict[str, list[tuple[Record, Record]]]] = {}
    clean = [
        level["method"]
        for level in judged
        if all(check["state"] == HOLDS for check in level["checks"])
    ]
    # Grouped by reason first: several gates share one.
    for level in judged:
        for check in level["checks"]:
            if check["state"] != HOLDS:
                by_gate = missed.setdefault(check["reason"], {})
                by_gate.setdefault(check["gate"], []).append((level, check))
    gates = tuple(gate for by_gate in missed.values() for gate in by_gate)
    others: dict[str, list[str]] = {}
    for level in judged:
        for reason in level["reasons"]:
            # A gate's own reason begins with its name and stands among the missed ones.
            if reason != "every gate holds" and not reason.startswith(gates):
                others.setdefault(reason, []).append(level["method"])
    most_first = sorted(missed.items(), key=lambda item: -max(map(len, item[1].values())))
    return {"clean": clean, "missed": most_first, "others": others}


def format_provenance(record: Record) -> str:
    """Write everything that is needed to decide again, as JSON."""
    source = record["provenance"]
    packages = {
        level["method"]: level["provenance"]["package_sha256"]
        for level in list_judged_levels(record)
    }
    libraries = " ".join(f"{name}=={version}" for name, version in source["libraries"].items())
    facts = source | {"clips": " ".join(source["clips"]), "packages_sha256": packages}
    facts |= {"libraries": libraries, "claim": record["claim"]}
    return json.dumps(facts, indent=1)
