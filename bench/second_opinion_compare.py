"""Two executions of one package side by side: dB for every output, and PESQ.

rows = rows_of(subject, [(case, theirs), ...], told)
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.second_opinion_cases import Case, Subject
from core.figures import snr_db


def groups(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases of equal shapes together: one conversion each."""
    found: dict[tuple, list[Case]] = defaultdict(list)
    for case in cases:
        found[tuple(value.shape for value in case.given.values())].append(case)
    return list(found.values())


def agreement_db(ours: np.ndarray, theirs: np.ndarray) -> float | None:
    """dB between two answers, None where they are equal; minus a thousand where they cannot be compared: other shapes, not finite."""
    if ours.shape != theirs.shape or not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return -1e3
    found = snr_db(ours, theirs)
    return None if found == float("inf") else found


def worst(values: Sequence[float | None]) -> float | None:
    """The lowest; None where all are equal."""
    return min((value for value in values if value is not None), default=None)


def rows_of(subject: Subject, answers: Sequence[tuple[Case, Mapping[str, np.ndarray]]], told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row an output: worst agreement, and the PESQ of the sentence where the two differ most."""
    rows = []
    for name in subject.program.outputs:
        scores = [_pesq(case, case.ours[name], theirs[name]) for case, theirs in answers if case.reference is not None]
        pesq, pesq_theirs = max(scores, key=lambda pair: abs(pair[0] - pair[1]), default=(None, None))
        agreement = worst([agreement_db(case.ours[name], theirs[name]) for case, theirs in answers])
        figures = {"agreement_db": agreement, "pesq": pesq, "pesq_theirs": pesq_theirs, "sentences": len(answers), "refused": ""}
        rows.append(_named(subject, name) | figures | dict(told))
    return rows


def refused_rows(subject: Subject, why: str) -> list[dict[str, Any]]:
    """The same for a function that Apple's tools refuse."""
    blank = {"agreement_db": None, "pesq": None, "pesq_theirs": None, "sentences": len(subject.cases), "refused": why}
    return [_named(subject, name) | blank for name in subject.program.outputs]


def _named(subject: Subject, output: str) -> dict[str, Any]:
    quantizes = any(op.op_type == "quantize" for op in subject.program.operations)
    return {"package": subject.package.stem, "function": subject.function, "output": output, "quantizes": quantizes}


def _pesq(case: Case, ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    from eval.metrics.perceptual import pesq_wb
    from eval.metrics.trial import Trial

    assert case.reference is not None and case.join is not None
    first, second = (pesq_wb(Trial(case.reference, case.join(waveform))) for waveform in (ours, theirs))
    return first, second
