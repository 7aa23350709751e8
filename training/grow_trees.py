"""Grow the trees of g2p/languages/letter_trees.py on a language's commonest words, as espeak-ng
reads them.

    # g2p/data/french.npz and french.txt.gz, 10 minutes on one core
    python -m training.grow_trees --language fr

The words come from wordfreq, `pip install --no-deps wordfreq==3.1.1` (CC BY-SA 4.0); no frequency
is stored. HELD_OUT of the 40,000 commonest, drawn by SHA-256 of seed and word, grow no tree. The
list holds the words that the trees read wrong, held-out ones included. A pipe's last line is one
JSON object.
"""

import gzip
import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from kokoro_ane.core.commands import conclude
from kokoro_ane.core.errors import EXIT_GOOD, InputError, Parser, command
from kokoro_ane.core.staging import staged
from kokoro_ane.g2p.bundled import DATA
from kokoro_ane.g2p.espeak import espeak_of
from kokoro_ane.g2p.languages.letter_reader import LETTER_LANGUAGES, LetterLanguage
from kokoro_ane.g2p.languages.letter_trees import (
    FOREIGN,
    ID,
    LEAF,
    LETTERS,
    OWN,
    SETS,
    SPAN,
    WHICH,
    padded,
    window,
)

# words that no tree sees, and of how many commonest ones they are drawn
HELD_OUT, COMMON = 2000, 40_000
FORMS = 20_000  # commonest words, whose form inside a phrase is listed too
ROUNDS, SAMPLE = 6, 30_000  # of the alignment's expectation maximization; words in it
MOST = 3  # sounds that a letter can have
SOUND = re.compile("[ˈˌ]?[^ˈˌː\u0303][ː\u0303]*")
VOTE = 10  # a vote is log odds in units of a tenth
TRUST = 3.0  # bits that a question of a vote has to gain
SHARE = 0.1  # prior count of foreign words in a leaf; that of the others is nine times as much
# [questions, codes]
MEMBERS = np.array(
    [[code in members for code in range(len(LETTERS))] for members in SETS], dtype=np.int64
)
Chunks = list[tuple[str, ...]]


def frequent_words(language: str) -> list[str]:
    """The words of letters alone, the commonest first. Raises InputError when wordfreq is not
    installed.
    """
    spec = find_spec("wordfreq")
    if spec is None or not spec.submodule_search_locations or find_spec("msgpack") is None:
        raise InputError(
            "wordfreq and msgpack are not installed: `pip install --no-deps wordfreq==3.1.1"
            " msgpack`"
        )
    import msgpack

    path = Path(spec.submodule_search_locations[0]) / "data" / f"large_{language}.msgpack.gz"
    _, *bins = msgpack.unpackb(gzip.decompress(path.read_bytes()), raw=False)
    return [word for words in bins for word in words if re.fullmatch(r"[a-zà-öø-ÿœ]+", word)]


def readings(
    language: LetterLanguage, words: Sequence[str]
) -> tuple[dict[str, str], frozenset[str]]:
    """Each word's reading in the notation of the list, and the set of words that espeak-ng reads as
    foreign.
    """
    ask = cache(espeak_of(language.espeak))
    by_word = {word: language.probed(word, ask, place < FORMS) for place, word in enumerate(words)}
    return by_word, frozenset(word for word in words if ask(word).startswith("@"))


def held_out(words: Sequence[str], seed: int) -> list[str]:
    """The words that no tree is grown on."""
    common = [word for word in words[:COMMON] if len(word) > 1]
    return sorted(common, key=lambda word: hashlib.sha256(f"{seed} {word}".encode()).digest())[
        :HELD_OUT
    ]


