"""The table of seams in docs/architecture.md is the conductor's own list of steps."""

import pytest

from core.errors import InputError
from pipeline.steps import STEPS
from pipeline.steps_doc import BEGIN, DOCUMENT, END, placed, render


def test_the_document_is_current() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert placed(text) == text, "run: python -m pipeline.steps_doc"


def test_every_step_has_a_row_and_every_tensor_is_written_before_it_is_read() -> None:
    assert render().count("\n") == len(STEPS) + 1
    there = {"phonemes", "speed", "seed"}
    for step in STEPS:
        assert set(step.reads) <= there, step.name
        there |= set(step.writes)


@pytest.mark.parametrize("text", ["no marks", BEGIN, END])
def test_a_lost_mark_is_named(text: str) -> None:
    with pytest.raises(InputError, match="lacks the mark"):
        placed(text)
