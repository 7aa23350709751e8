"""Pictures of a page by a real browser, where there is one; without one the command says how to get it."""

import json
import shutil
from pathlib import Path

import pytest

from bench import screenshots
from bench.screenshots import BROWSERS, main

HEAD = (
    '<!doctype html><meta name="viewport" content="width=device-width">'
    "<style>@media (prefers-color-scheme: dark) { body { background: #000 } }</style>"
)
needs_browser = pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium here: apt-get install chromium")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    path.write_text(f"{HEAD}<p>hello</p>", encoding="utf-8")
    return path


def test_without_a_browser(page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(screenshots.shutil, "which", lambda _: None)
    assert main([str(page), "--out", str(page.parent / "out")]) == 2
    assert "apt-get install chromium" in capsys.readouterr().err


@pytest.mark.parametrize(("more", "said"), [(["--widths", "wide"], "give whole numbers with commas"), ([], "does not exist")])
def test_bad_input(tmp_path: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.html"), *more]) == 2
    assert said in capsys.readouterr().err


@needs_browser
def test_two_widths_light_and_dark(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(page), "--out", str(page.parent / "out"), "--widths", "640,400"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (len(told["pictures"]), told["wider_px"], told["errors"]) == (4, {}, [])
    pictures = [Path(path).read_bytes() for path in told["pictures"]]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures) and len(set(pictures)) == 4
    assert [int.from_bytes(picture[16:20]) for picture in pictures] == [640, 640, 400, 400]


@needs_browser
@pytest.mark.parametrize(
    ("body", "kind"), [('<div style="width:900px">wide</div>', "wider_px"), ("<script>nothing.there()</script>", "errors")]
)
def test_overflow_and_script_errors_are_rejected(page: Path, body: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    page.write_text(HEAD + body, encoding="utf-8")
    assert main([str(page), "--out", str(page.parent / "out"), "--widths", "400"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])[kind]
