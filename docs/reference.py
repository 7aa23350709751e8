"""Write docs/reference.md: contents, public calls, fields of a bundle's manifest.json, gates, the
flags that verbs share, help of verbs.

    python docs/reference.py            # write the page
    python docs/reference.py --check    # exit 1 where the page is not what the code says

All of it is read off docstrings, annotations and parsers. A pipe's last line is one JSON object.
"""

import ast
import contextlib
import importlib
import inspect
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_type_hints

import kokoro_ane
from kokoro_ane.cli import COMMANDS
from kokoro_ane.cli import main as kokoro_ane_command
from kokoro_ane.core import EXIT_GOOD, EXIT_REJECTED, Parser, command, conclude

PAGE = Path(__file__).resolve().parent / "reference.md"
WIDTH = "100"
# an option of a help page with its lines, and a heading above options of which none is left
OPTION = re.compile(r"^  -.*\n(?: {4,}.*\n)*", re.MULTILINE)
EMPTY_SECTION = re.compile(r"^[a-z ]+:\n(?=\n|\Z)\n?", re.MULTILINE)
SHARED = 3  # verbs
HEAD = """# Reference

Made by `python docs/reference.py` from docstrings, annotations and parsers; a test holds this page
to the code. It is not counted as written words.
"""


def list_public_calls() -> Iterator[str]:
    """Yield each public name of kokoro_ane with its signature and docstring."""
    yield "## Public calls\n"
    for name in sorted(kokoro_ane.__all__, key=str.lower):
        home = next(home for home, names in kokoro_ane._HOMES.items() if name in names)
        # from its module: the room quantize has the name of a call
        value = getattr(importlib.import_module(home), name)
        signature = ""
        if inspect.isfunction(value):
            # Annotations that are strings lose their quotes.
            signature = f"{name}{inspect.signature(value)}\n\n".replace("'", "")
        yield f"### {name}\n"
        yield f"```text\n{signature}{inspect.getdoc(value)}\n```\n"


def list_fields(kind: type) -> list[tuple[str, str, str]]:
    """Return name, type and meaning of each field that `kind` adds to its bases; the docstring
    holds the meaning as `name: words.`
    """
    # one line, from the paragraph that names the fields on
    text = " ".join((inspect.getdoc(kind) or "").split("\n\n", 1)[1].split())
    # [words before, name, words, name, words, ...]
    parts = re.split(r"(?:^|(?<=\. ))(\w+): ", text)
    meanings = dict(zip(parts[1::2], parts[2::2], strict=True))
    # What the class itself declares, in its order; hints include those of its bases.
    body = ast.parse(inspect.getsource(kind)).body[0].body  # type: ignore[attr-defined]
    hints = get_type_hints(kind)
    rows = []
    for name in (line.target.id for line in body if isinstance(line, ast.AnnAssign)):
        hint = hints[name]
        # A class by its name, any other annotation without its modules.
        shown = hint.__name__ if inspect.isclass(hint) and not str(hint).count("[") else str(hint)
        shown = re.sub(r"[\w.]+\.(?=\w)", "", shown).replace(" | ", " or ")
        rows.append((name, shown, meanings[name].strip().rstrip(".")))
    return rows


def list_manifest_fields() -> Iterator[str]:
    """Yield the fields of a bundle's manifest.json."""
    from kokoro_ane.pipeline import assembly

    yield "## manifest.json of a bundle\n"
    for title, kind in (
        ("The whole", assembly.Together),
        ("CheckpointNamed", assembly.CheckpointNamed),
        ("File", assembly.File),
        ("PackageFile, with the fields of File", assembly.PackageFile),
        ("Voices", assembly.Voices),
    ):
        about = " ".join((inspect.getdoc(kind) or "").split("\n\n", 1)[0].split())
        yield f"**{title}.** {about}\n"
        yield "| field | type | meaning |\n| --- | --- | --- |"
        yield from (f"| `{name}` | {hint} | {says} |" for name, hint, says in list_fields(kind))
        yield ""


