"""Who computes the chain: one folder or file each for PyTorch, mlprogram, Core ML, ONNX Runtime,
ExecuTorch and TVM.
"""
