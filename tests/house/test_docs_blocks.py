"""Pages agree with the code: blocks of Python and Swift, tables of pictures, the reference, sizes.

python -m pytest tests/house/test_docs_blocks.py -q

Swift blocks are parts of swift/Tests/PageExamples, which `swift/toolchain.sh test` compiles.
"""

import ast
import importlib
import re
import runpy

import pytest

from kokoro_ane.pipeline.text_tables import TEXT_BYTES
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


def test_tables_of_pictures_and_reference_are_current():
    pictures, reference = (
        runpy.run_path(str(ROOT / "docs" / name)) for name in ("pictures.py", "reference.py")
    )
    assert len(pictures["level_rows"]()) == 9
    assert reference["page"]() == TEXTS["docs/reference.md"]


def test_a_whole_product_is_the_sum_of_its_parts():
    encoder = re.search(r"\| \*\*`mixed`\*\* \| ([\d.]+) ", TEXTS["docs/evidence.md"])
    rows = re.findall(r"^\| `\w+` \|[^|]*\| ([\d.]+) \| ([\d.]+) ", TEXTS["README.md"], re.M)
    assert len(rows) == 4
    for vocoder, whole in rows:
        parts = float(vocoder) + float(encoder[1]) + TEXT_BYTES["us"] / 1e6 + 0.03
        assert float(whole) == pytest.approx(parts, abs=0.11)


def test_commands_of_other_commits_stand_under_measured_once():
    texts = TEXTS | {"docs/evidence.md": TEXTS["docs/evidence.md"].split("# Measured once")[0]}
    for name in ("LOG.md", "CHANGELOG.md"):
        del texts[name]
    assert not [line for text in texts.values() for line in OLD_COMMAND.findall(text)]
