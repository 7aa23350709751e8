"""The tiled layout equals the vocoder at any length; as a user builds it: an executed package, its manifest, refusals in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.comparison import random_inputs
from bench.random_checkpoint import random_vocoder, tiny_config
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.commands import build_command
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import ONE_FUNCTION, PackedLayout
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.layers import AdaIN1d, Conv, Snake
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.eval.levels import frames_of
from kokoro_ane.pipeline.build import main, parse_arguments
from kokoro_ane.quantize.corpus import heldout
from kokoro_ane.quantize.layer_plan import _tiled_names
from kokoro_ane.quantize.speech import text_encoder, vocoder_inputs
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.layouts import TiledLayout, chips_without_sine, layout_named, layout_recorded
from kokoro_ane.vocoder.packing import excerpt
from kokoro_ane.vocoder.render import VocoderPackage, render_reference
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
from kokoro_ane.vocoder.tiled.rows import joined_rows, pack_rows
from kokoro_ane.vocoder.tiled.tiled_layers import PolynomialSnake, Rows, SineSnake, SnakeConv, SnakeFormula, StyleRows, moments
from kokoro_ane.vocoder.tiled.tiled_model import TiledVocoder
from mlprogram.examine.forecast import forecast_residency
from mlprogram.examine.profile import Profile, open_program, profile_program
from mlprogram.examine.rules import load_rules
from tests.builds import checkpoint_once, packages_once

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
    features, windows = pack_rows(x, 62), Windows.of(60, 62)
    own = windows.owned[1] - windows.starts[1] + MARGIN
    features[:, -row_sizes(1)[-1] :, 1, own - HALO : own - 1] = 0  # all but one frame of the second row's left halo
    assert snr_db(render_reference(vocoder, x), render(engine, x, 62, features)) < EXACT_DB - 10


def test_what_lies_outside_the_windows_does_not_matter(vocoder: Vocoder, engine: TiledVocoder) -> None:
    x = random_inputs(vocoder, 60, CONFIG.hidden_dim)
    features = pack_rows(x, 62)
    features[:, -row_sizes(1)[-1] :, :, : MARGIN - 2] = 100.0  # loud spectrum in the decoder's margin, which the generator never sees
    assert snr_db(render_reference(vocoder, x), render(engine, x, 62, features)) >= EXACT_DB


def test_a_forecast_counts_the_frames_of_every_shape() -> None:
    """Rows share the last axis: read as the padded layout's it would be a third of the audio, or an eighth."""
    assert [frames_of({"features": features_shape(bucket, 512)}) for bucket in default_row_buckets()] == list(default_row_buckets())
    assert frames_of({"features": (1, 3157, 1, 81)}) == 80


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


def test_every_shape_fits_the_engine_and_bad_choices_are_one_line() -> None:
    buckets = check_row_buckets(default_row_buckets())
    assert buckets[0] == 20 and buckets[-1] >= 1200 and len(buckets) <= 16
    for bucket in buckets:
        shape = features_shape(bucket, 512)
        assert bucket_of(shape) == bucket and max(columns_of(shape_of(bucket)[1])) <= AXIS_LIMIT
        assert shape[1] != PackedLayout(512).channels and shape[3] == shape_of(bucket)[1] + MARGIN_WIDTH
    assert raised(300) == 302 and shape_of(302) == (3, 100)
    pytest.raises(InputError, check_row_buckets, (20, 40)).match(r"bucket 40: 3 rows need rows \* pitch \+ 2 frames.*41 would be")
    pytest.raises(InputError, check_row_buckets, (20, 182)).match("bucket 182 holds 72 frames or more and the one before at most 20")
    pytest.raises(InputError, Windows.of, 30, 182).match("features hold 30 frames and the rows of bucket 182 show 72 or more")
    pytest.raises(InputError, Windows.of, 183, 182).match("features hold 183 frames, bucket is 182")
    other = tiny_config()
    other["istftnet"]["resblock_kernel_sizes"] = [3, 7, 9]
    with pytest.raises(InputError, match="the tiled layout is made for"):
        require_architecture(KokoroConfig.from_dict(other, "test"))
    require_architecture(CONFIG)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return checkpoint_once(tmp_path_factory, tiny_config())


