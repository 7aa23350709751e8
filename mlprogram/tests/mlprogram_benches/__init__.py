"""Benches of mlprogram: coremltools' own suites, and eager PyTorch."""
