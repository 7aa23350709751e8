"""The chain in ONNX Runtime, on any machine, with or without PyTorch.

opened = open_chain(Request(checkpoint, Path("build"), method="fp32"))
"""

from core.onnx_file import NAME, TARGET, OnnxProgram
from pipeline.runtimes.files import FileRuntime

RUNTIME = FileRuntime(NAME, TARGET, lambda path, inputs, outputs: OnnxProgram(path, outputs))
manifest_paths, vocoder_path, vocoder_is_built = RUNTIME.manifest_paths, RUNTIME.vocoder_path, RUNTIME.vocoder_is_built
open_chain, open_manifests, open_vocoder = RUNTIME.open_chain, RUNTIME.open_manifests, RUNTIME.open_vocoder
