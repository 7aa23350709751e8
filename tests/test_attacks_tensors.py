"""Weights and voices that nobody trained: NaN, infinity, complex, sparse, meta, zeros, claims of 36 TiB. One line each, never silence."""

import io
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.contract import VOICE_SHAPE
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.voices import VoiceLibrary, parse_blend, read_pack

GOOD = torch.randn(VOICE_SHAPE)


@pytest.fixture
def folder(tiny: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny, tmp_path / "checkpoint"))


def spoilt(value: float) -> torch.Tensor:
    pack = GOOD.clone()
    pack[17, 0, 3] = value
    return pack


VOICES = {
    "NaN": (spoilt(float("nan")), "holds NaN or infinity"),
    "infinity": (spoilt(float("-inf")), "holds NaN or infinity"),
    "float64 beyond float32": (spoilt(0.0).double() * 1e300, "holds NaN or infinity"),
    "complex": (GOOD.to(torch.complex64), "is complex"),
    "sparse": (GOOD.to_sparse(), "is sparse"),
    "meta": (GOOD.to("meta"), "is on the meta device"),
    "zeros": (torch.zeros(VOICE_SHAPE), "nothing but zeros"),
    "whole numbers": (torch.ones(VOICE_SHAPE, dtype=torch.int64), "holds torch.int64"),
    "a dict": ({"a": GOOD}, "holds a dict"),
    "another shape": (torch.ones(1).expand(1 << 20, 1 << 20), "has shape"),
}


@pytest.mark.parametrize("kind", VOICES)
def test_voice(kind: str, tmp_path: Path) -> None:
    content, message = VOICES[kind]
    torch.save(content, tmp_path / "v.pt")
    with pytest.raises(InputError, match=message):
        read_pack(tmp_path / "v.pt")


def npy(shape: str) -> bytes:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


NPY = (npy("(10000000000000,)"), npy("(510, 1, 256)"), npy("'x'"), npy("((((((,"), b"", b"\x93NUMPY", b"\0" * 999)


@pytest.mark.parametrize("content", NPY)
def test_npy_that_claims_what_it_has_not(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "v.npy").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as a NumPy array"):
        read_pack(tmp_path / "v.npy")


def test_blend_of_huge_weights_is_no_silence(tiny: Path) -> None:
    assert parse_blend("slt:1e308,rms:1e308") == (("slt", 0.5), ("rms", 0.5))
    library = VoiceLibrary(tiny / "voices")
    assert torch.allclose(library.blend("slt:1e308,rms:1e308"), library.blend("slt,rms"))


@pytest.mark.parametrize("name", ["../voices/slt", "slt\0", "x" * 300, "/etc/passwd", "."])
def test_voice_names_are_no_paths(name: str, tiny: Path) -> None:
    with pytest.raises(InputError, match="no voice"):
        VoiceLibrary(tiny / "voices").pack(name)


def all_of(change: Callable[[torch.Tensor], object]) -> Callable[[dict], object]:
    return lambda state: {part: {key: change(value) for key, value in tensors.items()} for part, tensors in state.items()}


WEIGHTS = {
    "zeros": (all_of(torch.zeros_like), "nothing but zeros"),
    "NaN": (all_of(lambda value: value * float("nan")), "holds NaN or infinity"),
    "complex": (all_of(lambda value: value.to(torch.complex64)), "is complex"),
    "sparse": (all_of(lambda value: value.to_sparse()), "is sparse"),
    "meta": (all_of(lambda value: value.to("meta")), "is on the meta device"),
    "numbers": (all_of(lambda _: 1.0), "is a float, not a tensor"),
    "integer keys": (lambda state: {part: dict(enumerate(tensors.values())) for part, tensors in state.items()}, "has the key 0"),
    "integer parts": (lambda state: dict(enumerate(state.values())), "unknown part '0'"),
    "a list": (lambda state: list(state.values()), "not a dict of state dicts"),
    "repeated": (all_of(lambda _: torch.ones(1).expand(1 << 20, 1 << 20)), "more than 2147483648 numbers"),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights(kind: str, folder: Path) -> None:
    change, message = WEIGHTS[kind]
    state = torch.load(folder / "random.pth", weights_only=True)
    torch.save(change(state), folder / "random.pth")
    with pytest.raises(InputError, match=message):
        Checkpoint.from_folder(folder).part("decoder")


class Runs:
    """A pickle that would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def test_no_pickle_runs_and_a_bad_one_is_one_line(folder: Path) -> None:
    for content in (Runs(folder / "ran"), {"decoder": {"a": Runs(folder / "ran")}}):
        for write in (torch.save, lambda value, path: path.write_bytes(pickle.dumps(value))):
            write(content, folder / "random.pth")
            with pytest.raises(InputError) as told:
                Checkpoint.from_folder(folder).part("decoder")
            assert len(str(told.value).splitlines()) == 1 and not (folder / "ran").exists()


@pytest.mark.parametrize("seed", range(60))
def test_bits_and_cuts_of_a_weights_file(seed: int, folder: Path) -> None:
    """Whatever is done to the bytes: good weights or one InputError."""
    draw, stream = np.random.default_rng(seed), io.BytesIO()
    torch.save({"decoder": {"a": torch.ones(3)}}, stream)
    data = bytearray(stream.getvalue())
    for place in draw.integers(0, len(data), 4):
        data[place] ^= 1 << int(draw.integers(8))
    (folder / "random.pth").write_bytes(data[: int(draw.integers(len(data)))] if seed % 3 == 0 else data)
    try:
        Checkpoint.from_folder(folder).part("decoder")
    except InputError as problem:
        assert len(str(problem).splitlines()) == 1
