"""Compare an executed vocoder package with PyTorch at several bucket fills, before it gets its name.

figures = check_figures(program, form, vocoder, speech, buckets, precision="fp16")
"""

from core.figures import Figure, snr_db
from mlprogram import Program
from vocoder.decoder import Vocoder
from vocoder.forms import Form
from vocoder.package import render_reference, run_program
from vocoder.packing import VocoderInputs

LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 100.0}  # random weights reach 51 and 122: a package below these is broken, not imprecise
LIMIT_FLAT_DB = 1.0  # between the emptiest and the fullest bucket
MAX_CHECK_FRAMES = 480


def check_buckets_of(frames: int, buckets: tuple[int, ...]) -> tuple[int, ...]:
    """The tightest bucket for `frames`, one about three times and one about ten times as long, as far as they exist."""
    fitting = [b for b in buckets if frames <= b <= max(MAX_CHECK_FRAMES, buckets[0])]
    return tuple(sorted({min(fitting, key=lambda b: abs(b - frames * factor)) for factor in (1, 3, 10)}))


def check_figures(
    program: Program, form: Form, vocoder: Vocoder, speech: VocoderInputs, buckets: tuple[int, ...], precision: str
) -> list[Figure]:
    """SNR against PyTorch at several fills of the buckets that hold the speech, and how far they lie apart."""
    reference = render_reference(vocoder, speech)
    figures, values = [], []
    for bucket in check_buckets_of(speech.frames, tuple(b for b in buckets if form.holds(speech.frames, b))):
        values.append(snr_db(reference, run_program(program, form, speech, bucket)))
        name = f"SNR against PyTorch, {speech.frames} frames in bucket {bucket} ({speech.frames / bucket:.0%} full)"
        figures.append(Figure(name, values[-1], LIMIT_SNR_DB[precision], at_least=True))
    if precision == "fp16" and len(values) > 1:
        figures.append(Figure("spread of SNR over bucket fills", max(values) - min(values), LIMIT_FLAT_DB, at_least=False))
    return figures
