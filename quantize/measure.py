"""The log-spectral distance that one level on one layer makes, for every layer. Each is written as
soon as it is measured, so an interrupted run goes on where it stopped.

    trials = LayerTrials.from_checkpoint(checkpoint, layers, clips=3, levels=LEVELS_FOR[SIZE])
    for entry in measured(trials, LEVELS_FOR[SIZE], Path("build/sensitivity")): ...
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from kokoro_ane.core import Checkpoint, parse_json, source_sha256
from kokoro_ane.quantize.level import Calibration
from kokoro_ane.quantize.methods import LIKE, METHODS, SCHEMES, PaletteWeights, is_strided
from kokoro_ane.quantize.plan import (
    Layer,
    by_level,
    can_be_fitted,
    can_be_int8,
    is_fitted,
    pays,
)
from kokoro_ane.speech import FIRST_SEED, calibration_inputs
from kokoro_ane.vocoder import Vocoder, VocoderInputs, excerpt, render_reference

N_FFT, HOP_SAMPLES = 1024, 256
# power floor below the mean of the active frames; active = this far below the loudest
FLOOR_DB, ACTIVE_DB = 50.0, 40.0
EXCERPT_FRAMES = 80  # two seconds of each of the longest sentences
OTHER_NOISE = 500  # added to a sentence's seed


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


class Entry(NamedTuple):
    """One measurement: the distance that a level on one layer alone makes."""

    layer: str
    level: str
    distance_db2: float


@dataclass(frozen=True, eq=False)
class LayerTrials:
    """Responsibilities: 1. what the vocoder's layers read, the reference renders; 2. the distance
    that a choice of levels makes; 3. what identifies the measurements.
    """

    layers: Mapping[str, Layer]
    calibration: Calibration
    clips: tuple[VocoderInputs, ...]
    references: tuple[np.ndarray, ...]

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: Checkpoint,
        layers: Mapping[str, Layer],
        clips: int,
        levels: tuple[str, ...],
    ) -> "LayerTrials":
        """Prepare trials of these levels on the longest sentences of the tuning set."""
        plain = Vocoder.from_checkpoint(checkpoint)
        plans = [
            by_level(layer, level)
            for layer in layers.values()
            for level in levels
            if changes(layer, level)
        ]
        rounded = any(SCHEMES[level].int8_input for level in levels)
        settings = METHODS["mixed"].activations if rounded else None
        calibration = Calibration.from_checkpoint(checkpoint, plain, settings, plans)
        chosen = longest(checkpoint, plain, clips)
        references = tuple(render_reference(plain, clip) for clip in chosen)
        return cls(layers, calibration, chosen, references)

    def distance_db2(self, levels: Mapping[str, str]) -> float:
        """The mean distance from the reference over the clips, with the named layers at their
        levels and all others in float.
        """
        plan = {name: by_level(self.layers[name], level) for name, level in levels.items()}
        level = self.calibration.level(METHODS["mixed"], plan)
        return self._mean_distance_db2(level.applied(self.calibration.vocoder), self.clips)

    def seed_distance_db2(self) -> float:
        """The same distance for the unchanged vocoder with other noise: the natural variation that
        a choice's distance is compared with.
        """
        plain = self.calibration.vocoder
        seed = FIRST_SEED + OTHER_NOISE
        others = longest(self.calibration.checkpoint, plain, len(self.clips), seed)
        return self._mean_distance_db2(plain, others)

    def _mean_distance_db2(self, vocoder: Vocoder, clips: tuple[VocoderInputs, ...]) -> float:
        renders = [render_reference(vocoder, clip) for clip in clips]
        return float(np.mean(list(map(spectral_distance_db2, self.references, renders))))

    @property
    def key(self) -> str:
        """What the measurements of two runs must share, so that one continues the other."""
        settings = self.calibration.settings
        code = source_sha256("core", "encoder", "vocoder", "quantize")
        parts = (
            self.calibration.checkpoint.content_sha256,
            code,
            [clip.frames for clip in self.clips],
            asdict(settings) if settings else None,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def longest(
    checkpoint: Checkpoint, vocoder: Vocoder, clips: int, first_seed: int = FIRST_SEED
) -> tuple[VocoderInputs, ...]:
    """The first EXCERPT_FRAMES of each of the `clips` longest sentences of the tuning set."""
    sentences = list(calibration_inputs(checkpoint, vocoder, first_seed=first_seed))
    chosen = sorted(sentences, key=lambda sentence: -sentence.frames)[:clips]
    return tuple(excerpt(one, 0, min(EXCERPT_FRAMES, one.frames)) for one in chosen)


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
    return scheme.weights is not None and pays(layer)


def measured(trials: LayerTrials, levels: tuple[str, ...], folder: Path) -> Iterator[Entry]:
    """Yield a measurement for every layer and level that changes anything and is measured rather
    than derived. Each new one is written before it is yielded; those in the trials' file are read.
    """
    from rich.console import Console
    from rich.progress import track

    tasks = [
        (name, level)
        for name, layer in trials.layers.items()
        for level in levels
        if level not in LIKE and changes(layer, level)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{trials.key}.jsonl"
    with log.open("a+", encoding="utf-8") as stream:
        stream.seek(0)
        text = stream.read()
        # a last line that was cut off is measured again
        lines = text[: text.rfind("\n") + 1].splitlines()
        stream.truncate(len("".join(f"{line}\n" for line in lines)))
        again = ": delete it and it is measured again"
        earlier = [Entry(*parse_json(line, str(log), again)) for line in lines]
        done = {(entry.layer, entry.level): entry for entry in earlier}
        for name, level in track(
            tasks, "layer by layer", console=Console(stderr=True), transient=True
        ):
            if (name, level) not in done:
                entry = Entry(name, level, trials.distance_db2({name: level}))
                print(json.dumps(entry), file=stream, flush=True)
                done[name, level] = entry
            yield done[name, level]
