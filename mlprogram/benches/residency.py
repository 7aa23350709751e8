"""Hold the residency forecast against published placements: rebuild comparable graphs, forecast
them, print both.

    # minutes; exit 0: published shares lie between the readings, or are 0
    python -m mlprogram.benches.residency [--only lai-tail]
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlprogram.benches.shared import markdown
from mlprogram.command import Parser, exit_code
from mlprogram.errors import EXIT_GOOD, EXIT_MISSED, ProgramError
from mlprogram.examine.placement import forecast_placement
from mlprogram.examine.profile import open_program, profile_program
from mlprogram.examine.rules import load_rules

if TYPE_CHECKING:
    import torch

LAI_FRAMES = 120  # a short sentence


@dataclass(frozen=True)
class Case:
    """A published observation and how to rebuild its graph. `shapes`: input name -> shape; an axis
    (low, default, high) is a range.
    """

    graph: str
    sizes: dict[str, int]
    shapes: dict[str, tuple]
    precision: str
    chip: str
    published: float
    published_ops: int
    source: str
    difference: str
    integers: tuple[str, ...] = ()


def _lai(
    graph: str,
    shapes: dict[str, tuple],
    precision: str,
    published: float,
    ops: int,
    difference: str,
) -> Case:
    return Case(
        graph, {}, shapes, precision, "m5", published, ops, "FluidAudio profiler", difference
    )


def _ranged(times: int, extra: int = 0) -> tuple[int, int, int]:
    return (times + extra, LAI_FRAMES * times + extra, 2000 * times + extra)


def lai_shapes(frames: int) -> dict[str, dict[str, tuple]]:
    """Input shapes of LAI's three models for that many frames, but for the style: {case: {input:
    shape}}.
    """
    prosody = (1, 2 * frames)
    return {
        "lai-vocoder": {
            "asr": (1, 512, frames),
            "f0": prosody,
            "energy": prosody,
            "noise_0": (1, 256, 20 * frames),
            "noise_1": (1, 128, 120 * frames + 1),
        },
        "lai-noise": {"f0": prosody},
        "lai-tail": {"x": (1, 128, 120 * frames + 1)},
    }


def _magpie(frames: int, published: float, difference: str) -> Case:
    return Case(
        "MagpieBody",
        {},
        {"x": (1, 864, frames)},
        "fp16",
        "m2",
        published,
        1006,
        "mobius, magpie probe",
        difference,
    )


def cases() -> dict[str, Case]:
    """Every case by name."""
    return _vocoder_cases() | _small_cases()


def _vocoder_cases() -> dict[str, Case]:
    """LAI's three graphs and the Magpie probes."""
    whole, style = "every operation is fp32", (1, 128)
    return {
        "lai-vocoder": _lai(
            "LaiVocoder",
            {
                "asr": (1, 512, _ranged(1)),
                "f0": (1, _ranged(2)),
                "energy": (1, _ranged(2)),
                "noise_0": (1, 256, _ranged(20)),
                "noise_1": (1, 128, _ranged(120, 1)),
                "style": style,
            },
            "fp16",
            0.99,
            655,
            "which six are missing is not published; pessimistic counts dilated kernels of 11, the"
            " kernel of 20, short runs between",
        ),
        "lai-noise": _lai(
            "LaiNoise", {"f0": (1, 2 * LAI_FRAMES), "style": style}, "fp32", 0.0, 239, whole
        ),
        "lai-tail": _lai("LaiTail", {"x": (1, 128, 120 * LAI_FRAMES + 1)}, "fp32", 0.0, 13, whole),
        "magpie-t8": _magpie(
            8,
            0.990,
            "optimistic misses the ten dilated convolutions; pessimistic has them, and short runs"
            " between them",
        ),
        "magpie-t16": _magpie(
            16, 0.988, "width 16,384 exactly: two more convolutions were lowered to 16,386"
        ),
        "magpie-t20": _magpie(
            20, 0.0, "width 20,480: the compiler gave up the whole graph, as graph-too-wide warns"
        ),
    }


