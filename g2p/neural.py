"""Words the lexicon lacks, read by the neural model: many at once, each with the probability of its answer.

    reader = NeuralG2P.load()
    reader.predict(["Kokoro", "zorbify"])     # [Guess(phonemes, confidence), ...]

An answer without phonemes and with confidence 0 means: spell the word. What runs computes in NumPy; PyTorch's side is for parity.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from g2p.alphabet import ALPHABETS, AMERICAN, FRAMES, PADDING, Alphabet, encode, speakable
from g2p.decode import NOTHING, calibrated, decoded_batch
from g2p.result import US, Dialect, Guess

if TYPE_CHECKING:
    import numpy as np

    from g2p.model import LetterToSound

BATCH = 64  # words at once
Run = Callable[["np.ndarray"], "np.ndarray"]  # ids [B, S] int32 -> logits [B, S, 2 * sounds]


class NeuralG2P:
    """Responsibilities: 1. words to ids, words of one length together; 2. logits to guesses."""

    def __init__(
        self,
        model: "LetterToSound | None" = None,
        run: Run | None = None,
        alphabet: Alphabet = AMERICAN,
        confidence: tuple[float, float] = (1.0, 0.0),
    ) -> None:
        """A PyTorch model, or a function that computes its logits; `confidence`: slope and shift of its probability (g2p/decode.py)."""
        if (model is None) == (run is None):
            raise ValueError("NeuralG2P reads with a model or with a function: one of the two")
        if model is not None:
            run = torch_run(model)
        assert run is not None
        self.run, self.alphabet, self.confidence = run, alphabet, confidence

    @classmethod
    def load(cls, path: Path | None = None, dialect: Dialect = US) -> "NeuralG2P":
        """The bundled weights of a dialect, or those at `path`, in NumPy. Raises InputError when they are missing or changed."""
        from g2p.network import numpy_run
        from g2p.weights import WEIGHTS_OF, confidence_of, load_arrays

        path = path or WEIGHTS_OF[dialect]
        return cls(run=numpy_run(*load_arrays(path)), alphabet=ALPHABETS[dialect], confidence=confidence_of(path))

    def predict(self, words: Sequence[str]) -> list[Guess]:
        """One guess a word, in order; the same whatever else is asked at the same time, up to the rounding of float32."""
        guesses = [NOTHING] * len(words)
        by_length: dict[int, list[int]] = defaultdict(list)
        for place, word in enumerate(words):
            if speakable(word):
                by_length[len(encode(word))].append(place)
        places = [place for length in sorted(by_length) for place in by_length[length]]
        for start in range(0, len(places), BATCH):
            chunk = places[start : start + BATCH]
            for place, guess in zip(chunk, self._guesses([words[place] for place in chunk]), strict=True):
                guesses[place] = guess
        return guesses

    def _guesses(self, words: Sequence[str]) -> list[Guess]:
        import numpy as np

        symbols = [encode(word) for word in words]
        ids = np.full((len(words), max(map(len, symbols))), PADDING, dtype=np.int32)
        for row, own in zip(ids, symbols, strict=True):
            row[: len(own)] = own
        rows, width = ids.shape
        logits = self.run(ids).reshape(rows, FRAMES * width, len(self.alphabet.sounds))  # [B, S, 2 * sounds] -> [B, 2S, sounds]
        return calibrated(decoded_batch(logits, [len(own) for own in symbols], self.alphabet), *self.confidence)


def torch_run(model: "LetterToSound") -> Run:
    """ids [B, S] -> logits [B, S, 2 * sounds] by PyTorch."""
    import torch

    def run(ids: "np.ndarray") -> "np.ndarray":
        with torch.inference_mode():
            return model(torch.from_numpy(ids)).numpy()

    return run
