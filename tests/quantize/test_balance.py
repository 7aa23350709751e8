"""What int8 and palettes rest on: balanced vocoders render the same, palettes are near the best,
simulations leave no trace.
"""

import dataclasses
import itertools
from functools import partial

import numpy as np
import pytest
import torch

from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import Conv, ConvTranspose
from kokoro_ane.core.manifest import level_name
from kokoro_ane.quantize.balance import (
    balance_channels,
    compute_channel_divisors,
    find_time_scaled,
    list_column_scaled,
    list_scaled_at_input,
    list_sites,
    scale_caps,
    with_time_varying_scales,
)
from kokoro_ane.quantize.compress import build_compressed
from kokoro_ane.quantize.fits import make_form
from kokoro_ane.quantize.level import Calibration, make_level
from kokoro_ane.quantize.methods import METHODS, SCHEMES, IntegerWeights, PaletteWeights
from kokoro_ane.quantize.palettes import (
    Fit,
    Unfolded,
    find_palette,
    round_matrix,
)
from kokoro_ane.quantize.plan import LayerPlan, can_be_fitted, list_vocoder_layers, plan_for
from kokoro_ane.quantize.statistics import read_activations
from kokoro_ane.quantize.stored_forms import RoundedInput
from kokoro_ane.runtimes.genuine import require_genuine
from kokoro_ane.speech.corpus import require_disjoint
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.eager import EagerVocoder, find_places
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.scaled_conv import (
    ColumnScale,
    PerColumnScaledConv,
    ScaledConv,
    TimeVaryingScale,
)
from tests.builds import recipe_of
from tests.commands import table
from tests.demo_voice import heldout
from tests.parity import input_factor
from tests.random_checkpoint import random_vocoder, tiny_config

FRAMES = 12


