"""A vocoder on the grids of a compression level, with gradients: what a reconstruction learns.

    student = Student.of(vocoder, schemes, ranges, fits)
    loss(student.vocoder(...)).backward()          # rounding passes gradients straight through (Bengio et al. 2013, arXiv 1308.3432)
    learned = student.arrays(["decode.0.conv1"])   # for `put_weights` and `LearnedPalette`

Learned are integers (the weights in units of their scale), a palette's values (every weight keeps its index), biases and ranges of inputs
(LSQ, Esser et al. 2020, arXiv 1902.08153). All in units of their own step, so that one rate suits them.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from core.errors import InputError
from core.layers import ConvTranspose
from quantize.gptq import Fit
from quantize.methods import LinearWeights, PaletteWeights, Scheme
from quantize.palette import palette
from quantize.simulate import INT8_STEPS
from vocoder.decoder import Vocoder
from vocoder.prepared import preparation

Learnable = list[tuple[nn.Parameter, float]]
SMALLEST_BIAS = 1e-3  # the unit of biases that are nearly nothing
WEIGHT, BIAS, RANGE, TABLE, INDEX = "weight", "bias", "range", "table", "index"


class Integers(nn.Module):
    """Weights in units of `scale`, rounded to -127..127. The largest of each channel stay: they set the scale of the package."""

    scale: Tensor
    largest: Tensor

    def __init__(self, layer: nn.Conv2d | ConvTranspose) -> None:
        super().__init__()
        weight = layer.weight.detach()
        others = (0, 2, 3) if isinstance(layer, ConvTranspose) else (1, 2, 3)  # all axes but the output channel's
        peak = weight.abs().amax(dim=others, keepdim=True).clamp(min=1e-12)
        self.register_buffer("scale", (peak / INT8_STEPS).half().float())
        self.register_buffer("largest", weight.abs() >= peak)
        self.units = nn.Parameter(weight * (INT8_STEPS / peak))
        self.units.register_hook(lambda gradient: gradient.masked_fill(self.largest, 0.0))

    def forward(self, _: Tensor) -> Tensor:
        """The weights that the package will hold."""
        units = self.units.clamp(-INT8_STEPS, INT8_STEPS)
        return (units + (units.round() - units).detach()) * self.scale

    def arrays(self) -> dict[str, Tensor]:
        """What is kept: the integers."""
        return {WEIGHT: self.units.detach().round().to(torch.int8)}

    def load(self, arrays: Mapping[str, Tensor]) -> None:
        """Put kept ones back. InputError where the layer is another."""
        _require_shape(arrays[WEIGHT], self.units)
        self.units.data.copy_(arrays[WEIGHT])


class Palette(nn.Module):
    """Weights and the few values of a table, both in units of the table's mean spacing; each weight takes the nearest value."""

    def __init__(self, table: np.ndarray, index: np.ndarray, shape: torch.Size) -> None:
        super().__init__()
        values = torch.from_numpy(table.astype(np.float32))
        self.spacing = max(float(values[-1] - values[0]) / len(values), 1e-12)
        self.values = nn.Parameter(values / self.spacing)
        self.units = nn.Parameter(self.values.detach()[torch.from_numpy(index.astype(np.int64))].reshape(shape))

    @property
    def table(self) -> Tensor:
        """The values [2^bits], rising."""
        return self.values.sort().values * self.spacing

    @property
    def index(self) -> Tensor:
        """Of the value that each weight takes."""
        rising = self.values.detach().sort().values
        return torch.bucketize(self.units.detach(), (rising[1:] + rising[:-1]) / 2)

    def forward(self, _: Tensor) -> Tensor:
        """The weights that the package will hold."""
        return self.table[self.index] + (self.units - self.units.detach()) * self.spacing

    def arrays(self) -> dict[str, Tensor]:
        """What is kept: the values, rising, and the index of each weight's."""
        return {TABLE: self.table.detach(), INDEX: self.index.to(torch.uint8)}

    def load(self, arrays: Mapping[str, Tensor]) -> None:
        """Put kept ones back. InputError where the layer or its bits are others."""
        _require_shape(arrays[TABLE], self.values)
        _require_shape(arrays[INDEX], self.units)
        self.values.data.copy_(arrays[TABLE] / self.spacing)
        self.units.data.copy_(self.values.data[arrays[INDEX].long()])


def _require_shape(found: Tensor, wanted: Tensor) -> None:
    if found.shape != wanted.shape:
        raise InputError(f"reconstruction: {list(found.shape)} values where the layer has {list(wanted.shape)}")


