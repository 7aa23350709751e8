"""Count runs, operations, arithmetic and bytes moved of built vocoder packages of any layout.

    python -m bench.streaming PACKAGE PACKAGE ... [--seconds 3,10,30]

A pipe's last line is one JSON object.
"""

from pathlib import Path

from bench.figures import print_figures
from kokoro_ane.core import EXIT_GOOD, FRAMES_PER_SECOND, VOCODER_NAME, Parser, command, conclude


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.streaming", __doc__)
    parser.add_argument("packages", type=Path, nargs="+", metavar="PACKAGE")
    parser.add_argument(
        "--seconds", default="3,10,30", help="lengths of utterances (default: %(default)s)"
    )
    arguments = parser.parse_args(argv)
    from kokoro_ane.core import open_functions
    from kokoro_ane.eval import count_frames, list_runs

    rows = []
    for package in arguments.packages:
        programs = {program.function.name: program for program in open_functions(package)}
        for seconds in arguments.seconds.split(","):
            runs = list_runs(programs, round(float(seconds) * FRAMES_PER_SECOND))
            # the length that the first function runs at: the nearest that the package has
            shapes = {tensor.name: tensor.shape for tensor in runs[0][0].inputs}
            audio_s = count_frames(shapes) / FRAMES_PER_SECOND
            # A function counts as often as the utterance runs it.
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
    print_figures("operations are those of the largest function", rows)
    return conclude(arguments, {"rows": rows}, EXIT_GOOD, "counted")


if __name__ == "__main__":
    raise SystemExit(main())
