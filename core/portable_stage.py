"""What the stages of encoder and vocoder share that become files of other runtimes: the builder's Kind, the stage's head, baked weights.

manifests = build(PortableVocoderStage(checkpoint, ONNX, speeches), Path("build"), ONNX.kind)
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.nn.functional as F
from torch import nn

from core import onnx_file, pte_file, tvm_file
from core.checkpoint import Checkpoint
from core.contract import DEFAULT_BUCKETS
from core.facts import ProgramFacts, require
from core.layers import ConvTranspose
from core.manifest import package_name
from core.portable import PRECISION, PortableFunction, PortableProgram
from core.stage import Kind, Part


@dataclass(frozen=True, eq=False)
class Files:
    """A kind of file, as its module in core describes it. `plain`: its graph is the plain one, in operations that keep their meaning.

    `operators`: the loop of an LSTM is an operator that its compiler has a kernel for.
    """

    module: ModuleType
    plain: bool
    open: Callable[[Path, PortableFunction], PortableProgram]
    operators: bool = False

    @property
    def kind(self) -> Kind:
        """For core.build: one function a file."""
        return Kind(self.module.SUFFIX, self.module.TOOLS, self._write)

    def _write(self, stage: Any, part: Part, path: Path) -> dict[str, PortableProgram]:
        (name,) = part.functions
        function = stage.function(name)
        self.module.write(function, path)
        return {name: self.open(path, function)}


ONNX = Files(onnx_file, False, lambda path, function: onnx_file.OnnxProgram(path, function.outputs))
EXECUTORCH = Files(pte_file, True, lambda path, function: pte_file.PteProgram(path, function.inputs, function.outputs))
TVM = Files(tvm_file, False, lambda path, function: tvm_file.TvmProgram(path, function.inputs, function.outputs), operators=True)
FILES = {files.module.NAME: files for files in (ONNX, EXECUTORCH, TVM)}


@dataclass(frozen=True, eq=False)
class PortableStage:
    """What both stages say alike. See core.stage.Stage."""

    checkpoint: Checkpoint
    files: Files

    @property
    def precision(self) -> str:
        """See Stage."""
        return PRECISION

    @property
    def target(self) -> str:
        """See Stage."""
        return self.files.module.TARGET

    def file_of(self, stage: str) -> str:
        """What a file of that stage is called."""
        return package_name(stage, self.checkpoint.name, self.checkpoint.releasable, f"{self.files.module.NAME}-{PRECISION}")

    def facts(self, name: str, program: Any) -> ProgramFacts:
        """See Stage."""
        facts: ProgramFacts = self.files.module.facts(program)
        require({"no operations": facts.count > 0}, f"function {name}")
        return facts

    def contract_head(self) -> dict[str, Any]:
        """The fields of the contract that both have."""
        return {
            "method": PRECISION,
            "checkpoint": self.checkpoint.as_source,
            "releasable": self.checkpoint.releasable,
            "buckets": (DEFAULT_BUCKETS[-1],),
            "hidden_dim": self.checkpoint.config.hidden_dim,
        }


def baked(module: nn.Module) -> nn.Module:
    """A copy whose transposed convolutions carry their zero taps in the weight: exporters want weights that are constants."""
    module = copy.deepcopy(module).eval()
    for layer in module.modules():
        if isinstance(layer, ConvTranspose) and layer.zero_taps:
            layer.weight = nn.Parameter(F.pad(layer.weight.detach(), (0, layer.zero_taps)))
            layer.zero_taps = 0
    return module.requires_grad_(False)


def dynamic(*pairs: tuple[str, int, str]) -> dict[str, dict[int, str]]:
    """(tensor, axis, length) -> PortableFunction.dynamic."""
    found: dict[str, dict[int, str]] = {}
    for name, axis, length in pairs:
        found.setdefault(name, {})[axis] = length
    return found
