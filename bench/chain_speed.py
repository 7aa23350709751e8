"""Real-time factor by length, of our runtimes and of upstream's KModel (eager, unmodified) on the same text in one run.

    OMP_NUM_THREADS=1 python -m bench.chain --checkpoint kokoro-int8 --runtimes torch,mlprogram,upstream --words 5,20,100

Phonemes are ours in every row, cut into the same chunks. Rows take turns, so that a machine that changes changes for all.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bench.chain_text import text_of
from bench.executor import resident_kib
from bench.markdown import print_markdown
from core.contract import SAMPLE_RATE_HZ
from core.errors import InputError
from pipeline.chunks import chunks
from pipeline.conductor import Pipeline, SpeechOptions
from pipeline.reading import TextReader
from pipeline.runtimes import Request, open_runtime
from pipeline.tally import Tally
from pipeline.upstream import KModel, has_upstreams_widths, upstream_of

if TYPE_CHECKING:
    from core.checkpoint import Checkpoint

UPSTREAM = "upstream"


class UpstreamChain:
    """Responsibilities: 1. upstream's model, loaded once; 2. a text's chunks through it, timed."""

    def __init__(self, checkpoint: "Checkpoint", reader: TextReader, clock: Callable[[], float]) -> None:
        if not has_upstreams_widths(checkpoint.config):
            raise InputError(f"{checkpoint.name}: upstream's decoder has one size, this checkpoint another; give --checkpoint kokoro-int8")
        self._model: KModel = upstream_of(checkpoint)
        self._reader, self._clock = reader, clock

    @torch.no_grad()
    def spoken(self, text: str, voice: torch.Tensor) -> dict[str, Any]:
        """Figures as a Tally's, all of KModel under vocoder. voice [510, 1, 256]."""
        started, first, samples, inside = self._clock(), 0.0, 0, 0.0
        for chunk in chunks(self._reader.sentences(text), text):
            begun = self._clock()
            samples += len(self._model(chunk.phonemes, voice[len(chunk.phonemes) - 1], 1.0))
            inside += self._clock() - begun
            first = first or self._clock() - started
        spent, audio_s = self._clock() - started, samples / SAMPLE_RATE_HZ
        stages = {"g2p": spent - inside, "encoder": 0.0, "source": 0.0, "vocoder": inside}
        return {"seconds_of_audio": audio_s, "real_time_factor": spent / audio_s, "first_audio_s": first, "seconds_by_stage": stages}


def ours(runtimes: str) -> list[str]:
    """Without upstream, which is no runtime of ours."""
    return [name for name in runtimes.split(",") if name != UPSTREAM]


def pipelines(checkpoint: "Checkpoint", arguments: argparse.Namespace, clock: Callable[[], float]) -> dict[str, Pipeline]:
    """A pipeline for each runtime, loaded."""
    reader = TextReader.load("us", None)
    found = {}
    for runtime in ours(arguments.runtimes):
        method = "fp16" if runtime == "torch" else arguments.method
        opened = open_runtime(runtime, Request(checkpoint, arguments.build, method, arguments.form))
        found[runtime] = Pipeline(reader, opened.encoder, opened.vocoder, checkpoint.config.vocab, clock)
    return found


def speed(checkpoint: "Checkpoint", arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Every runtime at every length."""
    torch.set_num_threads(arguments.threads)
    voice = checkpoint.voice(arguments.voice or checkpoint.voices[0])
    clock = time.process_time if arguments.threads == 1 else time.perf_counter

    def by_pipeline(pipeline: Pipeline, text: str) -> dict[str, Any]:
        tally = Tally(clock)
        for speech in pipeline.speak(text, voice, SpeechOptions()):
            tally.add(speech)
        return tally.report()

    speakers = {name: partial(by_pipeline, found) for name, found in pipelines(checkpoint, arguments, clock).items()}
    if UPSTREAM in arguments.runtimes.split(","):
        chain = UpstreamChain(checkpoint, TextReader.load("us", None), clock)
        speakers[UPSTREAM] = partial(chain.spoken, voice=voice)
    for speak in speakers.values():
        speak(text_of(20))  # warm
    rows = []
    for words in arguments.words:
        for runtime, speak in speakers.items():
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the high-water mark
            told = speak(text_of(words))
            rows.append({"runtime": runtime, "threads": arguments.threads, "words": words, "peak_mb": resident_kib("VmHWM") / 1000} | told)
    return sorted(rows, key=lambda row: list(speakers).index(row["runtime"]))


def print_speed(rows: list[dict[str, Any]]) -> None:
    """As the documents hold it."""
    shares = ("g2p", "encoder", "source", "vocoder")
    cells = []
    for row in rows:
        total = sum(row["seconds_by_stage"].values())
        parts = " / ".join(f"{row['seconds_by_stage'][stage] / total:.0%}" for stage in shares)
        audio = f"{row['seconds_of_audio']:.1f}"
        figures = (f"{row['real_time_factor']:.3f}", f"{row['first_audio_s']:.2f}", f"{row['peak_mb']:.0f}")
        cells.append((row["runtime"], str(row["threads"]), str(row["words"]), audio, *figures, parts))
    headings = ("runtime", "threads", "words", "audio s", "real-time factor", "first audio s", "peak MB", " / ".join(shares))
    print_markdown(headings, cells)
