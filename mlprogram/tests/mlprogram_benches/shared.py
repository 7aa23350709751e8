"""What the commands of this folder and the tests share: agreement in dB, memory of the process.

snr_db(reference["y"], other["y"])
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]  # the folder that holds mlprogram_benches/


def snr_db(reference: np.ndarray, other: np.ndarray) -> float:
    """10 log10(|reference|^2 / |reference - other|^2) in float64; infinite where they are equal."""
    reference, other = np.asarray(reference, np.float64), np.asarray(other, np.float64)
    noise = np.square(reference - other).sum()
    return float(10 * np.log10(np.square(reference).sum() / noise)) if noise else float("inf")


def resident_kib(field: str) -> int:
    """VmRSS or VmHWM of this process in KiB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])


def peak_mib(call: Callable[[], object]) -> float:
    """Most memory held during `call` above what was held before, in MiB (Linux: resident memory,
    its high-water mark reset before).
    """
    import ctypes

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # give freed pages back, so that they count again
    before = resident_kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets VmHWM
    call()
    return (resident_kib("VmHWM") - before) / 1024