def list_gates() -> Iterator[str]:
    """Yield every limit of the vocoder's levels, with its reason."""
    from kokoro_ane.eval import COMMON, FP16_ONLY

    yield "## Gates\n"
    yield "| gate | limit | reason |\n| --- | --- | --- |"
    for gate in (*COMMON, *FP16_ONLY):
        limit = gate.describe_rule(gate.limit)
        if gate.multiple is not None:
            limit += f", <= {gate.multiple:g} seed variation"
        only = " (fp16)" if gate in FP16_ONLY else ""
        yield f"| `{gate.name}`{only} | {limit} | {gate.reason} |"
    yield ""


def read_help_pages() -> dict[str, str]:
    """Return `--help` of every verb, as a terminal of 100 columns shows it."""
    before = os.environ.get("COLUMNS")
    pages = {}
    # The parser wraps at COLUMNS, so that no terminal has a part in the page.
    os.environ["COLUMNS"] = WIDTH
    try:
        for verb in COMMANDS:
            flag = "--help" if verb == "g2p" else "--help-all"  # the reader has a parser of its own
            out = io.StringIO()
            # --help ends a command.
            with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
                kokoro_ane_command([verb, flag])
            pages[verb] = out.getvalue()
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return pages


def parse_option(lines: str) -> tuple[str, str]:
    """Return the flag and the meaning of an option's lines, whatever columns they stand in."""
    # Two spaces or a new line stand between a flag and its meaning.
    flag, meaning = re.split(r" {2,}|\n +", lines.strip(), maxsplit=1)
    return flag, " ".join(meaning.split())


def list_helps() -> Iterator[str]:
    """Yield the options that SHARED verbs or more have with the same meaning, then the help of
    every verb without them.
    """
    pages = read_help_pages()
    # A flag counts together with its meaning, whatever columns they stand in.
    counts = Counter(
        parse_option(lines) for page in pages.values() for lines in OPTION.findall(page)
    )
    shared = [option for option, count in counts.most_common() if count >= SHARED]
    yield "## Shared flags\n"
    yield "They mean the same in every verb whose usage shows them, and its list leaves them out.\n"
    yield "| flag | meaning |\n| --- | --- |"
    yield from (f"| `{flag}` | {meaning} |" for flag, meaning in shared)
    yield ""
    yield "## Every verb\n"
    for verb, text in pages.items():
        # What is in the table above is left out here.
        left = OPTION.sub(lambda found: "" if parse_option(found[0]) in shared else found[0], text)
        # A heading without options goes, too.
        left = EMPTY_SECTION.sub("", left)
        yield f"### kokoro-ane {verb}\n\n```text\n{left.rstrip()}\n```\n"


def list_contents(body: str) -> str:
    """Return links to the headings of a page, those below a heading in its line."""
    lines: list[str] = []
    for level, heading in re.findall(r"^(##+) (.*)$", body, re.MULTILINE):
        # as GitHub makes anchors
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        name = heading.removeprefix("kokoro-ane ")
        if level == "##":
            lines.append(f"- [{name}](#{anchor})")
        else:
            # A colon stands before the first heading below, a comma before the others.
            lines[-1] += f"{',' if ':' in lines[-1] else ':'} [{name}](#{anchor})"
    return "\n".join(lines) + "\n"


def build_page() -> str:
    """Return the page."""
    body = (
        "\n".join(
            [*list_public_calls(), *list_manifest_fields(), *list_gates(), *list_helps()]
        ).rstrip()
        + "\n"
    )
    return "\n".join([HEAD, list_contents(body), body])


@command
def main(argv: Sequence[str] | None = None) -> int:
    """The command itself."""
    parser = Parser("docs/reference.py", __doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    arguments = parser.parse_args(argv)
    text = build_page()
    current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
    if arguments.check and not current:
        meaning = "docs/reference.md is not what the code says: run `python docs/reference.py`"
        return conclude(arguments, {"current": False}, EXIT_REJECTED, meaning)
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
    return conclude(arguments, {"current": True}, EXIT_GOOD, "docs/reference.md is current")


if __name__ == "__main__":
    raise SystemExit(main())
