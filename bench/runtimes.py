"""The parity table: every runtime, level and layout against PyTorch, on the same sentences and features, and their speed in one run.

    OMP_NUM_THREADS=1 python -m bench.runtimes --checkpoint kokoro-int8 [--rows onnx,mlprogram:fp16,mlprogram:fp16:host] [--write]

Per row: tokens whose duration changed, worst SNR of duration (hidden, text), prosody (F0, energy) and vocoder on the reference's inputs,
PESQ and misheard words of the vocoder's audio, real-time factor of the chain on one thread (process time, rows in turns), CPU time to open
and peak memory in a process of its own, bytes on disk. Exit 0: durations equal and float32 rows at 100 dB or more; 1: not. The last line
of stdout is one JSON object. --write puts the table into docs/runtimes.md.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from kokoro_ane.core.commands import checkpoint_argument
from kokoro_ane.core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, Parser, command
from kokoro_ane.core.staging import staged

LIMIT_DB = 100.0
VOICES = 5
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "runtimes.md"
BEGIN, END = "<!-- parity: python -m bench.runtimes -->", "<!-- end of parity -->"
HEADINGS = (
    "runtime", "level", "layout", "sentences", "durations changed", "duration dB", "prosody dB", "vocoder dB", "PESQ, worst",
    "words wrong, %",
    "real-time factor", "opens in CPU s", "peak MB", "MB on disk", "PyTorch loaded",
)  # fmt: skip


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = Parser("bench.runtimes", __doc__)
    checkpoint_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"), help="folder with the files (default: %(default)s)")
    parser.add_argument("--rows", type=lambda text: tuple(text.split(",")), default=("onnx",), help="RUNTIME[:LEVEL[:LAYOUT]], ...")
    parser.add_argument("--sentences", type=int, default=50, help="of core/data/unseen.txt (default: %(default)s)")
    parser.add_argument("--timed", type=int, default=4, help="sentences that are timed (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="best of so many (default: %(default)s)")
    parser.add_argument("--float64", action="store_true", help="also PyTorch's vocoder in float64: how far its float32 is from exact")
    parser.add_argument("--pesq", action="store_true", help="also PESQ: 0.3 s a sentence")
    parser.add_argument("--words", action="store_true", help="also the words that pocketsphinx mishears: 1 s a sentence")
    parser.add_argument("--write", action="store_true", help="put the table into docs/runtimes.md")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def measured(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows, PyTorch's first."""
    from bench.runtime_rows import Row, alone, float64, parity, said, speeds
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.quantize.corpus import frozen_sentences
    from kokoro_ane.quantize.locator import source_name

    wanted = [Row.parse(text) for text in arguments.rows]
    checkpoint = open_checkpoint(arguments.checkpoint)
    voices = checkpoint.voices[:VOICES]
    texts = frozen_sentences("unseen")
    if not 1 <= arguments.sentences <= len(texts):
        raise InputError(f"--sentences {arguments.sentences}: 1 to {len(texts)} are there")
    sentences = said(checkpoint, texts[: arguments.sentences], voices)
    rows = [Row.parse("torch"), *wanted]
    seconds = speeds(rows, checkpoint, arguments.build, sentences[: arguments.timed], arguments.rounds) if arguments.timed else {}
    heard = frozenset(name for name in ("pesq", "words") if getattr(arguments, name))
    found = []
    for row in rows:
        named = {"runtime": row.runtime, "level": row.level, "layout": row.layout, "voices": len(voices), "checkpoint": checkpoint.name}
        figures = parity(row, checkpoint, arguments.build, sentences, heard)
        found.append(named | figures | {"rtf": seconds.get(str(row))} | alone(row, source_name(checkpoint), arguments.build))
    if arguments.float64:
        found.append({"runtime": "torch", "level": "fp64", **float64(checkpoint, sentences)})
    return found


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table."""
    decibels = (f"{row[name]:.1f}" if row.get(name, float("inf")) != float("inf") else "" for name in DECIBELS)
    numbers = [_number(row.get("rtf"), ".3f"), _number(row.get("start_s"), ".1f"), _number(row.get("peak_mb"), ".0f")]
    disk = f"{row['bytes'] / 1e6:.1f}" if row.get("bytes") else ""
    changed = f"{row['durations_changed']} of {row['tokens']}" if "tokens" in row else ""
    first = (row["runtime"], row.get("level", ""), row.get("layout", ""), str(row.get("sentences", "")), changed)
    wer = row.get("wer")
    heard = (_number(row.get("pesq"), ".2f"), "" if wer is None else f"{100 * wer:.1f}")
    return (*first, *decibels, *heard, *numbers, disk, {True: "yes", False: "no"}.get(row.get("pytorch"), ""))


DECIBELS = ("duration_db", "prosody_db", "vocoder_db")


def _number(value: float | None, shape: str) -> str:
    return "" if value is None else format(value, shape)


def table(rows: list[dict[str, Any]]) -> str:
    """In Markdown."""
    from bench.chain_speed import markdown

    return markdown(HEADINGS, [cells(row) for row in rows])


def placed(document: str, rows: list[dict[str, Any]]) -> str:
    """The document with the table between its marks. InputError where a mark is missing."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"{DOCUMENT.name} lacks the mark {END if begin else BEGIN!r}")
    first = rows[0]
    told = f"{first['sentences']} sentences, {first['voices']} voices, checkpoint {first['checkpoint']}."
    return f"{before}{BEGIN}\n{told}\n\n{table(rows)}\n{END}{after}"


def good(row: dict[str, Any]) -> bool:
    """Float32 beside PyTorch: durations equal, nothing infinite, every function within LIMIT_DB. Other levels are judged by eval."""
    if "durations_changed" not in row:
        return True
    near = row["level"] != "fp32" or min(row[name] for name in DECIBELS) >= LIMIT_DB
    return near and not row["durations_changed"] and not row["not_finite"]


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.alone:
        from bench.runtime_rows import Row, alone_figures
        from kokoro_ane.core.checkpoint import open_checkpoint

        print(json.dumps(alone_figures(Row.parse(arguments.alone), open_checkpoint(arguments.checkpoint), arguments.build)))
        return EXIT_GOOD
    import torch

    torch.set_num_threads(1)
    rows = measured(arguments)
    print(table(rows))
    if arguments.write:
        with staged(DOCUMENT) as aside:
            aside.write_text(placed(DOCUMENT.read_text(encoding="utf-8"), rows), encoding="utf-8")
    kept = all(good(row) for row in rows)
    print(json.dumps({"rows": rows, "good": kept}, default=str))
    return EXIT_GOOD if kept else EXIT_REJECTED


if __name__ == "__main__":
    raise SystemExit(main())
