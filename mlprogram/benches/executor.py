"""mlprogram against eager PyTorch: speed, peak memory and agreement, in one run.

    OMP_NUM_THREADS=1 python -m mlprogram.benches.executor [--rounds 5] [--graph lai-vocoder]

Builds a graph of residency_graphs.py with random weights (by default a vocoder of 50 M parameters,
3 s of audio), converts it in fp32 and in fp16, and runs both packages and the PyTorch module on the
same input, in turns. Exit 0: speed and memory are within limits; 1: not.

    OMP_NUM_THREADS=1 python -m mlprogram.benches.executor --packages Model-fp16.mlpackage Model-w8a8.mlpackage [--inputs FILE.npz]

Times two packages instead, on the same inputs (random ones from --seed, or those of an .npz file),
in turns: the least processor time of the rounds of each, and the second's to the first's. Exit 1:
above 1.3. The last line of stdout is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlprogram.benches.shared import add_input_flags, inputs_of, peak_mib, snr_db, some_inputs
from mlprogram.command import Parser, exit_code
from mlprogram.errors import EXIT_MISSED, ProgramError

if TYPE_CHECKING:
    import torch

SPEED_LIMIT, MEMORY_LIMIT, AGREEMENT_DB = 1.3, 1.5, 110.0  # ratios to eager; fp32 agreement with it


def measure(graph: str, rounds: int, folder: Path) -> dict[str, Any]:
    """Every figure of the run."""
    import torch

    from mlprogram import Program
    from mlprogram.benches.residency import build, cases, module_of

    chosen = cases()
    if graph not in chosen:
        raise ProgramError(f"graph {graph!r} is unknown; one of {', '.join(chosen)}")
    paths = {
        precision: build(
            replace(chosen[graph], precision=precision), folder, f"{graph}-{precision}"
        )
        for precision in ("fp32", "fp16")
    }
    module, start = module_of(chosen[graph]), time.perf_counter()
    programs = {"fp32 declared": Program(paths["fp32"])}
    load_seconds = time.perf_counter() - start
    programs |= {
        "fp16 declared": Program(paths["fp16"]),
        "fp16 exact": Program(paths["fp16"], precision="exact"),
    }
    given = {
        name: torch.from_numpy(value)
        for name, value in some_inputs(programs["fp32 declared"].inputs, seed=0).items()
    }
    halves = {
        name: value.half() if value.is_floating_point() else value for name, value in given.items()
    }

    @torch.no_grad()
    def eager() -> Any:
        return module(*given.values())

    calls = {"eager": eager} | {
        name: lambda p=p, x=given if "32" in name else halves: p(x) for name, p in programs.items()
    }
    outputs = {name: _last(call()) for name, call in calls.items()}  # warm
    seconds = timed(calls, rounds)
    engine, start = Program(paths["fp16"], precision="ane_numerics"), time.perf_counter()
    outputs["fp16 ane_numerics"] = _last(engine(halves))
    # one call: it is there to judge, not to be fast
    seconds["fp16 ane_numerics"] = time.perf_counter() - start
    peak = {
        name: statistics.median(peak_mib(call) for _ in range(3)) for name, call in calls.items()
    }
    with torch.no_grad():
        reference = _last(module.double()(*(value.double() for value in given.values())))
    return {
        "graph": graph,
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
        "limits": {
            "speed_ratio": SPEED_LIMIT,
            "memory_ratio": MEMORY_LIMIT,
            "fp32_snr_db": AGREEMENT_DB,
        },
    }


def _last(result: Any) -> torch.Tensor:
    """The last output, which is the one that matters of a graph of several."""
    values = (
        tuple(result.values())
        if isinstance(result, dict)
        else result
        if isinstance(result, tuple)
        else (result,)
    )
    return values[-1]


def timed(calls: dict[str, Any], rounds: int) -> dict[str, float]:
    """Median seconds of each call, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Two packages on the same inputs: processor seconds, and the second's to the first's."""
    from mlprogram import Program

    programs = [Program(path) for path in arguments.packages]
    given = inputs_of(arguments, programs[0].inputs)
    seconds: list[list[float]] = [[] for _ in programs]
    for _ in range(arguments.rounds):
        for program, times in zip(programs, seconds, strict=True):
            start = time.process_time()  # other processes disturb it less than the clock
            program(given)
            times.append(time.process_time() - start)
    least = [min(times) for times in seconds]
    names = [path.stem for path in arguments.packages]
    shapes = {name: list(value.shape) for name, value in given.items()}
    return {
        "shapes": shapes,
        "packages": names,
        "processor_seconds": least,
        "ratio": least[1] / least[0],
        "limit": SPEED_LIMIT,
    }


def run(argv: list[str] | None) -> int:
    """Measure, print a table and the JSON line."""
    parser = Parser("mlprogram.benches.executor", __doc__)
    parser.add_argument(
        "--graph",
        default="lai-vocoder",
        help="of `python -m mlprogram.benches.residency` (default: %(default)s)",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, help="timed calls of each, in turns; the median counts"
    )
    parser.add_argument(
        "--packages", type=Path, nargs=2, metavar="PKG", help="time these two packages instead"
    )
    add_input_flags(parser)
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1:
        raise ProgramError("--rounds is at least 1")
    if arguments.packages:
        compared = compare(arguments)
        print(json.dumps(compared))
        return EXIT_MISSED * (compared["ratio"] > SPEED_LIMIT)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(arguments.graph, arguments.rounds, Path(folder))
    print(f"{'':18}{'seconds':>9}{'ratio':>7}{'peak MiB':>10}{'ratio':>7}{'dB to float64':>15}")
    for name, snr in figures["snr_db_to_float64"].items():
        cells = [
            figures[key].get(name, float("nan"))
            for key in ("seconds", "speed_ratio", "peak_mib", "memory_ratio")
        ]
        print(f"{name:18}{cells[0]:9.3f}{cells[1]:7.2f}{cells[2]:10.1f}{cells[3]:7.2f}{snr:15.1f}")
    print(json.dumps(figures, allow_nan=False))
    ratios = (("speed_ratio", SPEED_LIMIT), ("memory_ratio", MEMORY_LIMIT))
    return EXIT_MISSED * any(
        figures[key][name] > limit
        for key, limit in ratios
        for name in ("fp32 declared", "fp16 declared")
    )


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return exit_code(lambda: run(argv))


if __name__ == "__main__":
    raise SystemExit(main())
