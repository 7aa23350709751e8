"""Execute an encoder package and compare it with PyTorch at exact length, at several bucket fills, before it gets its name.

figures = check_functions(programs, encoder, utterances, buckets, limits, precision="fp16")
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from core.contract import DURATION
from core.errors import CheckFailed
from core.figures import Figure, rmse, snr_db
from encoder.alignment import AlignmentLimits
from encoder.facts import FunctionFacts
from encoder.functions import Buckets, Encoded, Functions, encode, package_functions, torch_functions
from encoder.model import Encoder
from encoder.prefix_lstm import PrefixLSTM
from mlprogram import Program

LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 100.0}  # random weights reach 55 and 117: a package below these is broken, not imprecise
LIMIT_F0_HZ = 0.5
SPEEDS = (1.0, 0.8, 1.3)


@dataclass(frozen=True)
class Utterance:
    """ids with boundary tokens, style [1, 128] (the prosody half), speed."""

    ids: tuple[int, ...]
    style: torch.Tensor
    speed: float


def fills(buckets: Buckets, tokens: int, frames: int) -> tuple[Buckets, ...]:
    """The tightest buckets for one utterance, and those about three times as long, as far as they exist."""
    pairs = []
    for factor in (1, 3):
        wide = next((b for b in buckets.tokens if b >= tokens * factor), buckets.tokens[-1])
        long = next((b for b in buckets.frames if b >= frames * factor), buckets.frames[-1])
        pairs.append(Buckets((wide,), (long,)))
    return tuple(dict.fromkeys(pairs))


def check_functions(
    programs: Mapping[str, Program],
    encoder: Encoder,
    utterances: list[Utterance],
    buckets: Buckets,
    limits: AlignmentLimits,
    precision: str,
) -> tuple[list[Figure], dict[str, FunctionFacts]]:
    """Structure first, then every seam at each fill. Raises CheckFailed when a limit is missed."""
    facts = {name: FunctionFacts.of(program, name) for name, program in programs.items()}
    torch_twin, package = torch_functions(encoder), package_functions(programs)
    for name, found in facts.items():
        lstms = sum(isinstance(module, PrefixLSTM) for module in getattr(torch_twin, name).modules())
        found.require(precision, len(buckets.tokens if name == DURATION else buckets.frames), lstms)
    pairs = [pair for utterance in utterances for pair in _pairs(torch_twin, package, utterance, buckets, limits)]
    figures = compared(pairs, precision)
    broken = [figure for figure in figures if not figure.holds]
    if broken:
        figure, limit = broken[0].text()
        raise CheckFailed(f"{broken[0].name} is {figure}, limit {limit}; the package was not kept")
    return figures, facts


def _pairs(
    torch_twin: Functions, package: Functions, utterance: Utterance, buckets: Buckets, limits: AlignmentLimits
) -> list[tuple[Encoded, Encoded]]:
    given, unbounded = (utterance.ids, utterance.style, utterance.speed), replace(limits, total_frames=sys.maxsize)
    longest = buckets.frames[-1]
    reference = encode(torch_twin, *given, None, unbounded, longest)
    wanted = fills(buckets, len(utterance.ids), reference.asr.shape[-1])
    return [(reference, encode(package, *given, fill, unbounded, longest)) for fill in wanted]


def compared(pairs: list[tuple[Encoded, Encoded]], precision: str) -> list[Figure]:
    """Worst figure of each seam over all pairs; features are compared only where all durations agree."""
    tokens = sum(len(wanted.durations) for wanted, _ in pairs)
    changed = sum(int((wanted.durations != got.durations).sum()) for wanted, got in pairs)
    figures = [Figure(f"durations changed, of {tokens} tokens at {len(pairs)} fills", changed, 0, at_least=False, unit="tokens")]
    if changed:
        return figures
    limit = LIMIT_SNR_DB[precision]
    for name in ("text", "asr", "hidden", "energy", "f0_hz"):
        worst = min(snr_db(getattr(wanted, name).numpy(), getattr(got, name).numpy()) for wanted, got in pairs)
        figures.append(Figure(f"{name} against PyTorch, worst fill", worst, limit, at_least=True, unit="dB"))
    worst_hz = max(rmse(wanted.f0_hz.numpy(), got.f0_hz.numpy()) for wanted, got in pairs)
    return [*figures, Figure("F0 against PyTorch, RMS difference, worst fill", worst_hz, LIMIT_F0_HZ, at_least=False, unit="Hz")]
