"""What the commands `build` and `quality` do, as calls: the same defaults, the same checks, errors
as exceptions.

    manifests = build("vocoder", checkpoint="kokoro-int8", layout="streaming")
    judged = judge("w8a8", checkpoint="kokoro-int8")
    judged.verdict, judged.figures["pesq"]["mean"]
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core.contract import PADDED

if TYPE_CHECKING:
    from kokoro_ane.core.manifest import Manifest

STAGES = ("g2p", "encoder", "vocoder")


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


def build(
    stage: str,
    *,
    checkpoint: str | None = None,
    layout: str = PADDED,
    precision: str = "fp16",
    buckets: tuple[int, ...] | None = None,
    out: Path | str = Path("build"),
) -> "tuple[Manifest, ...]":
    """Write the packages of "g2p", "encoder" or "vocoder" into `out`; each was executed and
    compared with PyTorch before it got its name.

    checkpoint: a folder, "kokoro-int8", "hexgrad/Kokoro-82M", or None for the first that
    can be had. layout: of the vocoder. precision: "fp16" or "fp32". buckets: enumerated lengths in
    frames, 40 a second, rising; None for the command's own. `checkpoint`, `precision` and `buckets`
    do not matter to the G2P.

    Raises InputError: an unknown name, a checkpoint or folder that cannot be used; CheckFailed: a
    package missed a limit, nothing was kept.
    """
    from kokoro_ane.core.builder import build as built
    from kokoro_ane.core.errors import InputError
    from kokoro_ane.pipeline.build import parse_arguments, stage_of

    if stage not in STAGES:
        raise InputError(f"there is no stage {stage!r}: give one of {', '.join(STAGES)}")
    if precision not in ("fp16", "fp32"):
        raise InputError(f"precision {precision!r}: give fp16 or fp32")
    arguments = parse_arguments([stage])
    if stage != "g2p":
        arguments.checkpoint, arguments.precision = checkpoint, precision
        arguments.buckets = arguments.buckets if buckets is None else buckets
    if stage == "vocoder":
        arguments.layout = layout
    return built(stage_of(arguments), Path(out))


def judge(
    method: str,
    *,
    checkpoint: str | None = None,
    layout: str = PADDED,
    runtime: str = "mlprogram",
    build: Path | str = Path("build"),
    clips: int | None = None,
    seed: int = 0,
    workers: int = 1,
) -> Judged:
    """Verdict over one level ("fp16", "w8", "p6", "w8a8", "mixed" ...), executed and heard against
    the fp32 model, sentence by sentence.

    A package that is missing in `build` is built first. clips: how many of the 24 sentences; fewer
    than 24 end UNDECIDED. workers: processes; with more than one the caller's script needs `if
    __name__ == "__main__"`. Clips measured before are read from `build`/release/cache.

    Raises InputError: an unknown level, layout or runtime, packages of another checkpoint;
    CheckFailed: a package that cannot be built.
    """
    from kokoro_ane.core.errors import InputError
    from kokoro_ane.eval.quality import judged, parse_arguments
    from kokoro_ane.quantize.methods import LEVELS

    if method not in LEVELS:
        raise InputError(f"there is no level {method!r}: give one of {', '.join(LEVELS)}")
    arguments = parse_arguments(["--method", method])
    arguments.checkpoint, arguments.layout, arguments.runtime = checkpoint, layout, runtime
    arguments.build, arguments.clips, arguments.seed, arguments.workers = (
        Path(build),
        clips,
        seed,
        workers,
    )
    level, file = judged(arguments)
    record = level.record
    return Judged(
        level.verdict,
        tuple(record["reasons"]),
        tuple(record["broken"]),
        record["summary"],
        level.bytes,
        file,
    )
