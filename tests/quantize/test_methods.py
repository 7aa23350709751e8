"""The registry of methods, their plans, the search; packages and host weights that are
another's, as the judge meets them.
"""

import dataclasses
import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8.cache import CONFIG, DATA
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.quantize.compress import build_compressed
from kokoro_ane.quantize.curvature import can_take
from kokoro_ane.quantize.locator import PackageRequest
from kokoro_ane.quantize.methods import (
    CHOICES,
    METHODS,
    SCHEMES,
    Activations,
    IntegerWeights,
    PaletteWeights,
    find_method,
    is_strided,
    with_settings,
)
from kokoro_ane.quantize.plan import LayerSpec, int8_macs_share, plan_for
from kokoro_ane.quantize.recipe import RECIPES, choose_recipe, find_recipe, load_recipe
from kokoro_ane.quantize.trade_off import Option, compute_trade_off, find_first_within
from kokoro_ane.runtimes.genuine import require_genuine
from tests.commands import parsed, refused, table
from tests.demo_voice import DEMO_VOICE
from tests.eval.release_build import release


def layer(name, elements, channels, outputs, macs, **other):
    plain = {"transposed": False, "is_style": False, "is_tail": False}
    sizes = {"elements": elements, "channels": channels, "outputs": outputs, "macs": macs}
    return LayerSpec(name, **sizes, **plain | other)


LARGE = layer("generator.resblocks.0.convs1.0", 12_288, 64, 64, macs=900)
SMALL = layer("generator.noise_convs.0", 704, 22, 32, macs=60)
STYLE = layer("encode.norm1.fc", 33_280, 128, 260, macs=10, is_style=True)
UPS = layer("generator.ups.1", 24_576, 64, 32, macs=20, transposed=True)
TAIL = layer("generator.conv_post", 4928, 32, 22, macs=10, is_tail=True)
LAYERS = (LARGE, SMALL, STYLE, UPS, TAIL)


def test_names_agree_and_an_unknown_one_lists_them():
    for name, method in METHODS.items():
        assert method.name == name
        assert method.parent is None or method.parent in METHODS
        assert (method.parent is None) == (method.weights is None and not method.by_recipe)
        assert method.title
    names = "fp16, w8, p8, p6, p4, w4, w8a8, p6a8, p4a8, mixed, mixed18"
    assert list(METHODS) == names.split(", ")
    refused(f"unknown method 'w9'; there are: {names}", find_method, "w9")
    assert [name for name, method in METHODS.items() if method.unfit_for_engine] == ["w4"]


KINDS = {kind.__name__: kind for kind in (IntegerWeights, PaletteWeights, Activations)}


@table(
    "kind options message",
    """
    IntegerWeights | {"bits": 5} | integer weights of 5 bits
    IntegerWeights | {"block": 4} | block is 4
    IntegerWeights | {"block": 32, "gptq": true} | fitted integers have one scale
    PaletteWeights | {"bits": 5} | palette of 5 bits: 3, 4, 6 or 8
    Activations | {"exponent": 1.5} | exponent of the balance is 1.5
    Activations | {"clips": 0} | clips is 0
    Activations | {"percentile": 101.0} | percentile is 101.0: 90 to 100
    Activations | {"exponent": 0.0} | time_varying_scale needs an exponent above 0
""",
)
def test_impossible_configurations(kind, options, message):
    refused(message, KINDS[kind], **options)


@table(
    "channels block",
    """
    192 | 32
    226 | 226
    130 | 26
    22 | 22
    64 | 32
    7 | 7
""",
)
def test_blocks_divide_their_channels(channels, block):
    assert IntegerWeights(4, 32).choose_block(channels) == block


@table(
    "outputs width rows",
    """
    1024 | 3270 | 4
    1090 | 3 | 1090
    2180 | 128 | 20
    1024 | 128 | 32
    128 | 384 | 8
    13 | 9000 | 13
""",
)
def test_rows_that_share_a_table_divide_the_outputs_and_pay(outputs, width, rows):
    assert PaletteWeights(4, rows=4).choose_rows(outputs, width) == rows
    assert PaletteWeights(4).choose_rows(outputs, width) == outputs
    assert PaletteWeights(4, rows=4).choose_rows(512, 384, value_bytes=4) == 16


class TestSettings:
    def test_replace_what_they_name(self):
        settings = (
            "exponent=0.25 clips=3 time_varying_scale=0 per_column_scale=0 float_inputs=a,b.*"
        )
        expected = {
            "exponent": 0.25,
            "clips": 3,
            "time_varying_scale": False,
            "per_column_scale": False,
            "float_inputs": ("a", "b.*"),
        }
        method = with_settings(METHODS["w8a8"], settings.split())
        assert method.activations == dataclasses.replace(Activations(), **expected)
        assert with_settings(METHODS["w8"], []) is METHODS["w8"]

    @table(
        "method setting message",
        """
        w8a8 | alpha=1 | --set alpha=1: give KEY=VALUE with a key of clips, exponent, float_inputs
        w8a8 | exponent | give KEY=VALUE
        w8a8 | exponent=much | 'much' is not a number
        w8a8 | time_varying_scale=yes | 'yes' is not a number
        w8 | exponent=1 | method 'w8' has no activations to set
    """,
    )
    def test_bad_ones_are_named(self, method, setting, message):
        refused(message, with_settings, METHODS[method], [setting])


