"""The encoder in PyTorch, cut into the two functions that are exported: upstream's four parts
before the decoder, at any padding.

    functions = torch_functions(Encoder.of(checkpoint))
    durations, hidden, text = functions.duration(input_ids, style, speed)

encoder/encoder_steps.py runs them, or the same functions of a built package.
"""

from torch import Tensor, nn

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import DEFAULT_BUCKETS, PADDING_ID
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import AdainResBlk1d, Conv, Mask, Modules
from kokoro_ane.encoder.albert import Albert
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend, Functions
from kokoro_ane.encoder.prosody import ProsodyPredictor, TextEncoder, with_style

# upstream's names, and of the attributes below
PARTS = ("bert", "bert_encoder", "predictor", "text_encoder")


class Encoder(nn.Module):
    """The four parts of upstream's KModel that stand before the decoder, under upstream's names."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.bert = Albert(config.plbert, config.n_token)
        self.bert_encoder = nn.Linear(config.plbert.hidden_size, config.hidden_dim)
        self.predictor = ProsodyPredictor(config)
        self.text_encoder = TextEncoder(config)

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Encoder":
        """The checkpoint's encoder in float32. InputError names a part that the checkpoint does not
        hold.
        """
        encoder = cls(checkpoint.config)
        # A checkpoint of the vocoder alone lacks these parts, and its user wants to know which.
        for name in PARTS:
            try:
                checkpoint.part(name)
            except InputError as problem:
                raise InputError(
                    f"{problem}: checkpoint {checkpoint.name!r} has no encoder; Kokoro-82M has one"
                ) from None
            checkpoint.load_part(getattr(encoder, name), name)
        return encoder.eval()


class DurationPredictor(nn.Module):
    """Symbols and style to durations: the blocks whose rounding shifts every frame after it. Its
    own scope, so that it can stay in fp32.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.bert, self.bert_encoder = encoder.bert, encoder.bert_encoder
        predictor = encoder.predictor
        self.duration_encoder, self.duration_lstm = predictor.text_encoder, predictor.lstm
        self.duration_proj = predictor.duration_proj

    def forward(
        self, ids: Tensor, inside: Tensor, style: Tensor, speed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """ids [1, T], inside [1, T, 1], style [1, 128], speed [1] -> durations [1, T] in frames and
        hidden [1, C, 1, T].
        """
        d_en = self.bert_encoder(self.bert(ids, inside))  # [1, T, C]
        hidden = self.duration_encoder(d_en, style, inside)
        durations = self.duration_proj(
            self.duration_lstm(with_style(hidden, style, inside), inside), speed
        )
        return durations, hidden.transpose(1, 2).unsqueeze(2)  # [1, T] and [1, C, 1, T]


class DurationFunction(nn.Module):
    """Everything that runs at the token rate. One utterance; T is the padded length."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.duration_predictor = DurationPredictor(encoder)
        self.text_encoder = encoder.text_encoder

    def forward(
        self, input_ids: Tensor, style: Tensor, speed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes: input_ids [1, T] int32, PADDING_ID in the padding; style [1, 128], the prosody
        half; speed [1].

        Returns durations [1, T] in frames, not rounded (the padding means nothing); hidden and text
        [1, C, 1, T], zero in the padding.
        """
        inside = (input_ids > PADDING_ID).to(style.dtype).unsqueeze(2)  # [1, T, 1]
        ids = input_ids.clamp(min=0)
        durations, hidden = self.duration_predictor(ids, inside, style, speed)
        return durations, hidden, self.text_encoder(ids, inside=inside)


class CurvePredictor(nn.Module):
    """One curve at twice the frame rate: three AdaIN blocks and a projection."""

    def __init__(self, blocks: Modules[AdainResBlk1d], projection: Conv) -> None:
        super().__init__()
        self.blocks, self.projection = blocks, projection

    def forward(self, x: Tensor, style: Tensor, mask: Mask) -> Tensor:
        """x [1, C, 1, F], style [1, S, 1, 1] -> [1, 2F]; the padding means nothing."""
        for block in self.blocks:
            x, mask = block(x, style, mask)
        return self.projection(x).squeeze(2).squeeze(1)  # [1, 1, 1, 2F] -> [1, 2F]


class F0Predictor(nn.Module):
    """The frame-rate LSTM and the pitch behind it. Its own scope, so that it can stay in fp32: the
    source sums F0 up to a phase.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.shared = encoder.predictor.shared
        self.curve = CurvePredictor(encoder.predictor.F0, encoder.predictor.F0_proj)

    def forward(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor, Tensor, Mask]:
        """Takes what ProsodyFunction takes -> F0 [1, 2F]; and for the energy: x [1, C, 1, F],
        style [1, S, 1, 1], mask.
        """
        rows = frames.squeeze(2).transpose(1, 2)  # [1, F, C + 1]
        inside = rows[..., -1:]  # [1, F, 1]
        # [1, C, 1, F]
        x = (
            self.shared(with_style(rows[..., :-1], style, inside), inside)
            .transpose(1, 2)
            .unsqueeze(2)
        )
        column, mask = style.unsqueeze(2).unsqueeze(3), Mask.of(frames[:, -1:])  # [1, S, 1, 1]
        return self.curve(x, column, mask), x, column, mask


class ProsodyFunction(nn.Module):
    """Everything between the alignment and the vocoder. F is the padded length."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.f0_predictor = F0Predictor(encoder)
        self.energy_predictor = CurvePredictor(encoder.predictor.N, encoder.predictor.N_proj)

    def forward(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """frames [1, C + 1, 1, F] of `packed_frames`; style [1, 128] -> F0 (Hz) and energy [1, 2F];
        their padding means nothing.
        """
        f0_hz, x, column, mask = self.f0_predictor(frames, style)
        return f0_hz, self.energy_predictor(x, column, mask)


def torch_functions(encoder: Encoder) -> Functions:
    """Both functions in PyTorch."""
    return Functions(DurationFunction(encoder).eval(), ProsodyFunction(encoder).eval())


def torch_backend(encoder: Encoder, config: KokoroConfig) -> EncoderBackend:
    """The encoder in PyTorch at exact length, for utterances that the longest bucket holds."""
    limits = AlignmentLimits.of(config, DEFAULT_BUCKETS[-1])
    return EncoderBackend(torch_functions(encoder), limits)
