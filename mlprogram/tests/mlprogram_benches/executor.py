"""mlprogram against eager PyTorch: speed, peak memory and agreement, in one run.

    OMP_NUM_THREADS=1 python -m mlprogram_benches.executor [--rounds 5] [--loops]

Builds a generator of a vocoder with random weights, converts it in fp32 and in fp16, and runs both
packages and the PyTorch module on the same input (3 s of audio), in turns. --loops: a GRU of
flexible length instead, which the converter writes as a loop. Times are the processor's. Exit 0:
speed and memory are within limits; 1: not. A pipe's last line is one JSON object.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import torch
from torch import Tensor, nn

from mlprogram import Program
from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError, conclude, run_command
from mlprogram_benches.shared import peak_mib, snr_db

SPEED_LIMIT, MEMORY_LIMIT, AGREEMENT_DB = 1.3, 1.5, 110.0  # ratios to eager; fp32 agreement with it
LOOP_LIMIT = 1.6  # times eager


class SnakeBlock(nn.Module):
    """Three dilated convolutions of one kernel, each behind a norm over time and Snake."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=dilation, padding="same")
            for dilation in (1, 3, 5)
        )
        self.norms = nn.ModuleList(nn.InstanceNorm1d(channels, affine=True) for _ in self.convs)

    def forward(self, x: Tensor) -> Tensor:
        """x [1, C, S] -> [1, C, S]."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y = norm(x)
            x = x + conv(y + torch.sin(y) ** 2)
        return x


def generator(frames: int = 240) -> tuple[nn.Module, Tensor]:
    """An upsampling generator with random weights, and an input of 3 s at 80 frames a second."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for channels, stride in ((512, 10), (256, 6)):
        kernel, half = 2 * stride, channels // 2
        layers.append(nn.ConvTranspose1d(channels, half, kernel, stride, padding=stride // 2))
        layers += [SnakeBlock(half, width) for width in (3, 7, 11)]
    return nn.Sequential(*layers, nn.Conv1d(128, 22, 7, padding=3)).eval(), torch.randn(
        1, 512, frames
    )


def converted(
    module: nn.Module,
    example: Tensor,
    precision: str,
    path: Path,
    shape: Any = None,
    target: ct.target = ct.target.iOS17,
) -> Path:
    """The module as a package, all of it in one precision. shape: the example's if None."""
    half = precision == "fp16"
    shape = example.shape if shape is None else shape
    model = ct.convert(
        torch.jit.trace(module, example, check_trace=False),
        inputs=[ct.TensorType("x", shape, np.float16 if half else np.float32)],
        compute_precision=ct.precision.FLOAT16 if half else ct.precision.FLOAT32,
        skip_model_load=True,
        minimum_deployment_target=target,
    )
    model.save(str(path))
    return path


def measure_loops(
    rounds: int, folder: Path, targets: tuple[str, ...] = ("iOS17", "iOS18")
) -> dict[str, dict[str, float]]:
    """Of GRUs [1, T, 96] -> [1, T, 128] at T = 200, in one layer and two, T in a range or a list:
    times of eager's time, agreement with float64.
    """
    shapes = {
        "range": (1, ct.RangeDim(1, 400, 200), 96),
        "list": ct.EnumeratedShapes([(1, steps, 96) for steps in (100, 200, 400)]),
    }
    rows = {}
    for target, layers, precision, length in product(targets, (1, 2), ("fp32", "fp16"), shapes):
        torch.manual_seed(0)
        module, x = nn.GRU(96, 128, layers, batch_first=True).eval(), torch.randn(1, 200, 96)
        name = f"{target} {layers} {precision} {length}"
        package = folder / f"{name}.mlpackage"
        converted(module, x, precision, package, shapes[length], ct.target[target])
        call = partial(Program(package), {"x": x.half() if precision == "fp16" else x})
        y = next(iter(call().values()))  # warm
        with torch.no_grad():
            seconds = timed({"eager": partial(module, x), "executed": call}, rounds)
            exact = module.double()(x.double())[0]
        rows[name] = {
            "speed_ratio": seconds["executed"] / seconds["eager"],
            "snr_db_to_float64": snr_db(exact.numpy(), y.numpy()),
        }
    return rows


def measure(rounds: int, folder: Path, frames: int = 240) -> dict[str, Any]:
    """Every figure of the run."""
    module, x = generator(frames)
    paths = {
        precision: converted(module, x, precision, folder / f"{precision}.mlpackage")
        for precision in ("fp32", "fp16")
    }
    start = time.perf_counter()
    programs = {"fp32 declared": Program(paths["fp32"])}
    load_seconds = time.perf_counter() - start
    programs |= {
        "fp16 declared": Program(paths["fp16"]),
        "fp16 exact": Program(paths["fp16"], precision="exact"),
    }

    @torch.no_grad()
    def eager() -> Tensor:
        return module(x)

    def executed(program: Program, half: bool) -> Tensor:
        (y,) = program({"x": x.half() if half else x}).values()
        return y

    calls: dict[str, Any] = {"eager": eager} | {
        name: partial(executed, program, "fp16" in name) for name, program in programs.items()
    }
    outputs = {name: call() for name, call in calls.items()}  # warm
    seconds = timed(calls, rounds)
    engine, start = Program(paths["fp16"], precision="ane_numerics"), time.process_time()
    outputs["fp16 ane_numerics"] = executed(engine, half=True)
    # one call: it is there to judge, not to be fast
    seconds["fp16 ane_numerics"] = time.process_time() - start
    peak = {
        name: statistics.median(peak_mib(call) for _ in range(3)) for name, call in calls.items()
    }
    with torch.no_grad():
        reference = module.double()(x.double())
    return {
        "threads": torch.get_num_threads(),
        "rounds": rounds,
        "load_seconds": load_seconds,
        "seconds": seconds,
        "speed_ratio": {name: value / seconds["eager"] for name, value in seconds.items()},
        "peak_mib": peak,
        "memory_ratio": {name: peak[name] / peak["eager"] for name in calls},
        "snr_db_to_float64": {
            name: snr_db(reference.numpy(), y.numpy()) for name, y in outputs.items()
        },
    }


def timed(calls: dict[str, Any], rounds: int) -> dict[str, float]:
    """Median processor seconds of each call, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def run(argv: list[str] | None) -> int:
    """Measure, print a table and the JSON line."""
    parser = argparse.ArgumentParser(
        "mlprogram_benches.executor", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="timed calls of each, in turns; the median counts"
    )
    parser.add_argument("--loops", action="store_true", help="GRUs of flexible length")
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1:
        raise ProgramError("--rounds is at least 1")
    if arguments.loops:
        with tempfile.TemporaryDirectory() as folder:
            rows = measure_loops(arguments.rounds, Path(folder))
        for name, row in rows.items():
            print(f"{name:20}", *(f"{value:10.2f} {key}" for key, value in row.items()))
        missed = any(row["speed_ratio"] > LOOP_LIMIT for row in rows.values())
        meaning = f"loops take {'more than' if missed else 'at most'} {LOOP_LIMIT} times eager's"
        return conclude(rows, EXIT_MISSED if missed else EXIT_GOOD, meaning)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.rounds, Path(folder))
    print(f"{'':18}{'seconds':>9}{'ratio':>7}{'peak MiB':>10}{'ratio':>7}{'dB to float64':>15}")
    for name, snr in figures["snr_db_to_float64"].items():
        cells = [
            figures[key].get(name, float("nan"))
            for key in ("seconds", "speed_ratio", "peak_mib", "memory_ratio")
        ]
        print(f"{name:18}{cells[0]:9.3f}{cells[1]:7.2f}{cells[2]:10.1f}{cells[3]:7.2f}{snr:15.1f}")
    ratios = (("speed_ratio", SPEED_LIMIT), ("memory_ratio", MEMORY_LIMIT))
    missed = any(
        figures[key][name] > limit
        for key, limit in ratios
        for name in ("fp32 declared", "fp16 declared")
    )
    meaning = "time or memory misses its limit" if missed else "time and memory keep their limits"
    return conclude(figures, EXIT_MISSED if missed else EXIT_GOOD, meaning)


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_command(lambda: run(argv))


if __name__ == "__main__":
    raise SystemExit(main())
