"""Seam by seam: two runs of one utterance compared where tensors cross from stage to stage, and the first stage that is bad.

    rows = compared(reference, ours, limits=FLOAT32)
    first_bad(rows)                     # its name, or None

A seam behind a bad one is not judged: it differs because its input does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.figures import snr_db

ORDER = (
    "bert", "bert_encoder", "durations", "text", "frames", "f0_hz", "energy", "asr", "spectrum", "trunk", "waveform", "chain"
)  # fmt: skip
# Seams each one is computed from; a seam is judged only when these hold.
FROM = {"bert_encoder": ("bert",), "durations": ("bert_encoder",), "frames": ("durations", "bert_encoder"),
        "f0_hz": ("frames",), "energy": ("frames",), "asr": ("durations", "text"), "waveform": ("trunk",)}  # fmt: skip
PARTING = 1e-3  # of the reference's largest value: where the difference first passes it, the two part
GOOD, BAD, AFTER, ABSENT, REPORTED = "good", "BAD", "behind a bad one", "not compared", "reported"

# dB. spectrum, trunk and waveform run on upstream's own inputs; `chain` is the waveform of the whole chain on its own inputs, and has no
# limit: the last bits of F0 decide the phase of nearly silent bins. Upstream sums the source's phase in float32: 40 for its spectrum.
FLOAT64 = dict.fromkeys(ORDER, 80.0)
FLOAT32 = FLOAT64 | {"spectrum": 40.0}
PACKAGE = FLOAT32 | {"text": 40.0, "asr": 40.0, "energy": 40.0, "waveform": 40.0}  # fp16 there: docs/encoder.md, docs/vocoder.md


@dataclass(frozen=True)
class SeamRow:
    """One seam of one run. `parts_at` is the first place on the last axis (token, frame, sample) where the two part.

    None: not compared (all figures), equal (snr_db), constant (correlation), nowhere (parts_at).
    """

    name: str
    verdict: str
    limit_db: float
    snr_db: float | None = None
    max_abs: float | None = None
    correlation: float | None = None
    parts_at: int | None = None
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        """For a table."""
        if self.max_abs is None:
            return (self.name, "", "", "", "", f"{self.verdict}: {self.note}")
        snr = "equal" if self.snr_db is None else f"{self.snr_db:.1f} dB"
        correlation = "" if self.correlation is None else f"{self.correlation:.6f}"
        return (self.name, f"{self.max_abs:.2e}", snr, correlation, "" if self.parts_at is None else str(self.parts_at), self.verdict)


def rectangular(spectrum: np.ndarray) -> np.ndarray:
    """Magnitudes and phases [1, 22, S] to real and imaginary parts: a phase of +pi is one of -pi, and that of silence means nothing."""
    magnitude, phase = np.split(np.asarray(spectrum, np.float64), 2, axis=1)
    return np.concatenate([magnitude * np.cos(phase), magnitude * np.sin(phase)], axis=1)


def compared(reference: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray], limits: Mapping[str, float]) -> list[SeamRow]:
    """One row a seam, in the order of the data's way. Durations must be equal; everything else keeps its limit in dB."""
    rows: dict[str, SeamRow] = {}
    for name in ORDER:
        upstream_of_it = [rows[source].verdict for source in FROM.get(name, ()) if source in rows]
        behind = any(verdict in (BAD, AFTER) for verdict in upstream_of_it)
        rows[name] = _row(name, reference.get(name), other.get(name), limits[name], behind)
    return list(rows.values())


def _row(name: str, wanted: np.ndarray | None, got: np.ndarray | None, limit: float, behind: bool) -> SeamRow:
    if wanted is None or got is None:
        return SeamRow(name, ABSENT, limit, note="upstream has none" if wanted is None else "not given out")
    if wanted.shape != got.shape:
        return SeamRow(
            name,
            REPORTED if name == "chain" else AFTER if behind else BAD,
            limit,
            note=f"shape {list(got.shape)}, upstream's {list(wanted.shape)}",
        )
    if name == "spectrum":
        wanted, got = rectangular(wanted), rectangular(got)
    wanted, got = wanted.astype(np.float64), got.astype(np.float64)
    difference, snr = np.abs(wanted - got), snr_db(wanted, got)
    good = not difference.any() if name == "durations" else snr >= limit
    verdict = REPORTED if name == "chain" else GOOD if good else AFTER if behind else BAD
    places = np.flatnonzero((difference > PARTING * np.abs(wanted).max()).reshape(-1, wanted.shape[-1]).any(axis=0))
    return SeamRow(
        name,
        verdict=verdict,
        limit_db=limit,
        snr_db=snr if np.isfinite(snr) else None,
        max_abs=float(difference.max()),
        correlation=_correlation(wanted, got),
        parts_at=int(places[0]) if len(places) else None,
    )


def _correlation(wanted: np.ndarray, got: np.ndarray) -> float | None:
    spread = wanted.std() * got.std()
    return float(((wanted - wanted.mean()) * (got - got.mean())).mean() / spread) if spread else None


def first_bad(rows: list[SeamRow]) -> str | None:
    """The first stage that is bad by itself."""
    return next((row.name for row in rows if row.verdict == BAD), None)
