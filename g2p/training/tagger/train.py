"""Train the tagger from Festival's and WordNet's annotations; the same seed and libraries give the same file.

    apt-get install festlex-poslex wordnet-base
    python -m g2p.training.tagger.train --seed 0 [--out g2p/data/tagger.npz] [--features 24000]

Two minutes on one core. One sentence of twenty is held out; the accuracy on it is printed.
"""

import argparse
import json
import pathlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if __name__ == "__main__":
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[3])

from core.errors import EXIT_GOOD, InputError, run_cli

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse
    from rich.console import Console

    from g2p.tagger.model import Tagger
    from g2p.training.tagger.items import Items

OUT = pathlib.Path(__file__).resolve().parents[2] / "data" / "tagger.npz"
CLIP = 0.9999  # this share of the weights fits into int8


@dataclass(frozen=True)
class Recipe:
    """How many features stay, how often one must occur, weights of the four kinds of label, and AdaGrad's figures."""

    seed: int = 0
    features: int = 24_000
    least: int = 5
    weights: tuple[float, float, float, float] = (20.0, 1.0, 0.005, 1.0)  # KNOWN, SENTENCE, DEFINITION, PATTERN
    epochs: tuple[int, int] = (2, 6)  # to choose the features, to fit them
    batch: int = 4096
    rate: float = 0.15
    decay: float = 2e-6


def table(items: "Items", least: int) -> "tuple[scipy.sparse.csr_matrix, np.ndarray]":
    """[M, R] matrix of ones, and the CRC-32 of its R columns: features that occur `least` times."""
    import numpy as np
    import scipy.sparse

    names, numbers, counts = np.unique(items.features, return_inverse=True, return_counts=True)
    kept = counts >= least
    columns = np.where(kept[numbers], (np.cumsum(kept) - 1)[numbers], -1)
    rows, found = np.repeat(np.arange(len(items.lengths)), items.lengths), columns >= 0
    ones = np.ones(int(found.sum()), np.float32)
    shape = (len(items.lengths), int(kept.sum()))
    return scipy.sparse.csr_matrix((ones, (rows[found], columns[found])), shape=shape), names[kept]


def fit(matrix: "scipy.sparse.csr_matrix", items: "Items", recipe: Recipe, epochs: int, start: "np.ndarray | None" = None) -> "np.ndarray":
    """[R, T] float32 weights: maximum entropy among the tags a form allows, AdaGrad on batches."""
    import numpy as np
    from rich.progress import track

    generator = np.random.default_rng(recipe.seed)
    weights = np.zeros((matrix.shape[1], items.allowed.shape[1]), np.float32) if start is None else start
    squares = np.full_like(weights, 1e-3)
    importance = np.array(recipe.weights, np.float32)[items.origins]
    usable = np.flatnonzero(~items.held_out)
    order = [batch for _ in range(epochs) for batch in np.array_split(generator.permutation(usable), len(usable) // recipe.batch + 1)]
    for batch in track(order, "fitting", console=stderr_console()):
        part = matrix[batch]
        shares = softmax(part @ weights, items.allowed[batch])  # [B, T]
        shares[np.arange(len(batch)), items.labels[batch]] -= 1
        slope = part.T @ (shares * importance[batch, None]) / len(batch) + recipe.decay * weights  # [R, T]
        squares += slope * slope
        weights -= recipe.rate * slope / np.sqrt(squares)
    return weights


def stderr_console() -> "Console":
    """Progress goes to stderr: the last line of stdout is the result."""
    from rich.console import Console

    return Console(stderr=True)


def softmax(scores: "np.ndarray", allowed: "np.ndarray") -> "np.ndarray":
    """[B, T] probabilities among the allowed tags."""
    import numpy as np

    scores = np.where(allowed, scores, np.float32(-1e9))
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def accuracy(matrix: "scipy.sparse.csr_matrix", items: "Items", weights: "np.ndarray") -> dict[str, float]:
    """Share of right tags on the held-out sentences, by where the tag comes from."""
    import numpy as np

    from g2p.training.tagger.items import DEFINITION, KNOWN, PATTERN, SENTENCE

    right = np.where(items.allowed, matrix @ weights, -np.inf).argmax(1) == items.labels
    origins = {"known": KNOWN, "sentence": SENTENCE, "definition": DEFINITION, "pattern": PATTERN}
    chosen = {name: right[items.held_out & (items.origins == origin)] for name, origin in origins.items()}
    return {name: float(found.mean()) for name, found in chosen.items() if len(found)}


def train(items: "Items", recipe: Recipe) -> "tuple[Tagger, dict[str, float]]":
    """Fit all features, keep the ones that move most, fit those, round to int8. The figures are those of the rounded weights."""
    import numpy as np

    from g2p.tagger.model import Tagger

    matrix, names = table(items, recipe.least)
    weights = fit(matrix, items, recipe, recipe.epochs[0])
    moved = np.abs(weights - weights.mean(1, keepdims=True)).max(1) * np.sqrt(np.asarray(matrix.sum(0)).ravel())
    chosen = np.sort(np.argsort(-moved, kind="stable")[: recipe.features])
    matrix = matrix[:, chosen].tocsr()
    weights = fit(matrix, items, recipe, recipe.epochs[1], weights[chosen])
    scale = float(np.quantile(np.abs(weights), CLIP) / 127)
    rounded = np.clip(np.round(weights / scale), -127, 127).astype(np.int8)
    rows = dict(zip(names[chosen].tolist(), range(len(chosen)), strict=True))
    return Tagger(rows, rounded, scale, items.classes, items.heteronyms), accuracy(matrix, items, rounded.astype(np.float32))


def run(argv: list[str] | None) -> int:
    """The command itself."""
    parser = argparse.ArgumentParser(prog="g2p.training.tagger.train", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=Recipe.seed)
    parser.add_argument("--features", type=int, default=Recipe.features)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    arguments = parser.parse_args(argv)
    if arguments.features < 1 or arguments.seed < 0:
        raise InputError("--features must be 1 or more, --seed 0 or more")
    from g2p.training.tagger.items import collect

    items = collect(arguments.seed)
    tagger, held_out = train(items, Recipe(seed=arguments.seed, features=arguments.features))
    tagger.save(arguments.out)
    size = arguments.out.stat().st_size
    print(f"{len(items.labels)} words, {len(tagger.rows)} features, {size / 1000:.0f} kB: {arguments.out}")
    for name, value in held_out.items():
        print(f"held out, {name:10s} {100 * value:5.1f} %")
    print(json.dumps({"words": len(items.labels), "features": len(tagger.rows), "bytes": size, "held_out": held_out}))
    return EXIT_GOOD


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    from g2p.training.tagger.train import main

    sys.exit(main())
