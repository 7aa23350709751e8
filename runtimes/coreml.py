"""One function of a package, run by Core ML: the same call as mlprogram.Program. macOS only;
nothing of this project was run on a Mac.

    program = CoreMLProgram(Path("build/KokoroVocoder-fp16.mlpackage"), "main", "CPU_AND_NE")
    waveform = program({"features": features, "style": style})["waveform"]
"""

import platform
import shutil
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kokoro_ane.core import scratch, units_for
from kokoro_ane.encoder import EncoderBackend, EncoderPackage, join_programs
from kokoro_ane.quantize import PackageRequest
from kokoro_ane.runtimes.opened import OpenedChain
from kokoro_ane.vocoder import StreamingPackage, VocoderPackage, open_package
from mlprogram import BY_NAME, Program, TensorSpec, chip

Predict = Callable[[dict[str, np.ndarray]], Mapping[str, Any]]


def load(path: Path, function: str, units: str) -> Predict:
    """Open a package in Core ML and return its predict. A copy is opened: coremltools rewrites the
    Manifest.json of a package that it opens, which `sha256sum -c` in a bundle calls a change.
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


def choose_mac_units(stage: str) -> str:
    """The compute units of a stage on this Mac."""
    # "14.5" -> [14, 5]; off a Mac it is an empty text.
    version = [int(part) for part in platform.mac_ver()[0].split(".") if part]
    return units_for(stage, "macOS", version, chip())


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


def open_chain(request: PackageRequest) -> OpenedChain:
    """See runtimes.registry. The encoder runs on the compute units of its manifest, the vocoder on
    the Neural Engine where that can take it.
    """
    return open_manifests(*request.check_paths())


def open_manifests(encoders: tuple[Path, ...], path: Path) -> OpenedChain:
    """Packages that belong together, wherever they lie."""
    package = EncoderPackage(encoders)
    units = choose_mac_units("encoder")
    programs = {
        name: CoreMLProgram(manifest.package_path, inside, units)
        for manifest in package.manifests
        for name, inside in manifest.functions.items()
    }
    encoder = EncoderBackend(join_programs(programs), package.limits, package.buckets)
    return OpenedChain.from_parts(encoder, open_vocoder(path), package.manifests)


def open_vocoder(path: Path) -> VocoderPackage | StreamingPackage:
    """The vocoder alone, on the Neural Engine where that can take it."""
    return open_package(
        path,
        opened=lambda where, function: CoreMLProgram(where, function, choose_mac_units("vocoder")),
    )
