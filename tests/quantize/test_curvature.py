"""Losses by gradients: equal to what a render shows where errors are small, blind to nothing.

python -m pytest tests/quantize/test_curvature.py -q
"""

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.contract import PADDED
from kokoro_ane.quantize.candidates import Candidates
from kokoro_ane.quantize.curvature import Curvature
from kokoro_ane.quantize.distances import (
    KINDS,
    PAUSES,
    SPEECH,
    VECTORS,
    compute_speech_vector,
    cut_excerpts,
    read_output_moments,
)
from kokoro_ane.quantize.fits import quantize_symmetric
from kokoro_ane.quantize.level import CompressionLevel
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.quantize.methods import METHODS
from kokoro_ane.quantize.recipe import load_recipe, locate_kept_recipe
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.render import make_reference_arguments, render_reference
from tests.demo_voice import DEMO_VOICE

LAYERS = ("decode.1.conv1", "generator.resblocks.1.convs1.0", "generator.conv_post")


@pytest.fixture(scope="module")
def measured():
    """The demo voice's vocoder, which makes pauses; a level of 8 bits on three layers; an excerpt
    of each kind, 64 gradients of each.
    """
    checkpoint = open_checkpoint(str(DEMO_VOICE))
    vocoder = Vocoder.from_checkpoint(checkpoint)
    forms = {}
    for path in LAYERS:
        weight = vocoder.get_submodule(path).weight.detach().numpy()
        forms[path] = quantize_symmetric(weight, 8, weight.shape[1])
    level = CompressionLevel(METHODS["w8"], forms, {}, {}, {})
    excerpts = cut_excerpts(checkpoint, vocoder, seed=0, count=1)
    assert [one.kind for one in excerpts] == list(KINDS)
    curvature = Curvature.measure(vocoder, {"w8": level}, excerpts, probes=64, seed=0)
    return vocoder, level, excerpts, curvature


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_is_what_a_render_shows(measured, kind):
    vocoder, level, excerpts, curvature = measured
    (inputs,) = (one.inputs for one in excerpts if one.kind == kind)
    reference = torch.from_numpy(render_reference(vocoder, inputs))
    vector, own = VECTORS[kind], VECTORS[kind](reference, reference)
    assert len(own.flatten()) > 100
    for path in LAYERS:
        changed = CompressionLevel(level.method, {path: level.forms[path]}, {}, {}, {}).apply(
            vocoder
        )
        samples = torch.from_numpy(render_reference(changed, inputs))
        rendered = float((vector(samples, reference) - own).square().mean())
        forecast = curvature.distance({path: "w8"}, {kind: 1.0})
        # 64 gradients leave a standard deviation of 18 %
        assert forecast == pytest.approx(rendered, rel=0.6)
    together = curvature.distance(dict.fromkeys(LAYERS, "w8"), {kind: 1.0})
    samples = torch.from_numpy(render_reference(level.apply(vocoder), inputs))
    assert together == pytest.approx(
        float((vector(samples, reference) - own).square().mean()), rel=0.6
    )


@torch.no_grad()
def test_errors_of_outputs_cost_what_their_slopes_say(measured):
    vocoder, _, excerpts, _ = measured
    sentence = excerpts[0].inputs
    path = "generator.resblocks.1.convs1.0"
    with torch.enable_grad():
        # each time with other signs
        moments = read_output_moments(vocoder, [sentence] * 8, (path,), seed=0)[path]
    assert torch.allclose(moments, moments.T)
    reference = torch.from_numpy(render_reference(vocoder, sentence))
    own = compute_speech_vector(reference, reference)
    powers, directions = torch.linalg.eigh(moments)
    draws = torch.Generator().manual_seed(0)
    costs = []
    middle = len(powers) // 2
    for direction in (directions[:, middle], directions[:, -1]):

        def disturb(_, inputs, output, direction=direction):
            noise = torch.randn(output.shape[-1], generator=draws)
            return output + 0.1 * output.std() * direction.view(1, -1, 1, 1) * noise

        hook = vocoder.get_submodule(path).register_forward_hook(disturb)
        samples = vocoder(*make_reference_arguments(sentence)).flatten()
        hook.remove()
        costs.append(float((compute_speech_vector(samples, reference) - own).square().mean()))
    expected = float(powers[-1] / powers[middle])
    assert expected > 10
    assert costs[1] / costs[0] == pytest.approx(expected, rel=0.6)


def test_a_layer_in_float_loses_nothing_and_a_file_holds_all(measured):
    *_, curvature = measured
    assert curvature.distance(dict.fromkeys(LAYERS, "fp16"), {SPEECH: 1.0, PAUSES: 1.0}) == 0.0
    again = Curvature.read(curvature.plain())
    levels = {LAYERS[0]: "w8", LAYERS[1]: "fp16"}
    assert again.distance(levels, {PAUSES: 2.0}) == curvature.distance(levels, {PAUSES: 2.0})


def test_what_fills_a_pause_counts_there_alone():
    draws = np.random.default_rng(0)
    speech = draws.standard_normal(24_000) * np.repeat([1.0, 1e-3, 1.0], 8_000)
    hiss = np.repeat([0.0, 3e-3, 0.0], 8_000) * draws.standard_normal(24_000)
    reference, test = (torch.from_numpy(one) for one in (speech, speech + hiss))
    far = {
        kind: float((vector(test, reference) - vector(reference, reference)).square().mean())
        for kind, vector in VECTORS.items()
    }
    assert far[PAUSES] > 1.0
    assert far[SPEECH] < far[PAUSES] / 50


def test_a_choice_is_of_its_size_and_is_read_again(copied):
    checkpoint, build = copied
    parent = PackageRequest(checkpoint, build, "fp16", PADDED).load_verified()
    candidates = Candidates.measure(checkpoint, METHODS["mixed18"], parent, build / "search")
    weights = dict.fromkeys(KINDS, 1.0)
    most = (candidates.least_bytes * candidates.whole_bytes) ** 0.5
    point, size_bytes = candidates.find_within(most, weights)
    assert candidates.least_bytes <= size_bytes <= most
    assert len(set(point.levels.values())) > 1
    path = candidates.save(point, size_bytes, build)
    assert path == locate_kept_recipe(checkpoint, "mixed18", build)
    assert load_recipe(path).levels == point.levels
    files = {one: one.stat().st_mtime_ns for one in (build / "search").iterdir()}
    again = Candidates.measure(checkpoint, METHODS["mixed18"], parent, build / "search")
    assert again.find_within(most, weights)[0] == point
    assert {one: one.stat().st_mtime_ns for one in (build / "search").iterdir()} == files
