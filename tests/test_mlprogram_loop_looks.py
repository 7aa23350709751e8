"""Loops as functions beside the plain loop, which a hook asks for: no row written where a look at it is kept, int32 numbers, errors.

python -m pytest tests/test_mlprogram_loop_looks.py -q
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from coremltools.converters.mil import Builder as mb
from coremltools.converters.mil.mil import types

from mlprogram import Program, ProgramError
from mlprogram.loop_code import LoopCode
from tests.test_mlprogram_programs import program_of

START, LIST = np.array([0], np.int32), (5, 1, 3)


def loop_of(program: Program) -> LoopCode | None:
    return next(step.loop for step in program._plan.body.steps if step.op.op_type == "while_loop")


def same_as_plain(program: Program, inputs: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Both ways, bit for bit; what the caller gave is as it was."""
    before = {name: value.copy() for name, value in inputs.items()}
    plain = program(inputs, hook=lambda name, kind, value: None)
    ready = program(inputs)
    for name, value in plain.items():
        assert torch.equal(value, ready[name]), name
        assert value.dtype == ready[name].dtype
    assert all(np.array_equal(before[name], value) for name, value in inputs.items())
    return ready


def count(k: Any, *_: Any) -> Any:
    return mb.less(x=k, y=np.int32(4))


def row_of(rows: Any, k: Any) -> Any:
    return mb.gather(x=rows, indices=k, axis=0)


def running(rows: Any, k: Any) -> tuple[Any, Any]:
    """Row k + 1 made of row k: what a recurrent layer does."""
    after = mb.add(x=k, y=np.int32(1))
    new = mb.add(x=mb.mul(x=row_of(rows, k), y=np.float32(1.5)), y=np.float32(0.25))
    return after, mb.scatter(data=rows, indices=after, updates=new, axis=0, mode="update")


def keeps_a_row(k: Any, rows: Any, kept: Any) -> tuple:
    """A look at the row that the next step writes over is carried along."""
    after = mb.add(x=k, y=np.int32(1))
    new = mb.add(x=mb.mul(x=row_of(rows, k), y=np.float32(1.5)), y=kept)
    written = mb.scatter(data=rows, indices=k, updates=new, axis=0, mode="update")
    return after, written, row_of(written, mb.sub(x=np.int32(3), y=k))


def looks_back(k: Any, rows: Any, kept: Any) -> tuple:
    """What was there before the row was written is read afterwards."""
    before = row_of(rows, k)
    written = mb.scatter(data=rows, indices=k, updates=mb.add(x=before, y=kept), axis=0, mode="update")
    return mb.add(x=k, y=np.int32(1)), written, mb.add(x=row_of(rows, k), y=mb.mul(x=before, y=np.float32(2)))


def swaps(k: Any, rows: Any, other: Any) -> tuple:
    """Two lists change places."""
    after, written = running(rows, k)
    return after, other, written


def grows(k: Any, rows: Any, kept: Any) -> tuple:
    """The good case: rows are written in place and a value is carried beside them."""
    sums = mb.add(x=kept, y=row_of(rows, k))
    after, written = running(rows, k)
    return after, written, sums


BODIES = {"keeps a row": (keeps_a_row, (1, 1, 3)), "looks back": (looks_back, (1, 1, 3)), "swaps": (swaps, LIST)}
BODIES["grows"] = (grows, (1, 1, 3))


@pytest.mark.parametrize("name", BODIES)
def test_rows_are_written_in_place_only_where_nothing_else_looks(name: str, tmp_path: Path) -> None:
    body, shape = BODIES[name]

    def whole(x, y):
        end = mb.while_loop(_cond=count, _body=body, loop_vars=(START, x, y))
        return [mb.identity(x=value, name=f"out{i}") for i, value in enumerate(end)] + [mb.identity(x=x, name="given")]

    program = program_of(whole, tmp_path, x=LIST, y=shape)
    assert loop_of(program) is not None
    rng = np.random.default_rng(0)
    inputs = {"x": rng.normal(size=LIST).astype(np.float32), "y": rng.normal(size=shape).astype(np.float32)}
    assert torch.equal(same_as_plain(program, inputs)["given"], torch.from_numpy(inputs["x"]))


