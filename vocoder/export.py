"""Export, execute, compare, rename: the vocoder package of a checkpoint.

manifest = build(checkpoint, buckets=(40, 80), precision="fp16", target="iOS17", out=Path("build"))
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from pipeline.checkpoint import Checkpoint
from pipeline.contract import DEFAULT_BUCKETS, FEATURES, STYLE, VOCODER_NAME, WAVEFORM, PackedLayout
from pipeline.demo.data import heldout
from pipeline.export import TensorType, convert, save_package
from pipeline.features import excerpt, text_encoder, vocoder_inputs
from pipeline.manifest import Manifest, package_name
from pipeline.staging import staged
from vocoder.check import CHECK_FRAMES, CHECK_ROW_FRAMES, check_package
from vocoder.decoder import Vocoder
from vocoder.describe import vocoder_manifest
from vocoder.engine.geometry import check_row_buckets, default_row_buckets, features_shape, require_architecture, shortest
from vocoder.engine.model import EngineVocoder
from vocoder.engine.options import EngineOptions
from vocoder.packing import PackedVocoder, VocoderInputs

if TYPE_CHECKING:
    import coremltools as ct

TAIL_MODULES = ("conv_post", "stft")  # kept in fp32: the ear hears exp and phase errors first


def export_model(
    vocoder: Vocoder,
    buckets: tuple[int, ...],
    precision: str,
    target: str,
    hidden_dim: int,
    style_dim: int,
    options: EngineOptions | None = None,
) -> "ct.models.MLModel":
    """Trace the packed vocoder, or its engine variant, and convert it with one enumerated input."""
    module, shapes = packed_module(vocoder, hidden_dim, options, buckets)
    dtype = np.float16 if precision == "fp16" else np.float32
    features = TensorType(FEATURES, dtype, shapes=shapes) if len(shapes) > 1 else TensorType(FEATURES, dtype, shape=shapes[0])
    return convert(
        module.eval(),
        (torch.ones(shapes[0]), torch.zeros(1, style_dim, 1, 1)),
        inputs=[features, TensorType(STYLE, dtype, shape=(1, style_dim, 1, 1))],
        outputs=[TensorType(WAVEFORM, np.float32)],
        precision=precision,
        keep_fp32=TAIL_MODULES,
        target=target,
    )


def packed_module(
    vocoder: Vocoder, hidden_dim: int, options: EngineOptions | None, buckets: tuple[int, ...]
) -> tuple[torch.nn.Module, tuple[tuple[int, ...], ...]]:
    """What is traced, and the shapes of its features."""
    if options is None:
        layout = PackedLayout(hidden_dim)
        return PackedVocoder(vocoder, layout), tuple((1, layout.channels, 1, bucket + 1) for bucket in buckets)
    return EngineVocoder(vocoder, hidden_dim, options.form(), options.apart), tuple(
        features_shape(bucket, hidden_dim) for bucket in buckets
    )


def check_inputs(checkpoint: Checkpoint, vocoder: Vocoder, buckets: tuple[int, ...], options: EngineOptions | None) -> VocoderInputs:
    """About a second of a held-out sentence, spoken by this checkpoint: literal, it fills a bucket, so that one render has no padding."""
    inputs = vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0)
    near = min(buckets, key=lambda bucket: abs(bucket - CHECK_FRAMES))
    frames = min(CHECK_ROW_FRAMES, buckets[-1] if options is not None else near if near <= CHECK_ROW_FRAMES else CHECK_FRAMES)
    return excerpt(inputs, start=20, frames=frames)


def build(
    checkpoint: Checkpoint,
    buckets: tuple[int, ...] | None,
    precision: str,
    target: str,
    out: Path,
    options: EngineOptions | None = None,
) -> Manifest:
    """Export aside, execute, compare, rename, write the manifest. Raises CheckFailed when a limit is missed; nothing is left then.

    `options=None` builds the literal vocoder; `buckets=None` takes the variant's default lengths.
    """
    buckets = checked_buckets(checkpoint, buckets, options)
    vocoder, config = checkpoint.vocoder(), checkpoint.config
    inputs = check_inputs(checkpoint, vocoder, buckets, options)
    method = precision if options is None else f"{options.name}-{precision}"
    name = package_name(VOCODER_NAME, checkpoint.name, checkpoint.releasable, method)
    package, manifest_path = out / f"{name}.mlpackage", out / f"{name}.json"
    model = export_model(vocoder, buckets, precision, target, config.hidden_dim, config.style_dim, options)
    with staged(package) as aside:
        save_package(model, aside)
        figures, facts = check_package(aside, vocoder, inputs, buckets, precision, fillable(buckets, inputs.frames, options))
        manifest_path.unlink(missing_ok=True)  # from here until it is written again there is no package
    return vocoder_manifest(checkpoint, vocoder, package, buckets, precision, target, figures, facts, options).save(manifest_path)


def checked_buckets(checkpoint: Checkpoint, buckets: tuple[int, ...] | None, options: EngineOptions | None) -> tuple[int, ...]:
    """The lengths to build, in frames. InputError where the engine variant cannot have one, or cannot have this checkpoint."""
    if options is None:
        return buckets or DEFAULT_BUCKETS
    require_architecture(checkpoint.config)
    return check_row_buckets(buckets) if buckets else default_row_buckets()


def fillable(buckets: tuple[int, ...], frames: int, options: EngineOptions | None) -> tuple[int, ...]:
    """Buckets that take so many frames: all in the literal variant, those whose rows they fill in the engine's."""
    return buckets if options is None else tuple(bucket for bucket in buckets if shortest(bucket) <= frames)
