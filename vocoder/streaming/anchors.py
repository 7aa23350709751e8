"""Anchors: what three settling sentences of a voice leave on the weights whose voices are bundled
as settled. Said again on other weights, they tell in a quarter of the time what those add.

    anchor = find_anchor(predictor, voice)  # None: no bundled voice
    anchor.compute_residuals(along)         # [3, 2R]

A sentence's residual is its voice's line (voice_statistics.py) and a deviation of its own, which is
as large as the predictor's error. On weights that lie near, a sentence deviates by nearly the same
amount, and the difference of the two residuals is free of it.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from kokoro_ane.core import InputError, conform, parse_json, read_npz, staged
from kokoro_ane.vocoder.streaming.norm_statistics import DATA, StatisticsPredictor
from kokoro_ane.vocoder.streaming.voice_statistics import read_bundled

ANCHORED = (0, 2, 4)  # of the settling sentences: two short ones and one of middle length
# A deviation is kept as an integer of so many steps: a tenth of what a sentence deviates by.
STEPS = (1 / 2048, 1 / 512)  # of means, of log variances


@dataclass(frozen=True, eq=False)
class Anchor:
    """A bundled voice: its line [2, 2R] and its sentences' deviations from it [3, 2R], float32."""

    line: np.ndarray
    deviations: np.ndarray

    def compute_residuals(self, along: np.ndarray) -> np.ndarray:
        """The sentences' residuals [3, 2R], where their styles lie `along` [3] the voice's line."""
        return follow_line(self.line, along) + self.deviations


def follow_line(line: np.ndarray, along: np.ndarray) -> np.ndarray:
    """A voice's line [2, 2R] where styles lie `along` [n] it: [n, 2R]."""
    start, change = line
    values: np.ndarray = start + along[:, None] * change
    return values


class Words(TypedDict):
    """What the file says beside its deviations. weights: on which they were measured; voices:
    hashes, in the order of the deviations.
    """

    predictor: str
    weights: str
    voices: list[str]


def locate_anchors(predictor: StatisticsPredictor) -> Path:
    """The bundled file of a predictor's anchors."""
    return DATA / f"anchors-{predictor.sha256[:16]}.npz"


def find_anchor(predictor: StatisticsPredictor, voice: str) -> Anchor | None:
    """The anchor of a voice, by its hash; None where the voice or the predictor has none. Raises
    InputError for a damaged file.
    """
    path = locate_anchors(predictor)
    if not path.is_file():
        return None
    stored = read_npz(path, names=("words", "deviations"))
    words = parse_json(str(stored["words"]), str(path))
    conform(words, Words, str(path))
    if words["predictor"] != predictor.sha256 or voice not in words["voices"]:
        return None
    line = read_bundled(predictor, words["weights"]).get(voice)
    if line is None:
        raise InputError(f"{path} has a voice that is not bundled: {voice[:12]}")
    deviations = stored["deviations"][words["voices"].index(voice)]  # [3, 2R] int8
    return Anchor(line, deviations * spread_steps(len(predictor.bias)))


def write_anchors(
    path: Path, predictor: StatisticsPredictor, weights: str, anchors: dict[str, Anchor]
) -> None:
    """Write anchors by their voices' hashes, by rename. weights: on which they were measured."""
    steps = spread_steps(len(predictor.bias))
    deviations = np.stack([np.rint(anchor.deviations / steps) for anchor in anchors.values()])
    words = {"predictor": predictor.sha256, "weights": weights, "voices": list(anchors)}
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez_compressed(
            stream,
            allow_pickle=False,
            deviations=np.clip(deviations, -127, 127).astype(np.int8),
            words=np.asarray(json.dumps(words)),
        )


def spread_steps(rows: int) -> np.ndarray:
    """The step of each row [2R]: means come first, then log variances."""
    return np.repeat(np.array(STEPS, np.float32), rows // 2)
