"""The predictor of what the norms of the generator's second stage will measure, before any of its
samples is computed: arrays that are fitted to a checkpoint, and where their file is.

    predictor = require_predictor(checkpoint)
    # [n, 2R]: means, then log variances, of inputs [n, D]; in a graph: streaming_functions.py
    statistics = predictor(inputs)
    path = find_predictor_file(checkpoint)  # None: another architecture, and no streaming layout

AdaIN normalizes every channel over the utterance, so no sample is known before all of it is
rendered. But the 24 means and variances of the second stage depend on what is known earlier: the
moments of what that stage begins with (its upsampler's result and what that reads, its source
convolution's result) and the style. The map from these is a radial basis network, solved by ridge
regression on the checkpoint's own speech (`python -m training.fit_statistics`).

The map knows how statistics change from sentence to sentence. Where a voice or other weights of the
same architecture have them lies elsewhere by a constant, which a few sentences tell: that is the
voice's own vector (vocoder/streaming/voice_statistics.py). So one predictor serves all of them.
PyTorch is not imported: a layout is chosen where only ONNX Runtime is installed, too.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core import (
    PADDED,
    WEIGHTS_SHA256,
    Checkpoint,
    InputError,
    has_kokoros_vocoder,
    parse_json,
    read_npz,
    staged,
)

DATA = Path(__file__).resolve().parents[1] / "data"
FORMAT = 3  # 3: the second stage's, from what enters it
ARRAYS = (
    *("mean", "scale", "axes", "landmarks", "squares", "width"),
    *("hidden", "outer", "bias", "centres"),
)
# the large ones; fp16 of `hidden`, whose terms cancel, would cost a quarter of the accuracy
HALF = ("axes", "landmarks", "outer")
FIT_COMMAND = "python -m training.fit_statistics"


@dataclass(frozen=True, eq=False)
class StatisticsPredictor:
    """The arrays of the map, float32, for D inputs (pooled moments, then the style), m landmarks, k
    of their principal axes, rank r, and R channels of the second stage's norms.

    mean, scale [D]: standardize the inputs. axes [k, D] and landmarks [m, k]: the scaled inputs of
    m sentences, by their coordinates on the axes, since only their products with other inputs are
    needed. squares [m]: their squared lengths; width: of the radial basis function. hidden [r, m],
    outer [2R, r], bias [2R]: the map to means of those norms, then to their log variances. centres:
    the usual mean of each channel of all norms, the first stage's before the second's, which biases
    take off. checkpoint: the hash of the weights that it was fitted to; fitted: how, and its
    held-out error.
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
    fitted: dict[str, Any]

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs [n, D] -> means and log variances [n, 2R] in float64, for fitting and checks."""
        # [n, D]
        z = (inputs - self.mean) * self.scale
        products = z @ self.axes.T @ self.landmarks.T
        # |z - landmark|^2 of every pair [n, m], without a difference of every pair
        distance = np.square(z).sum(1)[:, None] + self.squares[None] - 2 * products
        return np.exp(-distance / self.width) @ self.hidden.T @ self.outer.T + self.bias

    @property
    def usual(self) -> np.ndarray:
        """What the map's last product is added to: of means, less what biases take off; of log
        variances [2R] float64.
        """
        means, log_variances = np.split(self.bias.astype(np.float64), 2)
        # The second stage's centres stand last.
        return np.concatenate([means - self.centres[-len(means) :], log_variances])

    @cached_property
    def sha256(self) -> str:
        """One hash over the arrays."""
        digest = hashlib.sha256()
        for name in ARRAYS:
            # In float32, whatever the file holds: the hash is one of values.
            digest.update(np.ascontiguousarray(getattr(self, name), np.float32).tobytes())
        return digest.hexdigest()


def name_predictor_file(weights_sha256: str) -> str:
    """What the file of a predictor that was fitted to these weights is called."""
    return f"statistics-{weights_sha256[:16]}.npz"


def find_predictor_file(checkpoint: Checkpoint) -> Path | None:
    """The predictor that was fitted to these weights, in the checkpoint's folder or bundled; else
    that of kokoro-int8, for weights of its architecture; None for any other.
    """
    name = name_predictor_file(checkpoint.sha256)
    places = [checkpoint.folder / name, DATA / name]
    if has_kokoros_vocoder(checkpoint.config):
        places.append(DATA / name_predictor_file(WEIGHTS_SHA256))
    return next((path for path in places if path.is_file()), None)


def save_predictor(predictor: StatisticsPredictor, path: Path) -> None:
    """Write an .npz by rename, with the arrays of HALF in fp16."""
    arrays = {name: getattr(predictor, name) for name in ARRAYS}
    arrays |= {name: arrays[name].astype(np.float16) for name in HALF}
    words = {
        "format": FORMAT,
        "checkpoint": predictor.checkpoint,
        "fitted": predictor.fitted,
    }
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez_compressed(
            stream,
            allow_pickle=False,
            **arrays | {"words": np.asarray(json.dumps(words))},
        )


def load_predictor(path: Path) -> StatisticsPredictor:
    """Read what save_predictor wrote. Raises InputError for another kind of file."""
    stored = read_npz(path, f"; `{FIT_COMMAND}` writes it again")
    words = parse_json(str(stored.pop("words")), str(path))
    if words.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {words.get('format')}, not {FORMAT}: `{FIT_COMMAND}` writes it"
            " again"
        )
    arrays = {name: stored[name].astype(np.float32) for name in ARRAYS}
    return StatisticsPredictor(**arrays, checkpoint=words["checkpoint"], fitted=words["fitted"])


def require_predictor(checkpoint: Checkpoint) -> StatisticsPredictor:
    """The checkpoint's predictor, from find_predictor_file. Raises InputError where it has none."""
    path = find_predictor_file(checkpoint)
    if path is None:
        raise InputError(f"{explain_missing_predictor(checkpoint)}; or take --layout {PADDED}")
    return load_predictor(path)


def explain_missing_predictor(checkpoint: Checkpoint) -> str:
    """Why a checkpoint has no predictor, and the command that fits one in a checkout."""
    return (
        f"{checkpoint.name} is not of Kokoro-82M's architecture, whose statistics are bundled:"
        f" `{FIT_COMMAND} --checkpoint {checkpoint.source}` fits its own"
    )
