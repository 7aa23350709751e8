"""The residency and latency forecast of this project's vocoder at 1, 3, 7, 15 and 30 s on every chip.

    python -m bench.forecast [--package build/KokoroVocoder-demo-fp16.mlpackage]
    python -m bench.forecast --variant engine [--chips m1,m2]

Without --package the full-size vocoder is built with random weights, the literal one or the engine variant.
A Markdown table, then one JSON object; exit 2 for bad input.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.markdown import print_markdown
from pipeline.contract import FRAMES_PER_SECOND
from pipeline.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    from vocoder.engine.options import EngineOptions

SECONDS = (1, 3, 7, 15, 30)


def build_vocoder(config: dict[str, Any], frames: tuple[int, ...], folder: Path, options: "EngineOptions | None" = None) -> Path:
    """This project's vocoder with random weights and one enumerated shape for each length, raised to whole rows in the engine variant."""
    from bench.random_checkpoint import random_vocoder
    from pipeline.config import KokoroConfig
    from pipeline.export import save_package
    from vocoder.engine.geometry import raised
    from vocoder.export import export_model

    if options is not None:
        frames = tuple(raised(count) for count in frames)
    parsed = KokoroConfig.from_dict(config, "bench.forecast")
    model = export_model(random_vocoder(parsed, seed=0), frames, "fp16", "iOS17", parsed.hidden_dim, parsed.style_dim, options)
    save_package(model, folder / "Vocoder.mlpackage")
    return folder / "Vocoder.mlpackage"


def vocoder(package: Path | None, options: "EngineOptions | None" = None) -> int:
    """The forecast table of the vocoder: all chips and lengths."""
    from bench.random_checkpoint import kokoro_config
    from mlprogram.examine.ane import report
    from mlprogram.examine.forecast import forecast_residency
    from mlprogram.examine.latency import latency_bands
    from mlprogram.examine.profile import open_program, profile_program
    from mlprogram.examine.rules import load_rules

    rules = load_rules()
    with tempfile.TemporaryDirectory() as folder:
        frames = tuple(s * FRAMES_PER_SECOND for s in SECONDS)
        program = open_program(package or build_vocoder(kokoro_config(), frames, Path(folder), options))
        profiles = [profile_program(program, shapes) for shapes in program.all_shapes()]
    rows = [
        (forecast, latency_bands(forecast, rules.chips[chip]), None)
        for chip in rules.chips
        for forecast in (forecast_residency(profile, rules, chip) for profile in profiles)
    ]
    print_markdown(
        ("chip", "s", "% ops", "% MACs", "% bytes", "segments", "crossings", "optimistic ms", "pessimistic ms", "or all off, ms"),
        [_vocoder_row(forecast, bands) for forecast, bands, _ in rows],
    )
    print(json.dumps(report(program, rows, rules, per_op=False)))
    return EXIT_GOOD


def held_seconds(features: tuple[int, ...]) -> float:
    """Seconds of audio that a shape of the features holds: one row in the literal vocoder, several in the engine variant."""
    from vocoder.engine.geometry import bucket_of

    return (features[-1] - 1 if features[2] == 1 else bucket_of(features)) / FRAMES_PER_SECOND


def _vocoder_row(forecast: Any, bands: Any) -> tuple[str, ...]:
    from mlprogram.examine.ane import latency_cells
    from mlprogram.examine.forecast import MEASURES
    from mlprogram.examine.report import percent

    both = (forecast.optimistic, forecast.pessimistic)
    seconds = held_seconds(forecast.profile.inputs[0].shape)
    return (
        forecast.chip,
        f"{seconds:g}",
        *(" / ".join(percent(r.share(m)) for r in both) for m in MEASURES),
        " / ".join(str(r.cut.engine_segments) for r in both),
        " / ".join(str(r.cut.crossings) for r in both),
        *latency_cells(forecast, bands),
    )


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.forecast", description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=Path, help="an existing package instead of a random-weight build")
    parser.add_argument("--variant", choices=("literal", "engine"), default="literal", help="which form is built")
    parser.add_argument("--chips", type=lambda text: tuple(text.split(",")), help="engine: chips it must suit; default all")
    arguments = parser.parse_args(argv)
    from mlprogram.errors import ProgramError
    from vocoder.engine.options import EngineOptions

    options = EngineOptions.chosen(arguments.variant, arguments.chips)
    try:
        return vocoder(arguments.package, options)
    except ProgramError as problem:
        raise InputError(str(problem)) from problem


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
