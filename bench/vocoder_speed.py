"""The vocoder's speed in PyTorch against upstream's unmodified decoder: full size, random weights, float32, from F0 to samples.

    python -m bench.vocoder_speed [--seconds 2,5] [--threads 1,2] [--repetitions 7] [--compile]

Every form renders the same features with the same noise, one after the other within each repetition, the first one changing, so that a
busy machine slows all of them alike. The ratio is upstream's time over the form's: the median over repetitions, each against upstream in
the same repetition, and of the two minima. The samples that were timed are compared in the same run. `--compile` adds torch.compile of
the eager form (a C++ compiler is needed; minutes). Exit 0: every limit holds; 1: one is missed; 2: bad input. The last line of stdout is
one JSON object.
"""

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    import numpy as np
    import torch

    from vocoder.decoder import Vocoder

UPSTREAM, DEFINITION, EAGER, COMPILED = "upstream eager", "Vocoder", "EagerVocoder", "compiled"
LIMIT_RATIO = {EAGER: 1.15, COMPILED: 1.3}  # upstream's time over ours
LIMIT_DB = 100.0  # against Vocoder in float64
COMPILERS = ("c++", "g++", "clang++")


def render_calls(upstream: "torch.nn.Module", vocoder: "Vocoder", forms: "dict[str, torch.nn.Module]", frames: int) -> dict[str, Callable]:
    """One call a form, features and noise to samples [600F] in float32; ours compute the harmonic source too, as upstream does."""
    from bench.comparison import random_features
    from bench.upstream import injected_noise
    from vocoder.source import gaussian_noise

    x, noise = random_features(frames, vocoder.encode.conv1.in_channels - 2), gaussian_noise(frames, seed=1)
    columns = [x["asr"][:, :, None], x["f0_hz"][:, None, None], x["energy"][:, None, None], x["style"][:, :, None, None]]

    def theirs() -> "np.ndarray":
        with injected_noise(noise):
            return upstream(x["asr"], x["f0_hz"].clone(), x["energy"], x["style"]).flatten().numpy()

    def ours(form: "torch.nn.Module") -> "np.ndarray":
        return form(*columns, vocoder.generator.m_source(x["f0_hz"], noise).float()).flatten().numpy()

    return {UPSTREAM: theirs} | {name: lambda form=form: ours(form) for name, form in forms.items()}


def in_turns(calls: dict[str, Callable], repetitions: int, step: Callable[[], None]) -> dict[str, list[float]]:
    """Seconds of every call, `repetitions` times in turns; each repetition begins with another form. Warm calls are the caller's."""
    names, seconds = list(calls), {name: [] for name in calls}
    for repetition in range(repetitions):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            calls[name]()
            seconds[name].append(time.perf_counter() - start)
            step()
    return seconds


def rows_of(seconds: dict[str, list[float]], snr_db: dict[str, float], frames: int, threads: int) -> list[dict[str, Any]]:
    """One row a form."""
    theirs = seconds[UPSTREAM]
    return [
        {
            "form": name,
            "seconds_of_audio": frames / 40,
            "threads": threads,
            "median_s": statistics.median(own),
            "min_s": min(own),
            "ratio": statistics.median(a / b for a, b in zip(theirs, own, strict=True)),
            "ratio_of_minima": min(theirs) / min(own),
            "snr_db": snr_db[name],
        }
        for name, own in seconds.items()
    ]


