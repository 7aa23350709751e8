"""The commands: tables, the JSON line, files, exit codes, one clear line for each mistake, and a --help that loads nothing heavy."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch

from mlprogram.__main__ import main, shape_argument
from tests.examine_build import package_of

ROOT = Path(__file__).resolve().parents[1]


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
    traced = torch.jit.trace(Net().eval(), torch.zeros(1, 4, 1, 16))
    model = ct.convert(
        traced,
        inputs=[ct.TensorType("x", shape=shapes, dtype=np.float16)],
        outputs=[ct.TensorType("y", dtype=np.float16)],
        minimum_deployment_target=ct.target.iOS17,
        skip_model_load=True,
    )
    path = tmp_path_factory.mktemp("package") / "net.mlpackage"
    model.save(str(path))
    return path


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
    from coremltools.converters.mil.mil import Builder as mb

    fixed = package_of({"x": (1, 4, 1, 8)}, lambda x: mb.relu(x=x), tmp_path)
    assert main(["ane", str(fixed), "--all-shapes"]) == 2
    assert "no input is enumerated" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,a", "x=0,2", "x=1,,2"])
def test_malformed_shapes_are_refused_by_the_parser(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["describe", "p", "--shape", text])
    assert stop.value.code == 2 and "is not NAME=n,n,..." in capsys.readouterr().err
    assert shape_argument("x=1,2") == ("x", (1, 2))


def test_a_damaged_package_is_one_line(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "damaged.mlpackage"
    shutil.copytree(package, copy)
    weights = next(copy.rglob("weight.bin"))
    weights.write_bytes(weights.read_bytes()[:100])
    assert main(["describe", str(copy)]) == 2
    assert "truncated" in capsys.readouterr().err


def test_documents_hold_the_rules_of_the_data_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--check", str(ROOT / "docs" / "neural-engine.md")]) == 0


def test_rules_page_is_renewed_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from mlprogram.examine.report import generated_marks
    from mlprogram.examine.rules_page import COMMAND

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
