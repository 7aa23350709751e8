"""Read tensors out of weight.bin, the blob file of an .mlpackage, without Apple's reader.

    from mlprogram.weights import BlobFile
    BlobFile(path).read(offset=64, dtype=dtype_of(10), count=9)  # np.ndarray [9] float16

Layout (MIL blob storage, version 2, little-endian): a 64-byte header (uint32 count, uint32 version), then per tensor a 64-byte record
(uint32 sentinel 0xDEADBEEF, uint32 type, uint64 bytes, uint64 offset of the data, uint64 padding bits) that a program points to, and the
data.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from mlprogram.dtypes import DType
from mlprogram.errors import ProgramError

_SENTINEL = 0xDEADBEEF
_HEADER = struct.Struct("<II")
_RECORD = struct.Struct("<IIQQQ")
_HEADER_BYTES = 64


class BlobFile:
    """One memory-mapped blob file. It has one responsibility: bytes at an offset become values; it knows nothing of programs."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ProgramError(f"{path}: the program stores its weights in this file, and it is missing; copy the whole package")
        self.path = path
        self.size = path.stat().st_size
        if self.size < _HEADER_BYTES:
            raise ProgramError(f"{path}: {self.size} bytes, shorter than its {_HEADER_BYTES}-byte header; the weight file is truncated")
        self._bytes = np.memmap(path, dtype=np.uint8, mode="r")
        version = _HEADER.unpack_from(self._bytes.data, 0)[1]
        if version != 2:
            raise ProgramError(f"{path}: blob storage version {version}, only 2 is known; is this a weight file?")

    def read(self, offset: int, dtype: DType, count: int) -> np.ndarray:
        """`count` values of `dtype` from the record at `offset`, one value per element. Raises ProgramError if the file is too short."""
        start, size = self._record(offset)
        expected = (count * dtype.bits + 7) // 8
        if size < expected:
            raise ProgramError(f"{self.path}: the tensor at {offset} holds {size} bytes, but {count} {dtype.name} values need {expected}")
        data = self._bytes[start : start + expected]
        return unpack_bits(data, dtype, count) if dtype.bits < 8 else data.view(dtype.numpy)

    def _record(self, offset: int) -> tuple[int, int]:
        if offset + _HEADER_BYTES > self.size:
            raise ProgramError(f"{self.path}: {self.size} bytes, but the program reads a tensor at {offset}; the weight file is truncated")
        sentinel, _, size, start, _ = _RECORD.unpack_from(self._bytes.data, offset)
        if sentinel != _SENTINEL:
            raise ProgramError(f"{self.path}: no tensor record at offset {offset}; the weight file does not belong to this program")
        if start + size > self.size:
            raise ProgramError(f"{self.path}: {self.size} bytes, but a tensor ends at byte {start + size}; the weight file is truncated")
        return start, size


def unpack_bits(data: np.ndarray, dtype: DType, count: int) -> np.ndarray:
    """Values narrower than a byte, packed least significant bit first: uint8 bytes -> [count] uint8, or int8 for signed types."""
    bits = np.unpackbits(np.ascontiguousarray(data), bitorder="little", count=count * dtype.bits).reshape(count, dtype.bits)
    values = np.zeros(count, np.uint8)
    for i in range(dtype.bits):
        values |= bits[:, i] << i
    if dtype.kind == "uint":
        return values
    sign = 1 << (dtype.bits - 1)
    return ((values ^ sign).astype(np.int16) - sign).astype(np.int8)
