"""Decode kokoro-int8 into the user's cache, check it in full, add voices to it.

python -m kokoro_ane.core.kokoro_int8  # eight English voices
# `npm pack kokoro-js@1.2.1`, 27 MB: all 54
python -m kokoro_ane.core.kokoro_int8 --voices kokoro-js-1.2.1.tgz
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.core.commands import CommandOptions, conclude, option, parse, print_table
from kokoro_ane.core.errors import EXIT_GOOD, command


@dataclass(frozen=True)
class VoiceOptions(CommandOptions):
    """Voices that are added to the cache."""

    voices: Path | None = option(
        "voices to add to the cache: NAME.bin, .pt or .npy", metavar="FOLDER|TGZ"
    )


@command
def main(argv: list[str] | None = None) -> int:
    """Command line; see the module's docstring."""
    options = parse(VoiceOptions, "kokoro_ane.core.kokoro_int8", __doc__, argv)
    from kokoro_ane.core.checkpoint import open_checkpoint
    from kokoro_ane.core.kokoro_int8.cache import (
        WEIGHTS,
        WEIGHTS_SHA256,
        add_voices,
        bundled_voices,
        cached,
        writing,
    )

    folder = cached(thorough=True)
    added: tuple[str, ...] = ()
    if options.voices is not None:
        with writing(folder):
            added = add_voices(options.voices, folder / "voices", bundled_voices())
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
