"""Palettes: near the best k-means, fitted to a layer's inputs where asked; the unfolding is the convolution; the package holds the fit."""

import contextlib
import dataclasses
import io
import itertools
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import Conv, ConvTranspose
from kokoro_ane.quantize.compress import build_compressed, fits
from kokoro_ane.quantize.layer_plan import Layer, LayerPlan, can_be_fitted, program_layers
from kokoro_ane.quantize.methods import METHODS, SCHEMES, PaletteWeights
from kokoro_ane.quantize.palettes import Unfolded, fits_of, fitted_palette, input_moments, palette, rounded
from kokoro_ane.quantize.simulate import simulated
from kokoro_ane.quantize.weights import _counted, _told
from kokoro_ane.vocoder.decoder import Vocoder
from mlprogram import Program
from tests.quantize_build import program_of, quick, recipe_of

LAYERS = {
    **{f"kernel {k}, dilation {d}": lambda k=k, d=d: Conv(6, 5, k, padding=d * (k // 2), dilation=d) for k, d in ((1, 1), (3, 1), (7, 5))},
    "stride 6": lambda: Conv(6, 5, 12, stride=6, padding=3),
    "transposed, kernel of two strides": lambda: ConvTranspose(6, 5, 20, stride=10, padding=5),
    "transposed, kernel of two and a half": lambda: ConvTranspose(6, 5, 5, stride=2, padding=2),
}


def correlated(rows: int, size: int) -> Tensor:
    """Inputs whose neighbours resemble one another, as columns of speech do: [rows, size]."""
    steps = torch.randn(rows, size, generator=torch.Generator().manual_seed(0))
    return steps.cumsum(dim=1) / 3


def error(matrix: Tensor, index: Tensor, values: Tensor, inputs: Tensor) -> float:
    return float(((values[index] - matrix) @ inputs.T).square().mean())


def stored(program: Program, layer: Layer) -> np.ndarray:
    """A layer's weight as the package gives it back."""
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

    def test_every_weight_has_its_nearest_value(self) -> None:
        weight = np.random.default_rng(1).standard_normal(500).astype(np.float16)
        table, index = palette(weight, 4)
        distances = np.abs(weight.astype(np.float64)[:, None] - table.astype(np.float64))
        assert np.abs(distances[np.arange(500), index] - distances.min(axis=1)).max() < 1e-12

    def test_near_the_exact_optimum(self) -> None:
        """40 weights in 16 values: dynamic programming over all splits gives the least error there is."""
        weight = np.sort(np.random.default_rng(2).standard_normal(40)).astype(np.float16)
        table, index = palette(weight, 4)
        error = np.square(table[index].astype(np.float64) - weight).sum()
        assert error <= 1.3 * optimal_error(weight.astype(np.float64), 16) + 1e-6

    def test_few_distinct_values_are_kept(self) -> None:
        weight = np.tile(np.array([-1.0, 0.0, 0.5], np.float16), 100)
        table, index = palette(weight, 4)
        assert np.array_equal(table[index], weight)


def optimal_error(values: np.ndarray, count: int) -> float:
    """Least squared error of `values` (sorted) in `count` runs."""

    def cost(i: int, j: int) -> float:
        return float(np.square(values[i:j] - values[i:j].mean()).sum())

    best = [0.0] + [np.inf] * len(values)
    for _ in range(count):
        best = [0.0] + [min(best[i] + cost(i, j) for i in range(j)) for j in range(1, len(values) + 1)]
    return best[-1]


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
            product = product.view(-1, 5, unfolded.stride).transpose(1, 2).flatten(0, 1)[unfolded.padding :][: len(expected)]
        assert torch.allclose(product, expected, atol=1e-5)

    @pytest.mark.parametrize("name", LAYERS)
    def test_the_matrix_goes_back(self, name: str) -> None:
        layer = LAYERS[name]()
        unfolded = Unfolded.of(layer)
        assert torch.equal(unfolded.weight(unfolded.matrix(layer.weight), layer.weight), layer.weight)

    def test_long_inputs_are_thinned_evenly(self) -> None:
        inputs = Unfolded.of(Conv(1, 1, 1)).inputs(torch.arange(4501.0).view(1, 1, 1, -1))[:, 0]
        assert len(inputs) == 1500
        assert (inputs[0], inputs[-1]) == (0, 4500)
        assert set(inputs.diff().tolist()) <= {3.0, 4.0}


class TestRounding:
    def test_carried_errors_cost_less_where_inputs_resemble_one_another(self) -> None:
        matrix, inputs = torch.randn(16, 300, generator=torch.Generator().manual_seed(1)), correlated(4000, 300)
        values = torch.linspace(-3, 3, 16)
        nearest = torch.bucketize(matrix, (values[1:] + values[:-1]) / 2)
        index = rounded(matrix, values, inputs.T @ inputs / len(inputs))
        assert error(matrix, index, values, inputs) < 0.2 * error(matrix, nearest, values, inputs)
        assert not torch.equal(index, nearest)

    def test_unrelated_inputs_leave_the_nearest_value(self) -> None:
        matrix, values = torch.randn(8, 200, generator=torch.Generator().manual_seed(2)), torch.linspace(-3, 3, 16)
        assert torch.equal(rounded(matrix, values, torch.eye(200)), torch.bucketize(matrix, (values[1:] + values[:-1]) / 2))

    def test_inputs_that_are_always_zero(self) -> None:
        moments = torch.diag(torch.tensor([1.0, 0.0, 2.0]))
        values = torch.tensor([-1.0, 0.0, 1.0])
        assert rounded(torch.tensor([[0.9, -0.8, 0.1]]), values, moments).tolist() == [[2, 0, 1]]
        assert rounded(torch.tensor([[0.9, -0.8, 0.1]]), values, torch.zeros(3, 3)).tolist() == [[2, 0, 1]]

    def test_a_palette_weighs_errors_by_importance(self) -> None:
        weight = np.random.default_rng(0).standard_normal((4, 1000)).astype(np.float16)
        importance = np.where(np.abs(weight) > 1.5, 100.0, 1.0)

        def cost(table: np.ndarray, index: np.ndarray) -> float:
            return float((importance.reshape(-1) * (table[index].astype(np.float64) - weight.reshape(-1)) ** 2).sum())

        assert cost(*palette(weight, 4, importance)) < 0.7 * cost(*palette(weight, 4))

    def test_alike_importance_changes_nothing(self) -> None:
        weight = np.random.default_rng(1).standard_normal(3000).astype(np.float16)
        for one, other in zip(palette(weight, 6), palette(weight, 6, np.full(3000, 7.0)), strict=True):
            assert np.array_equal(one, other)


class TestPackage:
    def test_the_package_holds_what_is_simulated(self, built: tuple[Checkpoint, Path], copied: tuple[Checkpoint, Path]) -> None:
        """On a layer of each kind, read back from the executed package; and the fit is another choice than the nearest value."""
        checkpoint, build = copied
        vocoder, recipe = Vocoder.of(checkpoint), recipe_of(checkpoint, build)
        chosen = {"decode.0.conv1": "p4_gptq", "generator.ups.0": "p6_gptq"}
        levels = dict.fromkeys(recipe.levels, "fp16") | chosen
        build_compressed(quick("mixed"), checkpoint, build, dataclasses.replace(recipe, levels=levels))
        program = program_of((checkpoint, build), "mixed")
        layers = {layer.name: layer for layer in program_layers(program_of(built, "fp16"), vocoder)}
        with simulated(vocoder, {path: SCHEMES[level] for path, level in chosen.items()}, {}, fits_of(checkpoint, vocoder, set(chosen))):
            for path in chosen:
                assert np.array_equal(stored(program, layers[path]), vocoder.get_submodule(path).weight.detach().numpy()), path
        plain = Vocoder.of(checkpoint)
        with simulated(plain, {"decode.0.conv1": SCHEMES["p4"]}, {}):
            nearest = plain.get_submodule("decode.0.conv1").weight.detach().numpy()
        assert not np.array_equal(stored(program, layers["decode.0.conv1"]), nearest)

    def test_layers_that_cannot_be_fitted(self, built: tuple[Checkpoint, Path]) -> None:
        layers = program_layers(program_of(built, "fp16"), Vocoder.of(built[0]))
        without = {layer.name for layer in layers if not layer.is_tail and not can_be_fitted(layer)}
        assert {"decode.0.norm1.fc", "F0_conv", "N_conv"} <= without
        assert "generator.ups.0" not in without

    def test_other_forms_are_refused(self) -> None:
        class Other:
            layout = METHODS["w8"]  # anything with a name
            layers = nn.Identity()

        layer = dataclasses.make_dataclass("Layer", ["name"])("decode.0.conv1")
        with pytest.raises(InputError, match="fitted \\(gptq\\) in the padded layout only, not in w8"):
            fits((LayerPlan(layer, PaletteWeights(4, gptq=True), False),), Other())  # type: ignore[arg-type]


def test_moments_are_means_over_columns(built: tuple[Checkpoint, Path]) -> None:
    vocoder = Vocoder.of(built[0])
    seen: list[Tensor] = []
    vocoder.decode[0].conv1.register_forward_pre_hook(lambda layer, given: seen.append(Unfolded.of(layer).inputs(given[0])))
    from kokoro_ane.quantize.activations import calibration_inputs

    found = input_moments(vocoder, calibration_inputs(built[0], vocoder, 2), {"decode.0.conv1"})
    columns = torch.cat(seen)
    assert torch.allclose(found["decode.0.conv1"], columns.T @ columns / len(columns), rtol=1e-4, atol=1e-6)
    weight = vocoder.decode[0].conv1.weight.detach().half().numpy()
    table, index = fitted_palette(weight, 4, Unfolded.of(vocoder.decode[0].conv1), found["decode.0.conv1"])
    assert (len(table), len(index)) == (16, weight.size)
    assert all(a <= b for a, b in itertools.pairwise(table))


def test_every_palette_moves_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the stream that was there before coremltools' own is dropped; without palettes nothing is shown."""
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal: a bar that goes again is drawn nowhere else
    weight = np.linspace(-1, 1, 64, dtype=np.float16)
    with _counted(2) as done, contextlib.redirect_stderr(io.StringIO()) as dropped:
        for _ in range(2):
            table, index = _told(weight, partial(palette, bits=4), done)
    assert len(table) == 16 and len(index) == 64
    assert "palettes" in shown.getvalue() and "100%" in shown.getvalue() and not dropped.getvalue()
    before = shown.getvalue()
    with _counted(0):
        pass
    assert "palettes" not in shown.getvalue().removeprefix(before)
