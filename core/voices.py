"""Voices: style packs from .pt, .bin or .npy, the row for an utterance, blends by weight.

    library = VoiceLibrary(Path("Kokoro-82M/voices"))
    style = style_row(library.blend("af_heart:0.7,am_adam:0.3"), phonemes=42)   # [1, 256]

A pack holds one style per phoneme count, [510, 1, 256]: columns 0:128 style the decoder, 128:256
the prosody.
"""

import difflib
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kokoro_ane.core.contract import VOICE_SHAPE
from kokoro_ane.core.data_files import NAME
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.tensor_files import plain_tensor, read_npy, read_tensors

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".pt", ".bin", ".npy")  # read in this order when a folder has one voice twice
BIN_BYTES = 4 * math.prod(VOICE_SHAPE)  # raw float32, little-endian


def parse_blend(text: str) -> tuple[tuple[str, float], ...]:
    """'af_heart:0.7,am_adam:0.3' -> names and weights that sum to 1; without weights all count the
    same.

    Raises InputError for an empty part, a name given twice, and a weight that is not a positive
    number.
    """
    parts = [part.strip() for part in text.split(",")]
    weighted = [_weighted(part, text) for part in parts]
    names = [name for name, _ in weighted]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"voice blend {text!r} names {twice!r} twice: give it one weight")
    largest = max(weight for _, weight in weighted)
    # or 1e308 twice would add up to infinity
    weighted = [(name, weight / largest) for name, weight in weighted]
    total = sum(weight for _, weight in weighted)
    return tuple((name, weight / total) for name, weight in weighted)


def _weighted(part: str, text: str) -> tuple[str, float]:
    name, colon, weight = part.partition(":")
    try:
        value = float(weight) if colon else 1.0
    except ValueError:
        value = math.nan
    if not name.strip() or not 0 < value < math.inf:
        raise InputError(
            f"voice blend {text!r}: {part!r} is not NAME or NAME:WEIGHT with a weight above 0, as"
            " in af_heart:0.7,am_adam:0.3"
        )
    return name.strip(), value


@dataclass(frozen=True)
class VoiceLibrary:
    """Responsibilities: 1. know which voices a folder holds; 2. read them, strictly; 3. mix
    them.
    """

    folder: Path

    @property
    def names(self) -> tuple[str, ...]:
        """Every voice in the folder."""
        return tuple(
            sorted(
                {
                    path.stem
                    for path in self.folder.glob("*")
                    if path.suffix in SUFFIXES and NAME.fullmatch(path.stem)
                }
            )
        )

    def pack(self, name: str) -> "Tensor":
        """Style pack [510, 1, 256] in float32; InputError gives near matches and the list when
        there is no such voice.
        """
        return _tensor(self.pack_array(name))

    def chosen(self, text: str | None) -> tuple[str, np.ndarray]:
        """A voice or a blend as it was asked for, else the first, with its style pack. InputError
        where the folder holds none.
        """
        if not self.names:
            raise InputError(f"{self.folder} holds no voice")
        name = text or self.names[0]
        return name, self.blend_array(name)

    def blend(self, text: str) -> "Tensor":
        """The weighted mean of the packs that `text` names: [510, 1, 256]."""
        return _tensor(self.blend_array(text))

    def blend_array(self, text: str) -> np.ndarray:
        """The same in NumPy: .bin and .npy are read without PyTorch."""
        first, *others = (
            np.float32(weight) * self.pack_array(name) for name, weight in parse_blend(text)
        )
        return sum(others, start=first)

    def pack_array(self, name: str) -> np.ndarray:
        """`pack` in NumPy."""
        is_listed = name in self.names  # else the name is not put into a path
        path = next(
            (
                self.folder / f"{name}{suffix}"
                for suffix in SUFFIXES
                if is_listed and (self.folder / f"{name}{suffix}").is_file()
            ),
            None,
        )
        if path is None:
            raise InputError(self._unknown(name))
        return read_array(path)

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.names, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return (
            f"no voice {name!r} in {self.folder}{hint} There are: {', '.join(self.names) or 'none'}"
        )


def read_pack(path: Path) -> "Tensor":
    """`read_array` as a tensor."""
    return _tensor(read_array(path))


def read_array(path: Path) -> np.ndarray:
    """Read one pack by its suffix: [510, 1, 256] in float32. Raises InputError: unreadable, another
    shape, NaN or infinity.
    """
    pack = {".pt": _read_pt, ".bin": _read_bin, ".npy": _read_npy}[path.suffix](path)
    if pack.shape != VOICE_SHAPE:
        raise InputError(
            f"{path} has shape {list(pack.shape)[:8]}, a voice pack has {list(VOICE_SHAPE)}"
        )
    if not np.isfinite(pack).all():
        raise InputError(f"{path} holds NaN or infinity")
    if not pack.any():
        raise InputError(f"{path} holds nothing but zeros: that is no voice")
    return pack


def _tensor(pack: np.ndarray) -> "Tensor":
    import torch

    return torch.from_numpy(pack)


def _read_pt(path: Path) -> np.ndarray:
    if find_spec("torch") is None:
        raise InputError(
            f"{path} is read by PyTorch, which is not installed: put {path.stem}.bin beside it, or"
            " `pip install torch`"
        )
    import torch

    pack = read_tensors(path)
    if not isinstance(pack, torch.Tensor):
        raise InputError(
            f"{path} holds a {type(pack).__name__}, not a tensor of shape {list(VOICE_SHAPE)}"
        )
    if tuple(pack.shape) != VOICE_SHAPE:
        raise InputError(
            f"{path} has shape {list(pack.shape)[:8]}, a voice pack has {list(VOICE_SHAPE)}"
        )
    pack = plain_tensor(pack, str(path))
    if not pack.is_floating_point():
        raise InputError(f"{path} holds {pack.dtype}: that is no voice")
    return pack.contiguous().numpy()


def _read_bin(path: Path) -> np.ndarray:
    if path.stat().st_size != BIN_BYTES:
        raise InputError(
            f"{path} has {path.stat().st_size} bytes; raw float32 of shape {list(VOICE_SHAPE)} is"
            f" {BIN_BYTES}"
        )
    return np.frombuffer(path.read_bytes(), "<f4").reshape(VOICE_SHAPE).copy()


def _read_npy(path: Path) -> np.ndarray:
    pack = read_npy(path)
    if not np.issubdtype(pack.dtype, np.floating):
        raise InputError(f"{path} holds {pack.dtype}, a voice pack holds floats")
    return np.ascontiguousarray(pack, np.float32)


Rows = TypeVar("Rows", "np.ndarray", "Tensor")


def style_row(pack: Rows, phonemes: int) -> Rows:
    """The style [1, 256] for an utterance of `phonemes` symbols: row phonemes - 1, as upstream."""
    if not 1 <= phonemes <= len(pack):
        raise InputError(
            f"{phonemes} phonemes: a voice pack has a style for 1 to {len(pack)}; split the text"
        )
    return pack[phonemes - 1]
