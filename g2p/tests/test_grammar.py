"""The grammar's tables and interpreter: the index is complete, no two rows of equal weight read one
text differently, longest match and weight decide, a decision is explained.
"""

import json
import re
from pathlib import Path

import pytest

from kokoro_g2p.bundled import DATA
from kokoro_g2p.characters import clean
from kokoro_g2p.grammar import grammar_of
from kokoro_g2p.grammar.__main__ import main
from kokoro_g2p.grammar.conflicts import find_conflicts
from kokoro_g2p.grammar.load import load
from kokoro_g2p.grammar.starts import find_starts
from kokoro_g2p.grammar.table import build_alternation
from reader_tests.typed import rows

FOLDER = Path(__file__).parent / "data"
# Nothing of the sealed sets
CORPORA = [path for path in FOLDER.glob("*.tsv") if "sealed" not in path.name]
SETS = ("unit¦kg¦kilogram¦kilograms", "starter¦The¦", "ranged¦cardinal¦")


def small(rows, whitelist=""):
    """A grammar of rows one behind the other by ⏎, with their columns apart by ¦."""
    lines, forms, sets = (
        [(f"{name}:{number}", line.split("¦")) for number, line in enumerate(filter(None, text), 1)]
        for name, text in (
            ("rows", rows.split("⏎")),
            ("whitelist", whitelist.split("⏎")),
            ("sets", SETS),
        )
    )
    return load("us", lines, sets, forms)


def reading_of(reader, text):
    return " ".join(token.text for token in reader.normalize(text).tokens)


@pytest.mark.parametrize(("written", "whitelist", "text", "spoken"), rows("small_grammars"))
def test_small_grammars(written, whitelist, text, spoken):
    assert reading_of(small(written, whitelist), text) == spoken


def test_a_wrong_row_is_named():
    with pytest.raises(ValueError, match=r"rows:1: no slot and no word set is named 'nothing'"):
        small("a¦¦{nothing}¦¦x¦0")
    with pytest.raises(ValueError, match=r"rows:2: .*unterminated"):
        small("a¦¦x¦¦x¦0⏎a¦¦(¦¦x¦0")
    with pytest.raises(ValueError, match="a slot and a word set are both named unit"):
        small("slot¦unit¦x")


@pytest.mark.parametrize("dialect", ["us", "gb"])
def test_every_row_compiles_and_slots_change_no_beginning(dialect):
    grammar = grammar_of(dialect)
    assert grammar.compile() == len(grammar.rows) > 500
    listed = {row: set() for row in grammar.rows}
    for index in (grammar.by_word, grammar.by_character):
        for beginning, candidates in index.items():
            for row in candidates:
                listed[row].add(beginning)
    for row, beginnings in listed.items():
        expanded = grammar.slots.expand(row.columns[1], capture=False)
        starts = find_starts(expanded, row.open_end)
        assert beginnings == starts.words | starts.characters, row.source


def test_a_row_that_does_not_compile_is_named():
    grammar = small("a¦(¦x¦¦x¦0")
    with pytest.raises(ValueError, match=r"rows:1: .*unterminated"):
        grammar.compile()


def test_the_index_finds_every_row_that_matches():
    """By trying all rows at each word and sign of the written cases."""
    whole = grammar_of("us")
    every = {row for row in whole.rows if not row.previous}
    missed = []
    for case in rows("normalize_cases")[::7]:
        text = clean(case[3]).text
        for match in re.finditer(r"(?<![^\W\d_])\S", text):
            place = match.start()
            missed += [
                (row.source, text, place)
                for row in every.difference(whole.list_candidates(text, place))
                if (row_match := row.pattern.match(text, place))
                and whole.is_in_context(row, text, place, row_match, None)
            ]
    assert not missed


def test_an_alternation_takes_the_longest_form():
    assert build_alternation(["kg", "k", "kgs", "lb."]) == r"k(?:g(?:s)?)?|lb\."


@pytest.mark.parametrize("dialect", ["us", "gb"])
def test_no_two_rows_of_equal_weight_read_one_text(dialect, capsys):
    assert main(["--dialect", dialect, "--conflicts", *map(str, CORPORA)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["equal"] == 0


def test_a_conflict_is_found():
    report = find_conflicts(small("a¦¦\\d¦¦digit¦1⏎b¦¦5¦¦five¦1⏎c¦¦6¦¦six¦0"), ["5 and 6"])
    assert set(report.equal) == {("rows:1", "rows:2")}
    assert set(report.weighed) == {("rows:1", "rows:3")}


def test_a_decision_names_its_row():
    lines = list(grammar_of("us").explain("5:30pm"))
    table = (DATA / "grammar" / "us.tsv").read_text(encoding="utf-8").split("\n")
    named = re.match(r"'5:30pm' -> 'five thirty \[PM\]': us\.tsv:(\d+), time", lines[0])
    assert named
    assert table[int(named[1]) - 1].startswith("time\t")
    assert any("not us.tsv" in line for line in lines[1:])