def _small_cases() -> dict[str, Case]:
    """Snake with and without sine, and the transducer's parts."""
    snake, probe, profiler = {"x": (1, 64, 1024)}, "mobius, magpie probe", "FluidAudio profiler"
    pair = {"encoded": (1, 1, 1024), "predicted": (1, 1, 640)}
    whole = {"token": (1, 1), "encoded": (1, 1, 1024), "hidden": (2, 1, 640), "cell": (2, 1, 640)}
    refused = "sin is refused; the two convolutions beside it are too small to hand over alone"
    small = "optimistic is right; pessimistic holds the graph for too small"
    glue = "LSTM, index and glue are off; this graph has less glue than theirs"
    handed = "19 MB of weights are worth handing over; theirs has reshapes and casts besides"
    stayed = "the same with 4 MB of weights stayed on the CPU: only the pessimistic reading says so"
    return {
        "snake-sine": Case("SnakeConvs", {"sine": 1}, snake, "fp16", "m2", 0.0, 6, probe, refused),
        "snake-poly": Case("SnakeConvs", {"sine": 0}, snake, "fp16", "m2", 1.0, 8, probe, small),
        "decoder-joint": Case(
            "DecoderJoint", {}, whole, "fp16", "m5", 0.54, 28, profiler, glue, ("token",)
        ),
        "joint": Case("Joint", {}, pair, "fp16", "m5", 1.0, 12, profiler, handed),
        "joint-small": Case(
            "Joint", {"vocabulary": 1024}, pair, "fp16", "m5", 0.0, 12, profiler, stayed
        ),
    }


SLACK = 0.01  # published shares are whole per cents


def module_of(case: Case) -> torch.nn.Module:
    """The graph of a case in PyTorch, with random weights."""
    import torch

    from mlprogram.benches import residency_graphs

    torch.manual_seed(0)
    return getattr(residency_graphs, case.graph)(**case.sizes).eval()


def build(case: Case, folder: Path, name: str) -> Path:
    """Trace and convert one case into a package, all of it in one precision."""
    import coremltools as ct
    import numpy as np
    import torch

    half, path = case.precision == "fp16", folder / f"{name}.mlpackage"
    inputs, example = [], []
    for key, shape in case.shapes.items():
        sizes = tuple(axis[1] if isinstance(axis, tuple) else axis for axis in shape)
        axes = tuple(
            ct.RangeDim(axis[0], axis[2], axis[1]) if isinstance(axis, tuple) else axis
            for axis in shape
        )
        whole = key in case.integers
        inputs.append(
            ct.TensorType(
                key, shape=axes, dtype=np.int32 if whole else np.float16 if half else np.float32
            )
        )
        example.append(torch.zeros(sizes, dtype=torch.int32) if whole else torch.zeros(sizes))
    # progress bars
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        warnings.simplefilter("ignore")
        logging.getLogger("coremltools").setLevel(logging.ERROR)
        model = ct.convert(
            torch.jit.trace(module_of(case), tuple(example), check_trace=False),
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
    program = open_program(build(case, folder, name))
    forecast = forecast_placement(
        profile_program(program, program.shapes({})), load_rules(), case.chip
    )
    high, low = forecast.optimistic.share("ops"), forecast.pessimistic.share("ops")
    within = low - SLACK <= case.published <= high + SLACK or (
        forecast.cpu_fallback is not None and case.published <= SLACK
    )
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
            raise ProgramError(f"case {name!r} is unknown; one of {', '.join(chosen)}")
    with tempfile.TemporaryDirectory() as folder:
        results = [
            compare(name, case, Path(folder))
            for name, case in chosen.items()
            if not only or name in only
        ]
    head = (
        "graph",
        "chip",
        "published % of ops",
        "optimistic / pessimistic",
        "or 0 by",
        "ops published / here",
        "within",
        "why they differ",
    )
    print(markdown(head, [_published_row(r) for r in results]))
    print(json.dumps({"label": "forecast, not a measurement", "cases": results}))
    return EXIT_GOOD if all(r["within"] for r in results) else EXIT_MISSED


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


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = Parser("mlprogram.benches.residency", __doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="CASE", help="one case, repeatable"
    )
    arguments = parser.parse_args(argv)
    return published(arguments.only)


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return exit_code(lambda: run(argv))


if __name__ == "__main__":
    raise SystemExit(main())
