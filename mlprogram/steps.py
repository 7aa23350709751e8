"""The steps of a planned program: what plan.py makes and execute.py runs.

for step in plan.body.steps: step.op.op_type, step.reads, step.outputs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from mlprogram.graph import Operation
from mlprogram.gru_loop import GruLoop

LoopRun = Callable[[list[Any], list[Any]], "tuple[bool, list[Any]]"]  # environment, carried values -> whether it ended, carried values


@dataclass(frozen=True, slots=True)
class Output:
    """Where a step writes one value, and the type (None: not a tensor) and shape (None: any) it must have.

    `fixed` is the shape where the program knows all of it: one comparison is enough.
    """

    slot: int
    name: str
    dtype: torch.dtype | None
    shape: tuple[int | None, ...] | None
    fixed: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Step:
    """One operation ready to run.

    `reads` pairs a parameter with a slot or a tuple of slots. Of these, `plain` are tensors handed over as they are, `halves` fp16 tensors
    turned into `widen` first, `others` the rest: several slots, and the Python values that `host` names. `call` is None for control
    flow, whose `blocks` the executor runs, or `gru` in their place where nobody watches the steps of the loop.
    """

    op: Operation
    call: Callable[..., Any] | None
    reads: tuple[tuple[str, int | tuple[int, ...]], ...]
    plain: tuple[tuple[str, int], ...]
    halves: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, int | tuple[int, ...]], ...]
    host: frozenset[str]
    widen: torch.dtype | None
    wants_generator: bool
    outputs: tuple[Output, ...]
    blocks: tuple[BlockPlan, ...] = ()
    frees: tuple[int, ...] = ()
    gru: GruLoop | None = None
    loop: LoopRun | None = None  # the same loop as one function, from its second step on
    one: Output | None = field(init=False)  # the output, if there is only one
    direct: bool = field(init=False)  # every parameter is plain

    def __post_init__(self) -> None:
        object.__setattr__(self, "one", self.outputs[0] if len(self.outputs) == 1 else None)
        object.__setattr__(self, "direct", not (self.halves or self.others or self.wants_generator))


@dataclass(frozen=True, slots=True)
class BlockPlan:
    """A block: slots of its inputs and outputs, and its steps."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[Step, ...]
