"""The release report as one HTML page without a single outside reference: what a person decides
from.

    html = page(record, heard, curves=[])

Order: the recommendation, what else is best, the table, size against quality, why not, the player,
sentence by sentence, sensitivity, every figure, provenance. Colours are the reader's, light or
dark; a phone shows the table as cards (eval/page/report.css).
"""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from kokoro_ane.core.commit import short
from kokoro_ane.core.config import not_releasable
from kokoro_ane.eval.listening import REFERENCE, Heard, kept
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_plots import judged_levels, scatter, strips
from kokoro_ane.eval.report_table import (
    digits_of,
    every_figure,
    level_table,
    metric_of,
    reasons,
    tightest,
    used,
)
from kokoro_ane.eval.verdict import BROKEN, SHIP

BUDGET_BYTES = 2_100_000  # of all sound: the page stays under 3 MB


def player(record: Mapping[str, Any], heard: Sequence[Heard]) -> str:
    """Controls, canvas and the sounds as JSON."""
    levels, sounds = packed(record, heard)
    data = {"clips": sounds, "levels": levels, "metrics": _metrics(record)}
    left_out = [name for name in order(record, heard) if name not in levels]
    note = (
        f'<p class="pale">Left out to keep the page small: {escape(", ".join(left_out))}.</p>'
        if left_out
        else ""
    )
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    controls = (
        '<div class="row"><label>Sentence <select id="clip"></select></label> <label>Level <select'
        ' id="level"></select></label></div><div class="row"><button id="play"'
        ' aria-pressed="false">Play</button><button class="ab" data-side="A" aria-pressed="true">A:'
        ' fp32</button><button class="ab" data-side="B" aria-pressed="false">B</button><span'
        ' class="pale">keys: space, A, B. Both run in step; switching changes which one is'
        " heard.</span></div>"
    )
    canvas = (
        '<canvas id="picture" role="img" aria-label="spectrograms of A and B and their difference;'
        ' click to seek"></canvas>'
    )
    below = (
        f'<p id="said" class="pale"></p><div id="figures"></div>{note}<noscript><p>The player needs'
        " JavaScript.</p></noscript>"
    )
    return (
        f'<div class="player">{controls}{canvas}{below}</div><script type="application/json"'
        f' id="sounds">{text}</script>'
    )


def order(record: Mapping[str, Any], heard: Sequence[Heard]) -> list[str]:
    """Levels to hear, the most wanted first: the one named, the other bests, those that ship, then
    the rejected from the smallest.
    """
    there = [level for level in record["levels"] if level["method"] in heard[0].signals]
    wanted = [record["level"], *(best["level"] for best in record["bests"])]
    wanted += [level["method"] for level in there if level["verdict"] == "SHIP"]
    wanted += [level["method"] for level in sorted(there, key=lambda level: level["bytes"])]
    names = {level["method"] for level in there}
    return [name for name in dict.fromkeys(wanted) if name in names]


def packed(
    record: Mapping[str, Any], heard: Sequence[Heard]
) -> tuple[list[str], list[dict[str, Any]]]:
    """The levels that fit into the budget, and each clip with its sounds and figures."""
    sounds = [{REFERENCE: kept(clip.signals[REFERENCE])} for clip in heard]
    spent, levels = sum(len(own[REFERENCE]["flac"]) for own in sounds), []
    for name in order(record, heard):
        found = [kept(clip.signals[name], clip.signals[REFERENCE]) for clip in heard]
        size = sum(len(way["flac"]) for way in found)
        if spent + size <= BUDGET_BYTES:
            spent += size
            levels.append(name)
            for own, way in zip(sounds, found, strict=True):
                own[name] = way
    return levels, [_clip(record, clip, own) for clip, own in zip(heard, sounds, strict=True)]


def _clip(record: Mapping[str, Any], clip: Heard, sounds: Mapping[str, Any]) -> dict[str, Any]:
    said = clip.utterance
    results = {
        level["method"]: own
        for level in record["levels"]
        for own in level.get("clips") or ()
        if own["id"] == said.id
    }
    figures = {name: own["figures"] for name, own in results.items() if name in sounds}
    seed = next(iter(results.values()))["seed_variation"]
    return {
        "id": said.id,
        "voice": said.voice,
        "text": said.text,
        "sounds": dict(sounds),
        "figures": figures,
        "seed": seed,
    }


