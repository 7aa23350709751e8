"""The limits a level must keep to be released, each with its reason. Set before any result was
seen.

    for gate in gates_for("w8"): print(gate.name, gate.rule(gate.limit), gate.reason)

Change a limit only with a new reason, never because a level missed it. eval/verdict.py applies
them; docs/metrics.md states them.
"""

from dataclasses import dataclass
from types import MappingProxyType

from kokoro_ane.core.contract import PADDED, STREAMED
from kokoro_ane.eval.metrics.catalog import HIGHER, METRICS, ZERO

MEAN, WORST = "mean", "worst"  # over clips
FEWEST_CLIPS, FEWEST_VOICES = 24, 3


@dataclass(frozen=True)
class Gate:
    """One limit on one statistic of one metric: `limit`, and with `seed_multiple` no more than that
    multiple of what other seeds do.

    The smaller of the two holds: a noisy voice cannot loosen a gate, a clean one tightens it.
    """

    metric: str
    statistic: str
    limit: float
    reason: str
    seed_multiple: float | None = None

    def __post_init__(self) -> None:
        if self.seed_multiple is not None and METRICS[self.metric].best == HIGHER:
            raise ValueError(
                f"gate {self.name}: a multiple of a figure that is best when high is no limit"
            )
        if self.statistic not in (MEAN, WORST) or (
            self.statistic == MEAN and METRICS[self.metric].best == ZERO
        ):
            raise ValueError(
                f"gate {self.name}: errors of both signs cancel in a mean; a metric that is best"
                " near 0 is held by its worst"
            )

    @property
    def name(self) -> str:
        """For tables and JSON: "pesq mean"."""
        return f"{self.metric} {self.statistic}"

    @property
    def tightened_by_seeds(self) -> bool:
        """Whether other seeds can tighten it."""
        return self.seed_multiple is not None

    def limit_for(self, variation: float | None) -> float:
        """The limit under this seed variation (None: not measured)."""
        return (
            self.limit
            if self.seed_multiple is None or variation is None
            else min(self.limit, self.seed_multiple * abs(variation))
        )

    def keeps(self, value: float, limit: float) -> bool:
        """Whether `value` is on the good side of `limit`."""
        return self.margin(value, limit) >= 0

    def margin(self, value: float, limit: float) -> float:
        """How far `value` is on the good side of `limit`; negative on the bad side."""
        best = METRICS[self.metric].best
        return value - limit if best == HIGHER else limit - (abs(value) if best == ZERO else value)

    def rule(self, limit: float) -> str:
        """The rule in words: ">= 4", "within 0.5"."""
        best = METRICS[self.metric].best
        return f"{'>=' if best == HIGHER else 'within' if best == ZERO else '<='} {limit:.4g}"


