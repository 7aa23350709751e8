"""Voices: style packs from .pt, .bin or .npy, the row for an utterance, blends by weight.

    library = VoiceLibrary(Path("Kokoro-82M/voices"))
    style = style_row(library.blend("af_heart:0.7,am_adam:0.3"), phonemes=42)   # [1, 256], NumPy

A pack holds one style per phoneme count, [510, 1, 256]: columns 0:128 style the decoder, 128:256
the prosody.
"""

import difflib
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kokoro_ane.core.contract import VOICE_SHAPE
from kokoro_ane.core.data_files import NAME
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.hub import read_released
from kokoro_ane.core.tensor_files import plain_tensor, read_npy, read_pt_array, read_tensors
from kokoro_g2p import voice_language

if TYPE_CHECKING:
    from torch import Tensor

SUFFIXES = (".pt", ".bin", ".npy")  # read in this order when a folder has one voice twice
DEFAULT_VOICE = "af_heart"  # as of upstream
_PART = re.compile(
    r"\s*(?P<name>[^\s:()]+)\s*(?::\s*(?P<colon>[^()]*?)|\(\s*(?P<brackets>[^()]*?)\s*\))?\s*"
)
ALL_VOICES = "python -m kokoro_ane.core.kokoro_int8 --voices all"
SHORT, LONG = 80, 300  # phonemes: 4 and 14 seconds
BIN_BYTES = 4 * math.prod(VOICE_SHAPE)  # raw float32, little-endian


@dataclass(frozen=True, eq=False)
class Voice:
    """Who speaks. pack [510, 1, 256] float32: one style for each count of phonemes. statistics [2,
    2R] float32: what the voice adds to the statistics that a layout predicts, at the style of
    SHORT phonemes, and how that changes up to the style of LONG; no columns where a layout
    measures them.
    """

    pack: np.ndarray
    statistics: np.ndarray = field(default_factory=lambda: np.zeros((2, 0), np.float32))

    def statistics_for(self, phonemes: int) -> np.ndarray:
        """What is added in an utterance of so many phonemes: [2R] float32."""
        base, slope = self.statistics
        if not base.size:
            return base
        added: np.ndarray = base + np.float32(style_path(self.pack)[phonemes - 1]) * slope
        return added


def style_path(pack: np.ndarray) -> np.ndarray:
    """How far the decoder's style of each row lies on the line from that of SHORT phonemes (0) to
    that of LONG (1): [510] float64. A voice's rows lie near this line.
    """
    # [510, 128]: the half of each row that styles the decoder
    rows = pack[:, 0, : VOICE_SHAPE[-1] // 2].astype(np.float64)
    line = rows[LONG - 1] - rows[SHORT - 1]
    length = float(line @ line)
    # a voice of one style for every length has no line
    along: np.ndarray = (rows - rows[SHORT - 1]) @ line / (length or 1.0)
    return along


def parse_blend(text: str) -> tuple[tuple[str, float], ...]:
    """Return names and weights that sum to 1 of 'af_heart:0.7,am_adam:0.3', or as Kokoro-FastAPI
    writes it, 'af_heart(7)+am_adam(3)'; without weights all count the same.

    Raises InputError for an empty part, a name given twice, and a weight that is not a positive
    number.
    """
    if not isinstance(text, str):
        raise InputError(f"voice {text!r} is of type {type(text).__name__}: give a name")
    weights: dict[str, float] = {}
    for part in re.split("[,+]", text):
        match = _PART.fullmatch(part)
        name = match["name"] if match else ""
        weight = (match["colon"], match["brackets"]) if match else ("",)
        try:
            # Neither of the two notations: every such part has the weight 1.
            value = float(next((one for one in weight if one is not None), 1))
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            whole = f"voice blend {text!r}: {part.strip()!r}" if text.strip() else f"voice {text!r}"
            raise InputError(
                f"{whole} is not NAME or NAME:WEIGHT with a weight above 0, as in"
                " af_heart:0.7,am_adam:0.3 or af_heart(7)+am_adam(3)"
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
        name = check_voice(text, self.names, str(self.folder))
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
        raise _explain_unknown(name, self.names, str(self.folder))


def list_speakers(language: str, names: Collection[str]) -> list[str]:
    """Those of `names` that speak a language (us, gb, es, ...) by their names, sorted."""
    return sorted(name for name in names if voice_language(name) == language)


def describe_no_speaker(language: str, place: str) -> str:
    """A sentence on a language that no voice of `place` speaks, with those of Kokoro's 54."""
    listed = ", ".join(list_speakers(language, read_released()[0]["voices"]))
    return f"no voice of {place} speaks {language}; `{ALL_VOICES}` adds {listed} to kokoro-int8"


def check_voice(text: str | None, names: Collection[str], place: str) -> str:
    """The name of a voice or blend of which all parts are among `names`; None: the default's.
    Raises InputError, with near names and the list. `place`: where they are.
    """
    if text is None:
        return DEFAULT_VOICE if DEFAULT_VOICE in names else min(names)
    for name, _ in parse_blend(text):
        if name not in names:
            raise _explain_unknown(name, names, place)
    return text


def _explain_unknown(name: str, names: Collection[str], place: str) -> InputError:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    # A voice that exists is worth more than one that is spelled alike.
    if any(name in entry["voices"] for entry in read_released()):
        hint = f"; it is one of Kokoro's 54, which `{ALL_VOICES}` adds to kokoro-int8."
    listed = ", ".join(sorted(names)) or "none"
    return InputError(f"no voice {name!r} in {place}{hint} There are: {listed}")


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
    # Speaking alone needs no PyTorch, so a .pt is read without it where it is missing.
    if find_spec("torch") is None:
        array = read_pt_array(path)
        _require_shape(array, path)
        return np.ascontiguousarray(array, np.float32)
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
    # frombuffer gives a view that cannot be written to.
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
