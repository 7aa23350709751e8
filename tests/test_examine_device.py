"""The branch for a Mac, against stand-ins for the coremltools objects: what is asked of Core ML, and what is made of its answers."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coremltools.converters.mil.mil import Builder as mb

from mlprogram.__main__ import main
from mlprogram.errors import ProgramError
from mlprogram.examine import ane, device
from mlprogram.examine.device import NOT_MEASURED, CoreML, load_core_ml, measure
from mlprogram.examine.profile import OpenProgram, open_program
from tests.examine_build import package_of


class MLNeuralEngineComputeDevice:
    """Stand-in with the real name: the placement is read off the class's name."""


class MLCPUComputeDevice:
    """Likewise."""


@dataclass
class FakeModel:
    """Stand-in for MLModel: remembers how it was opened and what it was given."""

    opened: list[tuple[str, str, str | None]] = field(default_factory=list)
    predictions: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, path: str, compute_units: str, function_name: str | None) -> "FakeModel":
        self.opened.append((path, compute_units, function_name))
        return self

    def predict(self, inputs: dict[str, Any]) -> dict[str, Any]:
        self.predictions.append(inputs)
        return {}

    def get_compiled_model_path(self) -> str:
        return "compiled.mlmodelc"


class FakePlan:
    """Stand-in for MLComputePlan: sin on the CPU, everything else on the engine, constants nowhere."""

    def __init__(self, program: OpenProgram) -> None:
        ops = [
            SimpleNamespace(operator_name=op.op_type, outputs=[SimpleNamespace(name=op.name)], blocks=[])
            for op in program.function.body.walk()
        ]
        block = SimpleNamespace(operations=ops)
        self.model_structure = SimpleNamespace(program=SimpleNamespace(functions={"main": SimpleNamespace(block=block)}))
        self.loaded: list[tuple[str, str]] = []

    def load_from_path(self, path: str, compute_units: str) -> "FakePlan":
        self.loaded.append((path, compute_units))
        return self

    def get_compute_device_usage_for_mlprogram_operation(self, op: Any) -> Any:
        if op.operator_name == "const":
            return None
        unit = MLCPUComputeDevice() if op.operator_name == "sin" else MLNeuralEngineComputeDevice()
        return SimpleNamespace(preferred_compute_device=unit)


@dataclass
class Clock:
    """A clock that advances by two milliseconds each time it is read."""

    now: float = 0.0

    def __call__(self) -> float:
        self.now += 0.002
        return self.now


@pytest.fixture
def program(tmp_path: Path) -> OpenProgram:
    """relu, then sin, of one fp16 and one int32 input."""

    def build(x: Any, i: Any) -> Any:
        return mb.gather(x=mb.sin(x=mb.relu(x=x)), indices=i, axis=3)

    return open_program(package_of({"x": (1, 4, 1, 8), "i": (8,)}, build, tmp_path))


@pytest.fixture
def core_ml(program: OpenProgram) -> CoreML:
    """Core ML as far as this project calls it."""
    units = SimpleNamespace(**{unit: unit for unit in device.UNITS})
    return CoreML(FakeModel(), FakePlan(program), units, Clock(), "Apple M2")


def test_off_a_mac_there_is_no_core_ml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device.sys, "platform", "linux")
    assert load_core_ml() is None


def test_measure_asks_for_every_unit_and_reads_the_plan(core_ml: CoreML, program: OpenProgram) -> None:
    facts = measure(core_ml, program, program.shapes({}))
    paths = {opened[0] for opened in core_ml.model.opened}
    assert [opened[1:] for opened in core_ml.model.opened] == [(unit, None) for unit in (*device.UNITS, "CPU_AND_NE")]
    assert len(paths) == 1 and str(program.package.path) not in paths, "coremltools rewrites a package that it opens: it gets a copy"
    assert core_ml.plan.loaded == [("compiled.mlmodelc", "CPU_AND_NE")]
    assert set(facts.placement.values()) == {"engine", "CPU"} and len(facts.placement) == 3
    assert facts.share_on_engine() == pytest.approx(2 / 3)
    for timing in facts.timings.values():
        assert timing.load_ms == pytest.approx(2) and timing.median_ms == pytest.approx(2) and len(timing.predict_ms) == 10
    inputs = core_ml.model.predictions[0]
    assert str(inputs["x"].dtype) == "float16" and inputs["x"].shape == (1, 4, 1, 8) and str(inputs["i"].dtype) == "int32"


def test_a_refusal_by_core_ml_is_one_line(core_ml: CoreML, program: OpenProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: FakeModel, inputs: dict[str, Any]) -> None:
        raise RuntimeError("Error computing NN outputs.")

    monkeypatch.setattr(FakeModel, "predict", refuse)
    with pytest.raises(ProgramError, match="Core ML of this Mac refused it: Error computing NN outputs"):
        measure(core_ml, program, program.shapes({}))


def test_forecast_and_fact_stand_side_by_side(
    core_ml: CoreML, program: OpenProgram, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ane, "load_core_ml", lambda: core_ml)
    assert main(["ane", str(program.package.path), "--chip", "m2", "--per-op"]) == 0
    out = capsys.readouterr().out
    assert NOT_MEASURED not in out and "Apple M2 CPU_AND_NE" in out and "66.6" in out
    assert main(["ane", str(program.package.path), "--chip", "m2", "--no-device"]) == 0
    assert NOT_MEASURED in capsys.readouterr().out
