"""Damage of one level on one layer, for every layer: measured once, kept line by line, so that an interrupted run goes on where it stopped.

trials = LayerTrials.of(checkpoint, layers, method.activations, clips=3)
for entry in measured(trials, Path("build/sensitivity/demo.jsonl"), levels): ...
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from core.checkpoint import Checkpoint
from core.errors import InputError
from core.schema import conform
from core.staging import parse_json
from quantize.activations import FIRST_SEED, calibration_inputs
from quantize.damage import damage_db2
from quantize.equalize import channel_sizes, equalized
from quantize.features import excerpt
from quantize.following import envelope_caps, following
from quantize.gptq import Fit, fits_of
from quantize.layers import Layer
from quantize.methods import SCHEMES, Activations
from quantize.plan import can_be_fitted, can_be_int8, is_fitted, pays
from quantize.simulate import input_sizes, simulated
from vocoder.decoder import Vocoder
from vocoder.package import render_reference
from vocoder.packing import VocoderInputs

FORMAT = 2
EXCERPT_FRAMES = 80  # two seconds of each of the longest sentences
OTHER_NOISE = 500  # added to a sentence's seed
SKIPPED = 13  # sentences more than are measured on, to find long ones


@dataclass(frozen=True)
class Entry:
    """One measurement."""

    layer: str
    level: str
    damage_db2: float


@dataclass(frozen=True, eq=False)
class Ready:
    """What int8 inputs need, measured with every convolution balanced: sizes of channels, caps of envelopes, ranges. One layer's are not
    moved by what is done to another."""

    sizes: Mapping[str, Tensor]
    caps: Mapping[str, float]
    ranges: Mapping[str, float]
    exponent: float

    @classmethod
    def of(cls, vocoder: Vocoder, sentences: list[VocoderInputs], settings: Activations) -> "Ready":
        """As a package of these settings measures them."""
        sizes = channel_sizes(vocoder, sentences)
        copy = equalized(vocoder, sizes, settings.exponent)
        caps = envelope_caps(copy, sentences, settings.columns) if settings.follow else {}
        return cls(sizes, caps, input_sizes(following(copy, caps), sentences, settings.percentile), settings.exponent)

    def vocoder(self, plain: Vocoder, chosen: frozenset[str]) -> Vocoder:
        """A copy in which the chosen convolutions are balanced, and follow time where they can."""
        sizes = {path: size for path, size in self.sizes.items() if path in chosen}
        return following(equalized(plain, sizes, self.exponent), {path: cap for path, cap in self.caps.items() if path in chosen})


@dataclass(frozen=True, eq=False)
class LayerTrials:
    """Responsibilities: 1. the vocoder, what int8 inputs need, the reference renders; 2. damage of a choice of levels; 3. who it is."""

    checkpoint: Checkpoint
    vocoder: Vocoder
    layers: tuple[Layer, ...]
    ready: Ready | None
    fits: Mapping[str, Fit]
    clips: tuple[VocoderInputs, ...]
    references: tuple[np.ndarray, ...]
    settings: Activations | None

    @classmethod
    def of(
        cls, checkpoint: Checkpoint, layers: tuple[Layer, ...], settings: Activations | None, clips: int, fit: bool = False
    ) -> "LayerTrials":
        """On sentences of the tuning set. With `settings` measure what int8 inputs need first; None: no input will be int8. `fit`: measure
        what fitted palettes need."""
        plain = Vocoder.of(checkpoint)
        sentences = list(calibration_inputs(checkpoint, plain, drawn(settings, clips)))
        ready = Ready.of(plain, sentences, settings) if settings else None
        chosen = longest(sentences, clips)
        references = tuple(render_reference(plain, clip) for clip in chosen)
        fits = fits_of(checkpoint, plain, [layer.name for layer in layers if can_be_fitted(layer)]) if fit else {}
        return cls(checkpoint, plain, layers, ready, fits, chosen, references, settings)

    def damage_db2(self, levels: Mapping[str, str]) -> float:
        """Mean damage over the clips with the named layers at their levels and all others in float."""
        schemes = {layer: SCHEMES[level] for layer, level in levels.items()}
        chosen = frozenset(layer for layer, scheme in schemes.items() if scheme.int8_input)
        vocoder = self.ready.vocoder(self.vocoder, chosen) if self.ready and chosen else self.vocoder
        with simulated(vocoder, schemes, self.ready.ranges if self.ready else {}, self.fits):
            renders = [render_reference(vocoder, clip) for clip in self.clips]
        return float(np.mean([damage_db2(*pair) for pair in zip(self.references, renders, strict=True)]))

    def seed_damage_db2(self) -> float:
        """The same for the vocoder unchanged with other noise: what a choice's damage is to be held against."""
        clips = len(self.clips)
        others = calibration_inputs(self.checkpoint, self.vocoder, drawn(self.settings, clips), first_seed=FIRST_SEED + OTHER_NOISE)
        renders = [render_reference(self.vocoder, clip) for clip in longest(list(others), clips)]
        return float(np.mean([damage_db2(*pair) for pair in zip(self.references, renders, strict=True)]))

    def header(self) -> dict[str, Any]:
        """What measurements must share to be continued."""
        return {
            "format": FORMAT,
            "checkpoint_sha256": self.checkpoint.content_sha256,
            "clips": len(self.clips),
            "frames": [clip.frames for clip in self.clips],
            "settings": _as_json(asdict(self.settings)) if self.settings else None,
        }

    def tasks(self, levels: tuple[str, ...]) -> list[tuple[str, str]]:
        """Every (layer, level) that changes anything."""
        return [(layer.name, level) for layer in self.layers for level in levels if changes(layer, level)]


