"""What is computed of one signal [samples] at 24 kHz: frames, power spectra, 60 ms windows, pitch,
mel-cepstrum; and what makes it unfit.

    power = power_spectrum(signal)  # [frames, 513]
    track_pitch(signal).hz, windows_of(signal).level, mel_cepstrum(power)
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.signal import csd, resample_poly, welch

from kokoro_ane.core import SAMPLE_RATE_HZ

MODEL_RATE_HZ = 16_000  # of PESQ, the recognizer and every model that listens

SHORTEST_SECONDS = 0.25  # PESQ refuses less
SILENT_DBFS = -70.0
FRAME_LENGTH, FRAME_HOP, FFT_SIZE = 600, 120, 1024  # 25 ms, 5 ms, samples
WINDOW = 1440  # samples, 60 ms
MEL_BANDS = 40
PITCH_FRAME, PITCH_HOP, PITCH_FFT = 1200, 240, 4096  # 50 ms, 10 ms, samples
LOWEST_HZ, HIGHEST_HZ = 60, 400
VOICED_ABOVE = 0.55  # of the normalized autocorrelation
OCTAVE_COST = 0.04  # a lag of twice the length must correlate better by this
QUIET_DB = -40.0  # below the loudest frame nothing is voiced
GROSS_SHARE = 0.2  # farther apart than this is another octave, not another pitch
ORDER, ALPHA = 24, 0.466  # of the mel-cepstrum
# samples, 85 ms; from this coherence on a bin weighs no more
DELAY_FRAME, MOST_COHERENCE = 2048, 0.9999
# Newton steps, and the relative change of the residual's gain that ends them
_MOST_STEPS, _STILL = 30, 1e-3


def defect(signal: np.ndarray) -> str | None:
    """What makes a signal unfit for any metric, or None: not mono, too short, not finite,
    silent.
    """
    if (
        not isinstance(signal, np.ndarray)
        or signal.ndim != 1
        or not np.issubdtype(signal.dtype, np.floating)
    ):
        kind = getattr(signal, "dtype", type(signal).__name__)
        return (
            f"is {kind} of shape {list(np.shape(signal))}: a mono float array [samples] is needed"
        )
    seconds = len(signal) / SAMPLE_RATE_HZ
    if seconds < SHORTEST_SECONDS:
        return f"lasts {seconds:.3f} s: at least {SHORTEST_SECONDS} s are needed"
    # NaN is looked for before the level, because a mean that is NaN is below no threshold.
    broken = int(np.count_nonzero(~np.isfinite(signal)))
    if broken:
        return f"holds {broken} samples that are NaN or infinite"
    level_dbfs = decibels(np.square(signal.astype(np.float64)).mean())
    if level_dbfs < SILENT_DBFS:
        return f"is silent ({level_dbfs:.0f} dBFS): speech above {SILENT_DBFS:.0f} dBFS is needed"
    return None


def frames(signal: np.ndarray, length: int = FRAME_LENGTH, hop: int = FRAME_HOP) -> np.ndarray:
    """signal [samples] -> overlapping frames [n, length], the last one ending inside the signal."""
    # A view without a copy: the frames share the signal's memory.
    return np.lib.stride_tricks.sliding_window_view(signal, length)[::hop]


def power_spectrum(signal: np.ndarray, starts: np.ndarray | None = None) -> np.ndarray:
    """signal [samples] -> |FFT|^2 of Hann-windowed 25 ms frames [n, 513], those that begin at
    `starts` [n] or all.
    """
    # The periodic Hann window of spectral analysis; np.hanning would give the symmetric one.
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME_LENGTH) / FRAME_LENGTH)
    chosen = frames(signal) if starts is None else frames(signal, hop=1)[starts]
    return np.square(np.abs(np.fft.rfft(chosen * window, FFT_SIZE, axis=1)))


def decibels(power_ratio: float | np.ndarray) -> float | np.ndarray:
    """10 log10, with a power of zero held at -300 dB so that every figure is finite."""
    return 10 * np.log10(np.maximum(power_ratio, 1e-30))


def at_16_khz(signal: np.ndarray) -> np.ndarray:
    """24 kHz [n] -> 16 kHz [ceil(2 n / 3)], scipy's polyphase filter (Kaiser 5.0): the only
    resampling in the evaluation.
    """
    # 24 kHz to 16 kHz is 2 up and 3 down: both rates in units of 8 kHz.
    return resample_poly(signal, MODEL_RATE_HZ // 8000, SAMPLE_RATE_HZ // 8000)


def running_mean(values: np.ndarray, length: int) -> np.ndarray:
    """values [n, ...] -> means of every `length` neighbours [n - length + 1, ...]; of all of them
    where there are fewer.
    """
    length = min(length, len(values))
    # Differences of a running total: the cost does not grow with the length.
    total = np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)
    return (total[length:] - total[:-length]) / length


def at_least(signal: np.ndarray, samples: int) -> np.ndarray:
    """The signal, said again until it holds `samples`: for models that want more than a short clip
    has.
    """
    return np.tile(signal, -(-samples // len(signal))) if len(signal) < samples else signal


def alignment(reference: np.ndarray, test: np.ndarray, longest: int) -> tuple[int, float]:
    """Lag in -longest..longest at which the magnitude of the cross-correlation is largest (positive
    = the test is late), and the normalized correlation there, -1 to 1. Its sign is the test's
    polarity.
    """
    # A power of two beyond the clip and its longest lag, so that no lag wraps around.
    size = 1 << (len(reference) + longest).bit_length()
    spectrum = np.fft.rfft(test, size) * np.conj(np.fft.rfft(reference, size))
    correlation = np.fft.irfft(spectrum, size)
    # Negative lags stand at the end of a circular correlation, where negative indices find them.
    lags = np.arange(-longest, longest + 1)
    lag = lags[np.argmax(np.abs(correlation[lags]))]
    power = np.sqrt(np.square(reference).sum() * np.square(test).sum())
    return int(lag), float(correlation[lag] / max(power, 1e-30))


def delay(reference: np.ndarray, test: np.ndarray, longest: int) -> int:
    """How many samples in -longest..longest the test is late, by the phases of all bins, each
    weighed by how sure it is: c / (1 - c) of its squared coherence c, the maximum likelihood
    estimate (Knapp and Carter 1976).

    Where only the waves correlate (`alignment`), the loud bins decide, F0's, and there one sample
    of delay is 3 degrees: as much as noise does. A delay turns high bins the most, and one that all
    bins share is no noise.
    """
    segments = {
        "nperseg": min(DELAY_FRAME, len(reference)),
        "noverlap": min(DELAY_FRAME, len(reference)) * 3 // 4,
        "detrend": False,
    }
    # Welch averages over pieces of 85 ms: the coherence of a single piece would always be 1.
    cross, powers = (
        csd(reference, test, **segments)[1],
        [welch(signal, **segments)[1] for signal in (reference, test)],
    )
    # [bins], held below 1, where a bin would weigh infinitely much
    coherence = np.minimum(
        np.square(np.abs(cross)) / np.maximum(powers[0] * powers[1], 1e-300), MOST_COHERENCE
    )
    # Whitened: every bin counts by how sure its phase is, and none by how loud it is.
    phases = cross / np.maximum(np.abs(cross), 1e-300)
    likely = np.fft.irfft(coherence / (1 - coherence) * phases)
    lags = np.arange(-longest, longest + 1)
    # The magnitude, because a test that is turned over peaks downwards.
    return int(lags[np.argmax(np.abs(likely[lags]))])


@dataclass(frozen=True, eq=False)
class Windows:
    """mel [n, 40]: power by mel band (Slaney's scale); level [m]: mean square. Both of windows of
    60 ms.
    """

    mel: np.ndarray
    level: np.ndarray


def windows_of(signal: np.ndarray) -> Windows:
    """Cut a signal [samples] at 24 kHz, of at least 60 ms, into windows."""
    mel = power_spectrum(signal) @ mel_bank(MEL_BANDS).T
    level = np.square(frames(signal, FRAME_HOP, FRAME_HOP)).mean(axis=1)
    # 8 frames of 25 ms, 5 ms apart, span 60 ms; so do 12 steps of 5 ms.
    return Windows(
        running_mean(mel, (WINDOW - FRAME_LENGTH) // FRAME_HOP + 1),
        running_mean(level, WINDOW // FRAME_HOP),
    )


@cache
def mel_bank(bands: int) -> np.ndarray:
    """Return librosa's triangular mel filters [bands, 513] for 24 kHz, 0 to 12 kHz."""
    from librosa.filters import mel

    return mel(sr=SAMPLE_RATE_HZ, n_fft=FFT_SIZE, n_mels=bands, dtype=np.float64)


@dataclass(frozen=True)
class PitchTrack:
    """Per 50 ms frame, 10 ms apart [frames]: F0 in Hz, how periodic the frame is (0 to 1), and
    whether it is loud enough to tell.
    """

    hz: np.ndarray
    strength: np.ndarray
    loud: np.ndarray

    @property
    def voiced(self) -> np.ndarray:
        """Frames that are periodic and loud enough [frames] bool."""
        return (self.strength > VOICED_ABOVE) & self.loud


def track_pitch(signal: np.ndarray) -> PitchTrack:
    """Track F0 of a signal [samples] at 24 kHz, of at least 50 ms."""
    # Boersma 1993: the autocorrelation of a windowed frame falls off as that of its window does, so
    # it is divided by it; a periodic frame then has 1 at its period.
    windowed = np.lib.stride_tricks.sliding_window_view(signal - signal.mean(), PITCH_FRAME)[
        ::PITCH_HOP
    ] * np.hanning(PITCH_FRAME)
    # Padded to 4096, so that the correlation wraps around at no lag that is looked at.
    spectrum = np.square(np.abs(np.fft.rfft(windowed, PITCH_FFT, axis=1)))
    correlation = np.fft.irfft(spectrum, axis=1)[:, : SAMPLE_RATE_HZ // LOWEST_HZ + 2]
    # Lag 0 is a frame's power [frames]; a silent frame's is held above zero.
    power = np.maximum(correlation[:, 0], 1e-20)
    normal = correlation / power[:, None] / _window_correlation()[: correlation.shape[1]]
    # Twice the period correlates as well: a longer lag pays for each octave.
    lags = np.arange(SAMPLE_RATE_HZ // HIGHEST_HZ, SAMPLE_RATE_HZ // LOWEST_HZ + 1)
    best = lags[np.argmax(normal[:, lags] - OCTAVE_COST * np.log2(lags / lags[0]), axis=1)]
    rows = np.arange(len(power))
    return PitchTrack(
        SAMPLE_RATE_HZ / _peak(normal, rows, best),
        normal[rows, best],
        power > power.max() * 10 ** (QUIET_DB / 10),
    )


def _peak(curve: np.ndarray, rows: np.ndarray, lags: np.ndarray) -> np.ndarray:
    """Return the lag of the parabola through each peak and its neighbours."""
    # A period is no whole number of samples: at 400 Hz one sample is 29 cents.
    before, at, after = (curve[rows, lags + step] for step in (-1, 0, 1))
    bend = before - 2 * at + after
    # A flat top has no parabola: its peak stays at the whole lag.
    return lags + np.clip(
        np.divide(before - after, 2 * bend, out=np.zeros_like(at), where=np.abs(bend) > 1e-12),
        -1.0,
        1.0,
    )


@cache
def _window_correlation() -> np.ndarray:
    spectrum = np.square(np.abs(np.fft.rfft(np.hanning(PITCH_FRAME), PITCH_FFT)))
    correlation = np.fft.irfft(spectrum)
    return correlation / correlation[0]


def mel_cepstrum(power: np.ndarray) -> np.ndarray:
    """power [frames, bins], strictly positive -> mel-cepstrum c0..c24 [frames, 25]. Each frame
    leaves the iteration when it is still.
    """
    bins = power.shape[1]
    # The start: the cepstrum of the spectrum itself, bent to the mel axis.
    cepstrum = np.fft.irfft(np.log(power), axis=1)[:, :bins]
    # Log magnitude is half of log power: a sum of cosines of which the two ends alone are halved.
    cepstrum[:, [0, -1]] /= 2
    mel = cepstrum @ warping(bins, ORDER + 1, ALPHA).T
    moving, gain = np.arange(len(power)), cepstrum[:, 0]
    for step in range(_MOST_STEPS):
        # A step solves one system a frame, so frames that are still leave the iteration.
        previous, (change, gain) = gain, _newton_step(mel[moving], power[moving])
        mel[moving] += change
        # Only from the second step on is the previous gain a residual's power.
        if step:
            still = np.abs((gain - previous) / gain) < _STILL
            moving, gain = moving[~still], gain[~still]
        if not len(moving):
            break
    return mel


def _newton_step(mel: np.ndarray, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The correction [frames, 25] and the residual's power [frames] at the present estimate."""
    bins = power.shape[1]
    # [frames, bins], bent back to the linear frequency axis
    log_magnitude = np.fft.rfft(
        mel @ warping(ORDER + 1, bins, -ALPHA).T, 2 * (bins - 1), axis=1
    ).real
    # The spectrum divided by the present envelope: flat where the envelope is right.
    residual = np.fft.irfft(power / np.exp(2 * log_magnitude), axis=1)[:, :bins]
    r = residual @ correlation_warping(bins, 2 * ORDER + 1, ALPHA).T  # [frames, 49]
    # SPTK's system: a Toeplitz and a Hankel matrix of the warped autocorrelation.
    even = np.arange(2 * ORDER + 1) % 2 == 0
    hankel = r - r[:, :1] * even
    toeplitz = r[:, : ORDER + 1] + r[:, :1] * even[: ORDER + 1]
    lags = np.arange(ORDER + 1)
    # [frames, 25, 25]
    system = toeplitz[:, np.abs(lags[:, None] - lags)] + hankel[:, lags[:, None] + lags]
    target = r[:, : ORDER + 1] - (-ALPHA) ** lags
    # one right side a frame, [frames, 25, 1]
    return np.linalg.solve(system, target[..., None])[..., 0], r[:, 0]


@cache
def warping(length: int, warped: int, alpha: float) -> np.ndarray:
    """SPTK's `freqt` as a matrix [warped, length]: a cepstrum to the cepstrum on the frequency axis
    bent by alpha.
    """
    # The recursion of Oppenheim and Johnson 1972 takes in a coefficient at a time, the last first;
    # column i belongs to coefficient i.
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
