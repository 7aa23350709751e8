"""`make fuzz`: bad invocations, drawn by hypothesis (a few in `make test-slow`); and the controls
that they must catch.
"""

import os
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kokoro_ane.cli import COMMANDS
from tests.attacks.sweep import CALLS, Case, drawn, faults_of
from tests.attacks.world import HANG, TRACEBACK, Ended, World, going_to_work
from tests.commands import ROOT

COUNT = int(os.environ.get("COUNT", "120"))  # bad invocations


@pytest.fixture(scope="module")
def world(tiny_checkpoint, tiny_build, g2p_weights, tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world") / "w")
    return world.fill(tiny_checkpoint.folder, tiny_build, g2p_weights)


@pytest.mark.slow
@settings(max_examples=COUNT, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    draw=st.randoms(use_true_random=True),
    stdin=st.sampled_from([b"", b"Hello.", b"\xff\xfe", b"\0", os.fsencode("ü" * 50)]),
)
def test_bad_invocations(world, draw, stdin):
    world.put_back()
    case = drawn(draw, world)
    before = world.scan()
    with going_to_work():
        ended = world.forked(case.argv, stdin)
    assert not faults_of(case, ended, before, world.scan(), world.root), (case, ended)


def test_every_command_is_drawn():
    assert {call.split()[0] for call in CALLS} == {*COMMANDS, "rules"}


def test_security_names_tests_that_exist():
    """Of every row of its table: `FILE `test_name``, more than one of a file after each other."""
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("Which test holds")[2]
    rows, seen = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")][2:], 0
    for part in (part for row in rows for part in row.split(";")):
        file = ROOT / "tests" / "attacks" / f"test_{part.split()[0].rstrip(',')}.py"
        for name in re.findall(r"`(test_\w+)`", part):
            assert f"def {name}(" in file.read_text(encoding="utf-8"), (file, name)
            seen += 1
    assert len(rows) == 13
    assert seen > 30


CASE = Case(["quality", "--out", "user/new.json"], [])
THESIS = {"user/thesis/chapter.tex": b"1"}
BUILT, REFUSED = {"user/build/a.json": b"1"}, Ended(2, "error: x")
CONTROLS = [
    ("traceback", Ended(TRACEBACK, "ValueError: x"), {}, {}),
    ("traceback", Ended(7), {}, {}),
    ("traceback", Ended(-11), {}, {}),
    ("hang", Ended(HANG), {}, {}),
    ("unclear", Ended(2, "oh\n"), {}, {}),
    ("lost", REFUSED, THESIS, {}),
    ("lost", Ended(0), THESIS, {"user/thesis/chapter.tex": b"2"}),
    ("lost", REFUSED, BUILT, {"user/build/a.json": b"2"}),
    ("outside", Ended(0), {}, {"escaped": b""}),
    ("leftover", Ended(0), {}, {"user/.staged-abc": b""}),
    ("leftover", Ended(0), {}, {"tmp/tmpabcdefgh": b""}),
    ("leftover", REFUSED, {}, {"user/new.json": b""}),
]


@pytest.mark.parametrize("fault, ended, before, after", CONTROLS)
def test_the_sweep_sees_each_fault(fault, ended, before, after, tmp_path):
    assert list(faults_of(CASE, ended, before, after, tmp_path)) == [fault]


def test_the_sweep_sees_no_fault_where_there_is_none(tmp_path):
    case = Case(["quality", "--out", str(tmp_path / "user" / "new.json")], [])
    after = {"user/new.json": b"2", "cache/x": b""}
    assert not faults_of(case, Ended(0), {"user/new.json": b"1"}, after, tmp_path)
    assert not faults_of(case, REFUSED, THESIS, THESIS, tmp_path)
