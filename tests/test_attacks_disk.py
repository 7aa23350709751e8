"""A real disk of a few hundred kilobytes that is full, or fills while a command writes: one line, exit 2, what was there is there."""

import importlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kokoro_ane.cli import COMMANDS, OWN_VERB
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import run_cli
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.core.staging import staged
from kokoro_ane.pipeline.build import main as build

ROOM_BYTES = {"full": 0, "nearly full": 100_000}  # the second passes the check before the work
WRITERS = {
    "build": ["vocoder", "--buckets", "40", "--out", "{disk}/new"],
    "quantize": ["--method", "w8", "--build", "{disk}/build"],
    "vectors": ["--build", "{build}", "--out", "{disk}/vectors", "--voice", "slt"],
    "bundle": ["--build", "{build}", "--out", "{disk}/bundle-tiny"],
    "speak": ["Hello there.", "-o", "{disk}/old.wav", "--runtime", "torch", "--voice", "slt"],
    "validate": ["--phonemes", "hɛlˈO", "--save-dir", "{disk}/seams"],
    "ane": ["{build}/KokoroVocoder-tiny-fp16.mlpackage", "--chip", "m1", "--no-device", "--json", "{disk}/old.json"],
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """4 MB of memory as a file system of its own, with a finished package and two finished files of the user's."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"only root may mount a disk ({done.stderr.strip()}); test_convert.py has a stand-in by quota")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def filled(disk: Path, tiny_build: Path, room_bytes: int) -> dict[str, bytes]:
    """What stands there then, with its content."""
    (disk / "build").mkdir()
    name = "KokoroVocoder-tiny-fp16"
    shutil.copy2(tiny_build / f"{name}.json", disk / "build" / f"{name}.json")
    shutil.copytree(tiny_build / f"{name}.mlpackage", disk / "build" / f"{name}.mlpackage")
    for file in ("old.wav", "old.json"):
        (disk / file).write_text("years of work")
    fill(disk, room_bytes)
    return everything(disk)


def fill(disk: Path, room_bytes: int) -> None:
    """Leave so much room."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "filler").write_bytes(bytes(free - room_bytes))


def everything(disk: Path) -> dict[str, bytes]:
    return {path.relative_to(disk).as_posix(): path.read_bytes() for path in sorted(disk.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("room", ROOM_BYTES)
@pytest.mark.parametrize("verb", WRITERS)
def test_a_full_disk(
    verb: str, room: str, disk: Path, tiny_build: Path, tiny_checkpoint: Checkpoint, quick_conversion: None, capsys: pytest.CaptureFixture
) -> None:
    given = [word.format(disk=disk, build=tiny_build) for word in WRITERS[verb]]
    given += [] if verb in OWN_VERB else ["--checkpoint", str(tiny_checkpoint.folder)]
    before = filled(disk, tiny_build, ROOM_BYTES[room])
    capsys.readouterr()
    code = importlib.import_module(COMMANDS[verb][0]).main([verb, *given] if verb in OWN_VERB else given)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    after = everything(disk)
    if code == 0:  # what it writes has room
        assert room == "nearly full" and verb in ("speak", "validate", "ane")
        return
    assert code == 2 and len(said) == 1 and said[0].startswith("error: cannot write") and len(said[0]) < 400, said
    assert after == before


@pytest.fixture(scope="module")
def g2p_package(tmp_path_factory: pytest.TempPathFactory, quick_conversion: None) -> Path:
    """The folder that holds a finished G2P package, 1.6 MB."""
    folder = tmp_path_factory.mktemp("g2p")
    assert build(["g2p", "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("room_bytes", [0, 100_000, 1_000_000])
def test_g2p_on_a_full_disk(room_bytes: int, disk: Path, g2p_package: Path, quick_conversion: None, capsys: pytest.CaptureFixture) -> None:
    """Full before the work, while coremltools writes its copies (6 MB), or before the package: one line, and the good one stays."""
    shutil.copytree(g2p_package, disk / "build")
    fill(disk, room_bytes)
    before = everything(disk)
    capsys.readouterr()
    code = build(["g2p", "--out", str(disk / "build")])
    said = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert code == 2 and said[-1].startswith("error: cannot write") and "Traceback" not in " ".join(said), said
    assert sum(line.startswith("error: ") for line in said) == 1 and everything(disk) == before
    Manifest.load(disk / "build" / "G2P.json").verify()
    (disk / "filler").unlink()
    (disk / "build").rename(disk / "old")
    subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
    assert build(["g2p", "--out", str(disk / "build")]) == 0  # with room it is built: nothing but the disk was in the way


def test_a_full_folder_for_temporary_files(
    disk: Path, tiny_build: Path, tiny_checkpoint: Checkpoint, quick_conversion: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """coremltools' copies go to where the package goes: no room in TMPDIR used to end in shutil.Error."""
    filled(disk, tiny_build, 0)
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    assert build(["vocoder", "--buckets", "40", "--out", str(tmp_path / "new"), "--checkpoint", str(tiny_checkpoint.folder)]) == 0
    assert sorted(path.name for path in disk.iterdir()) == ["build", "filler", "old.json", "old.wav"]


def test_what_cannot_be_read_is_not_called_unwritable(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A file without rights, read while an output is being written."""

    def main(_argv: list[str] | None) -> int:
        with staged(tmp_path / "out.json"):
            raise PermissionError(13, "Permission denied", "weights.pth")

    assert run_cli(main, None) == 2 and capsys.readouterr().err == "error: cannot use weights.pth: Permission denied\n"
    assert not list(tmp_path.iterdir())
