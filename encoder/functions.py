"""The encoder in PyTorch: upstream's four parts before the decoder under its keys (ALBERT, the
prosody predictor, the text encoder), cut into the two functions that are exported, at any padding.

    functions = make_torch_functions(Encoder.from_checkpoint(checkpoint))
    durations, hidden, text = functions.duration(input_ids, style, speed)

encoder/encoder_steps.py runs them, or the same functions of a built package. Source: upstream
kokoro/modules.py, ProsodyPredictor and DurationEncoder, without dropout. `inside` is 1 on the
utterance and 0 in the padding. Upstream carries the style along in `d` and `en`; it is the same row
at every step, so here it is joined where an LSTM reads it.
"""

import copy
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from kokoro_ane.core import (
    DEFAULT_BUCKETS,
    PADDING_ID,
    AdainResBlk1d,
    Checkpoint,
    Conv,
    InputError,
    KokoroConfig,
    Mask,
    Modules,
    Uninitialized,
)
from kokoro_ane.encoder.albert import Albert
from kokoro_ane.encoder.encoder_steps import AlignmentLimits, EncoderBackend, Functions
from kokoro_ane.encoder.lstm import PrefixLSTM

# the names of upstream's parts and of Encoder's attributes
PARTS = ("bert", "bert_encoder", "predictor", "text_encoder")
NORM_EPSILON = 1e-5
LEAKY_SLOPE, TEXT_NORM_EPSILON = 0.2, 1e-5  # upstream's LayerNorm and activation


def with_style(x: Tensor, style: Tensor, inside: Tensor) -> Tensor:
    """Join x [1, T, C] and the style row [1, S] at every step inside: [1, T, C + S]."""
    # `inside` is 0 in the padding, and so is the style there.
    return torch.cat([x, style.unsqueeze(1) * inside], dim=2)


