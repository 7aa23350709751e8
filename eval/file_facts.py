"""What the file of a runtime is, package or not: eval.package_facts for a package, the same fields read off an .onnx, .pte or .so file.

facts = facts_of(manifest.package_path, frames=80)
"""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from core import pte_file, tvm_file
from core.facts import ProgramFacts
from core.onnx_file import SUFFIX
from eval.package_facts import SHARE_DIGITS, PackageFacts

if TYPE_CHECKING:
    import onnx

CONVOLUTIONS = ("Conv", "ConvTranspose")
INTEGER = ("QLinearConv", "ConvInteger")


def facts_of(path: Path, frames: int) -> PackageFacts:
    """Of a package or file on disk. Only a package has a forecast: nothing else runs on the Neural Engine."""
    if path.suffix == pte_file.SUFFIX:
        return _compiled(path, pte_file.facts(pte_file.PteProgram(path, (), ())), pte_file.TARGET)
    if path.suffix == tvm_file.SUFFIX:
        return _compiled(path, tvm_file.facts(tvm_file.TvmProgram(path, (), ())), tvm_file.TARGET)
    return _onnx(path) if path.suffix == SUFFIX else PackageFacts.read(path, frames)


def _compiled(path: Path, facts: ProgramFacts, target: str) -> PackageFacts:
    """A compiler's own code and layout of weights, float32: entries and bytes are all that can be read."""
    size = path.stat().st_size
    return PackageFacts(size, 0.0, {"compiled float32": size}, dict(facts.operations), target, {})


def _onnx(path: Path) -> PackageFacts:
    import onnx

    model = onnx.load(path)
    stored: Counter[str] = Counter()
    for tensor in model.graph.initializer:
        stored[onnx.TensorProto.DataType.Name(tensor.data_type).lower()] += len(tensor.raw_data)
    operations = Counter(node.op_type for node in model.graph.node if node.op_type != "Constant")
    return PackageFacts(
        bytes=path.stat().st_size,
        int8_macs_share=int8_share(model),
        stored_bytes=dict(sorted(stored.items())),
        operations=dict(sorted(operations.items())),
        minimum_ios=f"ONNX opset {model.opset_import[0].version}",
        forecast={},
    )


def int8_share(model: "onnx.ModelProto") -> float:
    """Share of the convolutions' weights that are multiplied as integers; of weights, since a graph of any length has no lengths."""
    sizes = {tensor.name: len(tensor.raw_data) // (4 if tensor.data_type == 1 else 1) for tensor in model.graph.initializer}
    makers = {output: node for node in model.graph.node for output in node.output}
    total, whole = 0, 0
    for node in (node for node in model.graph.node if node.op_type in (*CONVOLUTIONS, *INTEGER)):
        sources = [makers[name] for name in node.input[:2] if name in makers]
        names = (*node.input, *(name for source in sources for name in source.input))
        size = max((sizes.get(name, 0) for name in names), default=0)
        total += size
        whole += size * (node.op_type in INTEGER or [source.op_type for source in sources] == ["DequantizeLinear"] * 2)
    return round(whole / max(total, 1), SHARE_DIGITS)
