"""The release decision as plain data, with everything needed to make it again.

write_json(out, decision_record(levels, choice, context, seed_floors, objective="smallest", chip="m4"))
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import torch

from core.corpus import Utterance
from eval.choose import Choice
from eval.context import JudgeContext
from eval.corpus import Truth
from eval.gates import FEWEST_CLIPS, FEWEST_VOICES, MEAN, WORST
from eval.levels import JudgedLevel
from eval.metrics.registry import METRICS, measure
from eval.metrics.trial import Trial
from eval.provenance import commit
from eval.store import utterance_sha256
from eval.verdict import BOOTSTRAP_SEED, CONFIDENCE, RESAMPLES, statistic
from pipeline.decision_file import FORMAT
from vocoder.package import render_reference

OTHER_SEED, THREADS = "fp32, another noise seed", "fp32, other thread count"


def thread_floor(truth: Truth, utterance: Utterance) -> dict[str, float]:
    """Figures of one clip rendered by fp32 on one thread and on two: what the order of additions does."""
    before, renders = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            renders.append(render_reference(truth.vocoder, truth.inputs(utterance)).astype("float64"))
    finally:
        torch.set_num_threads(before)
    one, two = renders
    return measure(Trial(one, two))


def seed_floors(context: JudgeContext) -> dict[str, dict[str, float | None]]:
    """The reference's own spread: another noise seed over all clips, another thread count on the first."""
    store, truth = context.store, context.truth
    first, about = context.clips[0], {clip.id: utterance_sha256(clip) for clip in context.clips}
    other_seed = [store.figures(f"seed_floor/{clip.id}", partial(_seed_floor, truth, clip), about[clip.id]) for clip in context.clips]
    threads = [store.figures("seed_floor/threads", lambda: thread_floor(truth, first), about[first.id])]
    return {name: _spread(figures) for name, figures in ((OTHER_SEED, other_seed), (THREADS, threads))}


def _seed_floor(truth: Truth, clip: Utterance) -> dict[str, float]:
    return truth.of(clip).seed_floor()


def _spread(figures: Sequence[Mapping[str, float]]) -> dict[str, float | None]:
    known = [name for name in figures[0] if name in METRICS]
    means = {name: statistic(name, MEAN, figures) for name in known}
    return means | {f"{name}_worst": statistic(name, WORST, figures) for name in known}


def decision_record(
    levels: Sequence[JudgedLevel], choice: Choice, context: JudgeContext, spread: Mapping[str, Any], objective: str, chip: str
) -> dict[str, Any]:
    """Decision first, then levels, the model's own spread, provenance."""
    return {
        "format": FORMAT,
        "verdict": choice.verdict,
        "level": choice.level,
        "releasable": choice.releasable,
        "may_be_released": choice.may_be_released,
        "reason": choice.reason,
        "costs": choice.costs,
        "bests": list(choice.bests),
        "notes": [*choice.notes, *limits_notes(context)],
        "objective": objective,
        "chip": chip,
        "claim": context.claim,
        "levels": [level_record(level) for level in levels],
        "spread": dict(spread),
        "provenance": provenance(context),
    }


def level_record(level: JudgedLevel) -> dict[str, Any]:
    """One level: what it is, what was measured, what was forecast."""
    own: dict[str, Any] = {"method": level.method, "title": level.title, "failed": level.failed, "unfit_for_engine": level.unfit}
    own |= {"bytes": level.bytes, "verdict": level.verdict, "facts": level.facts.as_dict() if level.facts else None}
    return own | {key: value for key, value in level.record.items() if key not in ("format", "method", "verdict", "releasable")}


def limits_notes(context: JudgeContext) -> list[str]:
    """What a reader must know of limits that were set or moved after the figures: which commits, and that these verdicts are by the new."""
    history, oldest = context.store.limits_history(), context.store.oldest()
    now = history[-1]
    told = f"the limits of commit {now['commit'][:10]}{'+' if now['commit'].endswith('+') else ''} ({now['committed'] or 'no date'})"
    if len(history) > 1:
        before = ", ".join(f"{entry['commit'][:10]} on {entry['first_used']}" for entry in history[:-1])
        return [f"limits were moved after results: these figures were judged before under commit {before}; every verdict here is by {told}"]
    if now["commit"].endswith("+") or now["commit"] == "none":
        return [f"limits that no commit holds: eval/gates.py or eval/verdict.py differ from commit {now['commit'].rstrip('+')[:10]}"]
    if oldest and datetime.fromisoformat(now["committed"]) > datetime.fromisoformat(oldest):
        return [f"limits are newer than results: {told} came after the first figure ({oldest}); every verdict here is by them"]
    return []


def provenance(context: JudgeContext) -> dict[str, Any]:
    """Hashes, commit, versions, corpus, seeds."""
    return context.store.key | {
        "checkpoint": context.checkpoint.name,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "oldest_figure": context.store.oldest(),
        "limits": context.store.limits_history(),
        "seed_floor_seed": context.truth.seed + 1,
        "bootstrap": {"seed": BOOTSTRAP_SEED, "resamples": RESAMPLES, "confidence": CONFIDENCE},
        "precision": context.execution.precision,
        "features": context.execution.features,
        "set": context.texts,
        "clips": [clip.id for clip in context.clips],
        "fewest_clips": FEWEST_CLIPS,
        "fewest_voices": FEWEST_VOICES,
    }
