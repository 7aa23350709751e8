"""What int8 and palettes rest on: balanced vocoders render the same, palettes are near the best,
simulations leave no trace.
"""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import Conv, ConvTranspose
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
from kokoro_ane.quantize.compress import build_compressed
from kokoro_ane.quantize.corpus import require_disjoint
from kokoro_ane.quantize.genuine import require_genuine
from kokoro_ane.quantize.layer_plan import Layer, can_be_fitted, int8_paths, program_layers
from kokoro_ane.quantize.methods import METHODS, SCHEMES, PaletteWeights, Scheme
from kokoro_ane.quantize.palettes import (
    Unfolded,
    fits_of,
    fitted_palette,
    input_moments,
    palette,
    rounded,
)
from kokoro_ane.quantize.simulate import activation_grid, input_sizes, simulated
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.scaled_conv import (
    ColumnScale,
    PerColumnScaledConv,
    ScaledConv,
    TimeVaryingScale,
    input_factor,
)
from mlprogram import Program
from tests.builds import program_of, recipe_of
from tests.demo_voice import heldout
from tests.random_checkpoint import random_vocoder, tiny_config

FRAMES = 12


@pytest.fixture(scope="module")
# random weights whose AdaIN gains differ a hundredfold from channel to channel
def vocoder() -> Vocoder:
    vocoder = random_vocoder(KokoroConfig.from_dict(tiny_config(), "test"), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in vocoder.named_parameters():
            if name.endswith("fc.bias"):
                parameter.mul_(10 ** (2 * torch.rand(parameter.shape, generator=generator) - 1))
    return vocoder


@pytest.fixture(scope="module")
def clip() -> VocoderInputs:
    generator = torch.Generator().manual_seed(2)
    shapes = {
        "asr": (1, 16, FRAMES),
        "energy": (1, 2 * FRAMES),
        "style": (1, 128),
        "spectrum": (1, 22, 120 * FRAMES + 1),
    }
    tensors = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return VocoderInputs(f0_hz=torch.full((1, 2 * FRAMES), 120.0), **tensors)


class TestBalance:
    @pytest.mark.parametrize("exponent", [0.5, 0.7, 1.0])
    def test_it_is_exact(self, vocoder: Vocoder, clip: VocoderInputs, exponent: float) -> None:
        balanced = balance_channels(vocoder, channel_sizes(vocoder, [clip]), exponent)
        assert snr_db(render_reference(vocoder, clip), render_reference(balanced, clip)) > 100.0
        assert snr_db(
            render_reference(vocoder, clip, torch.float32), render_reference(vocoder, clip)
        ) == float("inf")

    def test_it_balances(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        """With exponent 1 and room enough every channel that a reader sees is as large."""
        before = channel_sizes(vocoder, [clip])
        after = channel_sizes(balance_channels(vocoder, before, 1.0), [clip])
        spread = {
            site.reader: after[site.reader].max() / after[site.reader].min()
            for site in sites(vocoder)
        }
        assert max(spread.values()) < 1.01
        assert (
            max(before[site.reader].max() / before[site.reader].min() for site in sites(vocoder))
            > 10
        )

    def test_what_no_maker_scales_is_multiplied_before(
        self, vocoder: Vocoder, clip: VocoderInputs
    ) -> None:
        balanced = balance_channels(vocoder, channel_sizes(vocoder, [clip]), 0.7)
        assert {
            "encode.conv1x1",
            "decode.0.conv1x1",
            "asr_res.0",
            "generator.noise_convs.0",
        } <= set(scaled_at_input(vocoder))
        for path in scaled_at_input(vocoder):
            if path == "decode.3.conv1x1":  # also takes the first upsampler's scale
                continue
            plain, ready = vocoder.get_submodule(path), balanced.get_submodule(path)
            assert isinstance(ready, ScaledConv)
            assert ready.reciprocal is not None
            assert float(ready.reciprocal.std()) > 0
            torch.testing.assert_close(ready.weight * ready.reciprocal, plain.weight)

    def test_only_what_sizes_name_is_balanced(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        """Weights stay as they are where inputs stay in float: int8 weights would have the scales
        to hold too.
        """
        sizes = channel_sizes(vocoder, [clip])
        chosen = int8_paths(METHODS["w8a8"], sizes, None)
        assert {"generator.resblocks.0.convs1.0", "decode.0.conv1"} <= chosen
        assert (
            not {
                "encode.conv1",
                "generator.ups.1",
            }
            & chosen
        )
        balanced = balance_channels(
            vocoder, {path: size for path, size in sizes.items() if path in chosen}, 0.7
        )
        before, after = (dict(v.named_parameters()) for v in (vocoder, balanced))
        same = {name for name in before if name in after and torch.equal(before[name], after[name])}
        assert {"encode.conv1.weight", "generator.ups.1.weight"} <= same
        assert not {"generator.resblocks.0.convs1.0.weight", "decode.0.conv1.weight"} & same
        assert snr_db(render_reference(vocoder, clip), render_reference(balanced, clip)) > 100


class TestScales:
    def test_blocks_of_short_reach_render_nearly_the_same(
        self, vocoder: Vocoder, clip: VocoderInputs
    ) -> None:
        """All of the last stage; of the first what reaches 5 columns of 20: kernel 3 whole, 7 and
        11 without the wide dilations.
        """
        paths = time_scaled(vocoder)
        ready = with_time_varying_scales(
            vocoder,
            {path: cap for path, cap in scale_caps(vocoder, [clip]).items() if path in paths},
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

    def test_the_decoder_renders_the_same(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        """Every column has its own scale, and taps that are summed after it need none that is
        constant.
        """
        caps, paths = scale_caps(vocoder, [clip]), column_scaled(vocoder)
        assert set(paths) == {
            f"{block}.conv{name}"
            for block in ("encode", *(f"decode.{n}" for n in range(4)))
            for name in ("1", "2", "1x1")
        }
        ready = with_time_varying_scales(vocoder, {path: caps[path] for path in paths})
        assert all(isinstance(ready.get_submodule(path), PerColumnScaledConv) for path in paths)
        assert snr_db(render_reference(vocoder, clip), render_reference(ready, clip)) > 100.0

    @pytest.mark.parametrize("rows", [1, 3])
    def test_taps_of_one_column_each(self, rows: int) -> None:
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

    def test_quiet_columns_keep_their_steps(self) -> None:
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
            errors.append(
                float((activation_grid(x * before, 1.0) / before - x)[..., -600:].abs().max())
            )
        assert errors[1] < errors[0] / 50

    @pytest.mark.parametrize("columns", [1201, 120 * 7 + 253])
    def test_the_envelope_lies_above(self, columns: int) -> None:
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
    def test_an_overlap_is_refused(self, change: dict[str, str]) -> None:
        """The same text in other letters, or the same phonemes under another text."""
        stolen = dataclasses.replace(heldout()[3], id="stolen", **change)
        with pytest.raises(
            InputError, match=f"stolen is tuned on and is also judged, as {heldout()[3].id}"
        ):
            require_disjoint([*heldout()[12:], stolen], heldout()[:12])


class TestSimulation:
    def test_everything_is_put_back(self, vocoder: Vocoder, clip: VocoderInputs) -> None:
        before, ranges = render_reference(vocoder, clip), input_sizes(vocoder, [clip], 99.99)
        levels = {"generator.resblocks.0.convs1.0": SCHEMES["w8a8"], "encode.conv2": SCHEMES["p4"]}
        with simulated(vocoder, levels, ranges):
            inside = render_reference(vocoder, clip)
        assert 5.0 < snr_db(before, inside) < 80.0
        assert np.array_equal(render_reference(vocoder, clip), before)


LAYERS = {
    **{
        f"kernel {k}, dilation {d}": lambda k=k, d=d: Conv(
            6, 5, k, padding=d * (k // 2), dilation=d
        )
        for k, d in ((1, 1), (3, 1), (7, 5))
    },
    "stride 6": lambda: Conv(6, 5, 12, stride=6, padding=3),
    "transposed, kernel of two strides": lambda: ConvTranspose(6, 5, 20, stride=10, padding=5),
    "transposed, kernel of two and a half": lambda: ConvTranspose(6, 5, 5, stride=2, padding=2),
}


# inputs whose neighbours resemble one another, as columns of speech do: [rows, size]
def correlated(rows: int, size: int) -> Tensor:
    steps = torch.randn(rows, size, generator=torch.Generator().manual_seed(0))
    return steps.cumsum(dim=1) / 3


def error(matrix: Tensor, index: Tensor, values: Tensor, inputs: Tensor) -> float:
    return float(((values[index] - matrix) @ inputs.T).square().mean())


def stored(program: Program, layer: Layer) -> np.ndarray:
    name = next(op.inputs["weight"][0] for op in program.operations if op.name == layer.op_name)
    return np.asarray(program.constant(name), np.float32)


class TestPalette:
    @pytest.mark.parametrize("bits", [4, 6, 8])
    def test_error_falls_with_bits_and_beats_a_uniform_table(self, bits: int) -> None:
        weight = np.random.default_rng(0).standard_normal((64, 32, 1, 3)).astype(np.float16)
        table, index = palette(weight, bits)
        assert table.shape == (2**bits,)
        assert table.dtype == np.float16
        assert (np.diff(table.astype(np.float64)) >= 0).all()
        error = np.square(table[index].astype(np.float64) - weight.reshape(-1)).mean()
        step = float(np.ptp(weight)) / (2**bits - 1)
        assert error < 0.8 * step**2 / 12


class TestUnfolded:
    @pytest.mark.parametrize("name", LAYERS)
    @torch.no_grad()
    def test_the_product_is_the_convolution(self, name: str) -> None:
        torch.manual_seed(0)
        layer, x = LAYERS[name](), torch.randn(1, 6, 1, 60)
        unfolded = Unfolded.of(layer)
        product = unfolded.inputs(x) @ unfolded.matrix(layer.weight).T  # [n, O] or [n, O stride]
        expected = (layer(x) - layer.bias.view(1, -1, 1, 1))[0, :, 0].T  # [S, O]
        if unfolded.transposed:  # [n, O, stride] -> [n stride, O], less the padding at both ends
            product = (
                product.view(-1, 5, unfolded.stride)
                .transpose(1, 2)
                .flatten(0, 1)[unfolded.padding :][: len(expected)]
            )
        assert torch.allclose(product, expected, atol=1e-5)


class TestRounding:
    def test_carried_errors_cost_less_only_where_inputs_resemble(self) -> None:
        matrix, inputs = (
            torch.randn(16, 300, generator=torch.Generator().manual_seed(1)),
            correlated(4000, 300),
        )
        values = torch.linspace(-3, 3, 16)
        nearest = torch.bucketize(matrix, (values[1:] + values[:-1]) / 2)
        index = rounded(matrix, values.expand(16, -1), inputs.T @ inputs / len(inputs))
        assert error(matrix, index, values, inputs) < 0.2 * error(matrix, nearest, values, inputs)
        assert not torch.equal(index, nearest)
        matrix, values = (
            torch.randn(8, 200, generator=torch.Generator().manual_seed(2)),
            torch.linspace(-3, 3, 16),
        )
        nearest = torch.bucketize(matrix, (values[1:] + values[:-1]) / 2)
        assert torch.equal(rounded(matrix, values.expand(8, -1), torch.eye(200)), nearest)
        # a table of its own for the last four rows
        each = torch.stack([values, 2 * values]).repeat_interleave(4, dim=0)
        assert torch.equal(rounded(matrix * each[:, :1] / -3, each, torch.eye(200)), nearest)

    def test_a_palette_weighs_errors_by_importance(self) -> None:
        weight = np.random.default_rng(0).standard_normal((4, 1000)).astype(np.float16)
        importance = np.where(np.abs(weight) > 1.5, 100.0, 1.0)

        def cost(table: np.ndarray, index: np.ndarray) -> float:
            return float(
                (
                    importance.reshape(-1)
                    * (table[index].astype(np.float64) - weight.reshape(-1)) ** 2
                ).sum()
            )

        assert cost(*palette(weight, 4, importance)) < 0.7 * cost(*palette(weight, 4))


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
    def test_the_package_holds_what_is_simulated(
        self,
        name: str,
        levels: tuple[str, ...],
        built: tuple[Checkpoint, Path],
        copied: tuple[Checkpoint, Path],
    ) -> None:
        """On a layer of each kind, read back from the executed package; and the fit is another
        choice than the nearest value.
        """
        checkpoint, build = copied
        vocoder, recipe = Vocoder.of(checkpoint), recipe_of(checkpoint, build)
        chosen = dict(
            zip(("decode.0.conv1", "generator.ups.0", "encode.norm1.fc"), levels, strict=True)
        )
        partial_recipe = dataclasses.replace(
            recipe, levels=dict.fromkeys(recipe.levels, "fp16") | chosen
        )
        manifest = build_compressed(METHODS[name], checkpoint, build, partial_recipe)[1]
        require_genuine(manifest, name)
        program = program_of((checkpoint, build), name)
        assert manifest.target == METHODS[name].target or name == "mixed"
        layers = {layer.name: layer for layer in program_layers(program_of(built, "fp16"), vocoder)}
        fits = fits_of(checkpoint, vocoder, list(chosen))
        with simulated(vocoder, {path: SCHEMES[level] for path, level in chosen.items()}, {}, fits):
            for path in chosen:
                assert np.array_equal(
                    stored(program, layers[path]),
                    vocoder.get_submodule(path).weight.detach().numpy(),
                ), path
        plain, unfitted = (
            Vocoder.of(checkpoint),
            dataclasses.replace(SCHEMES[levels[0]].weights, gptq=False),
        )
        with simulated(plain, {"decode.0.conv1": Scheme(unfitted)}, {}):
            nearest = plain.get_submodule("decode.0.conv1").weight.detach().numpy()
        assert not np.array_equal(stored(program, layers["decode.0.conv1"]), nearest)

    def test_layers_that_cannot_be_fitted(self, built: tuple[Checkpoint, Path]) -> None:
        layers = program_layers(program_of(built, "fp16"), Vocoder.of(built[0]))
        without = {layer.name for layer in layers if not layer.is_tail and not can_be_fitted(layer)}
        assert {
            "decode.3.pool",
            "F0_conv",
            "N_conv",
        } <= without
        assert "generator.ups.0" not in without


def test_moments_are_means_over_columns(built: tuple[Checkpoint, Path]) -> None:
    vocoder = Vocoder.of(built[0])
    seen: list[Tensor] = []
    vocoder.decode[0].conv1.register_forward_pre_hook(
        lambda layer, inputs: seen.append(Unfolded.of(layer).inputs(inputs[0]))
    )
    from kokoro_ane.quantize.activations import calibration_inputs

    moments = input_moments(vocoder, calibration_inputs(built[0], vocoder, 2), {"decode.0.conv1"})
    columns = torch.cat(seen)
    assert torch.allclose(
        moments["decode.0.conv1"], columns.T @ columns / len(columns), rtol=1e-4, atol=1e-6
    )
    weight = vocoder.decode[0].conv1.weight.detach().half().numpy()
    fitted = (Unfolded.of(vocoder.decode[0].conv1), moments["decode.0.conv1"])
    tables, index = fitted_palette(weight, PaletteWeights(4), *fitted)
    assert (tables.shape, index.shape) == ((1, 16), weight.shape)
    assert all(a <= b for a, b in itertools.pairwise(tables[0]))
    by_rows = PaletteWeights(3, rows=4)
    tables, _ = fitted_palette(weight, by_rows, *fitted)
    assert tables.shape == (len(weight) // by_rows.rows_of(len(weight), weight[0].size), 8)
