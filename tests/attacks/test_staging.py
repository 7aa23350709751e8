"""What kills at every rename found in staging and in temporary files: a named case each, so that it
stays mended.
"""

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kokoro_ane.core.staging import (
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

    @pytest.mark.parametrize("left", [[], ["owner.lock"]])
    def test_a_kept_state_is_ours_wherever_its_first_run_was_killed(self, left, tmp_path):
        """Killed between its folder and settings.json, it was somebody else's folder for every
        later run, which was refused.
        """
        parts = our_folder(tmp_path / "a.wav.parts", files=left)
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

    def test_the_output_of_a_killed_one_is_free(self, tmp_path):
        parts = tmp_path / "a.wav.parts"
        killed = SECOND.replace("pass", "os.kill(os.getpid(), 9)")
        done = ran(sys.executable, "-c", killed, str(parts))
        assert done.returncode == -signal.SIGKILL
        assert left_behind(parts) == "owner.lock settings.json".split()
        with resume_state(parts, {"text": "y"}):
            assert parsed(parts / "settings.json") == {"text": "y"}

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

    @pytest.mark.parametrize("part", ["old", "new"])
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
        assert (tmp_path / "p" / "data").read_text() == "new"
        assert left_behind(tmp_path) == ["p"]


SECOND = """
import os, sys
from pathlib import Path
from kokoro_ane.pipeline.resume import resume_state
with resume_state(Path(sys.argv[1]), {"text": "second"}):
    pass
print("spoke", file=sys.stderr)
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
            "import os, signal, sys, time, multiprocessing as m\nfrom kokoro_ane.eval.workers"
            " import _stop_with_parent\nimport threading\ndef work():\n"
            " threading.Thread(target=_stop_with_parent, daemon=True).start()\n time.sleep(300)\nif"
            " __name__ == '__main__':\n p = m.get_context('fork').Process(target=work); p.start();"
            " print(p.pid, flush=True)\n time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        (tmp_path / "parent.py").write_text(code)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = ran(sys.executable, f"{tmp_path}/parent.py", env=environment)
        assert done.returncode == -signal.SIGKILL, done.stderr
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
