"""Measure the anchors of a checkpoint's voices (vocoder/streaming/anchors.py): what three settling
sentences leave beside each voice's settled line.

    # all voices, and the blends that judge; 10 s of one core each
    python -m training.anchor_voices --checkpoint kokoro-int8

A voice that is not bundled as settled on these weights gets none. The file is the bundled one, in
vocoder/data. What it holds is not measured again, unless it is deleted. Exit 0: written. Exit 2:
bad input. A pipe's last line is one JSON object.
"""

import sys
from dataclasses import dataclass

from kokoro_ane.core import (
    EXIT_GOOD,
    JUDGED,
    SECOND,
    VOICES,
    CommandOptions,
    checkpoint_option,
    command,
    conclude,
    parse,
)


@dataclass(frozen=True)
class AnchorOptions(CommandOptions):
    """Weights whose voices are measured."""

    checkpoint: str | None = checkpoint_option()


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    options = parse(AnchorOptions, "training.anchor_voices", __doc__, argv)
    import numpy as np

    from kokoro_ane.core import open_checkpoint, style_path, voice_sha256
    from kokoro_ane.speech import Settling, list_anchored_lines, list_spoken_lines
    from kokoro_ane.vocoder import (
        Anchor,
        find_anchor,
        follow_line,
        locate_anchors,
        read_bundled,
        require_predictor,
        write_anchors,
    )

    checkpoint = open_checkpoint(options.checkpoint)
    predictor = require_predictor(checkpoint)
    judging = [
        line.voice
        for texts in (JUDGED, SECOND, VOICES)
        for line in list_spoken_lines(checkpoint, texts)
    ]
    names = list(dict.fromkeys([*checkpoint.voices, *judging]))
    bundled = read_bundled(predictor, checkpoint.sha256)
    bench = Settling(checkpoint, predictor)
    anchors = {}
    for count, name in enumerate(names, 1):
        pack = checkpoint.library.blend(name)
        voice = voice_sha256(pack)
        if anchor := find_anchor(predictor, voice):
            anchors[voice] = anchor
            continue
        line = bundled.get(voice)
        if line is None:
            print(f"{name} is not bundled as settled: it gets no anchor", file=sys.stderr)
            continue
        phonemes, residuals = bench.measure_residuals(name, pack, list_anchored_lines())
        along = style_path(pack)[np.array(phonemes) - 1]
        anchors[voice] = Anchor(line, residuals - follow_line(line, along))
        print(f"{count} of {len(names)} voices", file=sys.stderr)
    out = locate_anchors(predictor)
    write_anchors(out, predictor, checkpoint.sha256, anchors)
    report = {"checkpoint": checkpoint.name, "voices": names, "out": str(out)}
    return conclude(options, report, EXIT_GOOD, f"the anchors of {len(anchors)} voices: {out}")


if __name__ == "__main__":
    raise SystemExit(main())
