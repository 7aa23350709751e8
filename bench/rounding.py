"""What a vocoder's fitted palettes lose where errors of outputs are weighed by what speech makes of
them (two-sided rounding), and where they are not.

    python -m bench.rounding --checkpoint kokoro-int8 [--level p4g_gptq]

Every layer that can take the level has it, all others stay as they are. PyTorch renders every sixth
sentence of the tuning set in the voice three places further on, with other noise than palettes are
fitted to. A row has means over these sentences. A pipe's last line is one JSON object.
"""

from bench.figures import print_figures
from kokoro_ane.core import EXIT_GOOD, Parser, command, conclude

STEP, SHIFT = 6, 3  # sentences, voices
MEASURED = ("lsd_db", "mcd_db", "pesq")


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.rounding", __doc__)
    parser.add_argument("--checkpoint", default=None)
    parser.add_argument("--level", default="p4g_gptq")
    arguments = parser.parse_args(argv)
    from dataclasses import replace

    import numpy as np

    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.eval import Trial, measure
    from kokoro_ane.quantize import (
        METHODS,
        Calibration,
        can_take,
        list_vocoder_layers,
        plan_by_level,
    )
    from kokoro_ane.speech import make_calibration_inputs
    from kokoro_ane.vocoder import Vocoder, render_reference

    checkpoint = open_checkpoint(arguments.checkpoint)
    vocoder = Vocoder.from_checkpoint(checkpoint)
    layers = [layer for layer in list_vocoder_layers(vocoder) if not layer.is_tail]
    plan = {
        layer.name: plan_by_level(layer, arguments.level)
        for layer in layers
        if can_take(layer, arguments.level)
    }
    calibration = Calibration.from_checkpoint(checkpoint, vocoder, None, plan.values())
    sentences = list(make_calibration_inputs(checkpoint, vocoder, shift=SHIFT))[STEP // 2 :: STEP]
    references = [render_reference(vocoder, one) for one in sentences]
    rows = []
    for rounding, outputs in (("one-sided", {}), ("two-sided", calibration.outputs)):
        level = replace(calibration, outputs=outputs).make_level(METHODS["mixed18"], plan)
        compressed = level.apply(vocoder)
        figures = [
            measure(Trial(reference, render_reference(compressed, one)), only=MEASURED)
            for one, reference in zip(sentences, references, strict=True)
        ]
        means = {name: float(np.mean([one[name] for one in figures])) for name in MEASURED}
        rows.append({"rounding": rounding, **means, "worst_pesq": min(f["pesq"] for f in figures)})
    print_figures(f"{arguments.level} in {len(plan)} layers, {len(sentences)} sentences", rows)
    return conclude(arguments, {"layers": len(plan), "rows": rows}, EXIT_GOOD, "measured")


if __name__ == "__main__":
    raise SystemExit(main())
