"""The cache of kokoro-int8: written once, by one process, whole or not at all; what is missing or
altered is found and mended.
"""

import errno
import hashlib
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from kokoro_ane.core.checkpoint import open_checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.kokoro_int8 import cache, packages
from kokoro_ane.core.kokoro_int8.cache import (
    CACHE_VARIABLE,
    WEIGHTS,
    cache_root,
    cached,
    find_cache_folder,
)
from tests.commands import refused, table

STATE = {
    "bert.pooler.bias": np.arange(5, dtype=np.float32),
    "decoder.x": np.ones((2, 3), np.float32),
}
SHA256 = hashlib.sha256(save(STATE)).hexdigest()
STAND_IN = f"""
import time
from kokoro_ane.core.kokoro_int8 import cache, packages
import numpy as np
cache.WEIGHTS_SHA256 = {SHA256!r}
cache.installed = lambda: True
cache.read_parts = lambda: b""
def slowly(_):
    time.sleep(0.5)
    decoder = np.ones((2, 3), np.float32)
    return {{"bert.pooler.bias": np.arange(5, dtype=np.float32), "decoder.x": decoder}}
packages.decode = slowly
print(cache.cached())
"""


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Two small tensors in place of the network, a cache of this test's own; returns one entry for
    each decoding.
    """
    decoded = []
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WEIGHTS_SHA256", SHA256)
    monkeypatch.setattr(cache, "is_installed", lambda: True)
    monkeypatch.setattr(cache, "read_parts", lambda: b"onnx")
    monkeypatch.setattr(packages, "decode", lambda content: decoded.append(content) or STATE)
    return decoded


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_decoded_once_and_opened_like_any_checkpoint(small, capsys):
    folder = cached()
    assert cached() == folder == find_cache_folder()
    assert len(small) == 1
    assert names(folder) >= {"config.json", WEIGHTS, "voices/af_heart.bin"}
    assert "decoding 81,763,410 weights" in capsys.readouterr().err
    checkpoint = open_checkpoint("kokoro-int8")
    assert (checkpoint.name, checkpoint.releasable) == ("kokoro-int8", False)
    assert checkpoint.part("decoder")["x"].shape == (2, 3)
    assert checkpoint.part_names == ("bert", "decoder")
    # one or more of each of Kokoro's nine languages
    assert {name[0] for name in checkpoint.voices} == set("abefhijpz")
    assert len(checkpoint.voices) == 19
    assert all(checkpoint.voice(name).shape == (510, 1, 256) for name in checkpoint.voices)


def test_taken_by_default_when_the_hub_does_not_answer(monkeypatch, capsys):
    from kokoro_ane.core import checkpoint as module

    def no_hub():
        raise InputError("the hub did not answer")

    monkeypatch.setattr(module, "download", no_hub)
    assert open_checkpoint().name == "kokoro-int8"
    error = capsys.readouterr().err
    assert "rounded weights: for trying and testing; release" in error
    assert "CHECKPOINT=hexgrad/Kokoro-82M" in error


def test_an_existing_cache_needs_no_packages(monkeypatch):
    folder = cached()
    monkeypatch.setattr(cache, "is_installed", lambda: False)
    assert cached() == folder
    assert cache.is_available()
    (folder / WEIGHTS).unlink()
    assert not cache.is_available()
    refused("kokoro-int8 is not installed: `make venv`", cached)


def cut(path):
    path.write_bytes(path.read_bytes()[:-4])


def flip(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", [WEIGHTS, "config.json", "voices/bf_emma.bin"])
def test_missing_and_altered_files_are_mended(small, name, damage):
    folder = cached()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    damage(folder / name)
    if (damage, name) == (flip, WEIGHTS):
        assert cached()
        assert len(small) == 1  # other weights of the same size need the thorough check
    assert cached(thorough=name == WEIGHTS) == folder
    assert {path: path.read_bytes() for path in before} == before
    assert len(small) == (2 if name == WEIGHTS else 1)


def test_voices_that_were_added_stay(small):
    folder = cached()
    (folder / "voices" / "zz_mine.bin").write_bytes(
        (folder / "voices" / "af_heart.bin").read_bytes()
    )
    cut(folder / WEIGHTS)
    assert (cached(thorough=True) / "voices" / "zz_mine.bin").is_file()


def test_leftovers_of_a_killed_process_go():
    left = find_cache_folder() / ".staged-kokoro-ane-killed"
    (left / "new").mkdir(parents=True)
    (left / "new" / WEIGHTS).write_bytes(b"half")
    assert not [path for path in names(cached()) if ".staged" in path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES], ids=errno.errorcode.get)
def test_a_folder_that_cannot_be_written(monkeypatch, code):
    """Full in the middle of the weights, read-only: one line that says where, how much, and how to
    choose another place.
    """
    real = Path.write_bytes

    def failing(path, data):
        if path.name == WEIGHTS:
            real(path, data[:50])
            raise OSError(code, os.strerror(code), str(path))
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", failing)
    refused(
        f"{os.strerror(code)}; nothing was left half-written. It takes 332 MB;"
        " KOKORO_ANE_CACHE=FOLDER",
        cached,
    )
    assert not [path for path in names(find_cache_folder()) if WEIGHTS in path]
    monkeypatch.undo()


def test_a_cache_that_is_a_file(tmp_path):
    (tmp_path / "cache").write_text("in the way")
    refused("kokoro-int8 cannot be written to", cached)


def test_other_weights_than_the_pinned_ones_are_not_kept(monkeypatch):
    monkeypatch.setattr(packages, "decode", lambda _: {"decoder.x": np.zeros(3, np.float32)})
    refused("decoded to SHA-256 .* is not one of constraints.txt", cached)
    assert WEIGHTS not in names(find_cache_folder())


def test_two_processes_decode_once(tmp_path):
    command = [sys.executable, "-c", STAND_IN]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum(err.count("decoding") for _, err in outputs) == 1
    assert {out.strip() for out, _ in outputs} == {str(find_cache_folder())}
    assert WEIGHTS in names(find_cache_folder())


def test_where_the_cache_is(monkeypatch, tmp_path):
    assert cache_root() == tmp_path / "cache"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "kokoro-ane"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_root().parts[-3:] == ("Library", "Caches", "kokoro-ane")


@table(
    "module flags",
    """
    kokoro_ane.eval.quality | --method fp32 --runtime torch
    kokoro_ane.eval.release | --no-build --workers 99
    kokoro_ane.pipeline.bundle | --runtime torch
""",
)
def test_what_judges_or_ships_reads_the_weights(small, module, flags, tmp_path):
    """Altered weights; each command then ends at a flag that it refuses."""
    weights = cached() / WEIGHTS
    flip(weights)
    command = importlib.import_module(module).main
    assert command(f"{flags} --checkpoint kokoro-int8 --build {tmp_path}/build".split()) == 2
    assert len(small) == 2
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == SHA256
