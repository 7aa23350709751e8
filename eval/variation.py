"""The natural variation of a checkpoint, which every verdict is compared with: whether the
repository holds it, and the command that measures and writes it.

    kokoro-ane variation [--checkpoint FOLDER|kokoro-int8|hexgrad/Kokoro-82M]
    kokoro-ane variation --write       # half an hour of two cores; commit eval/data afterwards
    kokoro-ane variation --write --set judged --stages vocoder

The variation of the hub's weights can be written only where they can be had, that of kokoro-int8
and of shaken weights anywhere. For every other checkpoint the judge measures it, and writes what it
measured into the user's cache (eval/natural.py says what the key holds). What an interrupted run
has measured is not measured again. Exit 0: stored, and of this checkpoint and this code. Exit 2:
bad input. Exit 3: not stored. A pipe's last line is one JSON object.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kokoro_ane.core import (
    BOTH,
    DEFAULT_BUCKETS,
    EXIT_GOOD,
    EXIT_UNDECIDED,
    JUDGED,
    PADDED_BUCKETS,
    SECOND,
    VOICES,
    CommandOptions,
    InputError,
    checkpoint_option,
    command,
    conclude,
    option,
    parse,
    require_installed,
)
from kokoro_ane.eval.session import DEFAULT_WORKERS
from kokoro_ane.eval.subjects import STAGES

if TYPE_CHECKING:
    from kokoro_ane.core import Checkpoint
    from kokoro_ane.eval.natural import Item

SEED = 0  # what every command takes where none is given


@dataclass(frozen=True)
class VariationOptions(CommandOptions):
    """What is measured, and whether it is written into the repository."""

    checkpoint: str | None = checkpoint_option()
    write: bool = option("measure it, and write eval/data", False)
    set: str = option("texts that are measured", BOTH, choices=(JUDGED, SECOND, VOICES, BOTH))
    stages: str = option("stages that are measured, with commas", ",".join(STAGES))
    workers: int = option(
        "processes that measure, to the same figures",
        DEFAULT_WORKERS,
        choices=range(1, 65),
        metavar="COUNT",
    )


def measure(
    checkpoint: "Checkpoint", texts: str, stages: Sequence[str], workers: int
) -> "Mapping[tuple[str, str], Item]":
    """Measure what is missing of these stages and texts, by every neighbour. Returns every item
    that was measured, by kind and clip.
    """
    from kokoro_ane.eval.natural import Variations
    from kokoro_ane.eval.reference import Reference, list_judged_clips
    from kokoro_ane.eval.renditions import fit_clip
    from kokoro_ane.eval.workers import Workers, split_cores
    from kokoro_ane.vocoder import LONGEST_BUCKET

    # Only the folder is taken, so that what the repository stores is measured again too.
    variations = Variations(folder=Variations.for_checkpoint(checkpoint, SEED).folder)
    with split_cores(workers):
        measured = variations.read_measured_items()
        whole = list_judged_clips(checkpoint, texts)
        reference = Reference(checkpoint, SEED, None, variations)
        # as packages take them, the padded ones first, then as files of any length do
        every = dict.fromkeys(
            (stage, fit_clip(clip, stage, longest, reference))
            for longest in (PADDED_BUCKETS[-1], LONGEST_BUCKET, DEFAULT_BUCKETS[-1])
            for stage in stages
            for clip in whole
        )
        missing = [(stage, clip) for stage, clip in every if (stage, clip.id) not in measured]
        with Workers(reference, workers) as pool:
            for count, _ in enumerate(pool.measure_natural(missing), 1):
                print(f"{count} of {len(missing)} clips", file=sys.stderr)
    return variations.read_measured_items()


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(VariationOptions, "kokoro-ane variation", __doc__, argv)
    require_installed("the judge", "judge")
    stages = options.stages.split(",")
    if unknown := sorted(set(stages) - set(STAGES)):
        raise InputError(f"--stages {', '.join(unknown)}: there are {', '.join(STAGES)}")
    from kokoro_ane.core import (
        HUB_NAME,
        KOKORO_INT8,
        SHAKEN_NAME,
        open_checkpoint,
        quiet_coremltools,
    )

    checkpoint = open_checkpoint(options.checkpoint, thorough=True)
    # Whoever has the repository can have these weights, and no others.
    common = (HUB_NAME, KOKORO_INT8, SHAKEN_NAME)
    if options.write and not checkpoint.name.startswith(common):
        raise InputError(
            f"--write is of {', '.join(common)}: what {checkpoint.name} varies by is kept in the"
            " user's cache when it is judged"
        )
    with quiet_coremltools():
        from kokoro_ane.eval.natural import FOLDER, Variations, write_stored
    if options.write:
        items = measure(checkpoint, options.set, stages, options.workers)
        write_stored(FOLDER, checkpoint, SEED, items)
    variations = Variations.for_checkpoint(checkpoint, SEED)
    report = {"checkpoint": checkpoint.name, "stored": variations.provenance or None}
    # A file that does not fit the code is no error: the judge measures in its place.
    code = EXIT_GOOD if variations.file else EXIT_UNDECIDED
    print(variations.line)
    meaning = "stored" if variations.file else "not stored; the judge measures"
    return conclude(options, report, code, meaning)


if __name__ == "__main__":
    raise SystemExit(main())
