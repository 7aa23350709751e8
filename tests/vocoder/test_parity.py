"""The PyTorch vocoder against upstream's decoder at full size, its eager layout, and padding that
changes nothing.
"""

import copy
from functools import cache, partial
from itertools import count

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PackedLayout
from kokoro_ane.core.layers import AdaIN1d, Mask, StyleAffine
from kokoro_ane.vocoder import decoder, vocoder_stage
from kokoro_ane.vocoder.decoder import PackedVocoder, Vocoder
from kokoro_ane.vocoder.eager import EagerVocoder, compute_moments, put_channels_last
from kokoro_ane.vocoder.packing import pack
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.vocoder_stage import LIMIT_FLAT_DB, measure_fills
from tests.commands import table
from tests.parity import both_renders, padded_render, random_inputs, upstream_decoder
from tests.random_checkpoint import kokoro_config, random_vocoder, tiny_config, upstream_state


@pytest.fixture(scope="module")
def pair():
    config = KokoroConfig.from_dict(kokoro_config(), "test")
    upstream, vocoder = upstream_decoder(config, seed=0), Vocoder(config)
    vocoder.load_state_dict(upstream.state_dict())
    return upstream, vocoder.eval(), config


@pytest.fixture(scope="module")
# both renders of that many frames in float64, each made once
def exact(pair):
    return cache(lambda frames: both(pair, frames, torch.float64))


def both(pair, frames, dtype):
    upstream, vocoder, config = pair
    return both_renders(upstream, vocoder, config.hidden_dim, frames, dtype)


@pytest.mark.parametrize("frames", [7, 40, pytest.param(240, marks=pytest.mark.slow)])
def test_float64_parity(exact, frames):
    theirs, ours = exact(frames)
    assert theirs.shape == ours.shape == (600 * frames,)
    assert theirs.std() > 0.01
    assert snr_db(theirs, ours) >= 90


@pytest.mark.parametrize("frames", [40, pytest.param(240, marks=pytest.mark.slow)])
def test_float32_is_within_upstreams_own_rounding(pair, exact, frames):
    reference, _ = exact(frames)
    theirs, ours = both(pair, frames, torch.float32)
    assert snr_db(reference, ours) >= snr_db(reference, theirs)


def test_upstream_state_round_trip(pair):
    """Every load hook is undone exactly: the keys are upstream's, and loading them again gives the
    same weights.
    """
    upstream, vocoder, config = pair
    state = upstream_state(vocoder.float())
    optional = {key for key in upstream.state_dict() if key.endswith(("norm.weight", "norm.bias"))}
    assert set(state) == set(upstream.state_dict()) - optional
    again = Vocoder(config)
    again.load_state_dict(state)
    for key, value in again.state_dict().items():
        torch.testing.assert_close(value, vocoder.state_dict()[key], rtol=0, atol=2e-7)


@pytest.fixture(scope="module")
def tiny():
    config = KokoroConfig.from_dict(tiny_config(), "test")
    vocoder = random_vocoder(config, seed=0)
    with torch.no_grad():
        for layer in vocoder.modules():
            if isinstance(layer, StyleAffine):
                # gains near 1, as trained ones are: every layer is heard at the end
                layer.bias[: layer.channels] += 1
    return vocoder, EagerVocoder(vocoder), config.hidden_dim


# thirty seconds: the frame rate itself is dealt out to groups from 1,024 frames on
@example(frames=1200)
@settings(max_examples=6, deadline=None)
@given(frames=st.integers(2, 90))
def test_same_samples_at_any_length(tiny, frames):
    vocoder, fast, hidden = tiny
    x = random_inputs(vocoder, frames, hidden)
    assert snr_db(render_reference(vocoder, x), render_reference(fast, x)) >= 100


# A copy in float64; Snake freezes its quotient, in float64 then, when the mode changes
def wide(vocoder):
    return copy.deepcopy(vocoder).double().train().eval()


