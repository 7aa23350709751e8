"""Fit the table that chooses among the pronunciations of a heteronym, from labelled sentences.

    python -m kokoro_g2p.training.heteronym_table [--out g2p/data/heteronyms.npz]

`heteronyms.tsv` beside this file has the sentences: a word, which of its places counts, the key of
its lexicon entry, the writer, the sentence. Writers saw neither the code nor its weights. The
accuracy printed is that of the sentences of each writer when only the others were learned from.
The same sentences and libraries give the same file; a minute on one core.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.optimize
import scipy.sparse

from kokoro_g2p.commands import EXIT_GOOD, CommandParser, command, conclude
from kokoro_g2p.errors import InputError
from kokoro_g2p.files import open_aside
from kokoro_g2p.heteronyms import (
    BITS,
    FORMAT,
    PATH,
    STEP,
    WORD,
    Roles,
    hash_feature,
    list_features,
    list_targets,
)
from kokoro_g2p.lexicon import BEFORE_PAUSE, DEFAULT, Lexicon
from kokoro_g2p.part_of_speech import Tagger, find_nth, split_words
from kokoro_g2p.word_lists import parse_set

SENTENCES = Path(__file__).with_name("heteronyms.tsv")
PENALTY, STEPS = 0.3, 80  # of a weight's square; of L-BFGS
CLIP = 0.9995  # this share of the weights fits into int8
# senses of one part of speech, which no other word shares
ALONE = parse_set(
    "axes bases bow bows close content contents invalid lead leads row rows tear tears bass that"
    " that's used read does number"
)


@dataclass(frozen=True)
class LabelledSentence:
    """A labelled sentence: its heteronym in lower case, the key, the writer, and the hashed
    features [F] uint64 of what stands around.
    """

    word: str
    key: str
    writer: str
    hashes: np.ndarray


def group_sounds(lexicon: Lexicon, word: str) -> dict[str, frozenset[str]]:
    """The keys of a word that sound differently, each with all keys that sound like it."""
    entry = lexicon.find(word)
    grouped: dict[str, list[str]] = {}
    for key, sound in ((entry and entry.senses) or {}).items():
        if sound and key != BEFORE_PAUSE:
            grouped.setdefault(sound, []).append(key)
    # Of keys with one sound the default stands for all.
    return {DEFAULT if DEFAULT in keys else keys[0]: frozenset(keys) for keys in grouped.values()}


def infer_role(word: str, key: str, grouped: Mapping[str, frozenset[str]]) -> str:
    """What the key of a word is to all words: a verb, the noun or adjective beside one, or
    nothing.
    """
    keys = grouped[key]
    every = frozenset[str]().union(*grouped.values())
    if word in ALONE or len(grouped) != 2:
        return ""
    # The role of a key is what it is beside the other one of the pair.
    if every & {"VERB", "VBD", "VBN"}:
        return "VERB" if keys & {"VERB", "VBD", "VBN"} else "NOUN"
    if "NOUN" in every or ("ADJ" in every and word.endswith("ate")):
        return "NOUN" if keys & {"NOUN", "ADJ"} else "VERB"
    return ""


def read_sentences(path: Path) -> tuple[list[LabelledSentence], dict[str, Roles]]:
    """The sentences of a file, and what they teach: each word's keys with their roles. Raises
    InputError for a line that does not hold.
    """
    lexicon = Lexicon.load("us")
    tagger = Tagger.load()
    sentences: list[LabelledSentence] = []
    taught: dict[str, Roles] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)):
            words = split_words(row["sentence"])
            at = find_nth(words, row["word"], int(row["occurrence"]))
            # The spelling of the sentence comes first: Polish has other senses than polish.
            grouped = group_sounds(lexicon, words[at]) or group_sounds(lexicon, row["word"])
            key = next((key for key, keys in grouped.items() if row["key"] in keys), None)
            if key is None or len(grouped) < 2:
                raise InputError(
                    f"{path.name}, line {number + 2}: {row['word']} has no key {row['key']}"
                )
            taught[row["word"]] = {name: infer_role(row["word"], name, grouped) for name in grouped}
            hashes = [hash_feature(feature) for feature in list_features(words, at, tagger)]
            sentences.append(
                LabelledSentence(row["word"], key, row["writer"], np.array(hashes, np.uint64))
            )
    return sentences, taught


def find_places(hashes: np.ndarray, target: int) -> np.ndarray:
    """`place` of features [F] uint64."""
    return ((hashes + np.uint64(target)) % np.uint64(WORD) // np.uint64(STEP)).astype(np.int64)


def find_places_by_key(sentence: LabelledSentence, candidates: Roles) -> dict[str, np.ndarray]:
    """Where the weights of each key stand."""
    return {
        key: np.concatenate(
            [
                find_places(sentence.hashes, target)
                for target in list_targets(sentence.word, key, role_)
            ]
        )
        for key, role_ in candidates.items()
    }


def fit(sentences: Sequence[LabelledSentence], taught: Mapping[str, Roles]) -> np.ndarray:
    """Weights [2 ** BITS] float64 of least cross-entropy + PENALTY / 2 * their squares."""
    columns: list[np.ndarray] = []
    right, first = [], []
    for sentence in sentences:
        candidates = find_places_by_key(sentence, taught[sentence.word])
        first.append(len(columns))
        # The row of the right key, counted over all sentences
        right.append(len(columns) + [*candidates].index(sentence.key))
        columns += candidates.values()
    # only weights that some sentence reads can move
    used, numbers = np.unique(np.concatenate(columns), return_inverse=True)
    ends = np.cumsum([0, *map(len, columns)])
    shape = (len(columns), len(used))
    # [candidates, weights]: a row for each key of each sentence, a 1 for each weight it reads
    matrix = scipy.sparse.csr_matrix((np.ones(len(numbers), np.float32), numbers, ends), shape)
    # Kept in rows too, since the gradient multiplies by it in every step
    transposed = matrix.T.tocsr()
    starts = np.array(first)
    rights = np.array(right)
    sizes = np.diff([*first, len(columns)])

    def compute_loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        scores = matrix @ weights
        # The largest score of each sentence is taken off, so that exp cannot overflow.
        scores -= np.repeat(np.maximum.reduceat(scores, starts), sizes)
        shares = np.exp(scores)
        totals = np.add.reduceat(shares, starts)
        value = np.sum(np.log(totals) - scores[rights]) + PENALTY / 2 * weights @ weights
        slope = shares / np.repeat(totals, sizes)
        # The gradient of cross-entropy: shares, less one for the right key
        slope[rights] -= 1
        return float(value), transposed @ slope + PENALTY * weights

    options = {"maxiter": STEPS, "maxcor": 8}
    start = np.zeros(len(used))
    answer = scipy.optimize.minimize(
        compute_loss, start, jac=True, method="L-BFGS-B", options=options
    )
    weights = np.zeros(1 << BITS)
    weights[used] = answer.x
    return weights


def quantize(weights: np.ndarray) -> np.ndarray:
    """int8: only their order among one another counts, so the scale is not stored."""
    # The few largest weights are cut, so that the many small ones keep more steps.
    scale = np.quantile(np.abs(weights[weights != 0]), CLIP) / 127
    return np.clip(np.rint(weights / scale), -127, 127).astype(np.int8)


def measure_accuracy(
    weights: np.ndarray, sentences: Sequence[LabelledSentence], taught: Mapping[str, Roles]
) -> float:
    """The share of sentences whose key has the most points."""
    good = 0
    for sentence in sentences:
        candidates = find_places_by_key(sentence, taught[sentence.word])
        points = {key: int(weights[at].sum(dtype=np.int64)) for key, at in candidates.items()}
        good += max(points, key=lambda key: points[key]) == sentence.key
    return good / len(sentences)


def save(weights: np.ndarray, taught: Mapping[str, Roles], path: Path) -> None:
    """Write by rename; the same weights give the same bytes."""
    grouped: dict[str, list[str]] = {}
    for word, keys in sorted(taught.items()):
        grouped.setdefault(" ".join(f"{key}:{keys[key]}" for key in keys), []).append(word)
    head = {"format": FORMAT, "taught": {keys: " ".join(words) for keys, words in grouped.items()}}
    content = json.dumps(head, separators=(",", ":")).encode()
    with open_aside(path) as aside:
        np.savez_compressed(aside, weights=weights, head=np.frombuffer(content, np.uint8))


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = CommandParser("kokoro_g2p.training.heteronym_table", __doc__)
    parser.add_argument("--sentences", type=Path, default=SENTENCES)
    parser.add_argument("--out", type=Path, default=PATH)
    arguments = parser.parse_args(argv)
    sentences, taught = read_sentences(arguments.sentences)
    report: dict[str, float] = {}
    for writer in sorted({sentence.writer for sentence in sentences}):
        others = [sentence for sentence in sentences if sentence.writer != writer]
        judged = [sentence for sentence in sentences if sentence.writer == writer]
        # Fitted anew for each writer, without that writer's sentences
        report[writer] = measure_accuracy(quantize(fit(others, taught)), judged, taught)
        print(f"{writer:9} {len(judged):5} sentences, unseen: {100 * report[writer]:.1f} %")
    save(quantize(fit(sentences, taught)), taught, arguments.out)
    return conclude(arguments, report, EXIT_GOOD, f"{arguments.out} holds {len(sentences)}")


if __name__ == "__main__":
    raise SystemExit(main())
