"""The metrics, each once: what it is, its unit, which way is better, what silence does to it, where it comes from, what it cannot tell.

    from eval.metrics.registry import METRICS, measure
    measure(Trial(reference, test))  # {"pesq": 4.64, ...}

docs/metrics.md explains the choice.
"""

from collections.abc import Collection
from functools import partial
from types import MappingProxyType

from eval.metrics.hearing import HEARING
from eval.metrics.level import clipping_percent, jump_db, lag_samples, level_db, pause_floor_db, peak_db, polarity, snr_db
from eval.metrics.metric import HIGHER, LOWER, ZERO, Metric
from eval.metrics.perceptual import pesq_wb, stoi
from eval.metrics.pitch import f0_rmse_cents, voicing_error_percent
from eval.metrics.spectral import band_db, log_spectral_distance_db, mcd_db, mcd_increase_db
from eval.metrics.tone import thd_n_db, thd_n_increase_db
from eval.metrics.trial import Trial

_ACTIVE = "25 ms frames within 40 dB of the reference's loudest; spectra floored 50 dB below their mean"
_WHOLE = "whole clip, pauses included"
_VOICED = "frames 40 dB below the loudest are left out"
_HELD = "a held vowel of the clip's voice, its middle 0.8 s"


def _band(low_khz: int, high_khz: int) -> Metric:
    return Metric(
        f"band_{low_khz}_{high_khz}_khz_db",
        f"band {low_khz}-{high_khz} kHz",
        "dB",
        ZERO,
        0.0,
        formula=f"10 log10 of the ratio of energies in {low_khz}-{high_khz} kHz, each plus 1e-5 of the reference's whole energy",
        silence=_WHOLE,
        source="definition",
        limits="a band 50 dB below the clip counts as empty",
        function=partial(band_db, low_hz=low_khz * 1000, high_hz=high_khz * 1000),
    )


