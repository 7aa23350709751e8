"""One compression level for the release table: its package found or built, judged, and described.

    level = judged_level(METHODS["w8"], "streaming", context)
    encoder = judged_encoder("w8g", context)
    level.verdict, level.bytes, level.record["summary"]

Packages are built by the same commands a user types. A level that cannot be built stays in the
table with the reason. Size, operations and the share of int8 are its manifest's, which the build
wrote when it had checked the package; the forecast reads the package.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from kokoro_ane.core.contract import STREAMED
from kokoro_ane.core.errors import CheckFailed, InputError
from kokoro_ane.core.manifest import Manifest, level_name
from kokoro_ane.core.staging import there
from kokoro_ane.eval import ENCODER, PRODUCT, VOCODER
from kokoro_ane.eval.execution import DECLARED, ClipResult, Execution
from kokoro_ane.eval.facts import PackageFacts, facts_of
from kokoro_ane.eval.gates import FEWEST_CLIPS, Gate, gates_for
from kokoro_ane.eval.judge import SHIP, UNDECIDED, Judgement, breaks, decided
from kokoro_ane.eval.provenance import commit, withheld
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.eval.store import clip_name
from kokoro_ane.pipeline.package_builds import build_package
from kokoro_ane.quantize.corpus import Utterance, within
from kokoro_ane.quantize.locator import (
    HALF,
    built,
    built_encoder,
    options_for,
)
from kokoro_ane.quantize.methods import Method
from kokoro_ane.runtimes.genuine import require_genuine
from kokoro_ane.runtimes.registry import PACKAGE

FORMAT = 3
NAMED = 3  # broken gates that a line names
# of the longest bucket: an encoder's level may say a clip in a few frames more
PRODUCT_SHARE = 0.95


def full_record(
    judgement: Judgement,
    manifests: Sequence[Manifest],
    context: JudgeContext,
    size_bytes: int,
    facts: PackageFacts | None = None,
) -> dict[str, Any]:
    """Provenance, decision, summary, what the package is, and every clip's figures. `manifests`: of
    all that was executed, what was judged first.
    """
    reason, first, execution = withheld(context.checkpoint), manifests[0], context.execution
    return {
        "format": FORMAT,
        "stage": execution.stage,
        "method": judgement.method,
        "releasable": reason is None and all(manifest.releasable for manifest in manifests),
        "withheld": reason,
        **judgement.record(),
        "facts": asdict(facts) if facts else None,
        "provenance": {
            "package": first.package,
            "package_sha256": first.package_sha256,
            "packages": {manifest.package: manifest.package_sha256 for manifest in manifests},
            "package_bytes": size_bytes,
            "checkpoint": first.checkpoint,
            "seed": context.reference.seed,
            "precision": execution.precision,
            "features": execution.features,
            "set": context.texts,
            "fewest_clips": FEWEST_CLIPS,
            "variation": context.reference.variations.provenance
            | {"clips": dict(Counter(clip.origin for clip in judgement.clips))},
            "commit": commit(),
            "libraries": context.store.key["libraries"],
        },
    }


def short_record(record: dict[str, Any], out: Path) -> dict[str, Any]:
    """Return one line's worth: verdict, broken gates, summary, where the rest is."""
    names = ("stage", "method", "verdict", "releasable", "broken", "reasons")
    return {name: record[name] for name in names} | {
        "summary": {
            name: {
                column: value if value is None else round(value, 4) for column, value in row.items()
            }
            for name, row in record["summary"].items()
        },
        "clips": len(record["clips"]),
        "package_sha256": record["provenance"]["package_sha256"],
        "file": str(out),
    }


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
    def problem(self) -> str:
        """Why it does not ship: there is no package, the first broken gates and how many more there
        are, or what is open; "" for a level that ships.
        """
        if self.failed or self.verdict == SHIP:
            return self.failed or ""
        broken = self.record["broken"]
        if not broken:
            return str(self.record["reasons"][0])
        more = f" and {len(broken) - NAMED} more gates" if len(broken) > NAMED else ""
        return ", ".join(broken[:NAMED]) + more

    @property
    def bytes(self) -> int:
        """The size on disk."""
        return self.facts.bytes if self.facts else 0


