"""The encoder's manifest: the contract of its functions, where they may run, and where the package came from.

manifest = encoder_manifest(checkpoint, package, {DURATION: DURATION, PROSODY: PROSODY}, buckets, "fp16", "iOS18", figures, facts)
"""

import dataclasses
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from core.checkpoint import Checkpoint
from core.contract import (
    DURATION,
    DURATIONS,
    ENERGY,
    F0_HZ,
    FRAMES,
    HIDDEN,
    INPUT_IDS,
    MAX_SPEED,
    MIN_SPEED,
    PADDING_ID,
    PROSODY,
    SPEED,
    STYLE,
    TEXT,
)
from core.figures import Figure
from core.manifest import Manifest, describe_package, tool_versions
from encoder.alignment import AlignmentLimits
from encoder.export import KEEP_FP32
from encoder.facts import FunctionFacts
from encoder.functions import Buckets

COMPUTE_UNITS = {
    "default": "CPU_AND_GPU",
    "M5": "CPU_ONLY",
    "reason": "the LSTM aborts on the M5's GPU (FluidInference/FluidAudio issue 667) and runs on the CPU elsewhere",
}


@dataclass(frozen=True)
class EncoderManifest(Manifest):
    """A manifest that also says which contract function each function of the package is, its token lengths, and its compute units."""

    functions: dict[str, str] = field(default_factory=dict)  # contract name -> name in the package
    token_buckets: tuple[int, ...] = ()
    compute_units: dict[str, str] = field(default_factory=dict)
    alignment: dict[str, int] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> "EncoderManifest":
        """As Manifest.load, with these keys."""
        found = super().load(path)
        return dataclasses.replace(found, token_buckets=tuple(found.token_buckets))

    @property
    def lengths(self) -> Buckets:
        """Both enumerations."""
        return Buckets(self.token_buckets, self.buckets)


def encoder_manifest(
    checkpoint: Checkpoint,
    package: Path,
    stage: str,
    functions: dict[str, str],
    buckets: Buckets,
    precision: str,
    target: str,
    limits: AlignmentLimits,
    figures: list[Figure],
    facts: dict[str, FunctionFacts],
) -> EncoderManifest:
    """Describe a package that stands at its final place and holds `functions`."""
    operations: dict[str, int] = {}
    for name in functions:
        for op_type, count in facts[name].operations.items():
            operations[op_type] = operations.get(op_type, 0) + count
    contract = _contract(checkpoint.config.hidden_dim, checkpoint.config.style_dim)
    return EncoderManifest(
        stage=stage,
        method=precision,
        precision=precision,
        checkpoint={"name": checkpoint.name, "sha256": checkpoint.sha256},
        releasable=checkpoint.releasable and precision != "fp32",
        target=target,
        buckets=buckets.frames,
        hidden_dim=checkpoint.config.hidden_dim,
        inputs={name: contract[name]["inputs"] for name in functions},
        outputs={name: contract[name]["outputs"] for name in functions},
        source={},
        operations=dict(sorted(operations.items())),
        checks={
            "figures": [asdict(figure) for figure in figures],
            "structure": {name: facts[name].as_dict() for name in functions},
            "kept_fp32": {name: list(KEEP_FP32[name]) for name in functions} if precision == "fp16" else {},
        },
        tools=tool_versions(),
        functions=functions,
        token_buckets=buckets.tokens,
        compute_units=COMPUTE_UNITS,
        alignment=asdict(limits),
        **describe_package(package),
    )


def _contract(hidden: int, style_dim: int) -> dict[str, dict[str, Any]]:
    style = {"shape": [1, style_dim], "dtype": "float32", "row": "voice pack [510, 1, 256], phoneme count - 1, columns 128:256"}
    column = {"shape": [1, hidden, 1, "tokens"], "dtype": "float32"}
    rate = {"shape": [1, "2 * bucket"], "dtype": "float32", "rate_hz": 80, "valid": "first 2 * frames values"}
    ids = {"shape": [1, "tokens"], "dtype": "int32", "padding": PADDING_ID, "boundary": "0 before and after the symbols"}
    return {
        DURATION: {
            "inputs": {INPUT_IDS: ids, STYLE: style, SPEED: {"shape": [1], "dtype": "float32", "range": [MIN_SPEED, MAX_SPEED]}},
            "outputs": {
                DURATIONS: {"shape": [1, "tokens"], "dtype": "float32", "unit": "frames", "rounding": "half to even, at least 1"},
                HIDDEN: column | {"use": "repeat each column for its token's frames, then `frames` of prosody"},
                TEXT: column | {"use": "repeat each column for its token's frames, then asr of the vocoder"},
            },
        },
        PROSODY: {
            "inputs": {
                FRAMES: {"shape": [1, hidden + 1, 1, "bucket"], "dtype": "float32", "rows": {"hidden": hidden, "mask": 1}, "padding": 0},
                STYLE: style,
            },
            "outputs": {F0_HZ: rate | {"unit": "Hz"}, ENERGY: rate},
        },
    }