@pytest.fixture(scope="module")
# random weights whose AdaIN gains differ a hundredfold from channel to channel
def vocoder():
    vocoder = random_vocoder(KokoroConfig.from_dict(tiny_config(), "test"), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in vocoder.named_parameters():
            if name.endswith("fc.bias"):
                parameter.mul_(10 ** (2 * torch.rand(parameter.shape, generator=generator) - 1))
    return vocoder


@pytest.fixture(scope="module")
def clip():
    generator = torch.Generator().manual_seed(2)
    shapes = {
        "asr": (1, 16, FRAMES),
        "energy": (1, 2 * FRAMES),
        "style": (1, 128),
        "spectrum": (1, 22, 120 * FRAMES + 1),
    }
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return VocoderInputs(f0_hz=torch.full((1, 2 * FRAMES), 120.0), **tensors)


def reads(vocoder, clip):
    """What every convolution reads."""
    return read_activations(
        vocoder, [clip], [place.path for place in find_places(EagerVocoder(vocoder)).values()]
    )


def balanced_by(vocoder, clip, exponent):
    """The vocoder with all channels balanced."""
    read = reads(vocoder, clip)
    return balance_channels(vocoder, compute_channel_divisors(vocoder, read, set(read), exponent))


def inputs_by_hooks(vocoder, clip):
    """What every convolution reads [1, C, 1, S], by the vocoder itself."""
    read = {}

    def note(path, _, inputs):
        read[path] = inputs[0]

    handles = [
        module.register_forward_pre_hook(partial(note, path))
        for path, module in vocoder.named_modules()
        if isinstance(module, Conv | ConvTranspose)
    ]
    render_reference(vocoder, clip)
    for handle in handles:
        handle.remove()
    return read


def sizes_by_hooks(vocoder, clip):
    """The largest magnitude of every channel of every convolution's input."""
    read = inputs_by_hooks(vocoder, clip)
    return {path: x.abs().amax(dim=(0, 2, 3)) for path, x in read.items()}


class TestReadings:
    def test_the_eager_vocoder_reads_what_the_vocoder_reads(self, vocoder, clip):
        read, sizes = reads(vocoder, clip), sizes_by_hooks(vocoder, clip)
        assert set(sizes) - set(read) == {"generator.conv_post"}
        for path, reading in read.items():
            largest = next(iter(reading.tops.values())).values[:, 0]
            torch.testing.assert_close(largest, sizes[path], rtol=1e-3, atol=1e-5, msg=path)
            assert reading.exceeded(0.0) == pytest.approx(float(sizes[path].max()), rel=1e-3)
            half = torch.full_like(largest, 2.0)
            assert reading.exceeded(1e-4, half) == pytest.approx(reading.exceeded(1e-4) / 2)


class TestBalance:
    @pytest.mark.parametrize("exponent", [0.5, 0.7, 1.0])
    def test_it_is_exact(self, vocoder, clip, exponent):
        balanced = balanced_by(vocoder, clip, exponent)
        assert snr_db(render_reference(vocoder, clip), render_reference(balanced, clip)) > 100.0

    def test_it_balances(self, vocoder, clip):
        """With exponent 1 and room enough every channel that a reader sees is as large."""
        before = sizes_by_hooks(vocoder, clip)
        after = sizes_by_hooks(balanced_by(vocoder, clip, 1.0), clip)
        spread = {
            site.reader: after[site.reader].max() / after[site.reader].min()
            for site in list_sites(vocoder)
        }
        assert max(spread.values()) < 1.5
        assert (
            max(
                before[site.reader].max() / before[site.reader].min()
                for site in list_sites(vocoder)
            )
            > 10
        )

    def test_what_no_maker_scales_is_multiplied_before(self, vocoder, clip):
        balanced = balanced_by(vocoder, clip, 0.7)
        assert {
            "encode.conv1x1",
            "decode.0.conv1x1",
            "asr_res.0",
            "generator.noise_convs.0",
        } <= set(list_scaled_at_input(vocoder))
        for path in list_scaled_at_input(vocoder):
            if path == "decode.3.conv1x1":  # also takes the first upsampler's scale
                continue
            plain, ready = vocoder.get_submodule(path), balanced.get_submodule(path)
            assert isinstance(ready, ScaledConv)
            assert ready.reciprocal is not None
            assert float(ready.reciprocal.std()) > 0
            torch.testing.assert_close(ready.weight * ready.reciprocal, plain.weight)

    def test_only_what_sizes_name_is_balanced(self, vocoder, clip):
        """Weights stay as they are where inputs stay in float: int8 weights would have the scales
        to hold too.
        """
        plan = plan_for(METHODS["w8a8"], list_vocoder_layers(vocoder), None)
        chosen = {path for path, entry in plan.items() if entry.int8_input}
        assert {"generator.resblocks.0.convs1.0", "decode.0.conv1"} <= chosen
        assert not {"encode.conv1", "generator.ups.1"} & chosen
        divisors = compute_channel_divisors(vocoder, reads(vocoder, clip), chosen, 0.7)
        balanced = balance_channels(vocoder, divisors)
        before, after = (dict(v.named_parameters()) for v in (vocoder, balanced))
        same = {name for name in before if name in after and torch.equal(before[name], after[name])}
        assert {"encode.conv1.weight", "generator.ups.1.weight"} <= same
        assert not {"generator.resblocks.0.convs1.0.weight", "decode.0.conv1.weight"} & same
        assert snr_db(render_reference(vocoder, clip), render_reference(balanced, clip)) > 100


def caps_of(vocoder, clip):
    """The caps of scales over time where no channel is balanced."""
    read = reads(vocoder, clip)
    ones = {path: torch.ones(len(reading.size())) for path, reading in read.items()}
    return scale_caps(vocoder, read, ones)


class TestScales:
    def test_blocks_of_short_reach_render_nearly_the_same(self, vocoder, clip):
        """All of the last stage; of the first what reaches 5 columns of 20: kernel 3 whole, 7 and
        11 without the wide dilations.
        """
        paths = find_time_scaled(vocoder)
        caps = caps_of(vocoder, clip)
        ready = with_time_varying_scales(
            vocoder, {path: cap for path, cap in caps.items() if path in paths}
        )
        assert len(paths) == 42
        assert not any("noise_convs" in path for path in paths)
        wide = {
            f"generator.{block}.convs1.{index}"
            for block in ("noise_res.0", "resblocks.1", "resblocks.2")
            for index in (1, 2)
        }
        assert {path for path, columns in paths.items() if columns == 20}.isdisjoint(wide)
        assert sum(columns == 120 for columns in paths.values()) == 6 * (
            1 + vocoder.generator.blocks_per_stage
        )
        assert all(
            ready.get_submodule(path).envelope.columns == columns for path, columns in paths.items()
        )
        assert 25.0 < snr_db(render_reference(vocoder, clip), render_reference(ready, clip)) < 100.0

    def test_the_decoder_renders_the_same(self, vocoder, clip):
        """Every column has its own scale, and taps that are summed after it need none that is
        constant.
        """
        caps, paths = caps_of(vocoder, clip), list_column_scaled(vocoder)
        assert set(paths) == {
            f"{block}.conv{name}"
            for block in ("encode", *(f"decode.{n}" for n in range(4)))
            for name in ("1", "2", "1x1")
        }
        ready = with_time_varying_scales(vocoder, {path: caps[path] for path in paths})
        assert all(isinstance(ready.get_submodule(path), PerColumnScaledConv) for path in paths)
        assert snr_db(render_reference(vocoder, clip), render_reference(ready, clip)) > 100.0

    @pytest.mark.parametrize("rows", [1, 3])
    def test_taps_of_one_column_each(self, rows):
        """Exact where neighbours differ a hundredfold, rows apart; silence stays silence; without
        taps it is wrong (control).
        """
        conv = Conv(6, 4, 3, padding=1)
        x = torch.randn(1, 6, rows, 240, generator=torch.Generator().manual_seed(0))
        x = x * 10 ** (torch.arange(240) % 3 - 2.0) * (torch.arange(240) != 7)
        with torch.no_grad():
            exact, whole = (
                PerColumnScaledConv(conv, floor=1e-3),
                ScaledConv(conv, envelope=ColumnScale(1e-3)),
            )
            torch.testing.assert_close(exact(x), conv(x), rtol=1e-5, atol=1e-6)
            assert float((whole(x) - conv(x)).abs().max()) > 0.1
        peaks = (x * input_factor(exact, x)).abs().amax(dim=1)
        torch.testing.assert_close(peaks[..., torch.arange(240) != 7], torch.ones(1, rows, 239))
        assert float(peaks[..., 7].max()) == 0.0

    def test_quiet_columns_keep_their_steps(self):
        """A value a hundredfold softer is rounded a hundredfold finer: the negative control is the
        same layer without the envelope.
        """
        x = torch.cat(
            [torch.ones(1, 4, 1, 1200), torch.full((1, 4, 1, 1200), 0.01)], dim=3
        ) * torch.linspace(0.3, 1.0, 2400)
        errors = []
        for layer in (
            ScaledConv(Conv(4, 4, 3, padding=1)),
            ScaledConv(Conv(4, 4, 3, padding=1), envelope=TimeVaryingScale(120, 1.0)),
        ):
            before = input_factor(layer, x)
            step = np.array([1 / 127], np.float16)
            whole = RoundedInput(step, step)(x * before)
            errors.append(float((whole / before - x)[..., -600:].abs().max()))
        assert errors[1] < errors[0] / 50

    @pytest.mark.parametrize("columns", [1201, 120 * 7 + 253])
    def test_the_envelope_lies_above(self, columns):
        """At every column, up to the cap; constant values have themselves for an envelope."""
        x = torch.randn(
            1, 8, 2, columns, generator=torch.Generator().manual_seed(0)
        ) * torch.linspace(0.1, 2.0, columns)
        level = TimeVaryingScale(120, 3.0)(x).exp()
        assert level.shape == (1, 1, 2, columns)
        # a rise is cut a little
        assert float((x.abs().amax(dim=1, keepdim=True).clamp(max=3.0) / level).max()) < 1.15
        torch.testing.assert_close(
            TimeVaryingScale(120, 3.0)(torch.full((1, 4, 1, columns), -0.5)).exp(),
            torch.full((1, 1, 1, columns), 0.5),
        )


class TestCalibration:
    @pytest.mark.parametrize("change", [{}, {"phonemes": "x"}, {"text": "Other."}])
    def test_an_overlap_is_refused(self, change):
        """The same text in other letters, or the same phonemes under another text."""
        stolen = dataclasses.replace(heldout()[3], id="stolen", **change)
        with pytest.raises(
            InputError, match=f"stolen is tuned on and is also judged, as {heldout()[3].id}"
        ):
            require_disjoint([*heldout()[12:], stolen], heldout()[:12])


# inputs whose neighbours resemble one another, as columns of speech do: [rows, size]
def correlated(rows, size):
    steps = torch.randn(rows, size, generator=torch.Generator().manual_seed(0))
    return steps.cumsum(dim=1) / 3


def error(matrix, index, values, inputs):
    return float(((values[index] - matrix) @ inputs.T).square().mean())


class TestPalette:
    @pytest.mark.parametrize("bits", [4, 6, 8])
    def test_error_falls_with_bits_and_beats_a_uniform_table(self, bits):
        weight = np.random.default_rng(0).standard_normal((64, 32, 1, 3)).astype(np.float16)
        table, index = find_palette(weight, bits)
        assert table.shape == (2**bits,)
        assert table.dtype == np.float16
        assert (np.diff(table.astype(np.float64)) >= 0).all()
        error = np.square(table[index].astype(np.float64) - weight.reshape(-1)).mean()
        step = float(np.ptp(weight)) / (2**bits - 1)
        assert error < 0.8 * step**2 / 12


class TestUnfolded:
    @table(
        "kind options",
        """
        Conv | {"kernel": 1}
        Conv | {"kernel": 3, "padding": 1}
        Conv | {"kernel": 7, "padding": 15, "dilation": 5}
        Conv | {"kernel": 12, "padding": 3, "stride": 6}
        ConvTranspose | {"kernel": 20, "padding": 5, "stride": 10}
        ConvTranspose | {"kernel": 5, "padding": 2, "stride": 2}
    """,
    )
    @torch.no_grad()
    def test_the_product_is_the_convolution(self, kind, options):
        torch.manual_seed(0)
        layer = (Conv if kind == "Conv" else ConvTranspose)(6, 5, **options)
        x = torch.randn(1, 6, 1, 60)
        unfolded = Unfolded.from_layer(layer)
        product = (
            unfolded.gather_inputs(x) @ unfolded.matrix(layer.weight).T
        )  # [n, O] or [n, O stride]
        expected = (layer(x) - layer.bias.view(1, -1, 1, 1))[0, :, 0].T  # [S, O]
        if unfolded.transposed:  # [n, O, stride] -> [n stride, O], less the padding at both ends
            product = (
                product.view(-1, 5, unfolded.stride)
                .transpose(1, 2)
                .flatten(0, 1)[unfolded.padding :][: len(expected)]
            )
        assert torch.allclose(product, expected, atol=1e-5)


class TestRounding:
    def test_carried_errors_cost_less_only_where_inputs_resemble(self):
        matrix, inputs = (
            torch.randn(16, 300, generator=torch.Generator().manual_seed(1)),
            correlated(4000, 300),
        )
        values = torch.linspace(-3, 3, 16)
        nearest = torch.bucketize(matrix, (values[1:] + values[:-1]) / 2)
        index = round_matrix(matrix, values.expand(16, -1), inputs.T @ inputs / len(inputs))
        assert error(matrix, index, values, inputs) < 0.2 * error(matrix, nearest, values, inputs)
        assert not torch.equal(index, nearest)
        matrix, values = (
            torch.randn(8, 200, generator=torch.Generator().manual_seed(2)),
            torch.linspace(-3, 3, 16),
        )
        nearest = torch.bucketize(matrix, (values[1:] + values[:-1]) / 2)
        assert torch.equal(round_matrix(matrix, values.expand(8, -1), torch.eye(200)), nearest)
        # a table of its own for the last four rows
        each = torch.stack([values, 2 * values]).repeat_interleave(4, dim=0)
        assert torch.equal(round_matrix(matrix * each[:, :1] / -3, each, torch.eye(200)), nearest)

    def test_an_output_offsets_the_errors_of_those_whose_slopes_resemble_its_own(self):
        draws = torch.Generator().manual_seed(3)
        matrix, inputs = torch.randn(96, 300, generator=draws), correlated(4000, 300)
        moments = inputs.T @ inputs / len(inputs)
        slopes = correlated(4000, 96)
        outputs = slopes.T @ slopes / len(slopes)
        values = torch.linspace(-3, 3, 16).expand(96, -1)

        def cost(index):
            wrong = matrix - values.gather(1, index)
            return float((outputs * (wrong @ moments @ wrong.T)).sum())

        alone = round_matrix(matrix, values, moments)
        assert cost(round_matrix(matrix, values, moments, outputs)) < 0.7 * cost(alone)
        # outputs that do not resemble one another offset nothing
        assert torch.equal(round_matrix(matrix, values, moments, torch.eye(96)), alone)

    @pytest.mark.parametrize("transposed", [False, True])
    def test_fitted_integers_keep_their_scales_and_lose_less(self, transposed):
        torch.manual_seed(4)
        kernel = {"kernel": 4, "stride": 2} if transposed else {"kernel": 3}
        layer = (ConvTranspose if transposed else Conv)(40, 6, padding=1, **kernel)
        unfolded = Unfolded.from_layer(layer)
        weight = layer.weight.detach().half().numpy()
        inputs = correlated(4000, 40 * unfolded.taps)
        fit = Fit(unfolded, inputs.T @ inputs / len(inputs))
        nearest, fitted = (
            make_form(weight, how, fit, axis=int(transposed))
            for how in (IntegerWeights(), IntegerWeights(gptq=True))
        )
        assert np.array_equal(fitted.scale, nearest.scale)

        def cost(form):
            lost = torch.from_numpy(form.to_array().astype(np.float32) - weight)
            return float((inputs @ unfolded.matrix(lost).T).square().sum())

        assert cost(fitted) < 0.5 * cost(nearest)
        assert fitted.values.abs().max() == 127

    def test_a_palette_weighs_errors_by_importance(self):
        weight = np.random.default_rng(0).standard_normal((4, 1000)).astype(np.float16)
        importance = np.where(np.abs(weight) > 1.5, 100.0, 1.0)

        def cost(table, index):
            return float(
                (
                    importance.reshape(-1)
                    * (table[index].astype(np.float64) - weight.reshape(-1)) ** 2
                ).sum()
            )

        assert cost(*find_palette(weight, 4, importance)) < 0.7 * cost(*find_palette(weight, 4))


class TestPackage:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "levels"),
        [
            ("mixed", ("p4_gptq", "p6_gptq", "p6")),
            ("mixed18", ("p3g_gptq", "p4g_gptq", "p6g_gptq")),
        ],
        ids=["mixed", "mixed18"],
    )
    def test_a_fit_is_another_choice_than_the_nearest_value(self, name, levels, copied):
        checkpoint, build = copied
        recipe = recipe_of(checkpoint)
        paths = ("decode.0.conv1", "generator.ups.0", "encode.norm1.fc")
        chosen = dict(zip(paths, levels, strict=True))
        partial_recipe = dataclasses.replace(
            recipe, levels=dict.fromkeys(recipe.levels, "fp16") | chosen
        )
        manifest = build_compressed(
            METHODS[name], checkpoint, build, partial_recipe, PADDED, anew=True
        )[0][1]
        require_genuine(manifest, level_name(name, PADDED))
        assert manifest.target == METHODS[name].target or name == "mixed"
        level = make_level(checkpoint, METHODS[name], partial_recipe)
        assert set(level.forms) == set(chosen)
        weight = (
            Vocoder.from_checkpoint(checkpoint)
            .get_submodule(paths[0])
            .weight.detach()
            .half()
            .numpy()
        )
        how = dataclasses.replace(SCHEMES[levels[0]].weights, gptq=False)
        nearest = make_form(weight, how)
        assert nearest is not None
        assert not np.array_equal(level.forms[paths[0]].to_array(), nearest.to_array())

    def test_layers_that_cannot_be_fitted(self, vocoder):
        layers = list_vocoder_layers(vocoder)
        without = {layer.name for layer in layers if not layer.is_tail and not can_be_fitted(layer)}
        assert {"decode.3.pool", "F0_conv", "N_conv"} <= without
        assert "generator.ups.0" not in without

    def test_multiply_accumulates_are_counted(self, vocoder):
        layers = {layer.name: layer for layer in list_vocoder_layers(vocoder)}
        # 40 frames, 2 columns each, every column one product of each weight
        assert layers["decode.3.conv2"].macs == 80 * layers["decode.3.conv2"].elements
        assert layers["generator.ups.0"].macs == 80 * layers["generator.ups.0"].elements
        assert layers["encode.norm1.fc"].macs == layers["encode.norm1.fc"].elements
        assert layers["generator.stft"].macs > 0


