"""What the stages of encoder and vocoder share that become .onnx files: the builder's Kind, the stage's head, baked weights.

manifests = build(PortableVocoderStage(checkpoint, speeches), Path("build"), ONNX_KIND)
"""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import nn

from core import onnx_file
from core.checkpoint import Checkpoint
from core.contract import DEFAULT_BUCKETS
from core.facts import ProgramFacts, require
from core.layers import ConvTranspose
from core.manifest import package_name
from core.onnx_file import OnnxProgram
from core.stage import Kind, Part

PRECISION = "fp32"
LEVEL = f"{onnx_file.NAME}-{PRECISION}"  # stands in the file's name


def _write(stage: Any, part: Part, path: Path) -> dict[str, OnnxProgram]:
    (name,) = part.functions
    function = stage.function(name)
    onnx_file.write(function, path)
    return {name: OnnxProgram(path, function.outputs)}


ONNX_KIND = Kind(onnx_file.SUFFIX, onnx_file.TOOLS, _write)  # one function a file


@dataclass(frozen=True, eq=False)
class PortableStage:
    """What both stages say alike. See core.stage.Stage."""

    checkpoint: Checkpoint

    @property
    def precision(self) -> str:
        """See Stage."""
        return PRECISION

    @property
    def target(self) -> str:
        """See Stage."""
        return onnx_file.TARGET

    def file_of(self, stage: str) -> str:
        """What a file of that stage is called."""
        return package_name(stage, self.checkpoint.name, self.checkpoint.releasable, LEVEL)

    def facts(self, name: str, program: OnnxProgram) -> ProgramFacts:
        """See Stage."""
        facts = onnx_file.facts(program)
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
    """(tensor, axis, length) -> OnnxFunction.dynamic."""
    found: dict[str, dict[int, str]] = {}
    for name, axis, length in pairs:
        found.setdefault(name, {})[axis] = length
    return found
