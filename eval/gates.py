"""The limits that a level, an encoder or a product must keep to be released, each with its reason.
Set before any result was seen.

    for gate in select_gates("w8"): print(gate.name, gate.describe_rule(gate.limit), gate.reason)
    select_gates("p6+w8g", stage=PRODUCT)

Change a limit only with a new reason, never because a level missed it. eval/judge.py applies
them; docs/reference.md states the vocoder's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kokoro_ane.core import DEFAULT_LAYOUT, STREAMED
from kokoro_ane.eval.metrics.catalog import DURATIONS, HIGHER, METRICS, SEEDS, ZERO
from kokoro_ane.eval.subjects import ENCODER, VOCODER

MEAN, WORST = "mean", "worst"  # over clips
FEWEST_CLIPS, FEWEST_VOICES = 24, 3
FAR, TWICE = 1.3, 2.0  # natural variations


@dataclass(frozen=True)
class Gate:
    """One limit on one statistic of one metric: `limit`, and with `multiple` no more than that
    multiple of the natural variation: what other noise seeds or neighbouring style rows do.

    The smaller of the two holds: a noisy voice cannot loosen a gate, a clean one tightens it. A
    multiple of a figure that is best when high is no limit, and errors of both signs cancel in a
    mean: a metric that is best near 0 has a limit on its worst clip.
    """

    metric: str
    statistic: str
    limit: float
    reason: str
    multiple: float | None = None

    @property
    def name(self) -> str:
        """The name in tables and JSON: "pesq mean"."""
        return f"{self.metric} {self.statistic}"

    @property
    def best(self) -> str:
        """Which way the metric is better."""
        return METRICS[self.metric].best

    def compute_limit(self, variation: float | None) -> float:
        """Return the limit under this natural variation (None: not measured)."""
        if self.multiple is None or variation is None:
            return self.limit
        return min(self.limit, self.multiple * abs(variation))

    def compute_margin(self, value: float, limit: float) -> float:
        """Return how far `value` is on the good side of `limit`; negative on the bad side."""
        if self.best == HIGHER:
            return value - limit
        return limit - (abs(value) if self.best == ZERO else value)

    def describe_rule(self, limit: float) -> str:
        """Return the rule in words: ">= 4", "within 0.5"."""
        sign = {HIGHER: ">=", ZERO: "within"}.get(self.best, "<=")
        return f"{sign} {limit:.4g}"


_BAND_REASON = (
    "PESQ forgives a missing band (4.37 for a 4 kHz low-pass of one recording); another noise seed"
    " moves a band by 0.4 dB"
)
# The vocoder's, whatever the level.
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
        multiple=1.15,
    ),
    Gate(
        "lsd_db",
        MEAN,
        2.6,
        "the same on a linear frequency axis, which does not forgive the high bands",
        multiple=1.15,
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
        multiple=2.0,
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
# What is compared with other seeds place by place. Of one seed it is no less than of several,
# because each further one allows more; but for the mean, which expects the same of any number.
PLACED = (*(name for name, metric in METRICS.items() if metric.needs == SEEDS), "click_db")
NEAR = 0.5  # of a limit


def is_near_limit(figures: Mapping[str, float]) -> bool:
    """Whether a place of a clip uses so much of a limit that every other seed has to be asked."""
    return any(
        figures[gate.metric] > NEAR * gate.limit
        for gate in COMMON
        if gate.statistic == WORST and gate.metric in PLACED and gate.metric in figures
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
# The encoder's, in units of the neighbouring style row. A voice has a style for every count of
# phonemes. The fp32 model with the row of one phoneme more or less reads the sentence in a prosody
# that nobody could call wrong, so how far that is from its own row is the natural scale, measured
# in the same run on the same sentences. What the rows do not move (the text features) has a limit
# in what the vocoder makes of it, measured on the tuning set. A limit of twice the mean of both
# neighbours lets each of them pass whatever the sentences.
ENCODER_GATES = (
    Gate(
        "tokens_changed_percent",
        MEAN,
        2.5,
        "a frame more or less of one phoneme is not heard, many are another reading",
        multiple=TWICE,
    ),
    Gate(
        "tokens_moved_percent",
        MEAN,
        0.3,
        "a listener notices 10 to 40 ms of a segment (Klatt 1976); two frames are 50, allowed in"
        " one of 300",
    ),
    Gate(
        "length_percent",
        MEAN,
        1.0,
        "captions and lips hang on it; a fifth of the tempo that is heard",
        multiple=TWICE,
    ),
    Gate("length_percent", WORST, 5.0, "another tempo is heard from 5 % on (Quene 2007)"),
    Gate(
        "pause_ms",
        WORST,
        100.0,
        "a pause is told from none at 100 to 200 ms; four frames change its rank among others",
    ),
    Gate(
        "f0_cents",
        MEAN,
        40.0,
        "movements of pitch are told apart from 1.5 semitones on ('t Hart 1981): a quarter",
        multiple=TWICE,
    ),
    Gate(
        "f0_cents",
        WORST,
        300.0,
        "most listeners hear another movement of pitch at three semitones ('t Hart 1981)",
    ),
    Gate(
        "voicing_flips_percent",
        MEAN,
        1.0,
        "1 % of values is a vowel turned to a whisper in every third sentence",
        multiple=TWICE,
    ),
    Gate(
        "energy_percent", MEAN, 10.0, "a tenth of what a sentence itself varies by", multiple=TWICE
    ),
    Gate(
        "text_percent",
        MEAN,
        0.7,
        "no style moves them; 0.5 % makes MCD 0.5 to 0.9 dB in the vocoder, a neighbouring row 1.0"
        " to 1.3, and 2 % costs words",
    ),
    Gate(
        "text_token_percent",
        WORST,
        4.0,
        "one phoneme must not become another; 2 % in all of them cost PESQ 2.1 to 3.4 on the"
        " tuning set",
    ),
)
# A product's, executed from text to sound, in units of the fp32 chain's own variation: the
# neighbouring style row with another noise seed. No waveform gate can judge a product: such a row
# moves MCD further than another noise seed, and nobody could call its prosody wrong. So the whole
# chain is compared with the fp32 chain in these units; how the vocoder rendered what it was given
# is compared with the fp32 vocoder on the same features, where nothing has moved. `python -m
# tests.eval.controls --stage product` tries the factors on the tuning set: on four sentences of
# kokoro-int8 a row has 0.97 of the variation's MCD, p4 has 1.7.
PRODUCT_GATES = (
    Gate(
        "pesq", MEAN, 4.0, "what a vocoder loses on the features it is given, as for a level alone"
    ),
    Gate("pesq", WORST, 3.7, "one bad sentence is heard"),
    Gate(
        "mcd_db",
        MEAN,
        2.0,
        "no further from the fp32 chain than a prosody that nobody could call wrong",
        FAR,
    ),
    Gate(
        "lsd_db",
        MEAN,
        6.0,
        "the same on a linear frequency axis, which does not forgive the high bands",
        FAR,
    ),
    Gate(
        "f0_rmse_cents",
        MEAN,
        40.0,
        "movements of pitch are told apart from 1.5 semitones on ('t Hart 1981): a quarter",
        TWICE,
    ),
    Gate(
        "voicing_error_percent", MEAN, 6.0, "twice what a level of the vocoder may do alone", TWICE
    ),
    Gate("level_db", WORST, 1.0, "1 dB between sentences is just noticeable"),
    Gate("word_errors_added", MEAN, 1.0, "one word in each sentence more is misheard"),
    Gate(
        "words_changed",
        MEAN,
        3.0,
        "words change no more than between neighbours, whose spread is as large again",
        TWICE,
    ),
    Gate(
        "speaker_distance",
        MEAN,
        2.0,
        "the voice must stay: a dropped block has 2.5 %, another person 20 % and more",
        TWICE,
    ),
    Gate("dnsmos_loss", MEAN, 0.1, "predicted quality: listeners differ by 0.1 at best"),
    Gate("distillmos_loss", MEAN, 0.15, "the same by a second model"),
    *(gate for gate in ENCODER_GATES if gate.metric in DURATIONS),
)


def select_gates(
    method: str, layout: str = DEFAULT_LAYOUT, stage: str = VOCODER
) -> tuple[Gate, ...]:
    """The gates of a stage; the vocoder's are the common ones, tightened where EXTRA has the same
    metric and statistic. In the streaming layout fp16 is no change of format alone: statistics are
    predicted, and samples need not be the reference's to 45 dB.
    """
    if stage != VOCODER:
        return ENCODER_GATES if stage == ENCODER else PRODUCT_GATES
    extra = tuple(
        gate for gate in EXTRA.get(method, ()) if layout not in STREAMED or gate.metric != "snr_db"
    )
    return tuple(gate for gate in COMMON if gate.name not in {e.name for e in extra}) + extra
