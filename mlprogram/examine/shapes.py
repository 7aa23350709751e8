"""The shape of every value of a function for given input shapes, found without computing any value.

    shapes = infer_shapes(plan, function, {"features": (1, 3157, 1, 41)})
    shapes.of["waveform"], shapes.times["waveform"], shapes.how

The executor's own plan runs on PyTorch's fake tensors, which carry a shape and no data, so 30 seconds of audio cost no memory. A program
whose shapes depend on values cannot be known so; it is run once on zeros, and `how` says which of the two it was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from mlprogram.errors import ProgramError
from mlprogram.execute import Run, run_block
from mlprogram.graph import Function
from mlprogram.interface import TensorSpec
from mlprogram.plan import Plan

BY_SHAPES, BY_ZEROS = "shapes alone", "one run on zeros"


@dataclass(frozen=True)
class Shapes:
    """Shape of each value by name, how often it was produced, and how that was found out."""

    of: Mapping[str, tuple[int, ...]]
    times: Mapping[str, int]
    how: str


def infer_shapes(plan: Plan, function: Function, inputs: Mapping[str, tuple[int, ...]]) -> Shapes:
    """Shapes of all values. Raises ProgramError where the program cannot take these inputs."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return _run(plan, function, inputs, BY_SHAPES)
    except ProgramError:  # a value decides a shape, or the shapes do not fit: a real run says which
        return _run(plan, function, inputs, BY_ZEROS)


@torch.no_grad()
def _run(plan: Plan, function: Function, inputs: Mapping[str, tuple[int, ...]], how: str) -> Shapes:
    shapes: dict[str, tuple[int, ...]] = dict(inputs)
    times: Counter[str] = Counter()

    def note(name: str, _: str, value: torch.Tensor) -> None:
        shapes[name] = tuple(value.shape)
        times[name] += 1

    env, states = list(plan.template), {}
    for value, slot in zip(function.inputs, plan.body.inputs, strict=True):
        if value.container == "state":
            states[slot] = torch.zeros(value.sizes, dtype=value.dtype.torch)
        else:
            env[slot] = torch.zeros(inputs[value.name], dtype=value.dtype.torch)
    run_block(plan.body, env, Run(note, torch.Generator().manual_seed(0), states))
    return Shapes(shapes, times, how)


def choose_shapes(specs: Mapping[str, TensorSpec], asked: Mapping[str, tuple[int, ...]], paired: bool) -> dict[str, tuple[int, ...]]:
    """A shape for every input: the asked one, else the default. Raises ProgramError naming the allowed shapes."""
    for name, shape in asked.items():
        if name not in specs:
            raise ProgramError(f"unknown input {name!r}; the program takes {_in_words(specs)}")
        if not specs[name].allows(shape):
            raise ProgramError(f"input '{name}' has shape {list(shape)}; allowed: {specs[name].allowed()}")
    chosen = {name: asked.get(name, spec.shape) for name, spec in specs.items()}
    if paired:
        chosen |= _partners(specs, asked)
    for name, shape in chosen.items():
        if any(n < 0 for n in shape):
            raise ProgramError(f"input '{name}' has no default shape; give --shape {name}=... (allowed: {specs[name].allowed()})")
    return chosen


def all_choices(specs: Mapping[str, TensorSpec], paired: bool) -> list[dict[str, tuple[int, ...]]]:
    """One choice for each enumerated shape. Raises ProgramError if no input is enumerated, or several that do not pair."""
    enumerated = [spec for spec in specs.values() if len(spec.shapes) > 1]
    if not enumerated:
        raise ProgramError(f"no input is enumerated, so there is one shape, or give some with --shape; inputs: {_in_words(specs)}")
    if len(enumerated) > 1 and not paired:
        raise ProgramError(f"{len(enumerated)} inputs are enumerated and do not pair; give --shape for each: {_in_words(specs)}")
    first = min(enumerated, key=lambda s: len(s.shapes))
    return [choose_shapes(specs, {first.name: shape}, paired) for shape in sorted(first.shapes, key=math.prod)]


def _partners(specs: Mapping[str, TensorSpec], asked: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Shapes of enumerated inputs that were not asked for, at the index of one that was: they pair from iOS 18 on."""
    enumerated = {name: spec for name, spec in specs.items() if len(spec.shapes) > 1}
    index = next((enumerated[n].shapes.index(s) for n, s in asked.items() if n in enumerated), None)
    return {} if index is None else {n: s.shapes[index] for n, s in enumerated.items() if n not in asked and index < len(s.shapes)}


def _in_words(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{s.name} ({s.dtype} {s.allowed()})" for s in specs.values()) or "no input"
