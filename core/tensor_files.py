"""Tensors from a file, and nothing else: torch.load that runs no pickled code.

tensors = read_tensors(Path("kokoro-v1_0.pth"))
"""

from pathlib import Path
from typing import Any

from core.errors import InputError


def read_tensors(path: Path) -> Any:
    """torch.load with weights_only; InputError when the file is truncated or holds anything but tensors."""
    import pickle

    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError, ValueError, KeyError) as problem:
        reason = str(problem).strip().splitlines() or [type(problem).__name__]
        raise InputError(f"{path} cannot be read as a PyTorch file (truncated, or not weights): {reason[0][:120]}") from None
