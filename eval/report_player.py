"""The player of the report: one sentence by the reference and by a level, in step, switched at the same instant; figures and spectrograms.

html = player(record, heard)

Sound is stored once, lossless; a level as its difference to the reference where that is shorter. eval/page/report.js plays and draws.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from eval.audition import REFERENCE, Heard, kept
from eval.metrics.registry import METRICS
from eval.report_words import digits_of, metric_of

BUDGET_BYTES = 2_100_000  # of all sound: the page stays under 3 MB


def player(record: Mapping[str, Any], heard: Sequence[Heard]) -> str:
    """Controls, canvas and the sounds as JSON."""
    levels, sounds = packed(record, heard)
    data = {"clips": sounds, "levels": levels, "metrics": _metrics(record)}
    left_out = [name for name in order(record, heard) if name not in levels]
    note = f'<p class="pale">Left out to keep the page small: {escape(", ".join(left_out))}.</p>' if left_out else ""
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    controls = (
        '<div class="row"><label>Sentence <select id="clip"></select></label> <label>Level <select id="level"></select></label></div>'
        '<div class="row"><button id="play" aria-pressed="false">Play</button>'
        '<button class="ab" data-side="A" aria-pressed="true">A: fp32</button>'
        '<button class="ab" data-side="B" aria-pressed="false">B</button>'
        '<span class="pale">keys: space, A, B. Both run in step; switching changes which one is heard.</span></div>'
    )
    canvas = '<canvas id="picture" role="img" aria-label="spectrograms of A and B and their difference; click to seek"></canvas>'
    below = f'<p id="said" class="pale"></p><div id="figures"></div>{note}<noscript><p>The player needs JavaScript.</p></noscript>'
    return f'<div class="player">{controls}{canvas}{below}</div><script type="application/json" id="sounds">{text}</script>'


def order(record: Mapping[str, Any], heard: Sequence[Heard]) -> list[str]:
    """Levels to hear, the most wanted first: the one named, the other bests, those that ship, then the rejected from the smallest."""
    there = [level for level in record["levels"] if level["method"] in heard[0].signals]
    wanted = [record["level"], *(best["level"] for best in record["bests"])]
    wanted += [level["method"] for level in there if level["verdict"] == "SHIP"]
    wanted += [level["method"] for level in sorted(there, key=lambda level: level["bytes"])]
    names = {level["method"] for level in there}
    return [name for name in dict.fromkeys(wanted) if name in names]


def packed(record: Mapping[str, Any], heard: Sequence[Heard]) -> tuple[list[str], list[dict[str, Any]]]:
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
    results = {level["method"]: own for level in record["levels"] for own in level.get("clips") or () if own["id"] == said.id}
    figures = {name: own["figures"] for name, own in results.items() if name in sounds}
    floor = next(iter(results.values()))["seed_floor"]
    return {"id": said.id, "voice": said.voice, "text": said.text, "sounds": dict(sounds), "figures": figures, "seed": floor}


def _metrics(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every metric that a gate holds, for the table below the player."""
    gated = dict.fromkeys(metric_of(check) for level in record["levels"] if level.get("clips") for check in level["checks"])
    return [{"name": name, "title": METRICS[name].title, "unit": METRICS[name].unit, "digits": digits_of(name)} for name in gated]