class Alignment:
    """Which letters a word's sounds come from, by expectation maximization over whole words along
    their best paths.
    """

    def __init__(self, sounds: Mapping[str, Sequence[str]]) -> None:
        self.costs: dict[tuple[str, tuple[str, ...]], float] = {}
        sample = list(sounds)[:SAMPLE]
        for _ in range(ROUNDS):
            counts: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
            for word in sample:
                for letter, chunk in zip(word, self(word, tuple(sounds[word])), strict=False):
                    counts[letter][chunk] += 1
            self.costs = {
                (letter, chunk): math.log(tally.total() / count)
                for letter, tally in counts.items()
                for chunk, count in tally.items()
            }

    def _cost(self, letter: str, chunk: tuple[str, ...]) -> float:
        # the first round has no counts yet: one sound a letter, and best the letter's own
        if self.costs:
            return self.costs.get((letter, chunk), 9.0 + 2 * len(chunk))
        return (1.5, 1.0, 4.0, 8.0)[len(chunk)] + (
            0.5 if len(chunk) == 1 and chunk[0].strip("ˈˌ") != letter else 0.0
        )

    def __call__(self, word: str, sounds: tuple[str, ...]) -> Chunks:
        """A chunk of sounds for each letter; no chunks when there are too many sounds. Example:
        "eau" with the sound o may give (), (), (o).
        """
        # after each letter: how many sounds are used -> the least cost, and how many before it
        best: list[dict[int, tuple[float, int]]] = [{0: (0.0, 0)}]
        for letter in word:
            step: dict[int, tuple[float, int]] = {}
            for end, (so_far, _) in best[-1].items():
                for reach in range(end, min(end + MOST, len(sounds)) + 1):
                    cost = so_far + self._cost(letter, sounds[end:reach])
                    if reach not in step or cost < step[reach][0]:
                        step[reach] = (cost, end)
            best.append(step)
        chunks, end = [], len(sounds)
        for step in best[:0:-1] if end in best[-1] else []:
            chunks.append(sounds[step[end][1] : end])
            end = step[end][1]
        return chunks[::-1]


class Forest:
    """The nodes of all trees in the order that LetterTrees walks."""

    def __init__(self) -> None:
        self.where: list[int] = []
        self.what: list[int] = []
        self.no: list[int] = []

    def grow(
        self,
        codes: np.ndarray,
        answers: np.ndarray,
        leaf: Callable[[np.ndarray], int],
        least: float,
    ) -> int:
        """Grow a tree for codes [n, places] and answers [n], by the information that each question
        gains; returns the place of its root.
        """
        place = len(self.no)
        question = best_question(codes, answers, least)
        self.where.append(LEAF if question is None else question[0])
        self.what.append(0 if question is None else question[1])
        self.no.append(leaf(answers) if question is None else 0)
        # the subtree for yes follows at once; `no` is the distance to the other one
        if question is not None:
            yes = MEMBERS[question[1]][codes[:, question[0]]] > 0
            self.grow(codes[yes], answers[yes], leaf, least)
            self.no[place] = len(self.no) - place
            self.grow(codes[~yes], answers[~yes], leaf, least)
        return place


def entropy(counts: np.ndarray) -> np.ndarray:
    """The entropy of counts [..., answers] in bits, times their sum."""
    totals = counts.sum(axis=-1)
    return totals * np.log2(np.maximum(totals, 1)) - (counts * np.log2(np.maximum(counts, 1))).sum(
        axis=-1
    )


def best_question(codes: np.ndarray, answers: np.ndarray, least: float) -> tuple[int, int] | None:
    """The place and the set of letters that divide the answers best; None where no question gains
    `least` bits.
    """
    kinds, indices = np.unique(answers, return_inverse=True)
    if len(kinds) < 2:
        return None
    all_counts = np.bincount(indices)
    before, best, chosen = entropy(all_counts), least, None
    for place in range(codes.shape[1]):
        counts = np.bincount(
            codes[:, place].astype(np.int64) * len(kinds) + indices,
            minlength=len(LETTERS) * len(kinds),
        )
        table = counts.reshape(len(LETTERS), len(kinds))
        # one product counts the answers behind every question at once
        used = np.flatnonzero(table.sum(axis=1))
        yes = MEMBERS[:, used] @ table[used]  # [questions, answers]
        gains = before - entropy(yes) - entropy(all_counts - yes)
        question = int(gains.argmax())
        if gains[question] > best:
            best, chosen = float(gains[question]), (place, question)
    return chosen


def commonest(answers: np.ndarray) -> int:
    """The most common answer, which a leaf gives."""
    return int(np.bincount(answers).argmax())


def vote(answers: np.ndarray) -> int:
    """The log odds that a word is foreign, in tenths, against the usual odds."""
    foreign, native = int(answers.sum()), int(len(answers) - answers.sum())
    return round(
        VOTE * (max(-8.0, min(8.0, math.log((foreign + SHARE) / (native + SHARE * 9)))) + 3)
    )


