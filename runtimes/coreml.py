"""One function of a package, run by Core ML: the same call as mlprogram.Program. macOS only;
nothing of this project was run on a Mac.

    program = CoreMLProgram(Path("build/KokoroVocoder-fp16.mlpackage"), "main", "CPU_AND_NE")
    waveform = program({"features": features, "style": style})["waveform"]
"""

import shutil
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_ane.core.process import scratch
from kokoro_ane.encoder.encoder_stage import EncoderPackage
from kokoro_ane.encoder.encoder_steps import EncoderBackend, program_functions
from kokoro_ane.quantize.locator import Request
from kokoro_ane.runtimes.registry import Opened
from kokoro_ane.vocoder.render import VocoderPackage, open_package
from kokoro_ane.vocoder.streaming.streaming_package import StreamingPackage
from mlprogram.dtypes import BY_NAME
from mlprogram.examine.device import chip
from mlprogram.interface import TensorSpec
from mlprogram.program import Program

Predict = Callable[[dict[str, np.ndarray]], Mapping[str, Any]]


def load(path: Path, function: str, units: str) -> Predict:
    """Open a package in Core ML and return its predict. A copy is opened: coremltools rewrites the
    Manifest.json of a package that it opens, which would change its hash.
    """
    import coremltools as ct

    stack = ExitStack()
    copy = Path(shutil.copytree(path, stack.enter_context(scratch()) / path.name))
    name = None if function == "main" else function
    model = ct.models.MLModel(
        str(copy), function_name=name, compute_units=getattr(ct.ComputeUnit, units)
    )

    def predict(inputs: dict[str, np.ndarray]) -> Mapping[str, Any]:
        return model.predict(inputs)

    # the copy goes with its last user, at the latest when the process ends
    weakref.finalize(predict, stack.close)
    return predict


def units_for(declared: Mapping[str, str], brand: str) -> str:
    """The compute units that a manifest declares for a chip, or its default. Example: {"default":
    "CPU_AND_GPU", "M5": "CPU_ONLY"}.
    """
    return next(
        (units for name, units in declared.items() if name in brand.split()), declared["default"]
    )


class CoreMLProgram:
    """Responsibilities: 1. inputs in the dtypes the package declares; 2. outputs as tensors.
    `opened` stands in for `load` in tests.
    """

    def __init__(
        self,
        path: Path,
        function: str,
        units: str,
        opened: Callable[[Path, str, str], Predict] = load,
    ) -> None:
        # the package itself says in which dtypes it takes its inputs
        described = Program(path, function=function)
        self.inputs: Mapping[str, TensorSpec] = described.inputs
        self.outputs = tuple(described.outputs)
        self.predict = opened(path, function, units)

    def __call__(
        self, inputs: Mapping[str, torch.Tensor | np.ndarray], hook: None = None
    ) -> dict[str, torch.Tensor]:
        """As Program.__call__, without hooks: Core ML shows no inner values."""
        arrays = {
            name: torch.as_tensor(value).to(BY_NAME[self.inputs[name].dtype].torch).numpy()
            for name, value in inputs.items()
        }
        outputs = self.predict(arrays)
        return {name: torch.from_numpy(np.asarray(outputs[name])) for name in self.outputs}


def open_chain(request: Request) -> Opened:
    """See runtimes.registry. The encoder runs on the compute units of its manifest, the vocoder on
    the Neural Engine where that can take it.
    """
    return open_manifests(*request.paths())


def open_manifests(encoders: tuple[Path, ...], path: Path) -> Opened:
    """Packages that belong together, wherever they lie."""
    package = EncoderPackage(encoders)
    units = units_for(package.manifests[0].compute_units, chip())
    programs = {
        name: CoreMLProgram(manifest.package_path, inside, units)
        for manifest in package.manifests
        for name, inside in manifest.functions.items()
    }
    encoder = EncoderBackend(program_functions(programs), package.limits, package.buckets)
    return Opened.of(encoder, open_vocoder(path), package.manifests)


def open_vocoder(path: Path) -> VocoderPackage | StreamingPackage:
    """The vocoder alone, on the Neural Engine where that can take it."""
    return open_package(
        path, opened=lambda where, function: CoreMLProgram(where, function, "CPU_AND_NE")
    )
