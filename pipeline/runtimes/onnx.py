"""The chain in ONNX Runtime, on any machine, with or without PyTorch.

opened = open_chain(Request(checkpoint, Path("build")))
"""

import core.onnx_file
from pipeline.runtimes import Opened, Request
from pipeline.runtimes.portable import open_portable


def open_chain(request: Request) -> Opened:
    """See pipeline.runtimes."""
    return open_portable(request, core.onnx_file)