class Rounding(nn.Module):
    """Inputs on the int8 grid of a range, as a forward pre-hook. `learned`: not where an envelope fixes the range at 1."""

    def __init__(self, size: float, learned: bool) -> None:
        super().__init__()
        self.start, self.learned = size, learned
        self.log_gain = nn.Parameter(torch.zeros(())) if learned else torch.zeros(())
        self.dropped, self.noise = 0.0, torch.Generator()

    @property
    def size(self) -> Tensor:
        """The range."""
        return self.start * torch.exp(self.log_gain)

    def __call__(self, layer: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # type: ignore[override]  # a hook
        """The input that gives what the layer computes from its rounded one; a `dropped` part of it stays as it is (QDrop, 2203.05740)."""
        x = given[0]
        before = preparation(layer, x).detach()
        step = self.size / INT8_STEPS
        steps = (x * before / step).clamp(-INT8_STEPS - 1, INT8_STEPS)
        y = (steps + (steps.round() - steps).detach()) * step / before
        if not self.dropped:
            return (y,)
        return (torch.where(torch.rand(x.shape, generator=self.noise) < self.dropped, x, y),)


@dataclass(frozen=True, eq=False)
class Student:
    """Responsibilities: 1. the vocoder on its grids; 2. what is learned of the layers under a path; 3. their arrays."""

    vocoder: Vocoder
    weights: Mapping[str, Integers | Palette]
    roundings: Mapping[str, Rounding]
    biases: bool

    @classmethod
    def of(
        cls, vocoder: Vocoder, schemes: Mapping[str, Scheme], ranges: Mapping[str, float], fits: Mapping[str, Fit], biases: bool
    ) -> "Student":
        """A copy of `vocoder` with the named convolutions at their levels. `ranges` and `fits` as quantize.simulate takes them; `biases`:
        they are learned too, which needs a package that is converted anew."""
        made = copy.deepcopy(vocoder).requires_grad_(False)
        weights: dict[str, Integers | Palette] = {}
        roundings: dict[str, Rounding] = {}
        for path, scheme in schemes.items():
            layer = made.get_submodule(path)
            assert isinstance(layer, nn.Conv2d | ConvTranspose), path
            if scheme.weights is not None:
                weights[path] = _grid(layer, scheme, fits.get(path))
                parametrize.register_parametrization(layer, "weight", weights[path], unsafe=True)
            if scheme.int8_input:
                roundings[path] = Rounding(ranges[path], learned=getattr(layer, "envelope", None) is None)
                layer.register_forward_pre_hook(roundings[path])
        return cls(made.eval(), MappingProxyType(weights), MappingProxyType(roundings), biases)

    def layers(self, under: str = "") -> tuple[str, ...]:
        """Paths of the layers on a grid under a module's path."""
        return tuple(path for path in {**self.weights, **self.roundings} if path == under or path.startswith(f"{under}." if under else ""))

    def parameters(self, layers: Collection[str]) -> Learnable:
        """What is learned of these layers, and what a step of each is: 1 for what is in steps already, a bias's own size for a bias."""
        modules = [held[path] for held in (self.weights, self.roundings) for path in layers if path in held]
        found: Learnable = [(parameter, 1.0) for module in modules for parameter in module.parameters()]
        biases = [bias for path in layers if (bias := self._bias(path)) is not None]
        return found + [(bias, max(float(bias.detach().square().mean().sqrt()), SMALLEST_BIAS)) for bias in biases]

    @contextmanager
    def dropping(self, share: float, seed: int) -> Iterator[None]:
        """Inside, this share of every input is not rounded; the choice is seeded."""
        for number, rounding in enumerate(self.roundings.values()):
            rounding.dropped = share
            rounding.noise.manual_seed(seed + number)
        try:
            yield
        finally:
            for rounding in self.roundings.values():
                rounding.dropped = 0.0

    @torch.no_grad()
    def arrays(self, layers: Collection[str]) -> dict[str, np.ndarray]:
        """{"PATH/weight": ...} of these layers, as `load` takes them."""
        found: dict[str, Tensor] = {}
        for path in layers:
            if path in self.weights:
                found |= {f"{path}/{kind}": value for kind, value in self.weights[path].arrays().items()}
            if (bias := self._bias(path)) is not None:
                found[f"{path}/{BIAS}"] = bias.detach()
            if path in self.roundings and self.roundings[path].learned:
                found[f"{path}/{RANGE}"] = self.roundings[path].size.detach()
        return {name: value.numpy().copy() for name, value in found.items()}

    @torch.no_grad()
    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Put `arrays` back."""
        for path, kinds in by_layer(arrays).items():
            if path in self.weights:
                self.weights[path].load(kinds)
            if (bias := self._bias(path)) is not None:
                bias.copy_(kinds[BIAS])
            if RANGE in kinds:
                self.roundings[path].log_gain.copy_(torch.log(kinds[RANGE] / self.roundings[path].start))

    def _bias(self, path: str) -> nn.Parameter | None:
        """Of a layer, where biases are learned."""
        bias = self.vocoder.get_submodule(path).bias if self.biases else None
        return bias if isinstance(bias, nn.Parameter) else None


def by_layer(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, Tensor]]:
    """{path: {kind: tensor}} of arrays named "PATH/kind"."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, value in arrays.items():
        path, _, kind = name.rpartition("/")
        found.setdefault(path, {})[kind] = torch.from_numpy(value)
    return found


def _grid(layer: nn.Conv2d | ConvTranspose, scheme: Scheme, fit: Fit | None) -> Integers | Palette:
    weight, wanted = layer.weight.detach(), scheme.weights
    if isinstance(wanted, LinearWeights):
        return Integers(layer)
    if isinstance(wanted, PaletteWeights):
        half = weight.half().numpy()
        return Palette(*(fit(half, wanted.bits) if wanted.gptq and fit is not None else palette(half, wanted.bits)), weight.shape)
    raise TypeError(f"{wanted} has no grid to learn on")
