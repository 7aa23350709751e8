"""Apply a plan to a saved package: first int8 inputs, then integers for the weights, both by
coremltools' own passes, then palettes.

    model = compressed(Path("build/KokoroVocoder-fp16.mlpackage"), plan, peaks={})
"""

import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core.builder import MAIN
from kokoro_ane.core.export import quiet_coremltools
from kokoro_ane.quantize.layer_plan import Layer, LayerPlan
from kokoro_ane.quantize.methods import BlockWeights, LinearWeights, PaletteWeights
from kokoro_ane.quantize.fits import form_of
from kokoro_ane.quantize.stored_forms import StoredWeight
from mlprogram import Program

if TYPE_CHECKING:
    import coremltools as ct

    from kokoro_ane.quantize.palettes import Fit


def compressed(
    package: Path,
    plan: tuple[LayerPlan, ...],
    peaks: Mapping[str, float],
    fits: Mapping[str, "Fit"] = MappingProxyType({}),
) -> "ct.models.MLModel":
    """The model of `package` with every layer as `plan` says; it is not loaded for prediction.

    peaks: the largest magnitude of each value that a convolution reads in int8.
    fits: by layer name, for palettes that are fitted to their inputs.
    """
    palettes = _palettes(Program(package), plan, fits)
    with quiet_coremltools():
        import coremltools as ct
        from coremltools.models.utils import _apply_graph_pass

        from kokoro_ane.quantize.constants import ReplaceConstants
        from kokoro_ane.quantize.passes import ScalesIntoQuantize, input_pass

        with tempfile.TemporaryDirectory() as folder:
            # a copy, because MLModel(path) rewrites the Manifest.json of the package that it opens
            copy = shutil.copytree(package, Path(folder) / package.name)
            model = ct.models.MLModel(str(copy), skip_model_load=True)
            passes = [
                *input_pass(plan, peaks),
                ScalesIntoQuantize(),
                *_integer_pass(plan),
                ReplaceConstants({MAIN: palettes}, alone=False),
            ]
            return _apply_graph_pass(
                model, passes, spec_version=int(ct.target.iOS17), skip_model_load=True
            )


def _palettes(
    program: Program, plan: tuple[LayerPlan, ...], fits: Mapping[str, "Fit"]
) -> dict[str, StoredWeight]:
    """The palettes of all layers that get one, by weight constant. Fitted ones take minutes, so a
    progress bar runs on stderr.
    """
    from rich.console import Console
    from rich.progress import track

    chosen = [
        (entry.layer, entry.weights) for entry in plan if isinstance(entry.weights, PaletteWeights)
    ]
    shown = track(
        chosen, "palettes", console=Console(file=sys.stderr), transient=True, disable=not chosen
    )
    made = {}
    for layer, how in shown:
        form = form_of(
            np.asarray(program.constant(layer.weight)),
            how,
            fits.get(layer.name),
            int(layer.op_type == "conv_transpose"),
        )
        assert form is not None
        made[layer.weight] = form
    return made


def _integer_pass(plan: tuple[LayerPlan, ...]) -> list[Any]:
    """coremltools' pass for integers with the weight constants that it may change; no pass where
    there are none.
    """
    from coremltools.optimize.coreml import OpLinearQuantizerConfig, OptimizationConfig
    from coremltools.optimize.coreml._quantization_passes import linear_quantize_weights

    def config(weights: LinearWeights | BlockWeights, layer: Layer) -> Any:
        block = weights.block_of(layer.channels) if isinstance(weights, BlockWeights) else 0
        return OpLinearQuantizerConfig(
            mode="linear_symmetric",
            dtype=f"int{weights.bits}",
            # none: the plan has applied the size limit
            weight_threshold=0,
            granularity="per_block" if block else "per_channel",
            **({"block_size": block} if block else {}),
        )

    configs = {
        e.layer.weight: config(e.weights, e.layer)
        for e in plan
        if isinstance(e.weights, LinearWeights | BlockWeights)
    }
    if not configs:
        return []
    return [
        linear_quantize_weights(
            OptimizationConfig(global_config=None, op_name_configs=configs), fake_compression=False
        )
    ]
