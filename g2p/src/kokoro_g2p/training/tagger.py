"""Train the tagger from the annotations of Festival and WordNet. The same seed and libraries give
the same file.

    apt-get install festlex-poslex wordnet-base
    python -m kokoro_g2p.training.tagger --seed 0 [--out g2p/data/tagger.npz] [--features 24000]

Two minutes on one core. It learns from the silver tags of WordNet's sentences and from sentences
made up by a small grammar. One sentence of twenty is held out; the accuracy on it is printed.
"""

import math
import pathlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import scipy.sparse
from rich.console import Console
from rich.progress import track

from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.errors import InputError
from kokoro_g2p.part_of_speech import (
    BASE,
    IRREGULAR,
    LETTERS,
    PAST,
    PRONOUNS,
    SHARE,
    TAGS,
    Classes,
    Tagger,
    hash_features,
    infer_class,
    list_tags,
)
from kokoro_g2p.training.tagger_sources import PARTS, WORDNET, Silver, WordNetExample, read_examples
from kokoro_g2p.word_lists import parse_pairs, parse_set, read

Tagged = list[tuple[str, str]]
OUT = pathlib.Path(__file__).resolve().parents[1] / "data" / "tagger.npz"
# words of the made-up sentences that carry no tag
GIVEN = pathlib.Path(__file__).with_name("tagger_given.txt")
# upper case: words of GIVEN; lower case: a tag, or the word; else: a rule
RULES = pathlib.Path(__file__).with_name("tagger_rules.txt")
_DRAWN = "nn nns jj rb vb vbp vbz vbd vbn vbg"
DRAWN = _DRAWN.split()
DEEP = 5  # names inside names
LEAST = -11.0  # log P(word | tag) below which a reading is too rare to stand in a sentence
SAME = parse_pairs("nnp:nn nnps:nns jjr:jj jjs:jj rbr:rb rbs:rb rp:rb")
# heteronyms of g2p.heteronyms that misaki's lists lack
EXTRA = parse_set("lead leads resume resumes protest protests aged row")
HELD_OUT = 20  # one sentence of so many is kept out of training
# a tag is from WordNet itself, the tag model in an example, in a definition, the grammar
KNOWN, SENTENCE, DEFINITION, PATTERN = 0, 1, 2, 3
PATTERNS = 30_000  # made-up sentences
CLIP = 0.9999  # this share of the weights fits into int8


def classify_readings(readings: Mapping[str, float], prior: Mapping[str, float]) -> str:
    """Class from log P(word | tag) and log P(tag)."""
    shares: dict[str, float] = {}
    for tag, value in readings.items():
        if tag in LETTERS:
            letter = LETTERS[tag]
            shares[letter] = shares.get(letter, 0.0) + math.exp(value + prior[tag])
    total = sum(shares.values())
    return "".join(
        sorted(
            (letter for letter in shares if shares[letter] >= SHARE * total),
            key=lambda letter: -shares[letter],
        )
    )


def draw_sentences(silver: Silver, count: int, seed: int) -> Iterator[Tagged]:
    """Yield `count` sentences as (word, tag) pairs. Words of GIVEN and of the rules have an empty
    tag.
    """
    generator = random.Random(seed)
    drawn = list_words(silver)
    word_lists, rules = read_block(GIVEN), read_block(RULES)

    def grow(name: str, depth: int) -> Tagged:
        """Expand one name; deep inside, the first (shortest) alternatives are taken."""
        if name in drawn:
            words, weights = drawn[name]
            return [(generator.choices(words, cum_weights=weights)[0], name)]
        if name in word_lists:
            return [(generator.choice(word_lists[name][0].split()), "")]
        if name not in rules:
            return [(name, "")]
        chosen = generator.choice(rules[name] if depth < DEEP else rules[name][:2])
        return [pair for part in chosen.split() for pair in grow(part, depth + 1)]

    # a sentence of one or two words shows the tagger nothing
    for _ in range(count):
        pairs = grow("Whole", 0)
        if len(pairs) > 2:
            first, tag = pairs[0]
            yield [(first.capitalize(), tag), *pairs[1:]]


