"""The operations mlprogram executes, from the code: their names in mlprogram/OPERATIONS.md. What
each computes is its docstring.

    python -m mlprogram.ops_doc

mlprogram/tests/test_programs.py holds the file against the code and refuses an operation that no
test covers.
"""

from __future__ import annotations

from pathlib import Path

from mlprogram.constants import CONSTEXPR
from mlprogram.files import open_aside
from mlprogram.numerics import ANE_KERNELS
from mlprogram.ops import CONTROL, FAMILIES, Kernel

DOCUMENT = Path(__file__).resolve().parents[2] / "OPERATIONS.md"
_HEAD = """# Operations that mlprogram executes

Written by `python -m mlprogram.ops_doc`; do not edit.
Each has a test that runs it from a package on disk.

*Native* operations take fp16 tensors as they are (they move values, or are one operation that
IEEE 754 rounds). *Tabulated* ones are looked up among 65,536 results of float64, rounded once,
where one fp16 tensor is all that varies. *Widened* ones, and tabulated ones of two tensors, get
fp32 copies, and their result is rounded to the declared type. \\* : numerics.py replaces it under
`precision="ane_numerics"`.
"""


def render() -> str:
    """The document: names by family."""
    count = sum(map(len, FAMILIES.values())) + len(CONSTEXPR) + len(CONTROL)
    parts = [_HEAD, f"{count} operations.\n"]
    for family, kernels in FAMILIES.items():
        names: dict[str, list[str]] = {"Native": [], "Tabulated": [], "Widened": []}
        for name, kernel in sorted(kernels.items()):
            names[_name_treatment(kernel)].append(_mark(name))
        lines = [f"{kind}: {', '.join(row)}." for kind, row in names.items() if row]
        parts.append(_render_section(family, "\n\n".join(lines)))
    parts.append(
        _render_section(
            "constexpr, evaluated once when a program is loaded", f"{', '.join(sorted(CONSTEXPR))}."
        )
    )
    parts.append(_render_section("control flow and states", f"{', '.join(CONTROL)}."))
    return "\n".join(parts)


def _name_treatment(kernel: Kernel) -> str:
    """What becomes of an fp16 tensor."""
    if kernel.half:
        return "Native"
    return "Tabulated" if kernel.pointwise else "Widened"


def _mark(name: str) -> str:
    # The backslash keeps Markdown from reading the star as emphasis.
    return f"{name}\\*" if name in ANE_KERNELS else name


def _render_section(title: str, body: str) -> str:
    return f"## {title[0].upper() + title[1:]}\n\n{body}\n"


def main() -> int:
    """Write the document."""
    # A failure in between leaves the old document.
    with open_aside(DOCUMENT) as path:
        path.write_text(render(), encoding="utf-8")
    print(DOCUMENT.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
