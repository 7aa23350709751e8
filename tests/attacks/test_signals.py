"""The real commands, ended by a signal while they convert, calibrate and judge the demo voice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builds import left_behind
from tests.commands import ROOT, heeds_ctrl_c, ran
from tests.demo_voice import DEMO_VOICE

pytestmark = pytest.mark.slow
VERB = [sys.executable, "-m", "kokoro_ane"]
WHERE = ["--checkpoint", str(DEMO_VOICE)]


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A folder with the uncompressed package."""
    build = tmp_path_factory.mktemp("build")
    assert ran(*VERB, "build", "vocoder", *WHERE, "--out", str(build)).returncode == 0
    return build


def children_of(process):
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def works(child):
    """Whether a process computes still; multiprocessing's tracker ends when its parent has."""
    try:
        line = Path(f"/proc/{child}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(line) and "resource_tracker" not in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("after_s", [6, 12, 18])
@pytest.mark.parametrize(
    "command",
    [
        "build vocoder --again --out",
        "quantize --method w8a8 --build",
        "quality --method fp16 --clips 24 --fresh --workers 2 --build",
    ],
)
def test_it_ends_and_leaves_nothing(command, after_s, number, parent, tmp_path):
    """`quantize` went on with its calibration for minutes, a conversion to its end."""
    before = left_behind(parent)
    process = subprocess.Popen(
        [*VERB, *command.split(), str(parent), *WHERE],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=heeds_ctrl_c,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(after_s)
    children = children_of(process)
    process.send_signal(number)
    last = process.communicate()[1].splitlines()[-1]
    assert last == "error: interrupted; nothing was left half-written"
    assert process.returncode == 2
    # a level's file is whole before its package is begun, and is used by the next try
    whole = {"quality", "release", "KokoroVocoder-demo-w8a8.safetensors"}
    assert set(left_behind(parent)) <= {*before, *whole}
    assert not left_behind(tmp_path)
    assert not [child for child in children if works(child)]