def read_block(path: pathlib.Path) -> dict[str, list[str]]:
    """The alternatives of each name, from lines such as `Name: one | other`."""
    lines = (line.split(": ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    return {name: [choice.strip() for choice in choices.split("|")] for name, choices in lines}


def list_words(silver: Silver) -> dict[str, tuple[list[str], list[float]]]:
    """The words of each tag and their cumulated weights. A weight is the square root of how often
    Festival's corpus has the word.
    """
    by_tag: dict[str, tuple[list[str], list[float]]] = {tag: ([], []) for tag in DRAWN}
    for word in sorted(silver.model.emit):
        readings = silver.find_readings(word)
        # plain words of the open classes only
        if (
            not word.isalpha()
            or not word.isascii()
            or len(word) < 3
            or not set(readings) <= {*DRAWN, "nnp", "jjr", "nnps", "rp"}
        ):
            continue
        for tag in DRAWN:
            if readings.get(tag, -99.0) > LEAST:
                words, weights = by_tag[tag]
                words.append(word)
                weights.append((weights[-1] if weights else 0.0) + math.exp(readings[tag] / 2))
    return by_tag


@dataclass(frozen=True)
class Items:
    """All M training words."""

    features: np.ndarray  # [sum of lengths] uint32, those of one word after the other
    lengths: np.ndarray  # [M], how many features each word has
    labels: np.ndarray  # [M], places in TAGS
    allowed: np.ndarray  # [M, T], the tags that the word's form can have
    origins: np.ndarray  # [M], KNOWN to PATTERN
    held_out: np.ndarray  # [M]
    classes: Classes
    heteronyms: Mapping[str, tuple[str, ...]]


def collect(seed: int = 0, limit: int | None = None) -> Items:
    """Tag WordNet's sentences, or the first `limit`, make up PATTERNS others, and take every word
    that has one of TAGS. All of them take a minute.

    Raises InputError when a source is missing.
    """
    silver = Silver.load()
    classes = Classes(find_stored_classes(silver))
    heteronyms = find_word_tags(silver)
    named = heteronyms.keys() - IRREGULAR
    rows: list[tuple[list[int], int, tuple[str, ...], int, bool]] = []

    def add(words: Sequence[str], at: int, tag: str, origin: int, number: int) -> None:
        allowed = PAST if list_tags(words[at]) == BASE else list_tags(words[at])
        if tag in allowed:
            features = hash_features(
                words, at, classes, origin != PATTERN and words[at].lower() in named
            )
            rows.append((features, TAGS.index(tag), allowed, origin, number % HELD_OUT == 0))

    for number, example in enumerate(islice(read_examples(WORDNET), limit)):
        for at, tag, origin in tag_words(silver, example):
            add(example.words, at, tag, origin, number)
    for number, made in enumerate(
        draw_sentences(silver, PATTERNS if limit is None else limit, seed)
    ):
        for at, (_, tag) in enumerate(made):
            if tag:
                add([word for word, _ in made], at, tag, PATTERN, number)
    return Items(
        features=np.fromiter((key for item in rows for key in item[0]), np.uint32),
        lengths=np.array([len(item[0]) for item in rows]),
        labels=np.array([item[1] for item in rows]),
        allowed=np.array([[tag in item[2] for tag in TAGS] for item in rows]),  # [M, T]
        origins=np.array([item[3] for item in rows]),
        held_out=np.array([item[4] for item in rows]),
        classes=Classes(classes.stored),
        heteronyms=heteronyms,
    )


def tag_words(silver: Silver, example: WordNetExample) -> Iterator[tuple[int, str, int]]:
    """Yield the index, tag and origin of each word of the example that can teach something."""
    certain: dict[int, tuple[str, ...]] = {}
    if example.target is not None:
        certain[example.target] = PARTS[example.pos]
    elif example.pos == "v" and example.words and "vb" in silver.find_readings(example.words[0]):
        # the definition of a verb begins with one
        certain[0] = ("vb",)
    for at, (word, tag) in enumerate(
        zip(
            example.words,
            silver.find_tags(example.words, certain) if example.words else (),
            strict=True,
        )
    ):
        tag = SAME.get(tag, tag)
        if (
            tag in TAGS
            and word[0].isalpha()
            and (tag not in ("dt", "in", "wdt") or word.lower() == "that")
        ):
            yield (
                at,
                tag,
                (
                    DEFINITION
                    if example.target is None
                    else KNOWN
                    if at == example.target
                    else SENTENCE
                ),
            )


def find_stored_classes(silver: Silver) -> dict[str, str]:
    """The ambiguity class of every word of both sources for which the rules by ending fail."""
    prior = dict(zip(silver.model.tags, silver.model.prior.tolist(), strict=True))
    stored = {}
    for word in sorted({*silver.model.emit, *silver.lemmas}):
        if (
            word.isascii()
            and word.replace("'", "").isalpha()
            and len(word) <= 20
            and word not in PRONOUNS
        ):
            kind = classify_readings(silver.find_readings(word), prior)
            if kind and kind != infer_class(word):
                stored[word] = kind
    return stored


def find_word_tags(silver: Silver) -> dict[str, tuple[str, ...]]:
    """Every heteronym of misaki's two gold lists and of EXTRA, with the tags that the sources give
    it.
    """
    words = {
        word
        for name in ("us_gold", "gb_gold")
        for word, entry in read(name).items()
        if isinstance(entry, dict) and {*entry} - {"DEFAULT", "None"}
    }
    tags = {}
    for word in sorted({*words, *EXTRA}):
        if word == word.lower():
            readings = {SAME.get(tag, tag) for tag in silver.find_readings(word)} | (
                {"vbd", "vbn"} if word in IRREGULAR else set()
            )
            tags[word] = tuple(tag for tag in list_tags(word) if tag in readings) or list_tags(word)
    return tags


@dataclass(frozen=True)
class TaggerRecipe:
    """The numbers of a training run."""

    seed: int = 0
    features: int = 24_000  # that the tagger has
    least: int = 5  # times that a feature must occur to be a candidate
    # of a label that is KNOWN, of a SENTENCE, a DEFINITION, a PATTERN
    weights: tuple[float, float, float, float] = (20.0, 1.0, 0.005, 1.0)
    epochs: tuple[int, int] = (2, 6)  # to choose the features, to fit them
    # AdaGrad's
    batch: int = 4096
    rate: float = 0.15
    decay: float = 2e-6


def build_matrix(items: Items, least: int) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """A sparse matrix of ones [M, R], and the CRC-32 of its R columns, which are the features that
    occur at least `least` times.
    """
    names, numbers, counts = np.unique(items.features, return_inverse=True, return_counts=True)
    frequent = counts >= least
    # a feature's column, or -1 for a rare one
    columns = np.where(frequent[numbers], (np.cumsum(frequent) - 1)[numbers], -1)
    rows = np.repeat(np.arange(len(items.lengths)), items.lengths)
    present = columns >= 0
    ones = np.ones(int(present.sum()), np.float32)
    shape = (len(items.lengths), int(frequent.sum()))
    return scipy.sparse.csr_matrix((ones, (rows[present], columns[present])), shape=shape), names[
        frequent
    ]


def fit(
    matrix: scipy.sparse.csr_matrix,
    items: Items,
    recipe: TaggerRecipe,
    epochs: int,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """The weights [R, T] float32 of maximum entropy among the tags that a form allows, by AdaGrad
    on batches.
    """
    generator = np.random.default_rng(recipe.seed)
    weights = (
        np.zeros((matrix.shape[1], items.allowed.shape[1]), np.float32) if start is None else start
    )
    squares = np.full_like(weights, 1e-3)
    importance = np.array(recipe.weights, np.float32)[items.origins]
    usable = np.flatnonzero(~items.held_out)
    order = [
        batch
        for _ in range(epochs)
        for batch in np.array_split(generator.permutation(usable), len(usable) // recipe.batch + 1)
    ]
    # on stderr, because the last line of stdout is the result
    for batch in track(order, "fitting", console=Console(stderr=True)):
        part = matrix[batch]
        # the gradient of the log likelihood: the predicted share minus the label
        shares = softmax(part @ weights, items.allowed[batch])  # [B, T]
        shares[np.arange(len(batch)), items.labels[batch]] -= 1
        # [R, T], with a decay that pulls unused weights to 0
        slope = part.T @ (shares * importance[batch, None]) / len(batch) + recipe.decay * weights
        squares += slope * slope
        weights -= recipe.rate * slope / np.sqrt(squares)
    return weights


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """The probabilities [B, T] among the allowed tags."""
    scores = np.where(allowed, scores, np.float32(-1e9))
    shares = np.exp(scores - scores.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def measure_accuracy(
    matrix: scipy.sparse.csr_matrix, items: Items, weights: np.ndarray
) -> dict[str, float]:
    """The share of right tags on the held-out sentences, by where the tag comes from."""
    right = np.where(items.allowed, matrix @ weights, -np.inf).argmax(1) == items.labels
    origins = {"known": KNOWN, "sentence": SENTENCE, "definition": DEFINITION, "pattern": PATTERN}
    chosen = {
        name: right[items.held_out & (items.origins == origin)] for name, origin in origins.items()
    }
    return {name: float(hits.mean()) for name, hits in chosen.items() if len(hits)}


def train(items: Items, recipe: TaggerRecipe) -> tuple[Tagger, dict[str, float]]:
    """Fit all features, choose those that move scores most, fit these again and round to int8. The
    figures are those of the rounded weights.
    """
    matrix, names = build_matrix(items, recipe.least)
    weights = fit(matrix, items, recipe, recipe.epochs[0])
    # how far a feature moves one tag against the mean, weighed by how often it occurs
    moved = np.abs(weights - weights.mean(1, keepdims=True)).max(1) * np.sqrt(
        np.asarray(matrix.sum(0)).ravel()
    )
    chosen = np.sort(np.argsort(-moved, kind="stable")[: recipe.features])
    matrix = matrix[:, chosen].tocsr()
    weights = fit(matrix, items, recipe, recipe.epochs[1], weights[chosen])
    # a few outliers are clipped, so that the grid stays fine for all others
    scale = float(np.quantile(np.abs(weights), CLIP) / 127)
    rounded = np.clip(np.round(weights / scale), -127, 127).astype(np.int8)
    rows = dict(zip(names[chosen].tolist(), range(len(chosen)), strict=True))
    return Tagger(rows, rounded, scale, items.classes, items.heteronyms), measure_accuracy(
        matrix, items, rounded.astype(np.float32)
    )


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = CommandParser("kokoro_g2p.training.tagger", __doc__)
    parser.add_argument("--seed", type=int, default=TaggerRecipe.seed)
    parser.add_argument("--features", type=int, default=TaggerRecipe.features)
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    arguments = parser.parse_args(argv)
    if arguments.features < 1 or arguments.seed < 0:
        raise InputError("--features must be 1 or more, --seed 0 or more")
    items = collect(arguments.seed)
    tagger, held_out = train(items, TaggerRecipe(seed=arguments.seed, features=arguments.features))
    tagger.save(arguments.out)
    size = arguments.out.stat().st_size
    print(
        f"{len(items.labels)} words, {len(tagger.rows)} features, {size / 1000:.0f} kB:"
        f" {arguments.out}"
    )
    for name, value in held_out.items():
        print(f"held out, {name:10s} {100 * value:5.1f} %")
    figures = {
        "words": len(items.labels),
        "features": len(tagger.rows),
        "bytes": size,
        "held_out": held_out,
    }
    return conclude(arguments, figures, EXIT_GOOD, f"trained: {arguments.out}")


if __name__ == "__main__":
    raise SystemExit(main())
