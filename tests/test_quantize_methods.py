"""The registry of methods: immutable, checked, one name everywhere; and the plans that methods and recipes give."""

import dataclasses
from pathlib import Path

import pytest

from kokoro_ane.core.errors import InputError
from kokoro_ane.quantize.layer_plan import Layer, int8_share, plan_for
from kokoro_ane.quantize.locator import command_of
from kokoro_ane.quantize.methods import (
    METHODS,
    SCHEMES,
    Activations,
    BlockWeights,
    LinearWeights,
    PaletteWeights,
    method_named,
    with_settings,
)
from kokoro_ane.quantize.recipe import Recipe, load_recipe

LARGE = Layer("generator.resblocks.0.convs1.0", "x_1", "conv", "in_1", "w_1", 12_288, 64, 64, macs=900, is_style=False, is_tail=False)
SMALL = Layer("generator.noise_convs.0", "x_2", "conv", "in_2", "w_2", 704, 22, 32, macs=60, is_style=False, is_tail=False)
STYLE = Layer("encode.norm1.fc", "x_3", "conv", "style", "w_3", 33_280, 128, 260, macs=10, is_style=True, is_tail=False)
UPS = Layer("generator.ups.1", "x_4", "conv_transpose", "in_4", "w_4", 24_576, 64, 32, macs=20, is_style=False, is_tail=False)
TAIL = Layer("generator.conv_post", "x", "conv", "in_5", "w_5", 4928, 32, 22, macs=10, is_style=False, is_tail=True)
LAYERS = (LARGE, SMALL, STYLE, UPS, TAIL)


def test_names_agree_and_parents_exist() -> None:
    for name, method in METHODS.items():
        assert method.name == name
        assert method.parent is None or method.parent in METHODS
        assert (method.parent is None) == (method.weights is None and not method.by_recipe)
        assert method.title
    assert set(METHODS) == {"fp16", "w8", "p8", "p6", "p4", "w4", "w8a8", "mixed"}


def test_registry_and_methods_are_frozen() -> None:
    with pytest.raises(TypeError):
        METHODS["x"] = METHODS["w8"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["w8"].name = "x"  # type: ignore[misc]


def test_unknown_method_lists_the_known() -> None:
    with pytest.raises(InputError, match="unknown method 'w9'; there are: fp16, w8, p8, p6, p4, w4, w8a8, mixed"):
        method_named("w9")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (LinearWeights, {"bits": 3}, "linear weights of 3 bits"),
        (LinearWeights, {"keep_up_to": -1}, "keep_up_to is -1"),
        (BlockWeights, {"bits": 8}, "block weights of 8 bits"),
        (BlockWeights, {"block": 4}, "block is 4"),
        (PaletteWeights, {"bits": 5}, "palette of 5 bits: 4, 6 or 8"),
        (Activations, {"exponent": 1.5}, "exponent of the balance is 1.5"),
        (Activations, {"clips": 0}, "clips is 0"),
        (Activations, {"percentile": 101.0}, "percentile is 101.0: 90 to 100"),
        (Activations, {"exponent": 0.0}, "time_varying_scale needs an exponent above 0"),
    ],
)
def test_impossible_configurations(kind: type, options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**options)


def test_commands_build_what_they_name() -> None:
    assert command_of(METHODS["fp16"]) == "kokoro-ane build vocoder"
    assert command_of(METHODS["w8a8"], "tiled") == "kokoro-ane quantize --method w8a8 --layout tiled"


@pytest.mark.parametrize(("channels", "block"), [(192, 32), (226, 0), (130, 26), (22, 22), (64, 32), (7, 0)])
def test_blocks_divide_their_channels(channels: int, block: int) -> None:
    assert BlockWeights().block_of(channels) == block


def test_only_w4_is_unfit_for_the_engine_and_says_why() -> None:
    assert [name for name, method in METHODS.items() if method.unfit_for_engine] == ["w4"]
    assert "Neural Engine" in METHODS["w4"].unfit_for_engine
    assert METHODS["w4"].target == "iOS18"


class TestForms:
    @pytest.mark.parametrize(("layout", "upsampler"), [("padded", False), ("host", False), ("tiled", True), ("tiled-poly-host", True)])
    def test_the_padded_layout_keeps_its_first_upsampler_in_float(self, layout: str, upsampler: bool) -> None:
        activations = METHODS["w8a8"].in_layout(layout).int8_activations()
        assert activations.takes("generator.ups.0") is upsampler
        assert activations.takes("decode.0.conv1")
        assert activations.takes("generator.resblocks.0.convs1.0") and not activations.takes("encode.conv1")
        assert activations.in_layout("padded") == activations  # only once

    def test_what_reads_floats_has_one_layout(self) -> None:
        assert METHODS["w8"].in_layout("padded") is METHODS["w8"]

    def test_what_the_padded_layout_leaves_on_request(self) -> None:
        method = with_settings(METHODS["w8a8"], ["padded_float="]).in_layout("padded")
        assert method.int8_activations().takes("generator.ups.0")


