"""A balanced vocoder and one with scales over time render the same; a simulation leaves no trace; nothing judged is tuned on."""

import dataclasses

import numpy as np
import pytest
import torch

from bench.random_checkpoint import random_vocoder, tiny_config
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import Conv
from kokoro_ane.quantize.balance import (
    balance_channels,
    channel_sizes,
    column_scaled,
    scale_caps,
    scaled_at_input,
    sites,
    time_scaled,
    with_time_varying_scales,
)
from kokoro_ane.quantize.corpus import calibration, heldout, require_disjoint
from kokoro_ane.quantize.layer_plan import int8_paths
from kokoro_ane.quantize.methods import METHODS, SCHEMES
from kokoro_ane.quantize.simulate import activation_grid, input_sizes, simulated
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.scaled_conv import RANGE, ColumnScale, PerColumnScaledConv, ScaledConv, TimeVaryingScale, input_factor

FRAMES = 12


@pytest.fixture(scope="module")
def vocoder() -> Vocoder:
    """Random weights whose AdaIN gains differ a hundredfold from channel to channel."""
    vocoder = random_vocoder(KokoroConfig.from_dict(tiny_config(), "test"), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in vocoder.named_parameters():
            if name.endswith("fc.bias"):
                parameter.mul_(10 ** (2 * torch.rand(parameter.shape, generator=generator) - 1))
    return vocoder


@pytest.fixture(scope="module")
def clip() -> VocoderInputs:
    """A third of a second of random features."""
    generator = torch.Generator().manual_seed(2)
    shapes = {"asr": (1, 16, FRAMES), "energy": (1, 2 * FRAMES), "style": (1, 128), "spectrum": (1, 22, 120 * FRAMES + 1)}
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return VocoderInputs(f0_hz=torch.full((1, 2 * FRAMES), 120.0), **tensors)


class TestBalance:
    @pytest.mark.parametrize("exponent", [0.5, 0.7, 1.0])
    def test_it_is_exact(self, vocoder: Vocoder, clip: VocoderInputs, exponent: float) -> None:
        balanced = balance_channels(vocoder, channel_sizes(vocoder, [clip]), exponent)
        assert snr_db(render_reference(vocoder, clip), render_reference(balanced, clip)) > 100.0
        assert snr_db(render_reference(vocoder, clip, torch.float32), render_reference(vocoder, clip)) == float("inf")

    def test_it_balances(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        """With exponent 1 and room enough every channel that a reader sees is as large."""
        before = channel_sizes(vocoder, [clip])
        after = channel_sizes(balance_channels(vocoder, before, 1.0), [clip])
        spread = {site.reader: after[site.reader].max() / after[site.reader].min() for site in sites(vocoder)}
        assert max(spread.values()) < 1.01
        assert max(before[site.reader].max() / before[site.reader].min() for site in sites(vocoder)) > 10

    def test_what_no_maker_scales_is_multiplied_before(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        balanced = balance_channels(vocoder, channel_sizes(vocoder, [clip]), 0.7)
        assert {"encode.conv1x1", "decode.0.conv1x1", "asr_res.0", "generator.noise_convs.0"} <= set(scaled_at_input(vocoder))
        for path in scaled_at_input(vocoder):
            if path == "decode.3.conv1x1":  # also takes the first upsampler's scale
                continue
            plain, ready = vocoder.get_submodule(path), balanced.get_submodule(path)
            assert isinstance(ready, ScaledConv) and ready.reciprocal is not None and float(ready.reciprocal.std()) > 0
            torch.testing.assert_close(ready.weight * ready.reciprocal, plain.weight)

    def test_exponent_zero_changes_no_weight(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        same = balance_channels(vocoder, channel_sizes(vocoder, [clip]), 0.0)
        assert all(torch.equal(a, b) for a, b in zip(vocoder.state_dict().values(), same.state_dict().values(), strict=True))

    def test_only_what_sizes_name_is_balanced(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        """Weights stay as they are where inputs stay in float: int8 weights would have the scales to hold too."""
        sizes = channel_sizes(vocoder, [clip])
        chosen = int8_paths(METHODS["w8a8"], sizes, None)
        assert {"generator.resblocks.0.convs1.0", "decode.0.conv1"} <= chosen and not {"encode.conv1", "generator.ups.1"} & chosen
        balanced = balance_channels(vocoder, {path: size for path, size in sizes.items() if path in chosen}, 0.7)
        before, after = (dict(v.named_parameters()) for v in (vocoder, balanced))
        same = {name for name in before if name in after and torch.equal(before[name], after[name])}
        assert {"encode.conv1.weight", "generator.ups.1.weight"} <= same
        assert not {"generator.resblocks.0.convs1.0.weight", "decode.0.conv1.weight"} & same
        assert snr_db(render_reference(vocoder, clip), render_reference(balanced, clip)) > 100

    def test_every_snake_and_leaky_reader_has_a_site(self, vocoder: Vocoder) -> None:
        """All convolutions but shortcuts, outer ones and the last upsampler, whose sum AdaIN's epsilon ties to its scale."""
        convolutions = {path for path, module in vocoder.named_modules() if path.split(".")[-2:-1] in (["convs1"], ["convs2"])}
        readers = [site.reader for site in sites(vocoder)]
        assert len(readers) == len(set(readers))
        assert convolutions < set(readers)
        assert {f"decode.{i}.conv{j}" for i in range(4) for j in (1, 2)} | {"generator.ups.0"} < set(readers)

    def test_bad_exponent(self, vocoder: Vocoder) -> None:
        with pytest.raises(InputError, match=r"exponent of the balance is 1\.2: 0 to 1"):
            balance_channels(vocoder, {}, 1.2)


class TestScales:
    def test_blocks_of_short_reach_render_nearly_the_same(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        """All of the last stage; of the first what reaches 5 columns of 20: kernel 3 whole, 7 and 11 without the wide dilations."""
        paths = time_scaled(vocoder)
        ready = with_time_varying_scales(vocoder, {path: cap for path, cap in scale_caps(vocoder, [clip]).items() if path in paths})
        assert len(paths) == 42 and not any("noise_convs" in path for path in paths)
        wide = {f"generator.{block}.convs1.{index}" for block in ("noise_res.0", "resblocks.1", "resblocks.2") for index in (1, 2)}
        assert {path for path, columns in paths.items() if columns == 20}.isdisjoint(wide)
        assert sum(columns == 120 for columns in paths.values()) == 6 * (1 + vocoder.generator.blocks_per_stage)
        assert all(ready.get_submodule(path).envelope.columns == columns for path, columns in paths.items())
        assert 25.0 < snr_db(render_reference(vocoder, clip), render_reference(ready, clip)) < 100.0

    def test_the_decoder_renders_the_same(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        """Every column has its own scale, and taps that are summed after it need none that is constant."""
        caps, paths = scale_caps(vocoder, [clip]), column_scaled(vocoder)
        assert set(paths) == {
            f"{block}.conv{name}" for block in ("encode", *(f"decode.{n}" for n in range(4))) for name in ("1", "2", "1x1")
        }
        ready = with_time_varying_scales(vocoder, {path: caps[path] for path in paths})
        assert all(isinstance(ready.get_submodule(path), PerColumnScaledConv) for path in paths)
        assert snr_db(render_reference(vocoder, clip), render_reference(ready, clip)) > 100.0

    @pytest.mark.parametrize("rows", [1, 3])
    def test_taps_of_one_column_each(self, rows: int) -> None:
        """Exact where neighbours differ a hundredfold, rows apart; silence stays silence; without taps it is wrong (control)."""
        conv = Conv(6, 4, 3, padding=1)
        x = torch.randn(1, 6, rows, 240, generator=torch.Generator().manual_seed(0))
        x = x * 10 ** (torch.arange(240) % 3 - 2.0) * (torch.arange(240) != 7)
        with torch.no_grad():
            exact, whole = PerColumnScaledConv(conv, floor=1e-3), ScaledConv(conv, envelope=ColumnScale(1e-3))
            torch.testing.assert_close(exact(x), conv(x), rtol=1e-5, atol=1e-6)
            assert float((whole(x) - conv(x)).abs().max()) > 0.1
        peaks = (x * input_factor(exact, x)).abs().amax(dim=1)
        torch.testing.assert_close(peaks[..., torch.arange(240) != 7], torch.ones(1, rows, 239))
        assert float(peaks[..., 7].max()) == 0.0

    def test_columns_below_the_floor_keep_its_steps(self) -> None:
        layer = PerColumnScaledConv(Conv(2, 2, 3, padding=1), floor=3.0 / RANGE)
        assert float(input_factor(layer, torch.full((1, 2, 1, 4), 1e-6)).max()) == pytest.approx(RANGE / 3.0)

    @pytest.mark.parametrize("shape", [{"dilation": 2, "padding": 2}, {"padding": 0}, {"stride": 2, "padding": 1}])
    def test_only_kernels_as_wide_as_their_input_have_taps(self, shape: dict[str, int]) -> None:
        with pytest.raises(AssertionError, match="as wide as x"):
            PerColumnScaledConv(Conv(2, 2, 3, **shape), floor=0.1)

    def test_quiet_columns_keep_their_steps(self) -> None:
        """A value a hundredfold softer is rounded a hundredfold finer: the negative control is the same layer without the envelope."""
        x = torch.cat([torch.ones(1, 4, 1, 1200), torch.full((1, 4, 1, 1200), 0.01)], dim=3) * torch.linspace(0.3, 1.0, 2400)
        errors = []
        for layer in (ScaledConv(Conv(4, 4, 3, padding=1)), ScaledConv(Conv(4, 4, 3, padding=1), envelope=TimeVaryingScale(120, 1.0))):
            before = input_factor(layer, x)
            errors.append(float((activation_grid(x * before, 1.0) / before - x)[..., -600:].abs().max()))
        assert errors[1] < errors[0] / 50

    @pytest.mark.parametrize("columns", [1201, 120 * 7 + 253])
    def test_the_envelope_lies_above(self, columns: int) -> None:
        """At every column, up to the cap; constant values have themselves for an envelope."""
        x = torch.randn(1, 8, 2, columns, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.1, 2.0, columns)
        level = TimeVaryingScale(120, 3.0)(x).exp()
        assert level.shape == (1, 1, 2, columns)
        assert float((x.abs().amax(dim=1, keepdim=True).clamp(max=3.0) / level).max()) < 1.15  # a rise is cut a little
        torch.testing.assert_close(
            TimeVaryingScale(120, 3.0)(torch.full((1, 4, 1, columns), -0.5)).exp(), torch.full((1, 1, 1, columns), 0.5)
        )


class TestCalibration:
    def test_the_bundled_sets_are_disjoint(self) -> None:
        require_disjoint(calibration(), heldout())

    @pytest.mark.parametrize("change", [{}, {"phonemes": "x"}, {"text": "Other."}])
    def test_an_overlap_is_refused(self, change: dict[str, str]) -> None:
        """The same text in other letters, or the same phonemes under another text."""
        stolen = dataclasses.replace(heldout()[3], id="stolen", **change)
        with pytest.raises(InputError, match=f"stolen is tuned on and is also judged, as {heldout()[3].id}"):
            require_disjoint([*calibration(), stolen], heldout())


class TestSimulation:
    def test_everything_is_put_back(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        before = render_reference(vocoder, clip)
        ranges = input_sizes(vocoder, [clip], 99.99)
        levels = {"generator.resblocks.0.convs1.0": SCHEMES["w8a8"], "encode.conv2": SCHEMES["p4"]}
        with simulated(vocoder, levels, ranges):
            inside = render_reference(vocoder, clip)
        assert 5.0 < snr_db(before, inside) < 80.0
        assert np.array_equal(render_reference(vocoder, clip), before)

    def test_it_is_put_back_after_an_error_too(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        before = render_reference(vocoder, clip)
        with pytest.raises(RuntimeError, match="stop"), simulated(vocoder, {"encode.conv2": SCHEMES["p4"]}, {}):
            raise RuntimeError("stop")
        assert np.array_equal(render_reference(vocoder, clip), before)
