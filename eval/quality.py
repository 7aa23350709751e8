"""Decide whether a compression level is good enough to release: the executed package against the
fp32 model, sentence by sentence.

    python eval/quality.py --method w8 [--checkpoint FOLDER] [--clips 6] \
        [--precision ane_numerics] [--layout padded] [--features package]
    # durations, F0, energy, text features: docs/models.md
    python eval/quality.py --method w8g --stage encoder
    # the whole chain, from text to sound: docs/metrics.md
    python eval/quality.py --method p6+w8g --stage product
    # what ONNX Runtime makes of its own file, by the same gates
    python eval/quality.py --method fp32 --runtime onnx
    # your own sentences, up to 10,000, with the figures by voice and by length
    python eval/quality.py --method w8 --corpus lines.tsv
    # a level of vocoder or encoder before it is converted, in PyTorch
    python eval/quality.py --method w8a8 --runtime torch

A package or a level's file that is missing is made first; for another runtime's file the command is
named. Clips that were measured before are read from BUILD/release/cache, and an interrupted run
goes on where it stopped. Exit 0: SHIP, of any checkpoint (`release` and `bundle` say whether it may
be released). Exit 1: REJECT. Exit 2: bad input. Exit 3: UNDECIDED. A pipe's last
line is one JSON object; every clip's figures are in build/quality/NAME.json. docs/metrics.md says
what is measured and why.
"""

# run as a file: put the repository root, not eval/, first on sys.path
if __package__ in (None, ""):
    import pathlib
    import sys

    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kokoro_ane.core import (
    CORPUS,
    PADDED,
    REQUIRED,
    STREAMED,
    InputError,
    command,
    conclude,
    exit_of,
    option,
    parse,
    require_installed,
)
from kokoro_ane.eval.session import PYTORCH, SessionOptions, open_session
from kokoro_ane.eval.subjects import ENCODER, PRODUCT, STAGES, VOCODER
from kokoro_ane.quantize import CONVERTED, LEVELS, STAGE_METHODS, find_method
from kokoro_ane.runtimes import (
    DEFAULT_RUNTIME,
    RUNTIMES,
    check_runtime,
    judged_manifest,
    require_writable,
)

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint
    from kokoro_ane.eval.levels import LevelRecord
    from kokoro_ane.eval.session import JudgeContext

# flags that are the vocoder's alone, each with what it is elsewhere
OF_THE_VOCODER = {
    "layout": "",
    "runtime": DEFAULT_RUNTIME,
    "features": PYTORCH,
    "precision": "declared",
}


@dataclass(frozen=True, kw_only=True)
class QualityOptions(SessionOptions):
    """What is judged: a level of a stage, rendered by a runtime."""

    method: str = option(
        f"level to judge: {', '.join(dict.fromkeys((*LEVELS, *STAGE_METHODS['encoder'])))}; of a"
        " product VOCODER+ENCODER, such as p6+w8g",
        REQUIRED,
    )
    stage: str = option("vocoder, encoder or product", VOCODER, choices=STAGES, metavar="STAGE")
    runtime: str = option(f"who renders it: {', '.join(RUNTIMES)}", DEFAULT_RUNTIME)
    corpus: Path | None = option(
        "your own lines instead of a set, all of them measured: TSV with the columns voice, speed,"
        " text",
        metavar="FILE",
    )
    out: Path | None = option("the figures (default: BUILD/quality/NAME.json)", metavar="FILE")


def check_level(options: QualityOptions) -> None:
    """Raise InputError for a level that the stage does not have, or a flag that is the vocoder's
    alone.
    """
    stage = options.stage
    name = options.method
    # A product is written VOCODER+ENCODER; `plus` is empty for a level alone.
    vocoder, plus, encoder = name.partition("+")
    if stage == VOCODER:
        if name not in LEVELS:
            other = ENCODER if name in STAGE_METHODS[ENCODER] else PRODUCT if plus else ""
            hint = f"is of the {other}: give --stage {other}" if other else "is no level"
            raise InputError(f"--method {name} {hint}; there are: {', '.join(LEVELS)}")
        return
    for flag, default in OF_THE_VOCODER.items():
        value = getattr(options, flag)
        # An encoder's level can be judged in PyTorch too, before it is converted.
        if value != default and (stage, value) != (ENCODER, "torch"):
            raise InputError(f"--{flag} belongs to the vocoder's levels")
    if stage == PRODUCT and not (vocoder and encoder):
        raise InputError(f"--method {name}: a product is VOCODER+ENCODER, such as p6+w8g")
    find_method(encoder if plus else name, ENCODER)


