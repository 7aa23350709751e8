"""What the portable stages of encoder and vocoder share: the builder's Kind for a format, names, baked weights.

manifests = build(PortableVocoder(checkpoint, speeches, core.onnx_file), Path("build"), kind_of(core.onnx_file))
"""

import copy
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import nn

from core.layers import ConvTranspose
from core.portable import PortableFormat, PortableProgram
from core.stage import Kind, Part

PRECISION = "fp32"


def kind_of(form: PortableFormat) -> Kind:
    """How core.build writes a stage in this format: one function a file."""

    def write(stage: Any, part: Part, path: Path) -> dict[str, PortableProgram]:
        (name,) = part.functions
        function = stage.function(name)
        form.write(function, path)
        return {name: form.open_program(path, function.outputs)}

    return Kind(form.SUFFIX, form.TOOLS, write)


def level_of(form: PortableFormat) -> str:
    """What stands in the file's name: onnx-fp32."""
    return f"{form.NAME}-{PRECISION}"


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
