"""How a clip is executed and measured: by which arithmetic, on which features.

    # the whole chain of packages; without manifests: features in PyTorch fp32
    execution = Execution("declared", encoder_manifests)
    result, seconds = ClipBench(reference).measure_clip(clip, manifest_path, execution, longest)

The reference is always the fp32 chain. Noise is the same on both sides, durations must be.
eval/workers.py does this in several processes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core import FRAMES_PER_SECOND, InputError, Manifest, release_memory
from kokoro_ane.eval.comparisons import COMPARISONS, Comparison, Natural
from kokoro_ane.eval.natural import MEASURED
from kokoro_ane.eval.reference import Reference
from kokoro_ane.eval.renditions import (
    ClipReader,
    EncoderSubject,
    ProductSubject,
    Subject,
    VocoderSubject,
    speak_within,
)
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, VOCODER
from kokoro_ane.runtimes import DEFAULT_RUNTIME, RUNTIMES, module_of
from kokoro_ane.speech import Clip, SpokenLine, Utterance, settle

DECLARED = "declared"


@dataclass(frozen=True)
class Execution:
    """What is executed, and as what it is judged.

    precision: of the executed packages, or another runtime's name and version. encoder: the
    manifests of the encoder where one is executed (one, or the two of an iOS 17 build). stage: what
    is judged. level: of the file that PyTorch computes, where no package is executed.
    """

    precision: str
    encoder: tuple[Path, ...] = ()
    stage: str = VOCODER
    level: str = ""

    @cached_property
    def name(self) -> str:
        """The name that figures are stored under. Raises InputError for a manifest that cannot be
        read.
        """
        hashes = [Manifest.load(path).package_sha256[:16] for path in self.encoder]
        return "-".join([self.precision, *hashes, *([self.stage] if self.stage != VOCODER else [])])

    @property
    def features(self) -> str:
        """Who computes the features, in words."""
        return ", ".join(path.stem for path in self.encoder) or "PyTorch fp32"


def name_arithmetic(runtime: str, precision: str) -> str:
    """`precision` of the executed packages; of another runtime its name and its version.

    Raises InputError for a runtime that has no such precision.
    """
    if runtime == DEFAULT_RUNTIME:
        return precision
    if precision != DECLARED:
        raise InputError(
            f"--precision {precision} is of the executed packages: {RUNTIMES[runtime].title} has"
            " its own arithmetic"
        )
    needs = RUNTIMES[runtime].needs[-1]
    distribution = packages_distributions().get(needs, [needs])[0]  # apache-tvm holds tvm
    return f"{runtime}-{version(distribution)}"


def open_executable(manifest: Path, precision: str) -> Any:
    """Open the vocoder that `manifest` describes, by that arithmetic."""
    runtime = precision.partition("-")[0]
    if runtime in RUNTIMES:
        return module_of(runtime).open_vocoder(manifest)
    return module_of(DEFAULT_RUNTIME).open_vocoder(manifest, precision)


@dataclass(frozen=True)
class ClipResult:
    """Figures of one clip: the subject's, and the natural variation of the fp32 model. `defect`:
    why the subject gave no audio, or no prosody. `origin`: where the variation is from
    (eval/natural.py).
    """

    id: str
    voice: str
    seconds: float
    text: str
    figures: dict[str, float]
    variation: dict[str, float]
    defect: str | None = None
    origin: str = MEASURED


def judge_clip(
    comparison: Comparison,
    subject: Subject,
    clip: Utterance,
    variation: dict[str, float] | None = None,
) -> ClipResult:
    """Measure one clip. Broken output of the subject is a result; a broken reference is an
    InputError. `variation`: where the caller has it already.
    """
    rendition = subject.render(clip)
    defect = rendition.defect
    figures = dict[str, float]()
    if defect is None:
        figures = comparison.measure_rendition(clip, rendition)
        if not np.isfinite(list(figures.values())).all():
            defect = "holds NaN or infinity"
            figures = {}
    seconds = clip.frames / FRAMES_PER_SECOND
    natural = Natural(variation) if variation else comparison.get_natural(clip)
    return ClipResult(
        clip.id, clip.voice, seconds, clip.text, figures, natural[0], defect, natural[1]
    )


class ClipBench:
    """The fp32 reference and what is judged, open; measures one clip at a time."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self._open: dict[tuple[Path, Execution], tuple[Comparison, Subject]] = {}

    def open_subject(self, manifest: Path, execution: Execution) -> Subject:
        """The packages, open. `manifest`: the vocoder's, or the encoder's where it is judged, or a
        level's file.
        """
        # late: the executed package of a vocoder needs none of what is imported below
        reader = None
        if execution.level:
            from kokoro_ane.encoder import make_torch_backend
            from kokoro_ane.quantize import LevelFile

            checkpoint = self.reference.checkpoint
            stage = execution.stage
            level = LevelFile.open(execution.level, checkpoint, manifest.parent, stage)
            if stage == ENCODER:
                backend = make_torch_backend(level.network, checkpoint.config)
                return EncoderSubject(ClipReader(self.reference, backend))
            return VocoderSubject(self.reference, level.render)
        if execution.encoder:
            from kokoro_ane.encoder import EncoderPackage

            package = EncoderPackage(execution.encoder, execution.precision)
            reader = ClipReader(self.reference, package.backend)
            if execution.stage == ENCODER:
                return EncoderSubject(reader)
        vocoder = open_executable(manifest, execution.precision)
        if reader and execution.stage == PRODUCT:
            return ProductSubject(reader, vocoder.render, vocoder.predictor)
        return VocoderSubject(self.reference, vocoder.render, reader, vocoder.predictor)

    def measure_clip(
        self, clip: Clip, manifest: Path, execution: Execution, longest: int
    ) -> tuple[ClipResult, float]:
        """Measure one clip; the seconds that it took, without the opening of models. Packages stay
        open until others are judged. longest: frames that they take, for a line of a corpus.
        """
        # Packages of another level are closed first: fourteen open ones took 6 GB.
        key = manifest, execution
        if key not in self._open:
            comparison = COMPARISONS[execution.stage](self.reference)
            self._open = {}
            release_memory()
            self._open = {key: (comparison, self.open_subject(manifest, execution))}
        start = time.monotonic()
        if isinstance(clip, SpokenLine):
            # nothing of a line is kept: ten thousand would fill the memory
            utterance = speak_within(clip, execution.stage, longest, self.reference)
            result = replace(judge_clip(*self._open[key], utterance), id=clip.id)
            self.reference.forget(utterance)
        else:
            result = judge_clip(*self._open[key], clip)
        return result, time.monotonic() - start

    def settle(self, voices: Sequence[str]) -> None:
        """Measure what these voices add to predicted statistics, and keep it."""
        checkpoint = self.reference.checkpoint
        settle(checkpoint, {voice: checkpoint.library.blend(voice) for voice in voices})

    def measure_natural(self, task: tuple[str, Utterance], only: Sequence[str] = ()) -> Natural:
        """Measure the natural variation of a stage and a clip by every neighbour, which is written
        where the reference's variations say, or some metrics of it, which are not.
        """
        stage, clip = task
        natural = COMPARISONS[stage](self.reference, only, thorough=True).get_natural(clip)
        self.reference.forget(clip)
        return natural
