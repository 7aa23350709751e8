"""What the norms of the generator's second stage would measure, told before any of its samples is
computed: a predictor fitted to a checkpoint, kept as arrays.

    predictor = predictor_of(checkpoint)
    # [n, 2R]: means, then log variances, of inputs [n, D]; in a graph: streaming_functions.py
    statistics = predictor(inputs)

AdaIN normalizes every channel over the utterance, so no sample is there before all of it is
rendered. But the 24 means and variances of the second stage hang on what is known before: the
moments of what that stage begins with (its upsampler's result and what that reads, its source
convolution's result) and the style. The map from these is a radial basis network, solved by ridge
regression on the checkpoint's own speech (`python -m training.fit_statistics`).
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import PADDED
from kokoro_ane.core.data_files import parse_json
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.staging import staged
from kokoro_ane.core.tensor_files import read_npz
from kokoro_ane.vocoder.streaming.statistics_file import fit_command, statistics_file

FORMAT = 3  # 3: the second stage's, from what enters it
INPUT_ARRAYS = ("mean", "scale", "axes", "landmarks", "squares", "width")
ARRAYS = (*INPUT_ARRAYS, "hidden", "outer", "bias", "centres")
# the large ones; fp16 of `hidden`, whose terms cancel, would cost a quarter of the accuracy
HALF = ("axes", "landmarks", "outer")


@dataclass(frozen=True, eq=False)
class StatisticsPredictor:
    """The arrays of the map, float32. D inputs (pooled moments, then the style), m landmarks, k of
    their principal axes, rank r, R channels of the second stage's norms.

    mean, scale [D]: of the inputs. axes [k, D]; landmarks [m, k]: scaled inputs of m sentences by
    their places on the axes, since only their products with other inputs are needed; squares [m]:
    of their lengths; width: of their bells. hidden [r, m], outer [2R, r], bias [2R]: means of those
    norms, then their log variances. centres: the usual mean of each channel of all norms, the first
    stage's before the second's, which biases take off. `checkpoint`: hash of the weights that it
    was fitted to; `voices`: those that took part; `fitted`: how, and its held-out error.
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
        """Inputs [n, D] -> means and log variances [n, 2R], float64: for fitting and checks."""
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


class HiddenStatistics(nn.Module):
    """The predictor up to its last product, as 1x1 convolutions in float32: how near the utterance
    is to each landmark.
    """

    mean: Tensor
    scale: Tensor
    axes: Tensor
    landmarks: Tensor
    squares: Tensor
    hidden: Tensor

    def __init__(self, predictor: StatisticsPredictor) -> None:
        super().__init__()
        for name in ("mean", "scale"):
            self.register_buffer(
                name, torch.from_numpy(getattr(predictor, name)).float().view(1, -1, 1, 1)
            )
        for name in ("axes", "landmarks", "hidden"):
            self.register_buffer(
                name, torch.from_numpy(getattr(predictor, name)).float()[:, :, None, None]
            )
        self.register_buffer("squares", torch.from_numpy(predictor.squares).float())
        self.width = float(predictor.width)

    def forward(self, inputs: Tensor) -> Tensor:
        """inputs [1, D, 1, 1]: pooled moments, then the style -> [1, r, 1, 1]."""
        z = (inputs - self.mean) * self.scale
        places = F.conv2d(z, self.axes)  # [1, k, 1, 1]
        # [1, m, 1, 1]
        distance = F.conv2d(places, -2 * self.landmarks, self.squares)
        distance = distance + z.square().sum(dim=1, keepdim=True)
        return F.conv2d(torch.exp(distance * (-1 / self.width)), self.hidden)


def save_predictor(predictor: StatisticsPredictor, path: Path) -> None:
    """Write an .npz by rename: arrays in fp16 where the graph takes them so."""
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
    """InputError: not written by save_predictor, of another checkpoint's weights."""
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
    """The checkpoint's own (statistics_file says which). InputError, with the command, where these
    weights have none.
    """
    path = statistics_file(checkpoint)
    if path is None:
        message = (
            f"{checkpoint.name} has no predicted statistics: `{fit_command(checkpoint)}` fits them,"
            " some 10 s of one core a sentence"
        )
        raise InputError(f"{message}; or take --layout {PADDED}")
    return load_predictor(path, checkpoint)
