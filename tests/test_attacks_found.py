"""What the sweep of bad invocations (tests/sweep.py) and the kills (tests/kill.py) found: a named case each, so that it stays mended."""

import ast
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

import numpy as np
import pytest
import torch

from bench import chain, g2p_misaki, g2p_speed
from bench.random_checkpoint import tiny_config, write_checkpoint
from core import staging
from core.errors import InputError, run_cli
from core.staging import discard, recover, staged, staged_together, write_json
from mlprogram import scratch as temporary
from mlprogram.__main__ import main as mlprogram
from mlprogram.errors import LONGEST_LINE, one_line
from mlprogram.files import aside
from mlprogram.scratch import scratch
from pipeline.build import main as build
from pipeline.bundle import main as bundle
from pipeline.journal import Journal, journal_of_ours
from pipeline.vectors import main as vectors
from tests.test_attacks_output import names, of_ours, our_folder
from vocoder.package import VocoderPackage
from vocoder.steps import STEPS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("tiny"), tiny_config())


class TestWords:
    @pytest.mark.parametrize("bad", ["a\nb", "a\rb", "\x1b[2J", "a\u2028b", "\ud800", "\u202eabc"])
    def test_an_error_is_one_line_whatever_was_given(self, bad: str, capsys: pytest.CaptureFixture) -> None:
        def main(_argv: list[str] | None) -> int:
            raise InputError(f"--voice {bad}: no such voice")

        assert run_cli(main, None) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1 and said.isascii() and said.endswith(": no such voice\n")

    def test_a_name_of_100_000_characters_is_not_said_back(self) -> None:
        said = one_line(f"{'x' * 100_000}: no such voice")
        assert len(said) <= LONGEST_LINE
        assert one_line("ˈnaïve, 5 €") == "ˈnaïve, 5 €"

    @pytest.mark.parametrize("given", [["ane", "x", "--rules"], ["rules", "--check"], ["rules", "--write"]])
    def test_rules_that_never_end(self, given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
        (tmp_path / "zero").symlink_to("/dev/zero")
        assert mlprogram([*given, str(tmp_path / "zero")]) == 2
        assert "not a file" in capsys.readouterr().err

    def test_mlprogram_says_one_line_too(self, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
        assert mlprogram(["ane", str(tmp_path), "--chip", "m1\n" + "x" * 100_000]) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1 and len(said) <= LONGEST_LINE + len("error: \n")

    def test_vectors_of_a_checkpoint_without_voices(self, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
        folder = Path(shutil.copytree(tiny, tmp_path / "checkpoint"))
        shutil.rmtree(folder / "voices")
        assert vectors(["--checkpoint", str(folder), "--out", str(tmp_path / "v")]) == 2
        assert "holds no voice" in capsys.readouterr().err

    def test_a_bundle_into_no_name(self, tiny: Path, capsys: pytest.CaptureFixture) -> None:
        assert bundle(["--checkpoint", str(tiny), "--out", ""]) == 2
        assert "its bundle has to say so: --out bundle-tiny-fp16" in capsys.readouterr().err

    def test_a_picture_of_no_format_is_told_before_anything_is_written(
        self, tiny_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        package = tiny_build / "KokoroVocoder-tiny-fp16.mlpackage"
        given = ["ane", str(package), "--chip", "m1", "--no-device", "--json", str(tmp_path / "x.json"), "--plot", str(tmp_path / "x.wav")]
        assert mlprogram(given) == 2
        assert "must end in one of" in capsys.readouterr().err and not names(tmp_path)

    def test_flags_that_a_bench_command_reads_are_its_flags(self) -> None:
        """bench.chain asked for --form, which it did not have, and ended in a traceback whatever was given."""
        tree = ast.parse(Path(chain.__file__).read_text(encoding="utf-8"))
        read = {
            n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "arguments"
        }
        assert read <= set(vars(chain.parse_arguments([])))

    def test_texts_of_bench_are_where_it_looks(self) -> None:
        assert list(g2p_misaki.TEXTS.glob("*.txt")) and list(g2p_speed.TEXTS.glob("*.txt"))


class TestStaging:
    def test_killed_while_it_cleans_up_the_new_one_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The plan used to outlive its mark "done" or half of the old package, as it came: the half one was then put back."""
        our_folder(tmp_path / "p")

        def half(folder: Path) -> None:
            for path in sorted(folder.rglob("*"), reverse=True):
                if path.is_file() and path.name not in ("plan.json", "owner.lock") and "old/p/mark" not in path.as_posix():
                    path.unlink()

        with monkeypatch.context() as patch:
            patch.setattr(staging, "removed", half)
            with staged(tmp_path / "p", of_ours) as place:
                our_folder(place, "new")
        recover(tmp_path)
        assert (tmp_path / "p" / "data").read_text() == "new" and names(tmp_path) == ["p"]

    def test_killed_again_while_it_recovers_the_old_one_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A second recovery moved the old package away that the first had put back, when new/ had gone already."""
        left = tmp_path / ".staged-x"
        for name in ("new", "old"):
            (left / name).mkdir(parents=True)
            our_folder(left / name / "p", name)
        (left / "plan.json").write_text('["p"]')
        (left / "owner.lock").touch()
        with monkeypatch.context() as patch:
            patch.setattr(staging, "removed", lambda folder: shutil.rmtree(folder / "new"))
            recover(tmp_path)
        recover(tmp_path)
        assert (tmp_path / "p" / "data").read_text() == "old" and names(tmp_path) == ["p"]

    def test_killed_anywhere_in_a_removal_the_rest_goes(self, tmp_path: Path) -> None:
        """Without its lock a folder that was not empty was nobody's, and stayed for ever."""

        def dies(left: list[int]) -> None:
            real = os.unlink

            def unlink(path: object, *given: object, **more: object) -> None:
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                real(path, *given, **more)

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
            assert names(tmp_path) in ([], ["p"])
        assert 4 < killed < 12 and names(tmp_path) == ["p"]

    def test_a_plan_that_was_cut_off_is_cleared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It could not be read, and its folder stayed for ever: it is renamed when it is complete, now."""
        seen = []
        real = Path.write_text

        def write(path: Path, *given: object, **more: object) -> int:
            seen.append(path.name)
            return real(path, *given, **more)

        monkeypatch.setattr(Path, "write_text", write)
        with staged(tmp_path / "p", of_ours) as place:
            our_folder(place)
        assert "plan.json" not in seen and any(name.startswith("plan.json") for name in seen)

    def test_a_lock_that_was_removed_before_it_was_locked_is_none(self, tmp_path: Path) -> None:
        """The folder of a process that had not locked it yet was taken for a leftover; the process went on in a folder that was gone."""
        real, gone = temporary.locked, []

        def late(path: Path, flags: int = os.O_RDWR) -> int | None:
            if not gone and flags & os.O_CREAT:
                number = os.open(path, flags, 0o600)
                os.close(number)
                recover(tmp_path)
                gone.append(path)
            return real(path, flags)

        temporary.locked = late
        try:
            write_json(tmp_path / "x.json", [1])
        finally:
            temporary.locked = real
        assert gone and json.loads((tmp_path / "x.json").read_text()) == [1] and names(tmp_path) == ["x.json"]

    def test_two_processes_at_once_leave_a_pair(self, tmp_path: Path) -> None:
        """A package of one and the manifest of the other would be refused by every reader."""
        workers = [multiprocessing.get_context("fork").Process(target=_pairs, args=(tmp_path, str(number))) for number in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
        seen = {(tmp_path / "p" / "data").read_text(), json.loads((tmp_path / "p.json").read_text())}
        assert len(seen) == 1 and names(tmp_path) == ["p", "p.json"]

    def test_a_folder_is_discarded_at_one_stroke(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        our_folder(tmp_path / "v")
        monkeypatch.setattr(staging, "removed", lambda _: None)  # killed before anything inside was removed
        discard(tmp_path / "v")
        assert not (tmp_path / "v").exists()
        monkeypatch.undo()
        recover(tmp_path)
        assert not names(tmp_path)

    def test_scratch_of_a_killed_process_goes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        code = "import os, sys, tempfile; tempfile.tempdir = sys.argv[1]; from mlprogram.scratch import scratch\n"
        code += "with scratch() as folder: (folder / 'x').touch(); os.kill(os.getpid(), 9)"
        assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False).returncode == -signal.SIGKILL
        assert list(tmp_path.rglob("x"))
        with scratch() as folder:
            assert not list(tmp_path.rglob("x")) and folder.is_dir()
        assert not [path for path in tmp_path.rglob("*") if not path.is_dir()]

    def test_mlprogram_clears_what_a_killed_one_left(self, tmp_path: Path) -> None:
        (tmp_path / ".aside-0123456789ab.json").write_text("half")
        with aside(tmp_path / "x.json") as path:
            path.write_text("{}")
            with aside(tmp_path / "y.json") as other:  # a living one's is left alone
                other.write_text("{}")
        assert names(tmp_path) == ["x.json", "y.json"]

    def test_a_journal_is_never_without_its_settings(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Killed between its folder and settings.json, it was somebody else's folder for every later run, which was refused."""
        bare = []
        real = Path.open

        def opened(path: Path, *given: object, **more: object) -> object:
            bare.append((tmp_path / "a.wav.parts").exists() and not (tmp_path / "a.wav.parts" / "settings.json").exists())
            return real(path, *given, **more)

        monkeypatch.setattr(Path, "open", opened)
        with Journal.open(tmp_path / "a.wav.parts", {"text": "x"}, resume=False):
            assert journal_of_ours(tmp_path / "a.wav.parts") is None
        assert bare and not any(bare)
        with Journal.open(tmp_path / "a.wav.parts", {"text": "y"}, resume=False) as journal:
            assert json.loads((tmp_path / "a.wav.parts" / "settings.json").read_text()) == {"text": "y"}
        journal.remove()
        assert not names(tmp_path)


def _pairs(folder: Path, mine: str) -> None:
    for _ in range(30):
        with staged_together((folder / "p", of_ours), (folder / "p.json", None)) as (package, manifest):
            our_folder(package, mine)
            manifest.write_text(json.dumps(mine))


class TestTemporaryFiles:
    def test_a_conversion_leaves_none_while_the_process_lives(
        self, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_conversion: None
    ) -> None:
        """coremltools keeps a copy of every package in TMPDIR until the process ends, and for ever where it is killed."""
        (tmp_path / "tmp").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
        assert build(["vocoder", "--checkpoint", str(tiny), "--buckets", "20", "--out", str(tmp_path / "build")]) == 0
        assert not names(tmp_path / "tmp")
        assert names(tmp_path / "build") == ["KokoroVocoder-tiny-fp16.json", "KokoroVocoder-tiny-fp16.mlpackage"]

    def test_workers_end_with_a_parent_that_was_killed(self, tmp_path: Path) -> None:
        """They waited for clips for ever, with a gigabyte each."""
        code = (
            "import os, signal, sys, time, multiprocessing as m\nfrom eval.workers import _end_with_parent\nimport threading\n"
            "def work():\n threading.Thread(target=_end_with_parent, daemon=True).start()\n time.sleep(300)\n"
            "if __name__ == '__main__':\n p = m.get_context('fork').Process(target=work); p.start(); print(p.pid, flush=True)\n"
            " time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        (tmp_path / "parent.py").write_text(code)
        done = subprocess.run(
            [sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False
        )
        worker = int(done.stdout)
        for _ in range(300):
            if not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text().split()[2]:
                return
            time.sleep(0.1)
        os.kill(worker, signal.SIGKILL)
        raise AssertionError("the worker outlived its parent by 30 s")


class TestNothingThatIsNoNumber:
    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    @pytest.mark.parametrize("which", [0, 1])
    def test_the_package_takes_none(self, value: float, which: int, tiny_build: Path) -> None:
        package = VocoderPackage(tiny_build / "KokoroVocoder-tiny-fp16.json")
        spec = package.program.inputs
        given = [torch.zeros(spec["features"].shapes[0]), torch.zeros(spec["style"].shape)]
        given[which].view(-1)[3] = value
        with pytest.raises(InputError, match="holds 1 NaN or infinite values"):
            package.run(*given, frames=40)

    def test_the_chain_gives_none(self) -> None:
        """As 16 bit it was silence, with exit 0."""

        class Broken:
            arrays = True

            def run(self, *_: object) -> np.ndarray:
                return np.full(600, np.nan, np.float32)

        class Context:
            vocoder = Broken()

        step = next(step for step in STEPS if step.name == "vocoder")
        ones = np.ones((1, 2, 1, 2), np.float32)
        with pytest.raises(InputError, match="waveform holds 600 NaN or infinite values"):
            step.run(Context(), {"features": ones, "style": ones, "asr": np.ones((1, 4, 1))})
