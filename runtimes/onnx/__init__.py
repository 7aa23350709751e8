"""ONNX Runtime: files of any length, int8 levels."""
