"""A device report: measured with a stand-in of Core ML that executes by mlprogram, read back,
damaged, and set beside counts.
"""

import json
import os
from types import SimpleNamespace

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types

from kokoro_ane.pipeline import device_report
from mlprogram import MLModel
from mlprogram.examine import device
from mlprogram.examine.device import CoreML
from tests.commands import parsed, printed, table

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
def report(build, tmp_path, monkeypatch, capsys):
    """Measure with a stand-in, damage the report, read it: the exit code of reading it."""

    def call(stand_in, damage=dict, chip="Apple M4 Pro", folder=build):
        units = SimpleNamespace(**{unit: unit for unit in device.UNITS})
        core_ml = CoreML(stand_in.open, stand_in, units, lambda: stand_in.now, chip)
        monkeypatch.setattr("mlprogram.load_core_ml", lambda: core_ml)
        # a process of its own would have no stand-in
        monkeypatch.setattr(device_report, "measure_apart", device_report.measure_package)
        out, packages = tmp_path / "device.json", sorted(map(str, folder.glob("*.mlpackage")))
        assert device_report.main([*packages, "--out", str(out)]) == 0
        assert str(tmp_path.parent) not in out.read_text()  # nothing of this machine
        written = parsed(out)
        damage(written)
        out.write_text(json.dumps(written))
        capsys.readouterr()
        return device_report.main(f"--read {out} --build {folder}".split())

    return call


def test_a_report_is_read_back_beside_counts(report, capsys):
    assert report(StandIn(0.045)) == 0
    first, second = printed(capsys)["rows"]
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


def test_a_refused_shape_has_counts_and_no_times(report, capsys):
    assert report(StandIn(1, refuses=True), chip="Apple M1") == 1
    for row in printed(capsys)["rows"]:
        assert row["refused"] == "Error computing NN outputs."
        assert row["macs"] > 0
        assert "ms" not in row


def aborts(_package):
    os.abort()


def test_a_package_that_ends_its_process_costs_its_own_row(build):
    package = build / "net4.mlpackage"
    entry = device_report.measure_apart(package, aborts)
    assert entry["package"] == package.name
    (row,) = entry["rows"]
    assert row["refused"] == "the process that opened it was ended"
    assert row["shapes"] == {"x": [1, 8, 16, 16]}
    assert device_report.measure_apart(package, str) == str(package)


def test_every_function_of_a_package_has_rows(build, tmp_path, report, capsys):
    both, path = ct.utils.MultiFunctionDescriptor(), tmp_path / "two" / "two.mlpackage"
    for depth in (1, 4):
        package = str(build / f"net{depth}.mlpackage")
        both.add_function(package, "main", f"net{depth}")
    both.default_function_name = "net1"
    path.parent.mkdir()
    ct.utils.save_multifunction(both, str(path))
    assert report(StandIn(0.045), folder=path.parent) == 0
    first, second = printed(capsys)["rows"]
    assert [row["shapes"].partition(":")[0] for row in (first, second)] == ["net1", "net4"]
    assert first["macs"] < second["macs"]


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
def test_a_damaged_report_is_one_line(where, value, message, report, capsys):
    *places, last = [int(key) if key.isdigit() else key for key in where.split()]

    def damage(written):
        for key in places:
            written = written[key]
        written[last] = value
        if value == "gone":
            del written[last]

    assert report(StandIn(0.045), damage) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert message in error
