"""A device report: made with a stand-in of Core ML that executes by mlprogram, read back, damaged,
set beside counts.
"""

import json
import shutil
import sys
from types import SimpleNamespace

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types

from kokoro_ane.pipeline import device_report
from kokoro_ane.pipeline.device_report import measured_apart
from mlprogram import MLModel
from mlprogram.examine import device
from mlprogram.examine.device import CoreML
from tests.commands import refused, table

# the placement is read off the class's name
MLNeuralEngineComputeDevice = type("MLNeuralEngineComputeDevice", (), {})


class StandIn:
    """MLModel and MLComputePlan as coremltools documents them; each prediction takes `ms` and is
    off by a thousandth (60 dB).
    """

    def __init__(self, ms, refuses=False):
        self.now, self.ms, self.refuses = 0.0, ms, refuses

    def open(self, path, compute_units, function_name):
        self.path, self.model, self.now = (
            path,
            MLModel(path, function_name=function_name),
            self.now + 0.1,
        )
        self.function = function_name or "main"
        return self

    def predict(self, inputs):
        if self.refuses:
            raise RuntimeError("Error computing NN outputs.")
        self.now += self.ms / 1e3
        return {name: value * 1.001 for name, value in self.model.predict(inputs).items()}

    def get_compiled_model_path(self):
        return self.path

    def load_from_path(self, path, compute_units):
        block = SimpleNamespace(
            operations=[SimpleNamespace(outputs=[SimpleNamespace(name="conv_0")], blocks=[])]
        )
        self.model_structure = SimpleNamespace(
            program=SimpleNamespace(functions={self.function: SimpleNamespace(block=block)})
        )
        return self

    def get_compute_device_usage_for_mlprogram_operation(self, op):
        return SimpleNamespace(preferred_compute_device=MLNeuralEngineComputeDevice())


