"""What the encoder does on the host: vocabulary, speed, alignment and its limits."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from encoder.alignment import AlignmentLimits, whole_frames
from encoder.functions import Buckets
from encoder.text_encoder import aligned
from encoder.vocab import check_speed, input_ids

VOCAB = {"a": 43, "b": 44, " ": 16, "ˈ": 156}
LIMITS = AlignmentLimits(token_frames=200, total_frames=1200)


def test_ids_stand_between_boundaries() -> None:
    assert input_ids("aˈb a", VOCAB) == (0, 43, 156, 44, 16, 43, 0)
    assert len(input_ids("a" * 510, VOCAB)) == 512


@pytest.mark.parametrize(
    ("phonemes", "message"),
    [
        ("", "nothing to say"),
        ("   ", "nothing to say"),
        ("a" * 511, "511 phonemes: at most 510"),
        ("ab☃a", r"'☃' \(U\+2603\) at 2"),
        ("1234567", r"'1' \(U\+0031\) at 0.*and 2 more"),
    ],
)
def test_bad_phonemes_say_which_and_where(phonemes: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        input_ids(phonemes, VOCAB)


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan, math.inf, 0.1, 9.0])
def test_bad_speed(speed: float) -> None:
    with pytest.raises(InputError, match=r"is outside 0\.25 to 4"):
        check_speed(speed)


@given(st.lists(st.floats(0, 190), min_size=1, max_size=6))
def test_rounding_is_upstreams(raw: list[float]) -> None:
    wanted = torch.round(torch.tensor(raw)).clamp(min=1).long()
    assert np.array_equal(whole_frames(np.array(raw, np.float32), LIMITS), wanted)


def test_half_goes_to_even_and_nothing_is_shorter_than_one() -> None:
    assert whole_frames(np.array([0.0, 0.5, 1.5, 2.5, 3.5]), LIMITS).tolist() == [1, 1, 2, 2, 4]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([1.0, math.nan], "duration of token 1 is nan"),
        ([1.0, 2.0, 201.0], r"token 2 lasts 201 frames \(5\.0 s\)"),
        ([199.0] * 7, r"lasts 1393 frames \(34\.8 s\), the longest bucket holds 1200 \(30\.0 s\): split"),
    ],
)
def test_limits_say_what_is_wrong(raw: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        whole_frames(np.array(raw), LIMITS)


def test_gather_is_the_one_hot_product() -> None:
    text, durations = torch.randn(1, 5, 1, 4), torch.tensor([2, 1, 3, 1])
    one_hot = torch.zeros(4, 7)
    one_hot[torch.repeat_interleave(torch.arange(4), durations), torch.arange(7)] = 1
    assert torch.equal(aligned(text, durations), text @ one_hot)


def test_token_bucket() -> None:
    buckets = Buckets((16, 64), (20,))
    assert [buckets.for_tokens(count) for count in (3, 16, 17, 64)] == [16, 16, 64, 64]
    with pytest.raises(InputError, match="63 phonemes: the package takes at most 62"):
        buckets.for_tokens(65)
