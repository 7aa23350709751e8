"""The engine variant equals the Vocoder: any length, any bucket, both layouts of Snake; what it is made of keeps its promises."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.comparison import random_inputs
from bench.random_checkpoint import random_vocoder, tiny_config
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PackedLayout
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import AdaIN1d, Conv, ConvTranspose, Snake
from kokoro_ane.quantize.layer_plan import _tiled_names
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.render import render_reference
from kokoro_ane.vocoder.tiled.geometry import (
    HALO,
    MARGIN,
    MARGIN_WIDTH,
    Windows,
    bucket_of,
    check_row_buckets,
    columns_of,
    default_row_buckets,
    features_shape,
    raised,
    require_architecture,
    row_sizes,
    shape_of,
    shortest,
)
from kokoro_ane.vocoder.tiled.rows import folded, joined_rows, pack_rows
from kokoro_ane.vocoder.tiled.tiled_layers import PolynomialSnake, Rows, SineSnake, SnakeConv, SnakeFormula, StyleRows, moments
from kokoro_ane.vocoder.tiled.tiled_model import TiledVocoder
from kokoro_ane.vocoder.tiled.upsample import Interleave, PolyphaseConv, RowUpsample, phase_channel

EXACT_DB = 100.0
POLYNOMIAL_DB = 85.0  # largest error 3.8e-5: docs/neural-engine.md, Snake without sine
CONFIG = KokoroConfig.from_dict(tiny_config(), "test")
AXIS_LIMIT = 16_384 - 2  # of M1 to M3, less what a dilated convolution may be lowered to


@pytest.fixture(scope="module")
def vocoder() -> Vocoder:
    return random_vocoder(CONFIG, seed=0)


@pytest.fixture(scope="module")
def engine(vocoder: Vocoder) -> TiledVocoder:
    return TiledVocoder(vocoder, CONFIG.hidden_dim).eval()


@torch.no_grad()
def render(engine: TiledVocoder, x, bucket: int, features: torch.Tensor | None = None) -> np.ndarray:
    features = pack_rows(x, bucket) if features is None else features
    return joined_rows(engine(features, x.style[:, :, None, None].float()), Windows.of(x.frames, bucket)).numpy()


def snr(vocoder: Vocoder, engine: TiledVocoder, frames: int, bucket: int) -> float:
    x = random_inputs(vocoder, frames, CONFIG.hidden_dim)
    return snr_db(render_reference(vocoder, x), render(engine, x, bucket))


@settings(max_examples=5, deadline=None)
@given(frames=st.integers(18, 130), more=st.integers(0, 2))
def test_any_length_in_any_bucket_that_it_fills(vocoder: Vocoder, engine: TiledVocoder, frames: int, more: int) -> None:
    fitting = [bucket for bucket in default_row_buckets() if shortest(bucket) <= frames <= bucket]
    assert snr(vocoder, engine, frames, fitting[min(more, len(fitting) - 1)]) >= EXACT_DB


@pytest.mark.parametrize(("frames", "bucket"), [(18, 20), (20, 20), (132, 362), (362, 362), (363, 422)])
def test_shortest_longest_and_four_rows(vocoder: Vocoder, engine: TiledVocoder, frames: int, bucket: int) -> None:
    assert snr(vocoder, engine, frames, bucket) >= EXACT_DB


def test_polynomial_snake(vocoder: Vocoder) -> None:
    engine = TiledVocoder(vocoder, CONFIG.hidden_dim, PolynomialSnake()).eval()
    assert snr(vocoder, engine, 60, 62) >= POLYNOMIAL_DB


@pytest.mark.parametrize(("alpha", "apart"), [(0.2, False), (0.05, True), (1e-4, True)])
def test_a_small_alpha_stays_out_of_the_weights(alpha: float, apart: bool) -> None:
    """One channel's 1 / alpha would leave int8 weights little for the others; the negative control is an alpha like its neighbours'."""
    own = random_vocoder(CONFIG, seed=0)
    block = own.generator.resblocks[0]
    with torch.no_grad():
        block.alpha1[0].alpha.fill_(1.0)
        block.alpha1[0].alpha[:, 3] = alpha
        block.alpha1[0].freeze()
    made = TiledVocoder(own, CONFIG.hidden_dim).first.blocks[0].first[0]
    assert (made.scale is not None) == apart
    layers = _tiled_names(TiledVocoder(own, CONFIG.hidden_dim))
    assert layers.wanted == _tiled_names(TiledVocoder(random_vocoder(CONFIG, seed=0), CONFIG.hidden_dim)).wanted  # no constant is a layer
    kernels = made.conv.weight.abs().amax(dim=(0, 2, 3)) / block.convs1[0].weight.abs().amax(dim=(0, 2, 3))
    assert float(kernels[3] / kernels[0]) == pytest.approx(1.0 if apart else 1 / alpha)


class Engine16(torch.overrides.TorchFunctionMode):
    """Every result rounded to fp16, and 0 where fp16 would hold it as a subnormal."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return result
        with torch._C.DisableTorchFunctionSubclass():
            whole = result.half().to(result.dtype)
            return torch.where(whole.abs() < torch.finfo(torch.float16).tiny, 0.0, whole)


