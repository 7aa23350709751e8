"""The chain in TVM: machine code for one kind of processor, one library a function, any length up to the longest.

opened = open_chain(Request(checkpoint, Path("build"), method="fp32"))
"""

from core.tvm_file import NAME, TARGET, TvmProgram
from pipeline.runtimes.files import FileRuntime

RUNTIME = FileRuntime(NAME, TARGET, TvmProgram)
manifest_paths, vocoder_path, vocoder_is_built = RUNTIME.manifest_paths, RUNTIME.vocoder_path, RUNTIME.vocoder_is_built
open_chain, open_manifests, open_vocoder = RUNTIME.open_chain, RUNTIME.open_manifests, RUNTIME.open_vocoder
