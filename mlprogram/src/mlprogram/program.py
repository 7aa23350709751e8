"""An ML program that runs anywhere.

    from mlprogram import Program
    program = Program("KokoroVocoder.mlpackage", precision="declared")
    audio = program({"packed": array})["waveform"]

Run one from a shell with random inputs: see mlprogram/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from mlprogram.constants import Constants
from mlprogram.dtypes import BY_NAME, find_precision
from mlprogram.errors import ProgramError
from mlprogram.execute import Hook, Run, run_block
from mlprogram.graph import Operation, ValueType, read_function
from mlprogram.interface import TensorSpec, check_inputs, read_interface, read_outputs
from mlprogram.package import Package, open_package
from mlprogram.plan import build_plan

# specification version (iOS 18) from which several enumerated inputs pair by index
_PAIRED_SINCE = 9


class Program:
    """One function of a package, ready to run with PyTorch on the CPU.

    Three responsibilities: load once (weights decompressed, constants bound), describe itself
    (`inputs`, `outputs`, `operations`), and run. It never builds a Core ML object and keeps nothing
    of a call but `last_nonfinite`.
    """

    def __init__(
        self, path: str | Path | Package, function: str | None = None, precision: str = "declared"
    ) -> None:
        """Load `function` (None: the default one) of the .mlpackage, .mlmodel or .mlmodelc at
        `path`; `precision` is one of PRECISIONS.

        Raises ProgramError: not a package, truncated weights, a function that is not there, an
        operation that is not known, a specification newer than coremltools knows.
        """
        package = open_package(path)
        # The order matters: the plan needs the graph, and the outputs need the plan's types.
        self.path = package.path
        self.function = function or package.default_function
        self.precision = find_precision(precision)
        self._function = read_function(package, self.function)
        self._plan = build_plan(self._function, Constants(package), self.precision)
        inputs, states = read_interface(package, self._function)
        self.inputs: Mapping[str, TensorSpec] = MappingProxyType(inputs)
        self.outputs: Mapping[str, TensorSpec] = MappingProxyType(
            read_outputs(package, self._function, self._plan.types)
        )
        self._states = states
        # Inputs and states alike are arguments of the function, so both have slots by name.
        self._slots = {
            v.name: slot
            for v, slot in zip(self._function.inputs, self._plan.body.inputs, strict=True)
        }
        self._paired = package.spec.specificationVersion >= _PAIRED_SINCE
        self.last_nonfinite: dict[str, tuple[int, int]] = {}

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Every operation in program order, constants and nested blocks included (`op_type`,
        `name`, `inputs`, `outputs`, `path`).
        """
        return tuple(self._function.body.walk())

    def constant(self, name: str) -> np.ndarray | str | list:
        """The value of a constant or a constexpr output, decompressed, in its declared type. Raises
        ProgramError if there is none.
        """
        if name not in self._plan.constants:
            raise ProgramError(
                f"{self.path}: '{name}' is not a constant of function '{self.function}'"
            )
        return self._plan.constants[name].value

    @property
    def states(self) -> Mapping[str, ValueType]:
        """Types of the states by name; empty for a program without."""
        return MappingProxyType(self._states)

    def make_state(self) -> dict[str, torch.Tensor]:
        """Zeros for every state of the program, to hand to successive calls, which update them."""
        return {
            v.name: torch.zeros(v.sizes, dtype=self.precision.choose_type(v.dtype))
            for v in self._states.values()
        }

    @torch.no_grad()
    def __call__(
        self,
        inputs: Mapping[str, Any],
        hook: Hook | None = None,
        state: dict[str, torch.Tensor] | None = None,
        generator: torch.Generator | None = None,
    ) -> dict[str, torch.Tensor]:
        """Run the program.

        `inputs`: name -> np.ndarray or torch.Tensor. `hook(name, op_type, value)` sees every
        produced tensor in its working type (fp16 under `declared`) and may give back a replacement
        of the same shape. `state`: from `make_state()`, updated in place when the run has ended
        (one that fails leaves it as it was). `generator`: needed by programs that draw random
        numbers. Gives {name: tensor} in the declared types (fp32 or fp64 for floats under exact and
        exact64). NaN and infinity in inputs are counted in `last_nonfinite` {name: (NaN, infinite)}
        and reported as a NonFiniteInput warning. Raises ProgramError for inputs that do not fit and
        for an operation that fails.
        """
        tensors, self.last_nonfinite = check_inputs(self.inputs, inputs, self._paired)
        # constants are in place already; the copy is of pointers
        env = list(self._plan.template)
        for name, tensor in tensors.items():
            # Under exact an input keeps the caller's float32 values, even where fp16 is declared.
            env[self._slots[name]] = tensor.to(
                self.precision.choose_type(BY_NAME[self.inputs[name].dtype])
            )
        del tensors  # the environment alone keeps them, so that they die at their last use
        states = self._bind_states(state)
        run = Run(hook, generator, dict(states))
        run_block(self._plan.body, env, run)
        # one value may be given back twice
        named = zip(self._function.body.outputs, self._plan.body.outputs, strict=True)
        outputs = {name: _copy(env[slot]) for name, slot in named}
        # written at the end, so that a run that fails leaves the caller's states as they were
        for slot, tensor in states.items():
            # A state that no write_state reached is still the caller's own tensor.
            if run.states[slot] is not tensor:
                tensor.copy_(run.states[slot])
        return outputs

    def _bind_states(self, state: dict[str, torch.Tensor] | None) -> dict[int, torch.Tensor]:
        if self._states and state is None:
            raise ProgramError(
                f"the program keeps states ({', '.join(self._states)}); pass"
                " state=program.make_state()"
            )
        states: dict[str, torch.Tensor] = {} if state is None else state
        if set(states) != set(self._states):
            raise ProgramError(
                f"states {sorted(states)} given, the program has {sorted(self._states)}; pass"
                " state=program.make_state()"
            )
        return {self._slots[name]: states[name] for name in self._states}


def _copy(value: Any) -> Any:
    """An output that shares no memory with a constant or an input."""
    return value.clone() if isinstance(value, torch.Tensor) else value