def test_moments_are_means_over_columns(vocoder, clip):
    paths = ("decode.0.conv1", "generator.resblocks.0.convs1.0", "generator.ups.1")
    inputs = inputs_by_hooks(vocoder, clip)
    read = read_activations(vocoder, [clip, clip, clip], (), paths)
    for path in paths:
        columns = Unfolded.from_layer(vocoder.get_submodule(path)).gather_inputs(inputs[path])
        mean = columns.T @ columns / len(columns)
        moments = read[path].moments
        assert float((moments - mean).norm() / mean.norm()) < 1e-3, path
    weight = vocoder.decode[0].conv1.weight.detach().half().numpy()
    fit = Fit(Unfolded.from_layer(vocoder.decode[0].conv1), read[paths[0]].moments)
    form = fit(weight, PaletteWeights(4))
    assert (form.entries.shape, form.index.shape) == ((1, 16), weight.shape)
    assert all(a <= b for a, b in itertools.pairwise(form.entries[0]))
    by_rows = PaletteWeights(3, rows=4)
    form = fit(weight, by_rows)
    assert form.entries.shape == (
        len(weight) // by_rows.choose_rows(len(weight), weight[0].size),
        8,
    )
    whole = fit(weight, PaletteWeights(6, int8_entries=True))
    assert whole.entries.dtype == torch.int8
    assert np.abs(whole.to_array() - weight).max() < 0.1 * np.abs(weight).max()


def test_one_layer_of_a_calibration(vocoder, clip):
    """A level of few layers leaves the others as they are, and so the vocoder that it is of."""
    layers = {layer.name: layer for layer in list_vocoder_layers(vocoder)}
    paths = {"generator.resblocks.0.convs1.0": "w8a8", "encode.conv2": "p4"}
    plan = {
        path: LayerPlan(layers[path], SCHEMES[level].weights, SCHEMES[level].int8_input)
        for path, level in paths.items()
    }
    before = render_reference(vocoder, clip)
    settings = METHODS["w8a8"].activations
    calibration = Calibration(None, vocoder, settings, reads(vocoder, clip))
    level = calibration.make_level(METHODS["mixed"], plan)
    assert set(level.forms) == set(paths)
    inside = render_reference(level.apply(vocoder), clip)
    assert 5.0 < snr_db(before, inside) < 80.0
    assert np.array_equal(render_reference(vocoder, clip), before)
