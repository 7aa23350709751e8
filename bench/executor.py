"""mlprogram against eager PyTorch on the full-size vocoder: speed, peak memory and agreement, in one run.

    OMP_NUM_THREADS=1 python -m bench.executor [--frames 80] [--rounds 5] [--folder FOLDER]

Builds the 53 M-parameter vocoder with random weights (one bucket), converts it in fp32 and in fp16 with an fp32 tail, and runs both
packages and the PyTorch module on the same input, in turns. Peak memory is what the process holds at most during a call above what it
held before (Linux: the high-water mark of resident memory, reset before each call). The last line of stdout is one JSON object. Exit 0:
speed and memory are within their limits; 1: not. `--folder` keeps the packages for a next run.

    OMP_NUM_THREADS=1 python -m bench.executor --packages build/KokoroVocoder-X-fp16.mlpackage build/KokoroVocoder-X-w8a8.mlpackage

Times two vocoder packages instead, on the same random features of about --frames, in turns: the least processor time of the rounds
of each, and the second's to the first's. Exit 1: above 1.3.
"""

if __package__ in (None, ""):  # run as a file: put the repository root, not bench/, first on sys.path
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

import argparse
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError, run_cli

if TYPE_CHECKING:
    import torch


SPEED_LIMIT, MEMORY_LIMIT, AGREEMENT_DB = 1.3, 1.5, 110.0  # ratios to eager; fp32 agreement with it


def build(folder: Path, frames: int) -> "tuple[torch.nn.Module, dict[str, torch.Tensor], dict[str, Path]]":
    """The packed module, one input for it, and the two packages (made unless they are there)."""
    import torch

    from bench.random_checkpoint import kokoro_config
    from core.build import converted
    from core.config import KokoroConfig
    from core.contract import FEATURES, STYLE, PackedLayout
    from core.export import save_package
    from vocoder.decoder import Vocoder
    from vocoder.forms import LiteralForm
    from vocoder.packing import PackedVocoder
    from vocoder.stage import vocoder_function

    config = KokoroConfig.from_dict(kokoro_config(), "bench.executor")
    torch.manual_seed(0)
    vocoder = Vocoder(config).eval()
    layout = PackedLayout(config.hidden_dim)
    packed = PackedVocoder(vocoder, layout).eval()
    features = torch.randn(1, layout.channels, 1, frames + 1) * 0.3
    features[:, -layout.sizes[4] - 1 : -layout.sizes[4]] = 1.0  # the mask row: no padding
    inputs = {FEATURES: features, STYLE: torch.randn(1, config.style_dim, 1, 1)}
    paths = {precision: folder / f"vocoder-{frames}-{precision}.mlpackage" for precision in ("fp32", "fp16")}
    for precision, path in paths.items():
        if not path.exists():
            function = vocoder_function(packed, LiteralForm(), (frames,), precision, config.hidden_dim, config.style_dim)
            save_package(converted(function, precision, "iOS17"), path)
    return packed, inputs, paths


