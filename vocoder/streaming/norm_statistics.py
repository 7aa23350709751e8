"""The predictor of what the norms of the generator's second stage will measure, before any of its
samples is computed: arrays that are fitted to a checkpoint, and where their file is.

    predictor = predictor_of(checkpoint)
    # [n, 2R]: means, then log variances, of inputs [n, D]; in a graph: streaming_functions.py
    statistics = predictor(inputs)
    path = statistics_file(checkpoint)  # None: it has none, and no streaming layout

AdaIN normalizes every channel over the utterance, so no sample is known before all of it is
rendered. But the 24 means and variances of the second stage depend on what is known earlier: the
moments of what that stage begins with (its upsampler's result and what that reads, its source
convolution's result) and the style. The map from these is a radial basis network, solved by ridge
regression on the checkpoint's own speech (`python -m training.fit_statistics`). PyTorch is not
imported: a layout is chosen where only ONNX Runtime is installed, too.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.data_files import parse_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8.cache import cache_root
from kokoro_ane.core.staging import staged
from kokoro_ane.core.tensor_files import read_npz

DATA = Path(__file__).resolve().parents[1] / "data"
FORMAT = 3  # 3: the second stage's, from what enters it
ARRAYS = (
    *("mean", "scale", "axes", "landmarks", "squares", "width"),
    *("hidden", "outer", "bias", "centres"),
)
# the large ones; fp16 of `hidden`, whose terms cancel, would cost a quarter of the accuracy
HALF = ("axes", "landmarks", "outer")


@dataclass(frozen=True, eq=False)
class StatisticsPredictor:
    """The arrays of the map, float32, for D inputs (pooled moments, then the style), m landmarks, k
    of their principal axes, rank r, and R channels of the second stage's norms.

    mean, scale [D]: standardize the inputs. axes [k, D] and landmarks [m, k]: the scaled inputs of
    m sentences, by their coordinates on the axes, since only their products with other inputs are
    needed. squares [m]: their squared lengths; width: of the radial basis function. hidden [r, m],
    outer [2R, r], bias [2R]: the map to means of those norms, then to their log variances. centres:
    the usual mean of each channel of all norms, the first stage's before the second's, which biases
    take off. checkpoint: the hash of the weights that it was fitted to; voices: those of its
    sentences; fitted: how, and its held-out error.
    """

    mean: np.ndarray
    scale: np.ndarray
    axes: np.ndarray
    landmarks: np.ndarray
    squares: np.ndarray
    width: np.ndarray
    hidden: np.ndarray
    outer: np.ndarray
    bias: np.ndarray
    centres: np.ndarray
    checkpoint: str
    voices: tuple[str, ...]
    fitted: dict[str, Any]

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs [n, D] -> means and log variances [n, 2R] in float64, for fitting and checks."""
        z = (inputs - self.mean) * self.scale
        products = z @ self.axes.T @ self.landmarks.T
        distance = np.square(z).sum(1)[:, None] + self.squares[None] - 2 * products
        return np.exp(-distance / self.width) @ self.hidden.T @ self.outer.T + self.bias

    @property
    def sha256(self) -> str:
        """One hash over the arrays."""
        digest = hashlib.sha256()
        for name in ARRAYS:
            digest.update(np.ascontiguousarray(getattr(self, name), np.float32).tobytes())
        return digest.hexdigest()


def predictor_path(checkpoint: Checkpoint) -> Path:
    """Where a predictor that the user fits to these weights is stored, in the user's cache."""
    return cache_root() / "statistics" / f"{checkpoint.sha256[:16]}.npz"


def statistics_file(checkpoint: Checkpoint) -> Path | None:
    """The predictor that the user fitted, else the one in the checkpoint's folder, else the bundled
    one; None where these weights have none.
    """
    name = f"statistics-{checkpoint.sha256[:16]}.npz"
    places = (predictor_path(checkpoint), checkpoint.folder / name, DATA / name)
    return next((path for path in places if path.is_file()), None)


def fit_command(checkpoint: Checkpoint) -> str:
    """The command that fits a predictor, in a checkout."""
    return f"python -m training.fit_statistics --checkpoint {checkpoint.source}"


def save_predictor(predictor: StatisticsPredictor, path: Path) -> None:
    """Write an .npz by rename, with the arrays of HALF in fp16."""
    arrays = {name: getattr(predictor, name) for name in ARRAYS}
    arrays |= {name: arrays[name].astype(np.float16) for name in HALF}
    words = {
        "format": FORMAT,
        "checkpoint": predictor.checkpoint,
        "voices": list(predictor.voices),
        "fitted": predictor.fitted,
    }
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez_compressed(
            stream,
            allow_pickle=False,
            **arrays | {"words": np.asarray(json.dumps(words))},
        )


def load_predictor(path: Path, checkpoint: Checkpoint) -> StatisticsPredictor:
    """Read what save_predictor wrote. Raises InputError for another kind of file and for a
    predictor of other weights.
    """
    stored = read_npz(path, f"; `{fit_command(checkpoint)}` writes it again")
    words = parse_json(str(stored.pop("words")), str(path))
    if words.get("format") != FORMAT or words["checkpoint"] != checkpoint.sha256:
        message = (
            f"{path} was fitted to weights {str(words.get('checkpoint'))[:12]}, {checkpoint.name}"
            f" has {checkpoint.sha256[:12]}"
        )
        raise InputError(f"{message}: `{fit_command(checkpoint)}` fits one")
    arrays = {name: stored[name].astype(np.float32) for name in ARRAYS}
    return StatisticsPredictor(
        **arrays,
        checkpoint=words["checkpoint"],
        voices=tuple(words["voices"]),
        fitted=words["fitted"],
    )


def predictor_of(checkpoint: Checkpoint) -> StatisticsPredictor:
    """The checkpoint's predictor, from statistics_file. Raises InputError, with the command that
    fits one, where these weights have none.
    """
    path = statistics_file(checkpoint)
    if path is None:
        message = (
            f"{checkpoint.name} has no predicted statistics: `{fit_command(checkpoint)}` fits them,"
            " some 10 s of one core a sentence"
        )
        raise InputError(f"{message}; or take --layout {PADDED}")
    return load_predictor(path, checkpoint)