def grown(
    aligned: Mapping[str, Chunks], foreign: frozenset[str], places: int
) -> dict[str, np.ndarray]:
    """The arrays of LetterTrees. `places` is the width of a window."""
    counts = Counter(chunk for chunks in aligned.values() for chunk in chunks)
    chunks = [(), *(chunk for chunk, _ in counts.most_common() if chunk)]
    code = {chunk: place for place, chunk in enumerate(chunks)}
    rows: dict[tuple[int, int], list[tuple[list[int], int]]] = defaultdict(list)
    for word, word_chunks in aligned.items():
        row, targets = padded(word), [code[chunk] for chunk in word_chunks]
        kind = FOREIGN if word in foreign else OWN
        for place, answer in enumerate(targets):
            rows[kind, row[place + SPAN]].append(
                (window(row, place, targets[:place])[:places], answer)
            )
            rows[WHICH, row[place + SPAN]].append(
                (window(row, place, [])[: 2 * SPAN], int(kind == FOREIGN))
            )
    forest, roots = Forest(), np.full((3, len(LETTERS)), -1, dtype=np.int32)
    for (kind, letter), seen in sorted(rows.items()):
        codes, answers = (
            np.array([codes for codes, _ in seen], dtype=np.uint8),
            np.array([answer for _, answer in seen]),
        )
        roots[kind, letter] = forest.grow(
            codes, answers, *((vote, TRUST) if kind == WHICH else (commonest, 1e-6))
        )
    nodes = {
        "where": np.array(forest.where, np.uint8),
        "what": np.array(forest.what, np.uint8),
        "no": np.array(forest.no, np.int32),
    }
    return nodes | {
        "roots": roots,
        "chunks": np.frombuffer("\n".join(map("".join, chunks)).encode(), np.uint8),
    }


def bare(reading: str, stressed: Callable[[str], str]) -> str:
    """A reading's form at the end of a phrase, as the trees should answer it: without the stress
    that the rule restores.
    """
    end, _, inside = reading.partition("/")
    plain = end.replace("ˈ", "").replace("ˌ", "")
    latent = inside[-1:] if inside[-1:].isupper() and not end[-1:].isupper() else ""
    return (plain if stressed(plain) == end else end) + latent


def train(language: LetterLanguage, words: Sequence[str], unseen: frozenset[str]) -> dict[str, Any]:
    """Write the trees and the list; returns the figures of the last line."""
    by_word, foreign = readings(language, words)
    sounds = {
        word: tuple(SOUND.findall(bare(by_word[word], language.stressed)))
        for word in words
        if len(word) > 1 and by_word[word] and " " not in by_word[word] and ID.keys() >= set(word)
    }
    align = Alignment({word: pieces for word, pieces in sounds.items() if word not in foreign})
    aligned: dict[str, Chunks] = {}  # by stem: the commonest word's
    for word, chunks in (
        (word, align(word, pieces)) for word, pieces in sounds.items() if word not in unseen
    ):
        stem = language.stem(word)
        if chunks and "".join(map("".join, chunks[len(stem) :])) == word[len(stem) :]:
            aligned.setdefault(stem, chunks[: len(stem)])
    arrays = grown(aligned, foreign, language.asked)
    with staged(DATA / f"{language.name}.npz") as aside, aside.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)
    # the list has the words that trees and rules together read otherwise than espeak-ng
    ask, compounds = espeak_of(language.espeak), language.compounds
    exceptions = [
        word
        for word in words
        if by_word[word] and " " not in by_word[word] and language.ruled(word) != by_word[word]
    ]
    lines = [f"{word}\t{by_word[word]}\n" for word in exceptions] + [
        f"{word}\t{language.probed(word, ask, True)}\n" for word in compounds
    ]
    with staged(DATA / f"{language.name}.txt.gz") as aside:
        aside.write_bytes(gzip.compress("".join(sorted(lines)).encode("utf-8"), mtime=0))
    return {
        "words": len(words),
        "nodes": len(arrays["no"]),
        "listed": len(lines),
        "foreign": len(foreign),
    }


@command
def main(argv: list[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("training.grow_trees", __doc__)
    parser.add_argument("--language", choices=tuple(LETTER_LANGUAGES), default="fr")
    parser.add_argument("--seed", type=int, default=0, help="of the words that no tree sees")
    arguments = parser.parse_args(argv)
    words = frequent_words(arguments.language)
    sealed = frozenset(held_out(words, arguments.seed))
    figures = train(LETTER_LANGUAGES[arguments.language], words, sealed)
    return conclude(arguments, vars(arguments) | figures, EXIT_GOOD, "grown and written")


if __name__ == "__main__":
    raise SystemExit(main())
