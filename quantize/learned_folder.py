"""What a reconstruction has learned, kept in a folder: finished phases while it runs, and in the end what a package is built with.

    kept = Kept(folder, identity_of(checkpoint, method, recipe), plan)
    arrays = kept.phase("encode") or ...; kept.keep("encode", arrays); kept.choose(arrays)
    learned = read_learned(folder, identity_of(checkpoint, method, recipe))

Every file carries its digest, over what it holds and over whom it belongs to: another checkpoint's, level's or run's is refused.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from core.checkpoint import Checkpoint
from core.errors import InputError
from core.layers import ConvTranspose
from core.sealed import digest_of_arrays, read_sealed_arrays, sealed_arrays
from core.staging import staged
from quantize.learned import BIAS, INDEX, RANGE, TABLE, WEIGHT, Integers, by_layer
from quantize.methods import Method
from quantize.recipe import Recipe
from vocoder.decoder import Vocoder

FORMAT = 1
LEARNED = "learned.npz"
AGAIN = "; give another folder, or learn anew with `python -m quantize.reconstruct --out` another one"
Identity = Mapping[str, Any]


def identity_of(checkpoint: Checkpoint, method: Method, recipe: Recipe | None) -> Identity:
    """Whom something learned belongs to."""
    settings = asdict(method.activations) if method.activations else None
    levels = dict(recipe.levels) if recipe and method.by_recipe else None
    return {"format": FORMAT, "checkpoint": checkpoint.content_sha256, "method": method.name, "settings": settings, "levels": levels}


@dataclass(frozen=True)
class Kept:
    """Responsibilities: 1. finished phases of one run in a folder; 2. the arrays that are chosen in the end."""

    folder: Path
    identity: Identity
    plan: Mapping[str, Any]

    def phase(self, name: str) -> dict[str, np.ndarray] | None:
        """Arrays of a phase that an earlier run finished; None where it did not. InputError for another run's file."""
        path = self._path(name)
        return read_sealed_arrays(path, self._about(name), AGAIN) if path.exists() else None

    def keep(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a finished phase."""
        _write(self._path(name), arrays, self._about(name))

    def choose(self, arrays: Mapping[str, np.ndarray]) -> Path:
        """Write what packages are built with."""
        _write(self.folder / LEARNED, arrays, self.identity)
        return self.folder / LEARNED

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.phase.npz"

    def _about(self, name: str) -> dict[str, Any]:
        return {"phase": name, "plan": dict(self.plan), **self.identity}


def _write(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **sealed_arrays(arrays, about))


@dataclass(frozen=True, eq=False)
class LearnedPalette:
    """A palette as it was learned, in the place of quantize.gptq.Fit."""

    table: np.ndarray
    index: np.ndarray

    def __call__(self, weight: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
        if self.index.size != weight.size or len(self.table) != 2**bits:
            raise InputError(f"reconstruction: a palette of {len(self.table)} values for {self.index.size} weights does not fit{AGAIN}")
        return self.table.astype(weight.dtype), self.index.reshape(-1).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Learned:
    """Responsibilities: put what was learned in the place of weights, ranges and palettes."""

    arrays: Mapping[str, np.ndarray]

    @property
    def sha256(self) -> str:
        """For the manifest."""
        return digest_of_arrays(self.arrays, {})

    @torch.no_grad()
    def put(self, vocoder: Vocoder) -> None:
        """Integers times their scales, and biases, in place. InputError where a layer is another."""
        for path, kinds in by_layer(self.arrays).items():
            layer = vocoder.get_submodule(path)
            assert isinstance(layer, nn.Conv2d | ConvTranspose), path
            if WEIGHT in kinds:
                grid = Integers(layer)
                grid.load(kinds)
                layer.weight.data = grid(layer.weight)
            if BIAS in kinds and layer.bias is not None:
                layer.bias.data.copy_(kinds[BIAS])

    @property
    def ranges(self) -> dict[str, float]:
        """Of what layers read, by path."""
        return {path: float(kinds[RANGE]) for path, kinds in by_layer(self.arrays).items() if RANGE in kinds}

    @property
    def palettes(self) -> dict[str, LearnedPalette]:
        """By path."""
        found = by_layer(self.arrays)
        return {path: LearnedPalette(kinds[TABLE].numpy(), kinds[INDEX].numpy()) for path, kinds in found.items() if TABLE in kinds}


def read_learned(folder: Path, identity: Identity) -> Learned:
    """What a reconstruction chose. InputError where there is none, or it belongs to another checkpoint or level."""
    path = folder / LEARNED
    if not path.is_file():
        raise InputError(f"{folder} holds no finished reconstruction (no {LEARNED}): `python -m quantize.reconstruct` makes one")
    return Learned(read_sealed_arrays(path, identity, AGAIN))
