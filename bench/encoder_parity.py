"""The encoder against upstream's KModel at full size with random weights: durations, F0, energy and asr, at any padding.

    python -m bench.encoder_parity [--texts 200] [--seed 0] [--small]                   # our PyTorch
    python -m bench.encoder_parity --package fp16 --texts 40                            # the exported package, executed
    python -m bench.encoder_parity --fp16-block bert --texts 40                         # one block in fp16, the others in fp32

Every text has random symbols, one of six real Kokoro styles, a speed, a length between 1 and 510 phonemes (both ends included) and its own
padding, of tokens and of frames (a package's buckets are its padding). Durations are judged against upstream in float64, apart from tokens
that float32 itself leaves open (`rounding`). Exit 0: every limit holds; 1: one is missed. The last line of stdout is one JSON
object.
"""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bench.comparison import real_styles, upstream_intermediates, upstream_model
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, Parser, run_cli

if TYPE_CHECKING:
    from kokoro_ane.encoder.encoder_steps import Encoded
    from kokoro_ane.encoder.functions import Encoder


LIMIT_DB, LIMIT_FP16_DB = 90.0, 40.0
UNDECIDED_LIMIT = 1e-3  # share of the tokens that float32 may leave open
SPEEDS = (1.0, 1.0, 0.8, 1.3)
# Scopes of the exported functions, in the data's order (encoder/functions.py).
BLOCKS = ("bert", "bert_encoder", "duration_encoder", "duration_lstm", "duration_proj", "text_encoder", "shared", "curve",
          "energy_predictor")  # fmt: skip
SEAMS = ("hidden", "text", "asr", "f0_hz", "energy")


@dataclass(frozen=True)
class Case:
    """ids with boundary tokens, style [1, 256] float32, speed, padding in tokens and in frames."""

    ids: tuple[int, ...]
    style: Tensor
    speed: float
    extra_tokens: int
    extra_frames: int


def cases(texts: int, seed: int) -> Iterator[Case]:
    """`texts` cases; lengths spread evenly over the logarithm of 1 to 510, the two ends first."""
    generator, styles = torch.Generator().manual_seed(seed), real_styles()
    for index in range(texts):
        drawn = torch.rand(3, generator=generator)
        length = (510, 1)[index] if index < 2 else round(510 ** float(drawn[0]))
        symbols = torch.randint(1, 178, (length,), generator=generator).tolist()
        extra_tokens = round(float(drawn[1]) ** 2 * (510 - length))
        yield Case((0, *symbols, 0), styles[index % 6], SPEEDS[index % 4], extra_tokens, round(float(drawn[2]) * 400))


def both_models(config: dict[str, Any], seed: int, decoder: bool = False) -> "tuple[torch.nn.Module, Encoder]":
    """Upstream's KModel with random weights, and ours with the same."""
    from kokoro_ane.core.config import KokoroConfig
    from kokoro_ane.encoder.functions import PARTS, Encoder

    upstream = upstream_model(config, seed, real_styles()[0], decoder)
    encoder = Encoder(KokoroConfig.from_dict(config, "bench")).eval()
    for name in PARTS:
        getattr(encoder, name).load_state_dict({key: value.clone() for key, value in getattr(upstream, name).state_dict().items()})
    return upstream, encoder


def encoded_by_upstream(upstream: torch.nn.Module, case: Case) -> "Encoded":
    """Upstream's seams, dynamic and packed, in the model's dtype."""
    from kokoro_ane.encoder.encoder_steps import Encoded

    seams = upstream_intermediates(upstream, torch.tensor([case.ids]), case.style.to(next(upstream.parameters()).dtype), case.speed)
    width = seams["text"].shape[1]  # d and frames carry the style behind the hidden features
    hidden, frames = (seams[name][..., :width].transpose(1, 2) for name in ("d", "frames"))
    return Encoded(seams["raw"][0], seams["durations"], hidden, seams["text"], frames, seams["asr"], seams["f0_hz"], seams["energy"])


def encoded_by_us(encoder: "Encoder", case: Case, durations: Tensor) -> "Encoded":
    """Ours, static and masked, padded as the case says; `durations` (upstream's) give the frame padding its length."""
    from kokoro_ane.encoder.encoder_steps import AlignmentLimits, Buckets, EncoderBackend, encode
    from kokoro_ane.encoder.functions import torch_functions

    total = int(durations.sum())
    buckets = Buckets((len(case.ids) + case.extra_tokens,), (total + case.extra_frames + len(case.ids),))
    style = case.style[:, 128:].to(next(encoder.parameters()).dtype)
    backend = EncoderBackend(torch_functions(encoder), AlignmentLimits(10_000, 1_000_000), buckets)
    return encode(backend, case.ids, style, case.speed)


