"""One compression level for the release table: its package found or built, judged, and described.

    level = judged_level(METHODS["w8"], "windowed", context)
    level.verdict, level.bytes, level.record["summary"]

Packages are built by the same commands a user types. A level that cannot be built stays in the table with the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from core.checkpoint import Checkpoint
from core.corpus import Utterance
from core.errors import CheckFailed, InputError
from core.manifest import Manifest, level_name
from eval.corpus import Truth
from eval.forecast import forecast_bands
from eval.judge import ClipResult, decided, judge_clip
from eval.packages import built_package, missing
from eval.record import full_record
from eval.store import Store
from eval.verdict import UNDECIDED
from quantize.methods import Method
from quantize.packages import find_package
from vocoder.package import VocoderPackage
from vocoder.packing import VocoderInputs

FORECAST_FRAMES = 80  # two seconds: the shape the latency bands are given for, where the package has it


@dataclass(frozen=True)
class JudgeContext:
    """Everything a level needs: where packages are, the fp32 truth, the clips, what was measured before."""

    checkpoint: Checkpoint
    source: str | None  # --checkpoint as given, for the build commands
    build: Path
    truth: Truth
    store: Store
    clips: tuple[Utterance, ...]
    precision: str
    claim: str
    may_build: bool
    tick: Callable[[], None]


@dataclass(frozen=True)
class JudgedLevel:
    """A row of the release table. `failed`: why there is no package; then nothing else is known."""

    method: str
    title: str
    unfit: str | None = None
    failed: str | None = None
    manifest: Manifest | None = None
    record: dict[str, Any] = field(default_factory=dict)
    forecast: dict[str, dict[str, float]] = field(default_factory=dict)  # by chip: low_ms, high_ms per second of audio

    @property
    def verdict(self) -> str:
        """SHIP, REJECT or UNDECIDED; a level without a package is undecided."""
        return self.record.get("verdict", UNDECIDED)

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return self.manifest.package_bytes if self.manifest else 0

    @property
    def int8_macs_share(self) -> float | None:
        """Share of multiply-accumulates that run in int8, where the manifest says it."""
        return self.manifest.compression.get("int8_macs_share") if self.manifest else None


def judged_level(method: Method, form: str, context: JudgeContext) -> JudgedLevel:
    """Find or build the package, judge its clips (those measured before are read), forecast its latency.

    A package of another checkpoint, or one that differs from its manifest, is an InputError: it is never built over.
    """
    name = level_name(method.name, form)
    failed = _failure(method, form, context)
    if failed:
        for _ in context.clips:
            context.tick()
        return JudgedLevel(name, method.title, method.unfit_for_engine, failed=failed)
    manifest = find_package(context.build, context.checkpoint, method, form)
    package = LazyPackage(manifest, context.precision)
    judgement = decided(method.name, [_clip(package, clip, context) for clip in context.clips], context.claim)
    record = full_record(judgement, manifest, context.truth.seed, context.precision)
    forecast = context.store.figures(f"forecast-{manifest.package_sha256[:16]}", lambda: _forecast(manifest))
    return JudgedLevel(name, method.title, method.unfit_for_engine, manifest=manifest, record=record, forecast=forecast)


def _failure(method: Method, form: str, context: JudgeContext) -> str | None:
    """Why there is no package, or None."""
    told = missing(method, form, context.checkpoint, context.build)
    if told is None or not context.may_build:
        return told
    try:
        built_package(method, form, context.checkpoint, context.source, context.build)
    except (InputError, CheckFailed) as problem:
        return f"not built: {problem}"
    return None


@dataclass(frozen=True)
class LazyPackage:
    """A package that is opened when its first clip is rendered: a level measured before opens none."""

    manifest: Manifest
    precision: str

    @cached_property
    def _package(self) -> VocoderPackage:
        return VocoderPackage(self.manifest.path, self.precision)

    def render(self, inputs: VocoderInputs) -> np.ndarray:
        """[600 F] float32."""
        return self._package.render(inputs)


def _clip(package: LazyPackage, clip: Utterance, context: JudgeContext) -> ClipResult:
    """Figures of one clip, measured at most once."""
    seed_floor = context.store.figures(f"seed_floor/{clip.id}", lambda: context.truth.of(clip).seed_floor())
    sha256 = package.manifest.package_sha256
    found = context.store.result(sha256, package.precision, clip, lambda: judge_clip(context.truth, package, clip, seed_floor))
    context.tick()
    return found


def _forecast(manifest: Manifest) -> dict[str, dict[str, float]]:
    frames = min(manifest.buckets, key=lambda bucket: abs(bucket - FORECAST_FRAMES))
    return {chip: {"low_ms": b.low_ms, "high_ms": b.high_ms} for chip, b in forecast_bands(manifest.package_path, frames).items()}