def judged_levels(context: JudgeContext, names: Sequence[tuple[Method, str]]) -> list[JudgedLevel]:
    """Judge every level of a method and a layout; a line on stderr tells when each is done."""
    levels: list[JudgedLevel] = []
    for method, layout in names:
        start = time.monotonic()
        levels.append(judged_level(method, layout, context))
        outcome = levels[-1].failed or levels[-1].verdict
        took = timedelta(seconds=round(time.monotonic() - start))
        count = f"{len(levels)} of {len(names)} levels"
        print(f"{levels[-1].method}: {outcome} ({took}; {count})", file=sys.stderr)
    return levels


def judged_level(method: Method, layout: str, context: JudgeContext) -> JudgedLevel:
    """Find or build the package, judge its clips (those measured before are read), read its facts.

    A package of another checkpoint, or one that differs from its manifest, is an InputError: it is
    never built over.
    """
    request, failed = context.request(method.name, layout), ""
    if not there(request.vocoder):
        failed = f"not built; `{options_for(method, layout).command}` builds it"
    if failed and context.may_build:
        try:
            built(request, build_package)
            failed = ""
        except (InputError, CheckFailed) as problem:
            failed = f"not built: {problem}"
    if failed:
        return JudgedLevel(request.level, method.title, method.unfit_for_engine, failed)
    return judged_package(method, request.verified(), context)


def judged_package(method: Method, manifest: Manifest, context: JudgeContext) -> JudgedLevel:
    """Judge a vocoder's package that is there. InputError for one that is not what its name says
    (runtimes/genuine.py).
    """
    require_genuine(manifest, level_name(method.name, manifest.layout))
    facts, wrong = cached_facts(manifest, context), wrong_channels(method, manifest, context)
    return replace(
        _judged(method.name, [manifest], context, wrong, facts),
        method=manifest.level,
        title=method.title,
        unfit=method.unfit_for_engine,
    )


def judged_encoder(name: str, context: JudgeContext) -> JudgedLevel:
    """Find or build an encoder's level, and judge it. Raises what built_encoder raises."""
    request = replace(context.request(HALF), encoder=name)
    paths = built_encoder(request, build_package if context.may_build else None)
    manifests = [Manifest.load(path) for path in paths]
    for manifest in manifests:
        manifest.verify()
    execution = Execution.of(DECLARED, paths, ENCODER)
    return _judged(name, manifests, replace(context, execution=execution))


def judged_file(name: str, stage: str, context: JudgeContext) -> JudgedLevel:
    """Judge a level before it is converted, in PyTorch. Raises what LevelFile.of raises."""
    # late, as below: what no package of a vocoder needs to be judged
    from kokoro_ane.eval.channel_gains import wrong_scales
    from kokoro_ane.quantize.compress import LevelFile

    file = LevelFile.of(name, context.checkpoint, context.build, stage)
    pairs = file.level.pairs(file.plain) if stage == VOCODER else ()
    context = replace(context, execution=replace(context.execution, stage=stage, level=name))
    return _judged(name, [file.manifest], context, wrong_scales(pairs))


def _judged(
    name: str,
    manifests: Sequence[Manifest],
    context: JudgeContext,
    wrong: Sequence[str] = (),
    facts: PackageFacts | None = None,
) -> JudgedLevel:
    """`manifests`: of all that is executed, what is judged first."""
    first, stage = manifests[0], context.execution.stage
    gates = gates_for(name, first.layout, stage)
    results, stopped = measured_clips(first.level, first, context, gates, wrong)
    judgement = decided(name, results, context.claim, wrong, gates, stopped)
    size_bytes = sum(manifest.package_bytes for manifest in manifests)
    record = full_record(judgement, manifests, context, size_bytes, facts)
    return JudgedLevel(name, f"{stage} {name}", None, None, first, facts, record, judgement)


def cached_facts(manifest: Manifest, context: JudgeContext) -> PackageFacts:
    """Read the facts of a package once: the forecast takes seconds."""
    name = f"facts-{manifest.package_sha256[:16]}"
    return PackageFacts(**context.store.figures(name, lambda: asdict(facts_of(manifest))))


