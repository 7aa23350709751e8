"""The chain in ExecuTorch: XNNPACK kernels in float32, one file a function, any length up to the longest.

opened = open_chain(Request(checkpoint, Path("build"), method="fp32"))
"""

from core.pte_file import NAME, TARGET, PteProgram
from pipeline.runtimes.files import FileRuntime

RUNTIME = FileRuntime(NAME, TARGET, PteProgram)
manifest_paths, vocoder_path, vocoder_is_built = RUNTIME.manifest_paths, RUNTIME.vocoder_path, RUNTIME.vocoder_is_built
open_chain, open_manifests, open_vocoder = RUNTIME.open_chain, RUNTIME.open_manifests, RUNTIME.open_vocoder
