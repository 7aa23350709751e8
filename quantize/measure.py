"""The log-spectral distance that one level on one layer makes, for every layer. Each is written as
soon as it is measured, so an interrupted run goes on where it stopped.

    trials = LayerTrials.of(checkpoint, layers, method.activations, clips=3, levels=levels)
    for entry in measured(trials, Path("build/sensitivity/kokoro-int8.jsonl"), levels): ...
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.data_files import conform, parse_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.quantize.level import Calibration
from kokoro_ane.quantize.methods import (
    LIKE,
    METHODS,
    SCHEMES,
    Activations,
    PaletteWeights,
    is_strided,
)
from kokoro_ane.quantize.plan import (
    Layer,
    can_be_fitted,
    can_be_int8,
    is_fitted,
    pays,
    planned,
)
from kokoro_ane.quantize.speech import FIRST_SEED, calibration_inputs
from kokoro_ane.vocoder.decoder import Vocoder
from kokoro_ane.vocoder.packing import VocoderInputs, excerpt
from kokoro_ane.vocoder.render import render_reference

N_FFT, HOP_SAMPLES = 1024, 256
# power floor below the mean of the active frames; active = this far below the loudest
FLOOR_DB, ACTIVE_DB = 50.0, 40.0
FORMAT = 3
EXCERPT_FRAMES = 80  # two seconds of each of the longest sentences
OTHER_NOISE = 500  # added to a sentence's seed
SKIPPED = 13  # sentences that are read besides those measured on, to find long ones


def spectral_distance_db2(reference: np.ndarray, candidate: np.ndarray) -> float:
    """The mean over active frames and bins of (10 log10 of the power ratio)^2, powers floored."""
    power, other = _power(reference), _power(candidate)  # [bins, frames]
    # silence between words would count like speech, and bins far below it like those one hears
    loudness = power.mean(dim=0)
    active = loudness > loudness.max() * 10 ** (-ACTIVE_DB / 10)
    floor = power[:, active].mean() * 10 ** (-FLOOR_DB / 10)
    ratio_db = 10 * torch.log10((other[:, active] + floor) / (power[:, active] + floor))
    return float(ratio_db.square().mean())


def _power(samples: np.ndarray) -> torch.Tensor:
    window = torch.hann_window(N_FFT, dtype=torch.float64)
    signal = torch.from_numpy(np.asarray(samples, np.float64))
    return torch.stft(signal, N_FFT, HOP_SAMPLES, N_FFT, window, return_complex=True).abs().square()


@dataclass(frozen=True)
class Entry:
    """One measurement: the distance that a level on one layer alone makes."""

    layer: str
    level: str
    distance_db2: float


@dataclass(frozen=True, eq=False)
class LayerTrials:
    """Responsibilities: 1. the vocoder, what its layers read, the reference renders; 2. the
    distance that a choice of levels makes; 3. what identifies the measurements.
    """

    layers: tuple[Layer, ...]
    calibration: Calibration
    clips: tuple[VocoderInputs, ...]
    references: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        layers: tuple[Layer, ...],
        settings: Activations | None,
        clips: int,
        levels: tuple[str, ...],
    ) -> "LayerTrials":
        """Prepare trials of these levels on sentences of the tuning set. `settings` None says that
        no input will be int8.
        """
        plain = Vocoder.of(checkpoint)
        every = [
            planned(layer, SCHEMES[level].weights, SCHEMES[level].int8_input)
            for layer in layers
            for level in levels
            if changes(layer, level)
        ]
        calibration = Calibration.of(checkpoint, plain, settings, every)
        sentences = list(calibration_inputs(checkpoint, plain, drawn(settings, clips)))
        chosen = longest(sentences, clips)
        references = tuple(render_reference(plain, clip) for clip in chosen)
        return cls(layers, calibration, chosen, references)

    @property
    def checkpoint(self) -> Checkpoint:
        """Whose vocoder is measured."""
        return self.calibration.checkpoint

    @property
    def settings(self) -> Activations | None:
        """How inputs become int8."""
        return self.calibration.settings

    def distance_db2(self, levels: Mapping[str, str]) -> float:
        """The mean distance from the reference over the clips, with the named layers at their
        levels and all others in float.
        """
        layers = {layer.name: layer for layer in self.layers}
        schemes = {name: SCHEMES[level] for name, level in levels.items()}
        plan = {
            name: planned(layers[name], scheme.weights, scheme.int8_input)
            for name, scheme in schemes.items()
        }
        level = self.calibration.level(METHODS["mixed"], plan)
        return self._mean_distance_db2(level.applied(self.calibration.vocoder), self.clips)

    def seed_distance_db2(self) -> float:
        """The same distance for the unchanged vocoder with other noise: the natural variation that
        a choice's distance is compared with.
        """
        clips = len(self.clips)
        others = calibration_inputs(
            self.checkpoint,
            self.calibration.vocoder,
            drawn(self.settings, clips),
            first_seed=FIRST_SEED + OTHER_NOISE,
        )
        return self._mean_distance_db2(self.calibration.vocoder, longest(list(others), clips))

    def _mean_distance_db2(self, vocoder: Vocoder, clips: tuple[VocoderInputs, ...]) -> float:
        pairs = zip(self.references, clips, strict=True)
        distances = [
            spectral_distance_db2(reference, render_reference(vocoder, clip))
            for reference, clip in pairs
        ]
        return float(np.mean(distances))

    def header(self) -> dict[str, Any]:
        """What the measurements of two runs must share, so that one continues the other."""
        return {
            "format": FORMAT,
            "checkpoint_sha256": self.checkpoint.content_sha256,
            "clips": len(self.clips),
            "frames": [clip.frames for clip in self.clips],
            # through JSON, because tuples come back from the log as lists
            "settings": json.loads(json.dumps(asdict(self.settings))) if self.settings else None,
        }

    def tasks(self, levels: tuple[str, ...]) -> list[tuple[str, str]]:
        """Every (layer, level) that changes anything and is measured rather than derived."""
        return [
            (layer.name, level)
            for layer in self.layers
            for level in levels
            if level not in LIKE and changes(layer, level)
        ]


def drawn(settings: Activations | None, clips: int) -> int:
    """How many sentences are read to find the longest."""
    return max(settings.clips if settings else 0, clips + SKIPPED)


def longest(sentences: list[VocoderInputs], clips: int) -> tuple[VocoderInputs, ...]:
    """The first EXCERPT_FRAMES of each of the `clips` longest sentences."""
    return tuple(
        excerpt(s, 0, min(EXCERPT_FRAMES, s.frames))
        for s in sorted(sentences, key=lambda s: -s.frames)[:clips]
    )


def changes(layer: Layer, level: str) -> bool:
    """Whether a layer can take a level and the level does anything to it. Some layers keep float
    inputs, and small weights stay as they are.
    """
    scheme = SCHEMES[level]
    # affines are fitted to a checkpoint's voices: with 3 bits they would fail voices added later
    if level == "p3g_gptq" and layer.is_style:
        return False
    if isinstance(scheme.weights, PaletteWeights) and is_strided(layer.name):
        return False
    if scheme.int8_input:
        return can_be_int8(layer)
    if is_fitted(scheme.weights) and not can_be_fitted(layer):
        return False
    return scheme.weights is not None and pays(layer, scheme.weights)


def measured(trials: LayerTrials, log: Path, levels: tuple[str, ...]) -> Iterator[Entry]:
    """Yield every measurement, those in `log` first. Each new one is written before it is
    yielded.
    """
    earlier = read_log(log, trials.header())
    yield from earlier
    done = {(entry.layer, entry.level) for entry in earlier}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as stream:
        if not earlier and not stream.tell():
            print(json.dumps(trials.header()), file=stream, flush=True)
        for layer, level in trials.tasks(levels):
            if (layer, level) not in done:
                entry = Entry(layer, level, trials.distance_db2({layer: level}))
                print(json.dumps(asdict(entry)), file=stream, flush=True)
                yield entry


def read_log(log: Path, header: dict[str, Any]) -> list[Entry]:
    """The measurements of an earlier run; a last line that was cut off is dropped. Raises
    InputError when they are of another checkpoint or other settings.
    """
    if not log.exists() or not log.stat().st_size:
        return []
    try:
        text = log.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{log} is not a file of measurements: give another --log") from None
    whole = text[: text.rfind("\n") + 1]
    lines = [
        parse_json(line, str(log), ": delete it or give another --log")
        for line in whole.splitlines()
    ]
    if (lines and lines[0] != header) or (not lines and not json.dumps(header).startswith(text)):
        raise InputError(
            f"{log} holds measurements of another checkpoint or with other settings: delete it or"
            " give another --log"
        )
    for line in lines[1:]:
        conform(line, Entry, str(log))
    # the file is this checkpoint's, and its last line was cut off
    if whole != text:
        with log.open("r+b") as stream:
            stream.truncate(len(whole.encode()))
    return [Entry(**line) for line in lines[1:]]
