"""Benches of mlprogram: coremltools' own suites, Apple's Core AI runtime."""
