"""What a package is asked in the second opinion: real sentences of its own checkpoint, with mlprogram's answers to them.

    subjects = subjects_of(Manifest.load(path), checkpoint, Asked(sentences=2, frames=(20,), precision="declared"))
    subjects[0].cases[0].given["features"], subjects[0].cases[0].ours["waveform"]

The chain that a user would run makes the inputs, and a recorder in the place of the package keeps them. Sentences are of the tuning set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.checkpoint import Checkpoint
from core.contract import ENCODER_NAME, TUNING, VOCODER_NAME, bucket_for
from core.corpus import frozen_sentences, speech_lines
from core.errors import InputError
from core.manifest import Manifest
from core.voices import style_row
from encoder.alignment import AlignmentLimits
from encoder.functions import Buckets, package_functions
from encoder.steps import EncoderBackend, encode
from encoder.vocab import input_ids
from g2p.alphabet import PADDING
from g2p.alphabet import encode as letters
from g2p.package import package_run
from mlprogram import Program
from mlprogram.dtypes import BY_NAME
from quantize.features import excerpt, text_encoder, vocoder_inputs
from quantize.speech import dialect_phonemes, own_speech, speakers
from vocoder.decoder import Vocoder
from vocoder.package import VocoderPackage, render_reference

AFTER_FRAMES = 20  # an excerpt begins half a second into the sentence


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs by name in the program's own types, and what mlprogram answered.

    `reference`: the fp32 render [600 F], of a vocoder; `join`: the package's waveform to samples of the same length.
    """

    given: Mapping[str, np.ndarray]
    ours: Mapping[str, np.ndarray]
    reference: np.ndarray | None = None
    join: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """A function of a package, and what it is asked."""

    package: Path
    function: str
    program: Program
    cases: list[Case] = field(default_factory=list)

    @property
    def wide(self) -> bool:
        """Whether fp16 is computed in fp32."""
        return self.program.precision.wide is not None

    @property
    def open_axes(self) -> dict[str, list[int]]:
        """Axes whose length the package leaves to the caller, by input."""
        found = {name: [i for i, sizes in enumerate(zip(*spec.shapes, strict=True)) if len(set(sizes)) > 1] for name, spec in self._inputs}
        return {name: axes for name, axes in found.items() if axes}

    @property
    def _inputs(self) -> list[tuple[str, Any]]:
        return [(name, spec) for name, spec in self.program.inputs.items() if spec.shapes]


@dataclass(frozen=True)
class Asked:
    """How much is compared: sentences, frames of a vocoder's excerpts of each, the precision of mlprogram."""

    sentences: int
    frames: tuple[int, ...]
    precision: str


class Recorder:
    """Stands where a Program stands, and keeps every call in `subject.cases`."""

    def __init__(self, package: Path, function: str, precision: str) -> None:
        self.subject = Subject(package, function, Program(package, function, precision))
        self.inputs = self.subject.program.inputs

    def __call__(self, given: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """See Program."""
        typed = {name: np.ascontiguousarray(np.asarray(value), BY_NAME[self.inputs[name].dtype].numpy) for name, value in given.items()}
        answer = self.subject.program(typed)
        self.subject.cases.append(Case(typed, {name: value.numpy() for name, value in answer.items()}))
        return answer


def subjects_of(manifest: Manifest, checkpoint: Checkpoint | None, asked: Asked) -> list[Subject]:
    """Every function of the package with its cases. `checkpoint`: whose voice it is; the G2P needs none."""
    if checkpoint is None:
        return _reader(manifest, asked)
    if manifest.stage == VOCODER_NAME:
        return _vocoder(manifest, checkpoint, asked)
    if manifest.stage.startswith(ENCODER_NAME):
        return _encoder(manifest, checkpoint, asked)
    raise InputError(f"{manifest.path} describes {manifest.stage!r}: a vocoder, an encoder or a G2P package is needed")


def _vocoder(manifest: Manifest, checkpoint: Checkpoint, asked: Asked) -> list[Subject]:
    """Excerpts of so many sentences, each in the smallest bucket that holds it."""
    opened = VocoderPackage(manifest.path, opened=lambda path: Recorder(path, "main", asked.precision))
    said = [utterance for utterance in own_speech(checkpoint, TUNING) if utterance.frames >= AFTER_FRAMES + max(asked.frames)]
    vocoder, encoder, cases = Vocoder.of(checkpoint), text_encoder(checkpoint), []
    subject = opened.program.subject
    for utterance, frames in product(said[: asked.sentences], asked.frames):
        inputs = excerpt(vocoder_inputs(checkpoint, vocoder, encoder, utterance, seed=0), AFTER_FRAMES, frames)
        opened.render(inputs)
        plain, join = subject.cases[-1], partial(_joined, opened.form, frames, bucket_for(frames, opened.buckets))
        cases.append(Case(plain.given, plain.ours, render_reference(vocoder, inputs), join))
    subject.cases[:] = cases
    return [subject]


def _joined(form: Any, frames: int, bucket: int, waveform: np.ndarray) -> np.ndarray:
    return form.join(torch.from_numpy(waveform).float(), frames, bucket).numpy()


def _encoder(manifest: Manifest, checkpoint: Checkpoint, asked: Asked) -> list[Subject]:
    """The shortest lines, each by both functions."""
    recorders = {name: Recorder(manifest.package_path, inside, asked.precision) for name, inside in manifest.functions.items()}
    limits, buckets = AlignmentLimits(**manifest.alignment), Buckets(manifest.token_buckets, manifest.buckets)
    backend = EncoderBackend(package_functions(recorders), limits, buckets)
    voice = speakers(checkpoint, TUNING)[0]
    shortest = sorted((dialect_phonemes(line, voice) for line in speech_lines(TUNING)), key=len)[: asked.sentences]
    for phonemes in shortest:
        style = style_row(checkpoint.blend(voice), len(phonemes))[:, checkpoint.config.style_dim :]
        encode(backend, input_ids(phonemes, checkpoint.config.vocab), style, 1.0)
    return [recorder.subject for recorder in recorders.values()]


def _reader(manifest: Manifest, asked: Asked) -> list[Subject]:
    """The words of so many sentences, each alone."""
    recorder = Recorder(manifest.package_path, "main", asked.precision)
    run = package_run(recorder)  # type: ignore[arg-type]  # as a Program
    words = [word for text in frozen_sentences("unseen")[: asked.sentences] for word in text.split() if word.isascii() and word.isalpha()]
    ids = [letters(word) for word in words]
    batch = np.full((len(ids), max(map(len, ids))), PADDING, np.int32)
    for row, own in zip(batch, ids, strict=True):
        row[: len(own)] = own
    run(batch)
    return [recorder.subject]
