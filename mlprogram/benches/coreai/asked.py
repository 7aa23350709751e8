"""A function of a package, what it is asked, and Apple's runtime, which is asked the same in an
environment of its own.

    runtime = Runtime(PYTHON)  # ProgramError where it is not built
    subject = Subject.of(Path("Model.mlpackage"), "main", "declared", [some_inputs(specs, seed=0)])
    answers, told = runtime.ask(subject.package, "main", [case.given for case in subject.cases])

Inputs go as files to that process, outputs come back as files. One request is one conversion, at
the lengths of its first input.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mlprogram import Program
from mlprogram.benches.shared import ROOT
from mlprogram.dtypes import BY_NAME
from mlprogram.errors import ProgramError

PYTHON = ROOT / ".venv-coreai" / "bin" / "python"
TARGET = "make venv-second-opinion"
TOLD = 400  # characters of a failure
# where in the exported module, in a thousand characters
PLACE = re.compile(r"at #debuginfo\.location<.*\]>\]>: +")


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs by name in the program's own types, and what mlprogram answered."""

    given: Mapping[str, np.ndarray]
    ours: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Subject:
    """A function of a package, and what it is asked."""

    package: Path
    function: str
    program: Program
    cases: list[Case] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        package: Path,
        function: str | None,
        precision: str,
        inputs: Iterable[Mapping[str, Any]] = (),
    ) -> Subject:
        """With mlprogram's answers to the inputs. Raises ProgramError as Program does."""
        program = Program(package, function, precision)
        subject = cls(package, program.function, program)
        for given in inputs:
            subject.ask(given)
        return subject

    def ask(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """mlprogram's answer, which is kept as a case."""
        types = {name: BY_NAME[spec.dtype].numpy for name, spec in self.program.inputs.items()}
        typed = {
            name: np.ascontiguousarray(np.asarray(value), types[name])
            for name, value in given.items()
        }
        answer = self.program(typed)
        self.cases.append(Case(typed, {name: value.numpy() for name, value in answer.items()}))
        return answer

    @property
    def wide(self) -> bool:
        """Whether fp16 is computed in fp32."""
        return self.program.precision.wide is not None

    @property
    def quantizes(self) -> bool:
        """Whether values, and not only weights, are rounded to integers."""
        return any(op.op_type == "quantize" for op in self.program.operations)

    @property
    def open_axes(self) -> dict[str, list[int]]:
        """Axes whose length the package leaves to the caller, by input."""
        inputs = [(name, spec) for name, spec in self.program.inputs.items() if spec.shapes]
        found = {
            name: [
                i for i, sizes in enumerate(zip(*spec.shapes, strict=True)) if len(set(sizes)) > 1
            ]
            for name, spec in inputs
        }
        return {name: axes for name, axes in found.items() if axes}

    def groups(self, free: bool) -> list[list[Case]]:
        """Cases of equal shapes together: one conversion each. With open lengths one conversion
        serves all.
        """
        found: dict[tuple, list[Case]] = defaultdict(list)
        for case in self.cases:
            found[() if free else tuple(value.shape for value in case.given.values())].append(case)
        return list(found.values())

    def judged(
        self, answers: Sequence[tuple[Case, Mapping[str, np.ndarray]]], output: str
    ) -> dict[str, Any]:
        """More figures for the row of an output: none here."""
        return {}


class RuntimeRefused(RuntimeError):
    """Apple's tools did not convert or execute the function: the message is their last line."""


class Runtime:
    """The environment with coreai-core and coreai-torch."""

    def __init__(self, python: Path = PYTHON) -> None:
        """Raises ProgramError, which names the make target, where it cannot import them."""
        self.python = python
        wanted = (
            "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('coreai',"
            " 'coreai_torch', 'coremltools', 'torch'))))"
        )
        if (
            not python.is_file()
            or subprocess.run([python, "-c", wanted], capture_output=True, check=False).returncode
        ):
            raise ProgramError(
                f"Apple's Core AI runtime is not installed beside {python}: run `{TARGET}`"
            )

    def ask(
        self,
        package: Path,
        function: str,
        cases: Sequence[Mapping[str, np.ndarray]],
        watched: Sequence[str] = (),
        free: Mapping[str, Sequence[int]] | None = None,
        wide: bool = False,
    ) -> tuple[list[dict[str, np.ndarray]], dict[str, Any]]:
        """Outputs and `watched` values by name for every case (all of one shape but for free axes),
        and versions and seconds.

        `free`: axes whose length the export leaves open, by input. `wide`: the program's fp16 is
        computed in fp32. Raises RuntimeRefused.
        """
        request = {
            "package": str(package.resolve()),
            "function": function,
            "watched": list(watched),
            "free": dict(free or {}),
            "wide": wide,
        }
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
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
        command = [self.python, "-m", "mlprogram.benches.coreai.runner", folder]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if not (folder / "answer.json").is_file():
            raise RuntimeRefused(
                last_words(done.stderr) or f"the runner ended with {done.returncode}"
            )


def last_words(stderr: str) -> str:
    """The last line of a traceback that names an error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line.split(":")[0] or "error:" in line]
    return PLACE.sub("", (named or lines or [""])[-1])[:TOLD]
