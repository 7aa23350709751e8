"""Measure the anchors of a checkpoint's voices (vocoder/streaming/anchors.py): what three settling
sentences leave beside each voice's settled line.

    python -m training.anchor_voices --checkpoint kokoro-int8   # 10 s of one core a voice

The voices have to be bundled as settled on these weights. The file goes beside the predictor's in
vocoder/data, or to --out. Exit 0: written. Exit 2: bad input. A pipe's last line is one JSON
object.
"""

import sys
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
)


@dataclass(frozen=True)
class AnchorOptions(CommandOptions):
    """Weights, and where their voices' anchors go."""

    checkpoint: str | None = checkpoint_option()
    out: Path | None = option("a file (default: the bundled one)", metavar="FILE")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(AnchorOptions, "training.anchor_voices", __doc__, argv)
    import numpy as np

    from kokoro_ane.core import open_checkpoint, style_path, voice_sha256
    from kokoro_ane.speech import Settling, list_anchored_lines
    from kokoro_ane.vocoder import (
        Anchor,
        find_statistics,
        locate_anchors,
        require_predictor,
        write_anchors,
    )

    checkpoint = open_checkpoint(options.checkpoint)
    predictor = require_predictor(checkpoint)
    out = check_output(options.out or locate_anchors(predictor))
    bench = Settling(checkpoint, predictor)
    anchors = {}
    for count, name in enumerate(checkpoint.voices, 1):
        pack = checkpoint.library.blend(name)
        line = find_statistics(checkpoint, predictor, voice_sha256(pack))
        if line is None:
            raise InputError(f"{name} is not settled: run `kokoro-ane settle {name}` first")
        phonemes, residuals = bench.measure_residuals(name, pack, list_anchored_lines())
        along = style_path(pack)[np.array(phonemes) - 1]
        # What an anchor of no deviations has is the line alone.
        alone = Anchor(line, np.zeros_like(residuals)).compute_residuals(along)
        anchors[voice_sha256(pack)] = Anchor(line, residuals - alone)
        print(f"{count} of {len(checkpoint.voices)} voices", file=sys.stderr)
    write_anchors(out, predictor, checkpoint.sha256, anchors)
    report = {"checkpoint": checkpoint.name, "voices": list(checkpoint.voices), "out": str(out)}
    return conclude(options, report, EXIT_GOOD, f"the anchors of {len(anchors)} voices: {out}")


if __name__ == "__main__":
    raise SystemExit(main())
