"""Apply a plan to a saved package with coremltools' own passes: int8 inputs first, then palettes and integers for the weights.

model = compressed(Path("build/KokoroVocoder-demo-fp16.mlpackage"), plan, peaks={})
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from kokoro_ane.core.export import quiet_coremltools
from kokoro_ane.quantize.layer_plan import Layer, LayerPlan
from kokoro_ane.quantize.methods import BlockWeights, LinearWeights, PaletteWeights, Weights
from kokoro_ane.quantize.palettes import palette

if TYPE_CHECKING:
    import coremltools as ct

    from kokoro_ane.quantize.palettes import Fit

_Palette = tuple[np.ndarray, np.ndarray]  # table, index of every weight


def compressed(
    package: Path,
    plan: tuple[LayerPlan, ...],
    peaks: Mapping[str, float],
    fits: Mapping[str, "Fit"] = MappingProxyType({}),
) -> "ct.models.MLModel":
    """The model of `package` with every layer as `plan` says. `peaks`: largest magnitude of each value that a convolution reads in int8;
    `fits`: of the layers whose palettes are fitted to their inputs.

    Nothing is loaded for prediction.
    """
    palettes = sum(isinstance(entry.weights, PaletteWeights) for entry in plan)
    with _counted(palettes) as done, quiet_coremltools():
        import coremltools as ct
        from coremltools.models.utils import _apply_graph_pass

        from kokoro_ane.quantize.passes import ScalesIntoQuantize, input_pass

        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(package, Path(folder) / package.name)  # MLModel(path) writes the Manifest.json of what it opens anew
            model = ct.models.MLModel(str(copy), skip_model_load=True)
            passes = [*input_pass(plan, peaks), ScalesIntoQuantize(), *_weight_passes(plan, fits, done)]
            return _apply_graph_pass(model, passes, spec_version=int(ct.target.iOS17), skip_model_load=True)


@contextmanager
def _counted(palettes: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr while palettes are made, which takes minutes where they are fitted; what is given advances it by one."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(file=sys.stderr)  # this one: what coremltools says to sys.stderr later is dropped
    with Progress(console=console, transient=True, disable=not palettes, redirect_stderr=False) as progress:
        task = progress.add_task("palettes", total=palettes)
        yield lambda: progress.advance(task)


def _weight_passes(plan: tuple[LayerPlan, ...], fits: Mapping[str, "Fit"], done: Callable[[], None]) -> list[Any]:
    """One pass for palettes, one for integers, each told which weight constants are its own."""
    from coremltools.optimize.coreml import OptimizationConfig
    from coremltools.optimize.coreml._quantization_passes import linear_quantize_weights, palettize_weights

    passes = []
    for make, kinds in ((palettize_weights, PaletteWeights), (linear_quantize_weights, LinearWeights | BlockWeights)):
        configs = {e.layer.weight: _config(e.weights, e.layer, fits, done) for e in plan if isinstance(e.weights, kinds)}
        if configs:
            passes.append(make(OptimizationConfig(global_config=None, op_name_configs=configs), fake_compression=False))
    return passes


def _config(weights: Weights, layer: Layer, fits: Mapping[str, "Fit"], done: Callable[[], None]) -> Any:
    """coremltools' configuration for one layer. The size limit was applied by the plan."""
    from coremltools.optimize.coreml import OpLinearQuantizerConfig, OpPalettizerConfig

    if isinstance(weights, PaletteWeights):
        fitted = fits[layer.name] if weights.gptq else fits.get(layer.name, palette)
        make = partial(fitted, bits=weights.bits)
        if layer.op_type == "conv_transpose":
            make = partial(_swapped, make=make)
        return OpPalettizerConfig(mode="custom", lut_function=partial(_told, make=make, done=done), weight_threshold=0)
    linear = {"mode": "linear_symmetric", "dtype": f"int{weights.bits}", "weight_threshold": 0}
    block = weights.block_of(layer.channels) if isinstance(weights, BlockWeights) else 0
    if block:
        return OpLinearQuantizerConfig(granularity="per_block", block_size=block, **linear)
    return OpLinearQuantizerConfig(granularity="per_channel", **linear)


def _told(weight: np.ndarray, make: Callable[[np.ndarray], _Palette], done: Callable[[], None]) -> _Palette:
    """`make`, and then `done`."""
    made = make(weight)
    done()
    return made


def _swapped(weight: np.ndarray, make: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """`make` for a transposed convolution, whose weight coremltools gives and takes as [O, I, 1, k] instead of [I, O, 1, k]."""
    inner = weight.swapaxes(0, 1)
    table, index = make(inner)
    return table, index.reshape(inner.shape).swapaxes(0, 1).reshape(-1)
