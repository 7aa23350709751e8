"""The operations mlprogram executes, from the code: their names in mlprogram/OPERATIONS.md, what
each computes on standard output.

    python -m mlprogram.ops_doc            # writes mlprogram/OPERATIONS.md
    python -m mlprogram.ops_doc --print    # prints every operation with its result

mlprogram/tests/test_programs.py holds the file against the code and refuses an operation that no
test covers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from mlprogram.constants import CONSTEXPR
from mlprogram.files import aside
from mlprogram.numerics import ANE_KERNELS
from mlprogram.ops import CONTROL, FAMILIES

DOCUMENT = Path(__file__).resolve().parents[2] / "OPERATIONS.md"
_HEAD = """# Operations that mlprogram executes

Written by `python -m mlprogram.ops_doc`; do not edit. `--print` says what each computes.
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


def render_in_full() -> str:
    """Every operation with its result, for the terminal."""
    parts = []
    for family, kernels in FAMILIES.items():
        rows = [
            f"| {name} | {'native' if k.half else 'widened'} |"
            f" {'model' if name in ANE_KERNELS else ''} | {_first_line(k.run)} |"
            for name, k in sorted(kernels.items())
        ]
        parts.append(
            _section(
                family,
                "\n".join(
                    [
                        "| operation | fp16 | ane_numerics | result |",
                        "| --- | --- | --- | --- |",
                        *rows,
                    ]
                ),
            )
        )
    results = {name: _first_line(function) for name, function in sorted(CONSTEXPR.items())} | dict(
        CONTROL
    )
    parts.append(
        _section(
            "constexpr, control flow and states",
            "\n".join(f"{name}: {text}" for name, text in results.items()),
        )
    )
    return "\n".join(parts)


def _marked(name: str) -> str:
    return f"{name}\\*" if name in ANE_KERNELS else name


def _section(title: str, body: str) -> str:
    return f"## {title[0].upper() + title[1:]}\n\n{body}\n"


def _first_line(function: Callable) -> str:
    return (function.__doc__ or "").strip().splitlines()[0].replace("|", "\\|")


def main(argv: list[str] | None = None) -> int:
    """Write or print the document."""
    parser = argparse.ArgumentParser("mlprogram.ops_doc", description="Write OPERATIONS.md.")
    parser.add_argument(
        "--print",
        action="store_true",
        help="print every operation with its result instead of writing",
    )
    if parser.parse_args(argv).print:
        print(render_in_full())
    else:
        with aside(DOCUMENT) as path:
            path.write_text(render(), encoding="utf-8")
        print(DOCUMENT.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
