"""Networks that people convert, executed by mlprogram beside eager PyTorch: agreement in fp16 and fp32, and times.

    OMP_NUM_THREADS=1 python -m bench.models [--network 'NAME;...'] [--rounds 5] [--tiny]

Every network of bench/networks.py gets random weights of seed 0, is converted by coremltools (iOS 18) in fp32 and fp16, and is run in
`declared` on the inputs of its case. dB: the worst of all outputs of all calls against the same module in float64. "eager fp16" is
PyTorch's own module in fp16: a network that loses more than the limit there is held to that figure less 1 dB. Times: all calls of the
case, in turns with the fp32 module; the median of the rounds, in time of the processor, which other processes disturb less. The
compressed packages are the Whisper encoder's; their reference is the module with the weights that coremltools decompressed. `--network`
takes names separated by semicolons. The last line of stdout is one JSON object. Exit 0: the limits of agreement hold; 1: not.
"""

import argparse
import copy
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    import coremltools as ct
    import torch

    from bench.networks import Case

LIMITS_DB = {"fp32": 110.0, "fp16": 60.0}
BESIDE_DB = 1.0  # two executions in fp16 round in different places
COMPRESSED_OF = "Whisper-tiny encoder"


def convert(case: "Case", precision: str) -> "ct.models.MLModel":
    """The case's module as an ML program with its ranges and states."""
    import coremltools as ct
    import numpy as np
    import torch

    first = case.calls[0]
    inputs = []
    for name, value in first.items():
        ranged = case.ranges.get(name, {})
        shape = [ct.RangeDim(*ranged[i], default=n) if i in ranged else n for i, n in enumerate(value.shape)]
        inputs.append(ct.TensorType(name, shape=shape, dtype=np.int32 if value.dtype == torch.int32 else np.float32))
    states = [ct.StateType(ct.TensorType(shape=getattr(case.module, n).shape, dtype=np.float16), name=n) for n in case.states]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(copy.deepcopy(case.module), tuple(first.values()), check_trace=False)
        return ct.convert(
            traced,
            inputs=inputs,
            outputs=[ct.TensorType(name, dtype=np.float32) for name in case.outputs],
            states=states or None,
            convert_to="mlprogram",
            minimum_deployment_target=ct.target.iOS18,
            compute_precision=getattr(ct.precision, {"fp32": "FLOAT32", "fp16": "FLOAT16"}[precision]),
            skip_model_load=True,
        )


def eager(case: "Case", module: "torch.nn.Module", dtype: "torch.dtype | None" = None) -> "Callable[[], list[torch.Tensor]]":
    """One pass over the calls of a case, floats in `dtype` (None: as they are), its states zero at the start: every output."""
    import torch

    calls = [[v.to(dtype) if dtype and v.is_floating_point() else v for v in call.values()] for call in case.calls]

    @torch.no_grad()
    def run() -> "list[torch.Tensor]":
        for name in case.states:
            getattr(module, name).zero_()
        results = [module(*call) for call in calls]
        return [t for r in results for t in (r if isinstance(r, tuple) else (r,))]

    return run


def executed(case: "Case", path: Path) -> "Callable[[], list[torch.Tensor]]":
    """The same by mlprogram."""
    from mlprogram import Program

    program = Program(path)

    def run() -> "list[torch.Tensor]":
        state = program.make_state() if case.states else None
        results = [program(call, state=state) for call in case.calls]
        return [r[name] for r in results for name in case.outputs]

    return run


def agreement_db(reference: "list[torch.Tensor]", found: "list[torch.Tensor]") -> float:
    """The least SNR of any output of any call, in dB."""
    from core.figures import snr_db

    return min(snr_db(a.numpy(), b.numpy()) for a, b in zip(reference, found, strict=True))


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median milliseconds of the processor for each call; every round runs all of them."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(1000 * (time.process_time() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def measure(case: "Case", paths: dict[str, Path], rounds: int, twins: "dict[str, torch.nn.Module] | None" = None) -> dict[str, Any]:
    """Agreement of every package, its module (or its twin with decompressed weights) in float64 being right, and times."""
    import torch

    wide: dict[int, list] = {}
    figures: dict[str, Any] = {"db": {}}
    calls: dict[str, Callable[[], Any]] = {"eager": eager(case, case.module)}
    calls["eager"]()  # warm
    for precision, path in paths.items():
        module = twins[precision] if twins else case.module
        if id(module) not in wide:
            wide[id(module)] = eager(case, copy.deepcopy(module).double(), torch.float64)()
        calls[precision] = executed(case, path)
        figures["db"][precision] = agreement_db(wide[id(module)], calls[precision]())
    half = eager(case, copy.deepcopy(module).half(), torch.float16)()  # the last module is that of fp16
    figures["db"]["eager fp16"] = agreement_db(wide[id(module)], half)
    figures["ms"] = in_turns(calls, rounds)
    figures["to_eager"] = {p: figures["ms"][p] / figures["ms"]["eager"] for p in paths}
    limits = LIMITS_DB | {"fp16": min(LIMITS_DB["fp16"], figures["db"]["eager fp16"] - BESIDE_DB)}
    figures["holds"] = all(figures["db"][p] >= limits[p] for p in paths)
    return figures


