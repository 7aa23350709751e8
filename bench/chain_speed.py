"""Measure the chain from text to audio: real-time factor by length, time to first audio, memory.

    OMP_NUM_THREADS=1 python -m bench.chain_speed --checkpoint FOLDER \\
        [--words 5,20,100,500,2000] [--runtimes torch,mlprogram,upstream]
    OMP_NUM_THREADS=1 python -m bench.chain_speed --checkpoint FOLDER --layout padded \\
        --text "One sentence." "Another one."
    OMP_NUM_THREADS=1 python -m bench.chain_speed --checkpoint FOLDER --memory 1000,10000
    OMP_NUM_THREADS=1 python -m bench.chain_speed --checkpoint FOLDER --opening \\
        --runtimes mlprogram,onnx

The text repeats the 48 judged and tuning sentences. Speed: each length is spoken once in one
process after a warm-up; models are loaded before the clock starts. With one thread seconds are CPU
seconds of the process, so that a busy machine does not count; with more they are wall seconds.
Memory: the peak, by the kernel, of the command that a user types. Opening: each part in turn, in a
process that has its libraries loaded: CPU seconds, growth of file pages (mapped) and of anonymous
pages (copied); then the first sentence, which plans and unpacks. Exit 0: measured. Exit 1: a figure
misses its limit. A pipe's last line is one JSON object.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.figures import print_figures, read_resident_kib
from kokoro_ane.core import (
    EXIT_GOOD,
    EXIT_REJECTED,
    JUDGED,
    SAMPLE_RATE_HZ,
    TUNING,
    Checkpoint,
    CommandOptions,
    InputError,
    build_option,
    checkpoint_option,
    command,
    conclude,
    layout_option,
    open_checkpoint,
    option,
    parse,
)
from kokoro_ane.pipeline import (
    Pipeline,
    Speech,
    SpeechOptions,
    SynthesisStats,
    has_upstreams_widths,
    load_upstream,
)
from kokoro_ane.quantize import PackageRequest
from kokoro_ane.runtimes import RUNTIMES, find_files, module_of, open_runtime
from kokoro_ane.speech import read_speech_lines
from kokoro_g2p import chunks, text_reader

MEMORY_LIMIT_MB = 50.0  # between the largest and the least peak of a runtime
UPSTREAM = "upstream"
Speaker = Callable[[str], dict[str, Any]]  # speaks a text; figures as SynthesisStats reports them


# figures: of what the command itself reports, and of memory
SPOKEN = (
    "seconds_of_audio",
    "chunks",
    "real_time_factor",
    "peak_of_the_model",
    "chunks_turned_down",
)
MEMORY = ("runtime", "words", "peak_mb", *SPOKEN)


def parse_threads(text: str) -> int:
    """Parse a number of threads that PyTorch takes: 1 to 1024."""
    if not (text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= 1024):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from 1 to 1024")
    return int(text)


def parse_numbers(text: str) -> tuple[int, ...]:
    """Parse '5,20' as (5, 20)."""
    return tuple(int(part) for part in text.split(","))


@dataclass(frozen=True)
class SpeedOptions(CommandOptions):
    """What is measured, and by whom."""

    checkpoint: str | None = checkpoint_option()
    layout: str = layout_option()
    build: Path = build_option()
    method: str = option("level of the vocoder package", "fp16")
    voice: str | None = option("default: the checkpoint's first")
    runtimes: str = option("with commas; upstream among them: its KModel", "torch,mlprogram")
    words: tuple[int, ...] = option(
        "lengths of text (default: 5,20,100,500,2000)", (5, 20, 100, 500, 2000), type=parse_numbers
    )
    text: tuple[str, ...] = option("these texts instead of lengths", (), nargs="+", metavar="TEXT")
    threads: int = option("of PyTorch", 1, type=parse_threads)
    memory: tuple[int, ...] | None = option(
        "memory of the command at these lengths instead",
        type=parse_numbers,
        metavar="WORDS,WORDS",
        exclusive="what",
    )
    opening: bool = option("time and memory to open each part instead", False, exclusive="what")


def measure_memory(options: SpeedOptions) -> list[dict[str, Any]]:
    """Run the command `speak` at each length and runtime, in one process each."""
    rows = []
    for runtime in options.runtimes.split(","):
        for words in options.memory:
            with tempfile.TemporaryDirectory() as folder:
                book = Path(folder) / "book.txt"
                book.write_text(make_text(words), encoding="utf-8")
                rows.append({"runtime": runtime, "words": words} | _speak(options, runtime, book))
    return rows


def _speak(options: SpeedOptions, runtime: str, book: Path) -> dict[str, Any]:
    words = f"-m kokoro_ane.pipeline.speak --quiet --runtime {runtime} --build".split()
    command = [sys.executable, *words, str(options.build), "--file", str(book)]
    command += ["-o", str(book.with_suffix(".wav")), "--timestamps", str(book.with_suffix(".json"))]
    command += ["--checkpoint", options.checkpoint] if options.checkpoint else []
    command += ["--layout", options.layout] if options.layout else []
    command += ["--method", options.method] if runtime != "torch" else []
    with book.with_suffix(".log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log)
        # the kernel's own high-water mark of that process alone
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != EXIT_GOOD:
            raise InputError(
                f"`{' '.join(command)}` ended with {os.waitstatus_to_exitcode(status)}"
            )
        log.seek(0)
        # The last line of the command is its report.
        report = json.loads(log.read().strip().splitlines()[-1])
    # The kernel counts in KiB.
    return {"peak_mb": usage.ru_maxrss / 1000, "process_s": usage.ru_utime + usage.ru_stime} | {
        name: report[name] for name in SPOKEN
    }


def measure_opening(options: SpeedOptions, runtime: str) -> list[dict[str, Any]]:
    """Open encoder, vocoder and the reader of text one after the other in a fresh process, then
    speak a sentence with all of them.
    """
    checkpoint = open_checkpoint(options.checkpoint)
    # libraries are imported first: their time and pages are not the models'
    for name in (RUNTIMES[runtime].module.partition(":")[0], *RUNTIMES[runtime].needs):
        importlib.import_module(name)
    encoders, vocoder = find_files(
        runtime, PackageRequest(checkpoint, options.build, options.method, options.layout)
    )
    voice = checkpoint.voice(options.voice or checkpoint.voices[0])
    opened_parts = dict[str, Any]()
    rows = list[dict[str, Any]]()

    def speak() -> int:
        pipeline = Pipeline(
            opened_parts["text"],
            opened_parts["encoder"],
            opened_parts["vocoder"],
            checkpoint.config.vocab,
        )
        return sum(
            len(speech.audio) for speech in pipeline.speak(make_text(20), voice, SpeechOptions())
        )

    module = module_of(runtime)
    parts: dict[str, Callable[[], Any]] = {"encoder": partial(module.open_encoder, encoders)}
    parts["vocoder"] = partial(module.open_vocoder, vocoder)
    # In this order, because a sentence needs all parts.
    for part, act in (
        parts | {"text": partial(text_reader, "us"), "first sentence": speak}
    ).items():
        # What was opened before stays open, so only the growth is counted.
        pages = (read_resident_kib("RssFile"), read_resident_kib("RssAnon"))
        spent_s = time.process_time()
        opened_parts[part] = act()
        mapped, copied = (
            read_resident_kib("RssFile") - pages[0],
            read_resident_kib("RssAnon") - pages[1],
        )
        grown = {
            "cpu_s": time.process_time() - spent_s,
            "mapped_mb": mapped / 1000,
            "copied_mb": copied / 1000,
        }
        rows.append(
            {"runtime": runtime, "part": part}
            | grown
            | {"peak_mb": read_resident_kib("VmHWM") / 1000}
        )
    return rows


def make_text(words: int) -> str:
    """Return the first `words` words of the repeated frozen sentences."""
    sentences = [line.text for name in (JUDGED, TUNING) for line in read_speech_lines(name)]
    once = " ".join(sentences).split()
    return " ".join((once * (words // len(once) + 1))[:words])


def load_upstream_speaker(
    checkpoint: Checkpoint, voice: torch.Tensor, clock: Callable[[], float]
) -> Speaker:
    """Load upstream's model; return what speaks a text in a voice [510, 1, 256] by it. Raises
    InputError for widths that it does not have.
    """
    if not has_upstreams_widths(checkpoint.config):
        raise InputError(
            f"{checkpoint.name}: upstream's decoder has one size, this checkpoint another; give"
            " --checkpoint kokoro-int8"
        )
    model = load_upstream(checkpoint)
    reader = text_reader("us")

    @torch.no_grad()
    def speak(text: str) -> dict[str, Any]:
        started = clock()
        first = 0.0
        samples = 0
        inside = 0.0
        for chunk in chunks(reader(text), text):
            begun = clock()
            # Row n - 1 of a voice is for n phonemes.
            samples += len(model(chunk.phonemes, voice[len(chunk.phonemes) - 1], 1.0))
            inside += clock() - begun
            # `or` keeps the time of the first chunk.
            first = first or clock() - started
        spent = clock() - started
        audio_s = samples / SAMPLE_RATE_HZ
        # all of KModel counts as vocoder
        return {
            "seconds_of_audio": audio_s,
            "real_time_factor": spent / audio_s,
            "first_audio_s": first,
            "seconds_by_stage": {"g2p": spent - inside, "vocoder": inside},
        }

    return speak


def load_pipeline_speaker(
    checkpoint: Checkpoint,
    options: SpeedOptions,
    runtime: str,
    voice: torch.Tensor,
    clock: Callable[[], float],
) -> Speaker:
    """Load the chain of a runtime; return what speaks a text in a voice by it."""
    method = "fp16" if runtime == "torch" else options.method
    request = PackageRequest(checkpoint, options.build, method, options.layout)
    opened = open_runtime(runtime, request)
    reader = text_reader("us")
    pipeline = Pipeline(reader, opened.encoder, opened.vocoder, checkpoint.config.vocab, clock)

    def speak(text: str) -> dict[str, Any]:
        stats = SynthesisStats(clock)
        # Samples count when they are there; a chunk's Speech comes behind its last ones.
        for block in pipeline.blocks(text, voice, SpeechOptions(windowed=True)):
            if isinstance(block, Speech):
                stats.add(block)
            else:
                stats.heard(len(block))
        return stats.report()

    return speak


def measure_speed(checkpoint: Checkpoint, options: SpeedOptions) -> list[dict[str, Any]]:
    """Measure every runtime at every length."""
    torch.set_num_threads(options.threads)
    voice = checkpoint.voice(options.voice or checkpoint.voices[0])
    # CPU seconds do not count what other jobs take, but add up over threads
    clock = time.process_time if options.threads == 1 else time.perf_counter

    speakers = {}
    for runtime in options.runtimes.split(","):
        if runtime == UPSTREAM:
            speakers[runtime] = load_upstream_speaker(checkpoint, voice, clock)
        else:
            speakers[runtime] = load_pipeline_speaker(checkpoint, options, runtime, voice, clock)
    for speak in speakers.values():
        # the first call loads and plans
        speak(make_text(20))
    rows = []
    for text in options.text or map(make_text, options.words):
        # All runtimes at one length, so that a slow hour of the machine meets each of them.
        for runtime, speak in speakers.items():
            # resets the high-water mark
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
            row = {"runtime": runtime, "threads": options.threads, "words": len(text.split())}
            row |= speak(text)
            rows.append(row | {"peak_mb": read_resident_kib("VmHWM") / 1000})
    # By runtime again, as a table is read.
    return sorted(rows, key=lambda row: list(speakers).index(row["runtime"]))


def print_speed(rows: list[dict[str, Any]]) -> None:
    """Print the rows, with the shares of the stages in one column."""
    shown = []
    for row in rows:
        seconds = row["seconds_by_stage"]
        parts = (f"{stage} {spent / sum(seconds.values()):.0%}" for stage, spent in seconds.items())
        shown.append(row | {"stages": ", ".join(parts)})
    margins = ("first_audio_s", "least_margin_s", "peak_mb", "stages")
    names = ("runtime", "words", "seconds_of_audio", "real_time_factor", *margins)
    print_figures("", shown, names)


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(SpeedOptions, "bench.chain_speed", __doc__, argv)
    if options.memory:
        rows = measure_memory(options)
        print_figures("", rows, MEMORY)
        # Memory may not grow with the length of the text.
        growth = {
            name: [row["peak_mb"] for row in rows if row["runtime"] == name]
            for name in options.runtimes.split(",")
        }
        good = all(max(peaks) - min(peaks) <= MEMORY_LIMIT_MB for peaks in growth.values())
        report = {"rows": rows, "good": good}
        if good:
            return conclude(options, report, EXIT_GOOD, "memory keeps its limit")
        return conclude(options, report, EXIT_REJECTED, "memory misses its limit")
    if options.opening:
        opened = []
        for runtime in options.runtimes.split(","):
            # a process of its own: pages of the runtime before would count
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
                opened += fresh.submit(measure_opening, options, runtime).result()
        print_figures("", opened)
        return conclude(options, {"rows": opened}, EXIT_GOOD, "measured")
    checkpoint = open_checkpoint(options.checkpoint)
    rows = measure_speed(checkpoint, options)
    print_speed(rows)
    return conclude(options, {"rows": rows}, EXIT_GOOD, "measured")


if __name__ == "__main__":
    raise SystemExit(main())
