"""Compare a tensor of the chain with its reference: upstream's, our PyTorch's, or a stored vector.

row = compare_tensor("f0_hz", reference, other, limit_db=80.0)
row.verdict, row.snr_db, row.parts_at      # GOOD, 104.2, None
rows = replay_step(chain, stored, step)       # a step run again on the stored tensors
print_rows("KokoroVocoder-fp16 against upstream", rows)
"""

from dataclasses import dataclass

import numpy as np

from kokoro_ane.core import EQUAL, Step, Tensors, print_table, snr_db
from kokoro_ane.pipeline.synthesis import Chain

GOOD, BAD, ABSENT, REPORTED = "good", "BAD", "not compared", "reported"
# of the reference's largest value: where the difference first passes it, the two part
PARTING = 1e-3
LEAST_DB = -999.0  # stands for minus infinity, which JSON does not have


@dataclass(frozen=True)
class StepRow:
    """The comparison of one tensor. parts_at: the first place on the last axis (token, frame,
    sample) where it differs from the reference by more than PARTING. where: utterance and step of a
    stored vector.

    None means: not compared (all figures), equal (snr_db, limit_db), nowhere
    (parts_at).
    """

    name: str
    verdict: str
    limit_db: float | None
    snr_db: float | None = None
    max_abs: float | None = None
    parts_at: int | None = None
    note: str = ""
    where: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table."""
        name = f"{self.where} {self.name}".strip()
        limit = "equal" if self.limit_db is None else f"{self.limit_db:.1f} dB"
        if self.max_abs is None:
            return (name, "", "", limit, "", f"{self.verdict}: {self.note}")
        return (
            name,
            f"{self.max_abs:.2e}",
            "equal" if self.snr_db is None else f"{self.snr_db:.1f} dB",
            limit,
            "" if self.parts_at is None else str(self.parts_at),
            self.verdict,
        )


def compare_tensor(
    name: str,
    reference: np.ndarray | None,
    other: np.ndarray | None,
    limit_db: float,
    where: str = "",
) -> StepRow:
    """Compare `other` with its reference. limit_db: EQUAL means to the last bit."""
    limit = None if limit_db == EQUAL else limit_db
    if reference is None or other is None:
        note = "upstream has none" if reference is None else "not given out"
        return StepRow(name, ABSENT, limit, note=note, where=where)
    if reference.shape != other.shape:
        note = f"shape {list(other.shape)}, the reference's {list(reference.shape)}"
        return StepRow(name, BAD, limit, note=note, where=where)
    # in float64, so that the figures are of the tensors and not of their comparison
    reference, other = reference.astype(np.float64), other.astype(np.float64)
    difference = np.abs(reference - other)
    snr = snr_db(reference, other)
    largest = np.abs(reference).max(initial=0.0)
    # [S], true where any value at that place of the last axis differs
    by_place = (difference > PARTING * largest).reshape(-1, reference.shape[-1]).any(axis=0)
    return StepRow(
        name,
        verdict=GOOD if snr >= limit_db else BAD,  # NaN is below every limit
        limit_db=limit,
        # JSON has neither infinity nor NaN: equal is None, the others are LEAST_DB.
        snr_db=None if snr == EQUAL else max(snr, LEAST_DB) if snr == snr else LEAST_DB,
        max_abs=float(difference.max(initial=0.0)),
        parts_at=int(np.flatnonzero(by_place)[0]) if by_place.any() else None,
        where=where,
    )


def replay_step(chain: Chain, stored: Tensors, step: Step, utterance: str) -> list[StepRow]:
    """Run one step on stored tensors; return a row for each tensor that it writes."""
    # A step gets what it names and nothing else, so that a wrong list is found.
    tensors = step.run(chain, {name: stored[name] for name in step.reads})
    rows = []
    for name, limit_db in step.writes.items():
        reference, other = stored[name], tensors[name]
        # phases wrap: a spectrum is compared by what is continuous
        if name == "spectrum" and reference.shape == other.shape:
            reference, other = make_comparable(reference), make_comparable(other)
        rows.append(
            compare_tensor(name, reference, other, limit_db, where=f"{utterance}, {step.name}:")
        )
    return rows


def make_comparable(spectrum: np.ndarray) -> np.ndarray:
    """Convert magnitudes and phases [1, 22, S] to real parts, imaginary parts, and magnitude times
    phase, [1, 33, S].

    The last distinguishes +pi from -pi, which are two numbers to the vocoder; weighted so, the
    phase of silence may be anything.
    """
    magnitude, phase = np.split(np.asarray(spectrum, np.float64), 2, axis=1)
    return np.concatenate([convert_to_rectangular(spectrum), magnitude * phase], axis=1)


def convert_to_rectangular(spectrum: np.ndarray) -> np.ndarray:
    """Convert magnitudes and phases [1, 22, S] to real and imaginary parts, where +pi equals -pi:
    in upstream the last bit decides its sign.
    """
    magnitude, phase = np.split(np.asarray(spectrum, np.float64), 2, axis=1)
    return np.concatenate([magnitude * np.cos(phase), magnitude * np.sin(phase)], axis=1)


def find_first_bad(rows: list[StepRow]) -> str | None:
    """Return the name of the first bad tensor."""
    return next((row.name for row in rows if row.verdict == BAD), None)


def print_rows(title: str, rows: list[StepRow]) -> None:
    """Print the rows as a table."""
    headings = ("tensor", "max abs", "SNR", "to reach", "parts at", "")
    print_table(title, headings, (row.cells() for row in rows))
