"""The bundled grammars: tables of g2p/data/grammar, read once.

grammar_of("us").normalize("5 kg")
"""

from collections.abc import Collection, Iterable
from functools import cache

from kokoro_g2p.errors import InputError
from kokoro_g2p.grammar.interpreter import Grammar
from kokoro_g2p.grammar.table import GrammarRow, Line, Slots, read_row, read_table
from kokoro_g2p.result import GB, Dialect


def grammar_of(dialect: Dialect, without: Collection[str] = ()) -> Grammar:
    """The bundled grammar of a dialect: `us.tsv`, and over it `gb.tsv` in British. `without`:
    domains of one-off forms that it leaves out. Raises InputError for an unknown one.
    """
    return _load_grammar(dialect, frozenset(without))


@cache
def _load_grammar(dialect: Dialect, without: frozenset[str]) -> Grammar:
    files = ["us.tsv"] + ["gb.tsv"] * (dialect == GB)
    lines = [line for name in files for line in read_table(name)]
    whitelist = list(read_table("whitelist.tsv"))
    domains = {columns[2] for _, columns in whitelist}
    for name in sorted(without - domains):
        raise InputError(f"no domain is named {name!r}: {', '.join(sorted(domains))}")
    forms = [line for line in whitelist if line[1][2] not in without]
    return load(dialect, lines, read_table("sets.tsv"), forms)


def load(
    dialect: Dialect, lines: list[Line], set_lines: Iterable[Line], whitelist: Iterable[Line]
) -> Grammar:
    """The grammar of a table's rows and slots. Raises ValueError that names a line which cannot be
    read.
    """
    grammar = Grammar(dialect, read_slots(lines, set_lines))
    for _, (written, words, _) in whitelist:
        grammar.add_literal(written, words)
    # Words of the whitelist are in the index already, with no row yet.
    by_word: dict[str, list[GrammarRow]] = {word: [] for word in grammar.by_word}
    by_character: dict[str, list[GrammarRow]] = {}
    every: list[GrammarRow] = []
    for source, columns in lines:
        if columns[0] == "slot":
            continue
        row, starts = read_row(len(every), columns, grammar.slots, source)
        every.append(row)
        # Sorted, so that a port's tables are the same whichever process writes them.
        for word in sorted(starts.words):
            by_word.setdefault(word, []).append(row)
        for character in sorted(starts.characters):
            by_character.setdefault(character, []).append(row)
    # one tuple for all places that try the same rows
    same: dict[tuple[int, ...], tuple[GrammarRow, ...]] = {}
    for index, table in ((grammar.by_word, by_word), (grammar.by_character, by_character)):
        for start, candidates in table.items():
            numbers = tuple(row.number for row in candidates)
            index[start] = same.setdefault(numbers, tuple(candidates))
    grammar.rows = tuple(every)
    return grammar


def read_slots(lines: list[Line], set_lines: Iterable[Line]) -> Slots:
    """Expressions and word sets by name; forms that are said alike share an entry."""
    expressions = {columns[1]: columns[2] for _, columns in lines if columns[0] == "slot"}
    sets: dict[str, dict[str, tuple[str, ...]]] = {}
    entries: dict[tuple[str, ...], tuple[str, ...]] = {}
    for _, (name, written, *spoken) in set_lines:
        for form in written.split("|"):
            # Every entry has three columns, whatever its line leaves out.
            entry = (*spoken, "", "", "")[:3]
            sets.setdefault(name, {})[form] = entries.setdefault(entry, entry)
    twice = sorted(expressions.keys() & sets.keys())
    if twice:
        raise ValueError(f"a slot and a word set are both named {', '.join(twice)}")
    return Slots(expressions, sets)