def measure(seconds: list[float], threads: list[int], repetitions: int, compiled: bool) -> dict[str, Any]:
    """Every figure of the run, under a progress bar on stderr."""
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from bench.comparison import both_renders
    from bench.random_checkpoint import kokoro_config
    from bench.upstream import upstream_decoder
    from core.config import KokoroConfig
    from core.figures import snr_db
    from vocoder.decoder import Vocoder
    from vocoder.eager import EagerVocoder

    config = KokoroConfig.from_dict(kokoro_config(), "bench.vocoder_speed")
    upstream, vocoder = upstream_decoder(config, seed=0), Vocoder(config).eval()
    vocoder.load_state_dict(upstream.state_dict())
    forms = {DEFINITION: vocoder, EAGER: EagerVocoder(vocoder)}
    if compiled:
        forms[COMPILED] = torch.compile(forms[EAGER], dynamic=False)
    rows, load_before, threads_before = [], os.getloadavg()[0], torch.get_num_threads()
    total = len(seconds) * len(threads) * (repetitions + 1) * (len(forms) + 1)
    with Progress(console=Console(stderr=True)) as bar, torch.inference_mode():
        task = bar.add_task("render", total=total)
        for length in seconds:
            frames = round(40 * length)
            exact, _ = both_renders(upstream, vocoder, config.hidden_dim, frames, torch.float64)
            upstream.float(), vocoder.float()
            calls = render_calls(upstream, vocoder, forms, frames)
            for count in threads:
                torch.set_num_threads(count)
                outputs = {name: call() for name, call in calls.items()}  # warm
                bar.advance(task, len(calls))
                snrs = {name: snr_db(exact, output) for name, output in outputs.items()}
                rows += rows_of(in_turns(calls, repetitions, lambda: bar.advance(task)), snrs, frames, count)
    torch.set_num_threads(threads_before)
    return {"rows": rows, "repetitions": repetitions, "load_before": load_before, "load_after": os.getloadavg()[0], "cores": os.cpu_count()}


def missed(rows: list[dict[str, Any]]) -> list[str]:
    """What lies under its limit, in words."""
    found = []
    for row in rows:
        where = f"{row['form']}, {row['seconds_of_audio']:g} s, threads: {row['threads']}"
        if row["ratio"] < LIMIT_RATIO.get(row["form"], 0.0):
            found.append(f"{where}: {row['ratio']:.2f}x, limit {LIMIT_RATIO[row['form']]}x")
        if row["form"] != UPSTREAM and row["snr_db"] < LIMIT_DB:
            found.append(f"{where}: {row['snr_db']:.1f} dB, limit {LIMIT_DB:g} dB")
    return found


def positive(kind: type) -> Callable[[str], list]:
    """An argparse type: numbers above zero, separated by commas."""

    def parse(text: str) -> list:
        values = [kind(part) for part in text.split(",")]
        if min(values) <= 0:
            raise argparse.ArgumentTypeError(f"{text}: every number must be above 0")
        return values

    return parse


def print_table(figures: dict[str, Any]) -> None:
    """The human table, and the load it was measured under."""
    print(f"{'':16}{'audio':>6}{'threads':>9}{'median s':>10}{'min s':>8}{'ratio':>7}{'of minima':>11}{'dB to float64':>15}")
    for row in figures["rows"]:
        head = f"{row['form']:16}{row['seconds_of_audio']:4g} s{row['threads']:9d}{row['median_s']:10.3f}{row['min_s']:8.3f}"
        print(f"{head}{row['ratio']:7.2f}{row['ratio_of_minima']:11.2f}{row['snr_db']:15.1f}")
    print(f"load {figures['load_before']:.1f} before, {figures['load_after']:.1f} after, on {figures['cores']} cores")


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.vocoder_speed", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=positive(float), default=[2.0, 5.0], help="lengths of audio, separated by commas")
    parser.add_argument("--threads", type=positive(int), default=[1, 2], help="numbers of threads, separated by commas")
    parser.add_argument("--repetitions", type=int, default=7, help="timed calls of each form, in turns")
    parser.add_argument("--compile", action="store_true", help="torch.compile the eager form too")
    arguments = parser.parse_args(argv)
    if arguments.compile and not any(map(shutil.which, COMPILERS)):
        raise InputError(f"--compile needs a C++ compiler: none of {', '.join(COMPILERS)} is on PATH")
    if arguments.repetitions < 1:
        raise InputError(f"--repetitions is {arguments.repetitions}: at least 1")
    figures = measure(arguments.seconds, arguments.threads, arguments.repetitions, arguments.compile)
    print_table(figures)
    broken = missed(figures["rows"])
    for line in broken:
        print(f"missed: {line}")
    print(json.dumps(figures | {"limit_ratio": LIMIT_RATIO, "limit_db": LIMIT_DB, "good": not broken}))
    return EXIT_REJECTED if broken else EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