class TestPlan:
    def planned(self, method, recipe=None):
        return {
            name: (entry.weights, entry.int8_input)
            for name, entry in plan_for(METHODS[method], LAYERS, recipe).items()
        }

    def test_plans_of_weights_of_w8a8_and_of_a_recipe(self):
        plan = self.planned("p6")
        assert plan == {
            LARGE.name: (PaletteWeights(6), False),
            SMALL.name: (None, False),
            STYLE.name: (PaletteWeights(6), False),
            UPS.name: (IntegerWeights(), False),
        }
        plan = self.planned("w8a8")
        assert {name for name, (_, int8_input) in plan.items() if int8_input} == {
            LARGE.name,
            SMALL.name,
        }
        assert (
            plan[SMALL.name][0] == IntegerWeights()
        )  # small, but an int8 product needs both sides
        assert plan[UPS.name] == (IntegerWeights(), False)
        share = int8_macs_share(plan_for(METHODS["w8a8"], LAYERS, None), LAYERS)
        assert share == pytest.approx(0.96)
        recipe = {LARGE.name: "p4", SMALL.name: "w8", STYLE.name: "w8", UPS.name: "w8a8"}
        plan = self.planned("mixed", recipe)
        assert plan[LARGE.name] == (PaletteWeights(4), False)
        assert plan[SMALL.name] == (None, False)
        assert plan[UPS.name] == (SCHEMES["w8a8"].weights, True)

    @pytest.mark.parametrize("method", ["p8", "p6"])
    def test_strided_layers_have_integers_in_the_place_of_palettes(self, method):
        strided = [
            dataclasses.replace(LARGE, name=name)
            for name in ("generator.ups.0", "generator.ups.1", "generator.noise_convs.0")
        ]
        plan = plan_for(METHODS[method], (LARGE, *strided), None)
        assert [type(plan[layer.name].weights) for layer in (LARGE, *strided)] == [
            PaletteWeights,
            *[IntegerWeights] * 3,
        ]
        # nor does a search offer them one
        levels = [level for level in CHOICES["mixed18"] if can_take(strided[0], level)]
        assert levels == ["w8", "w8_gptq"]
        others = [level for level in CHOICES["mixed18"] if can_take(LARGE, level)]
        assert "p6g_gptq" in others
        assert "w8_gptq" not in others

    @table(
        "name level",
        """
        kokoro-int8 | w8
        kokoro-int8-mixed18 | w8_gptq
    """,
    )
    def test_bundled_recipes_have_no_palette_on_a_strided_layer(self, name, level):
        levels = load_recipe(RECIPES / f"{name}.json").levels
        strided = {layer: level for layer, level in levels.items() if is_strided(layer)}
        assert strided == dict.fromkeys(
            ("generator.noise_convs.0", "generator.ups.0", "generator.ups.1"), level
        )

    def test_bad_recipes(self):
        good = dict.fromkeys((LARGE.name, SMALL.name, STYLE.name, UPS.name), "w8")
        for recipe, message in (
            (
                good | {STYLE.name: "w8a8"},
                "norm1.fc is an AdaIN affine or of a few weights and keeps",
            ),
            (good | {"nothing": "w8"}, "names a layer that the vocoder does not have: nothing"),
            ({STYLE.name: "w8"} | dict.fromkeys((LARGE.name, UPS.name), "w8"), r"\(1 in all\)"),
            (None, "method 'mixed' needs a recipe: `kokoro-ane release --smallest`"),
        ):
            refused(message, plan_for, METHODS["mixed"], LAYERS, recipe)


class TestRecipeFile:
    def test_a_checkpoints_folder_brings_its_own(self):
        checkpoint = open_checkpoint(str(DEMO_VOICE))
        recipe = choose_recipe(METHODS["mixed"], checkpoint, Path("build"))
        assert recipe is not None
        recipe.require_fits(checkpoint)
        assert find_recipe(checkpoint, "mixed18", Path("build")) == RECIPES / "demo-mixed18.json"

    def test_weights_of_kokoros_architecture_follow_kokoro_int8s(self):
        demo = open_checkpoint(str(DEMO_VOICE))
        config = KokoroConfig.load(DATA / CONFIG)
        other = replace(demo, config=replace(config, name="mine"), folder=DATA)
        recipe = choose_recipe(METHODS["mixed18"], other, Path("build"))
        assert recipe.checkpoint == "unrounded"
        rounded = choose_recipe(METHODS["mixed18"], replace(other, config=config), Path("build"))
        assert "p4g_gptq" in rounded.levels.values()
        for one in (recipe, rounded):
            one.require_fits(other)
            refused(f"was found for checkpoint {one.checkpoint}", one.require_fits, demo)

    @table(
        "text message",
        r"""
        { | is not JSON
        "[]" | not an object
        "{\"levels\": {}}" | has no key 'budget'
    """,
    )
    def test_bad_files(self, tmp_path, text, message):
        (tmp_path / "r.json").write_text(text, encoding="utf-8")
        refused(message, load_recipe, tmp_path / "r.json")

    def test_a_missing_one_names_the_command_and_an_unknown_level_the_others(self, tmp_path):
        path, recipe = tmp_path / "r.json", parsed(RECIPES / "kokoro-int8.json")
        refused("there is no recipe .* `kokoro-ane release --smallest`", load_recipe, path)
        recipe["levels"]["F0_conv"] = "w9"
        path.write_text(json.dumps(recipe), encoding="utf-8")
        refused("unknown level 'w9'; there are: fp16, w8, w8_gptq, p6, p4,", load_recipe, path)


