"""Judge an encoder: the executed package against the fp32 model on the judged sentences, in units
of the neighbouring style row.

    bench = ProsodyBench(checkpoint, clips)
    judgement = bench.judged("w8g", EncoderPackage(manifests).backend)
    judgement.decision.verdict, judgement.figures

The reference's durations are given to both when F0, energy and text features are compared: a frame
more in one phoneme would otherwise shift all that follow and be counted again in each.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import DEFAULT_BUCKETS, FRAMES_PER_SECOND
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.voices import style_row
from kokoro_ane.encoder.encoder_steps import (
    AlignmentLimits,
    Encoded,
    EncoderBackend,
    encode,
    whole_frames,
)
from kokoro_ane.encoder.functions import Encoder, torch_functions
from kokoro_ane.eval.gates import WORST
from kokoro_ane.eval.judge import ClipResult, Judgement, decided
from kokoro_ane.eval.prosody_gates import (  # fmt: skip
    ENERGY,
    LENGTH,
    MOVED,
    PAUSE,
    PITCH,
    PROSODY_GATES,
    PROSODY_METRICS,
    TEXT,
    TEXT_TOKEN,
    TOKENS,
    VOICING,
)
from kokoro_ane.g2p.alphabet import PAUSES
from kokoro_ane.quantize.corpus import Utterance
from kokoro_ane.vocoder.source import VOICED_ABOVE_HZ

ROW_STEPS = (1, -1)  # phonemes: the rows that are the scale
MS_PER_FRAME = 1000 / FRAMES_PER_SECOND
# below no voice speaks: the curve passes there on its way to voiceless, which VOICING counts
CENTS, PITCH_FLOOR_HZ = 1200.0, 50.0
Say = Callable[[Utterance], Encoded]  # on the alignment of the utterance's own durations


def prosody_figures(
    utterance: Utterance, wanted: Encoded, got: Encoded, durations: np.ndarray
) -> dict[str, float]:
    """Every figure of one sentence. wanted, got: on the utterance's alignment; durations [n]: what
    `got` would align by.
    """
    pitch, other = wanted.f0_hz[0].numpy(), got.f0_hz[0].numpy()  # [2F]
    voiced, also = pitch > VOICED_ABOVE_HZ, other > VOICED_ABOVE_HZ
    both = (pitch > PITCH_FLOOR_HZ) & (other > PITCH_FLOOR_HZ)
    cents = CENTS * np.log2(other[both] / pitch[both]) if both.any() else np.zeros(1)
    energy, text = wanted.energy[0].numpy(), wanted.text[0].numpy()  # [2F], [C, n]
    error = np.square(got.text[0].numpy() - text).mean(axis=0)  # [n]
    power = float(np.square(text).mean())
    return duration_figures(utterance, durations) | {
        PITCH: float(np.sqrt(np.square(cents).mean())),
        VOICING: 100 * float((voiced != also).mean()),
        ENERGY: 100
        * float(np.sqrt(np.square(got.energy[0].numpy() - energy).mean()) / energy.std()),
        TEXT: 100 * float(np.sqrt(error.mean() / power)),
        TEXT_TOKEN: 100 * float(np.sqrt(error.max() / power)),
    }


def duration_figures(utterance: Utterance, durations: np.ndarray) -> dict[str, float]:
    """Those of prosody_gates.DURATIONS: `durations` [n] against the utterance's."""
    moved = durations - utterance.durations.astype(np.int64)
    return {
        TOKENS: 100 * float((moved != 0).mean()),
        MOVED: 100 * float((np.abs(moved) > 1).mean()),
        LENGTH: 100 * abs(int(moved.sum())) / utterance.frames,
        PAUSE: MS_PER_FRAME
        * max((abs(int(moved[span].sum())) for span in pauses(utterance.phonemes)), default=0),
    }


def pauses(phonemes: str) -> list[slice]:
    """Tokens of each pause: marks and spaces side by side, at least one mark; token 0 is the
    boundary.
    """
    spans, start = [], None
    for place, symbol in enumerate((*phonemes, "")):
        if symbol and (symbol in PAUSES or symbol == " "):
            start = place if start is None else start
        elif start is not None:
            if set(phonemes[start:place]) & PAUSES:
                spans.append(slice(start + 1, place + 1))
            start = None
    return spans


class ProsodyBench:
    """Responsibilities: 1. what fp32 says, once; 2. the row variation; 3. figures and a decision
    for anything that speaks.
    """

    def __init__(self, checkpoint: Checkpoint, clips: Sequence[Utterance]) -> None:
        self.checkpoint, self.clips = checkpoint, tuple(clips)
        self.limits = AlignmentLimits.of(checkpoint.config, DEFAULT_BUCKETS[-1])
        self._wanted: dict[str, Encoded] = {}
        self.rows: dict[str, dict[str, float]] = {}

    @cached_property
    def encoder(self) -> Encoder:
        """The checkpoint's, in float32."""
        return Encoder.of(self.checkpoint)

    def style(self, clip: Utterance, step: int = 0) -> torch.Tensor:
        """[1, 128], of a text that is `step` phonemes longer."""
        pack = self.checkpoint.blend(clip.voice)
        count = min(max(len(clip.phonemes) + step, 1), len(pack))
        return style_row(pack, count)[:, self.checkpoint.config.style_dim :]

    def said_by(self, backend: EncoderBackend | None = None, step: int = 0) -> Say:
        """A speaker on the clip's own alignment: the fp32 model, or another backend; `step`: by
        another style row.
        """
        how = backend or EncoderBackend(torch_functions(self.encoder), self.limits)

        def say(clip: Utterance) -> Encoded:
            return encode(
                how,
                tuple(int(i) for i in clip.input_ids),
                self.style(clip, step),
                clip.speed,
                clip.durations,
            )

        return say

    def wanted(self, clip: Utterance) -> Encoded:
        """The fp32 model's."""
        if clip.id not in self._wanted:
            self._wanted[clip.id] = self.said_by()(clip)
        return self._wanted[clip.id]

    @torch.no_grad()
    def figures(self, clip: Utterance, say: Say) -> dict[str, float]:
        """Figures of whoever speaks. Raises InputError for durations that are none."""
        got = say(clip)
        return prosody_figures(
            clip, self.wanted(clip), got, whole_frames(got.raw.numpy(), self.limits)
        )

    def row_variation(self, clip: Utterance) -> dict[str, float]:
        """Mean over the neighbouring rows, and under "NAME worst" the worst of them."""
        if clip.id not in self.rows:
            found = [self.figures(clip, self.said_by(step=step)) for step in ROW_STEPS]
            means = {
                name: float(np.mean([figures[name] for figures in found]))
                for name in PROSODY_METRICS
            }
            self.rows[clip.id] = means | {
                f"{name} {WORST}": max(figures[name] for figures in found)
                for name in PROSODY_METRICS
            }
        return self.rows[clip.id]

    def clip(self, clip: Utterance, say: Say) -> ClipResult:
        """One sentence; output that is no prosody is a result."""
        try:
            figures, defect = self.figures(clip, say), None
            if not all(np.isfinite(list(figures.values()))):
                figures, defect = {}, "holds NaN or infinity"
        except InputError as problem:
            figures, defect = {}, str(problem)
        return ClipResult(
            clip.id,
            clip.voice,
            clip.frames / FRAMES_PER_SECOND,
            clip.text,
            figures,
            self.row_variation(clip),
            defect,
        )

    def judged(self, method: str, say: Say) -> Judgement:
        """Every clip of it."""
        return decided(method, [self.clip(clip, say) for clip in self.clips], gates=PROSODY_GATES)
