"""Mel-cepstral analysis of power spectra: SPTK's `mcep`, all frames at once.

    coefficients = mel_cepstrum(power)  # [frames, 513] -> [frames, 25]

Unbiased estimation of the log spectrum (Fukada, Tokuda, Kobayashi, Imai, ICASSP 1992) by Newton's method, order 24, all-pass
constant 0.466: the mel scale at 24 kHz. tests/test_eval_mel_cepstrum.py holds it to pysptk's numbers.
"""

from functools import cache

import numpy as np

ORDER, ALPHA = 24, 0.466
_MOST_STEPS, _STILL = 30, 1e-3  # Newton steps, and the relative change of the residual's gain that ends them


def mel_cepstrum(power: np.ndarray) -> np.ndarray:
    """power [frames, bins], strictly positive -> mel-cepstrum c0..c24 [frames, 25]. Each frame leaves the iteration when it is still."""
    bins = power.shape[1]
    cepstrum = np.fft.irfft(np.log(power), axis=1)[:, :bins]
    cepstrum[:, [0, -1]] /= 2
    mel = cepstrum @ warping(bins, ORDER + 1, ALPHA).T
    moving, gain = np.arange(len(power)), cepstrum[:, 0]
    for step in range(_MOST_STEPS):
        previous, (change, gain) = gain, _newton_step(mel[moving], power[moving])
        mel[moving] += change
        if step:
            still = np.abs((gain - previous) / gain) < _STILL
            moving, gain = moving[~still], gain[~still]
        if not len(moving):
            break
    return mel


def _newton_step(mel: np.ndarray, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The correction [frames, 25] and the residual's power [frames] at the present estimate."""
    bins = power.shape[1]
    log_magnitude = np.fft.rfft(mel @ warping(ORDER + 1, bins, -ALPHA).T, 2 * (bins - 1), axis=1).real
    residual = np.fft.irfft(power / np.exp(2 * log_magnitude), axis=1)[:, :bins]
    r = residual @ correlation_warping(bins, 2 * ORDER + 1, ALPHA).T  # [frames, 49]
    even = np.arange(2 * ORDER + 1) % 2 == 0
    hankel = r - r[:, :1] * even
    toeplitz = r[:, : ORDER + 1] + r[:, :1] * even[: ORDER + 1]
    lags = np.arange(ORDER + 1)
    system = toeplitz[:, np.abs(lags[:, None] - lags)] + hankel[:, lags[:, None] + lags]  # [frames, 25, 25]
    target = r[:, : ORDER + 1] - (-ALPHA) ** lags
    return np.linalg.solve(system, target[..., None])[..., 0], r[:, 0]


@cache
def warping(length: int, warped: int, alpha: float) -> np.ndarray:
    """SPTK's `freqt` as a matrix [warped, length]: a cepstrum to the cepstrum on the frequency axis bent by alpha."""
    out = np.zeros((warped, length))
    for i in reversed(range(length)):
        old = out.copy()
        out[0] = alpha * old[0]
        out[0, i] += 1
        out[1] = (1 - alpha * alpha) * old[0] + alpha * old[1]
        for j in range(2, warped):
            out[j] = old[j - 1] + alpha * (old[j] - out[j - 1])
    return out


@cache
def correlation_warping(length: int, warped: int, alpha: float) -> np.ndarray:
    """SPTK's `frqtr` as a matrix [warped, length]: the same for an autocorrelation."""
    out = np.zeros((warped, length))
    for i in reversed(range(length)):
        old = out.copy()
        out[0] = 0
        out[0, i] = 1
        for j in range(1, warped):
            out[j] = old[j - 1] + alpha * (old[j] - out[j - 1])
    return out
