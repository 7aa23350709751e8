"""Loops as functions: the same bits as step by step, whatever the body holds, and errors with their place.

python -m pytest tests/test_mlprogram_loop_code.py -q
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
import torch
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import types

from mlprogram import Program
from mlprogram.errors import ProgramError
from mlprogram.loop_code import LoopCode
from tests.test_mlprogram_gru_loop import Layers
from tests.test_mlprogram_networks import convert, stored
from tests.test_mlprogram_programs import program_of

STEPS, WIDTH = 7, 5


def _rows(x, n):
    """A list kept as a tensor: a row is read and the next one written."""

    def body(k, rows):
        row = mb.gather(x=rows, indices=mb.expand_dims(x=k, axes=[0]), axis=0)
        new = mb.add(x=mb.tanh(x=row), y=mb.gather(x=x, indices=mb.expand_dims(x=k, axes=[0]), axis=0))
        after = mb.add(x=k, y=1)
        return after, mb.scatter(data=rows, indices=mb.expand_dims(x=after, axes=[0]), updates=new, axis=0, mode="update")

    return mb.while_loop(
        _cond=lambda k, r: mb.less(x=k, y=n), _body=body, loop_vars=(np.int32(0), np.zeros((STEPS + 1, WIDTH), np.float32))
    )[1]


def _row_kept(x, n):
    """A row that was read is carried on, and the list is written at that very row."""

    def body(k, rows, kept):
        place = mb.expand_dims(x=k, axes=[0])
        new = mb.scatter(data=rows, indices=place, updates=mb.gather(x=x, indices=place, axis=0), axis=0, mode="add")
        return mb.add(x=k, y=1), new, mb.add(x=kept, y=mb.gather(x=rows, indices=place, axis=0))

    start = (np.int32(0), np.ones((STEPS, WIDTH), np.float32), np.zeros((1, WIDTH), np.float32))
    _, rows, kept = mb.while_loop(_cond=lambda k, r, s: mb.less(x=k, y=n), _body=body, loop_vars=start)
    return mb.concat(values=(rows, kept), axis=0)


def _numbers(x, n):
    """Counters that overflow, casts to int16, a choice and a product that hangs on nothing in the loop."""

    def body(k, code, total):
        code = mb.add(x=mb.mul(x=code, y=np.int32(1664525)), y=np.int32(1013904223))
        small = mb.cast(x=mb.cast(x=code, dtype="int16"), dtype="fp32")
        still = mb.mul(x=x, y=np.float32(1e-3))
        row = mb.reduce_sum(x=still, axes=[0], keep_dims=False)
        odd = mb.select(cond=mb.greater(x=code, y=np.int32(0)), a=row, b=mb.mul(x=row, y=np.float32(-0.5)))
        return mb.add(x=k, y=1), code, mb.add(x=mb.mul(x=total, y=np.float32(0.5)), y=mb.mul(x=odd, y=small))

    start = (np.int32(0), np.int32(1), np.zeros(WIDTH, np.float32))
    return mb.while_loop(_cond=lambda k, c, t: mb.less(x=k, y=n), _body=body, loop_vars=start)[2]


def _listed(x, n):
    """list_write and list_read; the list grows."""
    items = mb.make_list(init_length=1, dynamic_length=True, elem_shape=(WIDTH,), dtype="fp32")

    def body(k, ls):
        row = mb.add(x=mb.list_read(ls=ls, index=mb.maximum(x=mb.sub(x=k, y=1), y=np.int32(0))), y=mb.gather(x=x, indices=k, axis=0))
        return mb.add(x=k, y=1), mb.list_write(ls=ls, index=k, value=row)

    done = mb.while_loop(_cond=lambda k, ls: mb.less(x=k, y=n), _body=body, loop_vars=(np.int32(0), items))[1]
    return mb.list_gather(ls=done, indices=[2, 0])


LOOPS = {"rows": _rows, "a row kept": _row_kept, "numbers": _numbers, "list": _listed}


def _program(make: Callable, folder: Path) -> Program:
    def body(x, n):
        return [mb.identity(x=make(x, mb.squeeze(x=n)), name="y")]

    return program_of(body, folder, x=(STEPS, WIDTH), n=((1,), types.int32))


@pytest.mark.parametrize("kind", LOOPS)
def test_function_gives_what_the_steps_give(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, run = [], LoopCode.run

    def watched(*arguments: object) -> tuple:
        result = run(*arguments)
        done.append(result[0])
        return result

    monkeypatch.setattr(LoopCode, "run", watched)
    program = _program(LOOPS[kind], tmp_path)
    x = torch.randn(STEPS, WIDTH)
    for n in (3, STEPS):
        inputs = {"x": x, "n": np.array([n], np.int32)}
        y = program(inputs)["y"]
        assert torch.equal(y, program(inputs, hook=lambda *_: None)["y"])
    assert done == [True, True]


@pytest.mark.parametrize("kind", ["rows", "list"])
def test_an_error_has_its_place(kind: str, tmp_path: Path) -> None:
    program = _program(LOOPS[kind], tmp_path)
    with pytest.raises(ProgramError, match="gather .* failed: index 7 is outside"):
        program({"x": torch.randn(STEPS, WIDTH), "n": np.array([STEPS + 2], np.int32)})


@pytest.mark.parametrize("precision", ["FLOAT32", "FLOAT16"])
def test_the_loop_of_a_gru(precision: str, tmp_path: Path) -> None:
    path = stored(convert(Layers().eval(), (1, 9, 6), ct.target.iOS17, precision), tmp_path / "g.mlpackage")
    x = torch.randn(1, 9, 6)
    for name in ("declared", "exact", "exact64"):
        program = Program(path, precision=name)
        body = program._plan.body
        object.__setattr__(program._plan, "body", replace(body, steps=tuple(replace(s, gru=None) for s in body.steps)))
        assert torch.equal(program({"x": x})["y"], program({"x": x}, hook=lambda *_: None)["y"])
