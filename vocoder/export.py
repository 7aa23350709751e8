"""Export, execute, compare, rename: the vocoder package of a checkpoint.

manifest = build(checkpoint, buckets=(40, 80), precision="fp16", target="iOS17", out=Path("build"))
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from pipeline.checkpoint import Checkpoint
from pipeline.contract import FEATURES, STYLE, VOCODER_NAME, WAVEFORM, PackedLayout
from pipeline.demo.data import heldout
from pipeline.export import TensorType, convert, save_package
from pipeline.features import excerpt, text_encoder, vocoder_inputs
from pipeline.manifest import Manifest, package_name
from pipeline.staging import staged
from vocoder.check import CHECK_FRAMES, check_package
from vocoder.decoder import Vocoder
from vocoder.describe import vocoder_manifest
from vocoder.packing import PackedVocoder, VocoderInputs

if TYPE_CHECKING:
    import coremltools as ct

TAIL_MODULES = ("conv_post", "stft")  # kept in fp32: the ear hears exp and phase errors first


def export_model(
    vocoder: Vocoder, buckets: tuple[int, ...], precision: str, target: str, hidden_dim: int, style_dim: int
) -> "ct.models.MLModel":
    """Trace the packed vocoder and convert it with one enumerated input."""
    layout = PackedLayout(hidden_dim)
    shapes = tuple((1, layout.channels, 1, bucket + 1) for bucket in buckets)
    dtype = np.float16 if precision == "fp16" else np.float32
    features = TensorType(FEATURES, dtype, shapes=shapes) if len(shapes) > 1 else TensorType(FEATURES, dtype, shape=shapes[0])
    return convert(
        PackedVocoder(vocoder, layout).eval(),
        (torch.ones(shapes[0]), torch.zeros(1, style_dim, 1, 1)),
        inputs=[features, TensorType(STYLE, dtype, shape=(1, style_dim, 1, 1))],
        outputs=[TensorType(WAVEFORM, np.float32)],
        precision=precision,
        keep_fp32=TAIL_MODULES,
        target=target,
    )


def check_inputs(checkpoint: Checkpoint, vocoder: Vocoder, buckets: tuple[int, ...]) -> VocoderInputs:
    """A second of a held-out sentence (less when every bucket is shorter), spoken by this checkpoint."""
    inputs = vocoder_inputs(checkpoint, vocoder, text_encoder(checkpoint), heldout()[0], seed=0)
    return excerpt(inputs, start=20, frames=min(CHECK_FRAMES, buckets[-1]))


def build(checkpoint: Checkpoint, buckets: tuple[int, ...], precision: str, target: str, out: Path) -> Manifest:
    """Export aside, execute, compare, rename, write the manifest. Raises CheckFailed when a limit is missed; nothing is left then."""
    vocoder, config = checkpoint.vocoder(), checkpoint.config
    inputs = check_inputs(checkpoint, vocoder, buckets)
    name = package_name(VOCODER_NAME, checkpoint.name, checkpoint.releasable, precision)
    package, manifest_path = out / f"{name}.mlpackage", out / f"{name}.json"
    model = export_model(vocoder, buckets, precision, target, config.hidden_dim, config.style_dim)
    with staged(package) as aside:
        save_package(model, aside)
        figures, facts = check_package(aside, vocoder, inputs, buckets, precision)
        manifest_path.unlink(missing_ok=True)  # from here until it is written again there is no package
    return vocoder_manifest(checkpoint, vocoder, package, buckets, precision, target, figures, facts).save(manifest_path)
