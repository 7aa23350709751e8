"""The release report as one HTML page without a single outside reference: what a person decides from.

    html = page(record, heard, curves=[])

Order: the recommendation, what else is best, the table, size against quality, why not, the player, sentence by sentence, sensitivity, every
figure, provenance. Colours are the reader's, light or dark; a phone shows the table as cards (eval/page/report.css).
"""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from core.config import not_releasable
from eval.audition import Heard
from eval.metrics.registry import METRICS
from eval.report_player import player
from eval.report_plots import judged_levels, scatter, strips
from eval.report_reasons import every_figure, reasons
from eval.report_table import level_table
from eval.report_words import metric_of, plain_name

PAGE = Path(__file__).resolve().parent / "page"
OPEN = ("pesq", "mcd_db")  # strips that are shown unfolded
MAX_PICTURE_BYTES = 250_000  # of one sensitivity curve
SHORT = 10  # letters of a commit


def page(record: Mapping[str, Any], heard: Sequence[Heard], curves: Sequence[Path]) -> str:
    """The whole page; `curves` are the plots that quantize.sensitivity drew for this package."""
    parts = (
        decision(record),
        bests(record),
        section("Levels", level_table(record) + notes(record)),
        section("Size against quality", scatter(record) + SCATTER_NOTE),
        section("Why not the others", reasons(record)),
        section("Listen", player(record, heard)),
        section("Sentence by sentence", sentences(record)),
        section("Sensitivity of layers", sensitivity(curves)),
        section("Every figure", "".join(every_figure(level) for level in judged_levels(record))),
        section("Provenance", provenance(record)),
    )
    title = f"<title>{escape(headline(record))}</title>"
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"{meta}{title}<style>{asset('report.css')}</style>"
    body = f"<main>{''.join(parts)}</main><script>{asset('report.js')}</script>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


SCATTER_NOTE = (
    '<p class="pale">Point: mean PESQ of the level. Whisker: down to its worst sentence. Red tick: this level\'s own gate for the mean. '
    "Green ships, red is rejected, amber is undecided.</p>"
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
    limits = made["limits"][-1]["commit"][:SHORT]
    told = (
        f"{made['date']}, commit {_short(made['commit'])}, limits of commit {limits}. {made['checkpoint']}, {len(clips)} sentences of the "
        f"{made['set']} set, {voices} voices, noise seed {made['seed']} (others from {made['seed_floor_seed']} on), "
        f"{made['precision']} precision, features by {made['features']} (the player's by PyTorch)."
    )
    sentence = record["reason"]
    if record["level"]:
        kind = plain_name(names[record["level"]]["facts"])
        why = record["reason"].removeprefix(f"{record['level']} is ")
        costs = f": {record['costs']}. It" if record["costs"] else ""  # none where the uncompressed level was not judged
        sentence = f"{record['level']} ({kind}){costs} is {why}"
    why_not = _withheld(record)
    warning = "" if record["releasable"] else f'<p class="never">{escape(why_not[0].upper() + why_not[1:])}.</p>'
    badge = f'<span class="badge {record["verdict"].lower()}">{record["verdict"]}</span>'
    return (
        f'<header class="{record["verdict"].lower()}"><p>{badge}</p><h1>{escape(headline(record))}</h1>'
        f'<p>{escape(sentence)}.</p>{warning}<p class="pale">{escape(told)}</p></header>'
    )


def _short(commit: str) -> str:
    return commit[:SHORT] + ("+" if commit.endswith("+") else "")


def _withheld(record: Mapping[str, Any]) -> str:
    said = [note for note in record["notes"] if "releas" in note]
    return said[0] if said else not_releasable(record["provenance"]["checkpoint"])


def bests(record: Mapping[str, Any]) -> str:
    """A card for each thing one may choose by."""
    cards = "".join(
        f'<div><p class="pale">Best for {escape(best["by"])}</p><p><b>{escape(best["level"])}</b></p><p>{escape(best["figure"])}</p>'
        f'<p class="pale">{escape(best["costs"])}</p></div>'
        for best in record["bests"]
    )
    return f'<div class="bests">{cards}</div>' if cards else ""


def notes(record: Mapping[str, Any]) -> str:
    """What stands beside the decision, and how to read the columns."""
    warning = _withheld(record) if not record["releasable"] else None
    said = [note for note in record["notes"] if note != warning and " would be " not in note]  # "Why not the others" says it in words
    fixed = (
        "Below a mean: its 95 % interval, the worst sentence. The tightest gate is the one nearest to its limit, or furthest beyond.",
        f"Neural Engine and ms/s (milliseconds per second of audio, {record['chip'].upper()}): forecasts from the program alone, in two "
        "readings; nothing was measured on a device.",
        "Another noise seed: what the fp32 model does to itself. A level below that is nearer to fp32 than fp32 is to itself.",
    )
    items, lines = "".join(f"<li>{escape(note)}</li>" for note in said), "".join(f"<p>{escape(line)}</p>" for line in fixed)
    return f'<ul>{items}</ul><div class="pale">{lines}</div>'


def sentences(record: Mapping[str, Any]) -> str:
    """A strip for each metric that a gate holds; all but OPEN are folded."""
    gated = dict.fromkeys(metric_of(check) for level in judged_levels(record) for check in level["checks"])
    key = "A dot a sentence, a bar at the mean, red lines at the gates of that level: whole for the mean, dashed for the worst."
    unfolded = "".join(strips(record, metric) for metric in OPEN if metric in gated)
    folded = "".join(
        f"<details><summary>{escape(METRICS[metric].title)}</summary>{strips(record, metric)}</details>"
        for metric in gated
        if metric not in OPEN
    )
    return f'<p class="pale">{key}</p>{unfolded}{folded}'


def sensitivity(curves: Sequence[Path]) -> str:
    """Each layer's loss and the trade-off curve that `mixed` was chosen from; nothing where they were not measured."""
    small = [path for path in curves if path.stat().st_size <= MAX_PICTURE_BYTES]
    pictures = "".join(
        f'<img alt="{escape(path.name)}" src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">' for path in small
    )
    title = "<summary>Each layer's loss, and the curve that the recipe was chosen from</summary>"
    return f'<details class="pictures">{title}{pictures}</details>' if small else ""


def provenance(record: Mapping[str, Any]) -> str:
    """Everything needed to make the decision again."""
    packages = {level["method"]: level["provenance"]["package_sha256"] for level in judged_levels(record)}
    told = record["provenance"] | {"clips": " ".join(record["provenance"]["clips"]), "packages_sha256": packages}
    told |= {"libraries": " ".join(f"{name}=={version}" for name, version in record["provenance"]["libraries"].items())}
    text = json.dumps(told | {"objective": record["objective"], "claim": record["claim"]}, indent=1)
    return f"<details><summary>Hashes, versions, seeds, limits</summary><pre>{escape(text)}</pre></details>"
