"""Write the table of seams in docs/architecture.md from the conductor's steps.

    python -m pipeline.steps_doc            # rewrites the table between its two marks

tests/test_conductor_document.py holds the document against the code.
"""

import argparse
from pathlib import Path

from core.errors import InputError, run_cli
from core.staging import staged
from core.steps import EQUAL
from pipeline.steps import STEPS, Step

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
BEGIN, END = "<!-- seams: python -m pipeline.steps_doc -->", "<!-- end of seams -->"
HEAD = "| step | reads | writes | a port comes as near as | what |\n| --- | --- | --- | --- | --- |"


def render() -> str:
    """The table."""
    return "\n".join([HEAD, *(_row(step) for step in STEPS)])


def placed(document: str) -> str:
    """The document with the present table between its marks. InputError where a mark is missing."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"docs/architecture.md lacks the mark {END if begin else BEGIN!r}")
    return f"{before}{BEGIN}\n{render()}\n{END}{after}"


def _row(step: Step) -> str:
    near = " / ".join(dict.fromkeys("equal" if limit == EQUAL else f"{limit:.0f} dB" for limit in step.writes.values()))
    return f"| {step.name} | {', '.join(step.reads)} | {', '.join(step.writes)} | {near} | {step.says} |"


def run(argv: list[str] | None) -> int:
    """Rewrite the document."""
    argparse.ArgumentParser(prog="pipeline.steps_doc", description=__doc__.splitlines()[0]).parse_args(argv)
    with staged(DOCUMENT) as aside:
        aside.write_text(placed(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Exit code of the command."""
    return run_cli(run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
