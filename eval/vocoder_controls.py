"""The negative controls of the vocoder: errors that ports of this model really shipped, or that the
gates claim to catch, and what does no harm.

    VOCODER_CONTROLS[0].subject(Setting(reference, clips)).render(clip)

Each names the metric that is expected to catch it, and where it was seen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kokoro_ane.eval import waveform_faults as wave
from kokoro_ane.eval.control_trials import Control, Setting
from kokoro_ane.eval.faults import (
    HALVED,
    LATE,
    UNNORMALIZED,
    Faults,
    Render,
    alpha_doubled,
    block_dropped,
    delayed,
    dropout,
    frames_swapped,
    half_phase,
    lost_duration,
    mask_dropped,
    noise_again,
    of_f0,
    of_noise,
    of_tail,
    of_waveform,
    other_half,
    other_style,
    pulse_noise,
    real_bins,
    said_twice,
    voiced_everywhere,
    wrong_phone,
    wrong_voice,
)
from kokoro_ane.eval.renditions import Subject, VocoderSubject
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.source import gaussian_noise

UNSEEN_SEED = 7  # more than the seeds of the variation
UNKNOWN_RIGHT = "nobody can say which of two renders is right"


@dataclass(frozen=True)
class Spoilt:
    """The fp32 vocoder with an error in it, as a Renderer."""

    faults: Faults
    change: Render

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Render [600 F] float32 with the error."""
        return self.change(self.faults, inputs)


def spoilt(change: Render) -> Callable[[Setting], Subject]:
    """Return what makes the vocoder with that change a subject."""
    return lambda setting: VocoderSubject(
        setting.reference, Spoilt(Faults.of(setting.reference), change)
    )


def error(name: str, metric: str, change: Render, seen: str) -> Control:
    """An error of the vocoder, the metric that is expected to catch it, and where it was seen."""
    return Control(name, spoilt(change), seen, metric)


def harmless(name: str, change: Render, why: str, named_by: str = "") -> Control:
    """A change of the vocoder that nobody hears, and the metric that may name it."""
    return Control(name, spoilt(change), why, named_by, rejected=False)


