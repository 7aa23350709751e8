"""Tables as the documents hold them.

print_markdown(("chip", "ms"), [("M1", "12")])
"""


def print_markdown(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """A Markdown table, as the documents hold it."""
    print(f"| {' | '.join(headings)} |\n| {' | '.join('---' for _ in headings)} |")
    for row in rows:
        print(f"| {' | '.join(row)} |")
