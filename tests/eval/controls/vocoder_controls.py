"""The negative controls of the vocoder as rows: name, the metric that is expected to catch the
error, how it is rendered, where it was seen. They are errors that ports of this model really
shipped, or that the gates claim to catch, and changes that do no harm.

    name, metric, fault, seen = THIRTEEN[0]
    fault(reference, inputs)  # [600 F] float32
"""

import math

import numpy as np

from kokoro_ane.vocoder import draw_noise
from tests.eval.controls import waveform_faults as wave
from tests.eval.controls.faults import (
    Fault,
    alpha_doubled,
    delayed,
    dropout,
    first_block_dropped,
    frames_swapped,
    half_phase,
    int4,
    lost_duration,
    mask_dropped,
    noise_again,
    noise_of,
    of_f0,
    of_model,
    of_noise,
    of_tail,
    of_waveform,
    other_half,
    other_style,
    pulse_noise,
    real_bins,
    rendered,
    said_twice,
    voiced_everywhere,
    wrong_phone,
    wrong_voice,
)

UNSEEN_SEED = 7  # more than the seeds of the variation
UNKNOWN_RIGHT = "nobody can say which of two renders is right"
LATE_SAMPLES, ECHO_SAMPLES = 6, 720  # 0.25 ms, 30 ms
Row = tuple[str, str, Fault, str]

