"""Voices from folders and archives: npm's layout is read; an attack, a wrong size or NaN is one line, and nothing is written."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8.cache import LARGEST_MEMBER_BYTES, add_voices

GOOD = np.full((510, 1, 256), 0.5, "<f4").tobytes()


def member(name: str, data: bytes = GOOD, kind: bytes = tarfile.REGTYPE, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data) if kind == tarfile.REGTYPE else 0, kind, target
    return info, data


def archive(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as out:
        for info, data in members:
            out.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return path


def test_npms_layout_and_torch_files(tmp_path: Path) -> None:
    stored = io.BytesIO()
    torch.save(torch.full((510, 1, 256), 0.25), stored)
    source = archive(
        tmp_path / "voices.tgz",
        member("package/LICENSE", b"text"),
        member("package/voices", kind=tarfile.DIRTYPE),
        member("package/voices/af_sky.bin"),
        member("package/voices/bm_lewis.pt", stored.getvalue()),
    )
    assert add_voices(source, tmp_path / "voices") == ("af_sky", "bm_lewis")
    assert (tmp_path / "voices" / "af_sky.bin").read_bytes() == GOOD
    assert np.fromfile(tmp_path / "voices" / "bm_lewis.bin", "<f4").max() == 0.25
    assert add_voices(tmp_path / "voices", tmp_path / "again") == ("af_sky", "bm_lewis")  # a folder of voices


def huge() -> tuple[tarfile.TarInfo, bytes]:
    info, data = member("zeros.txt", b"")
    info.size = LARGEST_MEMBER_BYTES + 1
    return info, data


ATTACKS: dict[str, tuple[Callable[[], list], str]] = {
    "climbs": (lambda: [member("../../af_sky.bin")], r"member '\.\./\.\./af_sky\.bin' leaves the archive's folder"),
    "climbs in the middle": (lambda: [member("a/../../af_sky.bin")], "leaves the archive's folder"),
    "absolute": (lambda: [member("/tmp/af_sky.bin")], "leaves the archive's folder"),
    "backslash": (lambda: [member("..\\af_sky.bin")], "leaves the archive's folder"),
    "symbolic link": (lambda: [member("af_sky.bin", kind=tarfile.SYMTYPE, target="/etc/passwd")], "is a link or a device"),
    "hard link": (lambda: [member("af_sky.bin", kind=tarfile.LNKTYPE, target="x")], "is a link or a device"),
    "device": (lambda: [member("af_sky.bin", kind=tarfile.CHRTYPE)], "is a link or a device"),
    "wrong size": (lambda: [member("af_sky.bin", GOOD[:-4])], "has 522236 bytes; a voice in raw float32 has 522240"),
    "too large": (lambda: [member("af_sky.pt", bytes(3_000_000))], "has 3000000 bytes; a voice has at most"),
    "NaN": (lambda: [member("af_sky.bin", np.full((510, 1, 256), np.nan, "<f4").tobytes())], r"af_sky\.bin holds NaN or infinity"),
    "no tensor": (lambda: [member("af_sky.pt", b"no pickle")], "cannot be read as a PyTorch file"),
    "twice": (lambda: [member("a/af_sky.bin"), member("b/af_sky.bin")], "holds the voice af_sky twice"),
    "odd name": (lambda: [member("Af Sky.bin")], "is no name of a voice"),
    "no voice": (lambda: [member("README.md", b"text")], "holds no voice"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_are_refused_and_nothing_is_written(tmp_path: Path, attack: str) -> None:
    members, message = ATTACKS[attack]
    first = [] if attack == "no voice" else [member("am_good.bin")]
    source = archive(tmp_path / "evil.tgz", *first, *members())
    with pytest.raises(InputError, match=message) as refused:
        add_voices(source, tmp_path / "voices")
    assert "\n" not in str(refused.value) and str(source) in str(refused.value)
    assert [path for path in tmp_path.iterdir() if path != source] == []


def test_a_member_as_large_as_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    source = tmp_path / "bomb.tar"
    source.write_bytes(huge()[0].tobuf())
    with pytest.raises(InputError, match="no archive of voices holds that"):
        add_voices(source, tmp_path / "voices")


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00 broken"])
def test_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "voices.tgz").write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as a tar archive|holds no voice"):
        add_voices(tmp_path / "voices.tgz", tmp_path / "voices")


def test_an_archive_cut_short(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).standard_normal((510, 1, 256)).astype("<f4").tobytes()
    source = archive(tmp_path / "voices.tgz", member("af_sky.bin", noise))
    source.write_bytes(source.read_bytes()[:200_000])
    with pytest.raises(InputError, match="cannot be read as a tar archive"):
        add_voices(source, tmp_path / "voices")


def test_nowhere_and_a_link_in_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is neither a folder nor an archive"):
        add_voices(tmp_path / "nowhere.tgz", tmp_path / "voices")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "af_sky.bin").symlink_to("/etc/hostname")
    with pytest.raises(InputError, match="is a link or no file"):
        add_voices(tmp_path / "given", tmp_path / "voices")


def test_a_bundled_voice_may_come_again_but_not_differ(tmp_path: Path) -> None:
    voices = tmp_path / "voices"
    voices.mkdir()
    (voices / "af_heart.bin").write_bytes(GOOD)
    assert add_voices(archive(tmp_path / "a.tgz", member("af_heart.bin")), voices, ["af_heart"]) == ("af_heart",)
    other = archive(tmp_path / "b.tgz", member("af_heart.bin", np.full((510, 1, 256), 0.75, "<f4").tobytes()))
    with pytest.raises(InputError, match="af_heart differs from the bundled voice"):
        add_voices(other, voices, ["af_heart"])
    assert (voices / "af_heart.bin").read_bytes() == GOOD
