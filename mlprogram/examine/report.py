"""Small things every report of this folder shares: the console, number formats, and the last line.

table = new_table("weights", "kind", "MB"); table.add_row("fp16", mega(106_000_000)); show(table); last_line({"weights": 1})
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

_WIDTH = 160  # columns where the output is not a terminal


def new_table(title: str, *headings: str, text: int = 1) -> Table:
    """A table with a left-hand title; the first `text` columns are flush left, the others flush right."""
    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < text else "right", overflow="fold")
    return table


def show(*things: Any) -> None:
    """Print tables and lines on stdout."""
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH)
    for thing in things:
        console.print(thing, markup=False, highlight=False)


def last_line(content: dict[str, Any]) -> None:
    """The one JSON object that ends stdout."""
    print(json.dumps(content))


def mega(amount: float) -> str:
    """In millions, three digits or so."""
    value = amount / 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share with one decimal, never rounded up to 100."""
    value = int(share * 1000) / 10
    return f"{value:.1f}"


def span(low: float, high: float) -> str:
    """Two numbers as low to high with two or three digits."""
    return f"{_short(low)} to {_short(high)}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def shape_text(shape: tuple[int, ...]) -> str:
    """1x3157x1x81."""
    return "x".join(str(n) for n in shape) or "scalar"
