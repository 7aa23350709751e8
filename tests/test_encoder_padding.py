"""Padding changes nothing in the encoder: whatever stands there, at any length; and without the mask it would."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.comparison import real_styles
from bench.random_checkpoint import enliven_encoder, tiny_config
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PADDING_ID
from kokoro_ane.encoder.encoder_steps import packed_frames
from kokoro_ane.encoder.functions import DurationFunction, Encoder, ProsodyFunction
from kokoro_ane.encoder.lstm import PrefixLSTM

LIMIT_DB = 90.0


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    torch.manual_seed(0)
    encoder = Encoder(KokoroConfig.from_dict(tiny_config(), "test")).eval()
    enliven_encoder(encoder)
    return encoder


def inside_of(length: int, width: int) -> torch.Tensor:
    return (torch.arange(width) < length).float()[None, :, None]  # [1, T, 1]


def pack_frames(en: torch.Tensor, bucket: int) -> torch.Tensor:
    return torch.from_numpy(packed_frames(en.numpy(), bucket))


def junk(*shape: int, seed: int) -> torch.Tensor:
    """A hundred times as loud as a feature."""
    return 100 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=12, deadline=None)
@given(length=st.integers(1, 60), extra=st.integers(0, 150), seed=st.integers(0, 9))
@torch.no_grad()
def test_lstm_equals_the_packed_one(length: int, extra: int, seed: int) -> None:
    torch.manual_seed(seed)
    ours, stock = PrefixLSTM(12, 8), torch.nn.LSTM(12, 8, batch_first=True, bidirectional=True)
    stock.load_state_dict(ours.state_dict())
    x = torch.cat([torch.randn(1, length, 12), junk(1, extra, 12, seed=seed)], dim=1)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([length]), batch_first=True)
    wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(stock(packed)[0], batch_first=True, total_length=length + extra)
    assert torch.allclose(ours(x, inside_of(length, length + extra)), wanted, atol=1e-6)


@torch.no_grad()
def test_lstm_padding_is_exactly_harmless_in_fp16_weights_too() -> None:
    """Not small: zero. The backward state after 500 padded steps is the initial one, bit for bit."""
    torch.manual_seed(0)
    lstm = PrefixLSTM(12, 8)
    for parameter in lstm.parameters():
        parameter.copy_(parameter.half().float() * 8)
    x, inside = torch.zeros(1, 500, 12), torch.zeros(1, 500, 1)
    flagged = torch.cat([x, (1 - inside) * 1e4], dim=2)
    state = torch.zeros(2, 1, 8)
    _, hidden, cell = torch.lstm(flagged, (state, state), lstm._weights(), True, 1, 0.0, False, True, True)
    assert hidden.abs().max() == 0 and cell.abs().max() == 0


@settings(max_examples=8, deadline=None)
@given(length=st.integers(3, 60), extra=st.integers(1, 200), seed=st.integers(0, 9))
@torch.no_grad()
def test_duration_function_at_any_padding(encoder: Encoder, length: int, extra: int, seed: int) -> None:
    function, style = DurationFunction(encoder), real_styles()[seed % 6][:, 128:]
    ids = torch.randint(0, 178, (1, length), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
    padded = torch.cat([ids, torch.full((1, extra), PADDING_ID, dtype=torch.int32)], dim=1)
    for wanted, got in zip(function(ids, style, torch.ones(1)), function(padded, style, torch.ones(1)), strict=True):
        assert snr_db(wanted.numpy(), got[..., :length].numpy()) >= LIMIT_DB
    hidden, text = function(padded, style, torch.ones(1))[1:]
    assert hidden[..., length:].abs().max() == 0 and text[..., length:].abs().max() == 0


@settings(max_examples=8, deadline=None)
@given(frames=st.integers(2, 80), extra=st.integers(1, 300), seed=st.integers(0, 9))
@torch.no_grad()
def test_prosody_function_with_junk_in_the_padding(encoder: Encoder, frames: int, extra: int, seed: int) -> None:
    function, style = ProsodyFunction(encoder), real_styles()[seed % 6][:, 128:]
    en = torch.randn(1, 16, 1, frames, generator=torch.Generator().manual_seed(seed))
    padded = pack_frames(en, frames + extra)
    padded[:, :-1, :, frames:] = junk(1, 16, 1, extra, seed=seed)
    for wanted, got in zip(function(pack_frames(en, frames), style), function(padded, style), strict=True):
        assert snr_db(wanted.numpy(), got[:, : 2 * frames].numpy()) >= LIMIT_DB


@torch.no_grad()
def test_control_without_the_mask_it_fails(encoder: Encoder) -> None:
    """The same tokens and frames with the padding declared to be speech: every seam is far off."""
    style, one = real_styles()[0][:, 128:], torch.ones(1)
    ids = torch.randint(0, 178, (1, 20), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    unmasked = torch.cat([ids, torch.zeros(1, 40, dtype=torch.int32)], dim=1)
    for wanted, got in zip(DurationFunction(encoder)(ids, style, one), DurationFunction(encoder)(unmasked, style, one), strict=True):
        assert snr_db(wanted.numpy(), got[..., :20].numpy()) < 60
    en = torch.randn(1, 16, 1, 20, generator=torch.Generator().manual_seed(1))
    padded = pack_frames(en, 60)
    padded[:, -1] = 1
    for wanted, got in zip(ProsodyFunction(encoder)(pack_frames(en, 20), style), ProsodyFunction(encoder)(padded, style), strict=True):
        assert snr_db(wanted.numpy(), got[:, :40].numpy()) < 60
