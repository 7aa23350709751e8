"""Pages agree with the code: blocks of Python and Swift, the reference, the page that plays.

python -m pytest tests/house/test_docs_blocks.py -q

Swift blocks are parts of swift/Tests/PageExamples, which `swift/toolchain.sh test` compiles.
"""

import ast
import importlib
import json
import re
import runpy
import sys
from collections import Counter

import pytest

from kokoro_ane.core import COLUMNS_PER_FRAME, FRAMES_PER_SECOND, LONGEST_BUCKET, PADDED_BUCKETS
from kokoro_ane.core.hub import HUB_REPOSITORY
from kokoro_ane.core.kokoro_int8.cache import list_bundled_voices
from kokoro_ane.core.voice_list import LANGUAGE_TAGS, list_voice_names
from kokoro_ane.quantize import STAGE_METHODS
from kokoro_ane.vocoder import BUCKETS, MEASURED
from mlprogram.examine.rules import load_rules
from tests.commands import ROOT
from tests.house.test_docs_links import PAGES

TEXTS = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in (*PAGES, ROOT / "swift" / "README.md")
}
OURS = ("kokoro_ane", "mlprogram")
OLD_COMMAND = re.compile(r"`[\w.]+\.\w+(?: [^`]*)?` (?:of|at) (?:commit )?[0-9a-f]{7}\b")


def blocks(language):
    shown = rf"^```{language}\n(.*?)^```"
    return [block for text in TEXTS.values() for block in re.findall(shown, text, re.DOTALL | re.M)]


def bare(lines):
    return "\n".join(line.strip() for line in lines.strip().splitlines())


@pytest.mark.parametrize("block", blocks("python"))
def test_a_python_block_names_what_there_is(block):
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            [importlib.import_module(alias.name) for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module)
            assert all(hasattr(module, alias.name) for alias in node.names), block
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in OURS:
            assert hasattr(importlib.import_module(ast.unparse(node.value)), node.attr), block


@pytest.mark.parametrize("block", blocks("swift"))
def test_a_swift_block_is_compiled(block):
    assert bare(block) in bare(
        (ROOT / "swift/Tests/PageExamples/PageExamples.swift").read_text(encoding="utf-8")
    )


def test_the_reference_is_current():
    reference = runpy.run_path(str(ROOT / "docs" / "reference.py"))
    assert reference["build_page"]() == TEXTS["docs/reference.md"]


def test_the_page_that_plays_shows_the_kept_figures_and_stands_alone(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    listen = runpy.run_path(str(ROOT / "docs" / "listen.py"))
    text = listen["PAGE"].read_text(encoding="utf-8")
    (sounds,) = re.findall(r'<script type="application/json" id="sounds">(.*?)</script>', text)
    assert listen["render_page"](sounds) == text, "run `python docs/listen.py`"
    data = json.loads(sounds)
    assert len(data["clips"]) == len({clip["voice"][0] for clip in data["clips"]}) == 6
    for clip in data["clips"]:
        assert set(clip["sounds"]) == {"fp32 reference", *data["levels"]}
    without = text.replace(sounds, "")
    assert not re.search(r"(src|href)=(?!.data:)|https?:|url\(", without)


def test_pages_name_the_longest_sentence_of_each_layout():
    """In tenths of a second, cut off: a page may not promise a frame that no package has."""
    longest = [int(10 * n / FRAMES_PER_SECOND) / 10 for n in (LONGEST_BUCKET, PADDED_BUCKETS[-1])]
    (long_texts,) = re.findall(r"^- \*\*Long texts\*\* .*$", TEXTS["docs/speaking.md"], re.M)
    (ends,) = re.findall(
        r"Packages of the default layout end at .*$", TEXTS["docs/devices.md"], re.M
    )
    for sentence in (long_texts, ends):
        assert [float(seconds) for seconds in re.findall(r"([\d.]+) s\b", sentence)] == longest


def test_readme_counts_the_voices_of_each_language():
    head, *rows = re.findall(
        r"^\| (?:language|voices|with kokoro-int8).*$", TEXTS["README.md"], re.M
    )
    letters = re.findall(r": (\w) ", head)
    assert letters == sorted(LANGUAGE_TAGS)
    for row, voices in zip(
        rows, (list_voice_names(HUB_REPOSITORY), list_bundled_voices()), strict=True
    ):
        counts = Counter(name[0] for name in voices)
        shown = [int(count) for count in re.findall(r"(?<=\| )\d+", row)]
        assert shown == [*(counts[letter] for letter in letters), len(voices)]


def test_the_page_of_chips_says_which_whole_sentences_are_too_wide():
    (rule,) = (rule for rule in load_rules().rules if rule.id == "axis-16384")
    whole = [frames for frames in BUCKETS if frames <= MEASURED]
    widest = max(n for n in whole if COLUMNS_PER_FRAME * n + 1 <= rule.params["spatial"])
    first, last = (frames / FRAMES_PER_SECOND for frames in (widest, whole[-1]))
    assert f"functions up to {first:.1f} s, and from {last:.1f} to " in TEXTS["docs/devices.md"]


def test_the_page_for_apps_says_which_level_works_where():
    _, table = TEXTS["docs/ios.md"].split("## Which level works where")
    rows = re.findall(r"^\| (vocoder|encoder)([^|]*)\|([^|]*)\|([^|]*)\|$", table, re.M)
    assert len(rows) == 3
    for stage, layout, both, ios_18 in rows:
        for text, older in ((both, True), (ios_18, False)):
            for level in re.findall(r"`(\w+)`", text):
                runs = STAGE_METHODS[stage][level].target is None and "default" not in layout
                assert runs == older, (stage, layout, level)


def test_commands_of_other_commits_stand_under_measured_once():
    texts = TEXTS | {"docs/evidence.md": TEXTS["docs/evidence.md"].split("# Measured once")[0]}
    for name in ("docs/LOG.md", "CHANGELOG.md"):
        del texts[name]
    assert not [line for text in texts.values() for line in OLD_COMMAND.findall(text)]