def network_figures(name: str, tiny: bool, rounds: int, folder: Path) -> dict[str, Any]:
    """One network in fp32 and fp16."""
    import torch

    from bench.networks import NETWORKS

    torch.manual_seed(0)
    case = NETWORKS[name].make(tiny)
    case.module.eval()
    paths = {}
    for precision in LIMITS_DB:
        paths[precision] = folder / f"{precision}.mlpackage"
        convert(case, precision).save(str(paths[precision]))
    parameters = sum(p.numel() for p in case.module.parameters())
    return {"origin": NETWORKS[name].origin, "parameters": parameters, **measure(case, paths, rounds)}


def compressed_figures(method: str, tiny: bool, rounds: int, folder: Path) -> dict[str, Any]:
    """The Whisper encoder under one compression of coremltools, in both precisions."""
    import torch

    from bench.compressions import COMPRESSIONS, twin
    from bench.networks import NETWORKS

    torch.manual_seed(0)
    case = NETWORKS[COMPRESSED_OF].make(tiny)
    case.module.eval()
    paths, twins = {}, {}
    for precision in LIMITS_DB:
        paths[precision] = folder / f"{precision}.mlpackage"
        model = COMPRESSIONS[method](convert(case, precision), 16 if tiny else 32)
        model.save(str(paths[precision]))
        twins[precision] = twin(case.module, model, folder / f"{precision}-plain.mlpackage")
    parameters = sum(p.numel() for p in case.module.parameters())
    return {"origin": COMPRESSED_OF, "parameters": parameters, **measure(case, paths, rounds, twins)}


def table(figures: dict[str, dict[str, Any]]) -> str:
    """The figures as docs/mlprogram.md holds them."""
    from bench.markdown import markdown

    headings = ("network", "from", "parameters", "dB fp32", "dB fp16", "eager fp16", "ms eager", "ms fp32; to eager", "ms fp16; to eager")
    rows = []
    for name, f in figures.items():
        times = [f"{f['ms'][p]:.1f}; {f['to_eager'][p]:.2f}" for p in ("fp32", "fp16")]
        size = f"{f['parameters'] / 1e6:.1f} M" if f["parameters"] > 1e5 else f"{f['parameters'] / 1e3:.0f} k"
        cells = [name, f["origin"], size, f"{f['db']['fp32']:.1f}", f"{f['db']['fp16']:.1f}", f"{f['db']['eager fp16']:.1f}"]
        rows.append((*cells, f"{f['ms']['eager']:.1f}", *times))
    return markdown(headings, rows)


def chosen(asked: str | None, known: list[str]) -> list[str]:
    """The names asked for. Raises InputError for one that is not known."""
    names = [n.strip() for n in asked.split(";")] if asked else known
    for name in names:
        if name not in known:
            raise InputError(f"--network '{name}' is unknown; one of {'; '.join(known)}")
    return names


def _main(argv: list[str] | None) -> int:
    parser = argparse.ArgumentParser(prog="bench.models", description=__doc__.splitlines()[0])
    parser.add_argument("--network", help="names separated by semicolons (default: every network and compression)")
    parser.add_argument("--rounds", type=int, default=5, help="timed passes of each, in turns; the median counts")
    parser.add_argument("--tiny", action="store_true", help="small widths and depths: is the command whole?")
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1:
        raise InputError(f"--rounds {arguments.rounds}: at least 1")
    from bench.compressions import COMPRESSIONS
    from bench.networks import NETWORKS

    figures = {}
    for name in chosen(arguments.network, [*NETWORKS, *COMPRESSIONS]):
        with tempfile.TemporaryDirectory() as folder:
            of = network_figures if name in NETWORKS else compressed_figures
            figures[name] = of(name, arguments.tiny, arguments.rounds, Path(folder))
    print(table(figures))
    print(json.dumps({"limits_db": LIMITS_DB, "networks": figures}))
    return EXIT_GOOD if all(f["holds"] for f in figures.values()) else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Convert, execute, compare, print a table and the JSON line."""
    return run_cli(_main, argv)


if __name__ == "__main__":
    raise SystemExit(main())
