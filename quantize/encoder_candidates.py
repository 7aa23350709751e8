"""What a search of the encoder chooses among: its parts, each at every level, as stored forms.

    candidates = EncoderCandidates.make(checkpoint, STAGE_METHODS["encoder"]["searched"])
    choice = candidates.choose_all("p8g_gptq") | {"text_encoder": "p6g_gptq"}
    candidates.save(choice, Path("build"))     # the recipe of packages there

A part is a network of its own (ALBERT, the text encoder, one of the predictor's), whose layers are
as near to one another as matters: nine parts are measured one by one, where 70 layers are not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kokoro_ane.core import ENCODER_NAME, Checkpoint
from kokoro_ane.encoder import Encoder
from kokoro_ane.quantize.compress import locate_level
from kokoro_ane.quantize.encoder_layers import list_encoder_layers, with_stored_lstms
from kokoro_ane.quantize.level import CompressionLevel, make_level, save_level
from kokoro_ane.quantize.methods import CHOICES, Method
from kokoro_ane.quantize.plan import LayerSpec
from kokoro_ane.quantize.recipe import QuantizationRecipe, locate_kept_recipe
from kokoro_ane.quantize.trade_off import count_saved_bytes

PREDICTOR = "predictor"  # whose networks are parts of their own
Choice = Mapping[str, str]  # the level of each part


def name_part(layer: str) -> str:
    """The part that a layer belongs to: bert, text_encoder, predictor.lstm."""
    names = layer.split(".")
    return ".".join(names[: 1 + (names[0] == PREDICTOR)])


@dataclass(frozen=True, eq=False)
class EncoderCandidates:
    """Responsibilities: 1. the forms of every layer; 2. the size of a choice; 3. its recipe and
    level file.
    """

    checkpoint: Checkpoint
    method: Method
    layers: Mapping[str, LayerSpec]
    levels: Mapping[str, CompressionLevel]

    @classmethod
    def make(cls, checkpoint: Checkpoint, method: Method) -> "EncoderCandidates":
        """Compress the whole encoder once by each level that the method may take."""
        layers = list_encoder_layers(with_stored_lstms(Encoder.from_checkpoint(checkpoint)))
        made = cls(checkpoint, method, layers, {})
        levels = {
            name: make_level(
                checkpoint, method, made.make_recipe(made.choose_all(name)), ENCODER_NAME
            )
            for name in CHOICES[method.name]
        }
        return cls(checkpoint, method, layers, levels)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Their names, the largest first."""
        sizes = dict.fromkeys(map(name_part, self.layers), 0)
        for path, layer in self.layers.items():
            sizes[name_part(path)] += layer.elements
        return tuple(sorted(sizes, key=lambda part: -sizes[part]))

    def choose_all(self, level: str) -> dict[str, str]:
        """Every part at one level."""
        return dict.fromkeys(self.parts, level)

    def count_saved(self, choice: Choice) -> float:
        """The bytes that a choice saves."""
        return sum(
            count_saved_bytes(layer, choice[name_part(path)]) for path, layer in self.layers.items()
        )

    def make_recipe(self, choice: Choice) -> QuantizationRecipe:
        """The recipe that names every layer."""
        return QuantizationRecipe(
            self.checkpoint.name,
            self.checkpoint.sha256,
            budget={},
            forecast={},
            levels={path: choice[name_part(path)] for path in sorted(self.layers)},
        )

    def save(self, choice: Choice, build: Path) -> None:
        """Write the recipe of a build folder, and its level's file."""
        recipe = self.make_recipe(choice)
        recipe.save(locate_kept_recipe(self.checkpoint, self.method.name, build))
        forms = {path: self.levels[level].forms[path] for path, level in recipe.levels.items()}
        level = CompressionLevel(self.method, forms, {}, {}, {}, recipe=recipe)
        path = locate_level(self.method, self.checkpoint, build, ENCODER_NAME)
        save_level(level, path, self.checkpoint)