def wrong_channels(method: Method, manifest: Manifest, context: JudgeContext) -> list[str]:
    """Layers of a compressed package whose channels have another scale than what they were made
    from (eval/channel_gains.py). A padded package is read itself, beside its parent, and InputError
    says where that is not in the build folder. The streaming layout's layers are multiplied as
    their parent's are not, so its integers are read in the level's file, which the conversion holds
    them equal to and which is made again where it is missing. Nothing is read of files that are no
    packages.
    """
    if method.parent is None or manifest.package_path.suffix != PACKAGE:
        return []
    from kokoro_ane.eval.channel_gains import package_pairs, wrong_scales

    # read where the answer is not stored
    name = f"channels-{manifest.package_sha256[:16]}"
    if manifest.layout in STREAMED:
        from kokoro_ane.quantize.compress import LevelFile

        def wrong() -> dict[str, Sequence[str]]:
            file = LevelFile.of(method.name, context.checkpoint, context.build, VOCODER)
            return {"wrong": wrong_scales(file.level.pairs(file.plain))}

        return context.store.figures(name, wrong)["wrong"]
    parent = context.request(method.parent, manifest.layout).verified()
    pairs = package_pairs(parent.package_path, manifest.package_path)
    figures = context.store.figures(
        f"{name}-{parent.package_sha256[:16]}",
        lambda: {"wrong": wrong_scales(pairs, method.balances)},
    )
    return figures["wrong"]


def in_order(clips: Sequence[Utterance]) -> list[Utterance]:
    """The order in which clips are measured: two of middle length, which tell soon whether a gate
    breaks, then by falling length, so that no worker waits long for the last one.
    """
    falling = sorted(clips, key=lambda clip: (-clip.frames, clip.id))
    middle = len(falling) // 2
    return falling[middle : middle + 2] + falling[:middle] + falling[middle + 2 :]


def fitting(clips: Sequence[Utterance], stage: str, frames: int) -> list[Utterance]:
    """The clips as packages of so many frames take them."""
    if stage == ENCODER:
        return list(clips)
    # what a package does not take, an app cuts: of such a clip its first words are judged
    longest = frames * (PRODUCT_SHARE if stage == PRODUCT else 1)
    return [within(clip, longest) for clip in clips]


def measured_clips(
    name: str,
    manifest: Manifest,
    context: JudgeContext,
    gates: Sequence[Gate],
    defects: Sequence[str] = (),
) -> tuple[list[ClipResult], str]:
    """Figures of the clips, measured at most once, in the clips' order, and "" or why there are not
    all of them: the first clip, in the order of measuring, that breaks a gate by itself ends it,
    and so does the first one of a package with `defects`. `manifest`: the vocoder's, or the
    encoder's where that is judged; `name`: for the progress display.
    """
    # Whatever was measured before is read; what is measured now is kept clip by clip, so that an
    # interrupted run loses one clip at most.
    store, execution = context.store, context.execution
    clips = in_order(fitting(context.clips, execution.stage, manifest.buckets[-1]))
    names = {clip.id: clip_name(manifest.package_sha256, execution, clip) for clip in clips}
    results = {
        clip_id: ClipResult(**figures)
        for clip_id, clip_file in names.items()
        if (figures := store.find(clip_file)) is not None
    }

    def decisive() -> int | None:
        """How many clips decide; None where all that are measured up to the first gap do not."""
        for count, clip in enumerate(clips, 1):
            if clip.id not in results:
                return None
            if defects or breaks(gates, results[clip.id]):
                return count
        return None

    unmeasured = [clip for clip in clips if clip.id not in results]
    context.progress.begin(name, len(results), unmeasured, context.workers.count)
    count = None if context.all_clips else decisive()
    if count is None:
        measured = context.workers.measure(manifest.path, execution, unmeasured)
        for clip, (result, seconds) in measured:
            results[clip.id] = ClipResult(**store.keep(names[clip.id], asdict(result)))
            context.progress.measured(clip, seconds)
            if not context.all_clips and (count := decisive()):
                measured.close()
                break
    count = count or len(clips)
    stopped = f"decided after {count} of {len(clips)} clips: --all-clips measures the others"
    return (
        [results[clip.id] for clip in sorted(clips[:count], key=lambda clip: clip.id)],
        stopped if count < len(clips) else "",
    )
