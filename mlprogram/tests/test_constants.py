"""Weights of every width in the blob file, and every constexpr, against element-wise definitions
and coremltools' own decompression.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import Function, types
from coremltools.libmilstoragepython import _BlobStorageReader, _BlobStorageWriter

from built import save
from mlprogram import NonFiniteInput, Program, ProgramError
from mlprogram.dtypes import BY_NAME
from mlprogram.package import BlobFile

Rng = np.random.Generator
IOS16, IOS18 = ct.target.iOS16, ct.target.iOS18


def int_codes(rng: Rng, bits: int, signed: bool, shape: tuple[int, ...]) -> np.ndarray:
    """Random codes of a width in the NumPy type coremltools marks with that width."""
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    kind = types.nptype_from_builtin(types.string_to_builtin(f"{'' if signed else 'u'}int{bits}"))
    return rng.integers(low, high, shape).astype(kind)


def affine_dequantize(rng: Rng) -> tuple[dict[str, Any], Callable]:
    codes, axis = int_codes(rng, 8, True, (4, 3, 5)), int(rng.integers(-3, 3))
    vector, n = rng.random() < 0.7, codes.shape[axis]
    scale = rng.uniform(0.01, 0.1, n).astype(np.float16) if vector else np.float16(0.03)
    zero = int_codes(rng, 8, True, (n,)) if vector else np.int8(3)

    def element(place: tuple[int, ...]) -> float:
        at = place[axis]
        return (float(codes[place]) - float(zero[at] if vector else zero)) * float(
            scale[at] if vector else scale
        )

    return {"quantized_data": codes, "scale": scale, "zero_point": zero, "axis": axis}, element


def blockwise(rng: Rng) -> tuple[dict[str, Any], Callable]:
    bits, signed = int(rng.choice([4, 8])), bool(rng.random() < 0.5)
    codes = int_codes(rng, bits, signed, (4, 6, 3))
    blocks = (int(rng.choice([1, 2, 4])), int(rng.choice([1, 2, 3])), 1)
    scale, offset = (
        rng.uniform(0.01, 0.1, blocks).astype(np.float16),
        int_codes(rng, bits, signed, blocks),
    )
    shifted = bool(rng.random() < 0.6)

    def element(place: tuple[int, ...]) -> float:
        block = tuple(p * b // n for p, b, n in zip(place, blocks, codes.shape, strict=True))
        return (float(codes[place]) - (float(offset[block]) if shifted else 0)) * float(
            scale[block]
        )

    return {"data": codes, "scale": scale} | ({"offset": offset} if shifted else {}), element


def packed_palette(rng: Rng) -> tuple[dict[str, Any], Callable]:
    bits, shape = int(rng.choice([1, 2, 4, 6, 8])), (5, 3, 2)
    indices, lut = rng.integers(0, 1 << bits, shape), rng.normal(size=1 << bits).astype(np.float16)
    stream = [(int(i) >> b) & 1 for i in indices.flatten() for b in range(bits)]
    packed = np.packbits(np.array(stream, np.uint8), bitorder="little")
    return {
        "indices": packed,
        "lut": lut,
        "shape": np.array(shape, np.uint32),
    }, lambda place: float(lut[indices[place]])


def palette(rng: Rng) -> tuple[dict[str, Any], Callable]:
    bits, blocks = int(rng.choice([1, 2, 3, 4, 6, 8])), (int(rng.choice([1, 2, 4])), 1, 1)
    indices = int_codes(rng, bits, False, (4, 3, 2))
    vector, axis = int(rng.choice([1, 2])), int(rng.integers(0, 3))
    lut = rng.normal(size=(*blocks, 1 << bits, vector)).astype(np.float16)

    def element(place: tuple[int, ...]) -> float:
        source = tuple(p // vector if i == axis else p for i, p in enumerate(place))
        block = tuple(p * b // n for p, b, n in zip(source, blocks, indices.shape, strict=True))
        return float(lut[(*block, int(indices[source]), place[axis] % vector)])

    return {"indices": indices, "lut": lut} | ({"vector_axis": axis} if vector > 1 else {}), element


def packed_sparse(rng: Rng) -> tuple[dict[str, Any], Callable]:
    dense = np.where(rng.random((5, 3, 2)) < 0.5, rng.normal(size=(5, 3, 2)), 0).astype(np.float16)
    mask = np.packbits((dense != 0).flatten(), bitorder="little")
    return {
        "nonzero_data": dense[dense != 0],
        "mask": mask,
        "shape": np.array(dense.shape, np.uint32),
    }, lambda place: float(dense[place])


def sparse(rng: Rng) -> tuple[dict[str, Any], Callable]:
    dense = np.where(rng.random((5, 3, 2)) < 0.5, rng.normal(size=(5, 3, 2)), 0).astype(np.float16)
    mask = (dense != 0).astype(types.np_uint1_dtype)
    return {"nonzero_data": dense[dense != 0], "mask": mask}, lambda place: float(dense[place])


CONSTEXPR: dict[str, tuple[str, ct.target, Callable]] = {
    "affine": ("constexpr_affine_dequantize", IOS16, affine_dequantize),
    "blockwise": ("constexpr_blockwise_shift_scale", IOS18, blockwise),
    "packed palette": ("constexpr_lut_to_dense", IOS16, packed_palette),
    "palette": ("constexpr_lut_to_dense", IOS18, palette),
    "packed sparse": ("constexpr_sparse_to_dense", IOS16, packed_sparse),
    "sparse": ("constexpr_sparse_to_dense", IOS18, sparse),
}


def function_of(outputs: Callable[[], list[Any]], target: ct.target) -> Function:
    """A function with one unused input whose outputs are made inside it."""
    with Function(
        {"unused": mb.placeholder(shape=(1,), dtype=types.fp32)}, opset_version=target
    ) as function:
        function.set_outputs(outputs())
    return function


@pytest.mark.parametrize("name", CONSTEXPR)
def test_constexpr(name: str, tmp_path: Path) -> None:
    op, target, make = CONSTEXPR[name]
    rng = np.random.default_rng(len(name))
    drawn, variables = [make(rng) for _ in range(8)], []

    def outputs() -> list[Any]:
        for i, (arguments, _) in enumerate(drawn):
            variables.append(getattr(mb, op)(**arguments, name=f"w{i}"))
        return [mb.cast(x=v, dtype="fp32", name=f"y{i}") for i, v in enumerate(variables)]

    program = Program(save(function_of(outputs, target), tmp_path / "c.mlpackage", target))
    for i, (_, element) in enumerate(drawn):
        got, theirs = program.constant(f"w{i}"), variables[i].op.materialized_val_inference()
        np.testing.assert_array_equal(
            got, theirs, err_msg="coremltools decompresses to other values"
        )
        want = np.array([element(place) for place in np.ndindex(got.shape)]).reshape(got.shape)
        np.testing.assert_array_equal(got, want.astype(np.float16))


def test_cast(tmp_path: Path) -> None:
    value = np.arange(6, dtype=np.float16).reshape(2, 3)
    function = function_of(
        lambda: [
            mb.identity(
                x=mb.constexpr_cast(source_val=value, output_dtype="fp32", name="w"), name="y"
            )
        ],
        IOS16,
    )
    program = Program(save(function, tmp_path / "c.mlpackage", IOS16))
    assert program.constant("w").dtype == np.float32
    np.testing.assert_array_equal(program.constant("w"), value)


WIDTHS = (
    "uint1",
    "uint2",
    "uint3",
    "uint4",
    "uint6",
    "int4",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
)


@pytest.mark.parametrize("name", (*WIDTHS, "fp16", "float"))
def test_blob_values_of_every_width(name: str, tmp_path: Path) -> None:
    """Own reader against what Apple's writer stored and Apple's reader gives back."""
    path = tmp_path / "weight.bin"
    writer, dtype = _BlobStorageWriter(str(path)), BY_NAME["fp32" if name == "float" else name]
    rng = np.random.default_rng(0)
    if dtype.kind == "float":
        values = rng.normal(size=37).astype(dtype.numpy)
    else:
        low = -(1 << dtype.bits - 1) if dtype.kind == "int" else 0
        values = rng.integers(low, low + (1 << dtype.bits), 37).astype(dtype.numpy)
    raw = values.view(np.uint16) if name == "fp16" else values
    getattr(writer, f"write_{name}_data")(np.ones(3, raw.dtype))
    offset = getattr(writer, f"write_{name}_data")(raw)
    del writer
    got = BlobFile(path).read(offset, dtype, 37)
    np.testing.assert_array_equal(got, values)
    theirs = np.asarray(getattr(_BlobStorageReader(str(path)), f"read_{name}_data")(offset))
    np.testing.assert_array_equal(got.view(np.uint16) if name == "fp16" else got, theirs)


def test_blob_of_another_size_or_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weight.bin"
    writer = _BlobStorageWriter(str(path))
    offset = writer.write_float_data(np.zeros(8, np.float32))
    del writer
    with pytest.raises(ProgramError, match="holds 32 bytes, but 9 fp32 values need 36"):
        BlobFile(path).read(offset, BY_NAME["fp32"], 9)
    with pytest.raises(ProgramError, match="no tensor record at offset 0"):
        BlobFile(path).read(0, BY_NAME["fp32"], 8)


ATTEMPTS = 250


@pytest.fixture(scope="module")
# A few kinds of operation, a blob weight and a compressed one
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    codes, scale = (
        rng.integers(-9, 9, (4, 4, 1, 9)).astype(np.int8),
        np.full((4, 1, 1, 1), 0.1, np.float32),
    )
    with Function(
        {"x": mb.placeholder(shape=(1, 4, 1, 12), dtype=types.fp32)}, opset_version=ct.target.iOS18
    ) as function:
        weight = mb.constexpr_blockwise_shift_scale(data=codes, scale=scale)
        y = mb.conv(
            x=function.inputs["x"], weight=weight, pad_type="same", bias=np.ones(4, np.float32)
        )
        y = mb.mul(x=y, y=rng.normal(size=(4, 1, 12)).astype(np.float32))
        y = mb.concat(
            values=mb.split(x=mb.reshape(x=y, shape=[1, 4, -1]), num_splits=2, axis=1), axis=-1
        )
        function.set_outputs(
            [
                mb.slice_by_index(
                    x=y, begin=[0, 0, 1], end=[1, 2, 0], end_mask=[False, False, True], name="y"
                )
            ]
        )
    return save(function, tmp_path_factory.mktemp("damage") / "whole.mlpackage", ct.target.iOS18)


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
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
                program(
                    {name: np.ones(spec.shape, np.float32) for name, spec in program.inputs.items()}
                )
            except ProgramError:
                refused += 1
    assert ATTEMPTS / 2 < refused < ATTEMPTS
    model.write_bytes(whole)
    assert Program(copy)({"x": np.ones((1, 4, 1, 12), np.float32)})["y"].shape == (1, 2, 23)