def resident_kib(field: str) -> int:
    """VmRSS or VmHWM of this process in KiB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])


def peak_mib(call: Callable[[], object]) -> float:
    """Most memory held during `call` above what was held before, in MiB."""
    import ctypes

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # give freed pages back, so that they count again
    before = resident_kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    call()
    return (resident_kib("VmHWM") - before) / 1024


def measure(frames: int, rounds: int, folder: Path) -> dict:
    """Every figure of the run."""
    import torch

    from core.contract import FEATURES, STYLE, WAVEFORM
    from core.figures import snr_db
    from mlprogram import Program

    module, inputs, paths = build(folder, frames)
    start = time.perf_counter()
    programs = {"fp32 declared": Program(paths["fp32"])}
    load_seconds = time.perf_counter() - start
    programs |= {"fp16 declared": Program(paths["fp16"]), "fp16 exact": Program(paths["fp16"], precision="exact")}

    @torch.no_grad()
    def eager() -> "torch.Tensor":
        return module(inputs[FEATURES], inputs[STYLE])

    calls = {"eager": eager} | {name: lambda p=p: p(inputs)[WAVEFORM] for name, p in programs.items()}
    outputs = {name: call() for name, call in calls.items()}  # warm
    engine = Program(paths["fp16"], precision="ane_numerics")
    seconds = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    start = time.perf_counter()
    outputs["fp16 ane_numerics"] = engine(inputs)[WAVEFORM]
    median["fp16 ane_numerics"] = time.perf_counter() - start  # one call: it is there to judge, not to be fast
    peak = {name: statistics.median(peak_mib(call) for _ in range(3)) for name, call in calls.items()}
    with torch.no_grad():
        reference = module.double()(*(inputs[name].double() for name in (FEATURES, STYLE))).numpy()
    return {
        "frames": frames,
        "seconds_of_audio": frames / 40,
        "threads": torch.get_num_threads(),
        "rounds": rounds,
        "load_seconds": load_seconds,
        "seconds": median,
        "speed_ratio": {name: value / median["eager"] for name, value in median.items()},
        "peak_mib": peak,
        "memory_ratio": {name: peak[name] / peak["eager"] for name in calls},
        "snr_db_to_float64": {name: snr_db(reference, y.numpy()) for name, y in outputs.items()},
        "fp32_bits_equal_eager": bool(torch.equal(outputs["eager"], outputs["fp32 declared"])),
        "limits": {"speed_ratio": SPEED_LIMIT, "memory_ratio": MEMORY_LIMIT, "fp32_snr_db": AGREEMENT_DB},
    }


def compare(paths: list[Path], frames: int, rounds: int) -> dict:
    """Two vocoder packages on the same input of about `frames` frames: processor seconds, and the second's to the first's."""
    import torch

    from core.contract import FEATURES, STYLE
    from mlprogram import Program

    programs = [Program(path) for path in paths]
    shape = min(programs[0].inputs[FEATURES].shapes, key=lambda s: abs(s[-1] - frames - 1))
    torch.manual_seed(0)
    inputs = {FEATURES: torch.randn(shape) * 0.3, STYLE: torch.randn(programs[0].inputs[STYLE].shape)}
    seconds: list[list[float]] = [[] for _ in programs]
    for _ in range(rounds):
        for program, times in zip(programs, seconds, strict=True):
            start = time.process_time()  # other processes disturb it less than the clock
            program(inputs)
            times.append(time.process_time() - start)
    least = [min(times) for times in seconds]
    names = [path.stem for path in paths]
    return {"frames": shape[-1] - 1, "packages": names, "processor_seconds": least, "ratio": least[1] / least[0], "limit": SPEED_LIMIT}


def run(argv: list[str] | None) -> int:
    """Measure, print a table and the JSON line."""
    parser = argparse.ArgumentParser(prog="bench.executor", description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=80, help="length in frames, 40 a second")
    parser.add_argument("--rounds", type=int, default=5, help="timed calls of each, in turns; the median counts")
    parser.add_argument("--folder", type=Path, help="keep the packages here")
    parser.add_argument("--packages", type=Path, nargs=2, metavar="PKG", help="time these two vocoder packages instead")
    arguments = parser.parse_args(argv)
    if arguments.frames < 1 or arguments.rounds < 1:
        raise InputError("--frames and --rounds are at least 1")
    if arguments.packages:
        compared = compare(arguments.packages, arguments.frames, arguments.rounds)
        print(json.dumps(compared))
        return int(compared["ratio"] > SPEED_LIMIT)
    place = nullcontext(arguments.folder) if arguments.folder else tempfile.TemporaryDirectory()
    with place as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        figures = measure(arguments.frames, arguments.rounds, Path(folder))
    print(f"{'':18}{'seconds':>9}{'ratio':>7}{'peak MiB':>10}{'ratio':>7}{'dB to float64':>15}")
    for name, snr in figures["snr_db_to_float64"].items():
        cells = [figures[key].get(name, float("nan")) for key in ("seconds", "speed_ratio", "peak_mib", "memory_ratio")]
        print(f"{name:18}{cells[0]:9.3f}{cells[1]:7.2f}{cells[2]:10.1f}{cells[3]:7.2f}{snr:15.1f}")
    print(json.dumps(figures, allow_nan=False))
    ratios = (("speed_ratio", SPEED_LIMIT), ("memory_ratio", MEMORY_LIMIT))
    return int(any(figures[key][name] > limit for key, limit in ratios for name in ("fp32 declared", "fp16 declared")))


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from bench.executor import main  # one module identity, however it was started

    raise SystemExit(main())
