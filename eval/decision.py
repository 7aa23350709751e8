"""Which level to release, the smallest of those that ship, and the decision as plain data.

    choice = choose(levels, withheld="kokoro-int8 has rounded weights")
    write_json(out, build_decision_record(levels, choice, context))

The record holds everything that is needed to decide again: hashes, commit, versions, seeds, every
figure.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kokoro_ane.eval.gates import FEWEST_VOICES, MEAN, WORST
from kokoro_ane.eval.judge import (
    BOOTSTRAP_SEED,
    CONFIDENCE,
    REJECT,
    RESAMPLES,
    SHIP,
    UNDECIDED,
    compute_statistic,
)
from kokoro_ane.eval.levels import LevelRecord, collect_provenance, describe_problem
from kokoro_ane.eval.metrics.catalog import METRICS
from kokoro_ane.eval.report_figures import name_uncompressed
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.pipeline import FORMAT, PRODUCT_FORMAT

OTHER_SEED = "fp32, another noise seed"
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


def choose(levels: Sequence[LevelRecord], withheld: str | None) -> Choice:
    """The smallest level that ships and is meant for the Neural Engine. `withheld`: why nothing may
    be released, if so.
    """
    releasable = withheld is None
    # Sorted is stable: levels of one size stay in the order in which they were asked for.
    by_size = sorted(levels, key=lambda level: level["bytes"])
    keeping = [level for level in by_size if level["verdict"] == SHIP]
    shipping = [level for level in keeping if not level["unfit_for_engine"]]
    notes = [
        f"{level['method']} keeps every gate but is not chosen: {level['unfit_for_engine']}"
        for level in keeping
        if level["unfit_for_engine"]
    ]
    notes += [] if withheld is None else [withheld]
    if not shipping:
        # Rejected, or not decided yet.
        names = [
            one["method"] for one in levels if one["verdict"] == UNDECIDED and not one["failed"]
        ]
        open_ends = f", and the clips cannot tell about {', '.join(names)}" if names else ""
        verdict = UNDECIDED if names else REJECT
        reason = f"no level ships{open_ends}"
        return Choice(verdict, None, reason, releasable, tuple(notes))
    best, *others = shipping
    # Each smaller level that was judged says what it breaks, so that the choice explains itself.
    notes += [
        f"{level['method']} would be {_format_megabytes(level)}: {level['verdict']},"
        f" {describe_problem(level)}"
        for level in by_size
        if not level["failed"] and level["verdict"] != SHIP and level["bytes"] < best["bytes"]
    ]
    beside = (
        f"the next is {others[0]['method']} with {_format_megabytes(others[0])}"
        if others
        else "the only one"
    )
    return Choice(
        SHIP,
        best["method"],
        f"{best['method']} is the smallest level that keeps every gate: {_format_megabytes(best)},"
        f" {beside}",
        releasable,
        tuple(notes),
        describe_costs(best, levels),
        find_best_levels(shipping, levels),
    )


def find_best_levels(
    shipping: Sequence[LevelRecord], levels: Sequence[LevelRecord]
) -> tuple[dict[str, str], ...]:
    """The best shipping level by size, the first, and by nearness to fp32 (of those smaller than
    fp16).
    """
    # Nearest to fp32 is fp16 itself: the question is for those that save something.
    smaller = [
        level for level in shipping if level is not find_uncompressed(level, levels)
    ] or list(shipping)
    nearest = min(smaller, key=lambda level: level["summary"]["mcd_db"]["mean"])
    distance = f"MCD {nearest['summary']['mcd_db']['mean']:.2f} dB from fp32"
    return tuple(
        {
            "by": by,
            "level": level["method"],
            "figure": figure,
            "costs": describe_costs(level, levels),
        }
        for by, level, figure in (
            ("size", shipping[0], _format_megabytes(shipping[0])),
            ("fidelity", nearest, distance),
        )
    )


def find_uncompressed(level: LevelRecord, levels: Sequence[LevelRecord]) -> LevelRecord | None:
    """Return the uncompressed level of the same layout, or None."""
    name = name_uncompressed(level["method"])
    # A level that failed has no bytes to compare with.
    return next((other for other in levels if other["bytes"] and other["method"] == name), None)


def describe_costs(level: LevelRecord, levels: Sequence[LevelRecord]) -> str:
    """What a level costs and saves against fp16 of its layout: "62 % smaller than fp16, PESQ 0.01
    lower"; "" where there is none.
    """
    base = find_uncompressed(level, levels)
    if base is None or base is level:
        return "uncompressed" if base else ""
    saved = 1 - level["bytes"] / base["bytes"]
    lost = base["summary"]["pesq"]["mean"] - level["summary"]["pesq"]["mean"]
    heard = (
        "PESQ the same"
        if abs(lost) < LEAST_PESQ
        else f"PESQ {abs(lost):.2f} {'lower' if lost > 0 else 'higher'}"
    )
    size = f"{100 * abs(saved):.0f} % {'smaller' if saved > 0 else 'larger'}"
    return f"{size} than {base['method']}, {heard}"


def _format_megabytes(level: LevelRecord) -> str:
    return f"{level['bytes'] / 1e6:.2f} MB"


def summarize_natural_spread(levels: Sequence[LevelRecord]) -> dict[str, float | None]:
    """The reference's own spread by another noise seed, over the clips of the level that was judged
    on most: by metric the mean, and under "NAME_worst" the worst.
    """
    clips = max((level["clips"] for level in levels if not level["failed"]), key=len)
    figures = [clip["variation"] for clip in clips]
    names = [name for name in figures[0] if name in METRICS]
    return {name: compute_statistic(name, MEAN, figures) for name in names} | {
        f"{name}_worst": compute_statistic(name, WORST, figures) for name in names
    }


def build_decision_record(
    levels: Sequence[LevelRecord], choice: Choice, context: JudgeContext, chip: str
) -> dict[str, Any]:
    """Return the decision, then levels, the model's own spread and provenance. `chip`: of the
    report's Neural Engine column.
    """
    return asdict(choice) | {
        "format": FORMAT,
        "may_be_released": choice.may_be_released,
        "claim": context.options.claim,
        "chip": chip,
        "levels": list(levels),
        "spread": {OTHER_SEED: summarize_natural_spread(levels)},
        "provenance": collect_decision_provenance(context),
    }


def build_product_record(
    products: Sequence[LevelRecord], choice: Choice, context: JudgeContext, chip: str
) -> dict[str, Any]:
    """What BUILD/release/product.json holds: the decision first, then every product with its
    parts.
    """
    return asdict(choice) | {
        "format": PRODUCT_FORMAT,
        "product": choice.level,
        "chip": chip,
        "products": [one | {"product": one["method"]} for one in products],
        "provenance": collect_decision_provenance(context),
    }


def collect_decision_provenance(context: JudgeContext) -> dict[str, Any]:
    """Return hashes, commit, versions, clips and seeds: everything to decide again by."""
    return collect_provenance(context) | {
        "checkpoint": context.checkpoint.name,
        "date": datetime.now(UTC).date().isoformat(),
        "seed_variation_seed": context.reference.seed + 1,
        "bootstrap": {"seed": BOOTSTRAP_SEED, "resamples": RESAMPLES, "confidence": CONFIDENCE},
        "clips": [clip.id for clip in context.clips],
        "fewest_voices": FEWEST_VOICES,
    }
