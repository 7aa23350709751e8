"""Tests of mlprogram: every operation against PyTorch, damaged files, compiled models, numerics,
forecasts.
"""
