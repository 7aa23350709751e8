"""Words as batches of about equal work: the same letters in every batch, words of about one length together, in an order drawn from a seed.

examples = examples_of(Split.draw(seed=0).training)
for batch in batches(examples, seed=0, epoch=0, symbols=2560): ...
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from g2p.alphabet import AMERICAN, FRAMES, PADDING, Alphabet, encode

REPEATS = (2, 1)  # of the two lists in one epoch: gold counts double; any other list once, asked for as gold is


class Example(NamedTuple):
    """Ids of a word with its tag in front, and of its sounds."""

    symbols: tuple[int, ...]
    sounds: tuple[int, ...]


class Batch(NamedTuple):
    """symbols [B, S] padded with 0, sounds of all words in a row, how many sounds each has."""

    symbols: Tensor
    sounds: Tensor
    counts: Tensor


def fits(example: Example) -> bool:
    """Whether CTC can write the sounds into the frames: one frame a sound, and a blank between two equal ones."""
    equal = sum(a == b for a, b in zip(example.sounds, example.sounds[1:], strict=False))
    return len(example.sounds) + equal <= FRAMES * len(example.symbols)


def examples_of(training: Mapping[str, Mapping[str, str]], alphabet: Alphabet = AMERICAN) -> list[Example]:
    """Every word the lists hold, as often as they count; a word too short for its sounds is left out."""
    found = []
    for name, entries in training.items():
        tag = alphabet.tags.index(name) if name in alphabet.tags else 0
        repeats = REPEATS[tag] if name in alphabet.tags else 1
        for word, phonemes in sorted(entries.items()):
            cut = alphabet.cut(phonemes)
            if cut is None:
                raise ValueError(f"{word!r} of {name}: {phonemes!r} is outside the model's alphabet")
            example = Example(encode(word, tag), tuple(alphabet.ids[sound] for sound in cut))
            found += [example] * (repeats if fits(example) else 0)
    return found


def batches(examples: Sequence[Example], seed: int, epoch: int, symbols: int) -> Iterator[Batch]:
    """One epoch: every example once, about `symbols` letters a batch, padding counted."""
    order = random.Random(f"{seed} {epoch}")
    rows = list(range(len(examples)))
    order.shuffle(rows)
    rows.sort(key=lambda row: len(examples[row].symbols))  # stable: words of one length stay shuffled
    chunks, start = [], 0
    while start < len(rows):
        size = max(1, symbols // len(examples[rows[start]].symbols))
        chunks.append(rows[start : start + size])
        start += size
    order.shuffle(chunks)
    for chunk in chunks:
        yield collated([examples[row] for row in chunk])


def collated(chunk: Sequence[Example]) -> Batch:
    """Pad to the longest word of the chunk."""
    longest = max(len(example.symbols) for example in chunk)
    symbols = [(*example.symbols, *[PADDING] * (longest - len(example.symbols))) for example in chunk]
    row = [sound for example in chunk for sound in example.sounds]
    return Batch(torch.tensor(symbols), torch.tensor(row), torch.tensor([len(example.sounds) for example in chunk]))
