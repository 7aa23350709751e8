"""The release report as one HTML page without a single outside reference.

    html = page(record, heard, curves=[])

Order: the decision, the table, what was broken, sentences, sensitivity, listening, spectrograms, every figure, provenance.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from core.config import not_releasable
from eval.audition import REFERENCE, Heard, flac_base64
from eval.metrics.registry import METRICS
from eval.report_plots import clip_plot, spectrogram_pair, trade_off
from eval.report_style import STYLE

PLOTTED = ("pesq", "mcd_db", "level_db")
HEADINGS = ("level", "verdict", "MB", "of fp16", "int8 MACs", "PESQ mean", "PESQ worst", "MCD dB", "in seed floors", "ms/s {chip}")


def page(record: Mapping[str, Any], heard: Sequence[Heard], curves: Sequence[Path]) -> str:
    """The whole page; `curves` are the plots that quantize.sensitivity drew for this package."""
    judged = [level for level in record["levels"] if level.get("clips")]
    parts = (
        decision(record),
        section("Levels", table(record) + notes(record)),
        section("Size against quality", image(trade_off(record), "size on disk against PESQ")),
        section("Verdicts", "".join(complaints(level) for level in judged)),
        section("Sentence by sentence", "".join(image(clip_plot(record, metric), METRICS[metric].title) for metric in PLOTTED)),
        section("Sensitivity", sensitivity(curves)),
        section("Listen", players(heard)),
        section("Spectrograms", spectrograms(heard)),
        section("Every figure", "".join(figures(level) for level in judged)),
        section("Provenance", provenance(record)),
    )
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    title = f"<title>Release level: {escape(record['level'] or 'none')}</title>"
    body = "".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}{title}<style>{STYLE}</style></head><body><main>{body}</main></body></html>\n'


def section(title: str, body: str) -> str:
    """A titled part."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def image(address: str, alt: str) -> str:
    """A picture that scrolls rather than shrinks out of sight on a phone."""
    return f'<div class="wide"><img src="{address}" alt="{escape(alt)}"></div>'


def sensitivity(curves: Sequence[Path]) -> str:
    """Each layer's loss and the trade-off curve that `mixed` was chosen from, or how to measure them."""
    if not curves:
        return "<p>Not measured in this build: <code>python -m quantize.sensitivity</code> draws the curve.</p>"
    return "".join(image(f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}", path.name) for path in curves)


def decision(record: Mapping[str, Any]) -> str:
    """What to release, in the largest letters."""
    name = record["provenance"]["checkpoint"]
    headline = (
        f"Release {record['level']}"
        if record["may_be_released"]
        else f"Would release {record['level']}"
        if record["level"]
        else "Release none"
    )
    warning = "" if record["releasable"] else f'<p class="never">{escape(not_releasable(name))}.</p>'
    return (
        f'<header class="{record["verdict"].lower()}"><p class="verdict">{record["verdict"]}</p><h1>{escape(headline)}</h1>'
        f"<p>{escape(record['reason'])}.</p>{warning}</header>"
    )


def table(record: Mapping[str, Any]) -> str:
    """Every level on identical inputs, and the model's own spread."""
    chip, whole = record["chip"], next((level["bytes"] for level in record["levels"] if level["method"] == "fp16"), 0)
    head = "".join(f"<th>{escape(heading.format(chip=chip))}</th>" for heading in HEADINGS)
    rows = "".join(row(level, whole, chip, chosen=level["method"] == record["level"]) for level in record["levels"])
    for name, spread in record["spread"].items():
        cells = ("", "", "", "", number(spread["pesq"]), number(spread["pesq_worst"]), number(spread["mcd_db"]), "", "")
        rows += f'<tr class="spread"><td>{escape(name)}</td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    return f'<div class="wide"><table class="levels"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def row(level: Mapping[str, Any], whole: int, chip: str, chosen: bool) -> str:
    """One level."""
    name = f"<td><b>{escape(level['method'])}</b></td>"
    if level["failed"]:
        return f'<tr>{name}<td colspan="9" class="left">{escape(level["failed"])}</td></tr>'
    pesq, mcd, band = level["summary"]["pesq"], level["summary"]["mcd_db"], level["facts"]["forecast"].get(chip)
    ratio = mcd["mean"] / mcd["seed_floor_mean"] if mcd["mean"] is not None and mcd["seed_floor_mean"] else None
    share = level["facts"]["int8_macs_share"]
    cells = (
        f"{level['bytes'] / 1e6:.2f}", f"{level['bytes'] / whole:.3f}" if whole else "", "-" if share is None else f"{share:.1%}",
        number(pesq["mean"]), number(pesq["worst"]), number(mcd["mean"]), number(ratio),
        f"{band['low_ms']:.2g}-{band['high_ms']:.2g}" if band else "",
    )  # fmt: skip
    badge = f'<td class="left"><span class="badge {level["verdict"].lower()}">{level["verdict"]}</span></td>'
    return f"<tr{' class=chosen' if chosen else ''}>{name}{badge}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def number(value: float | None) -> str:
    """Two decimals, or a dash for what was not measured."""
    return "-" if value is None else f"{value + 0.0:.2f}"


def notes(record: Mapping[str, Any]) -> str:
    """What stands beside the decision."""
    fixed = (
        "seed floors: MCD in units of what another noise seed does to the fp32 model",
        f"ms/s {record['chip']}: forecast band per second of audio from the program alone, not a measurement",
    )
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in (*record['notes'], *fixed))}</ul>"