class TestSettings:
    def test_replace_what_they_name(self) -> None:
        given = ["exponent=0.25", "clips=3", "time_varying_scale=0", "per_column_scale=0", "float_inputs=a,b.*", "padded_float="]
        method, wanted = with_settings(METHODS["w8a8"], given), Activations(0.25, time_varying_scale=False, per_column_scale=False, clips=3)
        assert method.activations == dataclasses.replace(wanted, float_inputs=("a", "b.*"), padded_float=())
        assert with_settings(METHODS["w8"], []) is METHODS["w8"]

    @pytest.mark.parametrize(
        ("method", "setting", "message"),
        [
            ("w8a8", "alpha=1", "--set alpha=1: give KEY=VALUE with a key of clips, exponent, float_inputs, padded_float"),
            ("w8a8", "exponent", "give KEY=VALUE"),
            ("w8a8", "exponent=much", "'much' is not a number"),
            ("w8a8", "time_varying_scale=yes", "'yes' is not a number"),
            ("w8", "exponent=1", "method 'w8' has no activations to set"),
        ],
    )
    def test_bad_ones_are_named(self, method: str, setting: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            with_settings(METHODS[method], [setting])


class TestPlan:
    def planned(self, method: str, recipe: dict[str, str] | None = None) -> dict[str, tuple[object, bool]]:
        return {entry.layer.name: (entry.weights, entry.int8_input) for entry in plan_for(METHODS[method], LAYERS, recipe)}

    def test_weights_only(self) -> None:
        plan = self.planned("p6")
        assert plan == {x.name: (None if x is SMALL else PaletteWeights(6), False) for x in (LARGE, SMALL, STYLE, UPS)}

    def test_w8a8_keeps_the_named_inputs_and_the_affines_in_float(self) -> None:
        plan = self.planned("w8a8")
        assert {name for name, (_, int8_input) in plan.items() if int8_input} == {LARGE.name, SMALL.name}
        assert plan[SMALL.name][0] == LinearWeights()  # small, but an int8 product needs both sides
        assert plan[UPS.name] == (LinearWeights(), False)
        share = int8_share(plan_for(METHODS["w8a8"], LAYERS, None), LAYERS)
        assert share == pytest.approx(0.96)

    def test_a_recipe_is_followed(self) -> None:
        recipe = {LARGE.name: "p4", SMALL.name: "w8", STYLE.name: "w8", UPS.name: "w8a8"}
        plan = self.planned("mixed", recipe)
        assert plan[LARGE.name] == (PaletteWeights(4), False)
        assert plan[SMALL.name] == (None, False)
        assert plan[UPS.name] == (SCHEMES["w8a8"].weights, True)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({LARGE.name: "w9"}, "unknown level 'w9' for generator.resblocks.0.convs1.0; there are: fp16, w8, p6, p4, p6_gptq,"),
            ({STYLE.name: "w8a8"}, "encode.norm1.fc is an AdaIN affine or of a few weights and keeps a float input"),
            ({"nothing": "w8"}, "names a layer that the package does not have: nothing"),
        ],
    )
    def test_bad_recipes(self, change: dict[str, str], message: str) -> None:
        good = dict.fromkeys((LARGE.name, SMALL.name, STYLE.name, UPS.name), "w8")
        with pytest.raises(InputError, match=message):
            plan_for(METHODS["mixed"], LAYERS, good | change)
        with pytest.raises(InputError, match=r"recipe does not name: .* \(1 in all\)"):
            plan_for(METHODS["mixed"], LAYERS, {name: level for name, level in good.items() if name != UPS.name})
        with pytest.raises(InputError, match=r"method 'mixed' needs a recipe: `kokoro-ane sensitivity`"):
            plan_for(METHODS["mixed"], LAYERS, None)


class TestRecipeFile:
    def test_round_trip(self, tmp_path: Path) -> None:
        recipe = Recipe("tiny", "00ff", {"int8_macs": 0.9}, {"spectral_distance_db2": 0.1}, {"a": "w8"})
        recipe.save(tmp_path / "r.json")
        assert load_recipe(tmp_path / "r.json") == recipe

    @pytest.mark.parametrize(
        ("text", "message"),
        [("{", "is not JSON"), ("[]", "is not a recipe"), ('{"levels": {}}', "is unknown or missing")],
    )
    def test_bad_files(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "r.json").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            load_recipe(tmp_path / "r.json")

    def test_missing_names_the_command(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"does not exist: there is no recipe .* `kokoro-ane sensitivity`"):
            load_recipe(tmp_path / "r.json")
