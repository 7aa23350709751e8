"""Metrics that model a listener: wide-band PESQ and STOI, both by their public packages.

pesq_wb(Trial(reference, test))  # MOS-LQO
"""

import numpy as np
from scipy.signal import resample_poly

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from eval.metrics.trial import Trial

PESQ_RATE_HZ = 16_000
PESQ_SILENCE = SAMPLE_RATE_HZ // 2  # samples of zeros before and after, half a second
PESQ_STARTS = (0, 128, 256)  # samples: thirds of PESQ's 16 ms frame step
LONGEST_PESQ_SECONDS = 20.0  # the package keeps at most 50 utterances in an array it does not check


def at_pesq_rate(signal: np.ndarray) -> np.ndarray:
    """24 kHz [n] -> 16 kHz [ceil(2 n / 3)], scipy's polyphase filter (Kaiser 5.0): the only resampling in the evaluation."""
    return resample_poly(signal, PESQ_RATE_HZ // 8000, SAMPLE_RATE_HZ // 8000)


def pesq_wb(trial: Trial) -> float:
    """ITU-T P.862.2 MOS-LQO: the median over three positions of the clip on PESQ's frame grid, half a second of silence around it.

    One position is not enough: PESQ cuts a clip into utterances by thresholds, and an error 54 dB down can cost 0.37 MOS there
    (docs/metrics.md). Raises InputError for a clip over 20 s or one in which PESQ finds no utterance.
    """
    from pesq import NoUtterancesError, pesq  # loads a C extension

    seconds = len(trial.reference) / SAMPLE_RATE_HZ
    if seconds > LONGEST_PESQ_SECONDS:
        raise InputError(f"the clip lasts {seconds:.1f} s: PESQ is taken of clips up to {LONGEST_PESQ_SECONDS:.0f} s, cut it")
    try:
        return float(np.median([pesq(PESQ_RATE_HZ, *_placed(trial, start), "wb") for start in PESQ_STARTS]))
    except NoUtterancesError:
        raise InputError("PESQ finds no utterance in the reference signal: a clip of speech is needed") from None


def _placed(trial: Trial, start: int) -> tuple[np.ndarray, np.ndarray]:
    """Reference and test at 16 kHz, `start` samples (24 kHz) later than half a second of silence."""
    silence = (PESQ_SILENCE + start, PESQ_SILENCE)
    return at_pesq_rate(np.pad(trial.reference, silence)), at_pesq_rate(np.pad(trial.test, silence))


def stoi(trial: Trial) -> float:
    """Short-time objective intelligibility (Taal et al., IEEE TASLP 2011), 0 to 1."""
    from pystoi import stoi as package_stoi

    return float(package_stoi(trial.reference, trial.test, SAMPLE_RATE_HZ))
