"""A damaged specification gives a ProgramError or runs; no other exception comes out.

python -m pytest tests/test_mlprogram_damage.py -q
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types

from mlprogram import NonFiniteInput, Program, ProgramError
from tests.mlprogram_build import save

ATTEMPTS = 250


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few kinds of operation, a blob weight and a compressed one."""
    rng = np.random.default_rng(0)
    codes, scale = rng.integers(-9, 9, (4, 4, 1, 9)).astype(np.int8), np.full((4, 1, 1, 1), 0.1, np.float32)
    with Function({"x": mb.placeholder(shape=(1, 4, 1, 12), dtype=types.fp32)}, opset_version=ct.target.iOS18) as function:
        weight = mb.constexpr_blockwise_shift_scale(data=codes, scale=scale)
        y = mb.conv(x=function.inputs["x"], weight=weight, pad_type="same", bias=np.ones(4, np.float32))
        y = mb.mul(x=y, y=rng.normal(size=(4, 1, 12)).astype(np.float32))
        y = mb.concat(values=mb.split(x=mb.reshape(x=y, shape=[1, 4, -1]), num_splits=2, axis=1), axis=-1)
        function.set_outputs([mb.slice_by_index(x=y, begin=[0, 0, 1], end=[1, 2, 0], end_mask=[False, False, True], name="y")])
    return save(function, tmp_path_factory.mktemp("damage") / "whole.mlpackage", ct.target.iOS18)


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    """Cut short, or with up to four bytes changed."""
    if rng.random() < 0.3:
        return whole[: rng.integers(len(whole))]
    content = bytearray(whole)
    for _ in range(rng.integers(1, 5)):
        content[rng.integers(len(content))] = rng.integers(256)
    return bytes(content)


def test_damaged_specification(package: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(package, tmp_path / "copy.mlpackage"))
    model = next(copy.rglob("model.mlmodel"))
    whole, rng, refused = model.read_bytes(), np.random.default_rng(0), 0
    for _ in range(ATTEMPTS):
        model.write_bytes(damaged(whole, rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NonFiniteInput)
            try:
                program = Program(copy)
                program({name: np.ones(spec.shape, np.float32) for name, spec in program.inputs.items()})
            except ProgramError:
                refused += 1
    assert ATTEMPTS / 2 < refused < ATTEMPTS
    model.write_bytes(whole)
    assert Program(copy)({"x": np.ones((1, 4, 1, 12), np.float32)})["y"].shape == (1, 2, 23)
