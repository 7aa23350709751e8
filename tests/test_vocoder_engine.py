"""The engine variant equals the Vocoder: any length, any bucket, any row, both forms of Snake; what it is made of keeps its promises."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.comparison import random_inputs
from bench.random_checkpoint import random_vocoder, tiny_config
from pipeline.config import KokoroConfig
from pipeline.contract import FRAME_SAMPLES, PackedLayout
from pipeline.errors import InputError
from pipeline.figures import snr_db
from pipeline.layers import Conv, ConvTranspose
from vocoder.decoder import Vocoder
from vocoder.engine.geometry import ROW_FRAMES, Geometry, require_architecture
from vocoder.engine.layers import CosineSnake, PolynomialSnake
from vocoder.engine.model import EngineVocoder
from vocoder.engine.packing import pack_rows
from vocoder.engine.upsample import RowDownsample, RowUpsample
from vocoder.package import render_reference

EXACT_DB = 100.0
POLYNOMIAL_DB = 85.0  # in fp32; in fp16 it ends at 56 dB on the demo voice, as the cosine does (bench.snake_forms)
CONFIG = KokoroConfig.from_dict(tiny_config(), "test")
AXIS_LIMIT = 16_384 - 2  # of M1 to M3, less what a dilated convolution may be lowered to


@pytest.fixture(scope="module")
def vocoder() -> Vocoder:
    return random_vocoder(CONFIG, seed=0)


@pytest.fixture(scope="module")
def engine(vocoder: Vocoder) -> EngineVocoder:
    return EngineVocoder(vocoder, Geometry.of(40), CONFIG.hidden_dim).eval()


@torch.no_grad()
def render(engine: EngineVocoder, x, rows: int) -> "torch.Tensor":
    features = pack_rows(x, rows * engine.geometry.row_frames - 1, engine.geometry)
    return engine(features, x.style[:, :, None, None].float()).flatten()[: FRAME_SAMPLES * x.frames].numpy()


@settings(max_examples=4, deadline=None)
@given(frames=st.integers(2, 119), more=st.integers(0, 2))
def test_any_length_in_any_bucket(vocoder: Vocoder, engine: EngineVocoder, frames: int, more: int) -> None:
    x = random_inputs(vocoder, frames, CONFIG.hidden_dim)
    assert snr_db(render_reference(vocoder, x), render(engine, x, math.ceil((frames + 1) / 40) + more)) >= EXACT_DB


@pytest.mark.parametrize("frames", [39, 40, 41, 79, 80])
def test_lengths_at_the_seams_of_rows(vocoder: Vocoder, engine: EngineVocoder, frames: int) -> None:
    x = random_inputs(vocoder, frames, CONFIG.hidden_dim)
    assert snr_db(render_reference(vocoder, x), render(engine, x, 3)) >= EXACT_DB


@pytest.mark.parametrize("row_frames", [80, 120])
def test_other_rows(vocoder: Vocoder, row_frames: int) -> None:
    wide = EngineVocoder(vocoder, Geometry.of(row_frames), CONFIG.hidden_dim).eval()
    x = random_inputs(vocoder, row_frames + 7, CONFIG.hidden_dim)
    assert snr_db(render_reference(vocoder, x), render(wide, x, 2)) >= EXACT_DB


def test_polynomial_snake(vocoder: Vocoder) -> None:
    engine = EngineVocoder(vocoder, Geometry.of(40), CONFIG.hidden_dim, PolynomialSnake()).eval()
    x = random_inputs(vocoder, 60, CONFIG.hidden_dim)
    assert snr_db(render_reference(vocoder, x), render(engine, x, 2)) >= POLYNOMIAL_DB


@pytest.mark.parametrize("form", [CosineSnake(), PolynomialSnake()])
def test_forms_of_snake(form: torch.nn.Module) -> None:
    z = torch.linspace(-60, 60, 40_001, dtype=torch.float64).view(1, 1, 1, -1)
    value = (form(z * form.factor) + form.constant) / form.factor
    assert (value - (z + torch.sin(z) ** 2)).abs().max() < 1.3e-4
    assert form(torch.zeros(1, 1, 1, 1)) + form.constant == 0  # the padding stays zero


def test_control_a_shorter_halo_is_heard(vocoder: Vocoder, engine: EngineVocoder) -> None:
    x = random_inputs(vocoder, 70, CONFIG.hidden_dim)
    features = pack_rows(x, 79, engine.geometry)
    begin = sum(engine.sizes[:4])
    slab = features[:, begin : begin + engine.sizes[4]].reshape(1, 22, 2, -1)
    slab[..., : engine.geometry.spectrum - 60] = 0  # all but ten columns (at 20 a frame) of the left halo of the spectrum
    with torch.no_grad():
        spoiled = engine(features, x.style[:, :, None, None].float()).flatten()[: FRAME_SAMPLES * 70].numpy()
    assert snr_db(render_reference(vocoder, x), spoiled) < EXACT_DB - 20


@settings(max_examples=20, deadline=None)
@given(rate=st.sampled_from([(2, 5), (2, 3), (3, 2)]), width=st.integers(2, 9), rows=st.integers(1, 3))
def test_upsampling_in_steps(rate: tuple[int, int], width: int, rows: int) -> None:
    torch.manual_seed(width)
    stride = rate[0] * rate[1]
    up = ConvTranspose(4, 2, 2 * stride, stride=stride, padding=stride // 2)
    x = torch.randn(1, 4, rows, width)
    with torch.no_grad():
        exact, ours = up(x), RowUpsample(up, rate)(x)
    torch.testing.assert_close(ours, exact[..., stride // 2 : -(stride // 2)], atol=1e-5, rtol=1e-4)


def test_downsampling_in_steps() -> None:
    conv, x = Conv(22, 5, 12, stride=6), torch.randn(1, 22, 3, 66)
    with torch.no_grad():
        torch.testing.assert_close(RowDownsample(conv)(x), conv(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("row_frames", ROW_FRAMES)
def test_every_row_fits_the_engine_and_is_known_by_its_channels(row_frames: int) -> None:
    geometry = Geometry.of(row_frames)
    assert max(geometry.spectrum_width, geometry.last_noise_width, geometry.slab(geometry.spectrum_width) * row_frames) <= AXIS_LIMIT
    for hidden in (16, 128, 512):
        channels = geometry.features_channels(hidden)
        assert channels != PackedLayout(hidden).channels and Geometry.by_channels(channels, hidden) == geometry
    assert geometry.check_buckets(geometry.default_buckets())[-1] >= 1200


def test_bad_choices_in_one_line() -> None:
    with pytest.raises(InputError, match="rows of 50 frames: choose from 40, 80, 120"):
        Geometry.of(50)
    with pytest.raises(InputError, match="bucket 80: a row holds 40 frames.*79 would be"):
        Geometry.of(40).check_buckets((39, 80))
    with pytest.raises(InputError, match="no packing of this project"):
        Geometry.by_channels(1234, 512)
    other = tiny_config()
    other["istftnet"]["resblock_kernel_sizes"] = [3, 7, 9]
    with pytest.raises(InputError, match="the engine variant is made for"):
        require_architecture(KokoroConfig.from_dict(other, "test"))
    require_architecture(CONFIG)
