"""Every relative link of a page resolves, every file that a page or docstring names exists, and
each decision stands where the table says.

python -m pytest tests/house/test_docs_links.py -q
"""

import re

import pytest

from kokoro_ane.cli import COMMANDS
from tests.commands import ROOT
from tests.house.test_house import docstrings

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("mlprogram/*.md")])
SOURCES = sorted(
    path
    for room in (
        *ROOT.iterdir(),
        ROOT / "mlprogram" / "src" / "mlprogram",
        ROOT / "g2p" / "src" / "kokoro_g2p",
    )
    if (room / "__init__.py").exists()
    for path in room.rglob("*.py")
)
HISTORY = ("LOG.md", "CHANGELOG.md")  # may name what is gone
ROOMS = "core|g2p|encoder|vocoder|quantize|runtimes|pipeline|mlprogram|eval|training|bench|tests"
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
CODE = re.compile(r"`[^`\n]*`")  # `[word](/fənˈimz/)` is a pronunciation, no link
FILE = re.compile(
    rf"(?<![\w./-])(?:docs/[\w-]+\.md|(?:{ROOMS})/[\w/]+\.(?:py|json|txt(?:\.gz)?))\b"
)
MODULE = re.compile(
    r"python -m ((?:kokoro_ane|kokoro_g2p|mlprogram|training|bench|tests)(?:\.\w+)*)"
)
# packages that stand elsewhere than their name says; pages shorten `g2p/src/kokoro_g2p/` to `g2p/`
HOMES = {"mlprogram": ROOT / "mlprogram" / "src", "kokoro_g2p": ROOT / "g2p" / "src"}
DOTTED = re.compile(rf"(?<![\w./'])(?:kokoro_ane\.)?(?:{ROOMS})(?:\.[A-Za-z_]\w*)+(?![\w(/])")
VERB, TARGET = re.compile(r"`?kokoro-ane ([a-z][a-z0-9-]*)"), re.compile(r"`make ([a-z][a-z0-9-]*)")
PLACEHOLDER = re.compile(r"/[A-Z]+\.")  # core/data/NAME.txt
# what a page must not use before it has linked the glossary
GLOSSED = "AdaIN|Snake|LSD|clean commit|judged set|tuning set|tail|recipe|host|ships?|product"
GLOSSED_PAGES = {f"docs/{path.name}" for path in ROOT.glob("docs/*.md")} - {
    "docs/architecture.md",  # has the glossary
    "docs/reference.md",
    "docs/LOG.md",
}
TO_GLOSSARY = re.compile(r"\[[^\]]*\]\([^)]*#glossary\)")
NO_PROSE = re.compile(r"^```.*?^```|`[^`\n]*`|^#.*?$", re.DOTALL | re.MULTILINE)
BARE = re.compile(r"(?<![\w./*-])\w+\.py\b")


# GitHub's anchors of the headings: lower case, hyphens for spaces, other marks removed
def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def home(module):
    return HOMES.get(module.split(".")[0], ROOT)


def located(name):
    """Where a cited file is: `g2p/text.py`, and `training/loop.py` in the reader, stand in
    g2p/src/kokoro_g2p.
    """
    short = ROOT / "g2p" / "src" / "kokoro_g2p" / name.removeprefix("g2p/")
    return short if short.exists() else ROOT / name


def is_there(name):
    return located(name).exists()


def exists(module):
    path = home(module).joinpath(*module.removeprefix("kokoro_ane.").split("."))
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_resolve(page):
    for target, anchor in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in HISTORY], ids=lambda path: path.name
)
def test_cited_files_and_commands_exist(page):
    text = page.read_text(encoding="utf-8")
    missing = [name for name in FILE.findall(text) if not is_there(name)]
    assert not missing + [name for name in MODULE.findall(text) if not exists(name)]


@pytest.mark.parametrize("name", ["README.md", *sorted(GLOSSED_PAGES)])
def test_the_first_use_of_a_word_links_the_glossary(name):
    text = NO_PROSE.sub("", (ROOT / name).read_text(encoding="utf-8"))
    links = [range(*link.span()) for link in TO_GLOSSARY.finditer(text)]
    for word in GLOSSED.split("|"):
        first = re.search(rf"\b{word}\b", text)
        assert not first or any(first.start() in link for link in links), word


# Whether the longest module that begins `name` exists and contains the next part of the name.
def defines(name):
    parts = name.removeprefix("kokoro_ane.").split(".")
    for count in range(len(parts), 0, -1):
        path = home(parts[0]).joinpath(*parts[:count])
        module = path.with_suffix(".py") if count > 1 else path / "__init__.py"
        module = module if module.exists() else path / "__init__.py"
        if module.exists():
            words = re.findall(r"\w+", module.read_text(encoding="utf-8"))
            return set(parts[count : count + 1]) <= set(words)
    return False


@pytest.mark.parametrize("room", sorted({source.relative_to(ROOT).parts[0] for source in SOURCES}))
def test_what_docstrings_name_exists(room):
    """Files, modules, commands and make targets exist; pages also where a comment or a message
    names them. Indented lines are examples, whose variables
    may have the name of a room.
    """
    targets = set(re.findall(r"[\w-]+", (ROOT / "Makefile").read_text(encoding="utf-8")))
    names = {source.name for source in SOURCES}
    missing = []
    for source in SOURCES:
        if source.relative_to(ROOT).parts[0] != room:
            continue
        pages = re.findall(r"docs/[\w-]+\.md", source.read_text(encoding="utf-8"))
        missing += [f"{source}: {name}" for name in pages if not (ROOT / name).exists()]
        for text in docstrings(source).values():
            prose = re.sub(r"^ +.*$", "", text, flags=re.MULTILINE)
            files = [name for name in FILE.findall(text) if not PLACEHOLDER.search(name)]
            wrong = [name for name in files if not is_there(name)]
            wrong += [name for name in MODULE.findall(text) if not exists(name)]
            wrong += [name for name in DOTTED.findall(prose) if not defines(name)]
            wrong += [verb for verb in VERB.findall(text) if verb not in COMMANDS]
            wrong += [target for target in TARGET.findall(text) if target not in targets]
            # mlprogram/ops cites coremltools' files
            if room != "mlprogram":
                wrong += [name for name in BARE.findall(text) if name not in names]
            missing += [f"{source.relative_to(ROOT)}: {name}" for name in wrong]
    assert not missing


def test_decisions_stand_where_the_table_says():
    table = (
        (ROOT / "docs" / "architecture.md")
        .read_text(encoding="utf-8")
        .split("## Where what is decided")[1]
        .split("\n## ")[0]
    )
    rows = [
        line.strip("| ").split(" | ")[-1]
        for line in table.splitlines()
        if line.startswith("| ") and "`" in line
    ]
    assert len(rows) >= 10
    for row in rows:
        for part in row.split("; "):
            *files, name = re.findall(r"`([^`]+)`", part)
            assert files, row
            for file in files:
                assert name in located(file).read_text(encoding="utf-8"), (
                    f"{file} does not hold {name}"
                )
