"""What a careless --out may meet, a full disk too: nothing of the user's is deleted, nothing stands
half-written, told in one line.
"""

import importlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from kokoro_ane.cli import COMMANDS
from kokoro_ane.core import staging
from kokoro_ane.core.errors import run_cli
from kokoro_ane.core.staging import (
    check_output,
    recover,
    staged,
    staged_together,
    strangers,
    write_json,
)
from kokoro_ane.pipeline.speak import SpeakOptions
from tests.builds import left_behind
from tests.commands import everything, parsed, ran, refused


def of_ours(folder):
    return strangers(folder, {"mark", "data"}) if (folder / "mark").is_file() else "it has no mark"


def our_folder(path, text="old", files=("mark", "data")):
    path.mkdir()
    for name in files:
        (path / name).write_text(text if name == "data" else "")
    return path


def write_anew(path):
    with staged(path, of_ours) as aside:
        our_folder(aside, "new")


class TestFolders:
    def test_ours_is_replaced(self, tmp_path):
        write_anew(our_folder(tmp_path / "v"))
        assert (tmp_path / "v" / "data").read_text() == "new"
        assert left_behind(tmp_path) == ["v"]

    def test_an_empty_one_is_filled(self, tmp_path):
        (tmp_path / "v").mkdir()
        write_anew(tmp_path / "v")
        assert (tmp_path / "v" / "data").read_text() == "new"

    @pytest.mark.parametrize(
        "kind", ["without our mark", "with another file in it", "the folder above"]
    )
    def test_anything_else_is_refused_by_name(self, tmp_path, kind):
        folder = our_folder(tmp_path / "v")
        (folder / "thesis.tex").write_text("years")
        if kind == "without our mark":
            (folder / "mark").unlink()
        target = tmp_path if kind == "the folder above" else folder
        refused(f"{target.name} is not replaced: it ", write_anew, target)
        assert (folder / "thesis.tex").read_text() == "years"
        assert (folder / "data").read_text() == "old"

    @pytest.mark.parametrize("when", ["while we worked", "right after the look"])
    def test_what_came_meanwhile_is_kept(self, when, tmp_path, monkeypatch):
        """Between the check and the note of what stood there, it was taken for what had been
        checked, and removed.
        """
        check = staging.check_implied
        thesis = tmp_path / "v" / "thesis.tex"

        def appears():
            thesis.parent.mkdir()
            thesis.write_text("years")

        def looked(target, *options):
            place = check(target, *options)
            if not place.exists() and when == "right after the look":
                appears()
            return place

        monkeypatch.setattr(staging, "check_implied", looked)
        with refused("is not replaced"), staged(tmp_path / "v", of_ours) as aside:
            our_folder(aside)
            if when == "while we worked":
                appears()
        assert left_behind(tmp_path / "v") == ["thesis.tex"]
        assert thesis.read_text() == "years"
        assert left_behind(tmp_path) == ["v"]


class TestPlaces:
    def test_a_link_is_written_through_where_it_is_named(self, tmp_path):
        (tmp_path / "far").mkdir()
        (tmp_path / "link.json").symlink_to(tmp_path / "far" / "x.json")
        refused("it is a link", write_json, tmp_path / "link.json", [1])
        write_json(check_output(tmp_path / "link.json"), [1])
        assert (tmp_path / "link.json").is_symlink()
        assert (tmp_path / "far" / "x.json").read_text() == "[\n 1\n]\n"

    def test_a_folder_that_may_only_be_read(self, tmp_path):
        if os.geteuid() == 0:
            target = Path("/sys/kernel/x.json")  # root may write everywhere else
        else:
            tmp_path.chmod(0o500)
            target = tmp_path / "x.json"
        refused("cannot write", check_output, target)

    def test_rights_are_those_of_the_umask(self, tmp_path):
        before = os.umask(0o022)
        try:
            with staged(tmp_path / "v", of_ours) as aside:
                our_folder(aside)
                (aside / "mark").chmod(0o600)
                aside.chmod(0o700)
        finally:
            os.umask(before)
        assert [(tmp_path / "v" / name).stat().st_mode & 0o777 for name in (".", "mark")] == [
            0o755,
            0o644,
        ]


def replace_until(step, parent):
    """Replace a folder and its manifest together, and die at the `step`th change of a name."""
    left = [step]

    def dying(real):
        def call(*arguments, **more):
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return real(*arguments, **more)

        return call

    for place, names in ((Path, ("rename", "replace", "mkdir")), (os, ("unlink", "rmdir"))):
        for name in names:
            setattr(place, name, dying(getattr(place, name)))
    with staged_together((parent / "p", of_ours), (parent / "p.json", None)) as (folder, manifest):
        our_folder(folder, "new")
        manifest.write_text(json.dumps("new"))


