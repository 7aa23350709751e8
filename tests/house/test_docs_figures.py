"""Every figure on a page stands in docs/figures.json with its source; tables and pictures show what
that file holds.

python -m pytest tests/house/test_docs_figures.py -q
"""

import importlib
import json
import re

import pytest
from PIL import Image

from tests.commands import ROOT

README = "README.md"


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("figures")


@pytest.fixture
def texts(figures):
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in figures.PAGES
    }


@pytest.fixture
def alter(figures, monkeypatch, tmp_path):
    """Replace a figure in a copy of the file, for the rest of the test."""

    def altered(figure, other):
        text = figures.FIGURES.read_text(encoding="utf-8")
        assert text.count(figure) == 1
        (tmp_path / "figures.json").write_text(text.replace(figure, other), encoding="utf-8")
        monkeypatch.setattr(figures, "FIGURES", tmp_path / "figures.json")

    return altered


def test_every_figure_of_a_page_has_a_source(figures, texts):
    lost = {name: figures.find_without_source(name, text) for name, text in texts.items()}
    assert not any(lost.values()), lost
    # control: a new figure, and one that somebody changed by hand
    for name, text in texts.items():
        assert figures.find_without_source(name, f"{text}\nAll of it: 77.7 MB.\n") == ["77.7"]
    forged = texts[README].replace("91.8 MB", "92.8 MB")
    assert figures.find_without_source(README, forged)[0] == "92.8"


def test_a_page_quotes_what_the_file_holds(figures, texts, alter):
    alter("91.8 MB", "92.8 MB")
    found, record = figures.find_without_source(README, texts[README])
    assert found == "91.8"
    assert record.startswith("not quoted: 92.8 MB")


def test_tables_are_written_from_the_file(figures, texts):
    marks = [mark for text in texts.values() for mark in figures.MARK.finditer(text)]
    tables = {one.table for one in figures.read_measurements()} - {None}
    assert tables == {mark[3] for mark in marks if mark[2] == "figures"}
    for name, text in texts.items():
        assert figures.with_tables(text) == text, f"{name}: run `python docs/figures.py`"
    for mark in marks:
        rows = mark[0].rsplit("---", 1)[1]
        # control: a row that somebody changed by hand
        assert figures.with_tables(mark[0].replace(rows, re.sub(r"\d", "0", rows))) == mark[0]


def test_a_record_names_its_commit_and_pages_that_are_there(figures, texts):
    for one in (*figures.read_measurements(), *figures.read_constants()):
        assert set(one.pages) <= set(texts), one
        assert one.table or one.pages, one
    for one in figures.read_measurements():
        assert re.fullmatch(r"[0-9a-f]{7,8}( and [0-9a-f]{7,8})?", one.commit), one


def test_pictures_show_what_the_file_holds(figures, alter):
    pictures = importlib.import_module("pictures")
    shown = {
        name: json.loads(Image.open(pictures.PICTURES / f"{name}.png").text["figures"])
        for name in pictures.DRAWINGS
    }
    for name, (values, _) in pictures.DRAWINGS.items():
        assert shown[name] == json.loads(json.dumps(values())), f"`docs/pictures.py {name}`"
    (walk,) = (one for one in figures.read_measurements() if "pictures.py" in (one.command or ""))
    assert figures.find_numbers(walk.figure) == list(shown["spectrograms"].values())
    alter('"41.5"', '"41.6"')
    assert shown["levels"]["p6"][0] == 41.5 != pictures.read_level_points()["p6"][0]
