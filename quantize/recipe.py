"""A recipe: the level of every layer of one checkpoint. `release --smallest` finds it, and methods
`mixed` and `mixed18` follow it.

    recipe = load_recipe(find_recipe(checkpoint, "mixed", Path("build")))
    recipe.require_fits(checkpoint)
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kokoro_ane.core import (
    KOKORO_INT8,
    WEIGHTS_SHA256,
    Checkpoint,
    InputError,
    conform,
    has_kokoros_vocoder,
    json_of,
    read_json,
    write_json,
)
from kokoro_ane.quantize.methods import SCHEMES, Method, PaletteWeights

RECIPES = Path(__file__).parent / "recipes"
FORMAT = 1
UNROUNDED = "unrounded"  # weights that lie on no grid, as the hub's do
OURS = json_of("checkpoint_sha256", "levels")
FIND = "`kokoro-ane release --smallest` finds one (the encoder's with --product)"


@dataclass(frozen=True)
class QuantizationRecipe:
    """Responsibilities: 1. the level of each layer; 2. the checkpoint that it was found for; 3. the
    budget that was searched under, and the forecast.
    """

    checkpoint: str
    checkpoint_sha256: str
    # {"bytes": 38100000}; of recipes that were found earlier, shares of the fp16 package
    budget: Mapping[str, float]
    # the distance of this choice, as the search forecasts it
    forecast: Mapping[str, float]
    levels: Mapping[str, str]
    format: int = FORMAT

    def __post_init__(self) -> None:
        unknown = [level for level in self.levels.values() if level not in SCHEMES]
        if unknown:
            raise InputError(
                f"recipe: unknown level {unknown[0]!r}; there are: {', '.join(SCHEMES)}"
            )

    @property
    def needs_ios18(self) -> bool:
        """Whether any layer has more than one table."""
        return any(
            isinstance(weights := SCHEMES[level].weights, PaletteWeights) and weights.rows
            for level in self.levels.values()
        )

    def require_fits(self, checkpoint: Checkpoint) -> None:
        """Raise InputError when it was found for other weights. kokoro-int8's, and that of an
        imitation of unrounded weights, serve all weights of their architecture: whether they keep
        the limits with it, the judge says.
        """
        is_for_all = self.checkpoint == UNROUNDED or self.checkpoint_sha256 == WEIGHTS_SHA256
        serves = is_for_all and has_kokoros_vocoder(checkpoint.config)
        if self.checkpoint_sha256 != checkpoint.sha256 and not serves:
            raise InputError(
                f"the recipe was found for checkpoint {self.checkpoint}"
                f" {self.checkpoint_sha256[:12]}, but {checkpoint.weights} is"
                f" {checkpoint.sha256[:12]}: {FIND}"
            )

    def as_dict(self) -> dict[str, Any]:
        """The recipe as plain data."""
        return dataclasses.asdict(self)

    def save(self, path: Path) -> None:
        """Write the file aside and rename it."""
        write_json(path, self.as_dict(), OURS)


def locate_kept_recipe(checkpoint: Checkpoint, method: str, build: Path) -> Path:
    """Where a search leaves the recipe for the packages of a build folder."""
    return build / "recipes" / f"{checkpoint.name}-{method}.json"


def find_recipe(checkpoint: Checkpoint, method: str, build: Path) -> Path:
    """Where the recipe of a checkpoint for `mixed` or `mixed18` stands by default: in the build
    folder, where a search left it; in the checkpoint's folder as METHOD.json; bundled under its
    name; or for Kokoro's architecture that of unrounded weights, where there is one, else
    kokoro-int8's.
    """
    suffix = "" if method == "mixed" else f"-{method}"
    bundled = RECIPES / f"{checkpoint.name}{suffix}.json"
    # What a search has just found goes before what the checkpoint brings.
    places = [
        locate_kept_recipe(checkpoint, method, build),
        checkpoint.folder / f"{method}.json",
        bundled,
    ]
    if has_kokoros_vocoder(checkpoint.config):
        # kokoro-int8's breaks pauses of weights that were never rounded.
        places += [RECIPES / f"{name}{suffix}.json" for name in (UNROUNDED, KOKORO_INT8)]
    # Where there is none, the bundled path stands in the message about it.
    return next((path for path in places if path.is_file()), bundled)


def load_recipe(path: Path) -> QuantizationRecipe:
    """Read a recipe. Raises InputError when it is missing, not JSON, or has other keys."""
    data = read_json(path, f"there is no recipe for this checkpoint; {FIND}")
    # A key that is missing or unknown is an InputError here, not a constructor's TypeError.
    conform(data, QuantizationRecipe, str(path))
    if (number := data.get("format")) != FORMAT:
        raise InputError(
            f"{path} is a recipe of format {number}, this version reads {FORMAT}; {FIND}"
        )
    return QuantizationRecipe(**data)


def choose_recipe(
    method: Method, checkpoint: Checkpoint, build: Path, path: Path | None = None
) -> QuantizationRecipe | None:
    """The recipe that a method needs: the one at `path`, or the default one of the checkpoint and
    the build folder. None for methods that need no recipe. Raises InputError when `path` names one
    for them.
    """
    if method.by_recipe:
        recipe = load_recipe(path or find_recipe(checkpoint, method.name, build))
        if recipe.needs_ios18 and method.target is None:
            raise InputError(
                "the recipe has tables for some rows, which needs iOS 18: 'mixed18' builds it,"
                f" {method.name!r} cannot"
            )
        return recipe
    if path is not None:
        raise InputError(f"--recipe: method {method.name!r} takes no recipe")
    return None
