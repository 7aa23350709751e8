"""The commands: tables, the JSON line, files, exit codes, one clear line for each mistake, and a --help that loads nothing heavy."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil.mil import Builder as mb

from mlprogram.__main__ import main
from mlprogram.errors import ProgramError
from mlprogram.examine import ane, device, shape_argument
from mlprogram.examine.describe import generated_marks
from mlprogram.examine.device import NOT_MEASURED, CoreML, load_core_ml, measure
from mlprogram.examine.profile import OpenProgram, open_program
from mlprogram.examine.rules import COMMAND
from mlprogram.tests.built import converted, package_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolution and a sine with two enumerated widths."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(4, 8, (1, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(self.conv(x))

    shapes = ct.EnumeratedShapes([(1, 4, 1, 16), (1, 4, 1, 32)])
    inputs, folder = [ct.TensorType("x", shape=shapes, dtype=np.float16)], tmp_path_factory.mktemp("package")
    return converted(Net(), torch.zeros(1, 4, 1, 16), folder / "net.mlpackage", inputs, outputs=[ct.TensorType("y", dtype=np.float16)])


def last_json(text: str) -> dict:
    """The object on the last line."""
    return json.loads(text.strip().splitlines()[-1])


def test_describe(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(package), "--shape", "x=1,4,1,32", "--top", "1", "--by", "macs"]) == 0
    out = capsys.readouterr().out
    described = last_json(out)
    assert described["totals"]["macs"] == 8 * 30 * 4 * 3 and described["op_counts"] == {"conv": 1, "sin": 1}
    assert described["weight_bytes"] == {"fp16": 8 * 4 * 3 * 2 + 8 * 2}
    assert [op["op_type"] for op in described["top"]] == ["conv"]
    assert described["outputs"][0]["shape"] == [1, 8, 1, 30] and "live peak" in out


def test_ane_labels_every_figure_as_a_forecast(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ane", str(package), "--chip", "m1", "--chip", "M3", "--all-shapes", "--per-op"]) == 0
    out = capsys.readouterr().out
    report = last_json(out)
    assert report["label"] == "forecast, not a measurement"
    assert [(f["chip"], f["inputs"]["x"][3]) for f in report["forecasts"]] == [("m1", 16), ("m3", 16), ("m1", 32), ("m3", 32)]
    assert report["forecasts"][0]["optimistic"]["share"]["ops"] == 0.5 and report["forecasts"][1]["optimistic"]["share"]["ops"] == 1
    assert all(f["device"] == "not measured (needs a Mac)" for f in report["forecasts"]) and "not measured (needs a Mac)" in out
    titles = [line for line in out.splitlines() if "share on the engine" in line or "rules behind" in line]
    assert titles and all("forecast" in line for line in titles)
    assert "sin-cos (leaves): sin" in " ".join(out.split())


def test_ane_without_a_chip_takes_all(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ane", str(package)]) == 0
    assert len(last_json(capsys.readouterr().out)["forecasts"]) == 10


def test_at_least_decides_the_exit_code(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ane", str(package), "--chip", "m5", "--at-least", "50"]) == 1  # a small segment: it may leave
    assert main(["ane", str(package), "--chip", "m5", "--at-least", "0"]) == 0


def test_files(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = tmp_path / "report.json", tmp_path / "segments.png"
    assert main(["ane", str(package), "--chip", "m2", "--json", str(files[0]), "--plot", str(files[1])]) == 0
    ops = json.loads(files[0].read_text(encoding="utf-8"))["forecasts"][0]["ops"]
    assert {f["rule"] for f in ops[1]["findings"]} >= {"sin-cos"} and ops[1]["findings"][0]["sources"]
    assert files[1].read_bytes()[:4] == b"\x89PNG" and files[1].stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["ane", "{package}", "--chip", "m9"],
            "chip 'm9' is not in mlprogram/data/ane_rules.json; it has m1, m2, m3, m4, m5, a14, a15, a16,",
        ),
        (["ane", "{folder}"], "not an .mlpackage"),
        (["describe", "{folder}/none.mlpackage"], "nothing there"),
        (["describe", "{package}", "--shape", "x=1,4,1,17"], "allowed: one of [1, 4, 1, 16], [1, 4, 1, 32]"),
        (["describe", "{package}", "--shape", "z=1,4"], "unknown input 'z'; the program takes x"),
        (["describe", "{package}", "--function", "half"], "no function 'half'; this program has main"),
        (["ane", "{package}", "--all-shapes", "--shape", "x=1,4,1,16"], "exclude each other"),
        (["ane", "{package}", "--rules", "{folder}/rules.json"], "there is no such file"),
        (["ane", "{package}", "--chip", "m1", "--plot", "{folder}/x.gif"], "must end in one of .png, .svg, .pdf"),
        (["ane", "{package}", "--chip", "m1", "--json", "{folder}/no/x.json"], "cannot write"),
        (["rules", "--check", "{folder}/none.md"], "there is no such file"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], message: str, package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([a.format(package=package, folder=tmp_path) for a in arguments]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1 and error[0].startswith("error: ") and message in error[0]


def test_all_shapes_needs_an_enumeration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = package_of({"x": (1, 4, 1, 8)}, lambda x: mb.relu(x=x), tmp_path)
    assert main(["ane", str(fixed), "--all-shapes"]) == 2
    assert "no input is enumerated" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,a", "x=0,2", "x=1,,2"])
def test_malformed_shapes_are_refused_by_the_parser(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["describe", "p", "--shape", text])
    assert stop.value.code == 2 and "is not NAME=n,n,..." in capsys.readouterr().err
    assert shape_argument("x=1,2") == ("x", (1, 2))


def test_documents_hold_the_rules_of_the_data_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--check", str(ROOT / "docs" / "neural-engine.md")]) == 0


def test_rules_page_is_renewed_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin, end = generated_marks(COMMAND)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin}\nstale words\n{end}\nafter\n", encoding="utf-8")
    assert main(["rules", "--check", str(page)]) == 1
    assert main(["rules", "--write", str(page)]) == 0 and main(["rules", "--check", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "sin-cos" in text and "stale words" not in text
    page.write_text("no markers", encoding="utf-8")
    assert main(["rules", "--write", str(page)]) == 2


def test_help_loads_nothing_heavy() -> None:
    """The command itself, as far as it lies with __main__.py: whatever mlprogram/__init__.py loads comes on top."""
    script = (
        "import sys, types; p = types.ModuleType('mlprogram'); p.__path__ = ['mlprogram']; sys.modules['mlprogram'] = p\n"
        "from mlprogram.__main__ import main\n"
        "try:\n    main(['ane', '--help'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "assert not {'torch', 'coremltools', 'numpy', 'rich', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=ROOT)


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
