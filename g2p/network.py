"""The neural model in NumPy: the same arithmetic as g2p/model.py, without PyTorch's start and memory.

    run = numpy_run(*load_arrays())
    run(ids)        # ids [B, S] int32 -> logits [B, S, 2 * sounds] float32

PyTorch trains the model and exports it; what runs reads the same weights here. A test holds both to the same answers on the held-out words.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from g2p.alphabet import FRAMES, PADDING
from g2p.sizes import EXCLUDED, Config

Arrays = Mapping[str, np.ndarray]
EPSILON = np.float32(1e-5)  # of the layer normalization


def numpy_run(arrays: Arrays, config: Config) -> Callable[[np.ndarray], np.ndarray]:
    """The function NeuralG2P reads with. Raises KeyError for arrays that are not the model's."""
    network = Network(arrays, config)
    network(np.ones((1, 1), dtype=np.int32))  # an array that is missing is told now
    return network


class Network:
    """One responsibility: logits of ids. `arrays` holds the parameters by their names in g2p/model.py, float32."""

    def __init__(self, arrays: Arrays, config: Config) -> None:
        self._arrays, self._config = arrays, config

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        """ids [B, S] -> [B, S, 2 * sounds]; what stands in the padding means nothing."""
        inside = (ids != PADDING).astype(np.float32)  # [B, S]
        excluded = ((inside - 1) * np.float32(EXCLUDED))[:, None]  # [B, 1, S]
        x = self._arrays["embedding.weight"][ids]  # [B, S, C]
        for number in range(1, self._config.blocks + 1):
            x = self._block(f"blocks.{number - 1}", x, inside[..., None], excluded)
            if number in self._config.answers:
                logits = self._linear("answer", self._norm("norm", x))
                guess = np.concatenate([softmax(frame) for frame in np.split(logits, FRAMES, axis=2)], axis=2)
                x = x + self._linear("condition", guess)
        return self._linear("answer", self._norm("norm", x))

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self._arrays[f"{name}.weight"].T + self._arrays[f"{name}.bias"]

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return centred / np.sqrt(variance + EPSILON) * self._arrays[f"{name}.weight"] + self._arrays[f"{name}.bias"]

    def _block(self, name: str, x: np.ndarray, inside: np.ndarray, excluded: np.ndarray) -> np.ndarray:
        x = x + self._attention(f"{name}.attention", self._norm(f"{name}.norms.0", x), excluded)
        near = np.pad(self._norm(f"{name}.norms.1", x) * inside, ((0, 0), (1, 1), (0, 0)))  # [B, S + 2, C]
        taps = np.concatenate([near[:, :-2], near[:, 1:-1], near[:, 2:]], axis=2)  # [B, S, 3C]
        return x + self._linear(f"{name}.narrow", np.maximum(self._linear(f"{name}.taps", taps), 0))

    def _attention(self, name: str, x: np.ndarray, excluded: np.ndarray) -> np.ndarray:
        heads = self._config.heads
        scale = np.float32(1 / math.sqrt(self._config.width // heads))
        parts = (np.split(self._linear(f"{name}.{part}", x), heads, axis=2) for part in ("query", "key", "value"))
        mixed = [softmax(query @ key.transpose(0, 2, 1) * scale + excluded) @ value for query, key, value in zip(*parts, strict=True)]
        return self._linear(f"{name}.out", np.concatenate(mixed, axis=2))  # heads of [B, S, C / heads] -> [B, S, C]


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