def _metrics(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For the table below the player."""
    return [
        {
            "name": name,
            "title": METRICS[name].title,
            "unit": METRICS[name].unit,
            "digits": digits_of(name),
        }
        for name in gated(record)
    ]


def gated(record: Mapping[str, Any]) -> list[str]:
    """Every metric that a gate holds."""
    return list(
        dict.fromkeys(
            metric_of(check) for level in judged_levels(record) for check in level["checks"]
        )
    )


PAGE = Path(__file__).resolve().parent / "page"
OPEN = ("pesq", "mcd_db")  # strips that are shown unfolded
MAX_PICTURE_BYTES = 250_000  # of one sensitivity curve


def page(
    record: Mapping[str, Any],
    heard: Sequence[Heard],
    curves: Sequence[Path],
    product: Mapping[str, Any] | None = None,
) -> str:
    """The whole page; `curves`: the plots that quantize.sensitivity drew for this package;
    `product`: report.product_of, where known.
    """
    record = {**record, "product": product}
    parts = (
        decision(record),
        bests(record),
        section("Levels", level_table(record) + notes(record)),
        section("Size against quality", f"<figure>{scatter(record)}{SCATTER_NOTE}</figure>"),
        section("Why not the others", reasons(record)),
        section("Listen", player(record, heard)),
        section("Sentence by sentence", sentences(record)),
        section("Sensitivity of layers", sensitivity(curves)),
        section("Every figure", "".join(every_figure(level) for level in judged_levels(record))),
        section("Provenance", provenance(record)),
    )
    title = f"<title>{escape(headline(record))}</title>"
    meta = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    head = f"{meta}{title}<style>{asset('report.css')}</style>"
    held = "" if record["may_be_released"] else ' class="held"'
    body = f"<main{held}>{''.join(parts)}</main><script>{asset('report.js')}</script>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


SCATTER_NOTE = (
    '<figcaption class="pale">Point: mean PESQ of the level. Whisker: down to its worst sentence.'
    " Red tick: its own gate for the mean. Green ships (grey where nothing may be released), red is"
    " rejected, amber is undecided.</figcaption>"
)


def asset(name: str) -> str:
    """The style sheet or the script."""
    return (PAGE / name).read_text(encoding="utf-8")


def section(title: str, body: str) -> str:
    """A titled part."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


def headline(record: Mapping[str, Any]) -> str:
    """What to release, in the largest letters."""
    if not record["level"]:
        return "Release none"
    return f"{'Release' if record['may_be_released'] else 'Would release'} {record['level']}"


def decision(record: Mapping[str, Any]) -> str:
    """When, of what and by what; the recommendation in a sentence with what it costs and saves."""
    made, names = record["provenance"], {level["method"]: level for level in record["levels"]}
    clips = [clip for level in judged_levels(record)[:1] for clip in level["clips"]]
    voices = len({clip["voice"] for clip in clips})
    limits = short(made["limits"][-1]["commit"])
    told = (
        f"{made['date']}, commit {short(made['commit'])}, limits of commit {limits}."
        f" {made['checkpoint']}, {len(clips)} sentences of the {made['set']} set, {voices} voices,"
        f" noise seed {made['seed']} (others from {made['seed_variation_seed']} on),"
        f" {made['precision']} precision, features by {made['features']} (the player's by PyTorch)."
    )
    sentence = record["reason"]
    if record["level"]:
        kind = names[record["level"]]["title"]
        why = record["reason"].removeprefix(f"{record['level']} is ")
        # none where the uncompressed level was not judged
        costs = f": {record['costs']}. It" if record["costs"] else ""
        sentence = f"{record['level']} ({kind}){costs} is {why}"
    why_not = _withheld(record)
    said = f"<p>{escape(sentence + _nearest(record))}.</p>"
    warning = (
        ""
        if record["releasable"]
        else f'<p class="never">{escape(why_not[0].upper() + why_not[1:])}.</p>'
    )
    # what stands in the way, before all else
    first = warning + said if record["level"] else said.replace("<p>n", "<p>N") + warning
    verdict = escape(record["verdict"])
    held = record["verdict"] == SHIP and not record["may_be_released"]
    badge = (
        '<span class="badge'
        f' {verdict.lower()}">{verdict}{", not releasable" if held else ""}</span>'
    )
    return (
        f'<header class="{verdict.lower()}"><p>{badge}</p><h1>{escape(headline(record))}</h1>'
        f'{first}<p class="pale">{escape(told)}</p></header>'
    )


def _nearest(record: Mapping[str, Any]) -> str:
    """Where no level ships: the one that came nearest, and the gate that it is furthest beyond."""
    found = [
        (used(check) or 0.0, level["method"], check)
        for level in judged_levels(record)
        if (check := tightest(level))
    ]
    if record["level"] or not found:
        return ""
    _, method, check = min(found, key=lambda one: one[0])
    told = (
        f"{METRICS[metric_of(check)].title}, {check['gate'].split()[1]}: {check['value']:.4g},"
        f" limit {check['rule']}"
    )
    return (
        f"; nearest is {method}, which"
        f" {'misses' if check['state'] == BROKEN else 'is not sure to keep'} a gate: {told}"
    )


def _withheld(record: Mapping[str, Any]) -> str:
    said = [note for note in record["notes"] if "releas" in note]
    return said[0] if said else not_releasable(record["provenance"]["checkpoint"])


def bests(record: Mapping[str, Any]) -> str:
    """A card for each thing one may choose by."""
    cards = "".join(
        '<div><p class="pale">Best for'
        f" {escape(best['by'])}</p><p><b>{escape(best['level'])}</b></p><p>{escape(best['figure'])}</p><p"
        f' class="pale">{escape(best["costs"])}</p></div>'
        for best in record["bests"]
    )
    return f'<div class="bests">{cards}</div>' if cards else ""


def notes(record: Mapping[str, Any]) -> str:
    """What stands beside the decision, and how to read the columns."""
    warning = _withheld(record) if not record["releasable"] else None
    # "Why not the others" says it in words
    said = [note for note in record["notes"] if note != warning and " would be " not in note]
    product = record["product"]
    whole = (
        ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sorted(product["bytes"].items()))
        if product
        else ""
    )
    lacks = (
        f"; not built, so not in it: {', '.join(product['lacking'])}"
        if product and product["lacking"]
        else ""
    )
    fixed = (
        *(
            [
                f"The product is the vocoder and {whole}{lacks}. It runs from the newer system of"
                " vocoder and encoder."
            ]
            if product
            else []
        ),
        (
            "Below a mean: its 95 % interval, the worst sentence. The tightest gate is the one"
            " nearest to its limit, or furthest beyond."
        ),
        (
            f"Neural Engine ({record['chip'].upper()}): a forecast from the program alone, in two"
            " readings; nothing was measured on a device."
        ),
        (
            "Another noise seed: what the fp32 model does to itself. A level below that is nearer"
            " to fp32 than fp32 is to itself."
        ),
    )
    items, lines = (
        "".join(f"<li>{escape(note)}</li>" for note in said),
        "".join(f"<p>{escape(line)}</p>" for line in fixed),
    )
    return f'<ul>{items}</ul><div class="pale">{lines}</div>'