def test_numbers_overflow_as_int32(tmp_path: Path) -> None:
    """k * 3 from a million on passes 2^31 many times; comparisons and select see what int32 makes of it."""

    def step(k, n):
        turned = mb.mul(x=n, y=np.int32(1000003))
        return mb.add(x=k, y=np.int32(1)), mb.select(cond=mb.less(x=turned, y=np.int32(0)), a=mb.sub(x=turned, y=np.int32(7)), b=turned)

    def body(x, n):
        end = mb.while_loop(_cond=count, _body=step, loop_vars=(START, n))
        return [mb.add(x=mb.cast(x=end[0], dtype="fp32"), y=x), mb.identity(x=end[1], name="n_out")]

    program = program_of(body, tmp_path, x=(1,), n=((1,), types.int32))
    assert loop_of(program) is not None
    for n in (1, -5, 2**31 - 1, -(2**31)):
        out = same_as_plain(program, {"x": np.zeros(1, np.float32), "n": np.array([n], np.int32)})
        assert out["n_out"].dtype == torch.int32 and out["n_out"].shape == (1,)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_lists_cast_at_every_step(steps: int, tmp_path: Path) -> None:
    """Rows in fp16, the list carried in fp32, as coremltools writes it; without a step the list is not rounded."""

    def step(k, rows):
        after, written = running_half(mb.cast(x=rows, dtype="fp16"), k)
        return after, mb.cast(x=written, dtype="fp32")

    def running_half(rows, k):
        after = mb.add(x=k, y=np.int32(1))
        new = mb.mul(x=mb.squeeze(x=row_of(rows, k), axes=[0]), y=np.float16(1.3))
        return after, mb.scatter(data=rows, indices=after, updates=mb.expand_dims(x=new, axes=[0]), axis=0, mode="add")

    def body(x, n):
        end = mb.while_loop(_cond=lambda k, rows: mb.less(x=k, y=n), _body=step, loop_vars=(START, x))
        return [mb.identity(x=end[1], name="rows")]

    program = program_of(body, tmp_path, x=LIST, n=((1,), types.int32))
    assert loop_of(program) is not None
    x = np.random.default_rng(1).normal(size=LIST).astype(np.float32)
    rows = same_as_plain(program, {"x": x, "n": np.array([steps], np.int32)})["rows"]
    assert torch.equal(rows, torch.from_numpy(x)) == (steps == 0)


def outside(rows: Any, k: Any) -> tuple[Any, Any]:
    after, written = running(rows, k)
    return mb.add(x=after, y=np.int32(1)), mb.add(x=written, y=row_of(rows, mb.mul(x=k, y=np.int32(100))))


def negative(rows: Any, k: Any) -> tuple[Any, Any]:
    return mb.add(x=k, y=np.int32(1)), mb.add(x=rows, y=row_of(rows, mb.sub(x=k, y=np.int32(3))))


@pytest.mark.parametrize(("step", "fails"), [(outside, True), (negative, False)])
def test_rows_outside(step: Callable, fails: bool, tmp_path: Path) -> None:
    """As gather says it: from the end for a negative number, an error that names the operation outside of the axis."""

    def body(x):
        return [mb.identity(x=mb.while_loop(_cond=count, _body=lambda k, rows: step(rows, k), loop_vars=(START, x))[1], name="y")]

    program = program_of(body, tmp_path, x=LIST)
    given = {"x": np.ones(LIST, np.float32)}
    if not fails:
        same_as_plain(program, given)
        return
    for hook in (None, lambda name, kind, value: None):
        with pytest.raises(ProgramError, match=r"gather '.*main.*index 200 is outside an axis of 5"):
            program(given, hook=hook)


def test_numbers_that_meet_tensors_stay_tensors(tmp_path: Path) -> None:
    """A counter that becomes a float, or is read as the shape of something, is a tensor as before."""

    def step(k, total):
        return mb.add(x=k, y=np.int32(1)), mb.add(x=total, y=mb.cast(x=k, dtype="fp32"))

    def body(x):
        return [mb.identity(x=mb.while_loop(_cond=count, _body=step, loop_vars=(START, x))[1], name="y")]

    program = program_of(body, tmp_path, x=(3,))
    assert loop_of(program) is not None
    assert same_as_plain(program, {"x": np.zeros(3, np.float32)})["y"].tolist() == [6, 6, 6]
