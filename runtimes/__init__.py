"""Who computes the chain: one folder or file each for PyTorch, mlprogram, Core ML, ONNX Runtime,
ExecuTorch and TVM.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
