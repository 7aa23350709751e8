"""What the planner must know of an operation's function: which parameters are Python values, and
whether it takes fp16 as it is.

    # parameters annotated Tensor arrive as tensors, every other one as a Python value
    kernel(conv)
    kernel(relu, half=True)  # fp16 tensors arrive as fp16
    kernel(gelu, pointwise=True)  # an fp16 tensor is looked up in a table (halves.py)

`half=True` is for functions that only move values (a slice, a maximum) and for a single operation
that IEEE 754 rounds correctly (a sum, a quotient, a root): every kernel gives the same half.
`pointwise=True` is for every other function that computes each value by itself: where one fp16
tensor is all that varies, its 65,536 results are tabulated. For what is left fp16 tensors are
widened first and the result is rounded to the declared type.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

# annotation of a parameter bound to several tensors, such as the values of a concat
Tensors = list[Tensor]
Scalars = list  # annotation of a parameter bound to several Python values


@dataclass(frozen=True)
class Kernel:
    """A function with the kinds of its parameters. `variadic` parameters take a list, `host` ones
    Python values.
    """

    run: Callable[..., Any]
    parameters: frozenset[str]
    required: frozenset[str]
    host: frozenset[str]
    variadic: frozenset[str]
    half: bool
    pointwise: bool
    wants_generator: bool


def kernel(
    run: Callable[..., Any],
    half: bool = False,
    pointwise: bool = False,
    like: Callable[..., Any] | None = None,
) -> Kernel:
    """Describe a function by its signature: `Tensor` in an annotation means tensors, `Tensors` and
    `Scalars` mean several values.

    `like`: a function that takes the same parameters and writes them all down.
    """
    parameters = inspect.signature(like or run).parameters
    # Annotations are text here (from __future__ import annotations), and are told apart as text.
    notes = {name: str(p.annotation) for name, p in parameters.items()}
    # A generator comes from the caller of the program, never from the file.
    wants_generator = "generator" in notes
    notes.pop("generator", None)
    variadic = frozenset(name for name, note in notes.items() if note in ("Tensors", "Scalars"))
    # "Tensor" is in "Tensors" and in "Tensor | None", so what is left are Python values.
    host = frozenset(name for name, note in notes.items() if "Tensor" not in note)
    # MIL's optional inputs are the parameters with a default.
    required = frozenset(
        name for name in notes if parameters[name].default is inspect.Parameter.empty
    )
    return Kernel(run, frozenset(notes), required, host, variadic, half, pointwise, wants_generator)
