"""The network's confidence made the share of words it gets right: two numbers fitted on words that neither train nor judge it.

    python -m g2p.training.calibrate            # writes `confidence` into g2p/data/model.json

The words are the gold ones that the split took out beside the held-out families (their relatives: g2p/training/split.py), so neither the
weights nor the held-out lists know them. Fitted is p' = sigmoid(slope * logit(p) + shift) by maximum likelihood (Platt 1999, in logits).
The British network has no such words: its lists are all trained on or held out, and it needs none (docs/g2p_model.md).
The last line of stdout is one JSON object.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from core.errors import EXIT_GOOD, run_cli

if TYPE_CHECKING:
    import numpy as np

    from g2p.training.split import Split

ROUNDS = 50  # Newton's steps; five are enough


def tuning_words(split: "Split") -> dict[str, str]:
    """American gold words that are neither trained on nor held out, with their phonemes."""
    from g2p.misaki_data import read
    from g2p.training.split import pronunciations, testable

    entries = read("us_gold")
    out = {*split.word, *split.family}
    return {word: said for word, said in testable(entries, pronunciations(entries)).items() if word not in split.trained | out}


def fitted(chances: "np.ndarray", right: "np.ndarray") -> tuple[float, float]:
    """Slope and shift of largest likelihood for probabilities [words] and whether each word was right [words]."""
    import numpy as np

    from g2p.decode import logit

    x = np.stack([logit(chances), np.ones(len(chances))])  # [2, words]
    weights = np.array([1.0, 0.0])
    for _ in range(ROUNDS):
        shares = 1 / (1 + np.exp(-weights @ x))
        slopes = (x * (shares * (1 - shares))) @ x.T  # [2, 2]
        weights = weights - np.linalg.solve(slopes, x @ (shares - right))
    return float(weights[0]), float(weights[1])


def run(argv: Sequence[str] | None) -> int:
    """The command itself."""
    argparse.ArgumentParser(prog="g2p.training.calibrate", description=(__doc__ or "").splitlines()[0]).parse_args(argv)
    import numpy as np

    from core.staging import write_json
    from g2p.network import numpy_run
    from g2p.neural import NeuralG2P
    from g2p.training.split import Split
    from g2p.weights import WEIGHTS, load_arrays, read_manifest

    manifest = read_manifest(WEIGHTS)
    words: Mapping[str, str] = tuning_words(Split.draw(manifest["training"]["seed"]))
    guesses = NeuralG2P(run=numpy_run(*load_arrays())).predict(list(words))
    right = np.array([guess.phonemes == said for guess, said in zip(guesses, words.values(), strict=True)], dtype=float)
    chances = np.array([guess.confidence for guess in guesses])
    slope, shift = fitted(chances, right)
    found = {"slope": round(slope, 4), "shift": round(shift, 4), "words": len(words)}
    write_json(WEIGHTS.with_suffix(".json"), {**manifest, "confidence": found})
    print(f"{len(words)} words: said {100 * chances.mean():.1f} %, right {100 * right.mean():.1f} %")
    print(json.dumps({**found, "said": float(chances.mean()), "right": float(right.mean())}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
