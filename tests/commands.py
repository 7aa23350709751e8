"""What tests of commands share: a process, what it printed, a user's files as they are.

assert speak(f"Hi. -o {tmp_path}/a.wav".split()) == 0
assert printed(capsys)["chunks"] == 1
"""

import json
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from kokoro_ane.core.errors import InputError

ROOT = Path(__file__).resolve().parents[1]


def printed(capsys):
    """The JSON object on the last line of standard output."""
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def refused(words, call=None, *inputs, **options):
    """InputError with these words (an expression): of a call, or of the block of a with statement.

    refused("is a folder", write_json, tmp_path, {})
    """
    if call is None:
        return pytest.raises(InputError, match=words)
    return pytest.raises(InputError, call, *inputs, **options).match(words)


def table(names, rows):
    """Parametrization by a text: a row a line, columns between bars. What JSON reads is that value,
    the rest words.
    """

    def value(column):
        with suppress(ValueError):
            return json.loads(column)
        return column.strip()

    lines = rows.strip("\n").splitlines()
    return pytest.mark.parametrize(
        names.split(),
        [[value(column) for column in line.split("|")] for line in lines if line.strip()],
    )


def parsed(path):
    """What a JSON file holds."""
    return json.loads(path.read_bytes())


def own_lines(lines):
    """Lines of stderr but those about what another test's killed process left."""
    return [line for line in lines if "an earlier run was killed" not in line]


def heeds_ctrl_c():
    """Ctrl-C interrupts the process; the children of a background job would ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def ran(*command, **options):
    """The command, run to its end in the repository with its output as text."""
    options = {"cwd": ROOT, "text": True, "preexec_fn": heeds_ctrl_c} | options
    return subprocess.run(command, capture_output=True, check=False, **options)


def tracked():
    """The files of the tree: those that git tracks and new ones that it does not ignore."""
    names = ran(*"git ls-files -co --exclude-standard".split()).stdout.splitlines()
    return [name for name in names if (ROOT / name).exists()]


def everything(folder):
    """Every path below a folder with its content, nothing of a folder or a pipe."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }
