"""Bundled data: the list of hashes is that of the files, and a damaged file is one clear line."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from kokoro_g2p import bundled
from kokoro_g2p.errors import InputError

FILES = sorted(path for path in bundled.DATA.rglob("*") if path.is_file())
NAMES = [path.relative_to(bundled.DATA).as_posix() for path in FILES]
DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "changed": lambda content: content[:40] + bytes(byte ^ 1 for byte in content[40:]),
}
# Which language reads a file that English does not
READERS = {"gb": "gb.", "fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese"}


def test_the_list_is_that_of_the_files():
    hashed = {
        name: sha256(path.read_bytes()).hexdigest()
        for name, path in zip(NAMES, FILES, strict=True)
        if name != "SHA256SUMS"
    }
    assert bundled.read_hashes() == hashed, "`make hashes` writes the list"


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_is_read(damage, tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "DATA", tmp_path)
    bundled.read_hashes()  # of the real list, remembered
    for name, path in zip(NAMES, FILES, strict=True):
        copy = tmp_path / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())
        assert name == "SHA256SUMS" or bundled.read_data(copy) == path.read_bytes()
        copy.write_bytes(DAMAGES[damage](path.read_bytes()))
        with pytest.raises(InputError, match="is damaged or changed"):
            bundled.read_data(copy)
    with pytest.raises(InputError, match="cannot be read"):
        bundled.read_data(tmp_path / "missing")


def spoken_with(name, damage, tmp_path):
    """The command in a copy of the package in which one file is damaged."""
    package = tmp_path / "kokoro_g2p"
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(bundled.DATA.parent, package, ignore=left_out)
    path = package / "data" / name
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    # one network reads four languages
    readers = READERS | {"es": "languages"} if "languages" in name else READERS
    language = next((one for one, part in readers.items() if part in name), "us")
    language = "gb" if name.startswith("gb_") else language
    # a listed name, a name of CMUdict, a heteronym and a word that no list has
    text = "Thompson's record of 3 blorfkins, Dr. Who."
    return subprocess.run(
        [sys.executable, "-m", "kokoro_g2p", text, "--dialect", language],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )


# One of each way in which files are read; the others take minutes
QUICK = ("ours_us.tsv", "cmudict.txt.gz", "model.json", "grammar/us.tsv", "tagger.npz")


def damaged_files():
    """Every file that is read with every damage; a port's texts are read where a bundle is made."""
    read = [name for name in NAMES if "LICENSE" not in name and name != "port_texts.tsv"]
    pairs = [(name, damage) for name in read for damage in DAMAGES]
    quick = {(name, "cut") for name in QUICK}
    return [pytest.param(*pair, marks=() if pair in quick else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize(("name", "damage"), damaged_files())
def test_a_command_with_a_damaged_file_says_one_line(name, damage, tmp_path):
    done = spoken_with(name, damage, tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert Path(name).name in done.stderr or "SHA256SUMS" in done.stderr
