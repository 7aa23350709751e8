"""The two functions as Core ML models: one flexible input each, and which blocks stay in fp32.

model = export_function(encoder, DURATION, Buckets(tokens, frames), "fp16", "iOS18")
save_functions({DURATION: model, PROSODY: other}, Path("aside.mlpackage"))
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from core.contract import DURATION, DURATIONS, ENERGY, F0_HZ, FRAMES, HIDDEN, INPUT_IDS, PADDING_ID, PROSODY, SPEED, STYLE, TEXT
from core.export import TensorType, convert, full_disk_is_an_oserror, make_reproducible, quiet_coremltools, save_package
from encoder.functions import Buckets
from encoder.model import DurationFunction, Encoder, ProsodyFunction

if TYPE_CHECKING:
    import coremltools as ct

KEEP_FP32 = {DURATION: ("timing",), PROSODY: ("melody",)}  # by measurement: docs/encoder.md


def export_function(
    encoder: Encoder, function: str, buckets: Buckets, precision: str, target: str, keep_fp32: tuple[str, ...] | None = None
) -> "ct.models.MLModel":
    """Trace and convert one function; inputs and outputs are float32 and int32 in every precision."""
    kept = KEEP_FP32[function] if keep_fp32 is None else keep_fp32
    style_dim, hidden = encoder.predictor.F0[0].norm1.fc.in_channels, encoder.bert_encoder.out_features
    style = TensorType(STYLE, np.float32, shape=(1, style_dim))
    if function == DURATION:
        module, names = DurationFunction(encoder), (DURATIONS, HIDDEN, TEXT)
        flexible = _flexible(INPUT_IDS, np.int32, tuple((1, tokens) for tokens in buckets.tokens))
        inputs = [flexible, style, TensorType(SPEED, np.float32, shape=(1,))]
        ids = torch.zeros(1, buckets.tokens[0], dtype=torch.int32)
        ids[:, -1] = PADDING_ID
        example = (ids, torch.zeros(1, style_dim), torch.ones(1))
    else:
        module, names = ProsodyFunction(encoder), (F0_HZ, ENERGY)
        shapes = tuple((1, hidden + 1, 1, frames) for frames in buckets.frames)
        inputs = [_flexible(FRAMES, np.float32, shapes), style]
        example = (torch.ones(shapes[0]), torch.zeros(1, style_dim))
    outputs = [TensorType(name, np.float32) for name in names]
    return convert(module, example, inputs=inputs, outputs=outputs, precision=precision, keep_fp32=kept, target=target)


def _flexible(name: str, dtype: type, shapes: tuple[tuple[int, ...], ...]) -> TensorType:
    return TensorType(name, dtype, shapes=shapes) if len(shapes) > 1 else TensorType(name, dtype, shape=shapes[0])


def save_functions(models: "dict[str, ct.models.MLModel]", path: Path) -> None:
    """One package: a single model under `main`, several as functions of these names, equal weights stored once (iOS 18)."""
    if len(models) == 1:
        save_package(next(iter(models.values())), path)
        return
    with quiet_coremltools(), full_disk_is_an_oserror(), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        import coremltools as ct

        joined = ct.utils.MultiFunctionDescriptor()
        for name, model in models.items():
            single = Path(folder) / f"{name}.mlpackage"
            model.save(str(single))
            joined.add_function(str(single), src_function_name="main", target_function_name=name)
        joined.default_function_name = next(iter(models))
        ct.utils.save_multifunction(joined, str(path))
    make_reproducible(path)
