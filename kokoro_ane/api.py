"""The commands as calls: the same options, defaults and checks; errors as exceptions.

    samples, rate_hz = speak("The ferry crossed the harbour.", voice="af_heart")
    manifests = build("vocoder", checkpoint="kokoro-int8")
    judge("w8a8", checkpoint="kokoro-int8").figures["pesq"]["mean"]

Each fills the frozen options of its command, which name every further argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kokoro_ane.core.commands import BuildOptions, QuantizeOptions
from kokoro_ane.core.contract import SAMPLE_RATE_HZ

if TYPE_CHECKING:
    import numpy as np

    from kokoro_ane.core.manifest import Manifest
    from kokoro_ane.eval.decision import Choice
    from kokoro_ane.pipeline.bundle import Bundle


@dataclass(frozen=True)
class Judged:
    """A level's verdict and what it rests on.

    verdict: SHIP, REJECT or UNDECIDED. reasons: in words. broken: names of the gates that reject
    it. figures: metric -> statistic -> value over all clips, in the units of docs/metrics.md, None
    where a metric says nothing. package_bytes: on disk. file: every clip's figures.
    """

    verdict: str
    reasons: tuple[str, ...]
    broken: tuple[str, ...]
    figures: Mapping[str, Mapping[str, float | None]]
    package_bytes: int
    file: Path


def _with_paths(options: dict[str, Any]) -> dict[str, Any]:
    """Files and folders may be named by strings."""
    places = ("build", "file", "lexicon", "out", "recipe", "timestamps", "verify", "weights")
    return {
        name: Path(value) if name in places and isinstance(value, str) else value
        for name, value in options.items()
    }


def speak(text: str, voice: str | None = None, **options: Any) -> "tuple[np.ndarray, int]":
    """Samples [n] float32 of the whole text, pauses included, and their rate in Hz.

    options: of pipeline.speak.SpeakOptions: runtime, method, speed, seed, loudness ... The model
    stays open for the next call that asks for the same.

    Raises InputError: nothing to say, an unknown voice, runtime or level, a package that is not
    built.
    """
    from kokoro_ane.pipeline import speak as command

    spoken = command.speak(command.SpeakOptions(text, voice, **_with_paths(options)))
    return spoken.samples, SAMPLE_RATE_HZ


def build(stage: str, **options: Any) -> "tuple[Manifest, ...]":
    """Write the packages of "g2p", "encoder" or "vocoder" into `out`; each was executed and
    compared with PyTorch before it got its name.

    options: of core.commands.BuildOptions: checkpoint, layout, precision, buckets, out ...

    Raises InputError: an unknown name, a checkpoint or folder that cannot be used; CheckFailed: a
    package missed a limit, nothing was kept.
    """
    from kokoro_ane.pipeline import package_builds

    return package_builds.build(BuildOptions(stage, **_with_paths(options)))


def quantize(method: str, **options: Any) -> "tuple[Manifest, ...]":
    """Compress the uncompressed package in `build`: the level's manifests.

    options: of core.commands.QuantizeOptions: stage, layout, checkpoint, build ...

    Raises InputError and CheckFailed as `build`.
    """
    from kokoro_ane.pipeline import package_builds

    pairs = package_builds.quantize(QuantizeOptions(method, **_with_paths(options)))
    return tuple(manifest for _, manifest in pairs)


def judge(method: str, **options: Any) -> Judged:
    """Verdict over one level of the vocoder ("fp16", "w8", "p6", "w8a8", "mixed" ...), executed and
    heard against the fp32 model, sentence by sentence.

    A package that is missing in `build` is built first. options: of eval.quality.QualityOptions:
    checkpoint, layout, runtime, clips (fewer than 24 end UNDECIDED), workers (with more than one
    the caller's script needs `if __name__ == "__main__"`) ... Clips measured before are read from
    `build`/release/cache.

    Raises InputError: an unknown level, layout or runtime, packages of another checkpoint;
    CheckFailed: a package that cannot be built.
    """
    from kokoro_ane.eval.quality import QualityOptions, judge_level

    level, file = judge_level(QualityOptions(method=method, **_with_paths(options)))
    reasons, broken = tuple(level["reasons"]), tuple(level["broken"])
    return Judged(level["verdict"], reasons, broken, level["summary"], level["bytes"], file)


def release(**options: Any) -> "Choice":
    """Judge every level on the same clips and name the one to release.

    options: of eval.release.ReleaseOptions: checkpoint, layout, methods, product ... All figures
    are in `build`/release/decision.json.

    Raises InputError and CheckFailed as `judge`.
    """
    from kokoro_ane.eval import release as command

    return command.release(command.ReleaseOptions(**_with_paths(options)))[0]


def bundle(**options: Any) -> "Bundle":
    """Write one folder for an app and verify it; what is missing is built first.

    options: of pipeline.bundle.BundleOptions: method, product, layout, checkpoint, build, out ...

    Raises InputError: parts of several checkpoints, or other ones than were judged; CheckFailed: a
    level that was rejected.
    """
    from kokoro_ane.pipeline import bundle as command

    return command.bundle(command.BundleOptions(**_with_paths(options)))
