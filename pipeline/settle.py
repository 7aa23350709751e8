"""Settle voices before they are first asked for: what each adds to predicted statistics.

    kokoro-ane settle [VOICE ...] [--checkpoint FOLDER]   # all voices of the checkpoint
    # into one file, which a checkpoint's folder may hold beside its weights
    kokoro-ane settle --checkpoint FOLDER --out FOLDER

A voice takes about 40 s of one core, one of the 54 bundled voices on weights near the bundled ones
10 s. It is kept in the user's cache. `speak`, `bundle` and `quality` settle by themselves what they
need. Exit 0: settled. Exit 2: bad input. A pipe's last line is one JSON object.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from kokoro_ane.core import (
    EXIT_GOOD,
    CommandOptions,
    InputError,
    check_output,
    checkpoint_option,
    command,
    conclude,
    option,
    parse,
    print_table,
)


@dataclass(frozen=True)
class SettleOptions(CommandOptions):
    """Voices, and where a file of all of them goes."""

    voices: tuple[str, ...] = option(
        "voices or blends (default: all of the checkpoint)", (), "voices", nargs="*"
    )
    checkpoint: str | None = checkpoint_option()
    out: Path | None = option("a folder for one file of all that are named", metavar="FOLDER")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(SettleOptions, "kokoro-ane settle", __doc__, argv)
    import numpy as np

    from kokoro_ane.core import open_checkpoint, voice_sha256
    from kokoro_ane.speech import settle
    from kokoro_ane.vocoder import (
        SettledVoices,
        name_settled_file,
        require_predictor,
        write_settled,
    )

    checkpoint = open_checkpoint(options.checkpoint)
    # A file that is not ours is refused before a voice takes its seconds.
    out = options.out and check_output(options.out / name_settled_file(checkpoint.sha256))
    names = options.voices or checkpoint.voices
    if not names:
        raise InputError(f"{checkpoint.folder / 'voices'} holds no voice")
    # every name is read before the first is settled
    packs = {name: checkpoint.library.blend(name) for name in names}
    started = time.monotonic()
    settled = settle(checkpoint, packs)
    spent_s = time.monotonic() - started
    if out:
        # A file knows voices by their values, so that a renamed one is found.
        by_hash = {voice_sha256(packs[name]): vectors for name, vectors in settled.items()}
        predictor = require_predictor(checkpoint).sha256
        write_settled(out, SettledVoices(predictor, checkpoint.sha256, by_hash))
    # how far a voice's usual log variances lie from what is predicted for it
    rows = [
        (name, f"{np.sqrt(np.square(np.split(vectors[0], 2)[1]).mean()):.3f}")
        for name, vectors in settled.items()
    ]
    title = f"{checkpoint.name}: {len(names)} voices settled in {spent_s:.1f} s"
    print_table(title, ("voice", "log variances moved by"), rows, right=True)
    report = {
        "checkpoint": checkpoint.name,
        "voices": list(names),
        "seconds": round(spent_s, 1),
        "out": str(out) if out else None,
    }
    return conclude(options, report, EXIT_GOOD, f"{len(names)} voices are settled")


if __name__ == "__main__":
    raise SystemExit(main())
