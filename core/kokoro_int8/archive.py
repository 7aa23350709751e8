"""Voices from a folder or a tar archive into a checkpoint's voices/. All are read and checked before the first is written.

    names = add_voices(Path("kokoro-js-1.2.1.tgz"), folder / "voices")   # 54 names; npm's layout, package/voices/*.bin

Refused with one line: a member that leaves its folder, a link, a wrong size, NaN, a name twice, an archive that is none.
"""

import lzma
import re
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from core.errors import InputError
from core.staging import staged
from core.voices import BIN_BYTES, SUFFIXES, read_pack
from mlprogram.scratch import scratch

NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
LARGEST_BYTES = 4 * BIN_BYTES  # a .pt in float64 with its index; more is no voice
LARGEST_MEMBER_BYTES = 64 << 20  # of anything else in an archive: it has to be unpacked to be skipped


def add_voices(source: Path, voices: Path, fixed: Collection[str] = ()) -> tuple[str, ...]:
    """Copy every voice of `source` into `voices` as .bin and return the names. A voice of `fixed` may be there again, but not differ.

    Raises InputError naming the file or member that is wrong; then `voices` is as it was.
    """
    with scratch() as temporary:
        paths = _in_folder(source) if source.is_dir() else _unpacked(source, temporary)
        if not paths:
            raise InputError(f"{source} holds no voice: expected files NAME{', NAME'.join(SUFFIXES)}")
        packs = {}
        for path in paths:
            if not NAME.fullmatch(path.stem):
                raise InputError(f"{source}: {path.name} is no name of a voice: lower-case letters, digits and _, as in af_heart.bin")
            if path.stem in packs:
                raise InputError(f"{source} holds the voice {path.stem} twice")
            packs[path.stem] = _content(path, source)
        for name in sorted(set(fixed) & set(packs)):
            if packs[name] != (voices / f"{name}.bin").read_bytes():
                raise InputError(f"{source}: {name} differs from the bundled voice of that name: give it another name")
        for name in sorted(set(packs) - set(fixed)):
            with staged(voices / f"{name}.bin") as aside:
                aside.write_bytes(packs[name])
    return tuple(sorted(packs))


def _content(path: Path, source: Path) -> bytes:
    try:
        return read_pack(path).numpy().astype("<f4").tobytes()
    except InputError as problem:
        shown = path if source.is_dir() else f"{source}: {path.name}"
        raise InputError(str(problem).replace(str(path), str(shown))) from None


def _in_folder(source: Path) -> list[Path]:
    paths = sorted(path for path in source.iterdir() if path.suffix in SUFFIXES)
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise InputError(f"{path} is a link or no file: a folder of voices holds plain files")
        _check_size(f"{path}", path.suffix, path.stat().st_size)
    return paths


def _unpacked(source: Path, folder: Path) -> list[Path]:
    """The voices of an archive as files of `folder`, which none of its members names: a path in it is never opened."""
    if not source.is_file():
        raise InputError(f"{source} is neither a folder nor an archive of voices")
    try:
        with tarfile.open(source) as archive:
            return [path for member in archive for path in _member(archive, member, source, folder)]
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise  # the disk's, not the archive's
        raise InputError(f"{source} cannot be read as a tar archive: {str(problem).splitlines()[0][:120]}") from None


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, source: Path, folder: Path) -> list[Path]:
    """The voice that a member holds, copied; nothing for a folder and for a file that is no voice."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or "\\" in member.name:
        raise InputError(f"{source}: member {member.name!r} leaves the archive's folder")
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{source}: member {member.name!r} is a link or a device: an archive of voices holds plain files")
    if member.size > LARGEST_MEMBER_BYTES:
        raise InputError(f"{source}: member {member.name!r} has {member.size} bytes: no archive of voices holds that")
    if member.isdir() or name.suffix not in SUFFIXES:
        return []
    _check_size(f"{source}: member {member.name!r}", name.suffix, member.size)
    target = folder / name.name
    if target.exists():
        raise InputError(f"{source} holds the voice {name.stem} twice")
    content = archive.extractfile(member)
    assert content is not None  # a plain file, checked above
    target.write_bytes(content.read())
    return [target]


def _check_size(shown: str, suffix: str, size_bytes: int) -> None:
    if suffix == ".bin" and size_bytes != BIN_BYTES:
        raise InputError(f"{shown} has {size_bytes} bytes; a voice in raw float32 has {BIN_BYTES}")
    if size_bytes > LARGEST_BYTES:
        raise InputError(f"{shown} has {size_bytes} bytes; a voice has at most {LARGEST_BYTES}")
