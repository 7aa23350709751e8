"""Tensors from a file, and nothing else: safetensors, or torch.load that runs no pickled code.

tensors = read_tensors(Path("kokoro-v1_0.pth"))
"""

import pickle
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kokoro_ane.core.errors import InputError
from kokoro_ane.core.staging import staged

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

MAX_ELEMENTS = 1 << 31  # of one tensor: a stored one may be a single number repeated over any shape


@contextmanager
def _explain_unreadable(file: "Path | IO[bytes]", kind: str, again: str = "") -> Iterator[None]:
    """Whatever a library raises over a damaged file, or over another kind of file, becomes an
    InputError in one line, which ends with `again`.
    """
    # A pipe would be waited for without end.
    if isinstance(file, Path) and not file.is_file():
        state = "is not a file" if file.exists() else "does not exist"
        raise InputError(f"{file} {state}{again}")
    try:
        yield
    except MemoryError:
        raise
    except Exception as problem:  # noqa: BLE001
        # a damaged header is evaluated as a literal, a dtype is looked up by name: any class
        reason = str(problem).strip().splitlines() or [type(problem).__name__]
        name = file if isinstance(file, Path) else getattr(file, "name", "it")
        raise InputError(f"{name} cannot be read as {kind}: {reason[0][:120]}{again}") from None


def read_tensors(path: Path) -> Any:
    """Return what torch.load reads with weights_only. Raises InputError: truncated, or it holds
    anything but tensors.
    """
    import torch

    with _explain_unreadable(path, "a PyTorch file (truncated, or not weights)"):
        return torch.load(path, map_location="cpu", weights_only=True)


# storages of floats that NumPy has, by PyTorch's name
STORAGES = {"DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2"}


def read_pt_array(path: Path) -> "np.ndarray":
    """Return the tensor of a .pt file that torch.save wrote, read without PyTorch: one of floats,
    such as a voice; a view, whose shape may be any. Raises InputError: anything else.
    """
    import numpy as np

    def rebuilt(stored: Any, offset: int, size: Any, stride: Any, *_: Any) -> np.ndarray:
        """What PyTorch calls _rebuild_tensor_v2."""
        # The farthest number that shape and strides reach, counted in numbers.
        last = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
        if min(offset, *size, *stride) < 0 or last >= len(stored):
            raise ValueError("its shape is larger than what it holds")
        steps = [step * stored.itemsize for step in stride]
        # A view: one stored number may stand for any shape, and a copy would fill the memory.
        view: np.ndarray = np.lib.stride_tricks.as_strided(stored[offset:], size, steps)
        return view

    allowed: dict[tuple[str, str], Any] = {
        ("torch._utils", "_rebuild_tensor_v2"): rebuilt,
        ("collections", "OrderedDict"): OrderedDict,
        **{("torch", name): dtype for name, dtype in STORAGES.items()},
    }

    class TensorUnpickler(pickle.Unpickler):
        """Calls nothing but what is allowed."""

        def find_class(self, module: str, name: str) -> Any:
            if (module, name) not in allowed:
                raise pickle.UnpicklingError(f"it holds {module}.{name}")
            return allowed[module, name]

        def persistent_load(self, key: Any) -> np.ndarray:
            # ("storage", its type, its name in the archive, where it was, how many numbers)
            _, dtype, name, _, count = key
            entry = archive.getinfo(f"{folder}data/{name}")
            # PyTorch compresses nothing: what is read is no larger than the file
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError("its numbers are compressed")
            return np.frombuffer(archive.read(entry), dtype, count)

    with (
        _explain_unreadable(path, "a PyTorch file of one tensor"),
        zipfile.ZipFile(path) as archive,
    ):
        # Exactly one, or this is no file of torch.save; the unpacking raises otherwise.
        (index,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        folder = index.removesuffix("data.pkl")
        with archive.open(index) as stream:
            tensor = TensorUnpickler(stream).load()
        if not isinstance(tensor, np.ndarray):
            raise ValueError(f"it holds a {type(tensor).__name__}")
        return tensor


def plain_tensor(value: Any, where: str) -> "Tensor":
    """`value` in float32 (whole numbers stay whole), if it is a dense, stored, finite, real tensor;
    else InputError naming `where`.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        raise InputError(f"{where} is a {type(value).__name__}, not a tensor")
    odd = {
        "on the meta device, without values": value.is_meta,
        "sparse": value.layout != torch.strided,
        "nested": value.is_nested,
        "quantized": value.is_quantized,
        "complex": value.is_complex(),
    }
    kind = next((name for name, holds in odd.items() if holds), None)
    if kind is not None:
        raise InputError(f"{where} is {kind}: a dense tensor of real numbers is needed")
    if value.numel() > MAX_ELEMENTS:
        raise InputError(
            f"{where} has shape {list(value.shape)[:8]}: more than {MAX_ELEMENTS} numbers"
        )
    if not value.is_floating_point():
        return value
    value = value.float()
    if not bool(torch.isfinite(value).all()):
        raise InputError(f"{where} holds NaN or infinity")
    return value


def read_npy(path: Path) -> "np.ndarray":
    """Return the array of a .npy file. Raises InputError: truncated, objects in it, or a header
    that claims more than the file holds.
    """
    import numpy as np

    with _explain_unreadable(path, "a NumPy array"):
        # mapped first: that compares the header with the file's size
        return np.array(np.load(path, mmap_mode="r", allow_pickle=False))


def read_npz(
    file: "Path | IO[bytes]", again: str = "", names: Sequence[str] = ()
) -> "dict[str, np.ndarray]":
    """Return the arrays of an .npz, or those of these `names`. Raises InputError, which ends with
    `again`: damaged, encrypted, one is missing, objects.
    """
    import numpy as np

    with _explain_unreadable(file, "arrays", again), np.load(file, allow_pickle=False) as stored:
        return {name: stored[name] for name in names or stored.files}


def read_safetensors(path: Path) -> "dict[str, dict[str, Tensor]]":
    """Return state dicts by part, from keys "PART.KEY". Raises InputError: truncated, or something
    else.
    """
    from safetensors.torch import load_file

    with _explain_unreadable(path, "safetensors (truncated, or not weights)"):
        return split_by_part(load_file(path))


def split_by_part(tensors: "Mapping[str, Tensor]") -> "dict[str, dict[str, Tensor]]":
    """The state dict of a whole model, keys "PART.KEY", as one of each part."""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        part, _, key = str(name).partition(".")
        parts.setdefault(part, {})[key] = tensor
    return parts


def keep_npz(
    path: Path, arrays: "Mapping[str, np.ndarray]", what: str, packed: bool = False
) -> None:
    """Write arrays into a cache, aside and renamed; `packed`: compressed. Where that fails a line
    on stderr says that `what` (features are) not kept; it is made again then.
    """
    import numpy as np

    write = np.savez_compressed if packed else np.savez
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with staged(path) as aside, aside.open("wb") as stream:
            write(stream, allow_pickle=False, **arrays)
    except (OSError, InputError) as problem:
        print(f"{what} not kept: {problem}", file=sys.stderr)
