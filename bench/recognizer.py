"""Is the voice understood? Word error rate of pocketsphinx on the unseen sentences, PyTorch and the executed packages side by side.

    python -m bench.recognizer [--checkpoint kokoro-int8] [--voices af_heart,am_adam] [--levels torch,fp16,w8] [--sentences 102]

Voices take turns over the sentences; every level says the same sentence in the same voice with the same noise seed, so levels are compared
in pairs. The recognizer and the reading are American, so the voices are: British ones read as Americans are
misheard four times as often. core/data/unseen.txt is in no training and no choice. Exit 1 when a level is above --limit per cent.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import checkpoint_argument, layout_argument
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, run_cli

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.checkpoint import Checkpoint
    from kokoro_ane.pipeline.synthesis import Pipeline

RESAMPLES, CONFIDENCE = 2000, 0.95  # of the paired bootstrap over sentences


@dataclass(frozen=True)
class Count:
    """Errors of the recognizer in one reading of one sentence."""

    voice: str
    reading: str
    errors: int
    words: int
    heard: str


def heard(text: str, voice: str, reading: str, samples: "np.ndarray") -> Count:
    """What the recognizer makes of samples at 16 kHz, against the text."""
    from kokoro_ane.eval.metrics.listeners import recognized, words_of
    from kokoro_ane.g2p.alphabet import edit_distance

    found, wanted = recognized(samples), words_of(text)
    return Count(voice, reading, edit_distance(found, wanted), len(wanted), " ".join(found))


def rate(counts: list[Count]) -> float:
    """Word error rate, 0 to 1."""
    return round(sum(count.errors for count in counts) / sum(count.words for count in counts), 4)


def by_voice(counts: list[Count]) -> dict[str, float]:
    """Word error rate of each voice."""
    return {voice: rate([count for count in counts if count.voice == voice]) for voice in sorted({count.voice for count in counts})}


def difference_interval(one: list[Count], other: list[Count], seed: int = 0) -> tuple[float, float]:
    """Paired bootstrap over sentences: where the difference of word error rates (other - one) lies, at CONFIDENCE."""
    import numpy as np

    words = np.array([count.words for count in one])
    extra = np.array([b.errors - a.errors for a, b in zip(one, other, strict=True)])
    drawn = np.random.default_rng(seed).integers(len(words), size=(RESAMPLES, len(words)))
    found = extra[drawn].sum(axis=1) / words[drawn].sum(axis=1)
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def pipelines(checkpoint: "Checkpoint", levels: tuple[str, ...], layout: str, build: Path) -> "Iterator[tuple[str, Pipeline]]":
    """A pipeline for each level; torch is PyTorch."""
    from kokoro_ane.pipeline.synthesis import Pipeline
    from kokoro_ane.pipeline.text import TextReader
    from kokoro_ane.quantize.locator import Request
    from kokoro_ane.runtimes.registry import open_runtime

    reader = TextReader.load("us", None)
    for level in levels:
        runtime, method = ("torch", "fp16") if level == "torch" else ("mlprogram", level)
        opened = open_runtime(runtime, Request(checkpoint, build, method, layout))
        yield level, Pipeline(reader, opened.encoder, opened.vocoder, checkpoint.config.vocab)


def listened(checkpoint: "Checkpoint", arguments: argparse.Namespace, texts: list[str]) -> dict[str, list[Count]]:
    """Every sentence at every level, one voice a sentence in turn."""
    import numpy as np
    from rich.console import Console
    from rich.progress import track

    from kokoro_ane.eval.metrics.framing import at_16_khz
    from kokoro_ane.g2p.alphabet import spoken_by
    from kokoro_ane.g2p.result import US
    from kokoro_ane.pipeline.synthesis import SpeechOptions

    counts: dict[str, list[Count]] = {}
    voices = arguments.voices or [voice for voice in checkpoint.voices if spoken_by(voice) == US]
    for level, pipeline in pipelines(checkpoint, arguments.levels, arguments.layout, arguments.build):
        counts[level] = []
        for index, text in enumerate(track(texts, level, console=Console(stderr=True))):
            voice = voices[index % len(voices)]
            spoken = pipeline.speak(text, checkpoint.voice(voice), SpeechOptions(seed=arguments.seed))
            samples = at_16_khz(np.concatenate([speech.audio for speech in spoken]))
            counts[level].append(heard(text, voice, level, samples))
    return counts


def print_table(counts: dict[str, list[Count]]) -> dict[str, dict[str, Any]]:
    """One line a level; the figures."""
    from rich.console import Console
    from rich.table import Table

    first = next(iter(counts))
    figures: dict[str, dict[str, Any]] = {}
    table = Table("level", "word error rate", f"more than {first}", "by voice, %", title="pocketsphinx en-us, unseen sentences")
    for level, found in counts.items():
        low, high = difference_interval(counts[first], found)
        figures[level] = {
            "wer": rate(found),
            "difference_low": round(low, 4),
            "difference_high": round(high, 4),
            "by_voice": by_voice(found),
        }
        more = "" if level == first else f"{100 * low:+.1f} to {100 * high:+.1f} points"
        table.add_row(level, f"{100 * rate(found):.1f} %", more, ", ".join(f"{v} {100 * r:.1f}" for v, r in by_voice(found).items()))
    Console().print(table)
    return figures


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = Parser("bench.recognizer", __doc__)
    checkpoint_argument(parser)
    layout_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the packages (default: %(default)s)")
    parser.add_argument("--voices", type=lambda text: tuple(text.split(",")), help="default: the checkpoint's American ones")
    parser.add_argument("--levels", type=lambda text: tuple(text.split(",")), default=("torch", "fp16"), help="default: torch,fp16")
    parser.add_argument("--sentences", type=int, default=102, help="how many of the unseen sentences (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the source noise (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=5.0, help="per cent a level may reach (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write every sentence and what was heard as JSON")
    arguments = parser.parse_args(argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.staging import check_output, write_json
    from kokoro_ane.quantize.corpus import frozen_sentences

    if arguments.out:
        arguments.out = check_output(arguments.out, given=arguments)
    texts = frozen_sentences("unseen")
    if not 1 <= arguments.sentences <= len(texts):
        raise InputError(f"--sentences {arguments.sentences}: 1 to {len(texts)} are there")
    checkpoint = open_checkpoint(arguments.checkpoint)
    counts = listened(checkpoint, arguments, texts[: arguments.sentences])
    figures = print_table(counts)
    if arguments.out is not None:
        write_json(arguments.out, {level: [vars(count) for count in found] for level, found in counts.items()})
    reached = all(figure["wer"] <= arguments.limit / 100 for figure in figures.values())
    print(json.dumps({"checkpoint": checkpoint.name, "sentences": arguments.sentences, "reached": reached, "levels": figures}))
    return EXIT_GOOD if reached else EXIT_REJECTED


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