def drawn(settings: Activations | None, clips: int) -> int:
    """How many sentences are looked at for the longest."""
    return max(settings.clips if settings else 0, clips + SKIPPED)


def longest(sentences: list[VocoderInputs], clips: int) -> tuple[VocoderInputs, ...]:
    """The first EXCERPT_FRAMES of the `clips` longest."""
    return tuple(excerpt(s, 0, min(EXCERPT_FRAMES, s.frames)) for s in sorted(sentences, key=lambda s: -s.frames)[:clips])


def _as_json(settings: dict[str, Any]) -> dict[str, Any]:
    """As a file gives them back: tuples are lists there."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def changes(layer: Layer, level: str) -> bool:
    """Whether a level can be given to a layer and does anything to it: some keep float inputs, small weights stay."""
    wanted = SCHEMES[level]
    if wanted.int8_input:
        return can_be_int8(layer)
    if is_fitted(wanted.weights) and not can_be_fitted(layer):
        return False
    return wanted.weights is not None and pays(layer, wanted.weights)


def measured(trials: LayerTrials, log: Path, levels: tuple[str, ...]) -> Iterator[Entry]:
    """Every measurement, those in `log` first; each new one is written before it is given."""
    known = read_log(log, trials.header())
    yield from known
    done = {(entry.layer, entry.level) for entry in known}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as stream:
        if not known and not stream.tell():
            print(json.dumps(trials.header()), file=stream, flush=True)
        for layer, level in trials.tasks(levels):
            if (layer, level) not in done:
                entry = Entry(layer, level, trials.damage_db2({layer: level}))
                print(json.dumps(asdict(entry)), file=stream, flush=True)
                yield entry


def read_log(log: Path, header: dict[str, Any]) -> list[Entry]:
    """Measurements of an earlier run; a last line that was cut off is dropped. InputError when they are of something else."""
    if not log.exists() or not log.stat().st_size:
        return []
    try:
        text = log.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{log} is not a file of measurements: give another --log") from None
    whole = text[: text.rfind("\n") + 1]
    lines = [parse_json(line, str(log), ": delete it or give another --log") for line in whole.splitlines()]
    if (lines and lines[0] != header) or (not lines and not json.dumps(header).startswith(text)):
        raise InputError(f"{log} holds measurements of another checkpoint or with other settings: delete it or give another --log")
    for line in lines[1:]:
        conform(line, Entry, str(log))
    if whole != text:  # ours, and cut off
        with log.open("r+b") as stream:
            stream.truncate(len(whole.encode()))
    return [Entry(**line) for line in lines[1:]]
