"""The chain as a list: steps that read and write named tensors, whoever computes them.

    # every tensor of one utterance, by name
    tensors = run_steps(STEPS, context, {"phonemes": ..., "speed": ..., "seed": ...})
    tensors["waveform"]  # [600F]

The steps stand in encoder/encoder_steps.py, vocoder/vocoder_steps.py and pipeline/synthesis.py;
docs/synthesis.md says the same in words. Each is a function of named tensors alone, so one that
goes wrong is found by itself (kokoro-ane vectors --check).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kokoro_ane.core.errors import InputError

Tensors = dict[str, np.ndarray]
EQUAL = float("inf")  # the tolerance of what is counted, moved or padded, but not computed


@dataclass(frozen=True)
class Step:
    """`stage`: whose time it counts to. `writes`: tensor -> least SNR in dB that a port has to
    reach; EQUAL = every element.
    """

    name: str
    stage: str
    says: str
    reads: tuple[str, ...]
    writes: Mapping[str, float]
    run: Callable[[Any, Tensors], Tensors]

    def as_dict(self) -> dict[str, Any]:
        """For index.json."""
        tolerance = {
            name: "equal" if limit == EQUAL else {"snr_db_at_least": limit}
            for name, limit in self.writes.items()
        }
        return {
            "name": self.name,
            "says": self.says,
            "reads": list(self.reads),
            "writes": tolerance,
        }


def require_shape(name: str, value: Any, shape: tuple[int, ...], reason: str) -> None:
    """Raise InputError, naming the tensor and the `reason` for its shape, where it has another."""
    if tuple(value.shape) != shape:
        raise InputError(f"{name} has shape {list(value.shape)}, but {reason} need {list(shape)}")


def run_steps(
    steps: Iterable[Step],
    context: Any,
    inputs: Tensors,
    clock: Callable[[], float] | None = None,
    seconds: dict[str, float] | None = None,
) -> Tensors:
    """Every tensor of one utterance. A step whose tensors are all given is skipped: recorded
    durations, another run's F0.

    `clock` and `seconds`: where the time of each stage is added up.
    """
    tensors = dict(inputs)
    for step in steps:
        # Given by the caller, not made by an earlier step.
        if all(name in inputs for name in step.writes):
            continue
        started = clock() if clock else 0.0
        tensors |= step.run(context, {name: tensors[name] for name in step.reads})
        if clock and seconds is not None:
            seconds[step.stage] = seconds.get(step.stage, 0.0) + clock() - started
    return tensors


def computed(
    function: Callable[..., Iterable[Any]], *arrays_in: np.ndarray, arrays: bool
) -> list[np.ndarray]:
    """What a backend's function makes of arrays. It takes and gives NumPy arrays, or tensors:
    memory shared, without gradients.
    """
    if arrays:
        return list(function(*arrays_in))
    import torch

    with torch.no_grad():
        return [
            tensor.numpy() for tensor in function(*(torch.from_numpy(array) for array in arrays_in))
        ]
