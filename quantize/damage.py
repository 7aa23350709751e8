"""How much a search's candidate changes a render: squared log-spectral difference, which small independent errors add up in.

    damage_db2(reference, candidate)  # dB^2; its root is a log-spectral distance

A figure of merit to rank layers with, nothing else: levels are judged by eval/quality.py.
"""

import numpy as np
import torch

N_FFT, HOP_SAMPLES = 1024, 256
FLOOR_DB, ACTIVE_DB = 50.0, 40.0  # power floor below the mean of the active frames; active = this far below the loudest


def damage_db2(reference: np.ndarray, candidate: np.ndarray) -> float:
    """Mean over active frames and bins of (10 log10 of the power ratio)^2, powers floored."""
    power, other = _power(reference), _power(candidate)  # [bins, frames]
    loudness = power.mean(dim=0)
    active = loudness > loudness.max() * 10 ** (-ACTIVE_DB / 10)
    floor = power[:, active].mean() * 10 ** (-FLOOR_DB / 10)
    ratio_db = 10 * torch.log10((other[:, active] + floor) / (power[:, active] + floor))
    return float(ratio_db.square().mean())


def _power(samples: np.ndarray) -> torch.Tensor:
    window = torch.hann_window(N_FFT, dtype=torch.float64)
    signal = torch.from_numpy(np.asarray(samples, np.float64))
    return torch.stft(signal, N_FFT, HOP_SAMPLES, N_FFT, window, return_complex=True).abs().square()
