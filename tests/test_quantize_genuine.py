"""Packages under another's name, and host weights of no checkpoint, as a user would meet them: by the commands that judge."""

import itertools
import json
import shutil
from pathlib import Path

import pytest

from kokoro_ane.core.checkpoint import Checkpoint
from kokoro_ane.core.errors import InputError
from kokoro_ane.core.manifest import Manifest
from kokoro_ane.eval.quality import main as quality
from kokoro_ane.quantize.compress import build_compressed
from kokoro_ane.quantize.genuine import require_genuine
from kokoro_ane.quantize.locator import manifest_path
from kokoro_ane.quantize.methods import METHODS
from tests.release_build import release


def renamed(build: Path, checkpoint: Checkpoint, method: str, name: str, link: bool = False) -> Manifest:
    """One method's package under another's name: a copy or a link, and an edited manifest."""
    old, new = (manifest_path(build, checkpoint, METHODS[level]) for level in (method, name))
    if name != method:
        place = new.with_suffix(".mlpackage")
        if place.exists():
            shutil.rmtree(place)
        (place.symlink_to if link else lambda given: shutil.copytree(given, place))(old.with_suffix(".mlpackage"))
        data = json.loads(old.read_text(encoding="utf-8")) | {"method": name, "package": place.name}
        new.write_text(json.dumps(data), encoding="utf-8")
    return Manifest.load(new)


class TestWhatItsNameSays:
    """A package's stored kinds are its method's, its host weights the checkpoint's: else one line, exit 2, before anything is measured."""

    def refusals(self, place: tuple[Checkpoint, Path], method: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
        """The one line of the quality and the release command."""
        given = ["--checkpoint", str(place[0].folder), "--build", str(place[1]), "--workers", "1"]
        assert quality([*given, "--method", method]) == 2
        assert release(place, "--methods", method) == 2
        return [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]

    @pytest.mark.parametrize(("name", "link"), [("w8a8", False), ("p6", True)])
    def test_fp16_under_another_name(
        self, placed: tuple[Checkpoint, Path], measured: list[str], name: str, link: bool, capsys: pytest.CaptureFixture[str]
    ) -> None:
        renamed(placed[1], placed[0], "fp16", name, link)
        one, two = self.refusals(placed, name, capsys)
        assert one == two and f"stores fp16, fp32 with float inputs, which is not {name}" in one and not measured

    def test_zeroed_source_weights(self, placed: tuple[Checkpoint, Path], measured: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        path = placed[1] / "KokoroVocoder-tiny-fp16.json"
        data = json.loads(path.read_text(encoding="utf-8"))
        data["source"]["weights"] = [0.0] * 9
        path.write_text(json.dumps(data), encoding="utf-8")
        one, two = self.refusals(placed, "fp16", capsys)
        assert one == two and "`source` is not that of" in one and not measured

    def test_every_method_under_every_name(self, copied: tuple[Checkpoint, Path], tmp_path: Path) -> None:
        checkpoint, build = copied
        for method in ("p4", "w4"):
            build_compressed(METHODS[method], checkpoint, build)
        levels = ("fp16", "w8", "w8a8", "p4", "w4", "mixed")
        for method, name in itertools.product(levels, (*levels, "p6")):
            folder = Path(shutil.copytree(build, tmp_path / method / name))
            manifest = renamed(folder, checkpoint, method, name)
            if method == name or (method, name) in (("w8", "mixed"), ("w8a8", "mixed"), ("p4", "mixed")):  # a recipe may say so
                require_genuine(manifest, name, checkpoint)
            else:
                with pytest.raises(InputError, match=f"which is not {name}: renamed"):
                    require_genuine(manifest, name, checkpoint)
