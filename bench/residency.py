"""Hold the residency forecast against published placements: rebuild comparable graphs, forecast them, print both.

    python -m bench.residency                      # every case: minutes
    python -m bench.residency --only lai-tail      # one
    python -m bench.residency --latency            # LAI's vocoder at six lengths on an M4: forecast bands beside published times

Exit 0: every published share lies between the two readings (one per cent of slack), or is 0 where the whole graph was at risk.
Exit 1: one does not. Exit 2: bad input.
The last line of stdout is one JSON object.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.markdown import print_markdown
from bench.residency_cases import Case, cases, lai_shapes
from core.contract import FRAMES_PER_SECOND
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

SLACK = 0.01  # published shares are whole per cents
LAI_M4_MS = {60: 31, 178: 82, 323: 148, 651: 344, 1078: 585, 1125: 635}  # frames -> ms, README of laishere/kokoro-coreml, M4 mini


def build(case: Case, folder: Path, name: str) -> Path:
    """Trace and convert one case into a package, all of it in one precision."""
    import coremltools as ct
    import numpy as np
    import torch

    from bench import residency_graphs
    from core.export import quiet_coremltools

    torch.manual_seed(0)
    half, path = case.precision == "fp16", folder / f"{name}.mlpackage"
    module = getattr(residency_graphs, case.graph)(**case.sizes)
    inputs, example = [], []
    for key, shape in case.shapes.items():
        sizes = tuple(axis[1] if isinstance(axis, tuple) else axis for axis in shape)
        axes = tuple(ct.RangeDim(axis[0], axis[2], axis[1]) if isinstance(axis, tuple) else axis for axis in shape)
        whole = key in case.integers
        inputs.append(ct.TensorType(key, shape=axes, dtype=np.int32 if whole else np.float16 if half else np.float32))
        example.append(torch.zeros(sizes, dtype=torch.int32) if whole else torch.zeros(sizes))
    with quiet_coremltools(), torch.no_grad():
        traced = torch.jit.trace(module.eval(), tuple(example), check_trace=False)
        model = ct.convert(
            traced,
            inputs=inputs,
            convert_to="mlprogram",
            compute_precision=ct.precision.FLOAT16 if half else ct.precision.FLOAT32,
            skip_model_load=True,
            minimum_deployment_target=ct.target.iOS17,
        )
        model.save(str(path))
    return path


def compare(name: str, case: Case, folder: Path) -> dict[str, Any]:
    """Forecast one case beside its published share."""
    from mlprogram.examine.forecast import forecast_residency
    from mlprogram.examine.profile import open_program, profile_program
    from mlprogram.examine.rules import load_rules

    program = open_program(build(case, folder, name))
    forecast = forecast_residency(profile_program(program, program.shapes({})), load_rules(), case.chip)
    high, low = forecast.optimistic.share("ops"), forecast.pessimistic.share("ops")
    within = low - SLACK <= case.published <= high + SLACK or (forecast.cpu_fallback is not None and case.published <= SLACK)
    return {
        "case": name,
        "chip": case.chip,
        "published": case.published,
        "published_ops": case.published_ops,
        "ops": len(forecast.ops),
        "optimistic": high,
        "pessimistic": low,
        "whole_graph": [f.rule.id for f in forecast.graph_findings],
        "within": within,
        "source": case.source,
        "difference": case.difference,
        "rules": forecast.rule_counts(),
    }


def published(only: list[str]) -> int:
    """Every case asked for."""
    chosen = cases()
    for name in only:
        if name not in chosen:
            raise InputError(f"case {name!r} is unknown; one of {', '.join(chosen)}")
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(name, case, Path(folder)) for name, case in chosen.items() if not only or name in only]
    print_markdown(
        ("graph", "chip", "published % of ops", "optimistic / pessimistic", "or 0 by", "ops published / here", "within", "why they differ"),
        [_published_row(r) for r in results],
    )
    print(json.dumps({"label": "forecast, not a measurement", "cases": results}))
    return EXIT_GOOD if all(r["within"] for r in results) else EXIT_REJECTED


def _published_row(r: dict[str, Any]) -> tuple[str, ...]:
    return (
        r["case"],
        r["chip"],
        f"{100 * r['published']:.3g}",
        f"{100 * r['optimistic']:.1f} / {100 * r['pessimistic']:.1f}",
        ", ".join(r["whole_graph"]),
        f"{r['published_ops']} / {r['ops']}",
        "yes" if r["within"] else "NO",
        r["difference"],
    )


def latency() -> int:
    """Bands for LAI's vocoder beside the times its author published."""
    from mlprogram.examine.forecast import forecast_residency
    from mlprogram.examine.latency import latency_bands
    from mlprogram.examine.profile import open_program, profile_program
    from mlprogram.examine.report import span
    from mlprogram.examine.rules import load_rules

    rules, rows, case = load_rules(), [], cases()["lai-vocoder"]
    with tempfile.TemporaryDirectory() as folder:
        program = open_program(build(case, Path(folder), "lai-vocoder"))
        for frames, published_ms in LAI_M4_MS.items():
            shapes = program.shapes(lai_shapes(frames)["lai-vocoder"])
            forecast = forecast_residency(profile_program(program, shapes), rules, "m4")
            band = latency_bands(forecast, rules.chips["m4"]).optimistic
            rows.append(
                {
                    "frames": frames,
                    "width": 120 * frames + 1,
                    "published_ms": published_ms,
                    "low_ms": band.low_ms,
                    "high_ms": band.high_ms,
                    "within": band.low_ms <= published_ms <= band.high_ms,
                }
            )
    print_markdown(
        ("s of audio", "width", "published ms", "forecast, optimistic ms", "published / low", "within"),
        [
            (
                f"{r['frames'] / FRAMES_PER_SECOND:.1f}",
                f"{r['width']:,}",
                str(r["published_ms"]),
                span(r["low_ms"], r["high_ms"]),
                f"{r['published_ms'] / r['low_ms']:.1f}",
                "yes" if r["within"] else "NO",
            )
            for r in rows
        ],
    )
    print(json.dumps({"label": "forecast, not a measurement", "latency": rows}))
    return EXIT_GOOD if all(r["within"] for r in rows) else EXIT_REJECTED


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.residency", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="one case, repeatable")
    parser.add_argument("--latency", action="store_true", help="compare latency bands with LAI's published times instead")
    arguments = parser.parse_args(argv)
    from mlprogram.errors import ProgramError

    try:
        return latency() if arguments.latency else published(arguments.only)
    except ProgramError as problem:
        raise InputError(str(problem)) from problem


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