def complaints(level: Mapping[str, Any]) -> str:
    """The gates a level broke, or that it broke none."""
    badge = f'<span class="badge {level["verdict"].lower()}">{level["verdict"]}</span>'
    reasons = [*level["reasons"], *([level["unfit_for_engine"]] if level["unfit_for_engine"] else [])]
    head = f"<b>{escape(level['method'])}</b> {badge} {escape(level['title'])}"
    if len(reasons) == 1:
        return f"<p>{head}: {escape(reasons[0])}</p>"
    return f"<p>{head}</p><ul>{''.join(f'<li>{escape(reason)}</li>' for reason in reasons)}</ul>"


def players(heard: Sequence[Heard]) -> str:
    """Each sentence by the reference and each level."""
    blocks = []
    for clip in heard:
        sounds = "".join(player(name, signal) for name, signal in clip.signals.items())
        blocks.append(f"<h3>{escape(clip.utterance.voice)}: “{escape(clip.utterance.text)}”</h3><div class=sounds>{sounds}</div>")
    return "".join(blocks)


def player(name: str, signal: Any) -> str:
    """A labelled audio element."""
    source = f"data:audio/flac;base64,{flac_base64(signal)}"
    return f'<figure><figcaption>{escape(name)}</figcaption><audio controls preload="metadata" src="{source}"></audio></figure>'


def spectrograms(heard: Sequence[Heard]) -> str:
    """The first sentence: every level beside the reference."""
    signals = heard[0].signals
    others = [(name, signal) for name, signal in signals.items() if name != REFERENCE]
    return "".join(
        f"<details{' open' if place + 1 == len(others) else ''}><summary>{escape(name)}</summary>"
        f"{image(spectrogram_pair(signals[REFERENCE], signal, name), f'spectrograms, {name} beside the reference')}</details>"
        for place, (name, signal) in enumerate(others)
    )


def figures(level: Mapping[str, Any]) -> str:
    """Every metric of a level beside its seed floor."""
    rows = "".join(
        f"<tr><td>{escape(METRICS[name].title)}, {escape(METRICS[name].unit)}</td>"
        + "".join(f"<td>{number(line[key])}</td>" for key in ("mean", "worst", "seed_floor_mean", "seed_floor_worst"))
        + f"<td class=left>{escape(', '.join(rules(level, name)))}</td></tr>"
        for name, line in level["summary"].items()
    )
    head = "".join(f"<th>{heading}</th>" for heading in ("metric", "mean", "worst", "seed floor mean", "seed floor worst", "gate"))
    body = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"<details><summary>{escape(level['method'])}</summary>{body}</details>"


def rules(level: Mapping[str, Any], metric: str) -> list[str]:
    """The gates of a metric, with what became of them."""
    return [f"{c['gate'].split()[1]} {c['rule']}: {c['state']}" for c in level["checks"] if c["gate"].split()[0] == metric]


def provenance(record: Mapping[str, Any]) -> str:
    """Everything needed to make the decision again."""
    packages = {level["method"]: level["provenance"]["package_sha256"] for level in record["levels"] if level.get("clips")}
    told = record["provenance"] | {"clips": " ".join(record["provenance"]["clips"]), "packages_sha256": packages}
    return f"<pre>{escape(json.dumps(told | {'objective': record['objective'], 'claim': record['claim']}, indent=1))}</pre>"
