"""The metrics, each once: what it is, its unit, which way is better, where it comes from.

    from kokoro_ane.eval.metrics.catalog import METRICS, measure
    measure(Trial(reference, test))  # {"pesq": 4.64, ...}
    measure(ProsodyTrial(clip, durations))  # {"tokens_changed_percent": 0.0, ...}

A metric's formula is the docstring of its function; docs/metrics.md explains the choice, and what
those of its table cannot tell.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from kokoro_ane.eval.metrics import local, prosody_metrics, whole_clip
from kokoro_ane.eval.metrics.prosody_metrics import ProsodyTrial
from kokoro_ane.eval.metrics.trial import Trial

HIGHER, LOWER, ZERO = "higher", "lower", "nearest 0"
SEEDS, TONE, TEXT = ("scaled",), ("tone",), ("text",)  # what some trials of sound do not have


@dataclass(frozen=True)
class Metric:
    """One metric. `best` says which way is better, `perfect` is what equal signals score, `needs`
    names the parts that a trial must have.
    """

    name: str
    title: str
    unit: str
    function: Callable[[Any], float]
    best: str = LOWER
    perfect: float = 0.0
    source: str = "definition"
    needs: tuple[str, ...] = ()
    trial: type = Trial

    def fits(self, trial: Trial | ProsodyTrial) -> bool:
        """Whether the trial has what this metric needs."""
        # A part that is missing is None, or False for `scaled`.
        return isinstance(trial, self.trial) and all(
            getattr(trial, part) not in (None, False) for part in self.needs
        )

    def worst(self, values: Iterable[float]) -> float:
        """Return the value of the worst clip."""
        chosen: dict[str, Callable[[Iterable[float]], float]] = {
            HIGHER: min,
            LOWER: max,
            ZERO: lambda values: max(values, key=abs),
        }
        return chosen[self.best](values)


def _prosody(name: str, title: str, unit: str, needs: tuple[str, ...] = ()) -> Metric:
    return Metric(
        name, title, unit, getattr(prosody_metrics, name), needs=needs, trial=ProsodyTrial
    )


def _literature(coefficients: int) -> Metric:
    return Metric(
        f"mcd{coefficients}_db",
        f"MCD, literature, {coefficients}",
        "dB",
        partial(whole_clip.literature_mcd_db, coefficients=coefficients),
        source="Kubichek 1993; librosa",
    )


def _band(low_khz: int, high_khz: int) -> Metric:
    return Metric(
        f"band_{low_khz}_{high_khz}_khz_db",
        f"band {low_khz}-{high_khz} kHz",
        "dB",
        partial(whole_clip.band_db, low_hz=low_khz * 1000, high_hz=high_khz * 1000),
        ZERO,
    )


SOUND = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            Metric(
                "pesq",
                "PESQ wide band",
                "MOS-LQO",
                whole_clip.pesq_wb,
                HIGHER,
                4.6439,
                source="package pesq 0.0.4",
            ),
            Metric("mcd_db", "MCD", "dB", whole_clip.mcd_db, source="Kubichek 1993; SPTK mcep"),
            Metric(
                "mcd_increase_db",
                "MCD increase",
                "dB",
                whole_clip.mcd_increase_db,
                needs=SEEDS,
            ),
            Metric(
                "lsd_db",
                "log-spectral dist.",
                "dB",
                whole_clip.log_spectral_distance_db,
                source="Gray and Markel 1976",
            ),
            Metric("snr_db", "SNR", "dB", whole_clip.snr_db, HIGHER, 200.0),
            Metric("level_db", "level", "dB", whole_clip.level_db, ZERO),
            _band(0, 2),
            _band(2, 4),
            _band(4, 8),
            _band(8, 12),
            Metric("click_db", "click, 5 ms", "dB", local.click_db),
            Metric("pause_floor_db", "pause floor", "dB", whole_clip.pause_floor_db, ZERO),
            Metric(
                "f0_rmse_cents",
                "F0 RMSE",
                "cents",
                whole_clip.f0_rmse_cents,
                source="Boersma 1993 (autocorrelation); definition",
            ),
            Metric(
                "voicing_error_percent",
                "voicing error",
                "%",
                whole_clip.voicing_error_percent,
                source="Chu and Alwan 2009 (F0 frame error)",
            ),
            Metric(
                "thd_n_db",
                "THD+N of a vowel",
                "dB",
                whole_clip.thd_n_db,
                LOWER,
                -300.0,
                source="IEC 60268-3 THD+N, for a tone with harmonics",
                needs=TONE,
            ),
            Metric(
                "thd_n_increase_db",
                "THD+N increase",
                "dB",
                whole_clip.thd_n_increase_db,
                needs=TONE,
            ),
            Metric("peak_db", "peak", "dB", whole_clip.peak_db, ZERO),
            Metric("clipping_percent", "clipped samples", "%", whole_clip.clipping_percent),
            Metric(
                "lag_samples",
                "delay",
                "samples",
                whole_clip.lag_samples,
                ZERO,
                source="Knapp and Carter 1976 (maximum likelihood)",
            ),
            Metric("polarity", "polarity", "sign", whole_clip.polarity, HIGHER, 1.0),
            Metric(
                "stoi",
                "STOI",
                "0..1",
                whole_clip.stoi,
                HIGHER,
                1.0,
                source="Taal et al. 2011; package pystoi",
            ),
            Metric(
                "pesq_worst_position",
                "PESQ, worst position",
                "MOS-LQO",
                whole_clip.pesq_worst_position,
                HIGHER,
                4.6439,
                source="package pesq 0.0.4",
            ),
            Metric(
                "local_spectrum_db",
                "worst 60 ms, spectrum",
                "dB",
                local.local_spectrum_db,
                source="definition; librosa's mel filters",
                needs=SEEDS,
            ),
            Metric(
                "local_level_db",
                "worst 60 ms, level",
                "dB",
                local.local_level_db,
                needs=SEEDS,
            ),
            Metric("gain_variation_db", "gain variation", "dB", local.gain_variation_db),
            Metric("roughness_percent", "roughness, 10-100 Hz", "%", local.roughness_percent),
            Metric(
                "pause_peak_db",
                "loudest in a pause",
                "dB",
                local.pause_peak_db,
                needs=SEEDS,
            ),
            Metric(
                "local_pitch_cents",
                "worst 60 ms, pitch",
                "cents",
                local.local_pitch_cents,
                needs=SEEDS,
            ),
            Metric(
                "word_errors_added",
                "word errors added",
                "words",
                whole_clip.word_errors_added,
                source="pocketsphinx 5, en-us; text by kokoro_g2p.normalize",
                needs=TEXT,
            ),
            Metric(
                "words_changed",
                "words changed",
                "words",
                whole_clip.words_changed,
                source="pocketsphinx 5, en-us",
            ),
            Metric(
                "speaker_distance",
                "speaker distance",
                "%",
                whole_clip.speaker_distance,
                source="Wan et al. 2018 (GE2E); resemblyzer 0.1.4, weights of the package",
            ),
            Metric(
                "dnsmos_loss",
                "DNSMOS loss",
                "MOS",
                whole_clip.dnsmos_loss,
                source="Reddy et al. 2022; speechmos 0.0.1.1, weights of the package",
            ),
            Metric(
                "distillmos_loss",
                "DistillMOS loss",
                "MOS",
                whole_clip.distillmos_loss,
                source="Stahl and Gamper 2025; distillmos 0.9.1, weights of the package",
            ),
            _literature(13),
            _literature(24),
        )
    }
)


CURVES = ("curves",)
PROSODY = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            _prosody("tokens_changed_percent", "tokens of another duration", "%"),
            _prosody("tokens_moved_percent", "tokens off by over 25 ms", "%"),
            _prosody("length_percent", "length", "%"),
            _prosody("pause_ms", "worst pause", "ms"),
            _prosody("f0_cents", "F0", "cents", CURVES),
            _prosody("voicing_flips_percent", "voicing flips", "%", CURVES),
            _prosody("energy_percent", "energy", "%", CURVES),
            _prosody("text_percent", "text features", "%", CURVES),
            _prosody("text_token_percent", "text features, worst token", "%", CURVES),
        )
    }
)
# what a product's sound keeps of prosody; the others are of what its stages exchange
DURATIONS = tuple(name for name, metric in PROSODY.items() if not metric.needs)
METRICS = MappingProxyType({**SOUND, **PROSODY})


def measure(trial: Trial | ProsodyTrial, only: Collection[str] = ()) -> dict[str, float]:
    """Measure every metric that the trial has the parts for, or those of `only`."""
    # A metric that the trial lacks a part for is left out, and not 0.
    return {
        name: metric.function(trial)
        for name, metric in METRICS.items()
        if (not only or name in only) and metric.fits(trial)
    }


def spread(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The natural variation of one clip, from the figures of its neighbours: each metric's mean,
    and under "NAME worst" the worst of them.
    """
    # By metric the mean limits means of clips, and the worst neighbour the worst clip.
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return means | {
        f"{name} worst": METRICS[name].worst([row[name] for row in rows]) for name in means
    }
