"""The report's table of levels: a row each on a screen, a card each on a phone, every column in
both.

html = level_table(record)
"""

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from kokoro_ane.eval.metrics.catalog import HIGHER, METRICS, ZERO
from kokoro_ane.eval.verdict import HOLDS, MISSING, STRADDLES

DIGITS = 2


def figure(value: float | None, digits: int = DIGITS) -> str:
    """So many decimals, no negative zero, or a dash for what was not measured."""
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def short(value: float) -> str:
    """Two digits that count, and never a power of ten: 0.26, 2.9, 102."""
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


def digits_of(metric: str) -> int:
    """Decimals that a metric deserves: none where it counts, more where a limit is small."""
    return {"samples": 0, "%": 2, "0..1": 3, "cents": 1}.get(METRICS[metric].unit, DIGITS)


def limit_of(check: Mapping[str, Any]) -> float:
    """The limit of a check: ">= 4" -> 4, "within 0.5" -> 0.5."""
    return float(check["rule"].split()[-1])


def limits_of(check: Mapping[str, Any]) -> tuple[float, ...]:
    """Where its gate lies on the metric's axis: one place, or two around zero."""
    limit = limit_of(check)
    return (-limit, limit) if METRICS[metric_of(check)].best == ZERO else (limit,)


def metric_of(check: Mapping[str, Any]) -> str:
    """The metric of a check whose gate is called "pesq mean"."""
    return str(check["gate"].split()[0])


def interval_of(level: Mapping[str, Any], metric: str) -> tuple[float, float] | None:
    """The 95 % interval of a metric's mean, where a gate holds that mean and the figures differ at
    all.
    """
    found = next((check for check in level["checks"] if check["gate"] == f"{metric} mean"), None)
    if found is None or found["low"] is None or found["low"] == found["high"]:
        return None
    return float(found["low"]), float(found["high"])


def used(check: Mapping[str, Any]) -> float | None:
    """How much of what its limit allows a figure uses: above 1 the gate is broken. None where there
    is no measure of that.
    """
    value, limit, metric = check["value"], limit_of(check), METRICS[metric_of(check)]
    if value is None:
        return None
    room, spent = (
        (metric.perfect - limit, metric.perfect - value)
        if metric.best == HIGHER
        else (limit, abs(value))
    )
    return spent / room if room > 0 else None


