"""Decode kokoro-int8 into the user's cache, check it in full, add voices to it; or write a
checkpoint of the same network on weights that lie on no grid.

python -m kokoro_ane.core.kokoro_int8  # nineteen voices
python -m kokoro_ane.core.kokoro_int8 --voices all  # from npm's kokoro-js, 27 MB: all 54
# each stored integer moved by up to half a step, drawn from seed 0
python -m kokoro_ane.core.kokoro_int8 --shaken 0 --out build/shaken0
"""

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.core.commands import (
    CommandOptions,
    conclude,
    option,
    parse,
    print_table,
    seed_argument,
)
from kokoro_ane.core.errors import EXIT_GOOD, command


@dataclass(frozen=True)
class VoiceOptions(CommandOptions):
    """Voices that are added to the cache; or a seed, and the folder of shaken weights."""

    voices: Path | None = option(
        "voices to add to the cache: NAME.bin, .pt or .npy; all: Kokoro's, by npm",
        metavar="FOLDER|TGZ|all",
    )
    shaken: int | None = option(
        "write weights off their grid instead, by this seed", type=seed_argument
    )
    out: Path = option("folder of the shaken checkpoint", Path("build/shaken"))


@command
def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    options = parse(VoiceOptions, "kokoro_ane.core.kokoro_int8", __doc__, argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.kokoro_int8.cache import (
        WEIGHTS,
        WEIGHTS_SHA256,
        add_voices,
        cached,
        list_bundled_voices,
        lock_cache,
        read_npm_voices,
    )

    if options.shaken is not None:
        from kokoro_ane.core.kokoro_int8.shaken import write_shaken

        write_shaken(options.out, options.shaken)
        report = {"checkpoint": str(options.out), "seed": options.shaken}
        return conclude(options, report, EXIT_GOOD, "written")

    folder = cached(thorough=True)
    added: tuple[str, ...] = ()
    if options.voices is not None:
        source = read_npm_voices() if str(options.voices) == "all" else nullcontext(options.voices)
        with source as place, lock_cache(folder):
            added = add_voices(place, folder / "voices", list_bundled_voices())
    checkpoint = open_checkpoint("kokoro-int8")
    counts = {
        name: sum(value.numel() for value in checkpoint.part(name).values())
        for name in checkpoint.part_names
    }
    counts["all"] = sum(counts.values())
    title = f"{folder}: {len(checkpoint.voices)} voices; {WEIGHTS} {WEIGHTS_SHA256[:12]}, checked"
    rows = [(name, f"{count:,}") for name, count in counts.items()]
    print_table(title, ("part", "parameters"), rows, right=True)
    report = {
        "checkpoint": checkpoint.name,
        "folder": str(folder),
        "sha256": checkpoint.sha256,
        "parameters": counts["all"],
        "voices": list(checkpoint.voices),
        "read": list(added),
        "releasable": checkpoint.releasable,
    }
    return conclude(options, report, EXIT_GOOD, "decoded and checked")


if __name__ == "__main__":
    sys.exit(main())
