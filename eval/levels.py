"""One compression level for the release table: its package found or built, judged, and described.

    level = judged_level(METHODS["w8"], "windowed", context)
    level.verdict, level.bytes, level.record["summary"]

Packages are built by the same commands a user types. A level that cannot be built stays in the table with the reason. Size, shares and
forecasts are read off the package (eval/package_facts.py); a manifest that says otherwise is an InputError.
"""

from dataclasses import dataclass, field
from typing import Any

from core.errors import CheckFailed, InputError
from core.manifest import Manifest, level_name
from eval.context import JudgeContext
from eval.file_facts import facts_of
from eval.judge import ClipResult, Judgement, decided
from eval.package_facts import PackageFacts
from eval.packages import built_package, missing
from eval.record import full_record
from eval.verdict import UNDECIDED
from quantize.methods import Method
from quantize.packages import find_package

FORECAST_FRAMES = 80  # two seconds: the shape the latency bands are given for, where the package has it


@dataclass(frozen=True)
class JudgedLevel:
    """A row of the release table. `failed`: why there is no package; then nothing else is known."""

    method: str
    title: str
    unfit: str | None = None
    failed: str | None = None
    manifest: Manifest | None = None
    facts: PackageFacts | None = None
    record: dict[str, Any] = field(default_factory=dict)
    judgement: Judgement | None = None

    @property
    def verdict(self) -> str:
        """SHIP, REJECT or UNDECIDED; a level without a package is undecided."""
        return self.record.get("verdict", UNDECIDED)

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return self.facts.bytes if self.facts else 0

    @property
    def forecast(self) -> dict[str, dict[str, float]]:
        """By chip: eval.forecast.forecast_of."""
        return self.facts.forecast if self.facts else {}


def judged_level(method: Method, form: str, context: JudgeContext) -> JudgedLevel:
    """Find or build the package, judge its clips (those measured before are read), read its facts.

    A package of another checkpoint, or one that differs from its manifest, is an InputError: it is never built over.
    """
    failed = _failure(method, form, context)
    if failed:
        name = level_name(method.name, form)
        context.progress.step(name, len(context.clips), found=True)
        return JudgedLevel(name, method.title, method.unfit_for_engine, failed=failed)
    return judged_package(method, find_package(context.build, context.checkpoint, method, form), context)


def judged_package(method: Method, manifest: Manifest, context: JudgeContext) -> JudgedLevel:
    """Judge a package that is there."""
    name = f"facts-{manifest.package_sha256[:16]}"
    kept = context.store.figures(name, lambda: facts_of(manifest.package_path, FORECAST_FRAMES).as_dict())
    facts = PackageFacts.of(kept, f"{context.store.folder}: facts of {manifest.package}")
    facts.require_told(manifest)
    judgement = decided(method.name, measured_clips(manifest, context), context.claim)
    record = full_record(judgement, manifest, facts, context)
    return JudgedLevel(manifest.level, method.title, method.unfit_for_engine, None, manifest, facts, record, judgement)


def measured_clips(manifest: Manifest, context: JudgeContext) -> list[ClipResult]:
    """Figures of every clip, measured at most once, in the clips' order."""
    store, sha256 = context.store, manifest.package_sha256
    found = {clip.id: result for clip in context.clips if (result := store.clip_result(sha256, context.execution, clip)) is not None}
    context.progress.step(manifest.level, len(found), found=True)
    open_ends = [clip for clip in context.clips if clip.id not in found]
    floors = {clip.id: kept for clip in open_ends if (kept := store.seed_floor(clip)) is not None}
    for clip, result in context.workers.measure(manifest.path, context.execution, open_ends, floors):
        found[clip.id] = store.keep_clip(sha256, context.execution, clip, result)
        if clip.id not in floors:
            store.keep_seed_floor(clip, result.seed_floor)
        context.progress.step(manifest.level)
    return [found[clip.id] for clip in context.clips]


def _failure(method: Method, form: str, context: JudgeContext) -> str | None:
    """Why there is no package, or None."""
    told = missing(method, form, context.checkpoint, context.build)
    if told is None or not context.may_build:
        return told
    try:
        built_package(method, form, context.checkpoint, context.source, context.build)
    except (InputError, CheckFailed) as problem:
        return f"not built: {problem}"
    return None