def sentences(record: Mapping[str, Any]) -> str:
    """A strip for each metric that a gate holds; all but OPEN are folded."""
    metrics = gated(record)
    key = (
        "A dot a sentence, a bar at the mean, red lines at the gates of that level: whole for the"
        " mean, dashed for the worst."
    )
    unfolded = "".join(strips(record, metric) for metric in OPEN if metric in metrics)
    folded = "".join(
        f"<details><summary>{escape(METRICS[metric].title)}</summary>{strips(record, metric)}</details>"
        for metric in metrics
        if metric not in OPEN
    )
    return f'<p class="pale">{key}</p>{unfolded}{folded}'


def sensitivity(curves: Sequence[Path]) -> str:
    """Each layer's loss and the trade-off curve that `mixed` was chosen from; nothing where they
    were not measured.
    """
    small = [path for path in curves if path.stat().st_size <= MAX_PICTURE_BYTES]
    pictures = "".join(
        f'<img alt="{escape(path.name)}"'
        f' src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">'
        for path in small
    )
    title = "<summary>Each layer's loss, and the curve that the recipe was chosen from</summary>"
    return f'<details class="pictures">{title}{pictures}</details>' if small else ""


def provenance(record: Mapping[str, Any]) -> str:
    """Everything needed to make the decision again."""
    packages = {
        level["method"]: level["provenance"]["package_sha256"] for level in judged_levels(record)
    }
    told = record["provenance"] | {
        "clips": " ".join(record["provenance"]["clips"]),
        "packages_sha256": packages,
    }
    told |= {
        "libraries": " ".join(
            f"{name}=={version}" for name, version in record["provenance"]["libraries"].items()
        )
    }
    text = json.dumps(told | {"claim": record["claim"]}, indent=1)
    return (
        "<details><summary>Hashes, versions, seeds,"
        f" limits</summary><pre>{escape(text)}</pre></details>"
    )
