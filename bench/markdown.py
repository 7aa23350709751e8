"""Tables as the documents hold them.

print_markdown(("chip", "ms"), [("M1", "12")])
"""


def markdown(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, ("---",) * len(headings), *rows))


def print_markdown(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """The same, printed."""
    print(markdown(headings, rows))
