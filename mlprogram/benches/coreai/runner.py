"""Execute one function of an ML program with Apple's Core AI runtime; started by asked.py in the
environment of its own.

    .venv-coreai/bin/python -m mlprogram.benches.coreai.runner FOLDER

FOLDER holds request.json (package, function, watched, free, wide) and given_0.npz, given_1.npz, ...
of one shape but for free axes; answered_0.npz, ... and answer.json (versions, seconds) are written
there. `free`: axes whose length stays open, {input: [axis, ...]}. `wide`: fp16 values are computed
in fp32.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mlprogram.benches.coreai.bridge import (
    Call,
    Graph,
    Kernels,
    Lowering,
    compressed,
    read_graph,
    tensor_of,
)
from mlprogram.benches.coreai.lowerings import ELEMENTWISE, LAYERS, LAYOUT
from mlprogram.command import Parser, exit_code
from mlprogram.errors import EXIT_GOOD, ProgramError

LOWERINGS: Mapping[str, Lowering] = MappingProxyType({**ELEMENTWISE, **LAYOUT, **LAYERS})


class Bridge(nn.Module):
    """Responsibilities: 1. hold the program's constants; 2. run its operations in order.

    Raises NotImplementedError for an operation that is not bridged, before anything runs.
    """

    def __init__(
        self,
        graph: Graph,
        kernels: Kernels,
        watched: tuple[str, ...] = (),
        lowerings: Mapping[str, Lowering] = LOWERINGS,
        half: torch.dtype = torch.float16,
    ) -> None:
        """`half`: what the program's fp16 values are computed in; constants are decompressed in
        fp16 first.
        """
        super().__init__()
        self.graph, self.kernels, self.lowerings, self.half = graph, kernels, lowerings, half
        self.wanted = (*graph.outputs, *watched)
        self.weights = nn.ModuleDict()
        self._weight_of: dict[str, str] = {}
        self._buffer_of: dict[str, str] = {}
        for op in graph.operations:
            weight = compressed(op, graph.constants)
            if weight is not None:
                self._weight_of[op.outputs[0]] = f"weight_{len(self._weight_of)}"
                self.weights[self._weight_of[op.outputs[0]]] = weight
            elif op.op_type not in lowerings:
                raise NotImplementedError(
                    f"{op.op_type} '{op.name}' is not bridged; bridged:"
                    f" {', '.join(sorted(lowerings))}"
                )
        self._keep_constants()

    def _keep_constants(self) -> None:
        read = {
            name
            for op in self.graph.operations
            if not op.op_type.startswith("constexpr_")
            for name in _sources(op.inputs.values())
        }
        for name, value in self.graph.constants.items():
            if name in read and not isinstance(value, str):
                self._buffer_of[name] = f"constant_{len(self._buffer_of)}"
                self.register_buffer(self._buffer_of[name], tensor_of(value))

    def dense(self, name: str) -> Tensor:
        """A constant by the program's name for it, decompressed."""
        if name in self._weight_of:
            value = self.weights[self._weight_of[name]](self.kernels)
        else:
            value = self.get_buffer(self._buffer_of[name])
        return value.to(self.half) if value.dtype == torch.float16 else value

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The function's outputs, then what is watched, in the program's types."""
        values = dict(zip(self.graph.inputs, inputs, strict=True))
        for op in self.graph.operations:
            if op.outputs[0] in self._weight_of:
                continue
            result = self.lowerings[op.op_type](
                Call(op, values, self.graph.constants, self.dense, self.kernels, self.half)
            )
            results = (result,) if isinstance(result, torch.Tensor) else result
            # an output nobody reads may have no name
            values.update(zip(op.outputs, results, strict=False))
        return tuple(values[name] for name in self.wanted)


def _sources(inputs: object) -> set[str]:
    return {name for given in inputs for name in ((given,) if isinstance(given, str) else given)}  # type: ignore[attr-defined]


class AppleKernels:
    """Core AI's own operators for compressed weights and int8 tensors: the runtime decompresses and
    rounds.
    """

    def __init__(self) -> None:
        # what registers torch.ops.coreai
        import coreai_torch._compression.custom_layers  # noqa: F401

        self._ops = torch.ops.coreai

    def blocks(self, data: Tensor, scale: Tensor, offset: Tensor | None) -> Tensor:
        """See mlprogram.benches.coreai.bridge.Kernels."""
        return self._ops.constexpr_blockwise_shift_scale(data, scale, offset)

    def palette(self, indices: Tensor, lut: Tensor) -> Tensor:
        """See mlprogram.benches.coreai.bridge.Kernels."""
        return self._ops.lut_to_dense(indices, lut, 0)

    def quantize(
        self, x: Tensor, scale: Tensor, offset: Tensor | None, dtype: torch.dtype, axis: int
    ) -> Tensor:
        """See mlprogram.benches.coreai.bridge.Kernels."""
        return self._ops.quantize(x, scale, dtype, offset, None, axis)

    def dequantize(self, codes: Tensor, scale: Tensor, offset: Tensor | None, axis: int) -> Tensor:
        """See mlprogram.benches.coreai.bridge.Kernels."""
        return self._ops.dequantize(codes, scale, offset, None, axis)


def convert(
    module: nn.Module,
    example: dict[str, Tensor],
    outputs: list[str],
    free: dict[str, list[int]],
    path: Path,
) -> None:
    """Export at the example's lengths, `free` axes apart, and save as .aimodel."""
    import coreai_torch

    shapes = tuple(dict.fromkeys(free.get(name, ()), torch.export.Dim.DYNAMIC) for name in example)
    with torch.no_grad():
        exported = torch.export.export(
            module.eval(), tuple(example.values()), dynamic_shapes=(shapes,) if free else None
        )
    exported = exported.run_decompositions(coreai_torch.get_decomp_table())
    converter = coreai_torch.TorchConverter()
    converter.add_exported_program(exported, input_names=list(example), output_names=outputs)
    converter.to_coreai().save_asset(path)


