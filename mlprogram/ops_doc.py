"""Write docs/mlprogram_ops.md, the list of operations mlprogram executes, from the code.

    python -m mlprogram.ops_doc            # writes docs/mlprogram_ops.md
    python -m mlprogram.ops_doc --print    # to standard output

tests/test_mlprogram_docs.py holds the file against the code and refuses an operation that no test covers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from mlprogram.ane_numerics import ANE_KERNELS
from mlprogram.constexpr import CONSTEXPR
from mlprogram.ops import CONTROL, FAMILIES

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "mlprogram_ops.md"
_HEAD = """# Operations that mlprogram executes

Written by `python -m mlprogram.ops_doc`; do not edit. Every operation here has a test that runs it from a package on disk.

fp16: *native* operations take fp16 tensors as they are (they only move values, or PyTorch computes in fp32 and rounds once); *widened* ones
get fp32 copies and their result is rounded to the declared type. ane_numerics: *model* marks the operations that
mlprogram/ane_numerics.py replaces
under `precision="ane_numerics"`.
"""


def render() -> str:
    """The document."""
    count = sum(map(len, FAMILIES.values())) + len(CONSTEXPR) + len(CONTROL)
    parts = [_HEAD, f"{count} operations.\n"]
    for family, kernels in FAMILIES.items():
        rows = [
            f"| {name} | {'native' if k.half else 'widened'} | {'model' if name in ANE_KERNELS else ''} | {_first_line(k.run)} |"
            for name, k in sorted(kernels.items())
        ]
        parts.append(_table(family, "| operation | fp16 | ane_numerics | result |\n| --- | --- | --- | --- |", rows))
    rows = [f"| {name} | {_first_line(function)} |" for name, function in sorted(CONSTEXPR.items())]
    head = "| operation | result |\n| --- | --- |"
    parts.append(_table("constexpr, evaluated once when a program is loaded", head, rows))
    parts.append(_table("control flow and states", head, [f"| {name} | {text} |" for name, text in CONTROL.items()]))
    return "\n".join(parts)


def _table(title: str, head: str, rows: list[str]) -> str:
    return f"## {title[0].upper() + title[1:]}\n\n{head}\n" + "\n".join(rows) + "\n"


def _first_line(function: Callable) -> str:
    return (function.__doc__ or "").strip().splitlines()[0].replace("|", "\\|")


def main(argv: list[str] | None = None) -> int:
    """Write or print the document."""
    parser = argparse.ArgumentParser(prog="mlprogram.ops_doc", description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print instead of writing")
    if parser.parse_args(argv).print:
        print(render())
    else:
        DOCUMENT.write_text(render(), encoding="utf-8")
        print(DOCUMENT.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
