"""The two functions of the encoder as static graphs: symbols to durations and features, aligned features to pitch and energy.

    encoder = Encoder.of(checkpoint)
    durations, hidden, text = DurationFunction(encoder)(input_ids, style, speed)
    f0_hz, energy = ProsodyFunction(encoder)(frames, style)

One flexible input each: the padding of `input_ids` is PADDING_ID, and `frames` carries its mask as the last row.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from encoder.albert import Albert
from encoder.predictor import ProsodyPredictor
from encoder.text_encoder import TextEncoder
from pipeline.config import KokoroConfig
from pipeline.contract import PADDING_ID
from pipeline.errors import InputError

if TYPE_CHECKING:
    from pipeline.checkpoint import Checkpoint

PARTS = ("bert", "bert_encoder", "predictor", "text_encoder")  # upstream's names, and of the attributes below


class Encoder(nn.Module):
    """The four parts of upstream's KModel that stand before the decoder, under upstream's names."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.bert = Albert(config.plbert, config.n_token)
        self.bert_encoder = nn.Linear(config.plbert.hidden_size, config.hidden_dim)
        self.predictor = ProsodyPredictor(config)
        self.text_encoder = TextEncoder(config)

    @classmethod
    def of(cls, checkpoint: "Checkpoint") -> "Encoder":
        """The checkpoint's encoder in float32. InputError names a part that the checkpoint does not hold."""
        encoder = cls(checkpoint.config)
        for name in PARTS:
            try:
                checkpoint.part(name)
            except InputError as problem:
                raise InputError(f"{problem}: checkpoint {checkpoint.name!r} has no encoder; hexgrad/Kokoro-82M does") from None
            checkpoint.load_part(getattr(encoder, name), name)
        return encoder.eval()


class DurationFunction(nn.Module):
    """Everything that runs at the token rate. One utterance; T is the padded length."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.bert, self.bert_encoder, self.predictor, self.text_encoder = (getattr(encoder, name) for name in PARTS)

    def forward(self, input_ids: Tensor, style: Tensor, speed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes: input_ids [1, T] int32, PADDING_ID in the padding; style [1, 128], the prosody half; speed [1].

        Returns durations [1, T] in frames, not rounded (the padding means nothing); hidden and text [1, C, 1, T], zero in the padding.
        """
        inside = (input_ids > PADDING_ID).to(style.dtype).unsqueeze(2)  # [1, T, 1]
        ids = input_ids.clamp(min=0)
        d_en = self.bert_encoder(self.bert(ids, inside))  # [1, T, C]
        hidden = self.predictor.text_encoder(d_en, style, inside)
        durations = self.predictor.durations(hidden, style, inside, speed)
        return durations, hidden.transpose(1, 2).unsqueeze(2), self.text_encoder.masked(ids, inside)


class ProsodyFunction(nn.Module):
    """Everything between the alignment and the vocoder. F is the padded length."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.predictor = encoder.predictor

    def forward(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """frames [1, C + 1, 1, F]: hidden, aligned, and the mask; style [1, 128] -> F0 (Hz) and energy [1, 2F]; the padding means nothing."""
        rows = frames.squeeze(2).transpose(1, 2)  # [1, F, C + 1]
        f0_hz, energy = self.predictor.prosody(rows[..., :-1], style, rows[..., -1:])
        return f0_hz.squeeze(1).squeeze(1), energy.squeeze(1).squeeze(1)  # [1, 2F]


def pack_frames(en: Tensor, bucket: int) -> Tensor:
    """en [1, C, 1, F] (hidden, aligned) -> [1, C + 1, 1, bucket] with its mask as the last row and zeros in the padding."""
    with_mask = torch.cat([en, torch.ones_like(en[:, :1])], dim=1)
    return torch.nn.functional.pad(with_mask, (0, bucket - en.shape[-1]))