class TestEager:
    @pytest.mark.slow
    def test_full_size(self):
        config = KokoroConfig.from_dict(kokoro_config(), "test")
        vocoder = random_vocoder(config, seed=0)
        eager = EagerVocoder(vocoder)
        for frames in (7, 40, 200):
            x = random_inputs(vocoder, frames, config.hidden_dim)
            assert snr_db(render_reference(vocoder, x), render_reference(eager, x)) >= 100, frames

    @table(
        "name",
        """
        encode.norm1.fc.weight
        encode.conv1x1.weight
        decode.3.pool.bias
        decode.3.conv2.bias
        F0_conv.bias
        asr_res.0.bias
        generator.ups.1.bias
        generator.noise_convs.0.bias
        generator.noise_res.1.alpha1.2.alpha
        generator.resblocks.5.convs2.2.bias
        generator.resblocks.0.adain2.1.fc.weight
        generator.conv_post.bias
    """,
    )
    def test_every_kind_of_weight_is_heard(self, tiny, name):
        """A weight that is changed in the vocoder is missed by the frozen copy (negative control)
        and followed by a new one. In float64 the two are the same function: what is folded is
        exact.
        """
        vocoder, _, hidden = tiny
        changed = copy.deepcopy(vocoder)
        with torch.no_grad():
            changed.get_parameter(name).mul_(1.3).add_(0.01)
        x = random_inputs(vocoder, 9, hidden)
        expected, old, new = (
            render_reference(layout, x, torch.float64)
            for layout in (wide(changed), EagerVocoder(wide(vocoder)), EagerVocoder(wide(changed)))
        )
        assert snr_db(expected, old) < 150
        assert snr_db(expected, new) >= 250

    @pytest.mark.parametrize("steps", [2, 31, 1023, 1024, 1600, 9601])
    def test_moments(self, steps):
        torch.manual_seed(steps)
        x = put_channels_last(torch.randn(1, 6, 1, steps) * 2 + 5)
        mean, variance = compute_moments(x)
        exact = x.double().flatten(1).view(6, steps)
        torch.testing.assert_close(mean.double(), exact.mean(1), rtol=3e-6, atol=0)
        torch.testing.assert_close(variance.double(), exact.var(1, correction=0), rtol=2e-5, atol=0)

    # control: PyTorch's own statistics for channels last lose 30 dB there
    def test_moments_hold_at_thirty_seconds(self):
        torch.manual_seed(0)
        x = put_channels_last(torch.randn(1, 4, 1, 144_001) + 1)
        expected = F.instance_norm(x.double()).numpy()
        assert snr_db(expected, F.batch_norm(x, *compute_moments(x), eps=1e-5).numpy()) >= 130
        assert snr_db(expected, F.batch_norm(x, None, None, training=True).numpy()) < 115

    def test_inputs_are_left_alone(self, tiny):  # work in place stays inside
        vocoder, fast, hidden = tiny
        x = random_inputs(vocoder, 12, hidden)
        before = {
            name: getattr(x, name).clone()
            for name in ("asr", "f0_hz", "energy", "style", "spectrum")
        }
        first = render_reference(fast, x)
        assert all(torch.equal(getattr(x, name), value) for name, value in before.items())
        assert (first == render_reference(fast, x)).all()


CONFIG = KokoroConfig.from_dict(tiny_config(), "test")
BUCKETS = (20, 60)
GENERATOR_MASKS = 55  # calls of masked() in one render


@pytest.fixture(scope="module")
def smallest():
    return random_vocoder(CONFIG, seed=0), CONFIG.hidden_dim


@settings(max_examples=10, deadline=None)
@given(frames=st.integers(2, 60), extra=st.integers(0, 200))
def test_any_length_any_padding(smallest, frames, extra):
    vocoder, hidden = smallest
    x = random_inputs(vocoder, frames, hidden)
    assert snr_db(render_reference(vocoder, x), padded_render(vocoder, x, frames + extra)) >= 90


def test_control_without_the_mask_it_fails(smallest):
    vocoder, hidden = smallest
    x = random_inputs(vocoder, 30, hidden)
    assert snr_db(render_reference(vocoder, x), padded_render(vocoder, x, 60, masked=False)) < 40


@pytest.fixture(scope="module")
def full_size():  # A vocoder of Kokoro's size, 40 frames of input, and its render of them
    config = KokoroConfig.from_dict(kokoro_config(), "test")
    vocoder = random_vocoder(config, seed=0)
    x = random_inputs(vocoder, 40, config.hidden_dim)
    return vocoder, x, render_reference(vocoder, x)


