"""What is missing is said before work starts: all of it, with the line that brings it."""

import os
import re
import sys
import tomllib

import pytest

from kokoro_ane.core import extras
from kokoro_ane.core.errors import require_installed
from tests.builds import uninstall
from tests.commands import ROOT, ran, refused
from tests.demo_voice import DEMO_VOICE

# An environment without modules, as an installed kokoro-ane has none of the extras.
WITHOUT = """
import importlib.util, sys
from pathlib import Path
missing, *arguments = sys.argv[1:]
find, absent = importlib.util.find_spec, missing.split()
importlib.util.find_spec = lambda name, *rest: None if name in absent else find(name, *rest)
from kokoro_ane import cli
from kokoro_ane.core import extras
extras.MAKEFILE = Path("nowhere")
raise SystemExit(cli.main(arguments))
"""
JUDGE = (
    "the judge needs pocketsphinx, resemblyzer, xls_r_sqa, which are not installed: run"
    ' `pip install "kokoro-ane[judge]" && pip install --no-deps resemblyzer xls-r-sqa`'
)
UPSTREAM = "upstream's KModel, the reference, needs kokoro, which is not installed: run"
UPSTREAM += " `pip install --no-deps kokoro==0.9.4`"
ONNX = "a file of runtime onnx needs onnx, which is not installed: run"
ONNX += ' `pip install "kokoro-ane[onnx]"`'
LOUDNESS = "--loudness needs pyloudnorm, which is not installed: run"
LOUDNESS += ' `pip install "kokoro-ane[loudness]"`'
BUILD = "runtime torch needs torch, which is not installed: run"
BUILD += ' `pip install "kokoro-ane[build]"`'


@pytest.mark.parametrize(
    ("command", "missing", "line"),
    [
        ("quality --method p6", "pocketsphinx resemblyzer xls_r_sqa", JUDGE),
        ("release", "pocketsphinx resemblyzer xls_r_sqa", JUDGE),
        ("variation", "pocketsphinx resemblyzer xls_r_sqa", JUDGE),
        ("build vocoder --runtime onnx", "onnx", ONNX),
        ("quality --method fp32 --runtime onnx", "onnx", ONNX),
        ("speak Hi. --loudness -19 -o {out}/hi.wav", "pyloudnorm", LOUDNESS),
        ("speak Hi. --runtime torch -o {out}/hi.wav", "torch", BUILD),
        ("validate --phonemes a", "kokoro", UPSTREAM),
    ],
)
def test_before_anything_is_built(command, missing, line, tmp_path):
    """`quality` built for minutes, then named one package after the other."""
    words = command.format(out=tmp_path).split()
    if words[0] in ("build", "quality", "release"):
        words += ["--out" if words[0] == "build" else "--build", str(tmp_path)]
    words += ["--checkpoint", str(DEMO_VOICE)]
    done = ran(sys.executable, "-c", WITHOUT, missing, *words, env=os.environ | {"COLUMNS": "80"})
    assert done.stderr == f"error: {line}\n"
    assert done.returncode == 2
    assert not list(tmp_path.iterdir())


def test_the_extras_are_those_of_pyproject_and_the_base_is_small():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    assert {*extras.EXTRAS} - {extras.BASE} <= {*optional}
    building = {name for name, asked in optional.items() if "kokoro-ane[build]" in asked}
    assert building == {*extras.BUILDING}
    names = {re.match(r"[\w.-]+", line)[0] for line in project["dependencies"]}
    assert {name.replace("-", "_") for name in names} == {
        *extras.EXTRAS[extras.BASE],
        "kokoro_g2p",
        "lazy_loader",
    }


def test_one_line_brings_everything_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "MAKEFILE", tmp_path / "Makefile")
    line = extras.format_install_line(["torch", "executorch", "resemblyzer"])
    assert line == 'pip install "kokoro-ane[executorch]" && pip install --no-deps resemblyzer'
    assert extras.format_install_line(["distillmos"]) == "pip install --no-deps distillmos"
    assert extras.format_install_line(["torch"]) == 'pip install "kokoro-ane[build]"'
    assert extras.format_install_line(["rich"]) == "pip install kokoro-ane"


@pytest.mark.parametrize(
    ("extra", "module"), [("judge", "resemblyzer"), ("loudness", "pyloudnorm")]
)
def test_a_checkout_is_told_its_own_line(extra, module, monkeypatch):
    uninstall(monkeypatch, module)
    with refused("run `make venv`$"):
        require_installed("it", extra)