@pytest.fixture(scope="module")
def built(checkpoint: Checkpoint, quick_conversion: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = ["--layout", "tiled", "--chips", "m1,M2", "--buckets", "41,62,119"]
    return packages_once(tmp_path_factory, checkpoint, [["vocoder", *flags]]) / "KokoroVocoder-tiny-tiled-poly-fp16.json"


@pytest.fixture(scope="module")
def profiles(built: Path) -> list[Profile]:
    program = open_program(Manifest.load(built).package_path)
    return [profile_program(program, shapes) for shapes in program.all_shapes()]


class TestBuild:
    def test_the_manifest_tells_the_layout_and_the_package_speaks(self, built: Path, checkpoint: Checkpoint) -> None:
        package, vocoder = VocoderPackage(built), Vocoder.of(checkpoint)
        features = package.manifest.inputs["features"]
        assert package.manifest.layout == "tiled-poly" and features["chips"] == ["m1", "m2"]
        assert features["shapes"] == {"41": [3, 13], "62": [3, 20], "119": [3, 39]}
        assert layout_recorded(package.manifest.layout, features, package.manifest.outputs) == TiledLayout.of(("m1", "m2"))
        assert "cos" not in {op for op in package.manifest.operations if package.manifest.operations[op] > 1}
        inputs = excerpt(vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0), start=0, frames=55)
        assert snr_db(render_reference(vocoder, inputs), package.render(inputs)) >= 40

    @pytest.mark.parametrize("chip", ["m1", "m2", "m3", "m4", "m5"])
    def test_no_trunk_operation_leaves_any_chip(self, profiles: list[Profile], chip: str) -> None:
        assert len(profiles) == 3
        for profile in profiles:
            assert forecast_residency(profile, load_rules(), chip).optimistic.cut.engine_segments == 1

    @pytest.mark.parametrize("name", ONE_FUNCTION)
    def test_a_layout_is_asked_for_by_the_name_of_its_package(self, name: str) -> None:
        """By the command that a message names, which is the one that the judge runs."""
        arguments = parse_arguments(build_command("vocoder", name).split()[2:])
        assert layout_named(arguments.layout, arguments.chips).name == name

    def test_chips_decide_under_either_name(self) -> None:
        assert layout_named("tiled", ("m1",)).name == layout_named("tiled-poly", ("m3",)).name == "tiled-poly"
        assert layout_named("tiled", ("m3",)).name == "tiled" and not set(layout_named("tiled").chips) & chips_without_sine(load_rules())

    @pytest.mark.parametrize(("flags", "says"), [(["--layout", "tiled", "--chips", "m9"], "it has m1, m2"),
        (["--chips", "m1"], "--chips belongs to --layout tiled"), (["--layout", "tiled", "--buckets", "40,80"], "41 would be"),
        (["--layout", "tiled", "--buckets", "20,182"], "add one between")])  # fmt: skip
    def test_refusals_are_one_line(
        self, flags: list[str], says: str, checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        assert main(["vocoder", "--checkpoint", str(checkpoint.folder), "--out", str(tmp_path), *flags]) == 2
        told = capsys.readouterr()
        assert says in told.err and len(told.err.strip().splitlines()) == 1 and not list(tmp_path.iterdir())

    def test_a_length_no_shape_covers(self, built: Path, checkpoint: Checkpoint) -> None:
        vocoder = Vocoder.of(checkpoint)
        inputs = excerpt(vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0), start=0, frames=120)
        with pytest.raises(InputError, match="largest bucket is 119"):
            VocoderPackage(built).render(inputs)