def convolutions(depth):
    """Convolutions of 8 channels, each added to its input."""
    inputs = [mb.TensorSpec((1, 8, 16, 16), types.fp16)]

    @mb.program(input_specs=inputs, opset_version=ct.target.iOS17)
    def network(x):
        weight = np.full((8, 8, 3, 3), 0.01, np.float16)
        for number in range(depth):
            x = mb.add(x=mb.conv(x=x, weight=weight, pad_type="same", name=f"conv_{number}"), y=x)
        return x

    return network


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Two packages of the same shapes: one convolution, and four."""
    folder = tmp_path_factory.mktemp("build")
    for depth in (1, 4):
        package = ct.convert(convolutions(depth), minimum_deployment_target=ct.target.iOS17)
        package.save(str(folder / f"net{depth}.mlpackage"))
    return folder


@pytest.fixture
def said(build, tmp_path, monkeypatch, capsys):
    """Measure with a stand-in, damage the report, read it: exit code, stdout, stderr."""

    def call(stand_in, damage=dict, chip="Apple M4 Pro"):
        units = SimpleNamespace(**{unit: unit for unit in device.UNITS})
        monkeypatch.setattr(
            device,
            "load_core_ml",
            lambda: CoreML(stand_in.open, stand_in, units, lambda: stand_in.now, chip),
        )
        # a process of its own would have no stand-in
        monkeypatch.setattr(
            device_report,
            "measured_apart",
            lambda packages: device_report.measured(device.load_core_ml(), packages, "macOS 15"),
        )
        out = tmp_path / "device.json"
        assert (
            device_report.main([*map(str, sorted(build.glob("*.mlpackage"))), "--out", str(out)])
            == 0
        )
        assert str(tmp_path.parent) not in out.read_text()  # nothing of this machine
        report = json.loads(out.read_text())
        damage(report)
        out.write_text(json.dumps(report))
        capsys.readouterr()
        code = device_report.main(f"--read {out} --build {build}".split())
        told = capsys.readouterr()
        if code != 2:  # twice the same bytes
            assert (
                device_report.main(f"--read {out} --build {build}".split()),
                capsys.readouterr().out,
            ) == (code, told.out)
        return code, told.out, told.err

    return call


def test_a_report_is_read_back_beside_counts(said):
    code, out, _ = said(StandIn(0.045))
    told = json.loads(out.splitlines()[-1])
    first, second = told["rows"]
    assert code == 0
    assert first["refused"] is None
    assert first["macs"] == 8 * 8 * 9 * 256
    assert second["macs"] == 4 * first["macs"]
    assert second["operations"] == 4 * first["operations"] == 8
    assert second["bytes_moved"] == 4 * first["bytes_moved"]
    assert first["ms"] == pytest.approx(0.045)
    assert first["on_engine"] == 1
    assert first["near_db"] == pytest.approx(60, abs=1)
    assert first["chip"] == "m4"
    low, high = first["forecast_on_engine"]
    assert 0 <= low <= high == 1


def test_a_refused_shape_has_counts_and_no_times(said):
    code, out, _ = said(StandIn(1, refuses=True), chip="Apple M1")
    rows = json.loads(out.splitlines()[-1])["rows"]
    assert code == 1
    assert {row["refused"] for row in rows} == {"Error computing NN outputs."}
    assert all(row["macs"] > 0 for row in rows)
    assert not any("ms" in row for row in rows)


def test_a_package_that_ends_its_process_costs_its_own_row(said, build, tmp_path):
    """Two processes that answer with a report of before, but for the package that aborts one."""
    said(StandIn(0.045))
    earlier = json.loads((tmp_path / "device.json").read_text())
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(earlier | {"packages": earlier["packages"][:1]}))
    script = (
        "import os, shutil, sys; 'net4' in sys.argv[1] and os.abort();"
        f" 'net1' in sys.argv[1] or sys.exit('error: no Mac'); shutil.copy({str(answer)!r},"
        " sys.argv[3])"
    )
    command = (sys.executable, "-c", script)
    packages = [build / "net1.mlpackage", build / "net4.mlpackage"]
    first, second = measured_apart(packages, command)["packages"]
    assert first == earlier["packages"][0]
    assert second["sha256"] == earlier["packages"][1]["sha256"]
    assert [row["refused"] for row in second["rows"]] == [
        "the process that opened it ended by signal 6"
    ]
    assert second["rows"][0]["shapes"] == {"x": [1, 8, 16, 16]}
    with refused("every package"):
        measured_apart(packages[1:], command)
    with refused("error: no Mac"):
        measured_apart([tmp_path / "other.mlpackage"], command)


def test_every_function_of_a_package_has_rows(said, build):
    both, path = ct.utils.MultiFunctionDescriptor(), build / "two.mlpackage"
    for depth in (1, 4):
        both.add_function(
            str(build / f"net{depth}.mlpackage"),
            src_function_name="main",
            target_function_name=f"net{depth}",
        )
    both.default_function_name = "net1"
    ct.utils.save_multifunction(both, str(path))
    try:
        _, out, _ = said(StandIn(0.045))
    finally:
        shutil.rmtree(path)
    rows = [
        row for row in json.loads(out.splitlines()[-1])["rows"] if row["package"] == "two.mlpackage"
    ]
    assert [row["shapes"].partition(":")[0] for row in rows] == ["net1", "net4"]
    assert rows[0]["macs"] < rows[1]["macs"]


@table(
    "where value message",
    """
    packages 0 rows 0 placement | "gone" | has no key 'placement'
    packages 0 rows 0 timings ALL predict_ms | [NaN] | not a finite number
    packages 0 rows 0 timings ALL load_ms | 0 | no positive times
    packages 0 rows 0 timings CPU_AND_NE | "gone" | no positive times
    packages 0 rows 0 shapes | {"x": [1, 8, 16, 17]} | "17"
    packages 0 sha256 | 0x0 | has the hash
    packages 0 rows 0 function | other | other
    chip | Intel(R) | none that the rules know
    format | 1 | no device report of format 2
""",
)
def test_a_damaged_report_is_one_line(where, value, message, said):
    *places, last = [int(key) if key.isdigit() else key for key in where.split()]

    def damage(report):
        for key in places:
            report = report[key]
        report[last] = value
        if value == "gone":
            del report[last]

    code, _, error = said(StandIn(0.045), damage)
    assert code == 2
    assert len(error.splitlines()) == 1
    assert error.startswith("error: ")
    assert message in error
