"""Weights of every width in the blob file against Apple's writer and reader, constexpr operations
against coremltools' own values; damaged files are refused.
"""

import warnings

import numpy as np
import pytest
from coremltools.converters.mil.mil import Builder as mb
from coremltools.converters.mil.mil import types
from coremltools.libmilstoragepython import _BlobStorageReader, _BlobStorageWriter

from built import IOS16, IOS18, package_of
from mlprogram import NonFiniteInput, Program, ProgramError
from mlprogram.dtypes import BY_NAME
from mlprogram.package import BlobFile
from operation_cases import Case, test_of


def codes(rng, kind, *shape):
    """Random codes of a width in the NumPy type coremltools marks with that width."""
    bits, low = BY_NAME[kind].bits, -(1 << BY_NAME[kind].bits - 1) if kind[0] == "i" else 0
    return rng.integers(low, low + (1 << bits), shape).astype(
        types.nptype_from_builtin(types.string_to_builtin(kind))
    )


RNG = np.random.default_rng(0)


def constexpr(target, **arguments):
    return Case(consts=arguments, ulps=0, target=target)


# What coremltools' compressions do not write; those that they write: test_networks.py
CASES = {
    "constexpr_affine_dequantize": [
        constexpr(
            IOS16,
            quantized_data=codes(RNG, "int8", 4, 3, 5),
            scale=RNG.uniform(0.01, 0.1, size),
            zero_point=codes(RNG, "int8", *size),
            axis=axis,
        )
        for axis, size in ((1, [3]), (-1, [5]), (0, []))
    ],
    "constexpr_blockwise_shift_scale": [
        constexpr(
            IOS18,
            data=codes(RNG, kind, 4, 6, 3),
            scale=RNG.uniform(0.01, 0.1, (2, 3, 1)),
            offset=codes(RNG, kind, 2, 3, 1),
        )
        for kind in ("int4", "int8", "uint4", "uint8")
    ],
    "constexpr_lut_to_dense": [
        constexpr(
            IOS18,
            indices=codes(RNG, f"uint{bits}", 4, 3, 2),
            lut=RNG.normal(size=(2, 1, 1, 1 << bits, vector)),
            vector_axis=axis,
        )
        for bits, vector, axis in ((1, 1, 0), (2, 2, 0), (6, 2, 1), (8, 2, 2))
    ],
    "constexpr_cast": [
        Case(
            consts={"source_val": RNG.normal(size=6).astype(np.float16)},
            output_dtype="fp32",
            fp16=False,
            target=IOS16,
        )
    ],
}
test_constexpr = test_of(CASES)


WIDTHS = "uint1 uint2 uint3 uint4 uint6 int4 int8 uint8 int16 uint16 int32 uint32 fp16 float"


@pytest.mark.parametrize("name", WIDTHS.split())
def test_blob_values_of_every_width(name, tmp_path):
    """Own reader against what Apple's writer stored and Apple's reader gives back."""
    path, rng = tmp_path / "weight.bin", np.random.default_rng(0)
    writer, dtype = _BlobStorageWriter(str(path)), BY_NAME["fp32" if name == "float" else name]
    if dtype.kind == "float":
        values = rng.normal(size=37).astype(dtype.numpy)
    else:
        values = codes(rng, name, 37).astype(dtype.numpy)
    raw = values.view(np.uint16) if name == "fp16" else values
    write = getattr(writer, f"write_{name}_data")
    write(np.ones(3, raw.dtype))
    offset = write(raw)
    del writer, write
    blob = BlobFile(path).read(offset, dtype, 37)
    np.testing.assert_array_equal(blob, values)
    theirs = getattr(_BlobStorageReader(str(path)), f"read_{name}_data")(offset)
    np.testing.assert_array_equal(blob.view(raw.dtype), np.asarray(theirs))


@pytest.mark.parametrize(
    ("shift", "count", "message"),
    [
        (0, 9, "holds 32 bytes, but 9 fp32 values need 36"),
        (-64, 8, "no tensor record at offset 0"),
    ],
)
def test_blob_of_another_size_or_place_is_refused(shift, count, message, tmp_path):
    writer = _BlobStorageWriter(str(tmp_path / "weight.bin"))
    offset = writer.write_float_data(np.zeros(8, np.float32))
    del writer
    read = BlobFile(tmp_path / "weight.bin").read
    pytest.raises(ProgramError, read, offset + shift, BY_NAME["fp32"], count).match(message)


ATTEMPTS = 250


def build(x):
    """A few kinds of operation, a blob weight and a compressed one."""
    scale = np.full((4, 1, 1, 1), 0.1, np.float32)
    weight = mb.constexpr_blockwise_shift_scale(data=codes(RNG, "int8", 4, 4, 1, 9), scale=scale)
    y = mb.conv(x=x, weight=weight, pad_type="same", bias=np.ones(4, np.float32))
    y = mb.mul(x=y, y=RNG.normal(size=(4, 1, 12)).astype(np.float32))
    halves = mb.split(x=mb.reshape(x=y, shape=[1, 4, -1]), num_splits=2, axis=1)
    return {"y": mb.concat(values=halves, axis=-1)}


def damaged(whole, rng):
    if rng.random() < 0.3:
        return whole[: rng.integers(len(whole))]
    content = bytearray(whole)
    for _ in range(rng.integers(1, 5)):
        content[rng.integers(len(content))] = rng.integers(256)
    return bytes(content)


def test_damaged_specification(tmp_path):
    path = package_of({"x": (1, 4, 1, 12)}, build, tmp_path, types.fp32, IOS18)
    model = next(path.rglob("model.mlmodel"))
    whole, rng, refused = model.read_bytes(), np.random.default_rng(0), 0

    def executed():
        program = Program(path)
        return program({n: np.ones(s.shape, np.float32) for n, s in program.inputs.items()})

    for _ in range(ATTEMPTS):
        model.write_bytes(damaged(whole, rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NonFiniteInput)
            try:
                executed()
            except ProgramError:
                refused += 1
    assert ATTEMPTS / 2 < refused < ATTEMPTS
    model.write_bytes(whole)
    assert executed()["y"].shape == (1, 2, 24)