class AdaLayerNorm(nn.Module):
    """Layer norm whose gain and shift come from the style."""

    def __init__(self, style_dim: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.fc = nn.Linear(style_dim, 2 * channels)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """x [1, T, C], style [1, S] -> [1, T, C]; the padding is not zero."""
        gain, shift = self.fc(style).unsqueeze(1).chunk(2, dim=2)  # [1, 1, C] each
        return (1 + gain) * F.layer_norm(x, (self.channels,), eps=NORM_EPSILON) + shift


class DurationEncoder(nn.Module):
    """LSTM and style norm, `n_layer` times."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width = config.hidden_dim
        style_dim = config.style_dim
        self.lstms = nn.ModuleList()
        for _ in range(config.n_layer):
            self.lstms.extend(
                [PrefixLSTM(width + style_dim, width // 2), AdaLayerNorm(style_dim, width)]
            )

    def forward(self, x: Tensor, style: Tensor, inside: Tensor) -> Tensor:
        """x [1, T, C] -> [1, T, C], zero in the padding."""
        for lstm, norm in zip(self.lstms[::2], self.lstms[1::2], strict=True):
            # Masked after each norm, whose shift fills the padding.
            x = norm(lstm(with_style(x, style, inside), inside), style) * inside
        return x


class DurationProjection(nn.Module):
    """Upstream's LinearNorm: key `linear_layer`."""

    def __init__(self, width: int, max_frames: int) -> None:
        super().__init__()
        self.linear_layer = nn.Linear(width, max_frames)

    def forward(self, x: Tensor, speed: Tensor) -> Tensor:
        """x [1, T, C], speed [1] -> frames of each token [1, T]: the sum of `max_frames`
        probabilities that it lasts one frame more.
        """
        return torch.sigmoid(self.linear_layer(x)).sum(dim=2) / speed


class ProsodyPredictor(nn.Module):
    """Responsibilities: 1. the layers that predict how long each symbol lasts; 2. the layers that
    predict pitch and energy at 80 per second. The functions below call them.
    """

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width = config.hidden_dim
        style_dim = config.style_dim
        self.text_encoder = DurationEncoder(config)
        self.lstm = PrefixLSTM(width + style_dim, width // 2)
        self.duration_proj = DurationProjection(width, config.max_dur)
        self.shared = PrefixLSTM(width + style_dim, width // 2)
        self.F0, self.N = (self._make_branch(width, style_dim) for _ in range(2))
        self.F0_proj, self.N_proj = (Conv(width // 2, 1, 1, weight_norm=False) for _ in range(2))

    @staticmethod
    def _make_branch(width: int, style_dim: int) -> Modules[AdainResBlk1d]:
        half = width // 2
        # The second block doubles the rate, from 40 values a second to 80.
        return Modules(
            [
                AdainResBlk1d(width, width, style_dim),
                AdainResBlk1d(width, half, style_dim, upsample=True),
                AdainResBlk1d(half, half, style_dim),
            ]
        )


class ChannelNorm(nn.Module):
    """Layer norm over the channels of [B, C, 1, T], upstream's gamma and beta."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, 1, T] -> the same shape."""
        # Affine inside the norm: coremltools makes `y gamma + beta` a batch_norm with epsilon 1e-5,
        # which is 5e-6 off.
        rows = x.permute(0, 2, 3, 1)  # [B, 1, T, C]
        return F.layer_norm(
            rows, self.gamma.shape, self.gamma, self.beta, TEXT_NORM_EPSILON
        ).permute(0, 3, 1, 2)


class TextEncoder(nn.Module):
    """Responsibilities: 1. embed symbols; 2. mix neighbours by convolution, then the sentence by a
    two-way LSTM. One column is one symbol, however long that lasts.
    """

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        width = config.hidden_dim
        kernel = config.text_encoder_kernel_size
        self.embedding = nn.Embedding(config.n_token, width)
        self.cnn = nn.ModuleList(
            nn.Sequential(
                Conv(width, width, kernel, padding=(kernel - 1) // 2),
                ChannelNorm(width),
                nn.LeakyReLU(LEAKY_SLOPE),
            )
            for _ in range(config.n_layer)
        )
        self.lstm = PrefixLSTM(width, width // 2)

    def forward(self, input_ids: Tensor, inside: Tensor | None = None) -> Tensor:
        """input_ids [B, T], inside [B, T, 1] (None: no padding) -> [B, hidden, 1, T], zero in the
        padding.
        """
        columns = None if inside is None else inside.transpose(1, 2).unsqueeze(2)  # [B, 1, 1, T]
        x = _keep_inside(
            self.embedding(input_ids).transpose(1, 2).unsqueeze(2), columns
        )  # [B, C, 1, T]
        for block in self.cnn:
            # A kernel spreads into the padding, so every block is masked again.
            x = _keep_inside(block(x), columns)
        x = self.lstm(x.squeeze(2).transpose(1, 2), inside)  # [B, T, C]
        return x.transpose(1, 2).unsqueeze(2)  # [B, C, 1, T]


def _keep_inside(x: Tensor, columns: Tensor | None) -> Tensor:
    return x if columns is None else x * columns


class Encoder(nn.Module):
    """The four parts of upstream's KModel before the decoder, under upstream's names."""

    def __init__(self, config: KokoroConfig) -> None:
        super().__init__()
        self.bert = Albert(config.plbert, config.n_token)
        self.bert_encoder = nn.Linear(config.plbert.hidden_size, config.hidden_dim)
        self.predictor = ProsodyPredictor(config)
        self.text_encoder = TextEncoder(config)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> "Encoder":
        """The checkpoint's encoder in float32. Raises InputError with the name of a part that the
        checkpoint lacks.
        """
        with Uninitialized():
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
    """Symbols and style to durations. A rounding error here shifts every later frame, so this is a
    module of its own, which can stay in fp32.
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
    """Everything at the token rate, for one utterance. T is the padded length."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.duration_predictor = DurationPredictor(encoder)
        self.text_encoder = encoder.text_encoder

    def forward(
        self, input_ids: Tensor, style: Tensor, speed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Shapes: input_ids [1, T] int32, PADDING_ID in the padding; style [1, 128], the prosody
        half; speed [1].

        Returns durations [1, T] in frames, not rounded, without meaning in the padding; hidden and
        text [1, C, 1, T], zero in the padding.
        """
        inside = (input_ids > PADDING_ID).to(style.dtype).unsqueeze(2)  # [1, T, 1]
        # Padding is negative, which no embedding takes; the mask says where it stood.
        ids = input_ids.clamp(min=0)
        durations, hidden = self.duration_predictor(ids, inside, style, speed)
        return durations, hidden, self.text_encoder(ids, inside=inside)


class CurvePredictor(nn.Module):
    """One curve at twice the frame rate: three AdaIN blocks and a projection."""

    def __init__(self, blocks: Modules[AdainResBlk1d], projection: Conv) -> None:
        super().__init__()
        self.blocks, self.projection = blocks, projection

    def forward(self, x: Tensor, style: Tensor, mask: Mask) -> Tensor:
        """x [1, C, 1, F], style [1, S, 1, 1] -> [1, 2F], without meaning in the padding."""
        for block in self.blocks:
            x, mask = block(x, style, mask)
        return self.projection(x).squeeze(2).squeeze(1)  # [1, 1, 1, 2F] -> [1, 2F]


class F0Predictor(nn.Module):
    """The LSTM at the frame rate and the pitch that is predicted from it. A module of its own,
    which can stay in fp32: the source sums F0 up to a phase.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.shared = encoder.predictor.shared
        self.curve = CurvePredictor(encoder.predictor.F0, encoder.predictor.F0_proj)

    def forward(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor, Tensor, Mask]:
        """ProsodyFunction's inputs -> F0 [1, 2F]; and for the energy x [1, C, 1, F], style [1, S,
        1, 1] and the mask.
        """
        rows = frames.squeeze(2).transpose(1, 2)  # [1, F, C + 1]
        inside = rows[..., -1:]  # [1, F, 1]
        # [1, C, 1, F]
        x = (
            self.shared(with_style(rows[..., :-1], style, inside), inside)
            .transpose(1, 2)
            .unsqueeze(2)
        )
        column = style.unsqueeze(2).unsqueeze(3)  # [1, S, 1, 1]
        # The mask is the last row.
        mask = Mask.from_values(frames[:, -1:])
        return self.curve(x, column, mask), x, column, mask


class ProsodyFunction(nn.Module):
    """Everything at the frame rate, between alignment and vocoder. F is the padded length."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.f0_predictor = F0Predictor(encoder)
        self.energy_predictor = CurvePredictor(encoder.predictor.N, encoder.predictor.N_proj)

    def forward(self, frames: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
        """frames [1, C + 1, 1, F] of `pack_frames`, style [1, 128] -> F0 (Hz) and energy [1, 2F],
        without meaning in the padding.
        """
        f0_hz, x, column, mask = self.f0_predictor(frames, style)
        return f0_hz, self.energy_predictor(x, column, mask)


def make_torch_functions(encoder: Encoder) -> Functions:
    """Both functions in PyTorch."""
    return Functions(DurationFunction(encoder).eval(), ProsodyFunction(encoder).eval())


def make_exact_functions(encoder: Encoder) -> Functions:
    """Both functions in float64, which share no rounding with what is checked. Compressed weights
    are unpacked first.
    """
    wide = copy.deepcopy(encoder)
    # A list, because modules change while they are walked.
    for module in list(wide.modules()):
        if parametrize.is_parametrized(module):
            compressed = cast(nn.ModuleDict, module.parametrizations)
            # Read before the parametrizations go, which compute them.
            weights = {name: getattr(module, name).detach() for name in compressed}
            # A copy shares its class, on which PyTorch puts the weights' properties, with the
            # original: remove_parametrizations would take them from that one, too.
            del module.parametrizations
            module.__class__ = type(module).__bases__[0]
            for name, weight in weights.items():
                setattr(module, name, nn.Parameter(weight, requires_grad=False))
    return make_torch_functions(wide.double())


def load_torch_encoder(checkpoint: Checkpoint) -> EncoderBackend:
    """The checkpoint's encoder in PyTorch. Raises InputError as Encoder.from_checkpoint."""
    return make_torch_backend(Encoder.from_checkpoint(checkpoint), checkpoint.config)


def make_torch_backend(encoder: Encoder, config: KokoroConfig) -> EncoderBackend:
    """The encoder in PyTorch at exact length, for utterances that the longest bucket holds."""
    limits = AlignmentLimits.from_config(config, DEFAULT_BUCKETS[-1])
    return EncoderBackend(make_torch_functions(encoder), limits)
