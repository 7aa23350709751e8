"""What kills at every rename found in staging and in temporary files: a named case each, so that it
stays mended.
"""

import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kokoro_ane.core import staging
from kokoro_ane.core.staging import (
    discard,
    recover,
    staged,
    staged_together,
    write_json,
)
from kokoro_ane.pipeline.build import main as build
from kokoro_ane.pipeline.resume import resume_state
from tests.attacks.test_output import of_ours, our_folder
from tests.builds import left_behind
from tests.commands import ROOT, parsed, ran, refused


class TestStaging:
    def test_killed_again_while_it_recovers_the_old_one_stays(self, tmp_path, monkeypatch):
        """A second recovery moved the old package away that the first had put back, when new/ had
        gone already.
        """
        left = tmp_path / ".staged-x"
        for name in ("new", "old"):
            (left / name).mkdir(parents=True)
            our_folder(left / name / "p", name)
        (left / "owner.lock").touch()
        with monkeypatch.context() as patch:
            patch.setattr(staging, "remove_claimed", lambda folder: shutil.rmtree(folder / "new"))
            recover(tmp_path)
        recover(tmp_path)
        assert (tmp_path / "p" / "data").read_text() == "old"
        assert left_behind(tmp_path) == ["p"]

    def test_killed_anywhere_in_a_removal_the_rest_goes(self, tmp_path):
        """Without its lock a folder that was not empty was nobody's, and stayed for ever."""

        def dies(left):
            real = os.unlink

            def unlink(path, *inputs, **more):
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                real(path, *inputs, **more)

            os.unlink = unlink
            with staged(tmp_path / "p", of_ours) as place:
                our_folder(place, "new")

        killed = 0
        for step in range(12):
            process = multiprocessing.get_context("fork").Process(target=dies, args=([step],))
            process.start()
            process.join()
            killed += process.exitcode == -signal.SIGKILL
            recover(tmp_path)
            assert left_behind(tmp_path) in ([], ["p"])
        assert 2 < killed < 12
        assert left_behind(tmp_path) == ["p"]

    def test_a_lock_that_was_removed_before_it_was_locked_is_none(self, tmp_path, monkeypatch):
        """The folder of a process that had not locked it yet was taken for a leftover; the process
        went on in a folder that was gone.
        """
        real, raced = fcntl.flock, []

        def late(number, how):
            if not raced and how & fcntl.LOCK_NB:
                raced.append(number)
                recover(tmp_path)
            real(number, how)

        monkeypatch.setattr(fcntl, "flock", late)
        write_json(tmp_path / "x.json", [1])
        assert raced
        assert parsed(tmp_path / "x.json") == [1]
        assert left_behind(tmp_path) == ["x.json"]

    def test_two_processes_at_once_leave_a_pair(self, tmp_path):
        """A package of one and the manifest of the other would be refused by every reader."""
        _at_once(_pairs, tmp_path, 3)
        seen = {(tmp_path / "p" / "data").read_text(), parsed(tmp_path / "p.json")}
        assert len(seen) == 1
        assert left_behind(tmp_path) == ["p", "p.json"]

    def test_a_folder_is_discarded_at_one_stroke(self, tmp_path, monkeypatch):
        our_folder(tmp_path / "v")
        # killed before anything inside was removed
        monkeypatch.setattr(staging, "remove_claimed", lambda _: None)
        discard(tmp_path / "v")
        assert not (tmp_path / "v").exists()
        monkeypatch.undo()
        recover(tmp_path)
        assert not left_behind(tmp_path)

    @pytest.mark.parametrize("last", ["mkdir", "locked", "write_text", "inside"])
    def test_a_kept_state_is_ours_wherever_its_first_run_was_killed(self, last, tmp_path):
        """Killed between its folder and settings.json, it was somebody else's folder for every
        later run, which was refused.
        """
        parts = tmp_path / "a.wav.parts"
        done = ran(sys.executable, "-c", KILLED, str(parts), last)
        assert done.returncode == -signal.SIGKILL
        assert parts.is_dir()
        assert (parts / "settings.json").exists() == (last == "inside")
        with resume_state(parts, {"text": "y"}):
            assert parsed(parts / "settings.json") == {"text": "y"}
        assert not left_behind(tmp_path)

    def test_two_onto_one_output_one_after_the_other(self, tmp_path):
        """The second took the folder away under the first, or the first under the second: "cannot
        use a.wav.parts", exit 2.
        """
        parts = tmp_path / "a.wav.parts"
        with resume_state(parts, {"text": "x"}):
            second = subprocess.Popen(
                [sys.executable, "-c", SECOND, str(parts)],
                cwd=ROOT,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert (
                second.stderr.readline()
                == f"{parts}: another process writes this output: waiting until it has ended\n"
            )
            assert parsed(parts / "settings.json") == {"text": "x"}
        assert second.communicate()[1] == "spoke\n"
        assert second.returncode == 0
        assert not left_behind(tmp_path)

    def test_several_onto_one_output_each_has_it_alone(self, tmp_path):
        _at_once(_alone, tmp_path, 4)
        assert not left_behind(tmp_path)

    @pytest.mark.parametrize("name", ["owner.lock", "000000.npz"])
    @pytest.mark.parametrize("resume", [False, True])
    def test_a_link_among_the_kept_chunks_is_not_followed(self, name, resume, tmp_path):
        thesis, parts = tmp_path / "thesis.tex", tmp_path / "a.wav.parts"
        thesis.write_text("mine")
        parts.mkdir()
        (parts / "settings.json").write_text('{"text": "x"}')
        (parts / name).symlink_to(thesis)
        with (
            refused(f"its {name} is no file of an interrupted run"),
            resume_state(parts, {"text": "x"}, resume),
        ):
            pass
        assert thesis.read_text() == "mine"

    def test_interrupted_again_while_names_are_given_the_next_command_goes_on(
        self, tmp_path, monkeypatch
    ):
        """The second signal ended the giving of names, and both packages went with the folder
        aside.
        """
        our_folder(tmp_path / "p", "old")
        moved, real = [], Path.rename

        def interrupted(path, target):
            if path.parent.name == "ready":
                moved.append(path)
                raise KeyboardInterrupt
            return real(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", interrupted)
            with pytest.raises(KeyboardInterrupt), staged(tmp_path / "p", of_ours) as place:
                our_folder(place, "new")
        assert len(moved) == 2
        assert not (tmp_path / "p").exists()
        recover(tmp_path)
        assert (tmp_path / "p" / "data").read_text() == "new"
        assert left_behind(tmp_path) == ["p"]

    @pytest.mark.parametrize("part", ["old", "ready"])
    def test_an_interrupt_while_names_are_given_leaves_one_of_both(
        self, part, tmp_path, monkeypatch
    ):
        our_folder(tmp_path / "p", "old")
        moved, real = [], Path.rename

        def interrupted(path, target):
            if not moved and part in (path.parent.name, target.parent.name):
                moved.append(real(path, target))
                raise KeyboardInterrupt
            return real(path, target)

        monkeypatch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt), staged(tmp_path / "p", of_ours) as place:
            our_folder(place, "new")
        assert moved
        assert (tmp_path / "p" / "data").read_text() == {"old": "old", "ready": "new"}[part]
        assert left_behind(tmp_path) == ["p"]


SECOND = """
import os, sys
from pathlib import Path
from kokoro_ane.pipeline.resume import resume_state
with resume_state(Path(sys.argv[1]), {"text": "second"}):
    pass
print("spoke", file=sys.stderr)
"""


# killed at the first call of a function, behind that of mkdir, or in the block
KILLED = """
import os, sys
from pathlib import Path
from kokoro_ane.pipeline import resume
def killed(*_, **how):
    os.kill(os.getpid(), 9)
def mkdir(path, real=Path.mkdir, **how):
    real(path, **how)
    path.name.endswith(".parts") and killed()
if sys.argv[2] == "mkdir":
    Path.mkdir = mkdir
elif sys.argv[2] == "locked":
    real = resume.try_lock
    resume.try_lock = lambda *how: real(*how) and killed()
elif sys.argv[2] == "write_text":
    Path.write_text = killed
with resume.resume_state(Path(sys.argv[1]), {"text": "x"}):
    killed()
"""


def _at_once(work, folder, count):
    workers = [
        multiprocessing.get_context("fork").Process(target=work, args=(folder, str(number)))
        for number in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def _alone(folder, mine):
    sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    for _ in range(20):
        with resume_state(folder / "p", {"text": mine}):
            assert parsed(folder / "p" / "settings.json") == {"text": mine}
            assert not (folder / "alone").exists()
            (folder / "alone").touch()
            (folder / "alone").unlink()


def _pairs(folder, mine):
    for _ in range(30):
        with staged_together((folder / "p", of_ours), (folder / "p.json", None)) as (
            package,
            manifest,
        ):
            our_folder(package, mine)
            manifest.write_text(json.dumps(mine))


class TestTemporaryFiles:
    def test_a_conversion_needs_no_room_for_them(self, g2p_weights, tmp_path, monkeypatch):
        """coremltools keeps a copy of every package in TMPDIR until the process ends, and for ever
        where it is killed; its copies go to where the package goes.
        """
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nothing"))
        assert build(f"g2p --weights {g2p_weights} --out {tmp_path}/build".split()) == 0
        assert left_behind(tmp_path) == ["build"]
        assert left_behind(tmp_path / "build") == ["G2P.json", "G2P.mlpackage"]

    def test_workers_end_with_a_parent_that_was_killed(self, tmp_path):
        """They waited for clips for ever, with a gigabyte each."""
        code = (
            "import os, signal, sys, time, multiprocessing as m\nfrom kokoro_ane.eval.execution"
            " import _end_with_parent\nimport threading\ndef work():\n"
            " threading.Thread(target=_end_with_parent, daemon=True).start()\n time.sleep(300)\nif"
            " __name__ == '__main__':\n p = m.get_context('fork').Process(target=work); p.start();"
            " print(p.pid, flush=True)\n time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        (tmp_path / "parent.py").write_text(code)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = ran(sys.executable, f"{tmp_path}/parent.py", env=environment)
        worker = int(done.stdout)
        for _ in range(300):
            if (
                not Path(f"/proc/{worker}").exists()
                or "Z" in Path(f"/proc/{worker}/stat").read_text().split()[2]
            ):
                return
            time.sleep(0.1)
        os.kill(worker, signal.SIGKILL)
        raise AssertionError("the worker outlived its parent by 30 s")


REPLACED = """
import os, shutil, sys
from pathlib import Path
from kokoro_ane.core import staging
manifest, last, real = Path(sys.argv[1]), sys.argv[2], Path.rename
package = manifest.with_suffix(".mlpackage")
def rename(path, target):
    ends = last in (path.name, path.parent.name + path.suffix)
    return os._exit(9) if ends else real(path, target)
Path.rename = rename
with staging.staged_together((package, lambda _: None), (manifest, None)) as (new, described):
    shutil.copytree(package, new)
    shutil.copy(manifest, described)
    if last == "new":
        (new / "x").touch()
"""


@pytest.mark.parametrize("last", ["new", "ready.mlpackage", "ready.json"])
def test_readers_finish_what_a_killed_build_began(
    last, tiny_checkpoint, tiny_build, tmp_path, capsys
):
    """Killed between the renames: before the new package counts the old one comes back (the new one
    would be refused: it holds a file more), and from there on the new one gets its names.
    """
    from kokoro_ane.pipeline.speak import main as speak

    build = shutil.copytree(tiny_build, tmp_path / "build")
    manifest = next(build.glob("KokoroVocoder*fp16.json"))
    assert ran(sys.executable, "-c", REPLACED, str(manifest), last).returncode == 9
    assert not manifest.exists()
    arguments = (
        f"Hi. --checkpoint {tiny_checkpoint.folder} --build {build} -o {tmp_path}/a.wav --quiet"
    ).split()
    assert speak(arguments) == 0
    assert f"{manifest.name} put in place" in capsys.readouterr().err
    assert not list(build.glob(".staged-*"))
