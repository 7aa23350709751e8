"""What a reconstruction descends: errors of a block relative to each quarter frame, and differences of sound.

relative_error(made, wanted, frames).backward()     # a block's output
sound_error(samples, reference).backward()          # the whole vocoder's
"""

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOWS_A_FRAME = 4  # over which a block's errors are held against its output: pauses are heard as well as syllables
QUIET = 1e-3  # of an output's mean power, added to each window's
RESOLUTIONS = ((512, 128), (1024, 256), (2048, 512))  # FFT and hop in samples
FLOOR_DB = 50.0  # below the mean power of an excerpt
WAVEFORM_DB2 = 20.0  # weight of the waveform's relative squared error beside dB^2


def relative_error(made: Tensor, wanted: Tensor, frames: int) -> Tensor:
    """Mean over quarter frames of the squared error's share of the output's power there; [1, C, 1, S] both."""
    windows = min(WINDOWS_A_FRAME * frames, wanted.shape[-1])
    error, power = ((x.square().mean(dim=1)) for x in (made - wanted, wanted))  # [1, 1, S]
    error, power = (F.adaptive_avg_pool1d(x, windows) for x in (error, power))
    return (error / (power + QUIET * power.mean())).mean()


def sound_error(made: Tensor, wanted: Tensor) -> Tensor:
    """dB^2 between log power spectra, mean over resolutions, and the waveform's relative squared error; [samples] both."""
    spectral = torch.stack([_log_spectral_db2(made, wanted, *resolution) for resolution in RESOLUTIONS]).mean()
    return spectral + WAVEFORM_DB2 * (made - wanted).square().sum() / wanted.square().sum()


def _log_spectral_db2(made: Tensor, wanted: Tensor, size: int, hop: int) -> Tensor:
    window = torch.hann_window(size)
    power, other = (torch.stft(x, size, hop, size, window, return_complex=True).abs().square() for x in (wanted, made))
    floor = power.mean() * 10 ** (-FLOOR_DB / 10)
    return (10 * torch.log10((other + floor) / (power + floor))).square().mean()