class TestTradeOff:
    OPTIONS = [
        Option(layer, level, distance, saved)
        for layer, choices in {
            "a": {"fp16": (0.0, 0.0), "w8": (0.1, 5e6)},
            "b": {"fp16": (0.0, 0.0), "w8": (0.9, 3e6)},
            "c": {"fp16": (0.0, 0.0), "w8": (0.02, 2e6)},
        }.items()
        for level, (distance, saved) in choices.items()
    ]

    def test_trade_offs_are_the_best_of_their_size(self):
        curve = compute_trade_off(self.OPTIONS)
        assert [point.saved for point in curve] == pytest.approx([0.0, 2e6, 7e6, 10e6])
        assert [point.distance for point in curve] == pytest.approx([0.0, 0.02, 0.12, 1.02])
        best = find_first_within(curve, whole_bytes=20e6, most_bytes=14e6)
        assert best.levels == {"a": "w8", "b": "fp16", "c": "w8"}
        # Against every combination of levels
        by_layer = [[o for o in self.OPTIONS if o.layer == layer] for layer in "abc"]
        for point in curve:
            rivals = [
                c
                for c in itertools.product(*by_layer)
                if sum(o.saved for o in c) >= point.saved - 1
            ]
            assert point.distance <= min(sum(o.distance for o in c) for c in rivals) + 1e-9
        with pytest.raises(InputError, match=r"9.0 MB is out of reach: .* as far as 10.0 MB"):
            find_first_within(curve, whole_bytes=20e6, most_bytes=9e6)


def renamed(build, checkpoint, method, name, link=False):
    """One method's package under another's name: a copy or a link, and an edited manifest."""
    old, new = (
        PackageRequest(checkpoint, build, level, PADDED).vocoder for level in (method, name)
    )
    if name != method:
        place = new.with_suffix(".mlpackage")
        if place.exists():
            shutil.rmtree(place)
        (place.symlink_to if link else lambda source: shutil.copytree(source, place))(
            old.with_suffix(".mlpackage")
        )
        data = parsed(old) | {"method": name, "package": place.name}
        new.write_text(json.dumps(data), encoding="utf-8")
    return Manifest.load(new)


class TestWhatItsNameSays:
    """A package's stored kinds are its method's, its host weights the checkpoint's: else one line,
    exit 2, before anything is measured.
    """

    def refusals(self, place, method, capsys):
        """The one line of the quality and the release command."""
        arguments = f"--checkpoint {place[0].folder} --build {place[1]} --workers 1".split()
        assert quality([*arguments, "--method", method]) == 2
        assert release(place, "--methods", method) == 2
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]

    @pytest.mark.parametrize(("name", "link"), [("w8a8", False), ("p6", True)])
    def test_fp16_under_another_name(
        self,
        placed,
        measured,
        name,
        link,
        capsys,
    ):
        renamed(placed[1], placed[0], "fp16", name, link)
        one, two = self.refusals(placed, name, capsys)
        assert one == two
        assert f"stores fp16, fp32 with float inputs, which is not padded-{name}" in one
        assert not measured

    def test_every_method_under_every_name(self, copied, tmp_path):
        """w4, which takes a conversion, in TestW4 of test_package.py."""
        checkpoint, build = copied
        build_compressed(METHODS["p4"], checkpoint, build, layout=PADDED)
        levels = ("fp16", "w8", "w8a8", "p4", "mixed")
        for method, name in itertools.product(levels, (*levels, "p6", "w4")):
            old, folder = (
                PackageRequest(checkpoint, build, method, PADDED).vocoder,
                tmp_path / method / name,
            )
            folder.mkdir(parents=True)
            shutil.copy2(old, folder)
            (folder / old.with_suffix(".mlpackage").name).symlink_to(old.with_suffix(".mlpackage"))
            manifest = renamed(folder, checkpoint, method, name, link=True)
            # a recipe may say so
            if method == name or (method, name) in (
                ("w8", "mixed"),
                ("w8a8", "mixed"),
                ("p4", "mixed"),
            ):
                require_genuine(manifest, f"padded-{name}")
            else:
                pytest.raises(InputError, require_genuine, manifest, f"padded-{name}").match(
                    f"which is not padded-{name}: renamed"
                )
