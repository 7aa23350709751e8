"""ExecuTorch: .pte files for XNNPACK, and the Core ML delegate."""