@pytest.mark.parametrize("before", [True, False])
def test_killed_at_every_rename_nothing_finished_is_lost_and_nothing_half_is_taken(
    tmp_path, before, capsys
):
    for step in range(30):
        parent = tmp_path / str(step)
        parent.mkdir()
        if before:
            our_folder(parent / "p")
            (parent / "p.json").write_text(json.dumps("old"))
        process = multiprocessing.get_context("fork").Process(
            target=replace_until, args=(step, parent)
        )
        process.start()
        process.join()
        recover(parent)
        pair = None
        if (parent / "p.json").exists():
            pair = [parsed(parent / "p.json"), (parent / "p" / "data").read_text()]
        assert pair in ([["old", "old"], ["new", "new"]] if before else [None, ["new", "new"]])
        assert left_behind(parent) == (["p", "p.json"] if pair else [])
        if process.exitcode == 0:
            assert step > 8
            assert pair == ["new", "new"]
            break
    assert process.exitcode == 0
    assert "an earlier run was killed" in capsys.readouterr().err


ROOM_BYTES = {"full": 0, "nearly full": 100_000}  # the second passes the check before the work
WRITERS = (
    # coremltools writes copies of 6 MB before the package
    "build g2p --weights {weights} --out {disk}/build",
    "quantize --method w8 --build {disk}/build",
    "vectors --build {build} --out {disk}/vectors --voice slt",
    "bundle --build {build} --out {disk}/bundle-tiny",
    "speak Hello. -o {disk}/old.wav --runtime torch --voice slt",
)


@pytest.fixture
def disk(tmp_path):
    """4 MB of memory as a file system of its own, with a finished package and two finished files of
    the user's.
    """
    place = tmp_path / "disk"
    place.mkdir()
    done = ran(*f"mount -t tmpfs -o size=4m tmpfs {place}".split())
    if done.returncode:
        pytest.skip(
            f"only root may mount a disk ({done.stderr.strip()}); test_convert.py has a stand-in by"
            " quota"
        )
    try:
        yield place
    finally:
        subprocess.run(f"umount -l {place}".split(), check=True)


def filled(disk, tiny_build, room_bytes):
    (disk / "build").mkdir()
    name = "KokoroVocoder-tiny-padded-fp16"
    shutil.copy2(tiny_build / f"{name}.json", disk / "build" / f"{name}.json")
    shutil.copytree(tiny_build / f"{name}.mlpackage", disk / "build" / f"{name}.mlpackage")
    for file in ("old.wav", "old.json"):
        (disk / file).write_text("years of work")
    fill(disk, room_bytes)
    return everything(disk)


def fill(disk, room_bytes):
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "filler").write_bytes(bytes(free - room_bytes))


@pytest.mark.parametrize("room", ROOM_BYTES)
@pytest.mark.parametrize("command", WRITERS)
def test_a_full_disk(command, room, disk, tiny_build, tiny_checkpoint, g2p_weights, capsys):
    places = {"disk": disk, "build": tiny_build, "weights": g2p_weights}
    verb, *arguments = command.format(**places).split()
    if verb != "build":
        arguments += ["--checkpoint", str(tiny_checkpoint.folder)]
    before = filled(disk, tiny_build, ROOM_BYTES[room])
    capsys.readouterr()
    code = importlib.import_module(COMMANDS[verb][0]).main(arguments)
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    after = everything(disk)
    if code == 0:  # what it writes has room
        assert room == "nearly full"
        assert verb == "speak"
        return
    assert code == 2, errors
    assert len(errors) == 1, errors
    assert errors[0].startswith("error: cannot write"), errors
    assert len(errors[0]) < 400, errors
    assert after == before


def test_two_names_of_one_file_are_one(tmp_path):
    """As two spellings are where letters' case does not count."""
    lexicon = tmp_path / "words.json"
    lexicon.write_text("{}")
    (tmp_path / "times.json").hardlink_to(lexicon)
    options = SpeakOptions(lexicon=lexicon, timestamps=tmp_path / "times.json")
    with refused("timestamps and lexicon are the same file"):
        check_output(tmp_path / "times.json", arguments=options)


def test_what_cannot_be_read_is_not_called_unwritable(tmp_path, capsys):
    """A file without rights, read while an output is being written."""

    def main(_argv):
        with staged(tmp_path / "out.json"):
            raise PermissionError(13, "Permission denied", "weights.pth")

    assert run_cli(main, None) == 2
    assert capsys.readouterr().err == "error: cannot use weights.pth: Permission denied\n"
    assert not list(tmp_path.iterdir())