@pytest.mark.parametrize("layout", [SineSnake(), PolynomialSnake()])
@pytest.mark.parametrize("alpha", [9.5e-5, 1e-3])
def test_a_small_alpha_survives_an_engine_without_subnormals(layout: SnakeFormula, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real Kokoro has such channels; the negative control carries alpha z, and loses the channel or a part of it."""
    torch.manual_seed(0)
    alphas, norm, conv, snake = torch.ones(8), AdaIN1d(4, 8), Conv(8, 6, 3, padding=1), Snake(8)
    alphas[3] = alpha
    snake.alpha.data = alphas.view(1, -1, 1, 1)
    snake.freeze()
    one, style = torch.ones(1, 1, 1, 1), torch.randn(1, 4, 1, 1)
    found = moments(torch.randn(1, 8, 1, 256), Rows(torch.ones(1, 1, 1, 256), one / 16, one))
    channel = torch.zeros(6, 8, 1, 3)
    channel[:, 3] = conv.weight.detach()[:, 3]
    conv.weight.data = channel  # the channel alone is heard

    def rendered() -> tuple[torch.Tensor, torch.Tensor]:
        rows = StyleRows()
        made, styles = SnakeConv(norm, snake, conv, rows, layout, apart=False), rows.product()
        with Engine16():
            rounded = made(found, styles(style))
        return made(found, styles(style)), rounded

    with torch.no_grad():
        assert snr_db(*rendered()) > 50
        monkeypatch.setattr("kokoro_ane.vocoder.tiled.tiled_layers.SMALL", 0.0)
        assert snr_db(*rendered()) < 40


def test_control_a_halo_without_the_spectrum_is_heard(vocoder: Vocoder, engine: TiledVocoder) -> None:
    x = random_inputs(vocoder, 60, CONFIG.hidden_dim)
    features = pack_rows(x, 62)
    windows = Windows.of(60, 62)
    own = windows.owned[1] - windows.starts[1] + MARGIN
    features[:, -row_sizes(1)[-1] :, 1, own - HALO : own - 1] = 0  # all but one frame of the second row's left halo
    assert snr_db(render_reference(vocoder, x), render(engine, x, 62, features)) < EXACT_DB - 10


def test_what_lies_outside_the_windows_does_not_matter(vocoder: Vocoder, engine: TiledVocoder) -> None:
    x = random_inputs(vocoder, 60, CONFIG.hidden_dim)
    features = pack_rows(x, 62)
    features[:, -row_sizes(1)[-1] :, :, : MARGIN - 2] = 100.0  # loud spectrum in the decoder's margin, which the generator never sees
    assert snr_db(render_reference(vocoder, x), render(engine, x, 62, features)) >= EXACT_DB


@settings(max_examples=60, deadline=None)
@given(data=st.data(), bucket=st.sampled_from(default_row_buckets()))
def test_windows_hold_the_utterance_once(data: st.DataObject, bucket: int) -> None:
    frames = data.draw(st.integers(shortest(bucket), bucket))
    w = Windows.of(frames, bucket)
    shown = w.pitch + 2 * HALO
    assert (w.starts[0], w.owned[0], w.starts[-1] + shown, w.owned[-1]) == (0, 0, frames, frames)
    for row, (start, column) in enumerate(zip(w.starts, w.result_starts(), strict=True)):
        begin, end = w.owned[row : row + 2]
        assert start >= 0 and start + shown <= frames and begin < end
        spoiled_left, spoiled_right = row > 0, row < w.rows - 1
        assert begin - start >= HALO * spoiled_left and start + shown - end >= (HALO - 1) * spoiled_right
        low = columns_of(w.pitch)[3] // 6  # columns of the result at 20 a frame
        assert 20 * begin - column >= 21 * spoiled_left and column + low - 20 * end >= 21 * spoiled_right


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("frames", "bucket"), [(140, 182), (140, 242), (700, 744)])
def test_weights_are_right_in_the_mean(vocoder: Vocoder, frames: int, bucket: int, half: bool) -> None:
    features = pack_rows(random_inputs(vocoder, frames, CONFIG.hidden_dim), bucket, half)
    stored = features.half().double() if half else features.double()
    sizes = row_sizes(CONFIG.hidden_dim)
    weight, low, high, factors = (stored[:, sum(sizes[:i])] for i in (4, 5, 6, 7))
    rows, pitch = shape_of(bucket)
    wide = columns_of(pitch)
    sums = (weight.sum(), 2 * weight.sum(), 20 * low.sum(), 120 * high.sum() + high[0, 0, MARGIN])
    counted = (frames, 2 * frames, 20 * frames, 120 * frames + 1)
    for rate in range(4):
        assert abs(float(sums[rate]) / (rows * wide[rate]) - 1) < 2e-5
        root, power = factors[0, 0, 2 * rate : 2 * rate + 2].tolist()
        assert abs(root**2 * power * rows * wide[rate] ** 2 / counted[rate] - 1) < 1e-5


@settings(max_examples=20, deadline=None)
@given(rate=st.sampled_from([10, 6]), width=st.integers(2, 9), rows=st.integers(1, 3))
def test_upsampling_in_steps(rate: int, width: int, rows: int) -> None:
    torch.manual_seed(width)
    up = ConvTranspose(4, 2, 2 * rate, stride=rate, padding=rate // 2)
    x = torch.randn(1, 4, rows, width)
    with torch.no_grad():
        torch.testing.assert_close(RowUpsample(up)(x), up(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rate", [20, 10, 6])
def test_lay_down_undoes_the_folding(rate: int) -> None:
    line = torch.randn(1, 3, 2, 4 * rate)
    phases = torch.empty(1, 3 * rate, 2, 4)
    for phase in range(rate):
        phases[:, phase_channel(phase, rate) :: rate] = line[..., phase::rate]
    torch.testing.assert_close(Interleave(3, rate)(phases), line)


def test_a_strided_convolution_on_phases(vocoder: Vocoder) -> None:
    x = random_inputs(vocoder, 30, CONFIG.hidden_dim)
    line = torch.nn.functional.pad(x.spectrum, (0, 119))  # [1, 22, 120 * 31]
    low = Interleave(22 * 6, 20)(folded(line)[:, :, None])  # [1, 132, 1, 20 * 31]
    conv = Conv(22, 5, 12, stride=6, padding=3)
    ours = PolyphaseConv(conv, tuple(phase_channel(phase, 6) for phase in range(6)))
    with torch.no_grad():
        exact = conv(line[:, :, None])  # [1, 5, 1, 620]
        torch.testing.assert_close(ours(low), exact[..., 1:-1], atol=1e-5, rtol=1e-4)


def test_every_shape_fits_the_engine_and_is_told_by_its_channels() -> None:
    buckets = check_row_buckets(default_row_buckets())
    assert buckets[0] == 20 and buckets[-1] >= 1200 and len(buckets) <= 16
    for bucket in buckets:
        shape = features_shape(bucket, 512)
        assert bucket_of(shape) == bucket and max(columns_of(shape_of(bucket)[1])) <= AXIS_LIMIT
        assert shape[1] != PackedLayout(512).channels and shape[3] == shape_of(bucket)[1] + MARGIN_WIDTH
    assert raised(300) == 302 and shape_of(302) == (3, 100)


def test_bad_choices_in_one_line() -> None:
    with pytest.raises(InputError, match=r"bucket 40: 3 rows need rows \* pitch \+ 2 frames.*41 would be"):
        check_row_buckets((20, 40))
    with pytest.raises(InputError, match="bucket 182 holds 72 frames or more and the one before at most 20"):
        check_row_buckets((20, 182))
    with pytest.raises(InputError, match="features hold 30 frames and the rows of bucket 182 show 72 or more"):
        Windows.of(30, 182)
    with pytest.raises(InputError, match="features hold 183 frames, bucket is 182"):
        Windows.of(183, 182)
    other = tiny_config()
    other["istftnet"]["resblock_kernel_sizes"] = [3, 7, 9]
    with pytest.raises(InputError, match="the tiled layout is made for"):
        require_architecture(KokoroConfig.from_dict(other, "test"))
    require_architecture(CONFIG)
