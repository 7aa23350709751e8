"""Pairs of rows that match the same text at a place of a corpus and read it differently.

    report = find_conflicts(grammar_of("us"), ["Flight 112 leaves at 5:30pm."])
    report.equal       # decided by nothing but their order in the table: there should be none
    report.weighed     # decided by weight alone

Longer matches win without a weight, so they are no conflict.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kokoro_g2p.characters import clean
from kokoro_g2p.grammar.interpreter import Grammar
from kokoro_g2p.grammar.table import GrammarRow, Known, SlotContext

Pair = tuple[str, str]  # sources of the winner and of the other row


@dataclass
class Conflicts:
    """Each pair with the first text that shows it: what both match, and what either says."""

    equal: dict[Pair, str] = field(default_factory=dict)
    weighed: dict[Pair, str] = field(default_factory=dict)


def find_conflicts(grammar: Grammar, texts: Iterable[str], known: Known | None = None) -> Conflicts:
    """The pairs that `texts` show. `known`: whether a lexicon lists a string."""
    report = Conflicts()
    context = grammar.make_context(known)
    for text in texts:
        cleaned = clean(text).text
        last = None
        for piece in grammar.walk(cleaned, context):
            # The rows are asked for again as the walk asked, behind the same token.
            matches = grammar.find_matches(cleaned, piece.start, last)
            compare(report, grammar, context, matches, cleaned, piece.start)
            last = piece
    return report


def compare(
    report: Conflicts,
    grammar: Grammar,
    context: SlotContext,
    matches: list[tuple[int, GrammarRow]],
    text: str,
    place: int,
) -> None:
    """Add to the report the rows that match as much as the best one and read it differently."""
    # The first of them won; the others match as much of the text.
    rivals = [row for end, row in matches if end == matches[0][0]]
    for row in rivals[1:]:
        words, others = (grammar.read(one, text, place, context) for one in (rivals[0], row))
        if words != others:
            pairs = report.equal if row.weight == rivals[0].weight else report.weighed
            written = text[place : matches[0][0]]
            example = f"{written!r} is {words!r}, not {others!r}, in {text!r}"
            pairs.setdefault((rivals[0].source, row.source), example)
