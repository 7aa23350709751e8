"""One row of the parity table: a runtime at a level and layout, measured against PyTorch on the same sentences.

row = parity(Row.parse("onnx:fp32:padded"), checkpoint, build, references)
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.checks import snr_db
from kokoro_ane.core.contract import PADDED, SAMPLE_RATE_HZ
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.steps import Tensors, run_steps
from kokoro_ane.core.voices import VoiceLibrary
from kokoro_ane.encoder.encoder_steps import STEPS as ENCODER_STEPS
from kokoro_ane.pipeline.chain import STEPS, Chain, begin
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.registry import RUNTIMES, level_for, open_runtime
from mlprogram.benches.shared import resident_kib

ROOT = Path(__file__).resolve().parents[1]
SHARED = ("raw", "hidden", "text")  # what `prosody` is given of the reference's
FEATURES = (*SHARED, "f0_hz", "energy", "spectrum")  # what `vocoder` is given
COMPARED = {"hidden": "duration", "text": "duration", "f0_hz": "prosody", "energy": "prosody", "waveform": "vocoder"}


@dataclass(frozen=True)
class Row:
    """RUNTIME, RUNTIME:LEVEL or RUNTIME:LEVEL:LAYOUT."""

    runtime: str
    level: str
    layout: str = PADDED

    @classmethod
    def parse(cls, text: str) -> "Row":
        """Raises InputError for an unknown runtime."""
        runtime, _, rest = text.partition(":")
        level, _, layout = rest.partition(":")
        if runtime not in RUNTIMES:
            raise InputError(f"--rows {text}: unknown runtime {runtime!r}; there are {', '.join(RUNTIMES)}")
        return cls(runtime, level_for(runtime, level), layout or PADDED)

    def __str__(self) -> str:
        return f"{self.runtime}:{self.level}:{self.layout}"

    def request(self, checkpoint: Checkpoint, build: Path) -> Request:
        """For open_runtime."""
        return Request(checkpoint, build, self.level, self.layout)


@dataclass(frozen=True, eq=False)
class Said:
    """A sentence in one voice: text, phonemes, voice [510, 1, 256], seed; every tensor of PyTorch's chain."""

    text: str
    phonemes: str
    voice: np.ndarray
    seed: int
    tensors: Tensors

    @property
    def given(self) -> Tensors:
        """What a chain starts from."""
        return begin(self.phonemes, 1.0, self.seed)


def said(checkpoint: Checkpoint, texts: Iterable[str], voices: tuple[str, ...], first: int = 0) -> list[Said]:
    """Every sentence by PyTorch, one voice a sentence in turn, British ones in their dialect; its seed is its number, from `first` on."""
    from kokoro_ane.g2p import G2P

    readers = {"gb" if name.startswith("b") else "us" for name in voices}
    read, opened = {dialect: G2P.load(dialect) for dialect in readers}, open_runtime("torch", Request(checkpoint, Path("build")))
    packs = {name: VoiceLibrary(checkpoint.folder / "voices").blend_array(name) for name in voices}
    found = []
    for index, text in enumerate(texts, first):
        name = voices[index % len(voices)]
        phonemes, voice = read["gb" if name.startswith("b") else "us"].phonemize(text).phonemes, packs[name]
        chain = Chain(checkpoint.config.vocab, voice, opened.encoder, opened.vocoder)
        found.append(Said(text, phonemes, voice, index, run_steps(STEPS, chain, begin(phonemes, 1.0, index))))
    return found


def parity(row: Row, checkpoint: Checkpoint, build: Path, sentences: list[Said], heard: frozenset[str]) -> dict[str, Any]:
    """Durations changed, worst dB of each function on the reference's own inputs, values that are not finite.

    `heard`: of "pesq" and "words", what is also asked of the vocoder's audio.
    """
    opened = open_runtime(row.runtime, row.request(checkpoint, build))
    changed, unfinite, worst, pesq = 0, 0, dict.fromkeys(("duration", "prosody", "vocoder"), float("inf")), []
    errors = words = 0
    for sentence in sentences:
        chain, wanted = Chain(checkpoint.config.vocab, sentence.voice, opened.encoder, opened.vocoder), sentence.tensors
        own = run_steps(ENCODER_STEPS, chain, sentence.given)
        changed += int((own["durations"] != wanted["durations"]).sum())
        curves = run_steps(ENCODER_STEPS, chain, sentence.given | {name: wanted[name] for name in SHARED})
        voiced = run_steps(STEPS, chain, sentence.given | {name: wanted[name] for name in FEATURES})
        found = {"hidden": own["hidden"], "text": own["text"], "f0_hz": curves["f0_hz"], "energy": curves["energy"]}
        found["waveform"] = voiced["waveform"]
        unfinite += sum(int((~np.isfinite(array)).sum()) for array in found.values())
        for name, function in COMPARED.items():
            worst[function] = min(worst[function], snr_db(wanted[name], found[name]))
        if "pesq" in heard:
            pesq.append(_pesq(wanted["waveform"], voiced["waveform"]))
        if "words" in heard:
            wrong, spoken = _words(sentence.text, voiced["waveform"])
            errors, words = errors + wrong, words + spoken
    tokens = sum(len(sentence.tensors["ids"]) for sentence in sentences)
    figures = {"sentences": len(sentences), "tokens": tokens, "durations_changed": changed, "not_finite": unfinite}
    figures["bytes"] = size(opened, build)
    found = {"pesq": min(pesq) if pesq else None, "wer": errors / words if words else None}
    return figures | {f"{name}_db": value for name, value in worst.items()} | found


