"""Compare an executed vocoder package with PyTorch at several bucket fills, before it gets its name.

figures = check_figures(program, form, vocoder, speech, buckets, precision="fp16")

Three statements, each about one cause. 1. Against PyTorch the package is precise enough at every fill. 2. Padding changes nothing: the same
program in exact arithmetic gives the same audio at every fill. A mask that is dropped at one stage fails here, and fp16's noise cannot hide
it. 3. fp16 loses no more in a longer bucket: its own noise (the package less the same program in exact arithmetic), frame by frame in dB
against the tightest bucket, in the mean. The ratio of two whole errors would not do: real speech has a few frames that hold most of the
error, so it wanders by 3 dB where this mean wanders by 0.4.
"""

import numpy as np

from core.contract import FRAME_SAMPLES
from core.figures import Figure, snr_db
from mlprogram import Program
from vocoder.decoder import Vocoder
from vocoder.form import Form
from vocoder.package import render_reference, run_program
from vocoder.packing import VocoderInputs

LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 100.0}  # random weights reach 51 and 122: a package below these is broken, not imprecise
LIMIT_PADDING_DB = 90.0  # real Kokoro 114, random weights 130; one mask dropped below 80
LIMIT_FLAT_DB = 1.5  # of the mean over frames; its standard error is 0.4 dB on the 40 frames below
EQUAL_DB = 200.0  # stands for infinite, which JSON does not have
NOISE_FLOOR = 1e-10  # power of a frame's error below which it is silence, -100 dB of full scale
MAX_CHECK_FRAMES = 480


def check_buckets_of(frames: int, buckets: tuple[int, ...]) -> tuple[int, ...]:
    """The tightest bucket for `frames`, one about three times and one about ten times as long, as far as they exist."""
    fitting = [b for b in buckets if frames <= b <= max(MAX_CHECK_FRAMES, buckets[0])]
    return tuple(sorted({min(fitting, key=lambda b: abs(b - frames * factor)) for factor in (1, 3, 10)}))


def check_figures(
    program: Program, form: Form, vocoder: Vocoder, speech: VocoderInputs, buckets: tuple[int, ...], precision: str
) -> list[Figure]:
    """The figures of the speech at several fills of the buckets that hold it."""
    holding = tuple(bucket for bucket in buckets if form.holds(speech.frames, bucket))
    exact = Program(program.path, precision="exact")
    return fill_figures(program, exact, form, vocoder, speech, check_buckets_of(speech.frames, holding), precision)


def fill_figures(
    program: Program, exact: Program, form: Form, vocoder: Vocoder, inputs: VocoderInputs, buckets: tuple[int, ...], precision: str
) -> list[Figure]:
    """The three statements of the module on `inputs` in `buckets`, the tightest first. `exact`: the same program in exact arithmetic."""
    reference, figures = render_reference(vocoder, inputs), []
    tight = tight_noise = np.zeros(0)
    for bucket in buckets:
        where = f"{inputs.frames} frames in bucket {bucket} ({inputs.frames / bucket:.0%} full)"
        found, plain = run_program(program, form, inputs, bucket), run_program(exact, form, inputs, bucket, half=False)
        noise = noise_levels_db(found - plain)
        figures.append(Figure(f"SNR against PyTorch, {where}", snr_db(reference, found), LIMIT_SNR_DB[precision], at_least=True))
        if not len(tight):
            tight, tight_noise = plain, noise
            continue
        same = min(snr_db(tight, plain), EQUAL_DB)
        figures.append(Figure(f"padding, exact arithmetic, bucket {bucket} against {buckets[0]}", same, LIMIT_PADDING_DB, at_least=True))
        if precision == "fp16":
            lost = float((noise - tight_noise).mean())
            figures.append(Figure(f"fp16's noise, bucket {bucket} over {buckets[0]}", lost, LIMIT_FLAT_DB, at_least=False))
    return figures


def noise_levels_db(error: np.ndarray) -> np.ndarray:
    """Power of every frame of an error [600 F], in dB: [F]."""
    frames = error.astype(np.float64).reshape(-1, FRAME_SAMPLES)  # [F, 600]
    return 10 * np.log10(np.square(frames).mean(axis=1) + NOISE_FLOOR)
