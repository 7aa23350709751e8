"""The figures of a level's clips, each measured at most once: whatever was measured before is read
from the store, and what is measured now is written clip by clip.

    results, stopped = measure_clips("w8", manifest, context, gates)

An interrupted run loses one clip at most, and a level that breaks a gate by one clip is not
measured further.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace

from kokoro_ane.core import STREAMED, Manifest
from kokoro_ane.eval.execution import ClipResult
from kokoro_ane.eval.gates import Gate
from kokoro_ane.eval.judge import LONG_S, Judgement, is_rejected
from kokoro_ane.eval.natural import EVERY, is_of_every_seed
from kokoro_ane.eval.renditions import fit_clip
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.eval.store import clip_name
from kokoro_ane.eval.subjects import VOCODER
from kokoro_ane.speech import Clip, Utterance


def order_clips(clips: Sequence[Clip]) -> list[Clip]:
    """The order in which clips are measured: two of middle length, which tell soon whether a gate
    breaks, then by falling length, so that no worker waits long for the last one.
    """
    falling = sorted(clips, key=lambda clip: (-clip.frames, clip.id))
    middle = len(falling) // 2
    return falling[middle : middle + 2] + falling[:middle] + falling[middle + 2 :]


def fit_clips(manifest: Manifest, context: JudgeContext) -> list[Clip]:
    """The clips as the package takes them; lines of a corpus are cut when they are spoken."""
    return [
        fit_clip(clip, context.execution.stage, manifest.buckets[-1], context.reference)
        if isinstance(clip, Utterance)
        else clip
        for clip in context.clips
    ]


def measure_clips(
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
    store = context.store
    execution = context.execution
    clips = order_clips(fit_clips(manifest, context))
    names = {clip.id: clip_name(manifest.package_sha256, execution, clip) for clip in clips}
    results = {
        clip_id: ClipResult(**figures)
        for clip_id, clip_file in names.items()
        if (figures := store.find(clip_file)) is not None
    }

    def count_decisive() -> int | None:
        """How many clips decide; None where all that are measured up to the first gap do not."""
        for count, clip in enumerate(clips, 1):
            if clip.id not in results:
                return None
            if defects or is_rejected(gates, results[clip.id]):
                return count
        return None

    unmeasured = [clip for clip in clips if clip.id not in results]
    context.progress.start_level(name, len(results), unmeasured, context.workers.count)
    count = None if context.options.all_clips else count_decisive()
    if count is None:
        if manifest.layout in STREAMED and not execution.level:
            context.workers.settle(unmeasured)
        measured = context.workers.measure(
            manifest.path, execution, unmeasured, manifest.buckets[-1]
        )
        for clip, (result, seconds) in measured:
            results[clip.id] = ClipResult(**store.keep(names[clip.id], asdict(result)))
            context.progress.count_clip(clip, seconds)
            if not context.options.all_clips and (count := count_decisive()):
                measured.close()
                break
    count = count or len(clips)
    stopped = f"decided after {count} of {len(clips)} clips: --all-clips measures the others"
    return (
        [results[clip.id] for clip in sorted(clips[:count], key=lambda clip: clip.id)],
        stopped if count < len(clips) else "",
    )


def ask_every_seed(
    judgement: Judgement, manifest: Manifest, context: JudgeContext
) -> list[ClipResult]:
    """The figures of a vocoder's clips with the natural variation of every other seed in the
    metrics that leave a judgement open, where one of them spoke for all. They are written in place
    of the former.
    """
    clips = {clip.id: clip for clip in fit_clips(manifest, context)}
    results = {result.id: result for result in judgement.clips}
    # A mean of all clips asks all of them, one of the long clips these.
    least_s = LONG_S if all(check.of for check in judgement.by_limit) else 0.0
    tasks = [
        (VOCODER, clips[result.id])
        for result in judgement.clips
        if result.seconds > least_s
        # what was asked before is of some metrics alone
        and not (is_of_every_seed(result.variation) or result.origin == EVERY)
    ]
    if tasks:
        print(f"too near to tell by one other seed: {len(tasks)} clips ask all", file=sys.stderr)
    metrics = sorted({check.gate.metric for check in judgement.by_limit})
    for (_, clip), natural in context.workers.measure_natural(tasks, metrics):
        variation = results[clip.id].variation | natural.figures
        result = replace(results[clip.id], variation=variation, origin=EVERY)
        name = clip_name(manifest.package_sha256, context.execution, clip)
        results[clip.id] = ClipResult(**context.store.keep(name, asdict(result)))
    return list(results.values())
