"""What a voice adds to the predicted statistics: two vectors for each voice on each set of weights,
and where they are kept.

    voice = voice_sha256(pack)
    # [2, 2R] float32, or None: nobody has settled it yet
    vectors = find_statistics(checkpoint, predictor, voice)
    keep_statistics(checkpoint, predictor, voice, vectors)

The predictor (vocoder/streaming/norm_statistics.py) errs in a voice that it was not fitted to by
much the same vector in every sentence of one length. With the length the style changes, along a
line (core.voices.style_path), and the error with it. So a voice has two vectors, the error at one
end of the line and its change up to the other; speech/settling.py measures them. They are found by
values, not by names: weights, predictor and style pack. So a voice may be renamed, and a blend is a
voice like any other.

A file of vectors stands in the checkpoint's folder, beside this module for kokoro-int8, or in the
user's cache. Nothing else of the user's is written to.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from kokoro_ane.core import (
    Checkpoint,
    InputError,
    cache_root,
    conform,
    keep_npz,
    parse_json,
    read_npz,
    staged,
)
from kokoro_ane.vocoder.streaming.norm_statistics import DATA, StatisticsPredictor

FORMAT = 1


@dataclass(frozen=True, eq=False)
class SettledVoices:
    """Vectors [2, 2R] float32 by the hash of their voice's style pack, and the hashes of predictor
    and weights that they belong to.
    """

    predictor: str
    weights: str
    vectors: Mapping[str, np.ndarray]


class Words(TypedDict):
    """What a file of vectors says beside them. voices: hashes, in the order of the vectors."""

    format: int
    predictor: str
    weights: str
    voices: list[str]


def name_settled_file(weights_sha256: str) -> str:
    """What the file of all vectors on these weights is called, in any folder but the cache."""
    return f"settled-{weights_sha256[:16]}.npz"


def read_settled(path: Path, predictor: StatisticsPredictor, weights: str) -> SettledVoices:
    """Read a file of vectors. Raises InputError, which names the file, where it is damaged, where
    it holds NaN, or where its vectors belong to another predictor or other weights.
    """
    settled = _read(path)
    for name, ours in (("predictor", predictor.sha256), ("weights", weights)):
        theirs = getattr(settled, name)
        if theirs != ours:
            raise InputError(
                f"{path} belongs to the {name} {theirs[:12]}, not to {ours[:12]};"
                f" {explain_repair(path)}"
            )
    shapes = {vectors.shape for vectors in settled.vectors.values()}
    if shapes - {(2, len(predictor.bias))}:
        raise InputError(
            f"{path} holds vectors of shape {list(max(shapes))}, not [2, {len(predictor.bias)}];"
            f" {explain_repair(path)}"
        )
    return settled


def _read(path: Path) -> SettledVoices:
    stored = read_npz(path, f"; {explain_repair(path)}", names=("words", "vectors"))
    words = parse_json(str(stored["words"]), str(path))
    vectors = stored["vectors"]
    conform(words, Words, str(path))
    if words["format"] != FORMAT or len(words["voices"]) != len(vectors):
        raise InputError(f"{path} is no file of voices' statistics; {explain_repair(path)}")
    if not np.isfinite(vectors).all():
        raise InputError(f"{path} holds NaN or infinity; {explain_repair(path)}")
    # Kept in fp16, computed in float32.
    by_voice = dict(zip(words["voices"], vectors.astype(np.float32), strict=True))
    return SettledVoices(words["predictor"], words["weights"], by_voice)


def explain_repair(path: Path) -> str:
    """What mends a file of vectors."""
    return f"delete {path.name} and its voices are settled anew"


def write_settled(path: Path, settled: SettledVoices) -> None:
    """Write vectors by rename."""
    with staged(path) as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **_pack_arrays(settled))


def _pack_arrays(settled: SettledVoices) -> dict[str, np.ndarray]:
    words = {
        "format": FORMAT,
        "predictor": settled.predictor,
        "weights": settled.weights,
        "voices": list(settled.vectors),
    }
    vectors = np.stack([round_to_half(vector) for vector in settled.vectors.values()])
    # An .npz holds arrays alone, so the words stand in one as JSON.
    return {"vectors": vectors, "words": np.asarray(json.dumps(words))}


def round_to_half(vector: np.ndarray) -> np.ndarray:
    """A vector in fp16, in which it is kept, bundled and given to packages."""
    return vector.astype(np.float16)


def locate_cached(checkpoint: Checkpoint, predictor: StatisticsPredictor, voice: str) -> Path:
    """Where the vector of a voice, by its hash, lies in the user's cache."""
    # Other weights, another predictor or another pack has a file of its own.
    key = f"{checkpoint.sha256[:16]}-{predictor.sha256[:16]}-{voice[:16]}.npz"
    return cache_root() / "settled" / key


def find_statistics(
    checkpoint: Checkpoint, predictor: StatisticsPredictor, voice: str
) -> np.ndarray | None:
    """The vectors [2, 2R] float32 of a voice on the checkpoint's weights, by the hash of its style
    pack: from what is bundled, from its folder, from the user's cache; None where it is in
    none.

    Raises InputError for a file that is there and is not what its name says.
    """
    places = (
        checkpoint.folder / name_settled_file(checkpoint.sha256),
        locate_cached(checkpoint, predictor, voice),
    )
    vector = read_bundled(predictor, checkpoint.sha256).get(voice)
    # What is bundled goes first; a file is opened only while no vector is found.
    for path in places:
        if vector is None and path.is_file():
            vector = read_settled(path, predictor, checkpoint.sha256).vectors.get(voice)
    return vector


def read_bundled(predictor: StatisticsPredictor, weights: str) -> Mapping[str, np.ndarray]:
    """The bundled vectors on these weights by their voices' hashes."""
    path = DATA / name_settled_file(weights)
    settled = _read(path) if path.is_file() else None
    # a predictor that somebody fitted anew to these weights has no bundled vectors
    return settled.vectors if settled and settled.predictor == predictor.sha256 else {}


def keep_statistics(
    checkpoint: Checkpoint, predictor: StatisticsPredictor, voice: str, vectors: np.ndarray
) -> np.ndarray:
    """Write the vectors of a voice, by its hash, to the user's cache; return them as they are read
    back, [2, 2R] float32. Where they cannot be written, a line on stderr says so.
    """
    settled = SettledVoices(predictor.sha256, checkpoint.sha256, {voice: vectors})
    path = locate_cached(checkpoint, predictor, voice)
    keep_npz(path, _pack_arrays(settled), "the voice's statistics are", packed=True)
    return round_to_half(vectors).astype(np.float32)