def float64(checkpoint: Checkpoint, sentences: list[Said]) -> dict[str, Any]:
    """PyTorch's vocoder in float64 beside its float32, on the same inputs: no float32 runtime can be told to be nearer than that."""
    import torch

    from kokoro_ane.vocoder.decoder import Vocoder
    from kokoro_ane.vocoder.packing import VocoderInputs
    from kokoro_ane.vocoder.render import render_reference

    vocoder, worst = Vocoder.of(checkpoint).double(), float("inf")
    for sentence in sentences:
        given = (sentence.tensors[name] for name in ("asr", "f0_hz", "energy", "style_decoder", "spectrum"))
        exact = render_reference(vocoder, VocoderInputs(*(torch.from_numpy(array) for array in given)), torch.float64)
        worst = min(worst, snr_db(exact, sentence.tensors["waveform"].reshape(-1)))
    return {"sentences": len(sentences), "vocoder_db": worst}


def _pesq(reference: np.ndarray, test: np.ndarray) -> float:
    from kokoro_ane.eval.metrics.trial import Trial
    from kokoro_ane.eval.metrics.whole_clip import pesq_wb

    return pesq_wb(Trial(reference, test))


def _words(text: str, waveform: np.ndarray) -> tuple[int, int]:
    """Errors of pocketsphinx against the text, and its words."""
    from kokoro_ane.eval.metrics.listeners import words_heard, words_of
    from kokoro_ane.g2p.alphabet import edit_distance

    wanted = words_of(text)
    return edit_distance(words_heard(waveform.reshape(-1)), wanted), len(wanted)


def size(opened: Any, build: Path) -> int:
    """Bytes on disk of what a runtime opened; 0 for PyTorch, which reads the checkpoint."""
    manifests = (build / f"{name}.json" for name in opened.made_of)
    return sum(Manifest.load(path).package_bytes for path in manifests if path.is_file())


def speeds(rows: list[Row], checkpoint: Checkpoint, build: Path, sentences: list[Said], rounds: int) -> dict[str, float]:
    """Real-time factors of the whole chain behind g2p: process time over audio, rows in turns, the best round of each sentence."""
    chains = {str(row): open_runtime(row.runtime, row.request(checkpoint, build)) for row in rows}
    best: dict[str, list[float]] = {name: [float("inf")] * len(sentences) for name in chains}
    audio_s = dict.fromkeys(chains, 0.0)
    for turn in range(rounds + 1):  # the first is to warm up
        for index, sentence in enumerate(sentences):
            for name, opened in chains.items():
                chain = Chain(checkpoint.config.vocab, sentence.voice, opened.encoder, opened.vocoder)
                started = time.process_time()
                waveform = run_steps(STEPS, chain, sentence.given)["waveform"]
                if turn:
                    best[name][index] = min(best[name][index], time.process_time() - started)
                else:
                    audio_s[name] += len(waveform) / SAMPLE_RATE_HZ
    return {name: sum(found) / audio_s[name] for name, found in best.items()}


def alone(row: Row, source: str, build: Path) -> dict[str, float]:
    """Start-up and memory in a process of its own: CPU seconds until the runtime is open, peak MB after one sentence."""
    command = [sys.executable, "-m", "bench.runtimes", "--alone", str(row), "--checkpoint", source, "--build", str(build.resolve())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"`{' '.join(command[1:])}` ended with {done.returncode}: {done.stderr.strip()[-200:]}")
    return json.loads(done.stdout.splitlines()[-1])


def alone_figures(row: Row, checkpoint: Checkpoint, build: Path) -> dict[str, Any]:
    """What `alone` asks its process for."""
    opened = open_runtime(row.runtime, row.request(checkpoint, build))
    start_s = time.process_time()
    voice = VoiceLibrary(checkpoint.folder / "voices").blend_array(checkpoint.voices[0])
    run_steps(STEPS, Chain(checkpoint.config.vocab, voice, opened.encoder, opened.vocoder), begin("həlˈO wˈɜɹld, ɪt ɪz lˈAt.", 1.0, 0))
    return {"start_s": start_s, "peak_mb": resident_kib("VmHWM") / 1000, "pytorch": "torch" in sys.modules}
