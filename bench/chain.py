"""The whole chain, text to audio: real-time factor by length, time to first audio, memory, and torch against mlprogram.

    OMP_NUM_THREADS=1 python -m bench.chain --checkpoint demo [--words 5,20,100,500,2000] [--runtimes torch,mlprogram,upstream]
    OMP_NUM_THREADS=1 python -m bench.chain --checkpoint demo --memory 1000,10000
    OMP_NUM_THREADS=1 python -m bench.chain --checkpoint demo --agreement

The text is the demo corpus' 48 frozen sentences, over and over. Speed: one process, each length spoken once after a warm-up; models are
loaded before the clock starts. With one thread seconds are the process' own CPU seconds, so that a busy machine does not count; with more
they are wall seconds. Memory: the command a user types, in a process of its own, its high-water mark from the kernel. Agreement:
the same chunks through both runtimes. Exit 0: measured. Exit 1: a figure misses its limit. The last line of stdout is one JSON object.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.markdown import print_markdown
from core.arguments import checkpoint_argument, form_argument, threads_argument
from core.errors import EXIT_GOOD, EXIT_REJECTED, InputError, run_cli

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint

LIMIT_DB = {"fp16": 45.0, "fp32": 100.0}  # vocoder against vocoder on the same features
MEMORY_LIMIT_MB, SEAM_LIMIT_DB, AGREEMENT_WORDS = 50.0, 0.0, 100


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Flags of this command."""
    parser = argparse.ArgumentParser(prog="bench.chain", description=__doc__.splitlines()[0])
    checkpoint_argument(parser)
    form_argument(parser)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--method", default="fp16", help="level of the vocoder package")
    parser.add_argument("--voice", help="default: the checkpoint's first")
    parser.add_argument("--runtimes", default="torch,mlprogram", help="with commas; upstream among them: its KModel (default: %(default)s)")
    parser.add_argument("--words", type=numbers, default=(5, 20, 100, 500, 2000), help="lengths of text (default: 5,20,100,500,2000)")
    parser.add_argument("--threads", type=threads_argument, default=1)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--memory", type=numbers, metavar="WORDS,WORDS", help="memory and seams of the command at these lengths instead")
    what.add_argument("--agreement", action="store_true", help="torch against mlprogram instead")
    return parser.parse_args(argv)


def numbers(text: str) -> tuple[int, ...]:
    """'5,20' -> (5, 20)."""
    return tuple(int(part) for part in text.split(","))


