"""Voices: three file kinds, rows, blends, and every way a user gets them wrong."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.voices import VoiceLibrary, parse_blend, read_pack, style_row


@pytest.fixture
def library(tmp_path: Path) -> VoiceLibrary:
    """Three voices, one of each kind."""
    packs = {name: torch.randn(510, 1, 256, generator=torch.Generator().manual_seed(i)) for i, name in enumerate(("pt", "bin", "npy"))}
    torch.save(packs["pt"], tmp_path / "af_heart.pt")
    (tmp_path / "am_adam.bin").write_bytes(packs["bin"].numpy().astype("<f4").tobytes())
    np.save(tmp_path / "bf_lily.npy", packs["npy"].numpy())
    (tmp_path / "README.md").write_text("not a voice")
    return VoiceLibrary(tmp_path)


def test_three_kinds_read_alike(library: VoiceLibrary) -> None:
    assert library.names == ("af_heart", "am_adam", "bf_lily")
    for index, name in enumerate(library.names):
        assert torch.equal(library.pack(name), torch.randn(510, 1, 256, generator=torch.Generator().manual_seed(index)))


def test_row_is_phoneme_count_less_one(library: VoiceLibrary) -> None:
    pack = library.pack("af_heart")
    assert torch.equal(style_row(pack, 1), pack[0]) and torch.equal(style_row(pack, 510), pack[509])
    for phonemes in (0, 511):
        with pytest.raises(InputError, match="a style for 1 to 510"):
            style_row(pack, phonemes)


def test_blend_is_the_weighted_mean(library: VoiceLibrary) -> None:
    a, b = library.pack("af_heart"), library.pack("am_adam")
    assert torch.allclose(library.blend("af_heart:0.7,am_adam:0.3"), 0.7 * a + 0.3 * b)
    assert torch.allclose(library.blend("af_heart:7, am_adam:3"), 0.7 * a + 0.3 * b)
    assert torch.allclose(library.blend("af_heart,am_adam"), (a + b) / 2)
    assert torch.equal(library.blend("af_heart"), a)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=5))
def test_weights_sum_to_one(weights: list[float]) -> None:
    parsed = parse_blend(",".join(f"v{i}:{weight}" for i, weight in enumerate(weights)))
    assert sum(weight for _, weight in parsed) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not NAME or NAME:WEIGHT"),
        ("a:0.5,", "is not NAME or NAME:WEIGHT"),
        (":0.5", "is not NAME or NAME:WEIGHT"),
        ("a:x", "'a:x' is not NAME"),
        ("a:-1", "above 0"),
        ("a:nan", "above 0"),
        ("a:inf", "above 0"),
        ("a:0.5,b:0.2,a:0.3", "names 'a' twice"),
    ],
)
def test_bad_blend(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_blend(text)


def test_unknown_voice_gives_near_matches_and_the_list(library: VoiceLibrary) -> None:
    with pytest.raises(InputError, match=r"no voice 'af_hart'.*did you mean af_heart.*There are: af_heart, am_adam, bf_lily"):
        library.blend("af_hart")
    with pytest.raises(InputError, match=r"no voice '\.\./af_heart'"):
        VoiceLibrary(library.folder).pack("../af_heart")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("short.bin", b"\0" * 1000, "has 1000 bytes; raw float32"),
        ("torn.pt", b"PK\3\4 not a file", "cannot be read as a PyTorch file"),
        ("torn.npy", b"\x93NUMPY", "cannot be read as a NumPy array"),
    ],
)
def test_damaged_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_pack(tmp_path / name)


def test_another_shape_type_or_nan(tmp_path: Path) -> None:
    torch.save(torch.zeros(511, 1, 256), tmp_path / "long.pt")
    torch.save({"pack": 1}, tmp_path / "dict.pt")
    np.save(tmp_path / "whole.npy", np.zeros((510, 1, 256), np.int32))
    np.save(tmp_path / "nan.npy", np.full((510, 1, 256), np.nan, np.float32))
    wrong = {"long.pt": r"shape \[511, 1, 256\]", "dict.pt": "holds a dict", "whole.npy": "holds int32", "nan.npy": "NaN or infinity"}
    for name, message in wrong.items():
        with pytest.raises(InputError, match=message):
            read_pack(tmp_path / name)
