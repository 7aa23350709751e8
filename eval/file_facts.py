"""What the file of a runtime is, package or not: eval.package_facts for a package, the same fields read off an .onnx, .pte or .so file.

facts = facts_of(manifest.package_path, frames=80)
"""

from collections import Counter
from pathlib import Path

from core import pte_file, tvm_file
from core.facts import ProgramFacts
from core.onnx_file import SUFFIX
from eval.package_facts import PackageFacts


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

    from core.onnx_graph import int8_macs_share, operations

    model = onnx.load(path)
    stored: Counter[str] = Counter()
    for tensor in model.graph.initializer:
        stored[onnx.TensorProto.DataType.Name(tensor.data_type).lower()] += len(tensor.raw_data)
    return PackageFacts(
        bytes=path.stat().st_size,
        int8_macs_share=int8_macs_share(model),
        stored_bytes=dict(sorted(stored.items())),
        operations=operations(model),
        minimum_ios=f"ONNX opset {model.opset_import[0].version}",
        forecast={},
    )
