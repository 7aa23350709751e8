"""Edits per sound (PER) and wrong words (WER) of a reader, in percent.

compute_error_rates(["kˈæt"], ["kˈæt"]).per
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kokoro_g2p.alphabet import edit_distance, without_stress


@dataclass(frozen=True)
class Rates:
    """Percent. PER divides all edits by all symbols of the references; a stress mark counts as a
    symbol in the stressed figures.
    """

    per: float
    wer: float
    stressed_per: float
    stressed_wer: float
    words: int


def compute_error_rates(produced: Sequence[str], expected: Sequence[str]) -> Rates:
    """Rates of answers against references, one string of Kokoro symbols a word. Raises ValueError:
    other counts, or nothing to compare.
    """
    if len(produced) != len(expected) or not expected:
        raise ValueError(
            f"{len(produced)} answers for {len(expected)} references: the same number, at least one"
        )
    bare = (
        [without_stress(phonemes) for phonemes in produced],
        [without_stress(phonemes) for phonemes in expected],
    )
    return Rates(
        *_compute_per_and_wer(*bare), *_compute_per_and_wer(produced, expected), words=len(expected)
    )


def _compute_per_and_wer(produced: Sequence[str], expected: Sequence[str]) -> tuple[float, float]:
    edits = [edit_distance(one, other) for one, other in zip(produced, expected, strict=True)]
    return 100 * sum(edits) / sum(map(len, expected)), 100 * sum(edit > 0 for edit in edits) / len(
        edits
    )