def memory(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The command itself at each length and runtime, one process each."""
    from bench.chain_text import text_of

    rows = []
    for runtime in arguments.runtimes.split(","):
        for words in arguments.memory:
            with tempfile.TemporaryDirectory() as folder:
                book = Path(folder) / "book.txt"
                book.write_text(text_of(words), encoding="utf-8")
                rows.append({"runtime": runtime, "words": words} | _spoken(arguments, runtime, book))
    return rows


def _spoken(arguments: argparse.Namespace, runtime: str, book: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "pipeline.synthesize", "--file", str(book), "-o", str(book.with_suffix(".wav")), "--runtime", runtime]
    command += ["--build", str(arguments.build), "--timestamps", str(book.with_suffix(".json")), "--quiet"]
    command += ["--checkpoint", arguments.checkpoint] if arguments.checkpoint else []
    command += ["--method", arguments.method] if runtime != "torch" else []
    with book.with_suffix(".log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log)
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != EXIT_GOOD:
            raise InputError(f"`{' '.join(command)}` ended with {os.waitstatus_to_exitcode(status)}")
        log.seek(0)
        report = json.loads(log.read().strip().splitlines()[-1])
    kept = ("seconds_of_audio", "chunks", "real_time_factor", "worst_seam_db", "peak_of_the_model", "chunks_turned_down")
    return {"peak_mb": usage.ru_maxrss / 1000, "process_s": usage.ru_utime + usage.ru_stime} | {name: report[name] for name in kept}


def print_memory(rows: list[dict[str, Any]]) -> None:
    """As the documents hold it."""
    headings = ("runtime", "words", "audio s", "chunks", "peak MB", "real-time factor", "loudest seam dB", "peak", "turned down")
    names = ("seconds_of_audio", "chunks", "peak_mb", "real_time_factor", "worst_seam_db", "peak_of_the_model", "chunks_turned_down")
    print_markdown(headings, [(row["runtime"], str(row["words"]), *(f"{row[name]:.4g}" for name in names)) for row in rows])


FEATURES = ("raw", "hidden", "text", "f0_hz", "energy", "spectrum")  # what one chain's vocoder is given of the other's


def agreement(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> dict[str, Any]:
    """Both runtimes on the same chunks: vocoder on the same features, encoder by itself, and the whole chain on its own F0."""
    import numpy as np

    from bench.chain_text import text_of
    from core.figures import rmse, snr_db
    from core.steps import run as run_steps
    from pipeline.chunks import chunks
    from pipeline.reading import TextReader
    from pipeline.runtimes import Request, open_runtime
    from pipeline.steps import STEPS, Chain, begin

    text, voice = text_of(AGREEMENT_WORDS), checkpoint.voice(arguments.voice or checkpoint.voices[0]).numpy()
    methods = {"torch": "fp16", "mlprogram": arguments.method}
    opened = [open_runtime(name, Request(checkpoint, arguments.build, method, arguments.form)) for name, method in methods.items()]
    ours, theirs = (Chain(checkpoint.config.vocab, voice, found.encoder, found.vocoder) for found in opened)
    rows = []
    for index, chunk in enumerate(chunks(TextReader.load("us", None).sentences(text), text)):
        given = begin(chunk.phonemes, 1.0, index)
        one, other = (run_steps(STEPS, chain, given) for chain in (ours, theirs))
        features = given | {name: one[name] for name in FEATURES}
        shared = run_steps(STEPS, theirs, features)["waveform"]
        row = {"tokens": len(one["ids"]), "changed": int((one["durations"] != other["durations"]).sum())}
        row["same_features_db"] = snr_db(one["waveform"], shared)
        if not row["changed"]:
            row |= {"f0_rms_hz": rmse(one["f0_hz"], other["f0_hz"]), "chain_db": snr_db(one["waveform"], other["waveform"])}
        rows.append(row)
    chains = [row["chain_db"] for row in rows if "chain_db" in row]
    return {
        "chunks": len(rows), "tokens": sum(row["tokens"] for row in rows), "durations_changed": sum(row["changed"] for row in rows),
        "f0_rms_hz_worst": max((row["f0_rms_hz"] for row in rows if "f0_rms_hz" in row), default=None),
        "same_features_db_worst": min(row["same_features_db"] for row in rows),
        "same_features_db_median": float(np.median([row["same_features_db"] for row in rows])),
        "chain_db_worst": min(chains, default=None), "chain_db_median": float(np.median(chains)) if chains else None,
        "limit_db": LIMIT_DB.get(arguments.method, 0.0), "method": arguments.method,
    }  # fmt: skip


def run(argv: list[str] | None) -> int:
    """The command itself."""
    arguments = parse_arguments(argv)
    if arguments.memory:
        rows = memory(arguments)
        print_memory(rows)
        growth = {name: [row["peak_mb"] for row in rows if row["runtime"] == name] for name in arguments.runtimes.split(",")}
        flat = all(max(found) - min(found) <= MEMORY_LIMIT_MB for found in growth.values())
        good = flat and all(row["worst_seam_db"] is None or row["worst_seam_db"] <= SEAM_LIMIT_DB for row in rows)
        print(json.dumps({"rows": rows, "good": good}))
        return EXIT_GOOD if good else EXIT_REJECTED
    from core.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(arguments.checkpoint)
    if arguments.agreement:
        figures = agreement(checkpoint, arguments)
        print_markdown(
            ("what", "figure"), [(name, f"{value:.4g}" if isinstance(value, float) else str(value)) for name, value in figures.items()]
        )
        good = figures["durations_changed"] == 0 and figures["same_features_db_worst"] >= figures["limit_db"]
        print(json.dumps(figures | {"good": good}))
        return EXIT_GOOD if good else EXIT_REJECTED
    from bench.chain_speed import print_speed, speed

    rows = speed(checkpoint, arguments)
    print_speed(rows)
    print(json.dumps({"rows": rows}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
