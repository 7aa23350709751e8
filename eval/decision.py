"""Which level to release, the smallest of those that ship, and the decision as plain data.

    choice = choose(levels, withheld="kokoro-int8 has rounded weights")
    write_json(out, decision_record(levels, choice, context))

The record holds everything that is needed to decide again: hashes, commit, versions, seeds, every
figure.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from kokoro_ane.eval import VOCODER
from kokoro_ane.eval.gates import FEWEST_CLIPS, FEWEST_VOICES, MEAN, WORST
from kokoro_ane.eval.judge import (
    BOOTSTRAP_SEED,
    CONFIDENCE,
    REJECT,
    RESAMPLES,
    SHIP,
    UNDECIDED,
    statistic,
)
from kokoro_ane.eval.levels import JudgedLevel
from kokoro_ane.eval.metrics.catalog import METRICS, measure
from kokoro_ane.eval.metrics.trial import Trial
from kokoro_ane.eval.provenance import commit
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import VocoderComparison
from kokoro_ane.eval.report_figures import whole_of
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.pipeline.decision_file import FORMAT
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.vocoder.render import render_reference

OTHER_SEED, THREADS = "fp32, another noise seed", "fp32, other thread count"
LEAST_PESQ = 0.005  # what two decimals do not show


@dataclass(frozen=True)
class Choice:
    """The decision: SHIP with a level, REJECT when every level is rejected, UNDECIDED otherwise.
    `releasable`: false for kokoro-int8.

    `bests`: what else one may choose by, with the level that is best by it and what it costs and
    saves.
    """

    verdict: str
    level: str | None
    reason: str
    releasable: bool
    notes: tuple[str, ...]
    costs: str = ""
    bests: tuple[dict[str, str], ...] = ()

    @property
    def may_be_released(self) -> bool:
        """A level ships and its checkpoint is one that may go out."""
        return self.verdict == SHIP and self.releasable


def choose(levels: Sequence[JudgedLevel], withheld: str | None) -> Choice:
    """The smallest level that ships and is meant for the Neural Engine. `withheld`: why nothing may
    be released, if so.
    """
    releasable = withheld is None
    by_size = sorted(levels, key=lambda level: level.bytes)
    keeping = [level for level in by_size if level.verdict == SHIP]
    shipping = [level for level in keeping if not level.unfit]
    notes = [
        f"{level.method} keeps every gate but is not chosen: {level.unfit}"
        for level in keeping
        if level.unfit
    ]
    notes += [] if withheld is None else [withheld]
    if not shipping:
        # Rejected, or not decided yet.
        names = [one.method for one in levels if one.verdict == UNDECIDED and not one.failed]
        open_ends = f", and the clips cannot tell about {', '.join(names)}" if names else ""
        verdict, reason = UNDECIDED if names else REJECT, f"no level ships{open_ends}"
        return Choice(verdict, None, reason, releasable, tuple(notes))
    best, *others = shipping
    notes += [
        f"{level.method} would be {_megabytes(level)}: {level.verdict}, {level.problem}"
        for level in by_size
        if level.record and level.verdict != SHIP and level.bytes < best.bytes
    ]
    beside = (
        f"the next is {others[0].method} with {_megabytes(others[0])}" if others else "the only one"
    )
    reason = (
        f"{best.method} is the smallest level that keeps every gate: {_megabytes(best)}, {beside}"
    )
    return Choice(
        SHIP,
        best.method,
        reason,
        releasable,
        tuple(notes),
        costs(best, levels),
        bests(shipping, levels),
    )


def bests(
    shipping: Sequence[JudgedLevel], levels: Sequence[JudgedLevel]
) -> tuple[dict[str, str], ...]:
    """The best shipping level by size, the first, and by nearness to fp32 (of those smaller than
    fp16).
    """
    # Nearest to fp32 is fp16 itself: the question is for those that save something.
    smaller = [level for level in shipping if level is not whole(level, levels)] or list(shipping)
    nearest = min(smaller, key=lambda level: level.record["summary"]["mcd_db"]["mean"])
    smallest, mcd_db = shipping[0], nearest.record["summary"]["mcd_db"]["mean"]
    rows = (
        ("size", smallest, _megabytes(smallest)),
        ("fidelity", nearest, f"MCD {mcd_db:.2f} dB from fp32"),
    )
    return tuple(
        {"by": by, "level": level.method, "figure": figure, "costs": costs(level, levels)}
        for by, level, figure in rows
    )


def whole(level: JudgedLevel, levels: Sequence[JudgedLevel]) -> JudgedLevel | None:
    """Return the uncompressed level of the same layout, or None."""
    name = whole_of(level.method)
    return next((other for other in levels if other.facts and other.method == name), None)


def costs(level: JudgedLevel, levels: Sequence[JudgedLevel]) -> str:
    """What a level costs and saves against fp16 of its layout: "62 % smaller than fp16, PESQ 0.01
    lower"; "" where there is none.
    """
    base = whole(level, levels)
    if base is None or base is level:
        return "uncompressed" if base else ""
    saved = 1 - level.bytes / base.bytes
    lost = base.record["summary"]["pesq"]["mean"] - level.record["summary"]["pesq"]["mean"]
    heard = (
        "PESQ the same"
        if abs(lost) < LEAST_PESQ
        else f"PESQ {abs(lost):.2f} {'lower' if lost > 0 else 'higher'}"
    )
    size = f"{100 * abs(saved):.0f} % {'smaller' if saved > 0 else 'larger'}"
    return f"{size} than {base.method}, {heard}"


def _megabytes(level: JudgedLevel) -> str:
    return f"{level.bytes / 1e6:.2f} MB"


def thread_variation(reference: Reference, utterance: Utterance) -> dict[str, float]:
    """Figures of one clip rendered by fp32 on one thread and on two: what the order of additions
    does.
    """
    before, renders = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            renders.append(
                render_reference(reference.vocoder, reference.inputs(utterance)).astype("float64")
            )
    finally:
        torch.set_num_threads(before)
    one, two = renders
    return measure(Trial(one, two))


def seed_variations(context: JudgeContext) -> dict[str, dict[str, float | None]]:
    """The reference's own spread: another noise seed over all clips, another thread count on the
    first. By metric the mean, and under "NAME_worst" the worst.
    """
    store, reference, first = context.store, context.reference, context.clips[0]
    comparison = VocoderComparison(reference)
    other_seed = [comparison.natural(clip).figures for clip in context.clips]
    threads = store.figures(
        f"{VOCODER}-variation/threads", lambda: thread_variation(reference, first)
    )
    spreads: dict[str, dict[str, float | None]] = {}
    for title, figures in ((OTHER_SEED, other_seed), (THREADS, [threads])):
        names = [name for name in figures[0] if name in METRICS]
        spreads[title] = {name: statistic(name, MEAN, figures) for name in names} | {
            f"{name}_worst": statistic(name, WORST, figures) for name in names
        }
    return spreads


def decision_record(
    levels: Sequence[JudgedLevel], choice: Choice, context: JudgeContext
) -> dict[str, Any]:
    """Return the decision, then levels, the model's own spread and provenance."""
    return asdict(choice) | {
        "format": FORMAT,
        "may_be_released": choice.may_be_released,
        "claim": context.claim,
        "levels": [level_record(level) for level in levels],
        "spread": seed_variations(context),
        "provenance": provenance(context),
    }


def level_record(level: JudgedLevel) -> dict[str, Any]:
    """Return what one level is, what was measured of it, and what was forecast."""
    decision = ("format", "stage", "method", "verdict", "releasable", "withheld")
    return {
        "method": level.method,
        "title": level.title,
        "failed": level.failed,
        "unfit_for_engine": level.unfit,
        "bytes": level.bytes,
        "verdict": level.verdict,
        "facts": asdict(level.facts) if level.facts else None,
        **{name: value for name, value in level.record.items() if name not in decision},
    }


def provenance(context: JudgeContext) -> dict[str, Any]:
    """Return hashes, commit, versions, clips and seeds: everything to decide again by."""
    return context.store.key | {
        "checkpoint": context.checkpoint.name,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "seed_variation_seed": context.reference.seed + 1,
        "bootstrap": {"seed": BOOTSTRAP_SEED, "resamples": RESAMPLES, "confidence": CONFIDENCE},
        "precision": context.execution.precision,
        "features": context.execution.features,
        "set": context.texts,
        "clips": [clip.id for clip in context.clips],
        "fewest_clips": FEWEST_CLIPS,
        "fewest_voices": FEWEST_VOICES,
    }
