"""The operations mlprogram executes, from the code: their names in mlprogram/OPERATIONS.md. What
each computes is its docstring.

    python -m mlprogram.ops_doc

mlprogram/tests/test_programs.py holds the file against the code and refuses an operation that no
test covers.
"""

from __future__ import annotations

from pathlib import Path

from mlprogram.constants import CONSTEXPR
from mlprogram.files import aside
from mlprogram.numerics import ANE_KERNELS
from mlprogram.ops import CONTROL, FAMILIES

DOCUMENT = Path(__file__).resolve().parents[2] / "OPERATIONS.md"
_HEAD = """# Operations that mlprogram executes

Written by `python -m mlprogram.ops_doc`; do not edit.
Each has a test that runs it from a package on disk.

*Native* operations take fp16 tensors as they are (they only move values, or PyTorch computes in
fp32 and rounds once). *Widened* ones get fp32 copies, and their result is rounded to the declared
type. \\* : numerics.py replaces it under `precision="ane_numerics"`.
"""


def render() -> str:
    """The document: names by family."""
    count = sum(map(len, FAMILIES.values())) + len(CONSTEXPR) + len(CONTROL)
    parts = [_HEAD, f"{count} operations.\n"]
    for family, kernels in FAMILIES.items():
        native = [_marked(name) for name, kernel in sorted(kernels.items()) if kernel.half]
        widened = [_marked(name) for name, kernel in sorted(kernels.items()) if not kernel.half]
        lines = [
            f"{kind}: {', '.join(names)}."
            for kind, names in (("Native", native), ("Widened", widened))
            if names
        ]
        parts.append(_section(family, "\n\n".join(lines)))
    parts.append(
        _section(
            "constexpr, evaluated once when a program is loaded", f"{', '.join(sorted(CONSTEXPR))}."
        )
    )
    parts.append(_section("control flow and states", f"{', '.join(CONTROL)}."))
    return "\n".join(parts)


def _marked(name: str) -> str:
    return f"{name}\\*" if name in ANE_KERNELS else name


def _section(title: str, body: str) -> str:
    return f"## {title[0].upper() + title[1:]}\n\n{body}\n"


def main() -> int:
    """Write the document."""
    with aside(DOCUMENT) as path:
        path.write_text(render(), encoding="utf-8")
    print(DOCUMENT.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
