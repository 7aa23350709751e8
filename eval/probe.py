"""The held vowel of a voice: one voiced column of a held-out sentence, drawn out at one pitch, for THD+N.

    inputs, pitch_hz = held_vowel(utterance, spoken, vocoder, seed=0)      # spoken: the sentence's own inputs

The column is the loudest voiced one; its text features and energy are repeated, F0 is the nearest pitch with whole periods in the window.
"""

import numpy as np
import torch

from core.contract import PROSODY_PER_FRAME
from core.corpus import Utterance
from eval.metrics.trial import TONE_PITCHES_HZ
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise

HELD_FRAMES = 48  # 1.2 s, of which 0.8 s are measured


@torch.no_grad()
def held_vowel(utterance: Utterance, spoken: VocoderInputs, vocoder: Vocoder, seed: int) -> tuple[VocoderInputs, float]:
    """The vowel's inputs, with the noise of `seed`, and its F0 in Hz."""
    loudest = int(np.argmax(np.where(utterance.f0_hz > 0, utterance.energy, -np.inf)))  # at 80 per second
    pitch_hz = min(TONE_PITCHES_HZ, key=lambda hz: abs(hz - float(utterance.f0_hz[loudest])))
    f0_hz = torch.full((1, PROSODY_PER_FRAME * HELD_FRAMES), pitch_hz)
    energy = torch.full_like(f0_hz, float(utterance.energy[loudest]))
    asr = spoken.asr[..., loudest // PROSODY_PER_FRAME, None].repeat(1, 1, HELD_FRAMES)  # [1, hidden, F]
    spectrum = vocoder.generator.m_source.spectrum(f0_hz, gaussian_noise(HELD_FRAMES, seed))
    return VocoderInputs(asr, f0_hz, energy, spoken.style, spectrum), pitch_hz