_BAND_REASON = (
    "PESQ forgives a missing band (4.37 for a 4 kHz low-pass of one recording); another noise seed"
    " moves a band by 0.4 dB"
)
COMMON = (
    Gate("pesq", MEAN, 4.0, "the user's guide asks for PESQ above 4.0"),
    Gate(
        "pesq",
        WORST,
        3.7,
        "one bad sentence is heard: 38 dB of speech-correlated noise; another seed of real Kokoro"
        " falls to 3.89",
    ),
    Gate(
        "mcd_increase_db",
        MEAN,
        0.2,
        "the guide asks for less than 0.5; other seeds add 0.01, a dropped block in a voice of 8"
        " times the noise 0.25",
    ),
    Gate(
        "mcd_db",
        MEAN,
        1.0,
        "an error no larger than another seed's is inside the model's own spread; 15 % more is told"
        " apart",
        seed_multiple=1.15,
    ),
    Gate(
        "lsd_db",
        MEAN,
        2.6,
        "the same on a linear frequency axis, which does not forgive the high bands",
        seed_multiple=1.15,
    ),
    Gate(
        "level_db",
        WORST,
        0.5,
        "PESQ and MCD are blind to gain; 1 dB between sentences is just noticeable, half is left to"
        " other stages",
    ),
    *(
        Gate(f"band_{band}_khz_db", WORST, 1.0, _BAND_REASON)
        for band in ("0_2", "2_4", "4_8", "8_12")
    ),
    Gate(
        "local_spectrum_db",
        WORST,
        4.0,
        "one wrong phone of 75 ms: 5 to 20 dB on real Kokoro, where another seed has at most 1.9",
    ),
    Gate(
        "local_level_db",
        WORST,
        4.0,
        "a syllable that dips is heard; a dip of 9 dB scores 8, another seed of real Kokoro at"
        " most 2.5",
    ),
    Gate(
        "gain_variation_db",
        MEAN,
        0.35,
        "half a decibel either way, as level_db allows it; another seed of real Kokoro has 0.12",
    ),
    Gate(
        "gain_variation_db",
        WORST,
        0.6,
        "1 dB either way in one sentence is 0.64 to 0.7; another seed of real Kokoro has 0.32 at"
        " most",
    ),
    Gate(
        "roughness_percent",
        MEAN,
        1.5,
        "a level that trembles is heard as rough; 3 % at 40 Hz is 2.7, another seed of Kokoro"
        " has 0.8",
    ),
    Gate(
        "roughness_percent",
        WORST,
        4.0,
        "the same in one sentence; of ten seeds none has more than 2.6, in 0.6 s",
    ),
    Gate(
        "pause_peak_db",
        WORST,
        6.0,
        "nothing masks what fills a pause; of ten seeds of Kokoro none rises by more than 2.9, a"
        " ghost at -36 dB by 5 to 20",
    ),
    Gate(
        "local_pitch_cents",
        WORST,
        130.0,
        "a voiced place at a wrong pitch or without any: three of its six steps are 158; of ten"
        " seeds none loses more than two, 106",
    ),
    Gate(
        "click_db",
        WORST,
        12.0,
        "5 ms that lose or gain 12 dB more than any other seed are a dropout or click; another seed"
        " of real Kokoro has 9",
    ),
    Gate(
        "pause_floor_db",
        WORST,
        3.0,
        "hiss is heard where nothing masks it: 3 dB is twice the power in a pause, 40 dB hiss adds"
        " 5 to 7",
    ),
    Gate(
        "f0_rmse_cents",
        MEAN,
        20.0,
        "a fifth of a semitone; 3 % off is 51 cents, another seed of real Kokoro moves the tracker"
        " by 11",
    ),
    Gate(
        "voicing_error_percent",
        MEAN,
        3.0,
        "3 % of frames is a vowel turned to a whisper in each sentence; another seed of real Kokoro"
        " flips 1.6 %",
    ),
    Gate(
        "thd_n_increase_db",
        WORST,
        3.0,
        "an error as strong as the model's own noise on a held vowel adds 3 dB",
    ),
    Gate(
        "clipping_percent",
        WORST,
        0.01,
        "PESQ and MCD forgive flat tops; 14 samples of 6 s, over four times what another seed"
        " changes",
    ),
    Gate(
        "lag_samples",
        WORST,
        0.0,
        "durations and noise are injected: any delay is an error of the graph, whatever it sounds"
        " like",
    ),
    Gate(
        "word_errors_added",
        MEAN,
        1.0,
        "one word in each sentence more is misheard; another seed of real Kokoro adds 0.2",
    ),
    Gate(
        "words_changed",
        MEAN,
        3.0,
        "words must change no more than between seeds (1.3 a sentence), whose spread is as large"
        " again; one clip counts 5 at most",
        seed_multiple=2.0,
    ),
    Gate(
        "speaker_distance",
        MEAN,
        0.5,
        "the voice must stay: another seed of real Kokoro has 0.12 %, a dropped block 2.5 %,"
        " another person 20 % and more",
    ),
    Gate(
        "dnsmos_loss",
        MEAN,
        0.1,
        "predicted quality: seeds differ by 0.05 a clip and 0.01 on the mean, listeners by 0.1 at"
        " best",
    ),
    Gate(
        "distillmos_loss",
        MEAN,
        0.15,
        "the same by a second model: seeds differ by 0.07 a clip and 0.01 to 0.07 on the mean",
    ),
)
FP16_ONLY = (
    Gate(
        "snr_db",
        MEAN,
        45.0,
        "fp16 is the yardstick for all other levels; published fp16 builds of this vocoder reach 46"
        " to 50 dB",
    ),
    Gate(
        "pesq",
        MEAN,
        4.5,
        "a format change alone must be as near as another noise seed of a trained voice (4.4 to"
        " 4.6)",
    ),
)
EXTRA = MappingProxyType({"fp16": FP16_ONLY})  # by method; all others have the common gates only


def gates_for(method: str, layout: str = PADDED) -> tuple[Gate, ...]:
    """The gates of a compression method: the common ones, tightened where EXTRA has the same metric
    and statistic. In the streaming layout fp16 is no change of format alone: statistics are
    predicted, and samples need not be the reference's to 45 dB.
    """
    extra = tuple(
        gate for gate in EXTRA.get(method, ()) if layout not in STREAMED or gate.metric != "snr_db"
    )
    return tuple(gate for gate in COMMON if gate.name not in {e.name for e in extra}) + extra
