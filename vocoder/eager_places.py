"""Where EagerVocoder holds each convolution of the decoder's and generator's blocks, and what it has folded into it.

for name, place in places(vocoder).items(): EagerVocoder(vocoder).get_submodule(name), vocoder.get_submodule(place.path)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from core.blocks import HALF_POWER
from vocoder.decoder import Vocoder


@dataclass(frozen=True, eq=False)
class Place:
    """`path`: of the Vocoder's convolution. `alpha` [in] of the Snake before it, by which the weights are divided; `outer` multiplies its
    result. `centred`: AdaIN alone reads the result and takes any constant off it again."""

    path: str
    alpha: Tensor | None = None
    outer: float = 1.0
    centred: bool = False


def places(vocoder: Vocoder) -> dict[str, Place]:
    """By the name in EagerVocoder; transposed convolutions, F0_conv, N_conv and conv_post left out."""
    found = {"residual": Place("asr_res.0")}
    for block in ("encode", *(f"decode.{index}" for index in range(len(vocoder.decode)))):
        found[f"{block}.conv1"] = Place(f"{block}.conv1", centred=True)
        found[f"{block}.conv2"] = Place(f"{block}.conv2", outer=HALF_POWER)
        found[f"{block}.shortcut"] = Place(f"{block}.conv1x1", outer=HALF_POWER)
    generator = vocoder.generator
    for index in range(len(generator.noise_res)):
        found[f"generator.noise_convs.{index}"] = Place(f"generator.noise_convs.{index}")
        found |= _snakes(vocoder, f"generator.noise_res.{index}", f"generator.noise_res.{index}")
    for index in range(len(generator.resblocks)):
        stage, member = divmod(index, generator.blocks_per_stage)
        found |= _snakes(vocoder, f"generator.stages.{stage}.{member}", f"generator.resblocks.{index}")
    return {name: place for name, place in found.items() if _is_there(vocoder, place.path)}


def _snakes(vocoder: Vocoder, name: str, path: str) -> Iterator[tuple[str, Place]]:
    """The convolutions of an AdaINResBlock1."""
    block = vocoder.get_submodule(path)
    for which, convs, snakes in (("first", "convs1", "alpha1"), ("second", "convs2", "alpha2")):
        for index, snake in enumerate(block.get_submodule(snakes).children()):
            alpha = snake.get_parameter("alpha").detach().flatten()  # [in]
            yield f"{name}.{which}.{index}.conv", Place(f"{path}.{convs}.{index}", alpha, centred=which == "first")


def _is_there(vocoder: Vocoder, path: str) -> bool:
    """A block as wide as what it reads has no shortcut's convolution."""
    parent, _, name = path.rpartition(".")
    return getattr(vocoder.get_submodule(parent), name) is not None
