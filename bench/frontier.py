"""W8A8 simulated on whole tuning sentences, one row a change of the recipe: how it was chosen. A figure that decides is a package's.

    python -m bench.frontier --checkpoint kokoro-int8 [--rows w8a8,decoder] [--clips 3]

Ranges come from the first 16 sentences of the tuning set, figures from the longest of the others. All weights are int8; inputs as the row
says.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from core.arguments import checkpoint_argument
from core.errors import EXIT_GOOD, InputError, run_cli
from quantize.methods import METHODS, SCHEMES, Activations

if TYPE_CHECKING:
    import numpy as np

    from core.checkpoint import Checkpoint
    from eval.metrics.trial import Trial
    from quantize.measure import Ready
    from vocoder.decoder import Vocoder
    from vocoder.packing import VocoderInputs

    Renders = list[np.ndarray]

AS_BUILT = METHODS["w8a8"].int8_activations()
DECODER = ("encode.*", "decode.*", "asr_res.*")
FIGURES = MappingProxyType(
    {"mcd_db": "MCD, dB", "mcd_increase_db": "MCD increase, dB", "lsd_db": "LSD, dB", "pesq": "PESQ", "snr_db": "SNR, dB"}
)
LONGEST_FRAMES = 600
CALIBRATED, ALL = AS_BUILT.clips, 24  # tuning sentences
SEEDS = (1000, 2000, 3000)


@dataclass(frozen=True)
class Row:
    """One recipe. `calibration_frames`: how much of each sentence is calibrated on."""

    what: str
    settings: Activations
    calibration_frames: int = 4000


ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "w8a8": Row("as built", AS_BUILT),
        "four-seconds": Row("the same, ranges from the first 4 s of each sentence", AS_BUILT, 160),
        "fixed": Row("the same without following time", replace(AS_BUILT, follow=False)),
        "ups": Row("the same, `generator.ups.0` in float", replace(AS_BUILT, float_inputs=(*AS_BUILT.float_inputs, "generator.ups.0"))),
        "decoder": Row("the same, one scale a tensor in the decoder", replace(AS_BUILT, columns=False)),
        "decoder-even": Row("and exponent 0.5", replace(AS_BUILT, columns=False, exponent=0.5)),
        "shortcuts": Row("as built, shortcuts in float", replace(AS_BUILT, float_inputs=(*AS_BUILT.float_inputs, "*.conv1x1"))),
        "first": Row("the decoder's first layer in int8 too", replace(AS_BUILT, float_inputs=AS_BUILT.float_inputs[1:])),
        "float-decoder": Row("the decoder in float", replace(AS_BUILT, float_inputs=(*AS_BUILT.float_inputs, *DECODER))),
    }
)


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="bench.frontier", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    parser.add_argument("--rows", default=",".join(ROWS), help="with commas (default: %(default)s)")
    parser.add_argument("--clips", type=int, default=3, help="sentences to measure on (default: %(default)s)")
    return parser.parse_args(argv)


def sentences(checkpoint: "Checkpoint", vocoder: "Vocoder", clips: int) -> "tuple[list[VocoderInputs], list[list[VocoderInputs]]]":
    """What ranges come from; and for each measured sentence the judged features and the same with two other seeds."""
    from quantize.activations import calibration_inputs

    seeds = [list(calibration_inputs(checkpoint, vocoder, ALL, first_seed)) for first_seed in SEEDS]
    held = sorted((i for i in range(CALIBRATED, ALL) if seeds[0][i].frames <= LONGEST_FRAMES), key=lambda i: -seeds[0][i].frames)
    return seeds[0][:CALIBRATED], [[drawn[i] for drawn in seeds] for i in held[:clips]]


def figures(trials: "list[Trial]") -> tuple[str, ...]:
    """Means over the trials as a table's cells; PESQ with its worst."""
    from eval.metrics.registry import METRICS

    found = {name: [METRICS[name].function(trial) for trial in trials] for name in FIGURES}
    means = {name: sum(values) / len(values) for name, values in found.items()}
    return tuple(f"{means[name]:.2f}" + (f" / {min(found[name]):.2f}" if name == "pesq" else "") for name in FIGURES)


