"""Metrics that model a listener: wide-band PESQ and STOI by their public packages, predicted quality and speaker by models.

pesq_wb(Trial(reference, test))  # MOS-LQO
"""

import numpy as np

from core.contract import SAMPLE_RATE_HZ
from eval.metrics.framing import at_least
from eval.metrics.trial import Trial

STOI_SAMPLES = SAMPLE_RATE_HZ  # the package wants 0.4 s of speech: a shorter clip is said again


def pesq_wb(trial: Trial) -> float:
    """ITU-T P.862.2 MOS-LQO: the median over three positions of the clip on PESQ's frame grid, half a second of silence around it.

    One position is not enough: PESQ cuts a clip into utterances by thresholds, and an error 54 dB down can cost 0.37 MOS there
    (docs/metrics.md). A clip over 15 s is cut in pauses, and the mean of its pieces is its score. Raises InputError where PESQ finds no
    utterance.
    """
    return float(np.median(trial.pesq_positions))


def pesq_worst_position(trial: Trial) -> float:
    """The lowest of the three positions."""
    return float(min(trial.pesq_positions))


def stoi(trial: Trial) -> float:
    """Short-time objective intelligibility (Taal et al., IEEE TASLP 2011), 0 to 1."""
    from pystoi import stoi as package_stoi

    return float(package_stoi(at_least(trial.reference, STOI_SAMPLES), at_least(trial.upright, STOI_SAMPLES), SAMPLE_RATE_HZ))


def dnsmos_loss(trial: Trial) -> float:
    """DNSMOS of the reference less that of the test, MOS."""

    return trial.baseline.heard.dnsmos - trial.heard.dnsmos


def distillmos_loss(trial: Trial) -> float:
    """DistillMOS of the reference less that of the test, MOS."""

    return trial.baseline.heard.distillmos - trial.heard.distillmos


def speaker_distance(trial: Trial) -> float:
    """1 - cosine of the voiceprints of reference and test, times 100."""

    return float(100 * (1 - trial.baseline.heard.voiceprint @ trial.heard.voiceprint))