THIRTEEN = (
    error(
        "atan2 flipped at DC",
        "mcd_db",
        real_bins(0.0),
        "Core ML's atan2(0, negative) is 0: word error rate 10.38 % until found",
    ),
    error(
        "overlap-add factor 1.5",
        "level_db",
        of_tail(UNNORMALIZED),
        "inverse STFT without normalization, in a published port",
    ),
    error(
        "interior bins halved",
        "band_2_4_khz_db",
        of_tail(HALVED),
        "one-sided factor lost in every bucket of a published port",
    ),
    error(
        "DC instead of noise",
        "mcd_db",
        lambda f, x: of_noise(f, x, np.ones_like(f.noise(x))),
        "noise replaced by a constant, in a published port",
    ),
    error(
        "mask dropped",
        "thd_n_increase_db",
        mask_dropped,
        "statistics over the padding: level moves by 3 dB in a published port",
    ),
    error(
        "one sample shift",
        "lag_samples",
        of_tail(LATE),
        "off-by-one in a trim: not heard, but the graph is wrong",
    ),
    error("dropout 10 ms", "click_db", dropout, "a chunk boundary or an overflow to zero"),
    error(
        "low-pass 9 kHz",
        "lsd_db",
        of_waveform(wave.band_limited),
        "a generator stage lost; at three quarters of the voice's own band",
    ),
    error("hard clipping", "clipping_percent", of_waveform(wave.clipped), "saturating int8 range"),
    error(
        "F0 off by 3 %",
        "f0_rmse_cents",
        lambda f, x: of_f0(f, x, x.f0_hz * 1.03),
        "pitch drawn out at the wrong rate",
    ),
    error("wrong voice", "mcd_db", wrong_voice, "style row of another pack"),
    error(
        "seed-0 pulse train",
        "mcd_db",
        pulse_noise,
        "xorshift started at 0 stays at 0, in a published port",
    ),
    error(
        "int4 everything",
        "pesq",
        lambda f, x: render_reference(f.int4, x),
        "every convolution in int4, one scale per channel",
    ),
)
SHIPPED = (
    error(
        "wrong phone",
        "local_spectrum_db",
        wrong_phone,
        "75 ms of another phone: PESQ 4.30, MCD 0.19, shipped by the means alone",
    ),
    error(
        "dipped 60 ms",
        "local_level_db",
        of_waveform(wave.dipped),
        "the loudest 60 ms 9 dB quieter: a block's scale overflowed there",
    ),
    error(
        "negative real bin flipped",
        "mcd_db",
        real_bins(-1.0),
        "atan2(-0, negative) is -pi, in a published port",
    ),
    error(
        "noise of seed 0 in every call",
        "lsd_db",
        noise_again,
        "a fixed seed in every call of the generator, in a published port",
    ),
    error("phase summed in fp16", "mcd_db", half_phase, "a cumulative sum on the engine"),
    error(
        "NaN duration",
        "local_spectrum_db",
        lost_duration,
        "compiled programs without flexible shapes gave NaN durations",
    ),
    error("15 % of another voice", "mcd_db", other_style, "styles blended by a wrong index"),
    error(
        "one boundary a sample late",
        "lag_samples",
        of_waveform(wave.late_from_the_middle),
        "off-by-one where two pieces are joined",
    ),
)
LATER = (
    error("residual block dropped", "mcd_db", block_dropped, "a branch of a stage not added"),
    error("Snake alpha doubled", "mcd_db", alpha_doubled, "a scale folded in twice"),
    error(
        "other half of the style", "mcd_db", other_half, "columns 128 to 256 instead of 0 to 128"
    ),
    error(
        "F0 a frame late",
        "mcd_db",
        lambda f, x: of_f0(f, x, delayed(x.f0_hz, frames=1)),
        "off-by-one in the alignment of prosody",
    ),
    error("voiced everywhere", "mcd_db", voiced_everywhere, "F0 not set to 0 where unvoiced"),
    error(
        "noise 18 dB louder",
        "mcd_db",
        lambda f, x: of_noise(f, x, 8 * f.noise(x)),
        "uniform bits not scaled",
    ),
    error(
        "energy two frames late",
        "mcd_db",
        lambda f, x: f.rendered(x, energy=delayed(x.energy, frames=2)),
        "a track of another rate cut instead of drawn out",
    ),
    error(
        "25 ms said twice",
        "local_spectrum_db",
        said_twice,
        "overlap counted twice where pieces are joined",
    ),
    error(
        "three frames swapped", "local_spectrum_db", frames_swapped, "rows packed in another order"
    ),
    error("constant added", "pause_floor_db", of_waveform(wave.offset), "a bias lost on its way"),
    error("hum", "pause_floor_db", of_waveform(wave.hum), "the DC bin modulated"),
    error("click in a pause", "click_db", of_waveform(wave.clicked), "one overflow"),
    error(
        "level sways",
        "gain_variation_db",
        of_waveform(wave.swaying),
        "a scale that depends on the block: 2 dB either way",
    ),
    error(
        "roughness, 8 % at 27 Hz",
        "roughness_percent",
        of_waveform(wave.rough),
        "a scale that changes from block to block",
    ),
    error(
        "roughness, 3 % at 40 Hz",
        "roughness_percent",
        of_waveform(wave.trembling),
        "the same once a frame",
    ),
    error(
        "ghost voice at -36 dB",
        "pause_peak_db",
        of_waveform(wave.haunted),
        "a buffer of another call not cleared",
    ),
    error("echo at -20 dB", "lsd_db", of_waveform(wave.echoing), "state kept from another call"),
    error("8 bits", "pause_floor_db", of_waveform(wave.eight_bits), "samples stored too short"),
)

HARMLESS = (
    harmless(
        "another noise seed",
        lambda f, x: of_noise(f, x, gaussian_noise(x.frames, f.seed + UNSEEN_SEED)),
        UNKNOWN_RIGHT,
    ),
    harmless(
        "polarity",
        of_waveform(wave.turned_over),
        "a sign cannot be heard: every metric but `polarity` turns the clip over first",
    ),
    harmless(
        "0.3 dB quieter",
        of_waveform(wave.quieter),
        "below what a listener notices; THD+N takes the gain out, `level_db` holds it",
    ),
    harmless(
        "0.25 ms late",
        of_waveform(wave.later),
        "not heard; PESQ and THD+N undo it, frames of 25 ms hardly see it",
        "lag_samples",
    ),
    harmless("hiss at -70 dB", of_waveform(wave.hiss), "below the model's own noise"),
)
VOCODER_CONTROLS = (*THIRTEEN, *SHIPPED, *LATER, *HARMLESS)
