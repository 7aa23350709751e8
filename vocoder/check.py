"""Execute a vocoder package and compare it with PyTorch at several bucket fills, before it gets its name.

figures = check_package(path, vocoder, inputs, buckets, precision="fp16", fillable=buckets)

Three statements, each about one cause. 1. Against PyTorch the package is precise enough at every fill. 2. Padding changes nothing: the same
program in exact arithmetic gives the same audio at every fill. A mask that is dropped at one stage fails here, and fp16's noise cannot hide
it. 3. fp16 loses no more in a longer bucket: its own noise (the package less the same program in exact arithmetic), frame by frame in dB
against the tightest bucket, in the mean. The ratio of two whole errors would not do: real speech has a few frames that hold most of the
error, so it wanders by 3 dB where this mean wanders by 0.4.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mlprogram import Program
from pipeline.contract import FRAME_SAMPLES
from pipeline.errors import CheckFailed
from pipeline.figures import Figure, snr_db
from vocoder.decoder import Vocoder
from vocoder.facts import ProgramFacts
from vocoder.package import in_rows, render_reference, run_program
from vocoder.packing import VocoderInputs

LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 100.0}  # random weights reach 51 and 122: a package below these is broken, not imprecise
LIMIT_PADDING_DB = 90.0  # real Kokoro 114, random weights 130; one mask dropped below 80
LIMIT_FLAT_DB = 1.5  # of the mean over frames; its standard error is 0.4 dB on the 40 frames below
LIMIT_ROWS_DB = 55.0  # the same in rows, where the weights of the statistics are fp16 numbers too: real Kokoro 64.5, tiny networks 116
EQUAL_DB = 200.0  # stands for infinite, which JSON does not have
NOISE_FLOOR = 1e-10  # power of a frame's error below which it is silence, -100 dB of full scale
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
    """Structure first, then the figures at several fills of the `fillable` buckets. Raises CheckFailed when a limit is missed."""
    program = Program(path, precision="declared")
    facts = ProgramFacts.of(program)
    facts.require(precision, len(buckets))
    filled, exact = check_buckets_of(inputs.frames, fillable), Program(path, precision="exact")
    limit_db = LIMIT_ROWS_DB if in_rows(program, inputs.asr.shape[1]) else LIMIT_PADDING_DB
    figures = fill_figures(program, exact, vocoder, inputs, filled, precision, limit_db)
    broken = [figure for figure in figures if not figure.holds]
    if broken:
        raise CheckFailed(f"{broken[0].name} is {broken[0].value:.1f} dB, limit {broken[0].limit:g} dB; the package was not kept")
    return figures, facts


def fill_figures(
    program: Program,
    exact: Program,
    vocoder: Vocoder,
    inputs: VocoderInputs,
    buckets: tuple[int, ...],
    precision: str,
    padding_limit_db: float = LIMIT_PADDING_DB,
) -> list[Figure]:
    """The three statements of the module on `inputs` in `buckets`, the tightest first. `exact`: the same program in exact arithmetic."""
    reference, figures = render_reference(vocoder, inputs), []
    tight = tight_noise = None
    for bucket in buckets:
        where = f"{inputs.frames} frames in bucket {bucket} ({inputs.frames / bucket:.0%} full)"
        found, plain = run_program(program, inputs, bucket), run_program(exact, inputs, bucket)
        noise = noise_levels_db(found - plain)
        figures.append(Figure(f"SNR against PyTorch, {where}", snr_db(reference, found), LIMIT_SNR_DB[precision], at_least=True))
        if tight is None:
            tight, tight_noise = plain, noise
            continue
        same = min(snr_db(tight, plain), EQUAL_DB)
        figures.append(Figure(f"padding, exact arithmetic, bucket {bucket} against {buckets[0]}", same, padding_limit_db, at_least=True))
        if precision == "fp16":
            lost = float((noise - tight_noise).mean())
            figures.append(Figure(f"fp16's noise, bucket {bucket} over {buckets[0]}", lost, LIMIT_FLAT_DB, at_least=False))
    return figures


def noise_levels_db(error: np.ndarray) -> np.ndarray:
    """Power of every frame of an error [600 F], in dB: [F]."""
    frames = error.astype(np.float64).reshape(-1, FRAME_SAMPLES)  # [F, 600]
    return 10 * np.log10(np.square(frames).mean(axis=1) + NOISE_FLOOR)


def figures_for_manifest(figures: list[Figure], facts: ProgramFacts) -> dict[str, Any]:
    """Check figures as plain data."""
    return {"figures": [asdict(figure) for figure in figures], "structure": facts.as_dict()}
