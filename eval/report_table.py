"""The report's table of levels: a row each on a screen, a card each on a phone, every column in both.

html = level_table(record)
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from eval.metrics.registry import METRICS
from eval.report_words import digits_of, figure, limit_of, metric_of, plain_name, short, tightest

SHOWN = ("pesq", "mcd_db")  # columns of their own, and so has each of these that the registry knows:
SHOWN_IF_MEASURED = ("word_errors_added", "local_spectrum_db", "speaker_distance")


WORDY = ("tightest gate", "Neural Engine")  # columns whose cells may break


def shown() -> tuple[str, ...]:
    """Metrics with a column."""
    return SHOWN + tuple(name for name in SHOWN_IF_MEASURED if name in METRICS)


def level_table(record: Mapping[str, Any]) -> str:
    """Every level on identical inputs, and the model's own spread below them."""
    head = "".join(f"<th{' class=left' if i < 2 else ''}>{escape(name)}</th>" for i, name in enumerate(headings(record)))
    rows = "".join(row(level, record) for level in record["levels"])
    rows += "".join(spread_row(name, spread, record) for name, spread in record["spread"].items())
    return f'<table class="stack"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def headings(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the columns."""
    metrics = (METRICS[name].title.removesuffix(" wide band") for name in shown())
    return ("level", "verdict", "MB", *metrics, "tightest gate", "Neural Engine", "runs from", f"ms/s {record['chip'].upper()}")


def row(level: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """One level."""
    chosen = ' class="chosen"' if level["method"] == record["level"] else ""
    if level["failed"]:
        name = f"<td><b>{escape(level['method'])}</b><small>{escape(level['title'])}</small></td>"
        return f'<tr{chosen}>{name}<td class="left wide" colspan="{len(headings(record)) - 1}">{escape(level["failed"])}</td></tr>'
    name = f"<td><b>{escape(level['method'])}</b><small>{escape(plain_name(level['facts']))}</small></td>"
    verdict = f'<td class="left"><span class="badge {level["verdict"].lower()}">{level["verdict"]}</span></td>'
    metrics = [_metric(level["summary"][metric], metric) for metric in shown()]
    system = level["facts"]["minimum_ios"].replace("iOS", "iOS ")
    cells = [_size(level, record), *metrics, _tightest(level), _engine(level, record), system, _time(level, record)]
    labelled = zip(headings(record)[2:], cells, strict=True)
    return f"<tr{chosen}>{name}{verdict}{''.join(_cell(heading, text) for heading, text in labelled)}</tr>"


def spread_row(name: str, spread: Mapping[str, float | None], record: Mapping[str, Any]) -> str:
    """What the model does to itself: only metrics."""
    cells = [_pair(spread.get(metric), spread.get(f"{metric}_worst"), metric) for metric in shown()]
    cells = ["", *cells, *[""] * (len(headings(record)) - 3 - len(cells))]
    body = "".join(_cell(heading, text) for heading, text in zip(headings(record)[2:], cells, strict=True))
    return f'<tr class="spread"><td>{escape(name)}</td><td></td>{body}</tr>'


def _cell(heading: str, text: str) -> str:
    kind = "" if heading in WORDY else ' class="n"'
    return f'<td{kind} data-label="{escape(heading)}">{text}</td>' if text else "<td></td>"


def _pair(mean: float | None, worst: float | None, metric: str) -> str:
    digits = digits_of(metric)
    return f"{figure(mean, digits)}<small>{figure(worst, digits)}</small>"


def _metric(line: Mapping[str, float | None], metric: str) -> str:
    return _pair(line["mean"], line["worst"], metric)


def _size(level: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    sizes = {other["method"]: other["bytes"] for other in record["levels"] if other["bytes"]}
    form = level["method"].rpartition("-")[0]
    whole = sizes.get(f"{form}-fp16" if form else "fp16")
    if not whole or whole == level["bytes"]:
        return f"{level['bytes'] / 1e6:.1f}"
    saved = f"{level['bytes'] / whole - 1:+.0%}".replace("-", "−").replace("%", " %")
    return f"{level['bytes'] / 1e6:.1f}<small>{saved}</small>"


def _tightest(level: Mapping[str, Any]) -> str:
    check = tightest(level)
    if check is None:
        return "–"
    metric, digits = metric_of(check), digits_of(metric_of(check))
    told = f'<span class="n">{figure(check["value"], digits)}, limit {figure(limit_of(check), digits)}</span>'
    broken = len(level["broken"])
    more = f"<small>{broken} gate{'s' if broken > 1 else ''} broken</small>" if broken else ""
    return f"{escape(METRICS[metric].title)}<small>{told}</small>{more}"


def _engine(level: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    if level["unfit_for_engine"]:
        return f"not fit<small>{escape(level['unfit_for_engine'].partition(';')[0])}</small>"
    band = level["facts"]["forecast"].get(record["chip"])
    share = level["facts"]["int8_macs_share"]
    int8 = f"<small>{share:.0%} in int8</small>".replace("%", " %") if share else ""
    return f"{100 * band['engine_low']:.0f}–{100 * band['engine_high']:.0f} % of work{int8}" if band else "–"


def _time(level: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    band = level["facts"]["forecast"].get(record["chip"])
    return f"{short(band['low_ms'])}–{short(band['high_ms'])}" if band else "–"
