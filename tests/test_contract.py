"""Buckets, packing and the seam tensors."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kokoro_ane.core.contract import DEFAULT_BUCKETS, FRAMES_PER_SECOND, PackedLayout, bucket_for, check_buckets
from kokoro_ane.core.errors import InputError
from kokoro_ane.vocoder.decoder import PackedVocoder
from kokoro_ane.vocoder.packing import VocoderInputs, pack


def test_default_buckets_cover_half_a_second_to_30_with_little_waste() -> None:
    assert DEFAULT_BUCKETS[0] == 0.5 * FRAMES_PER_SECOND
    assert DEFAULT_BUCKETS[-1] == 30 * FRAMES_PER_SECOND
    for frames in range(2 * FRAMES_PER_SECOND + 1, DEFAULT_BUCKETS[-1] + 1):
        bucket = bucket_for(frames, DEFAULT_BUCKETS)
        assert (bucket - frames) / bucket <= 0.25, frames


@pytest.mark.parametrize(
    ("buckets", "message"),
    [((), "empty"), ((40, 20), "20 stands after 40"), ((40, 40), "not rising"), ((1, 4), "outside"), ((40, 9000), "9000 is outside")],
)
def test_bad_bucket_lists(buckets: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_buckets(buckets)


def test_too_long() -> None:
    with pytest.raises(InputError, match=r"1201 frames \(30\.0 s\) but the largest bucket is 1200"):
        bucket_for(1201, DEFAULT_BUCKETS)


def random_inputs(frames: int, hidden: int, generator: torch.Generator) -> VocoderInputs:
    shapes = ((1, hidden, frames), (1, 2 * frames), (1, 2 * frames), (1, 128), (1, 22, 120 * frames + 1))
    return VocoderInputs(*(torch.randn(shape, generator=generator) for shape in shapes))


class Recorder(torch.nn.Module):
    """Stands where the vocoder stands and keeps what it was given."""

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        self.given = tensors
        return tensors[0]


@given(frames=st.integers(1, 50), extra=st.integers(0, 40), hidden=st.integers(1, 30), seed=st.integers(0, 9))
def test_what_is_packed_comes_out_again(frames: int, extra: int, hidden: int, seed: int) -> None:
    x = random_inputs(frames, hidden, torch.Generator().manual_seed(seed))
    layout, recorder, bucket = PackedLayout(hidden), Recorder(), frames + extra
    packed = torch.from_numpy(pack(x, bucket))
    assert packed.shape == (1, layout.channels, 1, bucket + 1)
    PackedVocoder(recorder, layout)(packed, x.style[:, :, None, None])
    asr, f0, energy, _, spectrum, mask = recorder.given
    for found, sent, size in (
        (asr, x.asr, bucket),
        (f0, x.f0_hz[:, None], 2 * bucket),
        (energy, x.energy[:, None], 2 * bucket),
        (spectrum, x.spectrum, 120 * bucket + 1),
    ):
        assert found.shape == (1, sent.shape[1], 1, size)
        assert torch.equal(found[:, :, 0, : sent.shape[-1]], sent)
        assert not found[:, :, 0, sent.shape[-1] :].any()
    assert mask.values.flatten().tolist() == [1.0] * frames + [0.0] * extra


@pytest.mark.parametrize("name", ["asr", "f0_hz", "energy", "style", "spectrum"])
def test_nan_is_named(name: str) -> None:
    x = random_inputs(5, 4, torch.Generator().manual_seed(0))
    tensors = {field: getattr(x, field).clone() for field in ("asr", "f0_hz", "energy", "style", "spectrum")}
    tensors[name][..., -1] = float("nan")
    with pytest.raises(InputError, match=f"^{name} holds"):
        VocoderInputs(**tensors)


def test_wrong_shape_is_named() -> None:
    x = random_inputs(5, 4, torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match=r"f0_hz has shape \[1, 9\], but 5 frames of asr need \[1, 10\]"):
        VocoderInputs(x.asr, x.f0_hz[:, :9], x.energy, x.style, x.spectrum)