async def execute(path: Path, cases: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Every case by the runtime."""
    from coreai.authoring.asset import AIModelAsset
    from coreai.runtime import NDArray

    answers = []
    async with AIModelAsset.load(path).executable() as model:
        function = model.load_function("main")
        for case in cases:
            answer = await function({name: NDArray(array) for name, array in case.items()})
            answers.append({name: np.array(value.numpy()) for name, value in answer.items()})
    return answers


def widened(array: np.ndarray, wide: bool) -> np.ndarray:
    """fp32 in place of fp16 where that is asked for."""
    return array.astype(np.float32) if wide and array.dtype == np.float16 else array


def answer(folder: Path) -> dict[str, Any]:
    """All of a request; what stands in answer.json."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    graph = read_graph(Path(request["package"]), request["function"])
    watched = tuple(request["watched"])
    files = sorted(folder.glob("given_*.npz"), key=lambda file: int(file.stem.split("_")[1]))
    cases = []
    for file in files:
        with np.load(file) as arrays:
            cases.append({name: widened(arrays[name], request["wide"]) for name in graph.inputs})
    # a program's own names need not be unique here
    names = [f"out_{i}" for i in range(len(graph.outputs) + len(watched))]
    started = time.process_time()
    module = Bridge(
        graph, AppleKernels(), watched, half=torch.float32 if request["wide"] else torch.float16
    )
    convert(
        module,
        {name: torch.from_numpy(value) for name, value in cases[0].items()},
        names,
        request["free"],
        folder / "p.aimodel",
    )
    converted = time.process_time()
    for file, found in zip(files, asyncio.run(execute(folder / "p.aimodel", cases)), strict=True):
        stored = {
            name: found[out] for name, out in zip((*graph.outputs, *watched), names, strict=True)
        }
        np.savez(folder / file.name.replace("given", "answered"), **stored)
    versions = {
        name: version(name) for name in ("coreai-core", "coreai-torch", "torch", "coremltools")
    }
    return {
        "convert_s": converted - started,
        "execute_s": time.process_time() - converted,
        "versions": versions,
    }


def run(argv: list[str] | None) -> int:
    """The command itself. A failure of Apple's tools is a traceback, whose last words the caller
    shows.
    """
    parser = Parser("mlprogram.benches.coreai.runner", __doc__)
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="with request.json and given_N.npz"
    )
    folder = parser.parse_args(argv).folder
    if not (folder / "request.json").is_file():
        raise ProgramError(
            f"{folder} holds no request.json: `python -m mlprogram.benches.coreai.opinion` makes"
            " one and starts this"
        )
    told = answer(folder)
    (folder / "answer.json").write_text(json.dumps(told), encoding="utf-8")
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return exit_code(lambda: run(argv))


if __name__ == "__main__":
    raise SystemExit(main())
