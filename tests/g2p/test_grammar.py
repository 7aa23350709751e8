"""The grammar's tables and interpreter: the index is complete, no two rows of equal weight read one
text differently, longest match and weight decide, a decision is explained.
"""

import json
import random
import re
from pathlib import Path

import pytest

from kokoro_ane.g2p.bundled import DATA
from kokoro_ane.g2p.characters import clean
from kokoro_ane.g2p.grammar import Grammar, grammar_of
from kokoro_ane.g2p.grammar.__main__ import main
from kokoro_ane.g2p.grammar.conflicts import conflicts
from kokoro_ane.g2p.grammar.load import load
from kokoro_ane.g2p.grammar.starts import starts_of
from kokoro_ane.g2p.grammar.table import alternation, bounded

FOLDER = Path(__file__).parents[1] / "data" / "g2p"
# Nothing of the sealed sets
CORPORA = [
    *("normalize_cases", "markup", "plain_prose", "sentences", "typed", "typed_batches"),
    *("typed_last", "typed_newest", "typed_unseen", "typed_final", "heteronyms_dev"),
]
SETS = ["unit\tkg\tkilogram\tkilograms", "unit\tkm\tkilometer\tkilometers", "starter\tThe\t"]
SETS += ["ranged\tcardinal|measure\t", "greek\tα\talpha", "sym\t%\tpercent"]


def grammar(*rows: str, whitelist: tuple[str, ...] = ()) -> Grammar:
    """A small grammar of rows with their columns apart by tabs."""
    numbered = [(f"rows:{number}", row.split("\t")) for number, row in enumerate(rows, 1)]
    listed = [(f"whitelist:{number}", row.split("\t")) for number, row in enumerate(whitelist, 1)]
    sets = [(f"sets:{number}", row.split("\t")) for number, row in enumerate(SETS, 1)]
    return load("us", numbered, sets, listed)


def said(small: Grammar, text: str) -> str:
    return " ".join(token.text for token in small.normalize(text).tokens)


def test_the_longest_match_wins_then_the_weight() -> None:
    short, long = "a\t\t\\d\t\tdigit\t9", "b\t\t\\d\\d\t\tpair\t0"
    assert said(grammar(short, long), "12") == "pair"
    assert said(grammar(short, "c\t\t\\d\t\tnumber\t10"), "1") == "number"


def test_a_row_waits_for_its_context() -> None:
    small = grammar("a\tno \t\\d\t\tdigit\t0", "b\t\t\\d\t %\trate\t0", "c\t\t\\d\t\tnumber\t-1")
    assert said(small, "no 5") == "no digit"
    assert said(small, "in 5") == "in number"
    assert said(small, "5 %").startswith("rate")


def test_a_form_of_the_whitelist_stands_before_rows_of_its_length() -> None:
    row = "a\t\t\\d\t\tdigit\t5"
    assert said(grammar(row, whitelist=("7\tlucky\tgames",)), "7 8") == "lucky digit"
    longer = "b\t\t\\d \\d\t\tpair\t0"
    assert said(grammar(row, longer, whitelist=("7\tlucky\tgames",)), "7 8") == "pair"


def test_a_wrong_row_is_named() -> None:
    with pytest.raises(ValueError, match=r"rows:1: no slot and no word set is named 'nothing'"):
        grammar("a\t\t{nothing}\t\tx\t0")
    with pytest.raises(ValueError, match=r"rows:2: .*unterminated"):
        grammar("a\t\tx\t\tx\t0", "a\t\t(\t\tx\t0")
    with pytest.raises(ValueError, match="a slot and a word set are both named unit"):
        grammar("slot\tunit\tx")


def test_the_index_finds_every_row_that_matches() -> None:
    """By trying all rows at each word and sign of the written cases."""
    whole = grammar_of("us")
    rows = {row for listed in whole.by_word.values() for row in listed}
    rows |= {row for listed in whole.by_character.values() for row in listed}
    # behind a scheme of an address nothing begins a word
    rows = {row for row in rows if not row.previous}
    lines = (FOLDER / "normalize_cases.tsv").read_text(encoding="utf-8").split("\n")
    missed = []
    for line in lines[1::7]:
        text = clean(line.split("\t")[-2]).text if "\t" in line else ""
        for match in re.finditer(r"(?<![^\W\d_])\S", text):
            place = match.start()
            candidates = {row.number for row in whole.candidates(text, place)}
            missed += [
                (row.source, text, place)
                for row in rows
                if row.number not in candidates and whole.match(row, text, place, None) > place
            ]
    assert not missed


def test_what_begins_a_match() -> None:
    assert starts_of("(?:kg|lb)s?", open_end=False).words == {"kg", "kgs", "lb", "lbs"}
    assert starts_of("[0-9]{1,3}", open_end=False).characters == set("0123456789")
    assert starts_of("[Ee]d\\.", open_end=False).words == {"ed"}


def test_an_alternation_takes_the_longest_form() -> None:
    rng = random.Random(0)
    for _ in range(500):
        forms = {"".join(rng.choices("ab.", k=rng.randint(1, 4))) for _ in range(5)}
        plain = "|".join(map(re.escape, sorted(forms, key=lambda form: (-len(form), form))))
        text = "".join(rng.choices("ab.", k=6))
        for tail in ("", "(?=a)", "b"):
            wanted = re.match(f"(?:{plain}){tail}", text)
            reached = re.match(f"(?:{alternation(forms)}){tail}", text)
            assert (reached and reached[0]) == (wanted and wanted[0]), (forms, text)


def test_repetitions_are_bounded() -> None:
    assert bounded(r"a+b*c{2,}[+*]\+") == r"a{1,40}b{0,40}c{2,40}[+*]\+"


@pytest.mark.parametrize("dialect", ["us", "gb"])
def test_no_two_rows_of_equal_weight_read_one_text(
    dialect: str, capsys: pytest.CaptureFixture
) -> None:
    files = [str(FOLDER / f"{name}.tsv") for name in CORPORA]
    assert main(["--conflicts", *files, "--dialect", dialect]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["equal"] == 0


def test_a_conflict_is_found() -> None:
    small = grammar("a\t\t\\d\t\tdigit\t1", "b\t\t5\t\tfive\t1", "c\t\t6\t\tsix\t0")
    report = conflicts(small, ["5 and 6"])
    assert set(report.equal) == {("rows:1", "rows:2")}
    assert set(report.weighed) == {("rows:1", "rows:3")}


def test_a_missing_corpus_is_one_line(capsys: pytest.CaptureFixture) -> None:
    assert main(["--conflicts", "nothing.tsv"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_decision_names_its_row() -> None:
    lines = list(grammar_of("us").explain("5:30pm"))
    table = (DATA / "grammar" / "us.tsv").read_text(encoding="utf-8").split("\n")
    named = re.match(r"'5:30pm' -> 'five thirty \[PM\]': us\.tsv:(\d+), time", lines[0])
    assert named
    assert table[int(named[1]) - 1].startswith("time\t")
    assert any("not us.tsv" in line for line in lines[1:])


def test_british_rows_stand_over_american_ones() -> None:
    assert said(grammar_of("us"), "3-0") == "three to zero"
    assert said(grammar_of("gb"), "3-0") == "three nil"
