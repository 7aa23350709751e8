"""A judgement as plain data: everything for the file, the essence for the last line of stdout.

record = full_record(judgement, manifest, seed=0, precision="declared")
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.manifest import Manifest, tool_versions
from eval.gates import FEWEST_CLIPS
from eval.judge import Judgement, check_record

FORMAT = 1


def full_record(judgement: Judgement, manifest: Manifest, seed: int, precision: str) -> dict[str, Any]:
    """Provenance, decision, summary and every clip's figures."""
    return {
        "format": FORMAT,
        "method": judgement.method,
        "verdict": judgement.decision.verdict,
        "releasable": manifest.releasable,
        "reasons": list(judgement.decision.reasons),
        "broken": list(judgement.decision.broken),
        "checks": [check_record(check) for check in judgement.decision.checks],
        "summary": judgement.summary(),
        "clips": [asdict(clip) for clip in judgement.clips],
        "provenance": {
            "package": manifest.package,
            "package_sha256": manifest.package_sha256,
            "package_bytes": manifest.package_bytes,
            "checkpoint": manifest.checkpoint,
            "seed": seed,
            "precision": precision,
            "fewest_clips": FEWEST_CLIPS,
            "tools": tool_versions(),
        },
    }


def short_record(record: dict[str, Any], out: Path) -> dict[str, Any]:
    """One line's worth: verdict, broken gates, summary, where the rest is."""
    kept = {key: record[key] for key in ("method", "verdict", "releasable", "broken", "reasons", "summary")}
    kept["summary"] = {name: {k: v if v is None else round(v, 4) for k, v in row.items()} for name, row in kept["summary"].items()}
    return kept | {"clips": len(record["clips"]), "package_sha256": record["provenance"]["package_sha256"], "file": str(out)}
