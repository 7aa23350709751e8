"""Ask Apple's runtime: inputs as files to a process in the environment of its own, outputs as files back.

    runtime = Runtime(ROOT / ".venv-coreai" / "bin" / "python")    # InputError where it is not built
    answers, told = runtime.ask(subject.package, "main", [case.given for case in subject.cases])

One request is one conversion, at the lengths of its first input.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv-coreai" / "bin" / "python"
TARGET = "make venv-second-opinion"
TOLD = 400  # characters of a failure
PLACE = re.compile(r"at #debuginfo\.location<.*\]>\]>: +")  # where in the exported module, in a thousand characters


class RuntimeRefused(RuntimeError):
    """Apple's tools did not convert or execute the function: the message is their last line."""


class Runtime:
    """The environment with coreai-core and coreai-torch."""

    def __init__(self, python: Path = PYTHON) -> None:
        """Raises InputError, which names the make target, where it cannot import them."""
        self.python = python
        wanted = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('coreai', 'coreai_torch', 'coremltools', 'torch'))))"
        if not python.is_file() or subprocess.run([python, "-c", wanted], capture_output=True, check=False).returncode:
            raise InputError(f"Apple's Core AI runtime is not installed beside {python}: run `{TARGET}`")

    def ask(
        self,
        package: Path,
        function: str,
        cases: Sequence[Mapping[str, np.ndarray]],
        watched: Sequence[str] = (),
        free: Mapping[str, Sequence[int]] | None = None,
        wide: bool = False,
    ) -> tuple[list[dict[str, np.ndarray]], dict[str, Any]]:
        """Outputs and `watched` values by name for every case (all of one shape but for free axes), and versions and seconds.

        `free`: axes whose length the export leaves open, by input. `wide`: the program's fp16 is computed in fp32. Raises RuntimeRefused.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            request = {"package": str(package.resolve()), "function": function, "watched": list(watched), "free": dict(free or {})}
            request |= {"wide": wide}
            (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
            for number, given in enumerate(cases):
                np.savez(folder / f"given_{number}.npz", **given)
            self._run(folder)
            answers = []
            for number in range(len(cases)):
                with np.load(folder / f"answered_{number}.npz") as arrays:
                    answers.append(dict(arrays))
            return answers, json.loads((folder / "answer.json").read_text(encoding="utf-8"))

    def _run(self, folder: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
        command = [self.python, "-m", "bench.coreai.runner", folder]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if not (folder / "answer.json").is_file():
            raise RuntimeRefused(last_words(done.stderr) or f"the runner ended with {done.returncode}")


def last_words(stderr: str) -> str:
    """The last line of a traceback that names an error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line.split(":")[0] or "error:" in line]
    return PLACE.sub("", (named or lines or [""])[-1])[:TOLD]