def multiplied(vocoder: "Vocoder", clip: "VocoderInputs") -> dict[str, int]:
    """Multiply-accumulates of each convolution for a clip, by path."""
    from core.layers import ConvTranspose
    from quantize.equalize import watched

    found: dict[str, int] = {}

    def note(path: str, layer: Any, given: Any) -> None:
        columns = given[0].shape[3] if isinstance(layer, ConvTranspose) else -(-given[0].shape[3] // layer.stride[1])
        found[path] = layer.weight.numel() * columns

    watched(vocoder, [clip], note)
    return found


def ready_for(row: Row, vocoder: "Vocoder", calibration: "list[VocoderInputs]", found: "dict[tuple[Activations, int], Ready]") -> "Ready":
    """What a row's int8 inputs need; minutes, so that rows which differ only in what stays in float share it through `found`."""
    from quantize.features import excerpt
    from quantize.measure import Ready

    key = replace(row.settings, float_inputs=()), row.calibration_frames
    if key not in found:
        sentences = [excerpt(s, 0, min(s.frames, row.calibration_frames)) for s in calibration]
        found[key] = Ready.of(vocoder, sentences, row.settings)
    return found[key]


def simulated_row(row: Row, vocoder: "Vocoder", ready: "Ready", clips: "list[VocoderInputs]") -> "tuple[frozenset[str], Renders]":
    """The convolutions that read int8 under a row's recipe, and the renders [600 F] of the clips."""
    from quantize.learner import TAIL
    from quantize.simulate import simulated
    from vocoder.package import render_reference

    layers = [path for path in ready.ranges if path != TAIL]
    chosen = frozenset(path for path in layers if row.settings.takes(path))
    prepared = ready.vocoder(vocoder, chosen)
    with simulated(prepared, {path: SCHEMES["w8a8" if path in chosen else "w8"] for path in layers}, ready.ranges):
        return chosen, [render_reference(prepared, clip).astype("float64") for clip in clips]


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    names = [name for name in arguments.rows.split(",") if name]
    if not names or not set(names) <= set(ROWS):
        raise InputError(f"--rows {arguments.rows}: rows with commas are needed; there are {', '.join(ROWS)}")
    if not 1 <= arguments.clips < ALL - CALIBRATED:
        raise InputError(f"--clips {arguments.clips}: 1 to {ALL - CALIBRATED - 1}")
    from rich.console import Console
    from rich.progress import track

    from bench.markdown import print_markdown
    from core.checkpoint import open_checkpoint
    from eval.metrics.trial import Trial
    from vocoder.decoder import Vocoder
    from vocoder.package import render_reference

    vocoder = Vocoder.of(checkpoint := open_checkpoint(arguments.checkpoint))
    calibration, held = sentences(checkpoint, vocoder, arguments.clips)
    macs = multiplied(vocoder, held[0][0])
    truth = [[render_reference(vocoder, drawn).astype("float64") for drawn in clip] for clip in held]
    table = [("another seed", "", *figures([Trial(known[0], known[1], known[1:]) for known in truth]))]
    measured: dict[tuple[Activations, int], Ready] = {}
    for name in track(names, "recipes", console=Console(stderr=True)):
        ready = ready_for(ROWS[name], vocoder, calibration, measured)
        chosen, renders = simulated_row(ROWS[name], vocoder, ready, [clip[0] for clip in held])
        share = sum(macs[path] for path in chosen) / sum(macs.values())
        trials = [Trial(known[0], test, known[1:]) for known, test in zip(truth, renders, strict=True)]
        table.append((ROWS[name].what, f"{100 * share:.1f} %", *figures(trials)))
    print_markdown(("recipe", "MACs in int8", *FIGURES.values()), table)
    print(json.dumps({"rows": names, "frames": [clip[0].frames for clip in held]}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
