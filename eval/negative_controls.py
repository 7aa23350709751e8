"""The negative controls of every stage: errors that ports of this model really shipped, or that the
gates claim to catch, and what does no harm.

    CONTROLS[VOCODER]["mask dropped"].subject(Setting(reference, clips)).render(clip)

A gate that rejects nothing proves nothing, and one that rejects what is harmless is wrong in the
other direction: `kokoro-ane controls` runs them all.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.encoder.encoder_steps import EncoderBackend
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.eval import ENCODER, PRODUCT, VOCODER
from kokoro_ane.eval import waveform_faults as wave
from kokoro_ane.eval.control_trials import Control, Setting
from kokoro_ane.eval.faults import (
    HALVED,
    LATE,
    UNNORMALIZED,
    Dropped,
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
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    ROW_STEPS,
    EncoderSubject,
    ProductSubject,
    Reader,
    Rendition,
    Subject,
    VocoderSubject,
)
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.locator import Request
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import open_package, render_reference
from kokoro_ane.vocoder.source import gaussian_noise

UNSEEN_SEED = 7  # more than the seeds of the variation
FAR_ROW, FASTER = 50, 1.03  # phonemes; the speed that is asked for
# a product's vocoder and encoder, one of them rejected alone
PAIRS = (("p4", "w8g"), ("p6", "p6g"))
LOST, UNKNOWN_RIGHT = "a layer that is not loaded", "nobody can say which of two renders is right"


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


@dataclass(frozen=True)
class Altered:
    """A subject that is given another clip."""

    subject: Subject
    change: Callable[[Utterance], Utterance]

    def render(self, clip: Utterance) -> Rendition:
        """Render the changed clip."""
        return self.subject.render(self.change(clip))


@dataclass(frozen=True)
class Fp32:
    """The fp32 vocoder, with the noise of another seed."""

    reference: Reference
    other_seed: int = 0

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """Render [600 F] with the noise of the other seed."""
        if self.other_seed:
            inputs = self.reference.with_noise(inputs, self.other_seed)
        return self.reference.clock(inputs)


def blunted(setting: Setting, block: str) -> EncoderBackend:
    """The fp32 encoder without its first block of F0 or energy, or without the second layer of the
    duration encoder.
    """
    encoder = Encoder.of(setting.reference.checkpoint)
    if block == "duration":
        # The LSTM's part of x [1, T, C + S] without the style.
        width = encoder.bert_encoder.out_features
        encoder.predictor.text_encoder.lstms[2] = Dropped(lambda x, *_: x[..., :width])
    else:
        curve = encoder.predictor.F0 if block == "F0" else encoder.predictor.N
        curve[0] = Dropped(lambda x, *others: (x, others[-1]))  # type: ignore[assignment]
    return replace(setting.reference.encoder, functions=torch_functions(encoder))


@torch.no_grad()
def exchanged(setting: Setting) -> EncoderBackend:
    """The two letters that the sentences have most take each other's embeddings, in ALBERT and in
    the text encoder.
    """
    checkpoint = setting.reference.checkpoint
    encoder, vocab = Encoder.of(checkpoint), checkpoint.config.vocab
    letters = {number for symbol, number in vocab.items() if symbol.isalpha()}
    counts = Counter(int(i) for clip in setting.clips for i in clip.input_ids if int(i) in letters)
    (one, _), (other, _) = counts.most_common(2)
    for weight in (
        encoder.bert.embeddings.word_embeddings.weight,
        encoder.text_encoder.embedding.weight,
    ):
        assert isinstance(weight, Tensor)
        weight[[one, other]] = weight[[other, one]]
    return replace(setting.reference.encoder, functions=torch_functions(encoder))


def swapped(clip: Utterance) -> Utterance:
    """Exchange two different symbols behind the sentence's middle."""
    ids = clip.input_ids.copy()
    at = next((i for i in range(len(ids) // 2, len(ids) - 2) if ids[i] != ids[i + 1]), 1)
    ids[[at, at + 1]] = ids[[at + 1, at]]
    return replace(clip, input_ids=ids)


def read(setting: Setting, backend: EncoderBackend | None = None, **how: float) -> EncoderSubject:
    """Return the fp32 encoder, or another, as a subject; `how` goes to Reader."""
    return EncoderSubject(Reader(setting.reference, backend, **how))  # type: ignore[arg-type]


def spoken(
    setting: Setting, backend: EncoderBackend | None = None, other_seed: int = 0, **how: float
) -> ProductSubject:
    """Return the fp32 chain as a subject; `how` goes to Reader."""
    reader = Reader(setting.reference, backend, **how)  # type: ignore[arg-type]
    return ProductSubject(reader, Fp32(setting.reference, other_seed))


def packages(setting: Setting, method: str, level: str) -> ProductSubject | None:
    """Return the executed chain of two packages; None where one is not built."""
    request = Request(setting.reference.checkpoint, setting.build, method, encoder=level)
    if not all(path.is_file() for path in (request.vocoder, *request.encoders)):
        return None
    reader = Reader(setting.reference, EncoderPackage(request.encoders).backend)
    return ProductSubject(reader, open_package(request.vocoder))


def reading_controls(make: Callable[..., Subject]) -> tuple[Control, ...]:
    """Controls of whatever reads: `make` takes the setting, and step and faster as Reader."""
    neighbours = [
        Control(
            f"style row n {step:+d}",
            partial(make, step=step),
            "a prosody that nobody could call wrong",
            rejected=False,
        )
        for step in ROW_STEPS
    ]
    return (
        *neighbours,
        Control(f"a style row {FAR_ROW} away", partial(make, step=FAR_ROW), "row by another count"),
        Control("speed 3 % off", partial(make, faster=FASTER), "a speed that is rounded"),
    )


ENCODER_CONTROLS = (
    *reading_controls(read),
    *(
        Control(
            f"a block of {block} dropped",
            partial(lambda setting, block: read(setting, blunted(setting, block)), block=block),
            LOST,
        )
        for block in ("F0", "energy", "duration")
    ),
    Control("two tokens swapped", lambda s: Altered(read(s), swapped), "ids in another order"),
    Control(
        "two phonemes' embeddings exchanged",
        lambda s: read(s, exchanged(s)),
        "a row of a table at another's place",
    ),
    Control("fp32 itself", read, "the same model", rejected=False),
)
PRODUCT_CONTROLS = (
    *reading_controls(spoken),
    Control(
        "another noise seed",
        partial(spoken, other_seed=UNSEEN_SEED),
        UNKNOWN_RIGHT,
        rejected=False,
    ),
    Control("a block of F0 dropped", lambda s: spoken(s, blunted(s, "F0")), LOST),
    *(
        Control(
            f"vocoder {method}, encoder {level}",
            partial(packages, method=method, level=level),
            "one of them is rejected alone",
        )
        for method, level in PAIRS
    ),
)
VOCODER_CONTROLS = (*THIRTEEN, *SHIPPED, *LATER, *HARMLESS)
CONTROLS: Mapping[str, Mapping[str, Control]] = MappingProxyType(
    {
        stage: MappingProxyType({control.name: control for control in controls})
        for stage, controls in (
            (VOCODER, VOCODER_CONTROLS),
            (ENCODER, ENCODER_CONTROLS),
            (PRODUCT, PRODUCT_CONTROLS),
        )
    }
)
