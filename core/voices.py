"""Voices: style packs from .pt, .bin or .npy, the row for an utterance, blends by weight.

    library = VoiceLibrary(Path("Kokoro-82M/voices"))
    style = style_row(library.blend("af_heart:0.7,am_adam:0.3"), phonemes=42)   # [1, 256], NumPy

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
DEFAULT_VOICE = "af_heart"  # as of upstream
BIN_BYTES = 4 * math.prod(VOICE_SHAPE)  # raw float32, little-endian


def parse_blend(text: str) -> tuple[tuple[str, float], ...]:
    """Return names and weights that sum to 1 of 'af_heart:0.7,am_adam:0.3'; without weights all
    count the same.

    Raises InputError for an empty part, a name given twice, and a weight that is not a positive
    number.
    """
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, colon, weight = (word.strip() for word in part.partition(":"))
        try:
            value = float(weight) if colon else 1.0
        except ValueError:
            value = math.nan
        if not name or not 0 < value < math.inf:
            raise InputError(
                f"voice blend {text!r}: {part.strip()!r} is not NAME or NAME:WEIGHT with a weight"
                " above 0, as in af_heart:0.7,am_adam:0.3"
            )
        if name in weights:
            raise InputError(f"voice blend {text!r} names {name!r} twice: give it one weight")
        weights[name] = value
    # divided by the largest first: 1e308 twice would add up to infinity
    largest = max(weights.values())
    scaled = {name: value / largest for name, value in weights.items()}
    total = sum(scaled.values())
    return tuple((name, value / total) for name, value in scaled.items())


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

    def chosen(self, text: str | None) -> tuple[str, np.ndarray]:
        """Return the name and the style pack of a voice or blend; by default upstream's voice, or
        the first where the folder lacks that. Raises InputError where the folder holds none.
        """
        if not self.names:
            raise InputError(f"{self.folder} holds no voice")
        name = text or (DEFAULT_VOICE if DEFAULT_VOICE in self.names else self.names[0])
        return name, self.blend(name)

    def blend(self, text: str) -> np.ndarray:
        """The weighted mean of the packs that `text` names: [510, 1, 256] float32."""
        first, *others = (
            np.float32(weight) * self.pack(name) for name, weight in parse_blend(text)
        )
        return sum(others, start=first)

    def pack(self, name: str) -> np.ndarray:
        """Style pack [510, 1, 256] in float32; InputError gives near matches and the list when
        there is no such voice.
        """
        # Only a name that is listed becomes part of a path.
        places = [self.folder / f"{name}{suffix}" for suffix in SUFFIXES if name in self.names]
        path = next((path for path in places if path.is_file()), None)
        if path is not None:
            return read_pack(path)
        near = difflib.get_close_matches(name, self.names, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise InputError(
            f"no voice {name!r} in {self.folder}{hint} There are: {', '.join(self.names) or 'none'}"
        )


def read_pack(path: Path) -> np.ndarray:
    """Read one pack by its suffix: [510, 1, 256] in float32. Raises InputError: unreadable, another
    shape, NaN or infinity.
    """
    pack = {".pt": _read_pt, ".bin": _read_bin, ".npy": _read_npy}[path.suffix](path)
    _require_shape(pack, path)
    if not np.isfinite(pack).all():
        raise InputError(f"{path} holds NaN or infinity")
    # A file that was never written to, or was overwritten, reads as zeros.
    if not pack.any():
        raise InputError(f"{path} holds nothing but zeros: that is no voice")
    return pack


def _require_shape(pack: "np.ndarray | Tensor", path: Path) -> None:
    if tuple(pack.shape) != VOICE_SHAPE:
        raise InputError(
            f"{path} has shape {list(pack.shape)[:8]}, a voice pack has {list(VOICE_SHAPE)}"
        )


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
    # before it is widened: one stored number may stand for any shape
    _require_shape(pack, path)
    pack = plain_tensor(pack, str(path))
    if not pack.is_floating_point():
        raise InputError(f"{path} holds {pack.dtype}: that is no voice")
    return pack.contiguous().numpy()


def _read_bin(path: Path) -> np.ndarray:
    size = path.stat().st_size
    if size != BIN_BYTES:
        raise InputError(
            f"{path} has {size} bytes; raw float32 of shape {list(VOICE_SHAPE)} is {BIN_BYTES}"
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