def prepare_level(
    options: QualityOptions, checkpoint: "Checkpoint"
) -> "tuple[str, Callable[[JudgeContext], LevelRecord]]":
    """Return the stem of the file of figures, and the function that judges the level. One of the
    two builds the packages.
    """
    from kokoro_ane.eval.levels import (
        judge_encoder,
        judge_file,
        judge_package,
        judge_product,
    )
    from kokoro_ane.pipeline import build_package
    from kokoro_ane.quantize import (
        HALF,
        PackageRequest,
        default_layout,
        ensure_encoder,
        ensure_vocoder,
        parse_level,
    )

    name = options.method
    stage = options.stage
    request = PackageRequest(
        checkpoint, options.build, name, options.layout, source=options.checkpoint
    )
    # a level's file, from which packages of every layout are converted
    if (options.runtime, options.layout) == ("torch", "") and name not in CONVERTED:
        return f"{stage}-{name}-torch", partial(judge_file, name, stage)
    if stage == ENCODER:
        return f"encoder-{name}", partial(judge_encoder, name)
    if stage == PRODUCT:
        vocoder, _, encoder = name.partition("+")
        method, layout = parse_level(vocoder, default_layout(checkpoint))
        request = replace(request, method=method.name, layout=layout)
        ensure_vocoder(request, build_package)
        ensure_encoder(replace(request, method=HALF, encoder=encoder), build_package)
        return f"product-{name}", partial(judge_product, request.level, encoder)
    method, manifest = judged_manifest(options.runtime, request, build_package)
    stem = manifest.path.stem
    flags = (options.precision, options.features, options.runtime)
    # Flags that say nothing beyond the package's name stay out of the file's.
    plain = (*OF_THE_VOCODER.values(), *stem.split("-"))
    return (
        "-".join((stem, *(flag for flag in flags if flag not in plain))),
        partial(judge_package, method, manifest),
    )


def has_predicted_statistics(options: QualityOptions, checkpoint: "Checkpoint") -> bool:
    """Whether executed packages are judged whose voices have to be settled."""
    from kokoro_ane.vocoder import find_predictor_file

    return (
        options.stage != ENCODER
        and options.runtime == DEFAULT_RUNTIME
        and options.layout in ("", *STREAMED)
        and not options.method.startswith(PADDED)
        and find_predictor_file(checkpoint) is not None
    )


def judge_level(options: QualityOptions) -> "tuple[LevelRecord, Path]":
    """The level that the options name, built where it is missing, and the file that holds every
    clip's figures.

    Raises InputError: an unknown level, layout or runtime, packages of another checkpoint;
    CheckFailed: a package that cannot be built.
    """
    from kokoro_ane.core import check_implied, check_output, json_of, open_checkpoint

    check_level(options)
    if options.corpus:
        if options.set:
            raise InputError(f"--set {options.set} and --corpus exclude each other")
        # A corpus is measured whole: its figures by group are what was asked for.
        options = replace(options, all_clips=True)
    require_installed("the judge", "judge")
    check_runtime(options.runtime)
    require_writable(options.runtime)
    ours = json_of("clips", "provenance")
    folder = options.build / "quality"
    out = options.out
    # The user's own file is looked at before minutes of work, not after.
    if out:
        out = check_output(out, ours, (".json",), options)
    check_implied(folder / "x.json")
    checkpoint = open_checkpoint(options.checkpoint, thorough=True)
    from kokoro_ane.core import quiet_coremltools, write_json

    with quiet_coremltools():  # after the cheap checks: this takes seconds
        from kokoro_ane.eval import levels  # noqa: F401
    cache = options.build / "release" / "cache"
    with open_session(options, checkpoint, cache, may_build=True) as context:
        spoken = context.clips if has_predicted_statistics(options, checkpoint) else ()
        with context.workers.settling(spoken):
            stem, judge = prepare_level(options, checkpoint)
        if options.corpus:
            # A corpus must not overwrite the figures of the judged sets.
            stem += f"-{CORPUS}"
        out = out or folder / f"{stem}.json"
        check_implied(out, ours)
        level = judge(context)
    write_json(out, level, ours)
    return level, out


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(QualityOptions, "kokoro-ane quality", __doc__, argv)
    level, out = judge_level(options)
    from kokoro_ane.eval.terminal import explain_exit, print_judgement

    print_judgement(level, out)
    names = ("stage", "method", "verdict", "releasable", "broken", "reasons", "summary")
    report = {name: level[name] for name in names} | {
        "clips": len(level["clips"]),
        "package_sha256": level["provenance"]["package_sha256"],
        "file": str(out),
    }
    return conclude(options, report, exit_of(level["verdict"]), explain_exit(level))


if __name__ == "__main__":
    raise SystemExit(main())
