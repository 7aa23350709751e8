"""Execute a vocoder package and compare it with PyTorch at several bucket fills, before it gets its name.

figures = check_package(path, vocoder, inputs, buckets, precision="fp16")
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import CheckFailed
from core.figures import Figure, snr_db
from mlprogram import Program
from vocoder.decoder import Vocoder
from vocoder.facts import ProgramFacts
from vocoder.package import render_reference, run_program
from vocoder.packing import VocoderInputs

LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 100.0}  # random weights reach 51 and 122: a package below these is broken, not imprecise
LIMIT_FLAT_DB = 1.0  # SNR may not hang on how full the bucket is
CHECK_FRAMES = 40  # one second: long enough for every receptive field, short enough for the full-size model on two cores
CHECK_ROW_FRAMES = 140  # the engine variant: its shapes need whole windows, and this length fills four of the default ones
MAX_CHECK_FRAMES = 480


def check_buckets_of(frames: int, buckets: tuple[int, ...]) -> tuple[int, ...]:
    """The tightest bucket for `frames`, one about three times and one about ten times as long, as far as they exist."""
    fitting = [b for b in buckets if frames <= b <= max(MAX_CHECK_FRAMES, buckets[0])]
    return tuple(sorted({min(fitting, key=lambda b: abs(b - frames * factor)) for factor in (1, 3, 10)}))


def check_package(
    path: Path, vocoder: Vocoder, inputs: VocoderInputs, buckets: tuple[int, ...], precision: str, fillable: tuple[int, ...]
) -> tuple[list[Figure], ProgramFacts]:
    """Structure first, then SNR against PyTorch at several fills of the `fillable` buckets. Raises CheckFailed when a limit is missed."""
    program = Program(path, precision="declared")
    facts = ProgramFacts.of(program)
    facts.require(precision, len(buckets))
    reference = render_reference(vocoder, inputs)
    figures, values = [], []
    for bucket in check_buckets_of(inputs.frames, fillable):
        values.append(snr_db(reference, run_program(program, inputs, bucket)))
        name = f"SNR against PyTorch, {inputs.frames} frames in bucket {bucket} ({inputs.frames / bucket:.0%} full)"
        figures.append(Figure(name, values[-1], LIMIT_SNR_DB[precision], at_least=True))
    if precision == "fp16" and len(values) > 1:
        figures.append(Figure("spread of SNR over bucket fills", max(values) - min(values), LIMIT_FLAT_DB, at_least=False))
    broken = [figure for figure in figures if not figure.holds]
    if broken:
        raise CheckFailed(f"{broken[0].name} is {broken[0].value:.1f} dB, limit {broken[0].limit:g} dB; the package was not kept")
    return figures, facts


def figures_for_manifest(figures: list[Figure], facts: ProgramFacts) -> dict[str, Any]:
    """Check figures as plain data."""
    return {"figures": [asdict(figure) for figure in figures], "structure": facts.as_dict()}
