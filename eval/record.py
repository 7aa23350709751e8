"""A judgement as plain data: everything for the file, the essence for the last line of stdout.

record = full_record(judgement, manifest, facts, context)
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.manifest import Manifest
from eval.context import JudgeContext
from eval.gates import FEWEST_CLIPS
from eval.judge import Judgement, check_record
from eval.package_facts import PackageFacts
from eval.provenance import commit

FORMAT = 2


def full_record(judgement: Judgement, manifest: Manifest, facts: PackageFacts, context: JudgeContext) -> dict[str, Any]:
    """Provenance, decision, summary, what the package is, and every clip's figures."""
    return {
        "format": FORMAT,
        "method": judgement.method,
        "verdict": judgement.decision.verdict,
        "releasable": context.checkpoint.releasable and manifest.releasable,
        "reasons": list(judgement.decision.reasons),
        "broken": list(judgement.decision.broken),
        "checks": [check_record(check) for check in judgement.decision.checks],
        "summary": judgement.summary(),
        "facts": facts.as_dict(),
        "clips": [asdict(clip) for clip in judgement.clips],
        "provenance": {
            "package": manifest.package,
            "package_sha256": manifest.package_sha256,
            "package_bytes": facts.bytes,
            "checkpoint": manifest.checkpoint,
            "seed": context.truth.seed,
            "precision": context.execution.precision,
            "features": context.execution.features,
            "set": context.texts,
            "fewest_clips": FEWEST_CLIPS,
            "commit": commit(),
            "limits": context.store.limits_history(),
            "libraries": context.store.key["libraries"],
        },
    }


def short_record(record: dict[str, Any], out: Path) -> dict[str, Any]:
    """One line's worth: verdict, broken gates, summary, where the rest is."""
    kept = {key: record[key] for key in ("method", "verdict", "releasable", "broken", "reasons", "summary")}
    kept["summary"] = {name: {k: v if v is None else round(v, 4) for k, v in row.items()} for name, row in kept["summary"].items()}
    return kept | {"clips": len(record["clips"]), "package_sha256": record["provenance"]["package_sha256"], "file": str(out)}
