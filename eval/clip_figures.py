"""The figures of a level's clips, each measured at most once: whatever was measured before is read
from the store, and what is measured now is written clip by clip.

    results, stopped = measure_clips("w8", manifest, context, gates)

An interrupted run loses one clip at most, and a level that breaks a gate by one clip is not
measured further.
"""

from collections.abc import Sequence
from dataclasses import asdict

from kokoro_ane.core import STREAMED, Manifest
from kokoro_ane.eval.execution import ClipResult
from kokoro_ane.eval.gates import Gate
from kokoro_ane.eval.judge import is_rejected
from kokoro_ane.eval.renditions import fit_clip
from kokoro_ane.eval.session import JudgeContext
from kokoro_ane.eval.store import clip_name
from kokoro_ane.speech import Clip, Utterance


def order_clips(clips: Sequence[Clip]) -> list[Clip]:
    """The order in which clips are measured: two of middle length, which tell soon whether a gate
    breaks, then by falling length, so that no worker waits long for the last one.
    """
    falling = sorted(clips, key=lambda clip: (-clip.frames, clip.id))
    middle = len(falling) // 2
    return falling[middle : middle + 2] + falling[:middle] + falling[middle + 2 :]


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
    longest = manifest.buckets[-1]
    clips = order_clips(
        [
            fit_clip(clip, execution.stage, longest, context.reference)
            if isinstance(clip, Utterance)
            else clip
            for clip in context.clips
        ]
    )
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
        measured = context.workers.measure(manifest.path, execution, unmeasured, longest)
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
