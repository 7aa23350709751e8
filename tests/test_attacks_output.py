"""What a careless --out may meet: nothing of the user's is ever deleted, nothing stands half-written, the reason is one line."""

import json
import os
import stat
from pathlib import Path

import pytest

from kokoro_ane.core import staging
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.staging import PREFIX, check_output, recover, staged, staged_together, strangers, write_json


def of_ours(folder: Path) -> str | None:
    return strangers(folder, {"mark", "data"}) if (folder / "mark").is_file() else "it has no mark"


def our_folder(path: Path, text: str = "old") -> Path:
    path.mkdir()
    (path / "mark").touch()
    (path / "data").write_text(text)
    return path


def write_anew(path: Path) -> None:
    with staged(path, of_ours) as aside:
        our_folder(aside, "new")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestFolders:
    def test_ours_is_replaced(self, tmp_path: Path) -> None:
        write_anew(our_folder(tmp_path / "v"))
        assert (tmp_path / "v" / "data").read_text() == "new" and names(tmp_path) == ["v"]

    def test_an_empty_one_is_filled(self, tmp_path: Path) -> None:
        (tmp_path / "v").mkdir()
        write_anew(tmp_path / "v")
        assert (tmp_path / "v" / "data").read_text() == "new"

    @pytest.mark.parametrize("kind", ["without our mark", "with another file in it", "the folder above"])
    def test_anything_else_is_refused_by_name(self, tmp_path: Path, kind: str) -> None:
        folder = our_folder(tmp_path / "v")
        (folder / "thesis.tex").write_text("years")
        if kind == "without our mark":
            (folder / "mark").unlink()
        target = tmp_path if kind == "the folder above" else folder
        with pytest.raises(InputError, match=f"{target.name} is not replaced: it "):
            write_anew(target)
        assert (folder / "thesis.tex").read_text() == "years" and (folder / "data").read_text() == "old"

    def test_what_came_while_we_worked_is_kept(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="is not replaced"), staged(tmp_path / "v", of_ours) as aside:
            our_folder(aside)
            (tmp_path / "v").mkdir()
            (tmp_path / "v" / "thesis.tex").write_text("years")
        assert names(tmp_path / "v") == ["thesis.tex"] and names(tmp_path) == ["v"]

    def test_what_came_right_after_the_look_is_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Between the check and the note of what stood there, it was taken for what had been checked, and removed."""
        real = staging.check_implied

        def looked(target: Path, *given: object) -> Path:
            place = real(target, *given)
            if not place.exists():
                place.mkdir()
                (place / "thesis.tex").write_text("years")
            return place

        monkeypatch.setattr(staging, "check_implied", looked)
        with pytest.raises(InputError, match="is not replaced"), staged(tmp_path / "v", of_ours) as aside:
            our_folder(aside)
        assert names(tmp_path / "v") == ["thesis.tex"] and names(tmp_path) == ["v"]

    def test_a_file_is_no_folder_and_a_folder_no_file(self, tmp_path: Path) -> None:
        (tmp_path / "f").write_text("x")
        with pytest.raises(InputError, match="is a file: a folder is written there"):
            write_anew(tmp_path / "f")
        with pytest.raises(InputError, match="is a folder: name a file in it"):
            write_json(our_folder(tmp_path / "v"), {})
        with pytest.raises(InputError, match="is a file, not a folder"):
            write_json(tmp_path / "f" / "x.json", {})
        assert names(tmp_path) == ["f", "v"]


class TestPlaces:
    def test_a_link_is_written_through_where_it_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "far").mkdir()
        (tmp_path / "link.json").symlink_to(tmp_path / "far" / "x.json")
        with pytest.raises(InputError, match="it is a link"):
            write_json(tmp_path / "link.json", [1])
        write_json(check_output(tmp_path / "link.json"), [1])
        assert (tmp_path / "link.json").is_symlink() and (tmp_path / "far" / "x.json").read_text() == "[\n 1\n]\n"

    @pytest.mark.parametrize("place", ["loop", "fifo", "x" * 300, "nul\0byte"])
    def test_odd_names_are_one_line(self, tmp_path: Path, place: str) -> None:
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        os.mkfifo(tmp_path / "fifo")
        with pytest.raises(InputError) as told:
            write_json(tmp_path / place, {})
        assert len(str(told.value).splitlines()) == 1 and names(tmp_path) == ["fifo", "loop"]

    @pytest.mark.parametrize("place", ["/dev/null", "/proc/x.json", "/dev/full"])
    def test_devices_and_pseudo_file_systems(self, place: str) -> None:
        before = stat.S_IFMT(Path(place).stat().st_mode) if Path(place).exists() else None
        with pytest.raises(InputError, match="cannot write"):
            check_output(Path(place))
        assert before is None or stat.S_IFMT(Path(place).stat().st_mode) == before

    def test_a_folder_that_may_only_be_read(self, tmp_path: Path) -> None:
        if os.geteuid() == 0:
            target = Path("/sys/kernel/x.json")  # root may write everywhere else
        else:
            tmp_path.chmod(0o500)
            target = tmp_path / "x.json"
        with pytest.raises(InputError, match="cannot write"):
            check_output(target)

    def test_rights_are_those_of_the_umask(self, tmp_path: Path) -> None:
        before = os.umask(0o022)
        try:
            with staged(tmp_path / "v", of_ours) as aside:
                our_folder(aside)
                (aside / "mark").chmod(0o600)
                aside.chmod(0o700)
        finally:
            os.umask(before)
        assert [(tmp_path / "v" / name).stat().st_mode & 0o777 for name in (".", "mark")] == [0o755, 0o644]


class Killed(BaseException):
    """Stands for kill -9: nothing is cleaned up after it."""


def killed_at(step: int, parent: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Replace a folder and its manifest together, and die at the `step`th rename or copy; False when it got through."""
    import kokoro_ane.core.staging as staging

    left = [step]

    def dying(real):
        def call(*arguments: object) -> object:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return real(*arguments)

        return call

    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "touch"):
            patch.setattr(staging.Path, name, dying(getattr(Path, name)))
        patch.setattr(staging.shutil, "copy2", dying(staging.shutil.copy2))
        patch.setattr(staging, "_roll_back", lambda folder: [])
        patch.setattr(staging, "removed", lambda _: None)
        try:
            with staged_together((parent / "p", of_ours), (parent / "p.json", None)) as (package, manifest):
                our_folder(package, "new")
                manifest.write_text(json.dumps("new"))
        except Killed:
            return True
    return False


@pytest.mark.parametrize("before", [True, False])
def test_killed_at_every_rename_nothing_finished_is_lost_and_nothing_half_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool, capsys: pytest.CaptureFixture
) -> None:
    for step in range(20):
        parent = tmp_path / str(step)
        parent.mkdir()
        if before:
            our_folder(parent / "p")
            (parent / "p.json").write_text(json.dumps("old"))
        died = killed_at(step, parent, monkeypatch)
        recover(parent)
        assert not list(parent.glob(f"{PREFIX}*"))
        pair = [json.loads((parent / "p.json").read_text()), (parent / "p" / "data").read_text()] if (parent / "p.json").exists() else None
        assert pair in ([["old", "old"], ["new", "new"]] if before else [None, ["new", "new"]])
        if pair is None:
            assert not (parent / "p").exists()
        if not died:
            assert step > 4 and pair == ["new", "new"]
            break
    assert "an earlier run was killed" in capsys.readouterr().err


def test_a_living_owner_is_left_alone(tmp_path: Path) -> None:
    with staged(tmp_path / "a.json") as aside:
        aside.write_text("{}")
        write_json(tmp_path / "b.json", {})
    assert names(tmp_path) == ["a.json", "b.json"]
