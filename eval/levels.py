"""One compression level for the release table: its package found or built, judged, and described.

    level = judged_level(METHODS["w8"], workshop)
    level.verdict, level.bytes, level.record["summary"]

Packages are built by the same commands a user types. A level that cannot be built stays in the table with the reason.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from core.checkpoint import Checkpoint
from core.corpus import Utterance
from core.manifest import Manifest
from eval.corpus import Truth
from eval.forecast import forecast_bands
from eval.judge import ClipResult, decided, judge_clip
from eval.record import full_record
from eval.store import Store
from eval.verdict import UNDECIDED
from quantize.methods import Method
from quantize.packages import find_package, manifest_path
from vocoder.package import VocoderPackage
from vocoder.packing import VocoderInputs

FORECAST_FRAMES = 80  # two seconds: the shape the latency bands are given for, where the package has it


@dataclass(frozen=True)
class Workshop:
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
class Level:
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


def judged_level(method: Method, shop: Workshop) -> Level:
    """Find or build the package, judge its clips (those measured before are read), forecast its latency.

    A package of another checkpoint, or one that differs from its manifest, is an InputError: it is never built over.
    """
    failed = None if _is_there(method, shop) else _build(method, shop)
    if failed:
        for _ in shop.clips:
            shop.tick()
        return Level(method.name, method.title, method.unfit_for_engine, failed=failed)
    manifest = find_package(shop.build, shop.checkpoint, method)
    package = LazyPackage(manifest, shop.precision)
    judgement = decided(method.name, [_clip(package, clip, shop) for clip in shop.clips], shop.claim)
    record = full_record(judgement, manifest, shop.truth.seed, shop.precision)
    forecast = shop.store.figures(f"forecast-{manifest.package_sha256[:16]}", lambda: _forecast(manifest))
    return Level(method.name, method.title, method.unfit_for_engine, manifest=manifest, record=record, forecast=forecast)


def _is_there(method: Method, shop: Workshop) -> bool:
    return manifest_path(shop.build, shop.checkpoint, method).is_file()


def _build(method: Method, shop: Workshop) -> str | None:
    """Run the command that builds the package; why it failed, or None."""
    if not shop.may_build:
        return f"not built; `{method.command}` builds it"
    if method.parent:
        command = ["quantize.apply", "--method", method.name, "--build", str(shop.build)]
    else:
        command = ["vocoder.convert", "--out", str(shop.build)]
    command += ["--checkpoint", shop.source] if shop.source else []
    print(f"{method.name}: python -m {' '.join(command)}", file=sys.stderr)
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit {done.returncode}"]
    return f"not built: {said[-1]}" if done.returncode else None


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


def _clip(package: LazyPackage, clip: Utterance, shop: Workshop) -> ClipResult:
    """Figures of one clip, measured at most once."""
    floor = shop.store.figures(f"floor/{clip.id}", lambda: shop.truth.of(clip).floor())
    sha256 = package.manifest.package_sha256
    found = shop.store.result(sha256, package.precision, clip, lambda: judge_clip(shop.truth, package, clip, floor))
    shop.tick()
    return found


def _forecast(manifest: Manifest) -> dict[str, dict[str, float]]:
    frames = min(manifest.buckets, key=lambda bucket: abs(bucket - FORECAST_FRAMES))
    return {chip: {"low_ms": b.low_ms, "high_ms": b.high_ms} for chip, b in forecast_bands(manifest.package_path, frames).items()}
