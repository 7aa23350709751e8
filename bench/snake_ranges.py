"""How large Snake's argument gets: z = alpha AdaIN(x) at each of the 48, for a trained voice and for random weights with real styles.

    python -m bench.snake_ranges [--checkpoint demo] [--sentences 3] [--voices FOLDER] [--frames 80]

The demo voice speaks held-out sentences. The full-size vocoder with random weights gets the styles of six real voices (bench/data), or,
with --voices, three rows of every pack in FOLDER: those of a word, a sentence and a full text. sin(z)^2 has period pi, so a reduction to
one period covers |z| / pi of them to either side; u = z / pi rounded to fp16 is wrong by up to 2^-11 of its power of two, and that error
reaches the result at most twice: in u itself and in sin(pi u)^2 / pi, whose slope is at most 1. The last line of stdout is one JSON object.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import EXIT_GOOD, InputError, run_cli
from vocoder.decoder import Vocoder

if TYPE_CHECKING:
    import torch

    from vocoder.decoder import Vocoder
    from vocoder.packing import VocoderInputs

QUANTILE = 0.999
PACK_ROWS = (4, 60, 499)  # phonemes - 1 of a word, a sentence, a full text
HALF_BITS = 11  # of an fp16 significand: a rounded value is wrong by at most half a unit, 2^-11 of its power of two
TRAINED, RANDOM = "checkpoint", "random weights, real styles"


def half_error(u: float) -> float:
    """Largest error of rounding u to fp16."""
    return 2.0 ** (math.floor(math.log2(abs(u))) - HALF_BITS) if u else 0.0


def ranges(vocoder: "Vocoder", utterances: "Iterable[VocoderInputs]") -> dict[str, dict[str, float]]:
    """|z| of every Snake over all utterances, by name: largest, the 99.9 % quantile (the largest of any utterance) and the mean median."""
    import torch

    from core.layers import Snake
    from vocoder.package import render_reference

    found: dict[str, list[torch.Tensor]] = {}

    def keep(name: str, module: Snake, arguments: tuple[torch.Tensor, ...]) -> None:
        ordered = (module.alpha.detach() * arguments[0]).abs().flatten().sort().values
        at = torch.tensor([len(ordered) - 1, int(QUANTILE * (len(ordered) - 1)), len(ordered) // 2])
        found.setdefault(name, []).append(ordered[at])

    snakes = [(name, module) for name, module in vocoder.named_modules() if isinstance(module, Snake)]
    handles = [module.register_forward_pre_hook(lambda m, a, name=name: keep(name, m, a)) for name, module in snakes]
    try:
        with torch.no_grad():
            for inputs in utterances:
                render_reference(vocoder, inputs)
    finally:
        for handle in handles:
            handle.remove()
    return {name: _row(torch.stack(values)) for name, values in found.items()}


def _row(values: "torch.Tensor") -> dict[str, float]:
    largest, quantile = float(values[:, 0].max()), float(values[:, 1].max())
    u = largest / math.pi
    return {
        "largest": largest,
        "quantile": quantile,
        "median": float(values[:, 2].mean()),
        "periods": round(u),
        "fp16_error": half_error(u),
        "fp16_error_quantile": half_error(quantile / math.pi),
    }


def by_block(rows: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """The largest of each block's six Snakes; the mean of their medians."""
    blocks: dict[str, list[dict[str, float]]] = {}
    for name, row in rows.items():
        blocks.setdefault(name.rsplit(".", 2)[0], []).append(row)
    merged = {}
    for name, six in blocks.items():
        merged[name] = {key: max(row[key] for row in six) for key in six[0]} | {"median": sum(row["median"] for row in six) / len(six)}
    return merged


def spoken(checkpoint_name: str, sentences: int) -> "tuple[Vocoder, list[VocoderInputs]]":
    """A checkpoint's vocoder and held-out sentences, spread over the three speakers."""
    from core.checkpoint import open_checkpoint
    from core.corpus import heldout
    from quantize.features import text_encoder, vocoder_inputs

    checkpoint, utterances = open_checkpoint(checkpoint_name), heldout()
    vocoder, encoder = Vocoder.of(checkpoint), text_encoder(checkpoint)
    chosen = utterances[:: len(utterances) // sentences][:sentences]
    return vocoder, [vocoder_inputs(checkpoint, vocoder, encoder, utterance, seed=0) for utterance in chosen]


def styles(voices: Path | None) -> "Iterator[torch.Tensor]":
    """Decoder styles [1, 128]: bundled rows of six voices, or PACK_ROWS of every pack of a folder. InputError where it has none."""
    from bench.comparison import real_style
    from core.voices import VoiceLibrary

    if voices is None:
        yield from (real_style(index) for index in range(6))
        return
    library = VoiceLibrary(voices)
    if not library.names:
        raise InputError(f"--voices {voices} holds no voice pack (.pt, .bin or .npy)")
    for name in library.names:
        pack = library.pack(name)  # [510, 1, 256]
        yield from (pack[row, :, :128] for row in PACK_ROWS)


def random_with_styles(config: dict[str, Any], voices: Path | None, frames: int) -> "tuple[Vocoder, list[VocoderInputs]]":
    """A vocoder with random weights and the same random features under every style."""
    from bench.comparison import random_inputs
    from bench.random_checkpoint import random_vocoder
    from core.config import KokoroConfig

    parsed = KokoroConfig.from_dict(config, "bench")
    vocoder = random_vocoder(parsed, seed=0)
    inputs = random_inputs(vocoder, frames, parsed.hidden_dim)
    return vocoder, [replace(inputs, style=style) for style in styles(voices)]


def print_table(title: str, rows: dict[str, dict[str, float]]) -> None:
    """The human part: one line a block."""
    from bench.markdown import print_markdown

    print(f"\n{title}\n")
    lines = [
        (name, f"{row['largest']:.1f}", f"{row['quantile']:.1f}", f"{row['median']:.2f}", str(row["periods"]), f"{row['fp16_error']:.1e}",
         f"{row['fp16_error_quantile']:.1e}")
        for name, row in by_block(rows).items()
    ]  # fmt: skip
    headings = ("block", "largest z", "99.9 %", "median", "periods a side", "fp16 error of u, largest", "at 99.9 %")
    print_markdown(headings, lines)


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="bench.snake_ranges", description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="demo", help="as in every command")
    parser.add_argument("--sentences", type=int, default=3, help="held-out sentences, 1 to 24")
    parser.add_argument("--voices", type=Path, help="folder of voice packs for the random weights; default: six bundled rows")
    parser.add_argument("--frames", type=int, default=80, help="length for the random weights, at least 2")
    parser.add_argument("--small", action="store_true", help="the 1/16 wide model for the random weights")
    arguments = parser.parse_args(argv)
    if not 1 <= arguments.sentences <= 24 or arguments.frames < 2:
        raise InputError(f"--sentences {arguments.sentences} --frames {arguments.frames}: 1 to 24 sentences, at least 2 frames")
    from bench.random_checkpoint import kokoro_config, tiny_config

    config = tiny_config() if arguments.small else kokoro_config()
    found = {
        TRAINED: ranges(*spoken(arguments.checkpoint, arguments.sentences)),
        RANDOM: ranges(*random_with_styles(config, arguments.voices, arguments.frames)),
    }
    for title, rows in found.items():
        print_table(title, rows)
    print(json.dumps(found))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    sys.exit(main())