def tightest(level: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The check that is nearest to its limit, or furthest beyond."""
    measured = [check for check in level["checks"] if used(check) is not None]
    return max(measured, key=lambda check: used(check) or 0.0, default=None)


# columns of their own, and so has each of these that the registry knows:
SHOWN = ("pesq", "mcd_db")
SHOWN_IF_MEASURED = ("word_errors_added", "local_spectrum_db", "speaker_distance")


WORDY = ("tightest gate", "Neural Engine")  # columns whose cells may break


def shown() -> tuple[str, ...]:
    """Metrics with a column."""
    return SHOWN + tuple(name for name in SHOWN_IF_MEASURED if name in METRICS)


def level_table(record: Mapping[str, Any]) -> str:
    """Every level on identical inputs, and the model's own spread below them. record["product"]:
    report.product_of, where known.
    """
    rows = "".join(row(level, record) for level in record["levels"])
    rows += "".join(spread_row(name, spread, record) for name, spread in record["spread"].items())
    return table(
        "Every level on the same sentences and noise, and what the fp32 model does to itself.",
        headings(record),
        rows,
    )


def table(caption: str, names: Sequence[str], rows: str, left: int = 2) -> str:
    """A table whose first `left` columns and rows' first cells (th) hold words."""
    head = "".join(
        f'<th scope="col"{" class=left" if i < left else ""}>{escape(name)}</th>'
        for i, name in enumerate(names)
    )
    return (
        "<table"
        f' class="stack"><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    )


def headings(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the columns, with units."""
    metrics = (
        f"{METRICS[name].title.removesuffix(' wide band')}, {METRICS[name].unit}"
        for name in shown()
    )
    sizes = ("vocoder, MB", *(["product, MB"] if record.get("product") else []))
    return (
        "level",
        "verdict",
        *sizes,
        *metrics,
        "tightest gate",
        "Neural Engine",
        "runs from",
    )


def row(level: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    """One level."""
    chosen = ' class="chosen"' if level["method"] == record["level"] else ""
    if level["failed"]:
        name = f'<th scope="row"><b>{escape(level["method"])}</b><small>{escape(level["title"])}</small></th>'
        return (
            f'<tr{chosen}>{name}<td class="left wide"'
            f' colspan="{len(headings(record)) - 1}">{escape(level["failed"])}</td></tr>'
        )
    name = f'<th scope="row"><b>{escape(level["method"])}</b><small>{escape(level["title"])}</small></th>'
    said = escape(level["verdict"])
    verdict = f'<td class="left"><span class="badge {said.lower()}">{said}</span></td>'
    metrics = [_metric(level, metric) for metric in shown()]
    product = record.get("product")
    whole = [f"{(level['bytes'] + sum(product['bytes'].values())) / 1e6:.1f}"] if product else []
    cells = [
        _size(level, record),
        *whole,
        *metrics,
        _tightest(level),
        _engine(level, record),
        _system(level, product),
    ]
    labelled = zip(headings(record)[2:], cells, strict=True)
    return f"<tr{chosen}>{name}{verdict}{''.join(_cell(heading, text) for heading, text in labelled)}</tr>"


def spread_row(name: str, spread: Mapping[str, float | None], record: Mapping[str, Any]) -> str:
    """What the model does to itself: only metrics."""
    cells = [_pair(spread.get(metric), spread.get(f"{metric}_worst"), metric) for metric in shown()]
    sizes = [""] * (2 if record.get("product") else 1)
    cells = [*sizes, *cells, *[""] * (len(headings(record)) - 2 - len(sizes) - len(cells))]
    body = "".join(
        _cell(heading, text) for heading, text in zip(headings(record)[2:], cells, strict=True)
    )
    return f'<tr class="spread"><th scope="row">{escape(name)}</th><td></td>{body}</tr>'


def _system(level: Mapping[str, Any], product: Mapping[str, Any] | None) -> str:
    """The worse of vocoder and encoder, and whose that is."""
    own = level["facts"]["minimum_ios"]
    worse = (
        max(
            own,
            product["encoder_ios"],
            key=lambda name: int("0" + "".join(filter(str.isdigit, name))),
        )
        if product
        else own
    )
    whose = (
        "<small>the vocoder</small>"
        if not product or not product["encoder_ios"]
        else "<small>the encoder</small>" * (worse != own)
    )
    return escape(worse).replace("iOS", "iOS ") + whose


def _cell(heading: str, text: str) -> str:
    kind = "" if heading in WORDY else ' class="n"'
    return f'<td{kind} data-label="{escape(heading)}">{text}</td>' if text else "<td></td>"


def _pair(mean: float | None, worst: float | None, metric: str) -> str:
    digits = digits_of(metric)
    return f"{figure(mean, digits)}<small>{figure(worst, digits)}</small>"


def _metric(level: Mapping[str, Any], metric: str) -> str:
    line, interval, digits = level["summary"][metric], interval_of(level, metric), digits_of(metric)
    span = (
        f"<small>{figure(interval[0], digits)}–{figure(interval[1], digits)}</small>"
        if interval
        else ""
    )
    return f"{figure(line['mean'], digits)}{span}<small>{figure(line['worst'], digits)}</small>"


def _size(level: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    sizes = {other["method"]: other["bytes"] for other in record["levels"] if other["bytes"]}
    layout = level["method"].rpartition("-")[0]
    whole = sizes.get(f"{layout}-fp16" if layout else "fp16")
    if not whole or whole == level["bytes"]:
        return f"{level['bytes'] / 1e6:.1f}"
    saved = f"{level['bytes'] / whole - 1:+.0%}".replace("-", "−").replace("%", " %")
    return f"{level['bytes'] / 1e6:.1f}<small>{saved}</small>"


def _tightest(level: Mapping[str, Any]) -> str:
    check = tightest(level)
    if check is None:
        return "–"
    metric, digits = metric_of(check), digits_of(metric_of(check))
    told = (
        f'<span class="n">{figure(check["value"], digits)}, limit'
        f" {figure(limit_of(check), digits)}</span>"
    )
    broken = len(level["broken"])
    more = f"<small>{broken} gate{'s' if broken > 1 else ''} broken</small>" if broken else ""
    return f"{escape(METRICS[metric].title)}<small>{told}</small>{more}"


def _engine(level: Mapping[str, Any], record: Mapping[str, Any]) -> str:
    if level["unfit_for_engine"]:
        return f"not fit<small>{escape(level['unfit_for_engine'].partition(';')[0])}</small>"
    band = level["facts"]["forecast"].get(record["chip"])
    share = level["facts"]["int8_macs_share"]
    int8 = f"<small>{share:.0%} in int8</small>".replace("%", " %") if share else ""
    return (
        f"{100 * band['engine_low']:.0f}–{100 * band['engine_high']:.0f} % of work{int8}"
        if band
        else "–"
    )


Case = tuple[Mapping[str, Any], Mapping[str, Any]]  # a level and one of its checks


def reasons(record: Mapping[str, Any]) -> str:
    """One paragraph a reason that some level does not satisfy; then what else was said of levels;
    first who keeps every gate.
    """
    judged = [level for level in record["levels"] if level.get("clips")]
    found: dict[str, dict[str, list[Case]]] = {}  # by reason, by gate
    for level in judged:
        for check in level["checks"]:
            if check["state"] != HOLDS:
                found.setdefault(check["reason"], {}).setdefault(check["gate"], []).append(
                    (level, check)
                )
    ordered = sorted(found.items(), key=lambda item: -max(len(cases) for cases in item[1].values()))
    said = "".join(_reason(reason, gates) for reason, gates in ordered)
    keeping = [
        level["method"]
        for level in judged
        if all(check["state"] == HOLDS for check in level["checks"])
    ]
    kept = (
        f"<p>Every gate holds for {escape(', '.join(keeping))}.</p>"
        if keeping
        else "<p>No level keeps every gate.</p>"
    )
    return kept + said + _others(judged, {gate for gates in found.values() for gate in gates})


def _reason(reason: str, gates: Mapping[str, list[Case]]) -> str:
    """Why a limit is there, once, below every gate that has this reason."""
    lines = "".join(f"<p>{_gate(gate, cases)}.</p>" for gate, cases in gates.items())
    return f'<div class="reason">{lines}<p class="pale">{escape(reason)}</p></div>'


def _gate(gate: str, cases: Sequence[Case]) -> str:
    metric, kind = gate.split()[:2]
    told = "; ".join(_case(level, check) for level, check in cases)
    return (
        f"<b>{escape(METRICS[metric].title)}</b>, {'worst sentence' if kind == 'worst' else kind}:"
        f" {told}"
    )


def _case(level: Mapping[str, Any], check: Mapping[str, Any]) -> str:
    digits, unit = digits_of(metric_of(check)), METRICS[metric_of(check)].unit
    if check["state"] == MISSING:
        return f"{escape(level['method'])} not measured"
    low, high = check["low"], check["high"]
    span = (
        f" ({figure(low, digits)} to {figure(high, digits)})"
        if low is not None and low != high
        else ""
    )
    moves = any(
        reason.startswith(check["gate"]) and "the limit moves too" in reason
        for reason in level["reasons"]
    )
    doubt = (
        f" – too near to tell{', and the limit moves too' if moves else ''}"
        if check["state"] == STRADDLES
        else ""
    )
    told = f"{figure(check['value'], digits)} {unit}{span}, limit {figure(limit_of(check), digits)}"
    return f"{escape(level['method'])} {escape(told)}{doubt}"


def _others(judged: list[Mapping[str, Any]], found: Collection[str]) -> str:
    """Defects, too few clips, doubts: reasons that no gate gave, each once."""
    said: dict[str, list[str]] = {}
    for level in judged:
        for reason in level["reasons"]:
            if reason != "every gate holds" and not any(reason.startswith(gate) for gate in found):
                said.setdefault(reason, []).append(level["method"])
    return "".join(
        f'<div class="reason"><p>{escape(reason)}: {escape(", ".join(names))}.</p></div>'
        for reason, names in said.items()
    )


def every_figure(level: Mapping[str, Any]) -> str:
    """Every metric of a level beside its seed variation, with its gates."""
    columns = ("mean", "worst", "seed_variation_mean", "seed_variation_worst")
    names = ("mean", "worst", "another seed, mean", "another seed, worst")
    rows = ""
    for metric, line in level["summary"].items():
        cells = "".join(
            f'<td data-label="{name}">{figure(line[column], digits_of(metric))}</td>'
            for name, column in zip(names, columns, strict=True)
        )
        gates = ", ".join(
            f"{c['gate'].split()[1]} {c['rule']}: {c['state']}"
            for c in level["checks"]
            if metric_of(c) == metric
        )
        title = f"{escape(METRICS[metric].title)} <small>{escape(METRICS[metric].unit)}</small>"
        rows += (
            f'<tr><th scope="row">{title}</th>{cells}<td class="left'
            f' wide">{escape(gates)}</td></tr>'
        )
    told = table(
        f"{level['method']}: every metric, with its gates.",
        ("metric", *names, "gate"),
        rows,
        left=1,
    )
    return f"<details><summary>{escape(level['method'])}</summary>{told}</details>"
