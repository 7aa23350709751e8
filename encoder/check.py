"""Execute an encoder package and compare it with PyTorch at exact length, at several bucket fills, before it gets its name.

figures = check_figures(programs, encoder, check_utterances(checkpoint, buckets), buckets, limits, precision="fp16")
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from core.checkpoint import Checkpoint
from core.contract import BOUNDARY_ID, MAX_PHONEMES
from core.errors import InputError
from core.figures import Figure, rmse, snr_db
from core.voices import VoiceLibrary, style_row
from encoder.alignment import AlignmentLimits
from encoder.functions import Buckets, Functions, package_functions, torch_functions
from encoder.model import Encoder
from encoder.steps import Encoded, EncoderBackend, encode
from mlprogram import Program

LIMIT_SNR_DB = {"fp16": 40.0, "fp32": 100.0}  # random weights reach 55 and 117: a package below these is broken, not imprecise
LIMIT_F0_HZ = 0.5
CHECK_TOKENS = (3, 60, 200, MAX_PHONEMES + 2)  # shortest, a sentence, a paragraph, the longest; as far as the buckets go
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


def check_utterances(checkpoint: Checkpoint, buckets: Buckets) -> list[Utterance]:
    """Random symbols of several lengths in the checkpoint's voices: worse than speech, and free of a corpus."""
    library, known = VoiceLibrary(checkpoint.folder / "voices"), sorted(checkpoint.config.vocab.values())
    if not library.names:
        raise InputError(f"{library.folder} holds no voice: the check needs at least one")
    utterances, generator = [], torch.Generator().manual_seed(0)
    for index, tokens in enumerate(n for n in CHECK_TOKENS if n <= buckets.tokens[-1]):
        symbols = torch.randint(len(known), (tokens - 2,), generator=generator).tolist()
        pack = library.pack(library.names[index % len(library.names)])
        style = style_row(pack, tokens - 2)[:, checkpoint.config.style_dim :]
        ids = (BOUNDARY_ID, *(known[symbol] for symbol in symbols), BOUNDARY_ID)
        utterances.append(Utterance(ids, style, SPEEDS[index % len(SPEEDS)]))
    return utterances


def check_figures(
    programs: Mapping[str, Program],
    encoder: Encoder,
    utterances: list[Utterance],
    buckets: Buckets,
    limits: AlignmentLimits,
    precision: str,
) -> list[Figure]:
    """Every tensor that leaves the package against PyTorch at exact length, at each fill."""
    reference, package = torch_functions(encoder), package_functions(programs)
    pairs = [pair for utterance in utterances for pair in _pairs(reference, package, utterance, buckets, limits)]
    return compared(pairs, precision)


def _pairs(
    torch_twin: Functions, package: Functions, utterance: Utterance, buckets: Buckets, limits: AlignmentLimits
) -> list[tuple[Encoded, Encoded]]:
    given, unbounded = (utterance.ids, utterance.style, utterance.speed), replace(limits, total_frames=sys.maxsize)
    longest = buckets.frames[-1]
    reference = encode(EncoderBackend(torch_twin, unbounded, None, longest), *given)
    wanted = fills(buckets, len(utterance.ids), reference.asr.shape[-1])
    return [(reference, encode(EncoderBackend(package, unbounded, fill, longest), *given)) for fill in wanted]


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
