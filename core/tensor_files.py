"""Tensors from a file, and nothing else: safetensors, or torch.load that runs no pickled code.

tensors = read_tensors(Path("kokoro-v1_0.pth"))
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


def read_tensors(path: Path) -> Any:
    """torch.load with weights_only; InputError when the file is truncated or holds anything but tensors."""
    import pickle

    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError, ValueError, KeyError) as problem:
        reason = str(problem).strip().splitlines() or [type(problem).__name__]
        raise InputError(f"{path} cannot be read as a PyTorch file (truncated, or not weights): {reason[0][:120]}") from None


def read_safetensors(path: Path) -> "dict[str, dict[str, Tensor]]":
    """State dicts by part, from keys "PART.KEY". InputError when the file is truncated or something else."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as problem:
        raise InputError(f"{path} cannot be read as safetensors (truncated, or not weights): {str(problem)[:120]}") from None
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        part, _, key = name.partition(".")
        parts.setdefault(part, {})[key] = tensor
    return parts
