"""Judge a product, an executed encoder in front of an executed vocoder, against the fp32 chain,
sentence by sentence.

    result = judge_product(reference, chain(reference, encoder_backend, vocoder_package), clip)
    decided("p6+w8g", [result, ...], gates=PRODUCT_GATES).decision.verdict

Durations are known on both sides, so differences in time are undone token by token
(eval/metrics/trial.py, Retimed).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from kokoro_ane.core.contract import FRAMES_PER_SECOND
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.voices import style_row
from kokoro_ane.encoder.encoder_steps import EncoderBackend, encode
from kokoro_ane.eval.judge import ClipResult, unlike
from kokoro_ane.eval.metrics.catalog import measure
from kokoro_ane.eval.metrics.trial import Retimed, Trial
from kokoro_ane.eval.prosody_judge import ROW_STEPS, duration_figures
from kokoro_ane.eval.reference import Reference, Subject
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.quantize.speech import with_text_features
from kokoro_ane.vocoder.packing import VocoderInputs

# against the fp32 vocoder on the product's own features; the others against the fp32 chain, in time
# with it
OWN = ("pesq",)
# held against the variation
SCALED = (
    "mcd_db",
    "lsd_db",
    "f0_rmse_cents",
    "voicing_error_percent",
    "words_changed",
    "speaker_distance",
)
HEARD = (*SCALED, "level_db", "word_errors_added", "dnsmos_loss", "distillmos_loss")


@dataclass(frozen=True, eq=False)
class Rendition:
    """What a chain made of a clip: what was said with its durations, samples [600 F'] float64, the
    fp32 vocoder's of the same features.
    """

    said: Utterance
    samples: np.ndarray
    clock: np.ndarray


Make = Callable[[Utterance], Rendition]


@torch.no_grad()
def spoken(
    reference: Reference,
    backend: EncoderBackend,
    clip: Utterance,
    step: int = 0,
    faster: float = 1.0,
    other_seed: int = 0,
) -> tuple[Utterance, VocoderInputs]:
    """The clip as `backend` says it, by the style row of a text `step` phonemes longer, `faster`
    than asked, noise of seed + `other_seed`.

    Raises InputError for durations that are none.
    """
    checkpoint = reference.checkpoint
    pack, half = checkpoint.blend(clip.voice), checkpoint.config.style_dim
    row = style_row(pack, min(max(len(clip.phonemes) + step, 1), len(pack)))  # [1, 256]
    encoded = encode(
        backend, tuple(int(i) for i in clip.input_ids), row[:, half:], clip.speed * faster
    )
    durations = encoded.durations.numpy().astype(clip.durations.dtype)
    said = replace(
        clip, durations=durations, f0_hz=encoded.f0_hz[0].numpy(), energy=encoded.energy[0].numpy()
    )
    inputs = with_text_features(
        checkpoint, reference.vocoder, encoded.asr, said, reference.seed + other_seed
    )
    return said, replace(inputs, style=row[:, :half])


def chain(reference: Reference, backend: EncoderBackend, vocoder: Subject) -> Make:
    """What both make together."""

    def make(clip: Utterance) -> Rendition:
        said, inputs = spoken(reference, backend, clip)
        return Rendition(said, vocoder.render(inputs).astype(np.float64), reference.clock(inputs))

    return make


def figures_of(
    reference: Reference, clip: Utterance, said: Utterance, samples: np.ndarray, only: Sequence[str]
) -> dict[str, float]:
    """Samples [600 F'] against the fp32 chain's [600 F], in time with it; and the durations."""
    renders, durations = (
        reference.of(clip),
        (clip.durations.astype(np.int64), said.durations.astype(np.int64)),
    )
    trial = Retimed(
        renders.reference, samples, text=clip.text, known=renders.baseline, durations=durations
    )
    return measure(trial, only) | duration_figures(clip, durations[1])


def row_variation(reference: Reference, clip: Utterance) -> dict[str, float]:
    """The fp32 chain by the neighbouring style rows, each with another noise seed: every figure
    that is a scale, mean of both.
    """
    found = []
    for number, step in enumerate(ROW_STEPS, 1):
        said, inputs = spoken(reference, reference.encoder, clip, step, other_seed=number)
        found.append(figures_of(reference, clip, said, reference.clock(inputs), SCALED))
    return {name: float(np.mean([figures[name] for figures in found])) for name in found[0]}


def judge_product(
    reference: Reference, make: Make, clip: Utterance, variation: dict[str, float] | None = None
) -> ClipResult:
    """Measure one clip. Output that is no speech is a result. `variation`: the row variation, where
    it is known.
    """
    figures = dict[str, float]()
    try:
        made = make(clip)
        wrong = unlike(made.samples, made.clock)
    except InputError as problem:
        wrong = str(problem)
    if wrong is None:
        figures = measure(Trial(made.clock, made.samples), OWN) | figures_of(
            reference, clip, made.said, made.samples, HEARD
        )
    seconds = clip.frames / FRAMES_PER_SECOND
    return ClipResult(
        clip.id,
        clip.voice,
        seconds,
        clip.text,
        figures,
        variation or row_variation(reference, clip),
        wrong,
    )