THIRTEEN: tuple[Row, ...] = (
    (
        "atan2 flipped at DC",
        "mcd_db",
        real_bins(0.0),
        "Core ML's atan2(0, negative) is 0: word error rate 10.38 % until found",
    ),
    (
        "overlap-add factor 1.5",
        "level_db",
        of_waveform(lambda signal: 1.5 * signal),
        "inverse STFT without normalization, in a published port",
    ),
    (
        "interior bins halved",
        "band_2_4_khz_db",
        of_tail(lambda log: log[:, 1:-1].sub_(math.log(2))),
        "one-sided factor lost in every bucket of a published port",
    ),
    (
        "DC instead of noise",
        "mcd_db",
        lambda r, x: of_noise(r, x, np.ones_like(noise_of(r, x))),
        "noise replaced by a constant, in a published port",
    ),
    (
        "mask dropped",
        "thd_n_increase_db",
        mask_dropped,
        "statistics over the padding: level moves by 3 dB in a published port",
    ),
    (
        "one sample shift",
        "lag_samples",
        of_waveform(lambda signal: wave.late(signal, at=1)),
        "off-by-one in a trim: not heard, but the graph is wrong",
    ),
    ("dropout 10 ms", "click_db", dropout, "a chunk boundary or an overflow to zero"),
    (
        "low-pass 9 kHz",
        "lsd_db",
        of_waveform(wave.band_limited),
        "a generator stage lost; at three quarters of the voice's own band",
    ),
    ("hard clipping", "clipping_percent", of_waveform(wave.clipped), "saturating int8 range"),
    (
        "F0 off by 3 %",
        "f0_rmse_cents",
        lambda r, x: of_f0(r, x, x.f0_hz * 1.03),
        "pitch drawn out at the wrong rate",
    ),
    ("wrong voice", "mcd_db", wrong_voice, "style row of another pack"),
    (
        "seed-0 pulse train",
        "mcd_db",
        pulse_noise,
        "xorshift started at 0 stays at 0, in a published port",
    ),
    (
        "int4 everything",
        "pesq",
        of_model(int4),
        "every convolution in int4, one scale per channel",
    ),
)
SHIPPED: tuple[Row, ...] = (
    (
        "wrong phone",
        "local_spectrum_db",
        wrong_phone,
        "75 ms of another phone: PESQ 4.30, MCD 0.19, shipped by the means alone",
    ),
    (
        "dipped 60 ms",
        "local_level_db",
        of_waveform(wave.dipped),
        "the loudest 60 ms 9 dB quieter: a block's scale overflowed there",
    ),
    (
        "negative real bin flipped",
        "mcd_db",
        real_bins(-1.0),
        "atan2(-0, negative) is -pi, in a published port",
    ),
    (
        "noise of seed 0 in every call",
        "lsd_db",
        noise_again,
        "a fixed seed in every call of the generator, in a published port",
    ),
    ("phase summed in fp16", "mcd_db", half_phase, "a cumulative sum on the engine"),
    (
        "NaN duration",
        "local_spectrum_db",
        lost_duration,
        "compiled programs without flexible shapes gave NaN durations",
    ),
    ("15 % of another voice", "mcd_db", other_style, "styles blended by a wrong index"),
    (
        "one boundary a sample late",
        "lag_samples",
        of_waveform(wave.late_from_the_middle),
        "off-by-one where two pieces are joined",
    ),
)
LATER: tuple[Row, ...] = (
    (
        "residual block dropped",
        "mcd_db",
        of_model(first_block_dropped),
        "a branch of a stage not added",
    ),
    ("Snake alpha doubled", "mcd_db", of_model(alpha_doubled), "a scale folded in twice"),
    ("other half of the style", "mcd_db", other_half, "columns 128 to 256 instead of 0 to 128"),
    (
        "F0 a frame late",
        "mcd_db",
        lambda r, x: of_f0(r, x, delayed(x.f0_hz, frames=1)),
        "off-by-one in the alignment of prosody",
    ),
    ("voiced everywhere", "mcd_db", voiced_everywhere, "F0 not set to 0 where unvoiced"),
    (
        "noise 18 dB louder",
        "mcd_db",
        lambda r, x: of_noise(r, x, 8 * noise_of(r, x)),
        "uniform bits not scaled",
    ),
    (
        "energy two frames late",
        "mcd_db",
        lambda r, x: rendered(r, x, energy=delayed(x.energy, frames=2)),
        "a track of another rate cut instead of drawn out",
    ),
    (
        "25 ms said twice",
        "local_spectrum_db",
        said_twice,
        "overlap counted twice where pieces are joined",
    ),
    ("three frames swapped", "local_spectrum_db", frames_swapped, "rows packed in another order"),
    (
        "constant added",
        "pause_floor_db",
        of_waveform(lambda signal: signal + 0.05 * np.abs(signal).max()),
        "a bias lost on its way",
    ),
    ("hum", "pause_floor_db", of_waveform(wave.hum), "the DC bin modulated"),
    ("click in a pause", "click_db", of_waveform(wave.clicked), "one overflow"),
    (
        "level sways",
        "gain_variation_db",
        of_waveform(wave.swaying),
        "a scale that depends on the block: 2 dB either way",
    ),
    (
        "roughness, 8 % at 27 Hz",
        "roughness_percent",
        of_waveform(lambda signal: wave.trembling(signal, 0.08, 27.0)),
        "a scale that changes from block to block",
    ),
    (
        "roughness, 3 % at 40 Hz",
        "roughness_percent",
        of_waveform(wave.trembling),
        "the same once a frame",
    ),
    (
        "ghost voice at -36 dB",
        "pause_peak_db",
        of_waveform(wave.haunted),
        "a buffer of another call not cleared",
    ),
    (
        "echo at -20 dB",
        "lsd_db",
        of_waveform(lambda signal: signal + 0.1 * wave.late(signal, ECHO_SAMPLES, ECHO_SAMPLES)),
        "state kept from another call",
    ),
    (
        "8 bits",
        "pause_floor_db",
        of_waveform(lambda signal: np.round(signal * 127) / 127),
        "samples stored too short",
    ),
)

# A metric that is named may name the change: the graph is wrong, though nobody hears it.
HARMLESS: tuple[Row, ...] = (
    (
        "another noise seed",
        "",
        lambda r, x: of_noise(r, x, draw_noise(x.frames, r.seed + UNSEEN_SEED)),
        UNKNOWN_RIGHT,
    ),
    (
        "polarity",
        "",
        of_waveform(lambda signal: -signal),
        "a sign cannot be heard: every metric but `polarity` turns the clip over first",
    ),
    (
        "0.3 dB quieter",
        "",
        of_waveform(lambda signal: 10 ** (-0.3 / 20) * signal),
        "below what a listener notices; THD+N takes the gain out, `level_db` holds it",
    ),
    (
        "0.25 ms late",
        "lag_samples",
        of_waveform(lambda signal: wave.late(signal, LATE_SAMPLES, LATE_SAMPLES)),
        "not heard; PESQ and THD+N undo it, frames of 25 ms hardly see it",
    ),
    ("hiss at -70 dB", "", of_waveform(wave.hiss), "below the model's own noise"),
)
