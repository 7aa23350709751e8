"""What decides is checked: checkpoints against what was built from them, and the commit; a decision
of a stranger is shown in safety.
"""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kokoro_ane.core import revision
from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.eval.listening import REFERENCE, Audition
from kokoro_ane.eval.reference import list_judged_clips
from kokoro_ane.eval.report import main as report
from tests.attacks.spoil import changed, one_of_a_list
from tests.commands import parsed
from tests.eval.release_build import release, shortened


def test_a_swapped_voice_is_judged_anew(placed, measured, tmp_path):
    """The package is the same, for a voice is an input; its figures are another voice's."""
    folder = Path(shutil.copytree(placed[0].folder, tmp_path / "swapped"))
    shutil.copy(folder / "voices" / "awb.pt", folder / "voices" / "slt.pt")
    for place in (placed, (Checkpoint.from_folder(folder), placed[1])):
        assert release(place, "--methods", "fp16") == 3
    assert len(measured) == 2 * len(set(measured))


TAGS = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>')
ODD = (*TAGS, None, -1, 1e300, "x", "\ud800", [], {}, {"x": {}})
SILENCE = np.zeros(24, np.float32)


class Forger:
    """A decision that anybody edits, and the report of it."""

    def __init__(self, place):
        self.command = f"--checkpoint {place[0].folder} --build {place[1]}".split()
        self.folder = place[1] / "release"
        self.record = parsed(self.folder / "decision.json")

    def reported(self, record):
        (self.folder / "decision.json").write_text(json.dumps(record))
        return report(self.command)

    def page(self):
        return (self.folder / "report.html").read_text(encoding="utf-8")


class TestAForgedDecision:
    """The page shows what a stranger wrote in safety, or there is one line."""

    @pytest.fixture
    def decided(self, placed, measured, monkeypatch):
        assert release(placed, "--methods", "fp16,w8") == 3  # w8 is not built: a level that failed
        monkeypatch.undo()
        spoken = list_judged_clips(placed[0])
        cheap = {  # what the page does not depend on
            "kokoro_ane.core.checkpoint.open_checkpoint": lambda _: placed[0],
            "kokoro_ane.eval.report.describe_product": lambda *_: None,
            "kokoro_ane.eval.reference.Reference": lambda *_: None,
            "kokoro_ane.eval.reference.list_judged_clips": lambda *_: spoken,
            "kokoro_ane.eval.listening.render_auditions": lambda _, levels, clips: [
                Audition(clip, dict.fromkeys((REFERENCE, *levels), SILENCE)) for clip in clips
            ],
            "kokoro_ane.eval.listening.write_pack": lambda *_: 0,
        }
        for name, function in cheap.items():
            monkeypatch.setattr(name, function)
        return Forger(placed)

    def test_it_is_shown_as_it_was(self, decided):
        assert decided.reported(decided.record) == 0
        assert "iOS 17" in decided.page()

    def test_every_leaf_in_turn(self, decided, capsys):
        record, shown = shortened(decided.record), 0
        for number, at in enumerate(one_of_a_list(record)):
            for value in (TAGS[number % 2], ODD[number % len(ODD)]):
                capsys.readouterr()
                code = decided.reported(changed(record, at, value))
                lines = capsys.readouterr().err.splitlines()
                assert code == 0 or (
                    code == 2 and len(lines) == 1 and lines[0].startswith("error: ")
                ), (at, value, lines)
                shown += code == 0
                assert code or not any(tag in decided.page() for tag in TAGS), (at, value)
        assert shown > 20


class TestWhatNoCommitHolds:
    """Whatever the gates say, nothing may be released from a tree that no commit stands for: exit
    3.
    """

    @pytest.fixture
    def tree(self, tmp_path, monkeypatch):
        """A checkout in place of this one, with one file, committed."""
        tree = tmp_path / "tree"
        tree.mkdir()
        (tree / "gates.py").write_text("LIMIT = 4.0\n")
        who = "-c user.name=x -c user.email=x@y".split()
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "all of it"]):
            subprocess.run(["git", *words], cwd=tree, check=True)
        monkeypatch.setattr(revision, "ROOT", tree)
        monkeypatch.setattr(Checkpoint, "withheld", None)
        monkeypatch.setattr(Checkpoint, "releasable", False)  # of its packages' names only
        return tree

    def decided(self, place):
        code = release(place, "--methods", "fp16")
        decision = parsed(place[1] / "release" / "decision.json")
        return (
            code,
            decision["may_be_released"],
            " ".join(note for note in decision["notes"] if "releasable" in note),
        )

    def test_a_changed_file_a_new_one_and_no_checkout(self, placed, measured, tree):
        assert self.decided(placed) == (0, True, "")
        (tree / "gates.py").write_text("LIMIT = 1.0\n")
        code, may, note = self.decided(placed)
        assert (code, may) == (3, False)
        assert "gates.py is not as commit" in note
        (tree / "new.py").touch()
        assert "gates.py and 1 more are not as commit" in self.decided(placed)[2]
        shutil.rmtree(tree / ".git")
        code, may, note = self.decided(placed)
        assert (code, may) == (3, False)
        assert "no git checkout says which commit decides" in note

    def test_a_checkout_around_the_code_is_not_its_own(self, tree, monkeypatch):
        """Installed into somebody's project, git answers with that project's commit."""
        assert len(revision.commit()) == 40
        (tree / "site-packages").mkdir()
        monkeypatch.setattr(revision, "ROOT", tree / "site-packages")
        assert revision.commit() == "none"
