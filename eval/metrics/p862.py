"""Wide-band PESQ by its public package, at three positions of the clip on PESQ's frame grid; a long clip in pieces.

pesq_positions(reference, test)  # MOS-LQO, three times
"""

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from eval.metrics.framing import MODEL_RATE_HZ, at_16_khz

PESQ_SILENCE = SAMPLE_RATE_HZ // 2  # samples of zeros before and after, half a second
PESQ_STARTS = (0, 128, 256)  # samples: thirds of PESQ's 16 ms frame step
LONGEST_PESQ_SECONDS = 15.0  # the package keeps at most 50 utterances in an array it does not check
SEARCH_SECONDS = 2.0  # a long clip is cut where the reference is quietest this near to an equal share


def pesq_positions(reference: np.ndarray, test: np.ndarray) -> tuple[float, ...]:
    """PESQ at each of the three positions."""
    pieces = list(zip(*(np.split(signal, pauses_between(reference)) for signal in (reference, test)), strict=True))
    weights = [len(piece) for piece, _ in pieces]
    return tuple(float(np.average([_pesq(piece, judged, start) for piece, judged in pieces], weights=weights)) for start in PESQ_STARTS)


def pauses_between(signal: np.ndarray) -> list[int]:
    """Samples at which a signal over 15 s is cut into pieces of about one length: its quietest 60 ms near each equal share."""
    count = -(-len(signal) // int((LONGEST_PESQ_SECONDS - SEARCH_SECONDS) * SAMPLE_RATE_HZ)) if _long(signal) else 1
    power = np.convolve(np.square(signal), np.ones(1440), mode="same") if count > 1 else signal
    reach, cuts = int(SEARCH_SECONDS / 2 * SAMPLE_RATE_HZ), []
    for share in range(1, count):
        around = len(signal) * share // count
        cuts.append(around - reach + int(np.argmin(power[around - reach : around + reach])))
    return cuts


def _long(signal: np.ndarray) -> bool:
    return len(signal) > LONGEST_PESQ_SECONDS * SAMPLE_RATE_HZ


def _pesq(reference: np.ndarray, test: np.ndarray, start: int) -> float:
    from pesq import NoUtterancesError, pesq  # loads a C extension

    silence = (PESQ_SILENCE + start, PESQ_SILENCE)
    try:
        return float(pesq(MODEL_RATE_HZ, at_16_khz(np.pad(reference, silence)), at_16_khz(np.pad(test, silence)), "wb"))
    except NoUtterancesError:
        raise InputError("PESQ finds no utterance in the reference signal: a clip of speech is needed") from None
