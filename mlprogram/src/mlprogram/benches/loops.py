"""A GRU of flexible length, which the converter writes as a loop, against eager PyTorch.

    OMP_NUM_THREADS=1 python -m mlprogram.benches.loops [--rounds 41]

GRU(96, 128) with random weights, 200 steps, in one layer and in two, for iOS 17 and 18, in fp32 and
fp16, its length a range or a list. Processor seconds, medians of calls in turns; a hook makes the
loop run step by step, once. Exit 0: every ratio is within its limit; 1: not. A pipe's last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import torch
from torch import nn

from mlprogram import Program
from mlprogram.benches.executor import timed
from mlprogram.benches.shared import snr_db
from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError, conclude, exit_code

LIMIT = 1.6  # times eager
STEPS, INPUTS, UNITS = 200, 96, 128
LENGTHS = {"range": lambda: ct.RangeDim(1, 400, STEPS), "list": lambda: (100, STEPS, 400)}


def converted(module: nn.Module, target: str, half: bool, length: str, path: Path) -> Program:
    """The module [1, T, 96] -> [1, T, 128] as a package with T in a range or a list."""
    lengths = LENGTHS[length]()
    shape = (
        ct.EnumeratedShapes([(1, steps, INPUTS) for steps in lengths])
        if isinstance(lengths, tuple)
        else (1, lengths, INPUTS)
    )
    example = torch.zeros(1, STEPS, INPUTS)
    model = ct.convert(
        torch.jit.trace(module, example, check_trace=False),
        inputs=[ct.TensorType("x", shape, np.float16 if half else np.float32)],
        compute_precision=ct.precision.FLOAT16 if half else ct.precision.FLOAT32,
        skip_model_load=True,
        minimum_deployment_target=ct.target[target],
    )
    model.save(str(path))
    return Program(path)


def measure(rounds: int, folder: Path, targets: tuple[str, ...] = ("iOS17", "iOS18")) -> list[dict]:
    """A row each of a target, number of layers, precision and kind of length."""
    rows = []
    for target, layers, half, length in product(targets, (1, 2), (False, True), LENGTHS):
        torch.manual_seed(0)
        module = nn.GRU(INPUTS, UNITS, layers, batch_first=True).eval()
        package = folder / f"{target}-{layers}-{half}-{length}.mlpackage"
        program = converted(module, target, half, length, package)
        x = torch.randn(1, STEPS, INPUTS)
        given = {"x": x.half() if half else x}

        def eager(module: nn.Module = module, x: torch.Tensor = x) -> Any:
            with torch.no_grad():
                return module(x)[0]

        def executed(program: Program = program, given: dict = given, **hook: Any) -> Any:
            return next(iter(program(given, **hook).values()))

        calls = {
            "eager": eager,
            "executed": executed,
            "steps": lambda call=executed: call(hook=lambda *_: None),
        }
        outputs = [call() for call in (eager, executed)]  # warm
        seconds = timed(calls, 1, time.process_time) | timed(
            {name: calls[name] for name in ("eager", "executed")}, rounds, time.process_time
        )
        with torch.no_grad():
            exact = module.double()(x.double())[0]
        rows.append(
            {"target": target, "layers": layers, "fp16": half, "length": length}
            | {"ratio": seconds["executed"] / seconds["eager"]}
            | {
                "step by step": seconds["steps"] / seconds["eager"],
                "snr_db_to_float64": snr_db(exact.numpy(), outputs[1].numpy()),
            }
        )
    return rows


def run(argv: list[str] | None) -> int:
    """Measure, print a table and the JSON line."""
    parser = argparse.ArgumentParser(
        "mlprogram.benches.loops", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=41, help="timed calls of each, in turns")
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1:
        raise ProgramError("--rounds is at least 1")
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(arguments.rounds, Path(folder))
    for row in rows:
        print("  ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values()))
    missed = any(row["ratio"] > LIMIT for row in rows)
    meaning = f"a loop takes {'more' if missed else 'at most'} {LIMIT} times eager's time"
    return conclude({"rows": rows}, EXIT_MISSED if missed else EXIT_GOOD, meaning)


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return exit_code(lambda: run(argv))


if __name__ == "__main__":
    raise SystemExit(main())
