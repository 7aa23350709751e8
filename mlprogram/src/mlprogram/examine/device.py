"""What a Mac says: the device of each operation by MLComputePlan, load and prediction times for
each compute unit.

    facts = measure(load_core_ml(), program, {"features": (1, 3157, 1, 41)})
    facts.placement["x_5_cast_fp16"], facts.timings["CPU_AND_NE"].predict_ms

The only file that calls Core ML. It decides nothing and guesses nothing: off a Mac `load_core_ml`
gives None, and reports then say NOT_MEASURED. `CoreML` holds the coremltools objects it needs, so
that a test can hand over stand-ins.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlprogram.errors import ProgramError
from mlprogram.examine.profile import OpenProgram

NOT_MEASURED = "not measured (needs a Mac)"
UNITS = ("CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE", "ALL")
_DEVICES = {
    "MLNeuralEngineComputeDevice": "engine",
    "MLGPUComputeDevice": "GPU",
    "MLCPUComputeDevice": "CPU",
}
_PREDICTIONS = 10
# The first predictions pay for memory and caches and are not counted.
_WARM_UPS = 3


@dataclass(frozen=True)
class CoreML:
    """The parts of coremltools that talk to Core ML, a clock in seconds, and the name of this
    machine's chip.
    """

    model: Callable[..., Any]
    plan: Any
    units: Any
    clock: Callable[[], float]
    chip: str


@dataclass(frozen=True)
class Timing:
    """Milliseconds for one compute unit: first load, and each of the warm predictions."""

    load_ms: float
    predict_ms: tuple[float, ...]

    @property
    def median_ms(self) -> float:
        """Median of the warm predictions."""
        return statistics.median(self.predict_ms)


@dataclass(frozen=True)
class Facts:
    """What this machine said. `placement` maps the name of an operation's first output to engine,
    GPU or CPU; `outputs`: CPU_AND_NE's.
    """

    chip: str
    placement: Mapping[str, str]
    timings: Mapping[str, Timing]
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    def share_on_engine(self) -> float:
        """Share of the placed operations that stand on the engine, 0 to 1."""
        return (
            sum(device == "engine" for device in self.placement.values()) / len(self.placement)
            if self.placement
            else 0.0
        )


def chip() -> str:
    """The processor's name in macOS, such as "Apple M4 Pro"."""
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown chip"


def load_core_ml() -> CoreML | None:
    """Core ML of this machine, or None off a Mac."""
    if sys.platform != "darwin":
        return None
    # Only here, because off a Mac these would not load Core ML anyway.
    import coremltools as ct
    from coremltools.models.compute_plan import MLComputePlan

    return CoreML(ct.models.MLModel, MLComputePlan, ct.ComputeUnit, time.perf_counter, chip())


def measure(
    core_ml: CoreML, program: OpenProgram, shapes: Mapping[str, tuple[int, ...]], seed: int = 0
) -> Facts:
    """Placement with the engine allowed, and times for every compute unit. Raises ProgramError with
    Core ML's own message.

    Core ML gets a copy: coremltools rewrites the Manifest.json of a package that it opens, and a
    package's hash must not change.
    """
    path = program.package.path
    function = program.function.name
    # One draw for all units, so that their times and outputs belong together.
    inputs = _draw_inputs(program, shapes, seed)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(path, Path(folder) / path.name))
        try:
            timings = {
                unit: _measure_times(core_ml, copy, function, unit, inputs) for unit in UNITS
            }
            placement, outputs = _read_placement(core_ml, copy, function, inputs)
        except (RuntimeError, ValueError, OSError) as error:
            raise ProgramError(f"{path}: Core ML of this Mac refused it: {error}") from error
    return Facts(core_ml.chip, placement, timings, inputs, outputs)


def _open(core_ml: CoreML, path: Path, function: str, unit: str) -> Any:
    name = None if function == "main" else function
    return core_ml.model(str(path), compute_units=getattr(core_ml.units, unit), function_name=name)


def _measure_times(
    core_ml: CoreML, path: Path, function: str, unit: str, inputs: dict[str, np.ndarray]
) -> Timing:
    started = core_ml.clock()
    model = _open(core_ml, path, function, unit)
    # The time from a package to a model, Core ML's compilation included.
    load_ms = 1e3 * (core_ml.clock() - started)
    for _ in range(_WARM_UPS):
        model.predict(inputs)
    return Timing(load_ms, tuple(_predict_ms(core_ml, model, inputs) for _ in range(_PREDICTIONS)))


def _predict_ms(core_ml: CoreML, model: Any, inputs: dict[str, np.ndarray]) -> float:
    started = core_ml.clock()
    model.predict(inputs)
    return 1e3 * (core_ml.clock() - started)


def _read_placement(
    core_ml: CoreML, path: Path, function: str, inputs: dict[str, np.ndarray]
) -> tuple[dict[str, str], dict[str, Any]]:
    model = _open(core_ml, path, function, "CPU_AND_NE")
    # The plan is that of the compiled model, which coremltools keeps beside the package.
    plan = core_ml.plan.load_from_path(
        model.get_compiled_model_path(), compute_units=core_ml.units.CPU_AND_NE
    )
    placement = {}
    # By the function's name, as the compute plan lists functions.
    for op in _walk_operations(plan.model_structure.program.functions[function].block):
        usage = plan.get_compute_device_usage_for_mlprogram_operation(op)
        if usage is not None and op.outputs:
            device = type(usage.preferred_compute_device).__name__
            # A device that is not known yet keeps the name of its class.
            placement[op.outputs[0].name] = _DEVICES.get(device, device)
    return placement, model.predict(inputs)


def _walk_operations(block: Any) -> Any:
    for op in block.operations:
        yield op
        for inner in op.blocks:
            yield from _walk_operations(inner)


def _draw_inputs(
    program: OpenProgram, shapes: Mapping[str, tuple[int, ...]], seed: int
) -> dict[str, np.ndarray]:
    """Normal noise for float inputs and zeros for whole numbers, in the declared types."""
    rng = np.random.default_rng(seed)
    kinds = {"fp16": np.float16, "fp32": np.float32}
    return {
        name: rng.standard_normal(shape).astype(kinds[program.inputs[name].dtype])
        if program.inputs[name].dtype in kinds
        # Zero is a valid index into anything, which random whole numbers would not be.
        else np.zeros(shape, np.int32)
        for name, shape in shapes.items()
    }
