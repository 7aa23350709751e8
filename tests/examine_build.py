"""Small programs to examine: a function of the Builder as a package, its profile, and the rules that fire on it.

profile = profile_of({"x": (1, 4, 1, 8)}, lambda x: mb.relu(x=x), tmp_path)
"""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types

from mlprogram.examine.forecast import Forecast, forecast_residency
from mlprogram.examine.profile import Profile, open_program, profile_program
from mlprogram.examine.rules import load_rules
from tests.mlprogram_build import save


def package_of(
    inputs: dict[str, tuple[int, ...]],
    build: Callable[..., Any],
    folder: Path,
    dtype: type = types.fp16,
    target: ct.target = ct.target.iOS17,
) -> Path:
    """Write a package whose function is `build` of inputs with these shapes; names that start with `i` are int32."""
    held = {n: mb.placeholder(shape=s, dtype=types.int32 if n.startswith("i") else dtype) for n, s in inputs.items()}
    with Function(held, opset_version=target) as function:
        result = build(**function.inputs)
        function.set_outputs(list(result) if isinstance(result, (list, tuple)) else [result])
    return save(function, folder / f"{uuid.uuid4().hex}.mlpackage", target)


def profile_of(inputs: dict[str, tuple[int, ...]], build: Callable[..., Any], folder: Path, **options: Any) -> Profile:
    """The profile of such a package at its declared shapes."""
    program = open_program(package_of(inputs, build, folder, **options))
    return profile_program(program, program.shapes({}))


def forecast_of(chip: str, inputs: dict[str, tuple[int, ...]], build: Callable[..., Any], folder: Path, **options: Any) -> Forecast:
    """The forecast of such a package for a chip, by the packaged rules."""
    return forecast_residency(profile_of(inputs, build, folder, **options), load_rules(), chip)


def fired(forecast: Forecast) -> dict[str, str]:
    """{rule id: effect} of everything found."""
    found = [*(f for op in forecast.ops for f in op.findings), *forecast.graph_findings]
    return {f.rule.id: f.effect for f in found}
