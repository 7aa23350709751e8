"""Words the lexicon lacks, read by the neural model in NumPy: many at once, each with the
probability of its answer.

    # g2p/data/model.npz, SHA-256 checked against g2p/data/model.json
    reader = NeuralG2P.load()
    reader.predict(["Kokoro", "zorbify"])     # [Guess(phonemes, confidence), ...]

An answer without phonemes and with confidence 0 means: spell the word. The weights are matrices in
8 bits with one scale a row, the rest in 32 bits; PyTorch (g2p/network.py) and the package
(pipeline/g2p_stage.py) compute with the same values, so all give the same answers.
"""

import hashlib
import io
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from kokoro_g2p.alphabet import (
    ALPHABETS,
    AMERICAN,
    FRAMES,
    PADDING,
    SOUNDS,
    SYMBOL_COUNT,
    Alphabet,
    encode,
    is_pronounceable,
)
from kokoro_g2p.bundled import DATA, read_data
from kokoro_g2p.ctc import NOTHING, calibrate_guesses, decode_batch
from kokoro_g2p.errors import InputError
from kokoro_g2p.files import parse_json, read_npz
from kokoro_g2p.result import GB, US, Guess, Language
from kokoro_g2p.word_lists import describe_lists

EXCLUDED = 1e4  # taken off the score of a padded key: its weight is then exactly 0 in fp16 and fp32


@dataclass(frozen=True)
class Config:
    """Sizes; `answers` are the blocks after which the model answers and reads its own answer, the
    last one always.
    """

    width: int = 160
    heads: int = 2
    inner: int = 256
    blocks: int = 5
    answers: tuple[int, ...] = (3,)
    dropout: float = 0.1
    sounds: int = len(SOUNDS)  # of the alphabet
    symbols: int = SYMBOL_COUNT  # padding, tags and letters


BATCH = 64  # words at once
Run = Callable[[np.ndarray], np.ndarray]  # ids [B, S] int32 -> logits [B, S, 2 * sounds]


class NeuralG2P:
    """Responsibilities: 1. words to ids, words of one length together; 2. logits to guesses."""

    def __init__(
        self,
        run: Run,
        alphabet: Alphabet = AMERICAN,
        confidence: tuple[float, float] = (1.0, 0.0),
        reads: Callable[[str], bool] = is_pronounceable,
        encoded: Callable[[str], tuple[int, ...]] = encode,
    ) -> None:
        """`run` computes the logits; `confidence`: slope and shift that make its probability the
        share of right words; `reads`: whether a word is asked of it, `encoded` its ids.
        """
        self.run, self.alphabet, self.confidence = run, alphabet, confidence
        self.reads, self.encoded = reads, encoded

    @classmethod
    def load(cls, path: Path | None = None, dialect: Language = US) -> "NeuralG2P":
        """The bundled weights of a dialect or language, or those at `path`, in NumPy. Raises
        InputError when they are missing or changed.
        """
        path = path or WEIGHTS_OF[dialect]
        run = make_network(*load_arrays(path))
        alphabet = read_alphabet(path, dialect)
        # English has a model for each dialect; the other languages share one and differ by tag.
        if dialect not in alphabet.tags:
            return cls(run, alphabet, read_confidence(path))
        encoded = partial(alphabet.encode, tag=alphabet.tags.index(dialect))
        return cls(run, alphabet, read_confidence(path), alphabet.can_read, encoded)

    def predict(self, words: Sequence[str]) -> list[Guess]:
        """One guess a word, in order; the same whatever else is asked at the same time, up to the
        rounding of float32.
        """
        guesses = [NOTHING] * len(words)
        # Words of one length stand together, so that a batch has hardly any padding.
        by_length: dict[int, list[int]] = defaultdict(list)
        for place, word in enumerate(words):
            if self.reads(word):
                by_length[len(self.encoded(word))].append(place)
        places = [place for length in sorted(by_length) for place in by_length[length]]
        for start in range(0, len(places), BATCH):
            chunk = places[start : start + BATCH]
            for place, guess in zip(
                chunk, self._predict_batch([words[place] for place in chunk]), strict=True
            ):
                guesses[place] = guess
        return guesses

    def _predict_batch(self, words: Sequence[str]) -> list[Guess]:
        symbols = [self.encoded(word) for word in words]
        # [B, S], 0 behind a short word
        ids = np.full((len(words), max(map(len, symbols))), PADDING, dtype=np.int32)
        for row, row_symbols in zip(ids, symbols, strict=True):
            row[: len(row_symbols)] = row_symbols
        rows, width = ids.shape
        # [B, S, 2 * sounds] -> [B, 2S, sounds]
        logits = self.run(ids).reshape(rows, FRAMES * width, len(self.alphabet.sounds))
        return calibrate_guesses(
            decode_batch(logits, [len(row_symbols) for row_symbols in symbols], self.alphabet),
            *self.confidence,
        )


