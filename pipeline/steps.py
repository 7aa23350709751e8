"""The conductor's steps as a list: what each reads and writes, and how near a port has to come. docs/conductor.md says the same in words.

    tensors = run_all(studio, begin("həlˈO.", voice, speed=1.0, seed=0))     # every tensor of one utterance, by name
    tensors["waveform"]                                                      # [600F]

Each step is a function of stored tensors alone, so one that goes wrong is found by itself (python -m pipeline.vectors --check).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from core.contract import FEATURES, FRAME_SAMPLES, PADDING_ID, PROSODY_PER_FRAME, STYLE, WAVEFORM, bucket_for
from core.figures import snr_db
from core.voices import style_row
from encoder.alignment import whole_frames
from encoder.functions import Buckets
from encoder.model import pack_frames
from encoder.package import EncoderPackage
from encoder.vocab import input_ids
from pipeline.join import finished
from pipeline.seams import rectangular
from pipeline.stages import VocoderStage
from vocoder.packing import VocoderInputs, pack
from vocoder.source import gaussian_noise, spectrum_of

Tensors = dict[str, np.ndarray]
EQUAL = float("inf")  # the tolerance of what is counted, moved or padded, but not computed


@dataclass(frozen=True)
class Studio:
    """What the steps work with: vocabulary, one voice [510, 1, 256], the two packages."""

    vocab: Mapping[str, int]
    voice: np.ndarray
    encoder: EncoderPackage
    vocoder: VocoderStage


@dataclass(frozen=True)
class Step:
    """`writes`: tensor -> least SNR in dB against the stored one; EQUAL = every element."""

    name: str
    says: str
    reads: tuple[str, ...]
    writes: Mapping[str, float]
    run: Callable[[Studio, Tensors], Tensors]

    def as_dict(self) -> dict[str, Any]:
        """For index.json."""
        tolerance = {name: "equal" if limit == EQUAL else {"snr_db_at_least": limit} for name, limit in self.writes.items()}
        return {"name": self.name, "says": self.says, "reads": list(self.reads), "writes": tolerance}


def begin(phonemes: str, speed: float, seed: int) -> Tensors:
    """What an utterance starts from, as arrays: phonemes [n] code points, speed [1], seed [1]."""
    return {
        "phonemes": np.array([ord(symbol) for symbol in phonemes], np.int32),
        "speed": np.array([speed], np.float32),
        "seed": np.array([seed], np.int64),
    }


def _torch(tensors: Tensors, *names: str) -> list[torch.Tensor]:
    return [torch.from_numpy(tensors[name]) for name in names]


def _ids(studio: Studio, given: Tensors) -> Tensors:
    return {"ids": np.array(input_ids("".join(map(chr, given["phonemes"])), studio.vocab), np.int32)}


def _pad(studio: Studio, given: Tensors) -> Tensors:
    ids = given["ids"]
    width = studio.encoder.buckets.for_tokens(len(ids))
    return {"input_ids": np.pad(ids, (0, width - len(ids)), constant_values=PADDING_ID)[None]}


def _style(studio: Studio, given: Tensors) -> Tensors:
    row = style_row(torch.from_numpy(studio.voice), len(given["phonemes"])).numpy()  # [1, 256]
    half = row.shape[1] // 2
    return {"style_decoder": row[:, :half], "style_prosody": row[:, half:]}


def _duration(studio: Studio, given: Tensors) -> Tensors:
    raw, hidden, text = studio.encoder.functions.duration(*_torch(given, "input_ids", "style_prosody", "speed"))
    count = len(given["ids"])
    return {"raw": raw[0, :count].numpy(), "hidden": hidden[..., :count].numpy(), "text": text[..., :count].numpy()}


def _round(studio: Studio, given: Tensors) -> Tensors:
    return {"durations": whole_frames(torch.from_numpy(given["raw"]), studio.encoder.limits).numpy()}


def _align(_: Studio, given: Tensors) -> Tensors:
    durations = given["durations"]
    return {"token_of_frame": np.repeat(np.arange(len(durations)), durations)}


def _frames(studio: Studio, given: Tensors) -> Tensors:
    en, asr = (given[name][..., given["token_of_frame"]] for name in ("hidden", "text"))  # [1, C, 1, F]
    bucket = bucket_for(en.shape[-1], studio.encoder.buckets.frames)
    return {"frames": pack_frames(torch.from_numpy(en), bucket).numpy(), "asr": asr[:, :, 0]}


def _prosody(studio: Studio, given: Tensors) -> Tensors:
    f0_hz, energy = studio.encoder.functions.prosody(*_torch(given, "frames", "style_prosody"))
    valid = PROSODY_PER_FRAME * given["asr"].shape[-1]
    return {"f0_hz": f0_hz[:, :valid].numpy(), "energy": energy[:, :valid].numpy()}


def _noise(_: Studio, given: Tensors) -> Tensors:
    return {"noise": gaussian_noise(given["asr"].shape[-1], int(given["seed"][0])).numpy()}


@torch.no_grad()
def _excitation(studio: Studio, given: Tensors) -> Tensors:
    return {"excitation": studio.vocoder.source.excitation(*_torch(given, "f0_hz", "noise")).numpy()}


def _spectrum(_: Studio, given: Tensors) -> Tensors:
    return {"spectrum": spectrum_of(torch.from_numpy(given["excitation"])).float().numpy()}


def _pack(studio: Studio, given: Tensors) -> Tensors:
    inputs = VocoderInputs(*_torch(given, "asr", "f0_hz", "energy", "style_decoder", "spectrum"))
    features = pack(inputs, bucket_for(inputs.frames, studio.vocoder.buckets)).numpy()
    return {"features": features, "style": given["style_decoder"][:, :, None, None]}


def _vocoder(studio: Studio, given: Tensors) -> Tensors:
    found = studio.vocoder.program({FEATURES: given["features"], STYLE: given["style"]})[WAVEFORM].flatten()
    return {"waveform": found[: FRAME_SAMPLES * given["asr"].shape[-1]].float().numpy()}


def _finish(_: Studio, given: Tensors) -> Tensors:
    samples, gain = finished(given["waveform"])
    return {"samples": samples, "gain": np.array([gain], np.float32)}


STEPS = (
    Step("ids", "symbols to numbers, 0 at both ends", ("phonemes",), {"ids": EQUAL}, _ids),
    Step("pad", "smallest token bucket, -1 behind", ("ids",), {"input_ids": EQUAL}, _pad),
    Step("style", "row n - 1 of the voice; columns 0:128 and 128:256", ("phonemes",),
         {"style_decoder": EQUAL, "style_prosody": EQUAL}, _style),
    Step("duration", "package KokoroEncoder, function duration; cut to n + 2 columns", ("ids", "input_ids", "style_prosody", "speed"),
         {"raw": 80.0, "hidden": 80.0, "text": 40.0}, _duration),
    Step("round", "half to even, at least 1", ("raw",), {"durations": EQUAL}, _round),
    Step("align", "token i stands durations[i] times", ("durations",), {"token_of_frame": EQUAL}, _align),
    Step("frames", "gather; mask as last row, zeros up to the frame bucket", ("hidden", "text", "token_of_frame"),
         {"frames": EQUAL, "asr": EQUAL}, _frames),
    Step("prosody", "package KokoroEncoder, function prosody; cut to 2F", ("frames", "style_prosody", "asr"),
         {"f0_hz": 80.0, "energy": 40.0}, _prosody),
    Step("noise", "standard normal from the seed; any other will do", ("asr", "seed"), {"noise": EQUAL}, _noise),
    Step("excitation", "nine sines and noise, merged, in float64", ("f0_hz", "noise"), {"excitation": 100.0}, _excitation),
    Step("spectrum", "20-point STFT, hop 5: 11 magnitudes, 11 phases", ("excitation",), {"spectrum": 80.0}, _spectrum),
    Step("pack", "rows of bucket + 1 columns", ("asr", "f0_hz", "energy", "style_decoder", "spectrum"),
         {"features": EQUAL, "style": EQUAL}, _pack),
    Step("vocoder", "package KokoroVocoder; cut to 600F", ("features", "style", "asr"), {"waveform": 40.0}, _vocoder),
    Step("finish", "fades of 120 samples, turned down where louder than full scale", ("waveform",),
         {"samples": 100.0, "gain": 100.0}, _finish),
)  # fmt: skip


def run_all(studio: Studio, tensors: Tensors) -> Tensors:
    """Every tensor of one utterance."""
    for step in STEPS:
        tensors = tensors | step.run(studio, {name: tensors[name] for name in step.reads})
    return tensors


def replay(studio: Studio, stored: Tensors, step: Step) -> dict[str, float]:
    """Run one step on stored tensors: SNR in dB of each tensor it writes against the stored one, -inf for another shape."""
    found = step.run(studio, {name: stored[name] for name in step.reads})
    return {name: nearness(name, stored[name], found[name]) for name in step.writes}


def nearness(name: str, wanted: np.ndarray, got: np.ndarray) -> float:
    """SNR in dB; a spectrum is compared by real and imaginary parts, because the phase of silence means nothing."""
    if wanted.shape != got.shape:
        return float("-inf")
    return snr_db(*(rectangular(array) for array in (wanted, got))) if name == "spectrum" else snr_db(wanted, got)


def lengths(buckets: Buckets) -> dict[str, list[int]]:
    """Both enumerations, for index.json."""
    return {"tokens": list(buckets.tokens), "frames": list(buckets.frames)}
