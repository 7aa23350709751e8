"""The vocoder's manifest: everything a conductor in another language needs to feed the package, and where the package came from.

manifest = vocoder_manifest(checkpoint, vocoder, package, buckets, "fp16", "iOS17", figures, facts)
"""

from pathlib import Path
from typing import Any

from core.checkpoint import Checkpoint
from core.contract import FEATURES, FRAME_SAMPLES, SAMPLE_RATE_HZ, STYLE, VOCODER_NAME, WAVEFORM, PackedLayout
from core.manifest import Manifest, describe_package, tool_versions
from vocoder.check import Figure, figures_for_manifest
from vocoder.decoder import Vocoder
from vocoder.facts import ProgramFacts
from vocoder.source import SINE_AMPLITUDE, VOICED_ABOVE_HZ, VOICED_NOISE
from vocoder.windowed.geometry import HALO_LAST, LOW_RATE, MARGIN_WIDTH, row_sizes, shape_of
from vocoder.windowed.geometry import described as windows_described
from vocoder.windowed.options import EngineOptions


def vocoder_manifest(
    checkpoint: Checkpoint,
    vocoder: Vocoder,
    package: Path,
    buckets: tuple[int, ...],
    precision: str,
    target: str,
    figures: list[Figure],
    facts: ProgramFacts,
    options: EngineOptions | None = None,
) -> Manifest:
    """Describe a package that stands at its final place."""
    config = checkpoint.config
    io_dtype = "float16" if precision == "fp16" else "float32"
    return Manifest(
        stage=VOCODER_NAME,
        method=precision if options is None else f"{options.name}-{precision}",
        precision=precision,
        checkpoint={"name": checkpoint.name, "sha256": checkpoint.sha256},
        releasable=checkpoint.releasable and precision != "fp32",
        target=target,
        buckets=buckets,
        hidden_dim=config.hidden_dim,
        inputs=_inputs(config.hidden_dim, config.style_dim, io_dtype, buckets, options),
        outputs={WAVEFORM: _waveform(options) | {"dtype": "float32", "rate_hz": SAMPLE_RATE_HZ}},
        source=_source(vocoder),
        operations=facts.operations,
        checks=figures_for_manifest(figures, facts),
        tools=tool_versions(),
        **describe_package(package),
    )


def _inputs(hidden_dim: int, style_dim: int, dtype: str, buckets: tuple[int, ...], options: EngineOptions | None) -> dict[str, Any]:
    features = _literal(PackedLayout(hidden_dim)) if options is None else _engine(options, hidden_dim, buckets)
    return {
        FEATURES: features | {"dtype": dtype},
        STYLE: {"shape": [1, style_dim, 1, 1], "dtype": dtype, "row": "voice pack [510, 1, 256], phoneme count - 1, columns 0:128"},
    }


def _waveform(options: EngineOptions | None) -> dict[str, Any]:
    if options is None:
        return {"shape": [1, 1, 1, f"{FRAME_SAMPLES} * bucket"], "valid": f"first {FRAME_SAMPLES} * frames samples"}
    wide = f"{FRAME_SAMPLES} * pitch + {FRAME_SAMPLES // LOW_RATE * 2 * HALO_LAST}"
    return {"shape": [1, 1, "rows", wide], "valid": "of every row the frames it owns, see features.windows"}


def _literal(layout: PackedLayout) -> dict[str, Any]:
    return {
        "shape": [1, layout.channels, 1, "bucket + 1"],
        "rows": dict(zip(("asr", "f0_hz", "energy", "mask", "spectrum"), layout.sizes, strict=True)),
        "packing": "each tensor padded with zeros to rows * (bucket + 1) values a channel group, row after row",
    }


def _engine(options: EngineOptions, hidden_dim: int, buckets: tuple[int, ...]) -> dict[str, Any]:
    names = ("asr", "f0_hz", "energy", "mask", "weight", "weight_20", "weight_120", "factors", "spectrum")
    return {
        "shape": [1, sum(row_sizes(hidden_dim)), "rows", f"pitch + {MARGIN_WIDTH}"],
        "rows": dict(zip(names, row_sizes(hidden_dim), strict=True)),
        "packing": "every row a window of the utterance, zeros beyond it; what runs faster than the frames has its phases as channels "
        "(vocoder/windowed/packing.py)",
        "shapes": {str(bucket): list(shape_of(bucket)) for bucket in buckets},
        "variant": options.name,
        "chips": list(options.chips),
        "windows": windows_described(),
    }


def _source(vocoder: Vocoder) -> dict[str, Any]:
    merge = vocoder.generator.m_source.l_linear
    return {
        "weights": merge.weight.detach().flatten().tolist(),
        "bias": float(merge.bias.detach()),
        "sine_amplitude": SINE_AMPLITUDE,
        "voiced_noise": VOICED_NOISE,
        "voiced_above_hz": VOICED_ABOVE_HZ,
    }