@pytest.mark.slow
@pytest.mark.parametrize("bucket", [40, 44, 60, 133, 440])
def test_full_size_fills_from_9_to_100_percent(full_size, bucket):
    vocoder, x, reference = full_size
    assert snr_db(reference, padded_render(vocoder, x, bucket)) >= 90


@torch.no_grad()
def run_in_pytorch(vocoder, inputs, bucket):
    """The packed graph in float64, which is what the executed program is in exact arithmetic."""
    packed = PackedVocoder(vocoder.double(), PackedLayout(CONFIG.hidden_dim))
    features = torch.from_numpy(pack(inputs, bucket)).double()
    return (
        packed(features, inputs.style[:, :, None, None].double())
        .flatten()[: 600 * inputs.frames]
        .numpy()
    )


def padding_figure(candidate):
    vocoder = random_vocoder(CONFIG, seed=0)
    inputs = random_inputs(vocoder, BUCKETS[0], CONFIG.hidden_dim)
    renders = partial(run_in_pytorch, candidate, inputs)
    figures = measure_fills(renders, renders, render_reference(vocoder, inputs), BUCKETS, "fp16")
    return next(figure for figure in figures if figure.name.startswith("padding"))


def test_an_honest_vocoder_holds():
    assert padding_figure(random_vocoder(CONFIG, seed=0)).value > 230


@pytest.mark.parametrize(
    "name", ["decode.2.norm1", "generator.noise_res.0.adain1.0", "generator.resblocks.4.adain1.1"]
)
def test_control_one_norm_that_counts_the_padding_is_rejected(name):
    vocoder = random_vocoder(CONFIG, seed=0)
    norm = vocoder.get_submodule(name)
    norm.forward = lambda x, style, mask: AdaIN1d.forward(
        norm, x, style, Mask.from_values(mask.values * 0 + 1)
    )
    assert not padding_figure(vocoder).holds


@pytest.mark.parametrize("call", [3, 14, 30, 53, 27])
def test_control_one_mask_dropped_is_rejected(call, monkeypatch):
    """The call-th mask of the generator: what a convolution reads in either stage's branch and
    trunk; the first stage's result.
    """
    masked, calls = decoder.masked, count()

    def dropping(x, mask):
        return x if mask is None or next(calls) % GENERATOR_MASKS == call else masked(x, mask)

    monkeypatch.setattr(decoder, "masked", dropping)
    assert not padding_figure(random_vocoder(CONFIG, seed=0)).holds


@pytest.fixture
def rendered():
    """Figures of programs that are PyTorch itself plus noise, so much louder in the longer
    bucket.
    """
    vocoder = random_vocoder(CONFIG, seed=0)
    inputs = random_inputs(vocoder, 40, CONFIG.hidden_dim)
    reference = render_reference(vocoder, inputs)
    # one frame holds most of the error, as in real speech
    loud = np.where(np.arange(len(reference)) // 600 == 20, 30.0, 1.0)

    def figures(louder_db):
        def program(name, bucket):
            noise = np.random.default_rng(bucket).standard_normal(len(reference)) * 1e-4
            # the loud frame wanders by 6 dB
            jump = np.where(loud > 1, 2.0, 1.0) if bucket == BUCKETS[1] else 1.0
            return reference + noise * loud * jump * 10 ** (
                louder_db / 20 if bucket == BUCKETS[1] else 0
            ) * (name == "declared")

        rows = measure_fills(
            partial(program, "declared"), partial(program, "exact"), reference, BUCKETS, "fp16"
        )
        return {figure.name.split()[0]: figure for figure in rows}

    return figures


def test_one_frame_that_wanders_is_not_a_loss(rendered):
    assert rendered(0.0)["fp16's"].holds


def test_weights_off_every_grid_may_be_noisier_in_a_long_bucket(rendered):
    """kokoro-int8 with its weights shaken by half a step: 1.7 to 1.9 dB in a bucket of 420."""
    assert rendered(1.9)["fp16's"].holds


def test_control_noise_that_grows_with_the_bucket_is_rejected(rendered):
    assert not rendered(LIMIT_FLAT_DB + 0.5)["fp16's"].holds


def test_silence_has_a_level():
    assert vocoder_stage.measure_noise_db(np.zeros(1200)).tolist() == [-100.0, -100.0]
