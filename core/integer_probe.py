"""Whether ONNX Runtime multiplies 8-bit integers exactly on this processor: older ones saturate the sum of two products.

    require_exact_integers(path)

A file that has such products (core/onnx_file.py) is refused where they are not exact: it would render noise without a word. The probe is
one ConvInteger over 64 channels of the largest weights (tests/test_integer_conv.py writes it), in a file, since onnx need not be there.
"""

from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from core.errors import InputError

PROBE = "data/integer_probe.onnx"
CHANNELS = 64
LARGEST_WEIGHT, MIDDLE, LARGEST_INPUT = 255, 128, -128  # as quantize/integer_conv.py stores them


def sums() -> np.ndarray:
    """What this processor makes of the probe: int32 [1, 64, 1, 1]."""
    import onnxruntime

    probe = resources.files("core").joinpath(PROBE).read_bytes()
    session = onnxruntime.InferenceSession(probe, providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"x": np.full((1, CHANNELS, 1, 1), LARGEST_INPUT, np.int8)})[0]
    return found


@cache
def are_exact() -> bool:
    """Whether every sum is right."""
    return bool((sums() == CHANNELS * (LARGEST_WEIGHT - MIDDLE) * LARGEST_INPUT).all())


def require_exact_integers(path: Path) -> None:
    """InputError where a file with integer products would be computed wrongly."""
    if not are_exact():
        raise InputError(f"{path} multiplies 8-bit integers, and ONNX Runtime loses bits of their sums on this processor: use w8 or fp32")
