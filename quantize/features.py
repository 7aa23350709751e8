"""A frozen utterance and a checkpoint to the vocoder's inputs: text encoder, alignment by gather, style row, harmonic source.

    inputs = vocoder_inputs(checkpoint, vocoder, text_encoder, utterance, seed=0)

Durations, F0 and energy come with the utterance, so nothing here depends on a prosody model and two levels see identical inputs.
"""

import torch
from torch import Tensor

from core.checkpoint import Checkpoint
from core.contract import COLUMNS_PER_FRAME, PROSODY_PER_FRAME
from core.corpus import Utterance, calibration
from core.errors import InputError
from encoder.text_encoder import TextEncoder, aligned
from vocoder.decoder import Vocoder
from vocoder.packing import VocoderInputs
from vocoder.source import gaussian_noise

STAND_INS = {"slt": "af_heart", "rms": "am_adam", "awb": "am_michael"}  # which Kokoro voice speaks a demo speaker's sentence


def text_encoder(checkpoint: Checkpoint) -> TextEncoder:
    """The checkpoint's text encoder in PyTorch."""
    return checkpoint.load_part(TextEncoder(checkpoint.config), "text_encoder")


def style_for(checkpoint: Checkpoint, voice: str, phonemes: int) -> Tensor:
    """The decoder's half of a voice's style row: [1, style_dim]; row = phoneme count - 1, as upstream."""
    pack = checkpoint.blend(voice)  # [510, 1, 256]
    return pack[min(max(phonemes, 1), len(pack)) - 1, :, : checkpoint.config.style_dim]


def voice_for(checkpoint: Checkpoint, speaker: str) -> str:
    """The voice or blend itself where the checkpoint has it, for a demo speaker the Kokoro voice that stands for it, else InputError."""
    if "," in speaker or speaker in checkpoint.voices:
        return speaker
    stand_in = STAND_INS.get(speaker, "")
    if stand_in in checkpoint.voices:
        return stand_in
    raise InputError(
        f"{checkpoint.folder / 'voices'} has neither {speaker}.pt nor {stand_in or 'a stand-in'}.pt; "
        f"it has {', '.join(checkpoint.voices) or 'none'}"
    )


@torch.no_grad()
def vocoder_inputs(checkpoint: Checkpoint, vocoder: Vocoder, encoder: TextEncoder, utterance: Utterance, seed: int) -> VocoderInputs:
    """All five tensors for one utterance, with the noise drawn from `seed`."""
    ids = torch.from_numpy(utterance.input_ids).long()[None]  # [1, T]
    asr = aligned(encoder(ids, None), torch.from_numpy(utterance.durations).long()).squeeze(2)  # [1, hidden, F]
    return with_text_features(checkpoint, vocoder, asr, utterance, seed)


@torch.no_grad()
def with_text_features(checkpoint: Checkpoint, vocoder: Vocoder, asr: Tensor, utterance: Utterance, seed: int) -> VocoderInputs:
    """The same where the text features asr [1, hidden, F] are known already."""
    f0_hz = torch.from_numpy(utterance.f0_hz)[None]
    spectrum = vocoder.generator.m_source(f0_hz, gaussian_noise(utterance.frames, seed)).squeeze(2).float()  # [1, 22, 120F + 1]
    style = style_for(checkpoint, voice_for(checkpoint, utterance.voice), len(utterance.phonemes))
    return VocoderInputs(asr, f0_hz, torch.from_numpy(utterance.energy)[None], style, spectrum)


def excerpt(inputs: VocoderInputs, start: int, frames: int) -> VocoderInputs:
    """`frames` frames from `start` on, as an utterance of its own."""
    stop = start + frames
    pair = slice(PROSODY_PER_FRAME * start, PROSODY_PER_FRAME * stop)
    columns = slice(COLUMNS_PER_FRAME * start, COLUMNS_PER_FRAME * stop + 1)
    return VocoderInputs(
        inputs.asr[..., start:stop], inputs.f0_hz[:, pair], inputs.energy[:, pair], inputs.style, inputs.spectrum[..., columns]
    )


def check_speech(checkpoint: Checkpoint, frames: int) -> VocoderInputs:
    """The first `frames` frames after the first half second of a calibration sentence: what builds are checked with."""
    inputs = vocoder_inputs(checkpoint, Vocoder.of(checkpoint), text_encoder(checkpoint), calibration()[0], seed=0)
    return excerpt(inputs, start=20, frames=frames)
