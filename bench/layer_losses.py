"""How well gradients forecast what a level on one layer alone does to speech: measured and forecast
distance of layers drawn at random, and their rank correlation.

    python -m bench.layer_losses --checkpoint kokoro-int8 --build build [--layers 20]

BUILD holds the uncompressed package and, where a search ran, BUILD/search with what it measured. A
row is a layer at a level: the root of the mean square of the log-spectral difference, rendered and
forecast, on the search's excerpts. A pipe's last line is one JSON object.
"""

from pathlib import Path

from bench.figures import print_figures
from kokoro_ane.core import EXIT_GOOD, Parser, command, conclude


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("bench.layer_losses", __doc__)
    parser.add_argument("--checkpoint", default=None)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--method", default="mixed18")
    parser.add_argument("--layers", type=int, default=20)
    arguments = parser.parse_args(argv)
    import numpy as np
    import torch
    from scipy.stats import spearmanr

    from kokoro_ane.core import open_checkpoint
    from kokoro_ane.quantize import (
        METHODS,
        SPEECH,
        Candidates,
        CompressionLevel,
        PackageRequest,
        compute_speech_vector,
        cut_excerpts,
        default_layout,
    )
    from kokoro_ane.speech import FIRST_SEED
    from kokoro_ane.vocoder import Vocoder, render_reference

    checkpoint = open_checkpoint(arguments.checkpoint)
    method = METHODS[arguments.method]
    request = PackageRequest(checkpoint, arguments.build, "fp16", default_layout(checkpoint))
    folder = arguments.build / "search"
    candidates = Candidates.measure(checkpoint, method, request.load_verified(), folder)
    vocoder = Vocoder.from_checkpoint(checkpoint)
    # Pauses have a distance of their own, which is not compared here.
    excerpts = [
        one for one in cut_excerpts(checkpoint, vocoder, FIRST_SEED, 4) if one.kind == SPEECH
    ]
    renders = [torch.from_numpy(render_reference(vocoder, one.inputs)) for one in excerpts]
    # Sorted, so that every run draws the same layers.
    keys = sorted(candidates.curvature.projections[SPEECH])
    chosen = np.random.default_rng(0).choice(len(keys), min(arguments.layers, len(keys)), False)
    rows = []
    for layer, level in (keys[place] for place in chosen):
        form = candidates.levels[level].forms[layer]
        # One layer at that level, all others as they are.
        changed = CompressionLevel(method, {layer: form}, {}, {}, {}).apply(vocoder)
        squares = [
            (
                compute_speech_vector(
                    torch.from_numpy(render_reference(changed, one.inputs)), reference
                )
                - compute_speech_vector(reference, reference)
            )
            .square()
            .mean()
            for one, reference in zip(excerpts, renders, strict=True)
        ]
        # Of the same one layer, by its curvature alone.
        forecast = candidates.curvature.distance({layer: level}, {SPEECH: 1.0})
        # Both are mean squares: their roots are in dB.
        figures = {"measured_db": float(np.mean(squares)) ** 0.5, "forecast_db": forecast**0.5}
        rows.append({"layer": layer, "level": level, **figures})
    print_figures("log-spectral distance of one layer alone", rows)
    measured, forecast = ([row[name] for row in rows] for name in ("measured_db", "forecast_db"))
    rank = float(spearmanr(measured, forecast).statistic)
    print(f"rank correlation of {len(rows)} layers: {rank:.3f}")
    return conclude(arguments, {"rows": rows, "rank_correlation": rank}, EXIT_GOOD, "measured")


if __name__ == "__main__":
    raise SystemExit(main())
