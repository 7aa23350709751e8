"""How wrong phonemes are: edits per sound (PER) and wrong words (WER), in percent. The one definition of both in this repository.

rates = error_rates(["kˈæt"], ["kˈæt"])
rates.per, rates.wer                  # without stress
rates.stressed_per, rates.stressed_wer
"""

from collections.abc import Sequence
from dataclasses import dataclass

from g2p.alphabet import without_stress


@dataclass(frozen=True)
class Rates:
    """Percent. PER divides all edits by all symbols of the references; a stress mark counts as a symbol in the stressed figures."""

    per: float
    wer: float
    stressed_per: float
    stressed_wer: float
    words: int


def edit_distance(found: Sequence[str], wanted: Sequence[str]) -> int:
    """Fewest insertions, deletions and substitutions, each of cost 1 (Levenshtein 1966)."""
    row = list(range(len(wanted) + 1))
    for i, symbol in enumerate(found, start=1):
        before, row[0] = row[0], i
        for j, other in enumerate(wanted, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (symbol != other))
    return row[-1]


def error_rates(found: Sequence[str], wanted: Sequence[str]) -> Rates:
    """Rates of answers against references, one string of Kokoro symbols a word. Raises ValueError: other counts, or nothing to compare."""
    if len(found) != len(wanted) or not wanted:
        raise ValueError(f"{len(found)} answers for {len(wanted)} references: the same number, at least one")
    bare = [without_stress(phonemes) for phonemes in found], [without_stress(phonemes) for phonemes in wanted]
    return Rates(*_per_and_wer(*bare), *_per_and_wer(found, wanted), words=len(wanted))


def _per_and_wer(found: Sequence[str], wanted: Sequence[str]) -> tuple[float, float]:
    edits = [edit_distance(one, other) for one, other in zip(found, wanted, strict=True)]
    return 100 * sum(edits) / sum(map(len, wanted)), 100 * sum(edit > 0 for edit in edits) / len(edits)
