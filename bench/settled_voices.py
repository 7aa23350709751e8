"""Every voice of a checkpoint in the default layout: how far three sentences longer than 180 frames
lie from the fp32 model, beside another noise seed.

    python -m bench.settled_voices BUILD --checkpoint FOLDER [--method fp16,mixed18] [--voices ...]

BUILD holds the packages, which are executed. Voices that nobody has settled are settled first. A
row is a voice: the mean and the worst MCD increase, the lowest PESQ, and the MCD of another seed. A
pipe's last line is one JSON object.
"""

from pathlib import Path
from typing import Any

from bench.figures import print_figures
from kokoro_ane.core import EXIT_GOOD, Parser, command, conclude

# of the judged set, at a speed of 1: long in every voice, none of them in a set that settles
LINES = (11, 18, 21)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.settled_voices", __doc__)
    parser.add_argument("build", type=Path, metavar="BUILD")
    parser.add_argument("--checkpoint", default=None)
    parser.add_argument("--method", default="fp16", help="levels, with commas")
    parser.add_argument("--voices", nargs="*", default=None)
    arguments = parser.parse_args(argv)
    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.eval import Reference
    from kokoro_ane.quantize import PackageRequest
    from kokoro_ane.vocoder import open_package

    checkpoint = open_checkpoint(arguments.checkpoint)
    reference = Reference(checkpoint, seed=0)
    packages = {}
    for method in arguments.method.split(","):
        request = PackageRequest(checkpoint, arguments.build, method, "streaming")
        packages[method] = open_package(request.load_verified().path)
    rows = []
    for voice in arguments.voices or checkpoint.voices:
        figures = measure_voice(reference, packages, voice)
        rows += figures
        print_figures(voice, figures)
    return conclude(arguments, {"rows": rows}, EXIT_GOOD, "measured")


def measure_voice(reference: Any, packages: dict[str, Any], voice: str) -> list[dict[str, Any]]:
    """Return the figures of one voice, a row for each level."""
    import numpy as np

    from kokoro_ane.core import JUDGED
    from kokoro_ane.eval import Baseline, Trial, measure
    from kokoro_ane.speech import read_speech_lines, speak_line

    found: dict[str, list[dict[str, float]]] = {method: [] for method in (*packages, "seed")}
    frames = []
    for number in LINES:
        # At a normal speed every line is long in every voice.
        line = read_speech_lines(JUDGED)[number]._replace(speed=1.0)
        clip = speak_line(reference.encoder, reference.checkpoint, line, voice, f"{voice}-{number}")
        frames.append(clip.frames)
        inputs = reference.compute_inputs(clip)
        # Both by one network, so that only the noise differs.
        original, seed = (
            reference.render_clock(each) for each in (inputs, reference.with_noise(inputs, 1))
        )
        base = Baseline(original, (seed,), line.text)
        renders = {"seed": seed}
        for method, package in packages.items():
            # What the voice adds to predicted statistics: the subject of this bench.
            settled = reference.with_statistics(inputs, clip, package.predictor)
            renders[method] = package.render(settled).astype(np.float64)
        for method, samples in renders.items():
            trial = Trial(original, samples, (seed,), None, line.text, base)
            names = ("mcd_db", "pesq", "mcd_increase_db", "level_db")
            found[method].append(measure(trial, names if method != "seed" else names[:2]))
    # The seed is a scale, and no row.
    other = float(np.mean([figures["mcd_db"] for figures in found.pop("seed")]))
    return [
        {
            "voice": voice,
            "level": method,
            "mcd_increase_db": float(np.mean([one["mcd_increase_db"] for one in figures])),
            "worst_db": float(np.max([one["mcd_increase_db"] for one in figures])),
            "pesq_least": float(np.min([one["pesq"] for one in figures])),
            # louder or quieter, whichever is farther
            "level_db": float(np.max([abs(one["level_db"]) for one in figures])),
            "seed_mcd_db": other,
            "frames_least": min(frames),
        }
        for method, figures in found.items()
    ]


if __name__ == "__main__":
    raise SystemExit(main())
