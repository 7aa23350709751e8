"""The streaming layout in PyTorch, judged by every gate as a level is, against the fp32 model that
measures its own statistics.

    OMP_NUM_THREADS=1 python -m bench.streaming --checkpoint kokoro-int8 \\
        [--set judged|second|tuning] [--clips 6] [--only pesq,mcd_db]
    # runs, operations, arithmetic and bytes moved of built packages of any layout
    python -m bench.streaming --count PACKAGE PACKAGE ... [--seconds 3,10,30]

`--set tuning` is for choosing a predictor (its clips need no --only: words and speakers are left
out there). Exit 0: SHIP; 1: REJECT; 3: UNDECIDED. The last line of stdout is one JSON object.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import checkpoint_argument, print_table
from kokoro_ane.core.contract import FRAMES_PER_SECOND, JUDGED, SECOND, TUNING, VOCODER_NAME
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, EXIT_UNDECIDED, Parser, command
from kokoro_ane.vocoder.streaming.windows import MEASURED

if TYPE_CHECKING:
    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.quantize.corpus import Utterance
    from kokoro_ane.runtimes.torch_streaming import StreamingBackend

# every gate but the 45 dB of SNR, which only an uncompressed level of the same arithmetic can keep
JUDGED_AS = "w8"
QUICK = ("pesq", "mcd_db", "mcd_increase_db", "lsd_db", "snr_db")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.streaming", __doc__)
    checkpoint_argument(parser)
    parser.add_argument(
        "--set",
        choices=(JUDGED, SECOND, TUNING),
        default=JUDGED,
        help="which clips (default: %(default)s)",
    )
    parser.add_argument("--clips", type=int, help="the first so many (default: all)")
    parser.add_argument(
        "--only", help="these metrics, with commas (default: all; of the tuning set a quick few)"
    )
    parser.add_argument(
        "--renders",
        type=Path,
        help="folder that keeps the fp32 renders (default: they are made anew)",
    )
    parser.add_argument(
        "--measured",
        type=int,
        default=MEASURED,
        help="frames up to which statistics are measured (default: %(default)s)",
    )
    parser.add_argument(
        "--count",
        type=Path,
        nargs="+",
        metavar="PACKAGE",
        help="count operations, multiply-accumulates and bytes of packages instead",
    )
    parser.add_argument(
        "--seconds",
        default="3,10,30",
        help="length of the utterance that is counted (default: %(default)s)",
    )
    arguments = parser.parse_args(argv)
    if arguments.count:
        return count(arguments.count, [float(part) for part in arguments.seconds.split(",")])

    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.quantize.speech import own_speech
    from kokoro_ane.runtimes.torch_streaming import StreamingBackend
    from kokoro_ane.vocoder.decoder import Vocoder
    from kokoro_ane.vocoder.streaming.norm_statistics import predictor_of

    checkpoint = open_checkpoint(arguments.checkpoint)
    predictor = predictor_of(checkpoint)
    backend = StreamingBackend(
        Vocoder.of(checkpoint), predictor, checkpoint.config.hidden_dim, arguments.measured
    )
    clips = own_speech(checkpoint, arguments.set)[: arguments.clips]
    only = (
        tuple(arguments.only.split(","))
        if arguments.only
        else QUICK
        if arguments.set == TUNING
        else ()
    )
    return judged(backend, checkpoint, clips, only, arguments.renders, predictor.fitted)


def judged(
    backend: "StreamingBackend",
    checkpoint: "Checkpoint",
    clips: "Sequence[Utterance]",
    only: Sequence[str],
    renders: Path | None,
    fitted: Any,
) -> int:
    """Every gate over the clips; a table of the tightest, and of each metric's mean and worst
    beside other seeds'.
    """
    from kokoro_ane.eval.judge import check_record, decided, judge_clip
    from kokoro_ane.eval.reference import Reference
    from kokoro_ane.eval.renditions import VocoderComparison, VocoderSubject
    from kokoro_ane.eval.verdict import MISSING, statistic

    reference, results = Reference(checkpoint, 0, renders), []
    comparison, subject = VocoderComparison(reference), VocoderSubject(reference, backend)
    for clip in clips:
        results.append(judge_clip(comparison, subject, clip, only=only))
        shown = {
            name: round(results[-1].figures[name], 3)
            for name in QUICK
            if name in results[-1].figures
        }
        print(clip.id, clip.voice, f"{clip.frames} frames", shown, flush=True)
    decision = decided(JUDGED_AS, results).decision
    sound = [clip for clip in results if clip.defect is None]
    figures, seeds = [clip.figures for clip in sound], [clip.variation for clip in sound]
    rows = [
        (
            name,
            *(
                f"{value:.4g}"
                for value in (
                    statistic(name, kind, part)
                    for kind in ("mean", "worst")
                    for part in (figures, seeds)
                )
            ),
        )
        for name in figures[0]
        if statistic(name, "mean", figures) is not None
        and statistic(name, "mean", seeds) is not None
    ]
    print_table(
        f"{decision.verdict}: streaming, PyTorch, {checkpoint.name}, {len(clips)} clips",
        ("metric", "mean", "seeds", "worst", "seeds"),
        rows,
    )
    for reason in decision.reasons:
        print(reason)
    checks = [check_record(check) for check in decision.checks if check.state != MISSING]
    print(
        json.dumps(
            {
                "verdict": decision.verdict,
                "clips": len(clips),
                "fitted": fitted,
                "checks": checks,
                "reasons": decision.reasons,
            }
        )
    )
    return {"SHIP": EXIT_GOOD, "REJECT": EXIT_REJECTED}.get(decision.verdict, EXIT_UNDECIDED)


def count(packages: Sequence[Path], seconds: Sequence[float]) -> int:
    """What an utterance takes of each package: runs of its functions, operations of the largest
    one, multiply-accumulates and bytes moved for a second of audio.
    """
    from kokoro_ane.core.checks import open_functions
    from kokoro_ane.eval.levels import runs_of

    rows = []
    for package in packages:
        programs = {program.function.name: program for program in open_functions(package)}
        for length in seconds:
            runs, frames = runs_of(programs, round(length * FRAMES_PER_SECOND))
            audio_s = frames / FRAMES_PER_SECOND
            macs = sum(times * sum(op.macs for op in profile.ops) for profile, times in runs)
            moved = sum(
                times * sum(op.bytes_moved for op in profile.ops) for profile, times in runs
            )
            rows.append(
                {
                    "package": package.stem.removeprefix(f"{VOCODER_NAME}-"),
                    "audio_s": audio_s,
                    "runs": sum(times for _, times in runs),
                    "operations": max(len(profile.ops) for profile, _ in runs),
                    "gmac_per_s": macs / audio_s / 1e9,
                    "mb_per_s": moved / audio_s / 1e6,
                }
            )
    print_table(
        "operations are those of the largest function",
        ("package", "s", "runs", "operations", "GMAC/s", "MB/s"),
        [
            (
                row["package"],
                f"{row['audio_s']:g}",
                str(row["runs"]),
                str(row["operations"]),
                f"{row['gmac_per_s']:.1f}",
                f"{row['mb_per_s']:.0f}",
            )
            for row in rows
        ],
    )
    print(json.dumps({"rows": rows}))
    return EXIT_GOOD


if __name__ == "__main__":
    raise SystemExit(main())
