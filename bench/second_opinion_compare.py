"""Two executions of one package side by side: dB for every output, and PESQ.

rows = rows_of(subject, [(case, theirs), ...], told)
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bench.second_opinion_cases import Case, Subject
from core.figures import snr_db
from mlprogram import Program


def groups(cases: Sequence[Case], free: bool) -> list[list[Case]]:
    """Cases of equal shapes together: one conversion each. With open lengths one conversion serves all."""
    if free:
        return [list(cases)]
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


def reordered_db(subject: Subject) -> dict[str, float | None]:
    """By output: worst agreement of mlprogram with itself when only the order of additions changes; None: equal, or no sum is rounded."""
    if subject.program.precision.wide is not None:
        return dict.fromkeys(subject.program.outputs)
    other = Program(subject.package, subject.function, f"{subject.program.precision.name}64")
    answers = [(case.ours, other(case.given)) for case in subject.cases]
    return {name: worst([agreement_db(ours[name], theirs[name].numpy()) for ours, theirs in answers]) for name in subject.program.outputs}


def worst(values: Sequence[float | None]) -> float | None:
    """The lowest; None where all are equal."""
    return min((value for value in values if value is not None), default=None)


def rows_of(subject: Subject, answers: Sequence[tuple[Case, Mapping[str, np.ndarray]]], told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row an output: worst agreement; what mlprogram agrees with itself by; of a vocoder each against the fp32 render, worst sentence
    in dB and, where values are int8, PESQ of the sentence where the two differ most."""
    rows, reordered = [], reordered_db(subject)
    for name in subject.program.outputs:
        agreement = worst([agreement_db(case.ours[name], theirs[name]) for case, theirs in answers])
        renders = [_rendered(case, case.ours[name], theirs[name]) for case, theirs in answers if case.reference is not None]
        named = _named(subject, name)
        figures = {"agreement_db": agreement, "reordered_db": reordered[name], "sentences": len(answers), "refused": ""}
        rows.append(named | figures | against_reference(renders, with_pesq=named["quantizes"]) | dict(told))
    return rows


def against_reference(renders: Sequence[Sequence[np.ndarray]], with_pesq: bool) -> dict[str, float | None]:
    """`renders`: (reference, ours, theirs) of each sentence, [600 F]. None where there are none."""
    ours, theirs = (worst([agreement_db(render[0], render[i]) for render in renders]) for i in (1, 2))
    scores = [(_pesq(render[0], render[1]), _pesq(render[0], render[2])) for render in renders] if with_pesq else []
    pesq, pesq_theirs = max(scores, key=lambda pair: abs(pair[0] - pair[1]), default=(None, None))
    return {"ours_db": ours, "theirs_db": theirs, "pesq": pesq, "pesq_theirs": pesq_theirs}


def _rendered(case: Case, *waveforms: np.ndarray) -> list[np.ndarray]:
    assert case.reference is not None and case.join is not None
    return [case.reference, *(case.join(waveform) for waveform in waveforms)]


def refused_rows(subject: Subject, why: str) -> list[dict[str, Any]]:
    """The same for a function that Apple's tools refuse."""
    blank = dict.fromkeys(("agreement_db", "reordered_db", "ours_db", "theirs_db", "pesq", "pesq_theirs")) | {
        "sentences": len(subject.cases)
    }
    return [_named(subject, name) | blank | {"refused": why} for name in subject.program.outputs]


def _named(subject: Subject, output: str) -> dict[str, Any]:
    quantizes = any(op.op_type == "quantize" for op in subject.program.operations)
    named = {"package": subject.package.stem, "function": subject.function, "precision": subject.program.precision.name}
    return named | {"output": output, "quantizes": quantizes}


def _pesq(reference: np.ndarray, test: np.ndarray) -> float:
    from eval.metrics.perceptual import pesq_wb
    from eval.metrics.trial import Trial

    return pesq_wb(Trial(reference, test))