_ALL = (
    Metric(
        "pesq",
        "PESQ wide band",
        "MOS-LQO",
        HIGHER,
        4.6439,
        formula="ITU-T P.862.2 at 16 kHz, 0.5 s of silence around the clip, median over three positions on PESQ's frame grid",
        silence="P.862's own utterance detection",
        source="package pesq 0.0.4",
        limits="blind to level, to delay and above 8 kHz; P.862.3 excludes synthetic speech, so it is a regression proxy",
        function=pesq_wb,
    ),
    Metric(
        "mcd_db",
        "MCD",
        "dB",
        LOWER,
        0.0,
        formula="10 sqrt(2) / ln 10 * norm(c - c') over mel-cepstrum c1..c24 (24 kHz, alpha 0.466), mean over frames",
        silence=_ACTIVE,
        source="Kubichek 1993; SPTK mcep",
        limits="nearly blind to level, to short dropouts and to clipping; never time-warped",
        function=mcd_db,
    ),
    Metric(
        "mcd_increase_db",
        "MCD increase",
        "dB",
        LOWER,
        0.0,
        formula="MCD(other noise seed, test) - MCD(other noise seed, reference) over the reference's active frames",
        silence=_ACTIVE,
        source="definition",
        limits="errors smaller than the seed's own spread hardly move it, so MCD stands beside it",
        function=mcd_increase_db,
        needs_other_seed=True,
    ),
    Metric(
        "lsd_db",
        "log-spectral dist.",
        "dB",
        LOWER,
        0.0,
        formula="root mean square over 513 bins of the difference of log power spectra, mean over frames",
        silence=_ACTIVE,
        source="Gray and Markel 1976",
        limits="weighs an inaudible bin like an audible one",
        function=log_spectral_distance_db,
    ),
    Metric(
        "snr_db",
        "SNR",
        "dB",
        HIGHER,
        200.0,
        formula="10 log10(sum r^2 / sum (t - r)^2), at most 200",
        silence=_WHOLE,
        source="definition",
        limits="means nothing unless noise and durations are injected identically; a shift of one sample destroys it",
        function=snr_db,
    ),
    Metric(
        "level_db",
        "level",
        "dB",
        ZERO,
        0.0,
        formula="10 log10(sum t^2 / sum r^2)",
        silence=_WHOLE,
        source="definition",
        limits="blind to anything but gain",
        function=level_db,
    ),
    _band(0, 2),
    _band(2, 4),
    _band(4, 8),
    _band(8, 12),
    Metric(
        "jump_db",
        "5 ms level jump",
        "dB",
        LOWER,
        0.0,
        formula="largest absolute level difference of 5 ms (floor 1e-3 of the loudest), less the largest of other seeds there (at most 6)",
        silence="floored 30 dB below the loudest 5 ms",
        source="definition",
        limits="one frame decides: says that something broke, not how it sounds",
        function=jump_db,
    ),
    Metric(
        "pause_floor_db",
        "pause floor",
        "dB",
        ZERO,
        0.0,
        formula="10 log10 of the ratio of powers in the reference's quietest tenth of 25 ms frames, each plus 1e-6 of its active power",
        silence="only the quietest frames; 60 dB below speech counts as silence",
        source="definition",
        limits="says how loud the pauses are, not what fills them",
        function=pause_floor_db,
    ),
    Metric(
        "f0_rmse_cents",
        "F0 RMSE",
        "cents",
        LOWER,
        0.0,
        formula="root mean square of 1200 log2(f_t / f_r) over frames voiced in both and within 20 %",
        silence=_VOICED,
        source="Boersma 1993 (autocorrelation); definition",
        limits="the tracker's own jitter is in it: compare with the seed floor",
        function=f0_rmse_cents,
    ),
    Metric(
        "voicing_error_percent",
        "voicing error",
        "%",
        LOWER,
        0.0,
        formula="share of frames (50 ms, 10 ms apart) whose voicing flips by more than 0.1 of periodicity or whose F0 is over 20 % apart",
        silence=_VOICED,
        source="Chu and Alwan 2009 (F0 frame error)",
        limits="creaky frames flip under any noise: compare with the seed floor",
        function=voicing_error_percent,
    ),
    Metric(
        "thd_n_db",
        "THD+N of a vowel",
        "dB",
        LOWER,
        -300.0,
        formula="10 log10((sum of squared harmonic errors + energy off the harmonics) / energy of the reference's harmonics)",
        silence=_HELD,
        source="IEC 60268-3 THD+N, for a tone with harmonics",
        limits="holds the model's own noise too, so the increase is what is judged",
        function=thd_n_db,
        needs_tone=True,
    ),
    Metric(
        "thd_n_increase_db",
        "THD+N increase",
        "dB",
        LOWER,
        0.0,
        formula="THD+N of the test less THD+N of the reference",
        silence=_HELD,
        source="definition",
        limits="one pitch and one vowel a voice",
        function=thd_n_increase_db,
        needs_tone=True,
    ),
    Metric(
        "peak_db",
        "peak",
        "dB",
        ZERO,
        0.0,
        formula="20 log10(max abs(t) / max abs(r))",
        silence=_WHOLE,
        source="definition",
        limits="one sample decides",
        function=peak_db,
    ),
    Metric(
        "clipping_percent",
        "clipped samples",
        "%",
        LOWER,
        0.0,
        formula="share of samples above 0.999 of the signal's own peak or above full scale, test minus reference",
        silence=_WHOLE,
        source="definition",
        limits="sees flat tops and overflow, not soft saturation",
        function=clipping_percent,
    ),
    Metric(
        "lag_samples",
        "delay",
        "samples",
        ZERO,
        0.0,
        formula="argmax of the cross-correlation's magnitude: whole clip within 240 samples, or the worst half second within 24",
        silence="half seconds that correlate below 0.995 are left out",
        source="definition",
        limits="whole samples only",
        function=lag_samples,
    ),
    Metric(
        "polarity",
        "polarity",
        "sign",
        HIGHER,
        1.0,
        formula="sign of the cross-correlation where its magnitude is largest",
        silence=_WHOLE,
        source="definition",
        limits="not heard, so every other metric turns the test over first",
        function=polarity,
    ),
    Metric(
        "stoi",
        "STOI",
        "0..1",
        HIGHER,
        1.0,
        formula="short-time objective intelligibility at 10 kHz",
        silence="frames 40 dB below the loudest are dropped",
        source="Taal et al. 2011; package pystoi",
        limits="saturates: separates no two releasable levels",
        function=stoi,
    ),
    *HEARING,
)
METRICS = MappingProxyType({metric.name: metric for metric in _ALL})


def measure(trial: Trial, only: Collection[str] = ()) -> dict[str, float]:
    """Every metric by name that the trial has the signals for, or those of `only`."""
    return {name: metric.function(trial) for name, metric in METRICS.items() if metric.fits(trial) and (not only or name in only)}