Arrays = Mapping[str, np.ndarray]
EPSILON = np.float32(1e-5)  # of the layer normalization


def make_network(arrays: Arrays, config: Config) -> Callable[[np.ndarray], np.ndarray]:
    """Return the network as a function of ids. Raises KeyError where an array is missing."""
    network = Network(arrays, config)
    network(np.ones((1, 1), dtype=np.int32))  # an array that is missing is told now
    return network


class Network:
    """One responsibility: logits of ids. `arrays` holds the parameters by their names in
    g2p/network.py, float32.
    """

    def __init__(self, arrays: Arrays, config: Config) -> None:
        self._arrays, self._config = arrays, config

    def __call__(self, ids: np.ndarray) -> np.ndarray:
        """ids [B, S] -> [B, S, 2 * sounds]; what stands in the padding means nothing."""
        inside = (ids != PADDING).astype(np.float32)  # [B, S]
        excluded = ((inside - 1) * np.float32(EXCLUDED))[:, None]  # [B, 1, S]
        x = self._arrays["embedding.weight"][ids]  # [B, S, C]
        for number in range(1, self._config.blocks + 1):
            x = self._apply_block(f"blocks.{number - 1}", x, inside[..., None], excluded)
            if number in self._config.answers:
                logits = self._apply_linear("answer", self._apply_norm("norm", x))
                guess = np.concatenate(
                    [softmax(frame) for frame in np.split(logits, FRAMES, axis=2)], axis=2
                )
                x = x + self._apply_linear("condition", guess)
        return self._apply_linear("answer", self._apply_norm("norm", x))

    def _apply_linear(self, name: str, x: np.ndarray) -> np.ndarray:
        weight = self._arrays[f"{name}.weight"]
        # [B, S, in] as one matrix [B S, in]: one product instead of B small ones
        product = x.reshape(-1, weight.shape[1]) @ weight.T
        return product.reshape(*x.shape[:2], -1) + self._arrays[f"{name}.bias"]

    def _apply_norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return (
            centred / np.sqrt(variance + EPSILON) * self._arrays[f"{name}.weight"]
            + self._arrays[f"{name}.bias"]
        )

    def _apply_block(
        self, name: str, x: np.ndarray, inside: np.ndarray, excluded: np.ndarray
    ) -> np.ndarray:
        x = x + self._apply_attention(
            f"{name}.attention", self._apply_norm(f"{name}.norms.0", x), excluded
        )
        # [B, S + 2, C]
        near = np.pad(self._apply_norm(f"{name}.norms.1", x) * inside, ((0, 0), (1, 1), (0, 0)))
        taps = np.concatenate([near[:, :-2], near[:, 1:-1], near[:, 2:]], axis=2)  # [B, S, 3C]
        return x + self._apply_linear(
            f"{name}.narrow", np.maximum(self._apply_linear(f"{name}.taps", taps), 0)
        )

    def _apply_attention(self, name: str, x: np.ndarray, excluded: np.ndarray) -> np.ndarray:
        heads = self._config.heads
        scale = np.float32(1 / math.sqrt(self._config.width // heads))
        parts = (
            np.split(self._apply_linear(f"{name}.{part}", x), heads, axis=2)
            for part in ("query", "key", "value")
        )
        mixed = [
            softmax(query @ key.transpose(0, 2, 1) * scale + excluded) @ value
            for query, key, value in zip(*parts, strict=True)
        ]
        # heads of [B, S, C / heads] -> [B, S, C]
        return self._apply_linear(f"{name}.out", np.concatenate(mixed, axis=2))


def softmax(scores: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    # The largest score is taken off, so that exp cannot overflow.
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


LANGUAGES = DATA / "languages.npz"
WEIGHTS_OF: Mapping[Language, Path] = {
    US: DATA / "model.npz",
    GB: DATA / "model_gb.npz",
    **dict.fromkeys(("es", "it", "fr", "pt"), LANGUAGES),
}
WEIGHTS = WEIGHTS_OF[US]
AGAIN = (
    "a new installation brings the bundled weights back, `python -m"
    " kokoro_g2p.training.g2p_network` makes new ones"
)
# keys of the .json beside a .npz of weights: `confidence` holds slope, shift and words of
# training/g2p_network.py, `alphabet` an Alphabet that is no dialect's of English
MANIFEST_KINDS: Mapping[str, type] = MappingProxyType(
    {"sha256": str, "config": dict, "confidence": dict, "alphabet": dict}
)
SCALE = ".scale"  # an array of this ending holds the scales of the one before it
LARGEST = 127


def load_arrays(path: Path | None = None) -> tuple[dict[str, np.ndarray], Config]:
    """Return the parameters in float32 by name, and the sizes. Raises InputError for a file that is
    missing or differs from its manifest.
    """
    path = path or WEIGHTS
    manifest = read_manifest(path)
    weights = _read_weights(path, manifest)
    try:
        return _read_state(weights), Config(
            **manifest["config"] | {"answers": tuple(manifest["config"]["answers"])}
        )
    except (KeyError, TypeError, ValueError, OSError) as problem:
        raise describe_mismatch(path, problem) from None


def describe_mismatch(path: Path, problem: Exception) -> InputError:
    what = str(problem).splitlines()[-1].strip()
    return InputError(f"{path} does not hold the model its manifest describes ({what}): {AGAIN}")


def read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest beside the weights: sha256, config, training. Raises InputError when it is
    missing or not JSON.
    """
    # Only bundled manifests have a hash of their own, in SHA256SUMS.
    if path.parent == DATA:
        read_data(path.with_suffix(".json"))  # raises InputError where it is not as it was hashed
    described = path.with_suffix(".json")
    try:
        manifest = parse_json(described.read_text(encoding="utf-8"), str(described))
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{described} cannot be read ({problem}): {AGAIN}") from None
    kinds = MANIFEST_KINDS if isinstance(manifest, dict) else {}
    # A key that is missing counts as right here; those that must be there are asked for below.
    wrong = [key for key, kind in kinds.items() if not isinstance(manifest.get(key, kind()), kind)]
    if not kinds or wrong or "sha256" not in manifest or "config" not in manifest:
        raise InputError(
            f"{described} is not a manifest of weights (sha256, config, training): {AGAIN}"
        )
    return manifest


def describe_weights(path: Path) -> dict[str, Any]:
    """Return what a manifest says of weights for American: their name and hash (`checkpoint`), and
    what they were trained on and how (`source`). Raises InputError as `read_manifest` does.
    """
    manifest = read_manifest(path)
    return {
        "checkpoint": {"name": path.stem, "sha256": manifest["sha256"]},
        "source": describe_lists(AMERICAN.tags) | {"training": manifest["training"]},
    }


def read_confidence(path: Path) -> tuple[float, float]:
    """Slope and shift that make the network's probability the share of right words (g2p/neural.py);
    1 and 0 where none were fitted.
    """
    fitted = read_manifest(path).get("confidence", {})
    return float(fitted.get("slope", 1.0)), float(fitted.get("shift", 0.0))


def read_alphabet(path: Path, dialect: Language = US) -> Alphabet:
    """The alphabet that a manifest describes, else the dialect's."""
    fields = read_manifest(path).get("alphabet")
    if fields is None:
        return ALPHABETS[GB if dialect == GB else US]
    texts = {name: tuple(fields[name]) for name in ("sounds", "vowels", "tags")}
    return Alphabet(**texts, letters=fields["letters"])


def _read_weights(path: Path, manifest: dict[str, Any]) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: {AGAIN}") from None
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != manifest["sha256"]:
        raise InputError(
            f"{path} has SHA-256 {sha256[:12]}, its manifest says {str(manifest['sha256'])[:12]}:"
            f" {AGAIN}"
        )
    return content


def _read_state(content: bytes) -> dict[str, np.ndarray]:
    arrays = read_npz(io.BytesIO(content), "the weights")
    values = {
        name: array.astype(np.float32) for name, array in arrays.items() if not name.endswith(SCALE)
    }
    # A scale is [out, 1] and spreads over its row; an array without one is as it was stored.
    return {name: array * arrays.get(name + SCALE, np.float32(1)) for name, array in values.items()}