def executed(encoder: "Encoder", precision: str, fp16_block: str | None) -> "Callable[[Case, Tensor], Encoded]":
    """Export both functions with the default buckets and execute them; `fp16_block` leaves all other blocks in fp32."""
    import tempfile

    from kokoro_ane.core.builder import converted
    from kokoro_ane.core.contract import DEFAULT_BUCKETS, DURATION, PROSODY, TOKEN_BUCKETS
    from kokoro_ane.core.export import save_functions
    from kokoro_ane.encoder.encoder_stage import encoder_function
    from kokoro_ane.encoder.encoder_steps import AlignmentLimits, Buckets, EncoderBackend, encode, program_functions
    from mlprogram import Program

    keep = None if fp16_block is None else tuple(block for block in BLOCKS if block != fp16_block)
    buckets = Buckets(TOKEN_BUCKETS, DEFAULT_BUCKETS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "encoder.mlpackage"
        traced = {name: encoder_function(encoder, name, buckets, keep) for name in (DURATION, PROSODY)}
        save_functions({name: converted(function, precision, "iOS18") for name, function in traced.items()}, path)
        functions = program_functions({name: Program(path, function=name) for name in (DURATION, PROSODY)})
    backend = EncoderBackend(functions, AlignmentLimits(10_000, 1_000_000), buckets, DEFAULT_BUCKETS[-1])
    return lambda case, _: encode(backend, case.ids, case.style[:, 128:], case.speed)


@torch.no_grad()
def raw_durations(model: torch.nn.Module, ids: tuple[int, ...], style: Tensor, speed: float) -> Tensor:
    """Upstream's frames a token before rounding [n] in the model's dtype: KModel.forward_with_tokens (kokoro 0.9.4) up to there.

    ids with boundary tokens; style [1, 256].
    """
    dtype, tokens = next(model.parameters()).dtype, torch.tensor([ids])  # [1, n]
    prosody, outside = style[:, 128:].to(dtype), torch.zeros_like(tokens, dtype=torch.bool)
    d_en = model.bert_encoder(model.bert(tokens, attention_mask=(~outside).int())).transpose(1, 2)  # [1, C, n]
    predictor = model.predictor
    d = predictor.text_encoder(d_en, prosody, torch.tensor([len(ids)]), outside)  # [1, n, C + S]
    return torch.sigmoid(predictor.duration_proj(predictor.lstm(d)[0])).sum(dim=2)[0] / speed


def frames_of(raw: Tensor) -> Tensor:
    """Rounded as upstream does: half to even, at least 1."""
    return raw.round().clamp(min=1)


def rounding(exact: Tensor, theirs: Tensor, ours: Tensor) -> dict[str, Any]:
    """Counts over tokens [n]: exact is upstream in float64, theirs upstream in float32, ours who is compared.

    `open` lists the undecided tokens: index, float64's distance above a half, and what theirs and ours have there.
    """
    exact, theirs, ours = (raw.double() for raw in (exact, theirs, ours))
    half = exact.clamp(min=1).floor() + 0.5  # below 1 nothing turns: a token lasts at least one frame
    own_error = float((theirs - exact).abs().max())
    undecided = (exact - half).abs() <= own_error
    wrong = frames_of(ours) != frames_of(exact)
    indices = undecided.nonzero().flatten().tolist()
    return {
        "float32_error": own_error,
        "our_error": float((ours - exact).abs().max()),
        "undecided": len(indices),
        "changed_decided": int((wrong & ~undecided).sum()),
        "changed_undecided": int((wrong & undecided).sum()),
        "upstream_changed": int((frames_of(theirs) != frames_of(exact)).sum()),
        "open": [[i, *(float(raw[i] - half[i]) for raw in (exact, theirs, ours))] for i in indices],
    }


def acceptable(counts: dict[str, Any], tokens: int) -> bool:
    """Every decided token equal, and few enough undecided."""
    return counts["changed_decided"] == 0 and counts["undecided"] <= max(1.0, UNDECIDED_LIMIT * tokens)


def row(upstream: torch.nn.Module, ours: "Callable[[Case, Tensor], Encoded]", case: Case) -> dict[str, Any]:
    """One text: tokens, durations that differ, raw durations (theirs, ours), SNR of each seam and RMS of F0 where durations agree."""
    from kokoro_ane.core.checks import rmse, snr_db

    theirs = encoded_by_upstream(upstream, case)
    found = ours(case, theirs.durations)
    changed = int((theirs.durations != found.durations).sum())
    frames = found.asr.shape[-1]  # a package's longest bucket cuts a long text
    alike = not changed and frames == theirs.asr.shape[-1]
    seams = SEAMS if alike else SEAMS[:2]  # those before the alignment
    figures = {name: snr_db(getattr(theirs, name).numpy(), getattr(found, name).numpy()) for name in seams}
    f0_rms_hz = rmse(theirs.f0_hz.numpy(), found.f0_hz.numpy()) if alike else None
    return {"tokens": len(case.ids), "frames": frames, "changed": changed, "raw": (theirs.raw, found.raw), "snr_db": figures,
            "f0_rms_hz": f0_rms_hz}  # fmt: skip


def summary(rows: list[dict[str, Any]], limit_db: float) -> dict[str, Any]:
    """All texts together, and whether every limit holds."""
    counts = rounding(*(torch.cat(parts) for parts in zip(*((r["exact"], *r["raw"]) for r in rows), strict=True)))
    worst = {name: min(r["snr_db"].get(name, float("inf")) for r in rows) for name in SEAMS}
    tokens = sum(r["tokens"] for r in rows)
    return {
        "texts": len(rows),
        "tokens": tokens,
        "frames": sum(r["frames"] for r in rows),
        **counts,
        "changed_against_float32": sum(r["changed"] for r in rows),
        "changed_texts": sum(r["changed"] > 0 for r in rows),
        "worst_db": worst,
        "f0_rms_hz": max((r["f0_rms_hz"] for r in rows if r["f0_rms_hz"] is not None), default=None),
        "good": acceptable(counts, tokens) and min(worst.values()) >= limit_db,
    }


def print_table(found: dict[str, Any]) -> None:
    """The human part."""
    print(f"{found['texts']} texts, {found['tokens']} tokens, {found['frames']} frames")
    errors = f"upstream's float32 {found['float32_error']:.1e}, ours {found['our_error']:.1e}"
    print(f"raw durations from upstream's float64, at most: {errors} frames")
    print(f"durations changed where float32 decides: {found['changed_decided']}")
    print(
        f"undecided tokens (as near to a half as upstream's float32 is wrong): {found['undecided']}; of them changed against float64: "
        f"upstream's float32 {found['upstream_changed']}, ours {found['changed_undecided']}"
    )
    for index, exact, theirs, ours in found["open"]:
        print(f"  token {index}: above a half by {exact:.1e} in float64, {theirs:.1e} upstream in float32, {ours:.1e} ours")
    print(f"durations changed against upstream's float32: {found['changed_against_float32']}, in {found['changed_texts']} texts")
    for name, value in found["worst_db"].items():
        print(f"{name:8s} worst {value:6.1f} dB")
    print(f"F0 worst {found['f0_rms_hz']} Hz RMS")


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = Parser("bench.encoder_parity", __doc__)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="the 1/16 wide model, for a quick look")
    parser.add_argument("--package", choices=("fp16", "fp32"), help="export, execute and compare the package instead of our PyTorch")
    parser.add_argument("--fp16-block", choices=BLOCKS, help="the same with this one block in fp16")
    arguments = parser.parse_args(argv)
    from rich.console import Console
    from rich.progress import track

    from bench.random_checkpoint import kokoro_config, tiny_config

    upstream, encoder = both_models(tiny_config() if arguments.small else kokoro_config(), arguments.seed)
    wide = copy.deepcopy(upstream).double()
    ours = partial(encoded_by_us, encoder)
    if arguments.package or arguments.fp16_block:
        ours = executed(encoder, arguments.package or "fp16", arguments.fp16_block)
    texts = track(cases(arguments.texts, arguments.seed), "texts", total=arguments.texts, console=Console(stderr=True))
    rows = [row(upstream, ours, case) | {"exact": raw_durations(wide, case.ids, case.style, case.speed)} for case in texts]
    found = summary(rows, LIMIT_DB if arguments.package != "fp16" and not arguments.fp16_block else LIMIT_FP16_DB)
    print_table(found)
    print(json.dumps(found))
    return EXIT_GOOD if found["good"] else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
